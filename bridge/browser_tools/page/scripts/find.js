/** Elements by words: what they are called, what they are, what they say. */

const MAX_WALK = 200_000;
/** How many of the best are looked at for whether they can be seen. */
const MAX_LOOKED_AT = 200;

/** Words that say which kind is meant.
 * @type {Record<string, string[]>} */
const ROLE_WORDS = {
  button: ["button"],
  link: ["link"],
  field: ["textbox", "searchbox", "combobox", "spinbutton", "slider", "listbox"],
  input: ["textbox", "searchbox", "combobox", "spinbutton", "slider", "checkbox", "radio"],
  box: ["textbox", "searchbox", "combobox", "checkbox"],
  textbox: ["textbox", "searchbox", "combobox"],
  textarea: ["textbox"],
  editor: ["textbox"],
  searchbox: ["searchbox", "textbox", "combobox"],
  checkbox: ["checkbox", "switch"],
  radio: ["radio"],
  switch: ["switch", "checkbox"],
  toggle: ["switch", "checkbox", "button"],
  slider: ["slider"],
  dropdown: ["combobox", "listbox", "button"],
  select: ["combobox", "listbox"],
  combobox: ["combobox"],
  option: ["option", "menuitem", "radio"],
  menu: ["menu", "menubar", "menuitem", "navigation"],
  menuitem: ["menuitem"],
  tab: ["tab"],
  heading: ["heading"],
  title: ["heading"],
  image: ["img"],
  picture: ["img"],
  icon: ["img", "button", "link"],
  logo: ["img", "link"],
  table: ["table", "grid"],
  row: ["row"],
  cell: ["cell", "gridcell"],
  list: ["list", "listbox"],
  form: ["form"],
  dialog: ["dialog", "alertdialog"],
  popup: ["dialog", "alertdialog"],
  frame: ["iframe"],
  iframe: ["iframe"],
  video: ["video"],
  canvas: ["canvas"],
};
const SMALL_WORDS = new Set(
  "a an the of for to in on at with and or is are that this which element please me my".split(" "),
);
const ATTRIBUTES = ["placeholder", "title", "id", "name", "type", "href", "data-testid", "aria-placeholder", "value"];
const INLINE = new Set("a abbr b code em i mark small span strong sub sup u".split(" "));

/**
 * @typedef {object} Query
 * @property {string} phrase
 * @property {string[]} words those that are not about the kind
 * @property {Set<string>} roles
 * @property {string[]} kinds the words that are
 */

/** @param {string} text @returns {Query} */
function queryOf(text) {
  const all = spaced(text.slice(0, 500)).split(" ").filter(Boolean).slice(0, 20);
  const roles = new Set();
  const words = [];
  const kinds = [];
  for (const word of all) {
    const kind = [word, word.replace(/e?s$/, ""), word.replace(/s$/, "")].find((form) =>
      Object.hasOwn(ROLE_WORDS, form),
    );
    if (kind) {
      kinds.push(word);
      for (const role of ROLE_WORDS[kind] ?? []) roles.add(role);
    } else if (!SMALL_WORDS.has(word)) words.push(word);
  }
  return { phrase: words.join(" "), words, kinds, roles };
}

/** Words one space apart, without case and accents, names of programs taken apart.
 * @param {string} text */
function spaced(text) {
  const apart = text.replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2");
  return folded(apart)
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}

/**
 * How well a text answers: the whole of it, its beginning, a part; else the share of words that are in it.
 * @param {Query} query @param {string} text spaced
 * @returns {[score: number, how: string]}
 */
function likeness({ phrase, words }, text) {
  if (!text || !phrase) return [0, ""];
  if (text === phrase) return [100, "is just that"];
  const long = Math.min(text.length - phrase.length, 100) / 10;
  if (text.startsWith(`${phrase} `)) return [82 - long, "begins with that"];
  if (` ${text} `.includes(` ${phrase} `)) return [72 - long, "has that"];
  if (text.startsWith(phrase)) return [66 - long, "begins with that"];
  if (text.includes(phrase)) return [50 - long, "has that"];
  let sum = 0;
  for (const word of words) {
    const at = ` ${text} `.indexOf(` ${word}`);
    sum +=
      at >= 0 ? (` ${text} `[at + 1 + word.length] === " " ? 60 : 45) : word.length > 2 && text.includes(word) ? 25 : 0;
  }
  return [Math.max(0, sum / words.length - long / 2), "has some of your words"];
}

/** @typedef {{element: Element, role: string, score: number, why: string, order: number, isUsed: boolean}} Found */

class Search {
  /** @param {Query} query */
  constructor(query) {
    this.query = query;
    /** @type {Found[]} */
    this.found = [];
    this.seen = 0;
  }

  /** @param {Element} start */
  walk(start) {
    /** @type {[Element, boolean][]} */
    const waiting = [[start, false]];
    while (waiting.length && this.seen < MAX_WALK) {
      const [element, isInside] = /** @type {[Element, boolean]} */ (waiting.pop());
      if (SILENT.has(tagOf(element))) continue;
      this.seen++;
      const isUsed = this.#look(element, isInside);
      const children = shownChildren(element);
      for (let index = children.length - 1; index >= 0; index--) {
        const child = children[index];
        if (child instanceof Element) waiting.push([child, isInside || isUsed]);
      }
    }
    return waiting.length > 0;
  }

