/** Form controls by what they are called, and the button that sends their form. */

const MAX_FIELDS = 10;

/**
 * How well a control fits a label, 0 the best: its name; its name without marks; placeholder, `name`, `id` or
 * `autocomplete`; the beginning of its name; a part of it. In a group of choices, the group's name with the choice as
 * the value counts as the name.
 *
 * @typedef {{ref: number, role: string, name: string, isChoice: boolean}} Field
 */

/**
 * Controls that fit a label best. `isChoice`: it is the choice that the value names, to be switched on. `origin`: that
 * of the document.
 *
 * @param {{label: string, value?: Value}} given
 * @returns {{origin: string, rank: number | null, fields: Field[], next: number}}
 */
function fieldsLabelled({ label, value }) {
  const wanted = folded(cleaned(label, MAX_NAME));
  const choice = typeof value === "string" ? folded(cleaned(value, MAX_NAME)) : null;
  let best = Infinity;
  /** @type {[Element, boolean][]} */
  let found = [];
  for (const control of controlsIn(documentElementOf(document))) {
    const [rank, isChoice] = rankOf(control, wanted, choice);
    if (rank > best) continue;
    if (rank < best) found = [];
    best = rank;
    if (rank < Infinity) found.push([control, isChoice]);
  }
  const fields = found.slice(0, MAX_FIELDS).map(([control, isChoice]) => {
    const role = kindOf(control);
    return { ref: refOf(control), role, name: nameOf(control, role).text, isChoice };
  });
  return { origin: self.origin, rank: best === Infinity ? null : best, fields, next: nextRef };
}

/** @param {Element} start @returns {Generator<Element>} those that can be filled, in the order of the page */
function* controlsIn(start) {
  /** @type {Node[]} */
  const waiting = [start];
  for (let seen = 0; waiting.length && seen < MAX_WALK; seen++) {
    const node = /** @type {Node} */ (waiting.pop());
    if (!(node instanceof Element)) continue;
    if (SILENT.has(tagOf(node))) continue;
    if (controlKind(node) !== "none" && isUsable(node)) yield node;
    for (const child of shownChildren(node).reverse()) waiting.push(child);
  }
}

/** Shown, or standing for something that is: a styled checkbox is often hidden itself.
 * @param {Element} control */
function isUsable(control) {
  if (isRendered(control)) return true;
  return control instanceof HTMLInputElement && Array.from(control.labels ?? []).some((label) => isRendered(label));
}

/** @param {Element} control @param {string} wanted @param {string | null} choice @returns {[number, boolean]} */
function rankOf(control, wanted, choice) {
  const name = folded(nameOf(control, kindOf(control)).text);
  const isChoice = ["choice", "aria"].includes(controlKind(control));
  if (isChoice && choice !== null && name === choice && groupNameOf(control) === wanted) return [0, true];
  if (name === wanted) return [0, false];
  if (bareName(name) === bareName(wanted)) return [1, false];
  const others = ["placeholder", "aria-placeholder", "name", "id", "autocomplete"];
  if (others.some((other) => folded(attribute(control, other) ?? "") === wanted)) return [2, false];
  if (name.startsWith(wanted)) return [3, false];
  return [name.includes(wanted) ? 4 : Infinity, false];
}

/** Without the marks that pages put behind names of fields.
 * @param {string} name */
function bareName(name) {
  return name.replace(/(\s*[*:?…]|\s*\((required|optional)\))+$/u, "").trim();
}

/** @param {Element} control */
function groupNameOf(control) {
  for (let at = shownParent(control); at; at = shownParent(at)) {
    const role = roleOf(at);
    if (!["group", "radiogroup"].includes(role)) continue;
    const { text } = nameOf(at, role);
    if (text) return folded(text);
  }
  return "";
}

/**
 * The button that sends the form of an element; 0: no such button.
 *
 * @param {{ref: number}} given
 */
function submitterOf({ ref }) {
  const element = controlOf(elementOf(ref));
  const form = closest(element, "form");
  const buttons = form ? queryAll(form, "button, input[type=submit], input[type=image]") : [];
  const button = Array.from(buttons).find((each) => isSubmitter(each) && isRendered(each));
  return { ref: button ? refOf(button) : 0, next: nextRef };
}

/** @param {Element} button */
function isSubmitter(button) {
  return button instanceof HTMLButtonElement ? button.type === "submit" : true;
}
