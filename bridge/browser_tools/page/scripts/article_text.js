/** The text that a page is about, for reading: an article where there is one. */

const MAX_ARTICLES = 20;
const MAX_MEASURED = 200_000;
/** Shorter ones are teasers. */
const MIN_ARTICLE_CHARS = 200;
const BESIDE_ARTICLE = new Set(["nav", "aside", "footer"]);
const BESIDE_ROLES = new Set(["navigation", "complementary", "contentinfo", "search"]);
const CONTROLS = new Set("select textarea input audio video canvas iframe object embed".split(" "));

/** @param {{maxChars?: number}} given */
function readText({ maxChars = 50_000 }) {
  const pdf = isPdf();
  const [start, source] = pdf ? [null, /** @type {const} */ ("body")] : subject();
  const writer = new TextWriter(maxChars);
  const truncated = start ? writer.write(start, source !== "body") : false;
  const text = writer.finished();
  return { text, ...whereWeAre(), source, truncated, chars: text.length, pdf };
}

function isPdf() {
  if (contentTypeOf(document) === "application/pdf") return true;
  const body = bodyOf(document);
  const only = body && body.childNodes.length === 1 ? body.firstChild : null;
  return only instanceof HTMLEmbedElement && only.type === "application/pdf";
}

/** What the page is about, and by which sign.
 * @returns {[Element | null, "article" | "main" | "block" | "body"]} */
function subject() {
  const body = bodyOf(document);
  if (!body) return [documentElementOf(document), "body"];
  const article = longestOf(outermost(queryAll(body, "article, [role=article]")), MIN_ARTICLE_CHARS);
  if (article) return [article, "article"];
  const main = longestOf(outermost(queryAll(body, "main, [role=main]")), 1);
  if (main) return [main, "main"];
  const block = densest(body);
  return block ? [block, "block"] : [body, "body"];
}

/** @param {NodeListOf<Element>} found */
function outermost(found) {
  /** @type {Element[]} */
  const outer = [];
  for (const element of Array.from(found).slice(0, 10 * MAX_ARTICLES)) {
    if (outer.length < MAX_ARTICLES && !outer.some((other) => contains(other, element)) && isRendered(element))
      outer.push(element);
  }
  return outer;
}

/** The longest one, if it is longer than the others together: of many alike none is the subject.
 * @param {Element[]} candidates @param {number} minChars */
function longestOf(candidates, minChars) {
  const lengths = candidates.map(textLength);
  const longest = Math.max(0, ...lengths);
  const all = lengths.reduce((sum, length) => sum + length, 0);
  return longest >= minChars && 2 * longest > all ? (candidates[lengths.indexOf(longest)] ?? null) : null;
}

/** @param {Element} element */
function textLength(element) {
  const texts = Document.prototype.createTreeWalker.call(document, element, NodeFilter.SHOW_TEXT);
  let length = 0;
  for (let seen = 0, text = texts.nextNode(); text && seen < MAX_MEASURED; seen++, text = texts.nextNode()) {
    if (text instanceof Text && text.length > 1) length += text.length;
  }
  return length;
}

/** The element in which most of the paragraphs are, if most of them are in one.
 * @param {Element} body */
function densest(body) {
  /** @type {Map<Element, number>} */
  const lengths = new Map();
  let sum = 0;
  for (const paragraph of Array.from(queryAll(body, "p")).slice(0, MAX_MEASURED)) {
    const parent = shownParent(paragraph);
    const length = textLength(paragraph);
    sum += length;
    if (parent) lengths.set(parent, (lengths.get(parent) ?? 0) + length);
  }
  const [best, length] = [...lengths].reduce((one, other) => (other[1] > one[1] ? other : one), [body, 0]);
  return best !== body && length > 500 && length > 0.6 * sum && isRendered(best) ? best : null;
}

/** Light plain text: `# ` before headings, `- ` before items, `a | b` for rows. */
class TextWriter {
  /** @param {number} maxChars */
  constructor(maxChars) {
    this.maxChars = maxChars;
    /** @type {string[]} */
    this.parts = [];
    this.length = 0;
    /** How many line breaks come before the next word, and whether a space does. */
    this.breaks = 0;
    this.space = false;
    this.prefix = "";
    /** A cell's end, to come between it and the next one. */
    this.bar = false;
    /** The number of each list's last item.
     * @type {Map<Element, number>} */
    this.numbers = new Map();
  }

