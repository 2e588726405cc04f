/** An element in a line: role, name, and the states that matter. */

const MAX_VALUE = 100;
const MAX_HREF = 120;

/** @param {string} role @param {Name} name */
function headOf(role, name) {
  return name.text ? `${role} ${quoted(name.text, MAX_NAME)}` : role;
}

/** The role, or what comes nearest to one; at last the tag.
 * @param {Element} element */
function kindOf(element) {
  const role = roleOf(element);
  if (role) return role;
  const isUsed = isInteractive(element, role, isPointedAt(element, getComputedStyle(element)));
  return isUsed ? "clickable" : cleaned(tagOf(element), 40);
}

/** For sentences: `button "OK"`, or the tag with its id where there is no name.
 * @param {Element} element */
function inWords(element) {
  const kind = kindOf(element);
  const name = nameOf(element, kind);
  if (name.text) return headOf(kind, name);
  const text = contentOf(element, 60);
  const id = attribute(element, "id");
  return id ? `${kind} with the id ${quoted(id, 60)}` : text ? `${kind} ${quoted(text, 60)}` : kind;
}

/** States that matter, each after a space. A link's address is one where asked for, or where it has no name.
 * @param {Element} element @param {string} role @param {Name} name @param {boolean} withAddress */
function statesOf(element, role, name, withAddress) {
  const states = [...choiceStates(element, role), ...useStates(element)];
  if (role === "heading") states.push(`level=${headingLevel(element)}`);
  const type = element instanceof HTMLInputElement ? element.type : "";
  if (["textbox", "combobox", "button"].includes(role) && !["", "text", "submit", "button"].includes(type)) {
    states.push(`type=${type}`);
  }
  const value = shownValue(element);
  if (value && value !== name.text && role !== "option") states.push(`value=${quoted(value, MAX_VALUE)}`);
  states.push(...boundStates(element));
  const placeholder = attribute(element, "placeholder");
  if (placeholder && name.from !== "placeholder") states.push(`placeholder=${quoted(placeholder, MAX_VALUE)}`);
  const isAddressed = role === "link" && hasAttribute(element, "href") && (withAddress || !name.text);
  if (isAddressed) states.push(`href=${quoted(shortHref(element), MAX_HREF)}`);
  return states.map((state) => ` ${state}`).join("");
}

/** @param {Element} element @param {string} role */
function choiceStates(element, role) {
  const states = [];
  const checked = checkedState(element);
  if (checked === "mixed") states.push("checked=mixed");
  else if (checked === "true") states.push("checked");
  if (element instanceof HTMLOptionElement ? element.selected : attribute(element, "aria-selected") === "true") {
    states.push("selected");
  }
  const pressed = attribute(element, "aria-pressed");
  if (pressed === "true" || pressed === "mixed") states.push(pressed === "true" ? "pressed" : "pressed=mixed");
  const expanded = expandedState(element, role);
  if (expanded) states.push(expanded);
  const current = attribute(element, "aria-current");
  if (current && current !== "false")
    states.push(/^(page|step|location|date|time)$/.test(current) ? `current=${current}` : "current");
  return states;
}

/** @param {Element} element */
function checkedState(element) {
  if (element instanceof HTMLInputElement && (element.type === "checkbox" || element.type === "radio")) {
    return element.indeterminate ? "mixed" : String(element.checked);
  }
  return attribute(element, "aria-checked");
}

/** @param {Element} element @param {string} role */
function expandedState(element, role) {
  const parent = parentNodeOf(element);
  if (tagOf(element) === "summary" && parent instanceof HTMLDetailsElement)
    return parent.open ? "expanded" : "collapsed";
  const expanded = attribute(element, "aria-expanded");
  if (expanded === "true" || expanded === "false") return expanded === "true" ? "expanded" : "collapsed";
  const popup = attribute(element, "aria-haspopup");
  return popup && popup !== "false" && role !== "combobox" ? "haspopup" : "";
}

/** @param {Element} element */
function useStates(element) {
  const states = [];
  if (isDisabled(element)) states.push("disabled");
  if (isReadOnly(element)) states.push("readonly");
  if (hasAttribute(element, "required") || attribute(element, "aria-required") === "true") states.push("required");
  const invalid = attribute(element, "aria-invalid");
  if (invalid && invalid !== "false") states.push("invalid");
  if (element instanceof HTMLSelectElement && element.multiple) states.push("multiple");
  if (deepFocus() === element) states.push("focused");
  return states;
}

/** @param {Element} element */
function isDisabled(element) {
  return matches(element, ":disabled") || closest(element, "[aria-disabled=true]") !== null;
}

/** @param {Element} element */
function isReadOnly(element) {
  const has = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement;
  return (has && element.readOnly) || attribute(element, "aria-readonly") === "true";
}

/** @param {Element} element */
function headingLevel(element) {
  const own = Number.parseInt(attribute(element, "aria-level") ?? "", 10);
  return own > 0 ? own : /^h[1-6]$/.test(tagOf(element)) ? Number(tagOf(element)[1]) : 2;
}

/** Value of a control, as the user sees it.
 * @param {Element} element */
function shownValue(element) {
  if (element instanceof HTMLInputElement) return inputValue(element);
  if (element instanceof HTMLTextAreaElement) return cleaned(element.value, MAX_VALUE);
  if (element instanceof HTMLSelectElement) {
    const labels = Array.from(element.selectedOptions)
      .slice(0, 10)
      .map((option) => cleaned(option.label, MAX_VALUE));
    return cleaned(labels.join(", "), MAX_VALUE);
  }
  if (element instanceof HTMLMeterElement || element instanceof HTMLProgressElement) return String(element.value);
  if (isEditingHost(element)) return contentOf(element, MAX_VALUE);
  return cleaned(attribute(element, "aria-valuetext") ?? attribute(element, "aria-valuenow") ?? "", MAX_VALUE);
}

/** @param {HTMLInputElement} input */
function inputValue(input) {
  if (["checkbox", "radio", "submit", "reset", "button", "image", "hidden"].includes(input.type)) return "";
  if (input.type === "password") return input.value ? "•••" : "";
  if (input.type === "file")
    return cleaned(
      Array.from(input.files ?? [])
        .map((file) => file.name)
        .join(", "),
      MAX_VALUE,
    );
  return cleaned(input.value, MAX_VALUE);
}

/** @param {Element} element */
function boundStates(element) {
  if (!(element instanceof HTMLInputElement)) return [];
  const names = ["min", "max", "step", "accept"].filter((name) => hasAttribute(element, name));
  return names.map((name) => `${name}=${quoted(attribute(element, name) ?? "", 40)}`);
}

/** Without our own origin.
 * @param {Element} link */
function shortHref(link) {
  const href = attribute(link, "href") ?? "";
  if (href.length > 4 * MAX_HREF) return href;
  try {
    const url = new URL(href, baseOf(document));
    return url.origin === location.origin ? url.pathname + url.search + url.hash : url.href;
  } catch {
    return href;
  }
}

/** What has the focus, through shadow trees.
 * @returns {Element | null} */
function deepFocus() {
  let focused = focusedIn(document);
  for (let depth = 0; focused && depth < 100; depth++) {
    const inner = shadowOf(focused)?.activeElement;
    if (!inner) break;
    focused = inner;
  }
  return focused;
}

/** @param {{ref: number}} given */
function describeElement({ ref }) {
  const element = elementOf(ref);
  const role = kindOf(element);
  const name = nameOf(element, role);
  const line = headOf(role, name) + statesOf(element, role, name, true);
  return { ref, role, name: name.text, tag: cleaned(tagOf(element), 40), line };
}
