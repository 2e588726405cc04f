/**
 * Values for form controls, in a way that a page notices: set by the browser's own setter, which frameworks that watch
 * theirs cannot undo, then reported by `input` and `change`. The control keeps the focus, as it does after typing.
 */

const MAX_LISTED = 20;
/** How long a page's own widget may take to show what was done. */
const SETTLE_MS = 500;

/** @typedef {string | number | boolean} Value */
/** What `fill` answers; `options`: what could have been chosen.
 * @typedef {{ok: boolean, was: string, now: string, role: string, name: string, kind: string}} Filled */

/** @param {{ref: number, value: Value}} given @returns {Promise<Filled>} */
async function fillIn({ ref, value }) {
  const element = controlOf(elementOf(ref));
  const kind = controlKind(element);
  refuseUnusable(element, kind);
  const was = heldBy(element, kind);
  const wanted = await FILLERS[kind](element, value);
  const now = heldBy(element, kind);
  const role = kindOf(element);
  const shown = (/** @type {string} */ text) => (isSecret(element) && text ? "•••" : cleaned(text, MAX_VALUE));
  return { ok: now === wanted, was: shown(was), now: shown(now), role, name: nameOf(element, role).text, kind };
}

/** @param {Element} element */
function isSecret(element) {
  return element instanceof HTMLInputElement && element.type === "password";
}

/** A label means its control.
 * @param {Element} element */
function controlOf(element) {
  return element instanceof HTMLLabelElement && element.control ? element.control : element;
}

/**
 * Puts the value in, and gives what must be there then.
 * @typedef {(element: any, value: Value) => string | Promise<string>} Filler
 */

/** @type {Record<"text" | "number" | "date" | "color" | "choice" | "select" | "editor" | "aria" | "none", Filler>} */
const FILLERS = {
  text: fillText,
  number: fillNumber,
  date: fillDate,
  color: fillColor,
  choice: fillChoice,
  select: fillSelect,
  editor: fillEditor,
  aria: fillAria,
  none: refuseOther,
};

/** @param {Element} element @returns {keyof typeof FILLERS} */
function controlKind(element) {
  if (element instanceof HTMLTextAreaElement) return "text";
  if (element instanceof HTMLSelectElement) return "select";
  if (element instanceof HTMLInputElement) {
    if (Object.hasOwn(DATED, element.type)) return "date";
    if (element.type === "number" || element.type === "range") return "number";
    if (element.type === "color") return "color";
    if (element.type === "checkbox" || element.type === "radio") return "choice";
    return ["text", "search", "url", "tel", "email", "password"].includes(element.type) ? "text" : "none";
  }
  if (element instanceof HTMLElement && isEditable(element)) return "editor";
  return ["checkbox", "switch", "radio", "menuitemcheckbox", "menuitemradio"].includes(roleOf(element))
    ? "aria"
    : "none";
}

/** @param {Element} element @param {string} kind */
function refuseUnusable(element, kind) {
  if (isDisabled(element)) throw failure("disabled", `The ${inWords(element)} is disabled.`);
  if (kind !== "none" && isReadOnly(element)) throw failure("disabled", `The ${inWords(element)} is read-only.`);
  // What shows a checkbox or a choice is often another element than the control itself.
  const mayHide = kind === "choice" || kind === "select" || kind === "none";
  if (!mayHide && !isRendered(element)) throw failure("hidden", `The ${inWords(element)} is not shown.`);
}

/** @param {Element} element @param {string} kind */
function heldBy(element, kind) {
  if (kind === "choice" || kind === "aria") return checkedState(element) ?? "false";
  if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) return element.value;
  if (element instanceof HTMLSelectElement) return labelsOf(element.selectedOptions);
  return element instanceof HTMLElement ? editorText(element) : "";
}

const setInput = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
const setTextArea = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value")?.set;

/** @param {HTMLInputElement | HTMLTextAreaElement} control @param {string} value */
function setValue(control, value) {
  (control instanceof HTMLTextAreaElement ? setTextArea : setInput)?.call(control, value);
}

/** @param {Element} control @param {string | null} data */
function tell(control, data = null) {
  const inputType = "insertReplacementText";
  dispatch(control, new InputEvent("input", { bubbles: true, composed: true, inputType, data }));
  dispatch(control, new Event("change", { bubbles: true }));
}

/** @param {HTMLInputElement | HTMLTextAreaElement} control @param {Value} value */
function fillText(control, value) {
  const text = String(value);
  if (control.maxLength >= 0 && text.length > control.maxLength) {
    throw failure("unfit", `The ${inWords(control)} takes at most ${control.maxLength} characters.`);
  }
  if (control instanceof HTMLInputElement && /[\r\n]/.test(text)) {
    throw failure("unfit", `The ${inWords(control)} takes one line.`);
  }
  focusOn(control, { preventScroll: true });
  setValue(control, text);
  const wanted = control.value;
  tell(control, text);
  return wanted;
}

