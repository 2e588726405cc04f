/** Texts that tell elements of one name apart: what their card, row or group is called. */

/** Characters, without the word that is cut; of a heading, which is a name. */
const MAX_CONTEXT = 32;
const MAX_TITLE = 60;
/** Characters of a card's text in which a context is looked for. */
const MAX_CARD = 400;
const HEADINGS = "h1, h2, h3, h4, h5, h6, [role=heading]";
/** Kinds whose content belongs together. */
const ITEMS = new Set(["article", "listitem", "row", "treeitem", "option", "dialog", "alertdialog"]);
/** Kinds that one heading stands for. */
const SECTIONS = new Set(
  (
    "alertdialog article banner complementary contentinfo dialog form group main navigation radiogroup region " +
    "search tabpanel table toolbar"
  ).split(" "),
);

/** @typedef {{text: string, card: Element | null}} Context */

/**
 * The contexts of elements that share their name with others of the list.
 *
 * @param {Iterable<[element: Element, name: string]>} named @returns {Map<Element, Context>}
 */
function contextsOf(named) {
  /** @type {Map<string, Element[]>} */
  const groups = new Map();
  for (const [element, name] of named) {
    const alike = groups.get(name);
    if (alike) alike.push(element);
    else groups.set(name, [element]);
  }
  /** @type {Map<Element, Context>} */
  const contexts = new Map();
  for (const alike of groups.values()) {
    if (alike.length < 2 || leadToOnePlace(alike)) continue;
    const found = distinguish(alike);
    // One text for all of them tells nothing.
    if (new Set(Array.from(found.values(), ({ text }) => text)).size < 2) continue;
    for (const [element, context] of found) contexts.set(element, context);
  }
  return contexts;
}

/** @param {Element[]} alike @returns {Map<Element, Context>} */
function distinguish(alike) {
  const counts = countAround(alike);
  /** @type {Map<Element, Context>} */
  const contexts = new Map();
  for (const element of alike) {
    const context = contextAmong(element, counts);
    if (context) contexts.set(element, context);
  }
  return contexts;
}

/** The context of one of several elements that share their name.
 * @param {Element} element @param {Map<Element, number>} counts how many of them are in each element
 * @returns {Context | null} */
function contextAmong(element, counts) {
  const card = cardOf(element, counts);
  const text = card ? cardName(card, element) : textBefore(element, counts);
  return text ? { text: beginningOf(text, Math.max(MAX_CONTEXT, titleOfCard(card).length)), card } : null;
}

/** @param {string} text @param {number} max */
function beginningOf(text, max) {
  const words = cleaned(text, max + 1);
  return words.length <= max ? words : words.replace(/(?<=\S)\s+\S*…$/, "");
}

/** @param {Element | null} card */
function titleOfCard(card) {
  const heading = card && queryAll(card, HEADINGS)[0];
  return heading ? contentOf(heading, MAX_TITLE).replace(/…$/, "") : "";
}

/** Links to one address: it does not matter which of them is meant.
 * @param {Element[]} alike */
function leadToOnePlace(alike) {
  const href = attribute(/** @type {Element} */ (alike[0]), "href");
  return href !== null && alike.every((element) => attribute(element, "href") === href);
}

/** How many of these are in each element around them.
 * @param {Element[]} alike @returns {Map<Element, number>} */
function countAround(alike) {
  /** @type {Map<Element, number>} */
  const counts = new Map();
  for (const element of alike) {
    for (let at = /** @type {Element | null} */ (element); at; at = shownParent(at))
      counts.set(at, (counts.get(at) ?? 0) + 1);
  }
  return counts;
}

/** The element around whose content belongs to an element: its item or group; else the largest one without another of
 * its name.
 * @param {Element} element @param {Map<Element, number>} counts @returns {Element | null} one that says something */
function cardOf(element, counts) {
  let card = null;
  for (let at = shownParent(element); at && counts.get(at) === 1 && tagOf(at) !== "body"; at = shownParent(at)) {
    if (!/[\p{L}\p{N}]/u.test(cardName(at, element))) continue;
    card = at;
    if (isItem(at) || labelOf(at)) return at;
  }
  const isAlone = counts.get(documentElementOf(document)) === 1;
  return isAlone ? null : card;
}

/** Whether the content of an element belongs together: a row, an item, one of several siblings that look the same.
 * @param {Element} element */
function isItem(element) {
  return ITEMS.has(roleOf(element)) || isRepeated(element);
}

/** What a card is called, without what is acted on in it; from its heading on, if it has one.
 * @param {Element} card @param {Element} element @returns {string} */
function cardName(card, element) {
  const label = labelOf(card);
  if (label) return label;
  const title = titleOfCard(card);
  const isOther = (/** @type {Element} */ node) => isActedOn(node) || (title && tagOf(node) === "img");
  const text = contentOf(card, MAX_CARD, (node) => node === element || isOther(node) || isLabelOf(node, element));
  return title && text.includes(title) ? text.slice(text.indexOf(title)) : text;
}

/** @param {Element} node @param {Element} control */
function isLabelOf(node, control) {
  return node instanceof HTMLLabelElement && node.control === control;
}

/** Links stay: they often are the title.
 * @param {Element} element */
function isActedOn(element) {
  const role = roleOf(element);
  return role !== "link" && INTERACTIVE.has(role);
}

/** The nearest text before an element, up to the one of the same name before it.
 * @param {Element} element @param {Map<Element, number>} [counts] @returns {string} */
function textBefore(element, counts) {
  const parent = shownParent(element);
  const siblings = parent ? shownChildren(parent) : [];
  for (let at = siblings.indexOf(element) - 1; at >= 0; at--) {
    const sibling = siblings[at];
    if (sibling instanceof Element && counts?.has(sibling)) return "";
    const text =
      sibling instanceof Text
        ? cleaned(sibling.data, MAX_CARD)
        : sibling instanceof Element && isRendered(sibling)
          ? contentOf(sibling, MAX_CARD, isActedOn)
          : "";
    if (/[\p{L}\p{N}]/u.test(text)) return text;
  }
  return "";
}

/** @param {Element} element */
function isRepeated(element) {
  const kind = attribute(element, "class");
  const parent = kind && shownParent(element);
  if (!parent) return false;
  let count = 0;
  for (const sibling of shownChildren(parent)) {
    if (!(sibling instanceof Element) || tagOf(sibling) !== tagOf(element)) continue;
    if (attribute(sibling, "class") === kind && ++count > 1) return true;
  }
  return false;
}

/** Names of what an element is in, the innermost first: labels and headings of its sections.
 * @param {Element} element @returns {Generator<string>} */
function* sectionNames(element) {
  for (let at = shownParent(element); at; at = shownParent(at)) {
    const label = labelOf(at);
    if (label) yield label;
    else if (SECTIONS.has(roleOf(at)) || tagOf(at) === "section") {
      const heading = queryAll(at, HEADINGS)[0];
      if (heading && !isInOtherItem(heading, element)) yield contentOf(heading, MAX_NAME);
    }
  }
}

/** Whether a heading is that of an item which an element is not in.
 * @param {Element} heading @param {Element} element */
function isInOtherItem(heading, element) {
  for (let at = shownParent(heading); at && !holds(at, element); at = shownParent(at)) if (isItem(at)) return true;
  return false;
}
