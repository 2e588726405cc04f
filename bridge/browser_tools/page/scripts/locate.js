/** Elements that a call means by role and name, or by a CSS selector. What is hidden is never meant. */

const MAX_LOCATED = 10;
/** Characters of the text around an element in which `within` is looked for. */
const MAX_AROUND = 2_000;

/**
 * `role` as `read_page` has it, `name` as it stands there or on the page, `word` a name that may be a role as well,
 * `within` a part of what the element is in.
 * @typedef {{role?: string, name?: string, word?: string, within?: string, css?: string}} Locator
 */

const selectInDocument = methodOf(Document.prototype.querySelectorAll);
const selectInFragment = methodOf(DocumentFragment.prototype.querySelectorAll);

/**
 * All elements that are meant. `rank` 0: controls, and what has the role; 1: texts, which are meant where no control is.
 * Hidden elements that a selector selects are listed, and not counted in `found`. `origin` is the document's own.
 *
 * @param {Locator} given
 */
function locateElements({ role = "", name = "", word = "", within = "", css = "" }) {
  const [controls, texts] = css ? selectedBy(css) : namedBy(role, folded(cleaned(name, MAX_NAME)), word);
  const rank = controls.length || css ? 0 : 1;
  const innermost = css ? controls : withoutOuter(rank ? texts : controls);
  const counts = countAround(innermost);
  const meant = innermost.filter((element) => !within || isWithin(element, counts, folded(cleaned(within, MAX_NAME))));
  const shown = [...meant, ...(css ? texts : [])].slice(0, MAX_LOCATED);
  const described = shown.map(describeMatch);
  const contexts = contextsOf(shown.map((element, at) => [element, `${described[at]?.role} ${described[at]?.name}`]));
  return {
    origin: self.origin,
    rank: meant.length ? rank : null,
    found: meant.length,
    matches: described.map((match, at) => {
      const element = /** @type {Element} */ (shown[at]);
      return { ...match, context: contexts.get(element)?.text ?? "", visible: at < meant.length };
    }),
    next: nextRef,
  };
}

/** @param {string} selector @returns {[shown: Element[], hidden: Element[]]} */
function selectedBy(selector) {
  /** @type {Element[]} */
  const found = [];
  const select = () => {
    found.push(...selectInDocument(document, selector));
    for (const element of elementsIn(documentElementOf(document))) {
      const root = shadowOf(element);
      if (root) found.push(...selectInFragment(root, selector));
    }
  };
  try {
    select();
  } catch {
    throw failure("unfit", `${quoted(selector, 100)} is no CSS selector.`);
  }
  /** @type {[Element[], Element[]]} */
  const sorted = [[], []];
  for (const element of found) sorted[isRendered(element) || isFileInput(element) ? 0 : 1].push(element);
  return sorted;
}

/** Pages hide the inputs of files, and show something else for them.
 * @param {Element} element */
function isFileInput(element) {
  return element instanceof HTMLInputElement && element.type === "file";
}

/** @param {string} role @param {string} name folded @param {string} word
 * @returns {[controls: Element[], texts: Element[]]} */
function namedBy(role, name, word) {
  /** @type {Element[]} */
  const controls = [];
  /** @type {Element[]} */
  const texts = [];
  for (const element of elementsIn(documentElementOf(document))) {
    if (element instanceof HTMLLabelElement && element.control && !isOnlyLabel(element)) continue;
    const own = roleOf(element);
    const isUsed = isInteractive(element, own, false) || isOnlyLabel(element);
    if (role ? !hasRole(element, own, role) : false) continue;
    const isMeant = !name || isCalled(element, own || (isUsed ? "clickable" : ""), name) || (word && own === word);
    if (!isMeant || !isMet(element)) continue;
    const isControl = role || isUsed || own === word || kindOf(element) === "clickable";
    (isControl ? controls : texts).push(element);
  }
  return [controls, texts];
}