/** The browser itself says which numbers, dates and colors it takes; no event is sent before that.
 * @param {HTMLInputElement} control @param {string} value @param {string} form */
function setExactly(control, value, form) {
  const was = control.value;
  setValue(control, value);
  const { rangeUnderflow, rangeOverflow, stepMismatch } = control.validity;
  const isTaken =
    control.type === "range" ? Number(control.value) === Number(value) : control.value !== "" || value === "";
  if (!isTaken || rangeUnderflow || rangeOverflow || stepMismatch) {
    setValue(control, was);
    throw failure("unfit", `The ${inWords(control)} takes ${form}${boundsOf(control)}, not ${quoted(value, 40)}.`);
  }
  focusOn(control, { preventScroll: true });
  const wanted = control.value;
  tell(control, wanted);
  return wanted;
}

/** @param {HTMLInputElement} control */
function boundsOf(control) {
  const isRange = control.type === "range";
  const min = control.min || (isRange ? "0" : "");
  const max = control.max || (isRange ? "100" : "");
  const step = control.step || (isRange ? "1" : "");
  const parts = [
    min && `from ${cleaned(min, 40)}`,
    max && `to ${cleaned(max, 40)}`,
    step && step !== "any" && `in steps of ${cleaned(step, 40)}`,
  ];
  const said = parts.filter(Boolean).join(" ");
  return said && ` ${said}`;
}

/** @param {HTMLInputElement} control @param {Value} value */
function fillNumber(control, value) {
  const text = String(value).trim();
  if (text === "" && control.type === "number") return setExactly(control, "", "a number");
  if (typeof value === "boolean" || !/^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) {
    throw failure(
      "unfit",
      `The ${inWords(control)} takes a number such as 1234.5${boundsOf(control)}, not ${quoted(text, 40)}.`,
    );
  }
  return setExactly(control, text.replace(/^\+/, "").replace(/\.$/, ""), "a number");
}

/** @param {HTMLInputElement} control @param {Value} value */
function fillDate(control, value) {
  const { read, form } = /** @type {NonNullable<(typeof DATED)[string]>} */ (DATED[control.type]);
  const text = String(value).trim();
  const dated = text && read(text);
  if (dated === null) {
    throw failure(
      "unfit",
      `The ${inWords(control)} takes a ${control.type} in the form ${form}, not ${quoted(text, 40)}.`,
    );
  }
  return setExactly(control, dated, `a ${control.type} in the form ${form}`);
}

/** @param {HTMLInputElement} control @param {Value} value */
function fillColor(control, value) {
  const color = hexOf(String(value).trim());
  if (!color) {
    throw failure(
      "unfit",
      `The ${inWords(control)} takes an opaque color such as #ff8800 or teal, not ${quoted(String(value), 40)}.`,
    );
  }
  return setExactly(control, color, "a color such as #ff8800");
}

/** Any color that CSS knows, as `#rrggbb`; null for others, and for those that are not opaque.
 * @param {string} text */
function hexOf(text) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  if (!pen || !CSS.supports("color", text)) return null;
  pen.fillStyle = text;
  const color = String(pen.fillStyle);
  return /^#[0-9a-f]{6}$/.test(color) ? color : null;
}

/** @param {Element} element @param {Value} value */
function truthOf(element, value) {
  const word = String(value).trim().toLowerCase();
  if (["true", "on", "yes", "1", "checked"].includes(word)) return true;
  if (["false", "off", "no", "0", "unchecked", ""].includes(word)) return false;
  throw failure("unfit", `The ${inWords(element)} takes true or false, not ${quoted(String(value), 40)}.`);
}

/** @param {HTMLInputElement} control @param {Value} value */
function fillChoice(control, value) {
  const wanted = truthOf(control, value);
  if (!wanted && control.type === "radio" && control.checked) {
    throw failure("unfit", `The ${inWords(control)} is one of several choices: set another one to true.`);
  }
  if (control.checked !== wanted || control.indeterminate) {
    focusOn(control, { preventScroll: true });
    clickOn(control);
  }
  return String(wanted);
}

/** A widget that a script has made: it is clicked, and then says itself what it is.
 * @param {HTMLElement} element @param {Value} value */
async function fillAria(element, value) {
  const wanted = String(truthOf(element, value));
  if ((checkedState(element) ?? "false") === wanted) return wanted;
  focusOn(element, { preventScroll: true });
  clickOn(element);
  await until(() => (checkedState(element) ?? "false") === wanted);
  return wanted;
}