  get isFull() {
    return this.length >= this.maxChars;
  }

  /** True where something was left out.
   * @param {Element} start @param {boolean} isArticle */
  write(start, isArticle) {
    /** @type {(Node | (() => void))[]} */
    const waiting = [start];
    while (waiting.length && !this.isFull) {
      const node = /** @type {Node | (() => void)} */ (waiting.pop());
      if (typeof node === "function") node();
      else if (node instanceof Text) this.#text(node);
      else if (node instanceof Element && (node === start || !(isArticle && isBeside(node))))
        this.#element(node, waiting);
    }
    return waiting.some((node) => node instanceof Node && /\S/.test((wholeTextOf(node) ?? "").slice(0, 1_000)));
  }

  /** @param {Element} element @param {(Node | (() => void))[]} waiting */
  #element(element, waiting) {
    const tag = tagOf(element);
    const style = getComputedStyle(element);
    if (CONTROLS.has(tag) || isAway(element, style)) return;
    if (tag === "br") return this.#break(1);
    const end = this.#begin(element, tag, style);
    if (end) waiting.push(end);
    const children = shownChildren(element);
    for (let index = children.length - 1; index >= 0; index--) waiting.push(/** @type {Node} */ (children[index]));
  }

  /** What comes before it; what comes behind is handed back.
   * @param {Element} element @param {string} tag @param {CSSStyleDeclaration} style */
  #begin(element, tag, style) {
    if (tag === "td" || tag === "th") {
      return () => {
        this.bar = true;
      };
    }
    if (style.display.startsWith("inline") || style.display === "contents") return null;
    const isHeading = roleOf(element) === "heading";
    const space = isHeading || tag === "p" || tag === "table" || tag === "pre" || tag === "blockquote" ? 2 : 1;
    this.#break(space);
    if (tag === "tr") this.bar = false;
    if (isHeading) this.prefix = `${"#".repeat(Math.min(6, headingLevel(element)))} `;
    else if (tag === "li") this.prefix = this.#itemMark(element);
    return () => {
      this.#break(space);
      this.bar = false;
    };
  }

  /** @param {Element} item */
  #itemMark(item) {
    const list = shownParent(item);
    if (!(list instanceof HTMLOListElement) || !(item instanceof HTMLLIElement)) return "- ";
    const number = item.value || (this.numbers.get(list) ?? list.start - 1) + 1;
    this.numbers.set(list, number);
    return `${number}. `;
  }

  /** @param {Text} node */
  #text(node) {
    const parent = shownParent(node);
    const style = parent ? getComputedStyle(parent) : null;
    if (style?.visibility !== "visible") return;
    const data = node.data.slice(0, 2 * (this.maxChars - this.length) + 1_000);
    if (keepsLines(style)) {
      this.#put(withoutSelectors(keptLines(data, style).replace(/[^\S\n]/g, " ").replace(/(?!\n)\p{C}/gu, "")));
    } else {
      const line = oneLine(data);
      if (line.startsWith(" ")) this.space = true;
      const words = line.trim();
      if (words) this.#put(words);
      if (line.endsWith(" ")) this.space = true;
    }
  }

  /** @param {number} count */
  #break(count) {
    this.breaks = Math.max(this.breaks, count);
    this.prefix = "";
  }

  /** @param {string} words */
  #put(words) {
    const isFirst = this.length === 0;
    const bar = this.bar && !isFirst ? " | " : "";
    const before = bar || (isFirst ? "" : this.breaks ? "\n".repeat(this.breaks) : this.space ? " " : "");
    const piece = (before + this.prefix + words).slice(0, this.maxChars - this.length);
    this.parts.push(piece);
    this.length += piece.length;
    this.breaks = 0;
    this.space = false;
    this.bar = false;
    this.prefix = "";
  }

  finished() {
    return this.parts.join("").toWellFormed().trim();
  }
}

/** @param {Element} element */
function isBeside(element) {
  return BESIDE_ARTICLE.has(tagOf(element)) || BESIDE_ROLES.has(attribute(element, "role") ?? "");
}