/** @param {Element} start @returns {Generator<Element>} all that may be shown, in the order of the page */
function* elementsIn(start) {
  /** @type {Node[]} */
  const waiting = [start];
  for (let seen = 0; waiting.length && seen < MAX_WALK; seen++) {
    const node = /** @type {Node} */ (waiting.pop());
    if (!(node instanceof Element) || SILENT.has(tagOf(node))) continue;
    yield node;
    for (const child of shownChildren(node).reverse()) waiting.push(child);
  }
}

/** A label that stands for its control has the role of that as well.
 * @param {Element} element @param {string} own its role @param {string} role */
function hasRole(element, own, role) {
  if (own === role) return true;
  if (element instanceof HTMLLabelElement && element.control && roleOf(element.control) === role) return true;
  return role === "clickable" && own === "" && kindOf(element) === "clickable";
}

/** Whether it has a name, or a text for one; marks that pages put behind names of fields aside.
 * @param {Element} element @param {string} kind @param {string} name folded */
function isCalled(element, kind, name) {
  const own = folded(nameOf(element, kind).text);
  if (own) return own === name || bareName(own) === bareName(name);
  return squashed(shownText(element, 2 * name.length + 200)) === squashed(name);
}

/** @param {string} text */
function squashed(text) {
  return folded(text).replace(/\s+/g, "");
}

/** The text in an element; of a longer one only more than `max`.
 * @param {Element} element @param {number} max */
function shownText(element, max) {
  let text = "";
  const waiting = shownChildren(element).reverse();
  while (waiting.length && text.length <= max) {
    const node = /** @type {Node} */ (waiting.pop());
    if (node instanceof Text) text += node.data.slice(0, max + 1);
    else if (node instanceof Element && !SILENT.has(tagOf(node))) waiting.push(...shownChildren(node).reverse());
  }
  return text;
}

/** A user can meet it, as `read_page` sees that.
 * @param {Element} element */
function isMet(element) {
  if (!isRendered(element)) return false;
  for (let at = /** @type {Element | null} */ (element); at; at = shownParent(at)) {
    if (attribute(at, "aria-hidden") === "true" || hasAttribute(at, "inert")) return false;
  }
  return true;
}

/** Of elements in each other the inner ones: a click on the outer one reaches them.
 * @param {Element[]} elements */
function withoutOuter(elements) {
  const outer = new Set();
  for (const element of elements) {
    for (let at = shownParent(element); at; at = shownParent(at)) outer.add(at);
  }
  return elements.filter((element) => !outer.has(element));
}

/** Whether an element is in something with this text: what its own content belongs to, or a named section.
 * @param {Element} element @param {Map<Element, number>} counts of those of its name @param {string} text folded */
function isWithin(element, counts, text) {
  const wanted = text.replace(/…$/, "");
  const has = (/** @type {string} */ said) => folded(said).includes(wanted);
  const card = cardOf(element, counts);
  if (card ? has(labelOf(card)) || has(contentOf(card, MAX_AROUND)) : has(textBefore(element, counts))) return true;
  for (const name of sectionNames(element)) if (has(name)) return true;
  return !card && has(headingBefore(element));
}

/** The heading that is nearest before an element.
 * @param {Element} element */
function headingBefore(element) {
  for (let at = /** @type {Element | null} */ (element); at; at = shownParent(at)) {
    const parent = shownParent(at);
    const siblings = parent ? shownChildren(parent) : [];
    for (let index = siblings.indexOf(at) - 1; index >= 0; index--) {
      const sibling = siblings[index];
      if (!(sibling instanceof Element) || !isRendered(sibling)) continue;
      const inner = queryAll(sibling, HEADINGS);
      const heading = roleOf(sibling) === "heading" ? sibling : inner[inner.length - 1];
      if (heading) return contentOf(heading, MAX_NAME);
    }
  }
  return "";
}