/** @param {Iterable<HTMLOptionElement>} options */
function labelsOf(options) {
  return Array.from(options, (option) => cleaned(option.label, MAX_VALUE)).join(", ");
}

/** @param {HTMLSelectElement} select @param {Value} value */
function fillSelect(select, value) {
  const chosen = select.multiple ? severalOf(select, String(value)) : [optionOf(select, String(value))];
  const unusable = chosen.find((option) => matches(option, ":disabled"));
  if (unusable) throw failure("disabled", `The option ${quoted(unusable.label, MAX_VALUE)} is disabled.`);
  focusOn(select, { preventScroll: true });
  for (const option of Array.from(select.options)) {
    const wanted = chosen.includes(option);
    if (option.selected !== wanted && (wanted || select.multiple)) option.selected = wanted;
  }
  const wanted = labelsOf(select.selectedOptions);
  tell(select);
  return wanted;
}

/** By value, then by label, then by the beginning of one label alone.
 * @param {HTMLSelectElement} select @param {string} value */
function optionOf(select, value) {
  const options = Array.from(select.options);
  const word = spaced(value);
  const exact =
    options.find((option) => option.value === value) ?? options.find((option) => option.label.trim() === value.trim());
  if (exact) return exact;
  const alike = options.filter((option) => spaced(option.label) === word);
  const begun = alike.length ? alike : options.filter((option) => word && spaced(option.label).startsWith(word));
  const [only] = begun;
  if (only && begun.length === 1) return only;
  if (begun.length) throw failure("unfit", `${quoted(value, 40)} may mean ${listed(begun)}.`);
  throw failure("unfit", `The ${inWords(select)} has no option ${quoted(value, 40)}: it has ${listed(options)}.`);
}

/** A JSON list, one label, or labels with commas between them.
 * @param {HTMLSelectElement} select @param {string} value */
function severalOf(select, value) {
  if (value.trim() === "") return [];
  try {
    const list = JSON.parse(value);
    if (Array.isArray(list)) return list.map((item) => optionOf(select, String(item)));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const whole = Array.from(select.options).find(
    (option) => option.value === value || spaced(option.label) === spaced(value),
  );
  return whole ? [whole] : value.split(",").map((label) => optionOf(select, label.trim()));
}

/** @param {HTMLOptionElement[]} options */
function listed(options) {
  const labels = options.slice(0, MAX_LISTED).map((option) => quoted(option.label || option.value, 60));
  const more = options.length - labels.length;
  return labels.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** @param {HTMLElement} element */
function editorText(element) {
  return element.innerText.replace(/\s+/g, " ").trim();
}

/** Typed over all of it, so that the editor's own script sees an edit, or makes it.
 * @param {HTMLElement} element @param {Value} value */
async function fillEditor(element, value) {
  const text = String(value);
  const wanted = text.replace(/\s+/g, " ").trim();
  focusOn(element, { preventScroll: true });
  selectAllOf(element);
  const edit = text ? { inputType: "insertText", data: text } : { inputType: "deleteContentBackward" };
  // execCommand leaves this one out, and editors that keep their text themselves hear nothing else.
  const isOurs = dispatch(
    element,
    new InputEvent("beforeinput", { bubbles: true, cancelable: true, composed: true, ...edit }),
  );
  if (isOurs) execute(document, text ? "insertText" : "delete", false, text);
  await until(() => editorText(element) === wanted);
  return wanted;
}

/** Scripts of pages often change what is shown a moment later.
 * @param {() => boolean} condition */
async function until(condition) {
  const end = performance.now() + SETTLE_MS;
  while (!condition() && performance.now() < end) await nextFrame();
}

/** @param {Element} element @returns {never} */
function refuseOther(element) {
  const role = roleOf(element);
  const what = inWords(element);
  if (element instanceof HTMLInputElement) {
    if (element.type === "file") throw failure("unfit", `The ${what} takes files: use file_upload or upload_image.`);
    if (element.type === "hidden") throw failure("hidden", `The ${what} is a hidden field, which users cannot fill in.`);
  }
  if (role === "combobox" || role === "listbox")
    throw failure("unfit", `The ${what} is the page's own: click it, then click an option.`);
  if (role === "slider" || role === "spinbutton")
    throw failure("unfit", `The ${what} is the page's own: click it, then press arrow keys.`);
  if (role === "textbox" || role === "searchbox")
    throw failure("unfit", `The ${what} is the page's own: click it, then type.`);
  if (isInteractive(element, role, false)) throw failure("unfit", `The ${what} has no value: click it.`);
  throw failure("unfit", `The ${what} is no form control.`);
}
