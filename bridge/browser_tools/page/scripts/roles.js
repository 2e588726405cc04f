/** What an element is, in the words of ARIA: its own role, else what its tag means (HTML-AAM). */

/** Where several elements make one sentence (`em`, `code`, …) they are not distinguished: "" is without meaning.
 * @type {Record<string, string>} */
const TAG_ROLES = {
  article: "article",
  aside: "complementary",
  audio: "audio",
  blockquote: "blockquote",
  button: "button",
  canvas: "canvas",
  caption: "caption",
  dd: "definition",
  details: "group",
  dialog: "dialog",
  dt: "term",
  embed: "embed",
  fieldset: "group",
  figure: "figure",
  frame: "iframe",
  h1: "heading",
  h2: "heading",
  h3: "heading",
  h4: "heading",
  h5: "heading",
  h6: "heading",
  hr: "separator",
  iframe: "iframe",
  li: "listitem",
  main: "main",
  math: "math",
  menu: "list",
  meter: "meter",
  nav: "navigation",
  object: "embed",
  ol: "list",
  optgroup: "group",
  option: "option",
  output: "status",
  p: "paragraph",
  progress: "progressbar",
  search: "search",
  summary: "button",
  table: "table",
  td: "cell",
  textarea: "textbox",
  tr: "row",
  ul: "list",
  video: "video",
};

/** @type {Record<string, string>} */
const INPUT_ROLES = {
  button: "button",
  checkbox: "checkbox",
  file: "button",
  hidden: "",
  image: "button",
  number: "spinbutton",
  radio: "radio",
  range: "slider",
  reset: "button",
  search: "searchbox",
  submit: "button",
};

const ARIA_ROLES = new Set(
  (
    "alert alertdialog application article banner blockquote button caption cell checkbox code columnheader combobox " +
    "complementary contentinfo definition deletion dialog directory document emphasis feed figure form generic grid " +
    "gridcell group heading img image insertion link list listbox listitem log main mark marquee math menu menubar " +
    "menuitem menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar " +
    "radio radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status " +
    "strong subscript superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree " +
    "treegrid treeitem"
  ).split(" "),
);
/** Roles that mean no more than the text inside. */
const MEANINGLESS = new Set(
  "none presentation generic rowgroup code deletion emphasis insertion mark strong subscript superscript time".split(
    " ",
  ),
);
const INTERACTIVE = new Set(
  (
    "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option radio scrollbar searchbox " +
    "slider spinbutton switch tab textbox treeitem"
  ).split(" "),
);
const NAMED_BY_CONTENT = new Set(
  (
    "button cell checkbox clickable columnheader gridcell heading link menuitem menuitemcheckbox menuitemradio option " +
    "radio rowheader switch tab tooltip treeitem"
  ).split(" "),
);
const SECTIONING = "article, aside, main, nav, section, [role=article], [role=main], [role=navigation], [role=region]";

/** @param {Element} element @returns {string} "" where it means nothing by itself. */
function roleOf(element) {
  const own = ownRole(element);
  if (own && MEANINGLESS.has(own)) return isFocusable(element) ? tagRole(element) : "";
  return own || tagRole(element);
}

/** The first role that exists, as ARIA wants it.
 * @param {Element} element */
function ownRole(element) {
  const words = attribute(element, "role");
  if (!words) return "";
  const role =
    words
      .slice(0, 200)
      .toLowerCase()
      .split(/\s+/)
      .find((word) => ARIA_ROLES.has(word)) ?? "";
  return role === "image" ? "img" : role;
}

/** @param {Element} element */
function tagRole(element) {
  const tag = tagOf(element);
  switch (tag) {
    case "a":
    case "area":
      return hasAttribute(element, "href") ? "link" : editableRole(element);
    case "img":
      return attribute(element, "alt") === "" && !hasAttribute(element, "title") ? "" : "img";
    case "input":
      return inputRole(/** @type {HTMLInputElement} */ (element));
    case "select":
      return isListBox(/** @type {HTMLSelectElement} */ (element)) ? "listbox" : "combobox";
    case "header":
    case "footer":
      if (closest(element, SECTIONING)) return "";
      return tag === "header" ? "banner" : "contentinfo";
    case "section":
    case "form":
      return hasOwnName(element) ? (tag === "form" ? "form" : "region") : "";
    case "svg":
      return hasOwnName(element) || queryAll(element, ":scope > title").length ? "img" : "";
    case "th":
      return attribute(element, "scope") === "row" ? "rowheader" : "columnheader";
    default:
      return (Object.hasOwn(TAG_ROLES, tag) && TAG_ROLES[tag]) || editableRole(element);
  }
}

/** @param {HTMLInputElement} input */
function inputRole(input) {
  if (Object.hasOwn(INPUT_ROLES, input.type)) return String(INPUT_ROLES[input.type]);
  return hasAttribute(input, "list") ? "combobox" : "textbox";
}

/** @param {HTMLSelectElement} select */
function isListBox(select) {
  return select.multiple || select.size > 1;
}

/** @param {Element} element */
function editableRole(element) {
  return isEditingHost(element) ? "textbox" : "";
}

/** @param {Element} element */
function isEditingHost(element) {
  const editable = attribute(element, "contenteditable");
  return editable !== null && /^(true|plaintext-only|)$/i.test(editable);
}

/** @param {Element} element */
function hasOwnName(element) {
  return hasAttribute(element, "aria-label") || hasAttribute(element, "aria-labelledby");
}

/** @param {Element} element */
function isFocusable(element) {
  const index = attribute(element, "tabindex");
  return (index !== null && Number(index) >= 0) || INTERACTIVE.has(tagRole(element));
}

/** An element that a user would act on.
 * @param {Element} element @param {string} role @param {boolean} isPointed the pointer changes over it */
function isInteractive(element, role, isPointed) {
  if (INTERACTIVE.has(role) || isPointed || isEditingHost(element)) return true;
  const index = attribute(element, "tabindex");
  if (index !== null && Number(index) >= 0) return true;
  return (
    hasAttribute(element, "onclick") ||
    attribute(element, "draggable") === "true" ||
    ((role === "video" || role === "audio") && hasAttribute(element, "controls"))
  );
}

/** The pointer says “click” here and not around it: scripts listen unseen.
 * @param {Element} element @param {CSSStyleDeclaration} style */
function isPointedAt(element, style) {
  if (style.cursor !== "pointer") return false;
  const parent = shownParent(element);
  return parent !== null && getComputedStyle(parent).cursor !== "pointer";
}
