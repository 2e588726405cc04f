/** The accessible name of an element, by the steps of the accname specification that pages use. */

const MAX_NAME = 200;
/** Nodes that are looked at for the text of one name. */
const MAX_NAME_NODES = 500;
/** What is below an item of a tree or a menu has names of its own. */
const INNER_LISTS = new Set(["group", "menu", "listbox"]);

/**
 * @typedef {object} Name
 * @property {string} text one printable line, at most MAX_NAME characters
 * @property {"" | "label" | "content" | "title" | "placeholder"} from
 */

/** @param {Element} element @param {string} role @returns {Name} */
function nameOf(element, role) {
  const label = labelOf(element);
  if (label) return { text: label, from: "label" };
  if (NAMED_BY_CONTENT.has(role)) {
    const content = contentOf(element, MAX_NAME);
    if (content) return { text: content, from: "content" };
  }
  for (const from of /** @type {const} */ (["title", "placeholder"])) {
    const text = cleaned(attribute(element, from) ?? attribute(element, `aria-${from}`) ?? "", MAX_NAME);
    if (text) return { text, from };
  }
  return { text: "", from: "" };
}

/** @param {Element} element */
function labelOf(element) {
  return labelledBy(element) || cleaned(attribute(element, "aria-label") ?? "", MAX_NAME) || tagLabel(element);
}

/** @param {Element} element */
function labelledBy(element) {
  const ids = attribute(element, "aria-labelledby");
  if (!ids) return "";
  const texts = [];
  for (const id of ids.slice(0, 1_000).split(/\s+/).slice(0, 10)) {
    const other = id ? elementById(element, id) : null;
    if (other)
      texts.push(cleaned(attribute(other, "aria-label") ?? "", MAX_NAME) || contentOf(other, MAX_NAME, null, true));
  }
  return cleaned(texts.join(" "), MAX_NAME);
}

/** What the tag itself is labelled by.
 * @param {Element} element */
function tagLabel(element) {
  switch (tagOf(element)) {
    case "input":
    case "select":
    case "textarea":
    case "button":
    case "meter":
    case "progress":
    case "output":
      return controlLabel(/** @type {HTMLInputElement} */ (element));
    case "img":
    case "area":
      return cleaned(attribute(element, "alt") ?? "", MAX_NAME);
    case "option":
    case "optgroup":
      return cleaned(attribute(element, "label") ?? "", MAX_NAME);
    case "fieldset":
      return contentOfFirst(element, ":scope > legend");
    case "table":
      return contentOfFirst(element, ":scope > caption");
    case "figure":
      return contentOfFirst(element, ":scope > figcaption");
    case "details":
      return contentOfFirst(element, ":scope > summary");
    case "svg": {
      const title = queryAll(element, ":scope > title")[0];
      return title ? cleaned(wholeTextOf(title) ?? "", MAX_NAME) : "";
    }
    default:
      return "";
  }
}

/** @param {Element} element @param {string} selector */
function contentOfFirst(element, selector) {
  const found = queryAll(element, selector)[0];
  return found ? contentOf(found, MAX_NAME) : "";
}

/** Labels with `for`, by what they are for, of each tree: looked up once for all that one call names. The browser's own
 * list of a control's labels goes through the whole page for each control.
 * @type {Map<Node, Map<string, HTMLLabelElement[]>>} */
const labelsByTree = new Map();

/** @param {Node} tree */
function labelsIn(tree) {
  let labels = labelsByTree.get(tree);
  if (labels) return labels;
  labels = new Map();
  for (const label of allLabels(tree)) {
    if (!(label instanceof HTMLLabelElement)) continue;
    const same = labels.get(label.htmlFor);
    if (same) same.push(label);
    else labels.set(label.htmlFor, [label]);
  }
  if (!labelsByTree.size) queueMicrotask(() => labelsByTree.clear());
  labelsByTree.set(tree, labels);
  return labels;
}

const LABELS = "label[for]";

/** @param {Node} tree */
function allLabels(tree) {
  if (tree instanceof Document) return queryAll(documentElementOf(tree), LABELS);
  if (tree instanceof DocumentFragment) return tree.querySelectorAll(LABELS);
  return tree instanceof Element ? queryAll(tree, LABELS) : [];
}

/** @param {HTMLInputElement} control */
function labelsOfControl(control) {
  const around = closest(control, "label");
  const id = attribute(control, "id");
  const labels = id ? [...(labelsIn(treeOf(control)).get(id) ?? [])] : [];
  if (around instanceof HTMLLabelElement && !labels.includes(around)) labels.unshift(around);
  return labels.filter((label) => label.control === control);
}

/** @param {HTMLInputElement} control */
function controlLabel(control) {
  const labels = labelsOfControl(control).slice(0, 3);
  const texts = labels.map((label) => contentOf(label, MAX_NAME, (node) => node === control));
  const label = cleaned(texts.join(" "), MAX_NAME);
  if (label || tagOf(control) !== "input") return label;
  if (control.type === "image") return cleaned(control.alt, MAX_NAME);
  if (["button", "submit", "reset"].includes(control.type)) {
    const own = control.type === "button" ? "" : control.type === "submit" ? "Submit" : "Reset";
    return cleaned(control.value, MAX_NAME) || own;
  }
  return "";
}

/**
 * The text that an element shows, images by their alternative.
 * @param {Element} element
 * @param {number} max
 * @param {((element: Element) => unknown) | null} except what is left out: a control that is in its own label
 * @param {boolean} evenHidden what is referred to counts even where it is not shown
 */
function contentOf(element, max, except = null, evenHidden = false) {
  let text = "";
  /** A string stands for itself: the space at the end of a block.
   * @type {(Node | string)[]} */
  const waiting = shownChildren(element).reverse();
  for (let seen = 0; waiting.length && seen < MAX_NAME_NODES && text.length <= 2 * max; seen++) {
    const node = /** @type {Node | string} */ (waiting.pop());
    if (typeof node === "string") text += node;
    else if (node instanceof Text) text += node.data.slice(0, 4 * max);
    else if (node instanceof Element && !except?.(node) && !SILENT.has(tagOf(node))) {
      const style = getComputedStyle(node);
      if (!evenHidden && (isAway(node, style) || INNER_LISTS.has(attribute(node, "role") ?? ""))) continue;
      const space = style.display.startsWith("inline") ? "" : " ";
      const inner = innerName(node);
      text += space;
      waiting.push(space);
      if (inner !== null) text += inner;
      else if (evenHidden || style.visibility === "visible" || childNodesOf(node).length) {
        waiting.push(...shownChildren(node).reverse());
      }
    }
  }
  return cleaned(text, max);
}

/** What an element in a name contributes instead of what is in it; null: what is in it.
 * @param {Element} element */
function innerName(element) {
  const label = cleaned(attribute(element, "aria-label") ?? "", MAX_NAME);
  if (label) return label;
  switch (tagOf(element)) {
    case "img":
    case "area":
      return ` ${attribute(element, "alt") ?? ""} `;
    case "svg":
      return ` ${tagLabel(element)} `;
    case "br":
      return " ";
    case "input":
    case "select":
    case "textarea":
      return ` ${shownValue(element)} `;
    case "iframe":
    case "video":
    case "audio":
    case "canvas":
    case "object":
      return " ";
    default:
      return null;
  }
}
