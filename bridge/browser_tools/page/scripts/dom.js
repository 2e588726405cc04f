/**
 * The document as we may rely on it: forms and documents answer to the names of what is in them (`<input name="id">`),
 * so what could be one of them is read with the prototypes' own getters. Shadow trees and slots are walked as shown.
 */

/**
 * @template {object} Owner
 * @template {keyof Owner} Name
 * @param {Owner} prototype
 * @param {Name} name
 * @returns {(of: Owner) => Owner[Name]}
 */
function getterOf(prototype, name) {
  const get = Object.getOwnPropertyDescriptor(prototype, name)?.get;
  if (!get) throw new TypeError(`${String(name)} has no getter`);
  return (of) => get.call(of);
}

/**
 * @template {object} Owner
 * @template {unknown[]} Given
 * @template Answer
 * @param {(this: Owner, ...given: Given) => Answer} method
 * @returns {(of: Owner, ...given: Given) => Answer}
 */
function methodOf(method) {
  return (of, ...given) => method.apply(of, given);
}

const tagOf = getterOf(Element.prototype, "localName");
const openRootOf = getterOf(Element.prototype, "shadowRoot");
const slotOf = getterOf(Element.prototype, "assignedSlot");
const slotOfText = getterOf(Text.prototype, "assignedSlot");
const childNodesOf = getterOf(Node.prototype, "childNodes");
const parentNodeOf = getterOf(Node.prototype, "parentNode");
const baseOf = getterOf(Node.prototype, "baseURI");
const isConnected = getterOf(Node.prototype, "isConnected");
const wholeTextOf = getterOf(Node.prototype, "textContent");
const rootElementOf = getterOf(Document.prototype, "documentElement");
const bodyOf = getterOf(Document.prototype, "body");
const titleOf = getterOf(Document.prototype, "title");
const contentTypeOf = getterOf(Document.prototype, "contentType");
const scrollerOf = getterOf(Document.prototype, "scrollingElement");
const focusedIn = getterOf(Document.prototype, "activeElement");
const isHiddenDocument = getterOf(Document.prototype, "hidden");
const isEditable = getterOf(HTMLElement.prototype, "isContentEditable");
const innerTextOf = getterOf(HTMLElement.prototype, "innerText");
const firstChildOf = getterOf(Node.prototype, "firstChild");
const nextSiblingOf = getterOf(Node.prototype, "nextSibling");

const scrollLeftOf = getterOf(Element.prototype, "scrollLeft");
const scrollTopOf = getterOf(Element.prototype, "scrollTop");
const scrollWidthOf = getterOf(Element.prototype, "scrollWidth");
const scrollHeightOf = getterOf(Element.prototype, "scrollHeight");
const clientWidthOf = getterOf(Element.prototype, "clientWidth");
const clientHeightOf = getterOf(Element.prototype, "clientHeight");

const attribute = methodOf(Element.prototype.getAttribute);
const hasAttribute = methodOf(Element.prototype.hasAttribute);
const rectsOf = methodOf(Element.prototype.getClientRects);
const outerRectOf = methodOf(Element.prototype.getBoundingClientRect);
const checkVisibility = methodOf(Element.prototype.checkVisibility);
const scrollIntoView = methodOf(Element.prototype.scrollIntoView);
/** @type {(of: Element, selector: string) => Element | null} */
const closest = methodOf(Element.prototype.closest);
/** @type {(of: Element, selector: string) => boolean} */
const matches = methodOf(Element.prototype.matches);
/** @type {(of: Element, selector: string) => NodeListOf<Element>} */
const queryAll = methodOf(Element.prototype.querySelectorAll);
const treeOf = methodOf(Node.prototype.getRootNode);
const contains = methodOf(Node.prototype.contains);
const dispatch = methodOf(EventTarget.prototype.dispatchEvent);
const focusOn = methodOf(HTMLElement.prototype.focus);
const clickOn = methodOf(HTMLElement.prototype.click);
const idIn = methodOf(Document.prototype.getElementById);
const topmostIn = methodOf(Document.prototype.elementFromPoint);
/** The type says that only documents create elements of any name.
 * @type {(of: Document, tag: string) => HTMLElement} */
const createIn = methodOf(Document.prototype.createElement);
const execute = methodOf(Document.prototype.execCommand);

/** An empty one if it is missing: scripts can remove it.
 * @param {Document} of */
function documentElementOf(of) {
  return rootElementOf(of) ?? createIn(of, "html");
}

/** Shadow roots that the page has closed, as DevTools handed them in.
 * @type {WeakMap<Element, ShadowRoot>} */
const closedRoots = new WeakMap();

/** @param {Element} element */
function shadowOf(element) {
  return openRootOf(element) ?? closedRoots.get(element) ?? null;
}

/** What is shown inside: a host's shadow tree, a slot's assigned nodes.
 * @param {Node} node
 * @returns {Node[]} */
