/** What has the focus, and what is selected. */

const MAX_SELECTION = 500;

function focusInfo() {
  const focused = deepFocus();
  if (!focused || focused === bodyOf(document) || focused === documentElementOf(document)) {
    return {
      ref: 0,
      role: "",
      name: "",
      editable: false,
      takesKeys: false,
      isFrame: false,
      selection: selectedText(null),
      next: nextRef,
    };
  }
  const role = kindOf(focused);
  return {
    ref: refOf(focused),
    role,
    name: nameOf(focused, role).text,
    editable: takesText(focused),
    takesKeys: ["editor", "date"].includes(controlKind(focused)),
    isFrame: role === "iframe",
    selection: selectedText(focused),
    next: nextRef,
  };
}

/** @param {Element} element */
function takesText(element) {
  const kind = controlKind(element);
  if (kind === "editor") return true;
  return ["text", "number", "date"].includes(kind) && !isDisabled(element) && !isReadOnly(element);
}

/** @param {Element | null} focused */
function selectedText(focused) {
  return cleaned(selectionOf(focused), MAX_SELECTION);
}

/** @param {Element | null} focused */
function selectionOf(focused) {
  if (focused instanceof HTMLInputElement && focused.type === "password") return ""; // browsers copy none of it
  if (focused instanceof HTMLTextAreaElement || focused instanceof HTMLInputElement) {
    const { selectionStart, selectionEnd } = focused;
    if (selectionStart !== null) return focused.value.slice(selectionStart, selectionEnd ?? selectionStart);
  }
  return String(getSelection() ?? "");
}

/** The text that a copy key takes, whole or not at all.
 * @param {{maxChars: number}} given */
function copySelection({ maxChars }) {
  const text = selectionOf(deepFocus());
  return { chars: text.length, text: text.length > maxChars ? "" : text };
}

/** Selects all text of an element, and gives it the focus if it takes one.
 * @param {{ref: number}} given */
function selectText({ ref }) {
  const element = elementOf(ref);
  if (element instanceof HTMLElement) focusOn(element, { preventScroll: true });
  selectAllOf(element);
  return focusInfo();
}

/** @param {Element} element */
function selectAllOf(element) {
  if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) element.select();
  else getSelection()?.selectAllChildren(element);
}