  /** True where it is something to act on: what is in that is a part of its name.
   * @param {Element} element @param {boolean} isInside */
  #look(element, isInside) {
    const role = roleOf(element);
    const isUsed = isInteractive(element, role, false);
    if (isInside && !isUsed && role !== "img") return false;
    const [score, why] = this.#score(element, role, isUsed);
    if (score > 0) this.found.push({ element, role, score, why, order: this.found.length, isUsed });
    return isUsed && !isEditingHost(element) && NAMED_BY_CONTENT.has(role);
  }

  /** @param {Element} element @param {string} role @param {boolean} isUsed @returns {[number, string]} */
  #score(element, role, isUsed) {
    const { query } = this;
    const isKind = query.roles.has(role) || (isUsed && !role && query.roles.has("button"));
    let best = 0;
    let why = "";
    /** @type {Set<string>} */
    const matched = new Set();
    let namedKinds = 0;
    for (const [what, weight, value] of fieldsOf(element, role, isUsed)) {
      const said = folded(value.slice(0, 400));
      if (what === "name") namedKinds = query.kinds.filter((kind) => said.includes(kind)).length;
      const found = query.words.filter((word) => (what === "role" ? said === word : said.includes(word)));
      if (!found.length) continue;
      for (const word of found) matched.add(word);
      const [score, how] = likeness(query, spaced(value.slice(0, 400)));
      if (score * weight > best) [best, why] = [score * weight, `${what} ${how}`];
    }
    if (!query.phrase && isKind) return [30 + 10 * namedKinds, `is a ${role || "clickable"}`];
    if (!query.phrase) return isUsed && namedKinds ? [20 + 10 * namedKinds, "name has that"] : [0, ""];
    const share = matched.size / query.words.length;
    if (share < 0.5) return [0, ""];
    const kind = isKind ? 25 : namedKinds ? 10 : query.roles.size ? -20 : 0;
    return [
      Math.max(1, best + 20 * share + kind + (isUsed ? 15 : 0)),
      isKind ? `${why}, is a ${role || "clickable"}` : why,
    ];
  }
}

/** What an element may be meant by, and how much that counts.
 * @param {Element} element @param {string} role @param {boolean} isUsed
 * @returns {[what: string, weight: number, value: string][]} */
function fieldsOf(element, role, isUsed) {
  /** @type {[string, number, string][]} */
  const fields = [];
  const name = isUsed || role === "img" || role === "iframe" ? nameOf(element, role).text : labelOf(element);
  if (name) fields.push(["name", 1, name]);
  const text = isUsed && name ? "" : ownText(element);
  if (text) fields.push(["text", 0.85, text]);
  for (const attributeName of ATTRIBUTES) {
    const value = attributeName === "type" ? typeOf(element) : attribute(element, attributeName);
    if (value) fields.push([attributeName, isUsed ? 0.7 : 0.4, value]);
  }
  if (isUsed) {
    const value = shownValue(element);
    if (value) fields.push(["value", 0.6, value]);
  }
  if (role && fields.length) fields.push(["role", 0.3, role]);
  return fields;
}

/** A button of a form sends it, if it does not say otherwise.
 * @param {Element} element */
function typeOf(element) {
  return element instanceof HTMLButtonElement && element.form ? element.type : attribute(element, "type");
}

/** Text that is the element's own, with that of inline elements in it.
 * @param {Element} element */
function ownText(element) {
  let text = "";
  for (let node = firstChildOf(element); node && text.length < 400; node = nextSiblingOf(node)) {
    if (node instanceof Text) text += node.data.slice(0, 400);
    else if (node instanceof Element && INLINE.has(tagOf(node)) && childNodesOf(node).length === 1) {
      const only = childNodesOf(node)[0];
      if (only instanceof Text) text += only.data.slice(0, 400);
    }
  }
  return text;
}

/** @param {{query: string, limit?: number}} given */
function findElements({ query, limit = 20 }) {
  const search = new Search(queryOf(query));
  const page = documentElementOf(document);
  const truncated = page ? search.walk(page) : false;
  const best = search.found
    .sort((one, other) => other.score - one.score || one.order - other.order)
    .slice(0, MAX_LOOKED_AT);
  const looked = best.map((found) => ({
    ...found,
    visible: isRendered(found.element) && outerRectOf(found.element).width > 0,
  }));
  looked.sort(
    (one, other) => Number(other.visible) - Number(one.visible) || other.score - one.score || one.order - other.order,
  );
  const matches = looked.slice(0, limit).map(({ element, score, why, visible }) => ({
    ref: refOf(element),
    role: kindOf(element),
    name: nameOf(element, kindOf(element)).text,
    text: contentOf(element, 120),
    score: Math.round(score),
    why,
    visible,
  }));
  return { matches, found: search.found.length, truncated, next: nextRef };
}