function shownChildren(node) {
  const root = node instanceof Element ? shadowOf(node) : null;
  if (root) return Array.from(childNodesOf(root));
  if (node instanceof HTMLSlotElement) {
    const assigned = node.assignedNodes();
    if (assigned.length) return assigned;
  }
  return Array.from(childNodesOf(node));
}

/** @param {Node} node @returns {Element | null} */
function shownParent(node) {
  const slot = node instanceof Element ? slotOf(node) : node instanceof Text ? slotOfText(node) : null;
  const parent = slot ?? parentNodeOf(node);
  if (parent instanceof ShadowRoot) return parent.host;
  return parent instanceof Element ? parent : null;
}

/** @param {Element} outer @param {Element | null} inner */
function holds(outer, inner) {
  for (let at = inner; at; at = shownParent(at)) if (at === outer) return true;
  return false;
}

/** @param {Element} element @param {string} id @returns {Element | null} */
function elementById(element, id) {
  const tree = treeOf(element);
  if (tree instanceof ShadowRoot) return tree.getElementById(id);
  return tree instanceof Document ? idIn(tree, id) : null;
}

/** @param {number} x @param {number} y The deepest element at a point of the viewport. @returns {Element | null} */
function elementAt(x, y) {
  let found = topmostIn(document, x, y);
  for (let depth = 0; found && depth < 100; depth++) {
    const inner = shadowOf(found)?.elementFromPoint(x, y);
    if (!inner || inner === found) break;
    found = inner;
  }
  return found;
}

/** Tags that never show anything. */
const SILENT = new Set(
  "script style template noscript head meta link base title source track param col colgroup defs desc metadata".split(
    " ",
  ),
);

/** Neither it nor anything in it can be met.
 * @param {Element} element @param {CSSStyleDeclaration} style */
function isAway(element, style) {
  return (
    SILENT.has(tagOf(element)) ||
    style.display === "none" ||
    attribute(element, "aria-hidden") === "true" ||
    hasAttribute(element, "inert") ||
    isFolded(element)
  );
}

/** In a closed `<details>`, but not its summary.
 * @param {Element} element */
function isFolded(element) {
  const parent = parentNodeOf(element);
  if (!(parent instanceof HTMLDetailsElement) || parent.open) return false;
  return !(tagOf(element) === "summary" && element === queryAll(parent, ":scope > summary")[0]);
}

/** @param {Element} element @returns {boolean} */
function isRendered(element) {
  if (checkVisibility(element, { visibilityProperty: true })) return true;
  if (getComputedStyle(element).display !== "contents") return false;
  const parent = shownParent(element);
  return parent ? isRendered(parent) : false;
}

/** Printable, in one line, at most `max` characters; `…` stands where something was cut.
 * @param {string} text @param {number} max */
function cleaned(text, max) {
  const line = oneLine(text.slice(0, 4 * max)).trim();
  if (line.length <= max && text.length <= 4 * max) return line;
  return line.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "") + "…";
}

/** Spaces for all that does not print; what has no width goes.
 * @param {string} text */
function oneLine(text) {
  if (/^[!-~]*(?: [!-~]+)*$/.test(text)) return text;
  return withoutSelectors(withWidth(text)).replace(/[\p{C}\p{Z}\s]+/gu, " ");
}

/** The same with as many spaces as there are.
 * @param {string} line */
function printable(line) {
  return withoutSelectors(withWidth(line)).replace(/[\p{C}\p{Z}\s]/gu, " ");
}

/** @param {string} text */
function withWidth(text) {
  return text.replace(/[\u00AD\u200B-\u200D\u2060\uFEFF]/g, "");
}

/** Without variation selectors that can carry hidden text: see native_host/protocol/untrusted_text.py.
 * @param {string} text */
function withoutSelectors(text) {
  return text.replace(
    /[\uFE00-\uFE0F\u180B-\u180D\u180F\u{E0100}-\u{E01EF}]{2,}|[\u180B-\u180D\u180F\u{E0100}-\u{E01EF}]/gu,
    "",
  );
}

/** Quoted for a line of the outline: no text of a page can leave its quotes.
 * @param {string} text @param {number} max */
function quoted(text, max) {
  return `"${cleaned(text, max).replace(/["\\]/g, "\\$&")}"`;
}

/** The same of pieces that are printable each, whose spaces are their own.
 * @param {string} pieces @param {number} max */
function quotedText(pieces, max) {
  const text = withoutSelectors(pieces);
  const shown = text.length <= max ? text : `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
  return `"${shown.replace(/["\\]/g, "\\$&")}"`;
}

/** Words that are compared: without case and accents.
 * @param {string} text */
function folded(text) {
  const plain = /^[ -~]*$/.test(text) ? text : text.normalize("NFKD").replace(/\p{M}/gu, "");
  return plain.toLowerCase();
}

/** The next frame of the page, or a moment where none is drawn. */
function nextFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(resolve);
    setTimeout(resolve, 100);
  });
}
