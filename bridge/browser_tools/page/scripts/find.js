/** Elements by words: what they are called, what they are, what they say, and what they are in. */

const MAX_WALK = 200_000;
/** How many of the best are looked at for whether they can be seen. */
const MAX_LOOKED_AT = 200;
/** Of the best score: what is worse is no answer. */
const WORST_SHARE = 0.7;
/** Below it too little of the words has been found. */
const MIN_COVERAGE = 0.45;
/** Scores that are as good as the same, where one of several is counted out. */
const SAME_SCORE = 6;
/** Of the best, those that are counted through. */
const MAX_COUNTED = 40;
const MAX_FIELD = 400;
/** What counts of a word: of one that is written so, begins so, means so, is a part of another one. */
const EXACT = 1;
const LOOSE = 0.85;
const ALIKE = 0.8;
const PERHAPS = 0.68;
const PART = 0.4;
/** A word is at an element from here on. */
const HAS = 0.3;
const PRICE = /[€$£¥]\s?\d|\d[\d.,]*\s?(?:[€$£¥]|eur|usd|gbp|chf|kr)\b/i;
const PRICED = /^(price|cost|amount|fee|fare|value)s?$/;
const SUMMED = /^(total|sum|subtotal|grand total)s?$/;
const TIMED = /^(time|duration|length)$/;
const TIME = /\b\d{1,2}:\d{2}\b|\b\d+\s?(?:min|h|hours?|minutes?|s)\b/i;
/** Kinds that do something when they are pressed. */
const PRESSED = new Set("button link menuitem switch tab clickable".split(" "));
const FIELDS = new Set("textbox searchbox combobox spinbutton listbox".split(" "));
const ATTRIBUTES = ["title", "id", "name", "data-testid", "autocomplete", "placeholder", "aria-placeholder"];
/** Kinds that are called as what follows them. */
const TITLES = new Set("heading group legend term label region form columnheader".split(" "));
const INLINE = new Set("a abbr b code em i mark small span strong sub sup u".split(" "));
const TYPES = new Set("password email tel search date time month file number range color url submit reset".split(" "));

/**
 * An element that was walked over, up to the one where its content ends.
 * @typedef {object} Walked
 * @property {Element} element
 * @property {string} role
 * @property {boolean} isUsed it is something to act on
 * @property {number} parent index; -1: the root
 * @property {number} end the index behind its content
 * @property {string} name spaced
 * @property {[weight: number, text: string][]} fields what it may be meant by, spaced
 * @property {boolean} isLabel of a control that is there itself
 * @property {string} states of what is acted on
 */

/** @param {Element} start @returns {{nodes: Walked[], truncated: boolean}} */
function walkPage(start) {
  /** @type {Walked[]} */
  const nodes = [];
  /** A number ends the content of the element with that index.
   * @type {([Element, number, boolean] | number)[]} */
  const waiting = [[start, -1, false]];
  while (waiting.length && nodes.length < MAX_WALK) {
    const next = /** @type {[Element, number, boolean] | number} */ (waiting.pop());
    if (typeof next === "number") {
      /** @type {Walked} */ (nodes[next]).end = nodes.length;
      continue;
    }
    const [element, parent, isInside] = next;
    if (SILENT.has(tagOf(element))) continue;
    const role = roleOf(element);
    const isUsed = isInteractive(element, role, false) || isOnlyLabel(element);
    // What is in something to act on is a part of its name.
    if (isInside && !isUsed && role !== "img" && !shadowOf(element)) {
      pushChildren(element, parent, true);
      continue;
    }
    const at = nodes.length;
    nodes.push(describeWalked(element, role, isUsed, parent));
    waiting.push(at);
    pushChildren(element, at, isInside || (isUsed && !isEditingHost(element) && NAMED_BY_CONTENT.has(role)));
  }
  for (const rest of waiting) if (typeof rest === "number") /** @type {Walked} */ (nodes[rest]).end = nodes.length;
  return { nodes, truncated: waiting.some((rest) => typeof rest !== "number") };

  /** @param {Element} element @param {number} at @param {boolean} isInside */
  function pushChildren(element, at, isInside) {
    const children = shownChildren(element);
    for (let index = children.length - 1; index >= 0; index--) {
      const child = children[index];
      if (child instanceof Element) waiting.push([child, at, isInside]);
    }
  }
}

/** @param {Element} element @param {string} role @param {boolean} isUsed @param {number} parent @returns {Walked} */
function describeWalked(element, role, isUsed, parent) {
  const label = element instanceof HTMLLabelElement ? element.control : null;
  const isLabel = label !== null && !isOnlyLabel(element);
  const isNamed = isUsed || role === "img" || role === "iframe";
  const name = isNamed ? nameOf(element, role || "clickable").text : labelOf(element);
  const states = isUsed ? [...choiceStates(element, role), ...useStates(element)].join(" ") : "";
  const fields = fieldsOf(element, role, isUsed, name);
  return { element, role, isUsed, parent, end: 0, name: spaced(name), fields, isLabel, states };
}

/** What an element may be meant by, and how much that counts.
 * @param {Element} element @param {string} role @param {boolean} isUsed @param {string} name
 * @returns {Walked["fields"]} */
function fieldsOf(element, role, isUsed, name) {
  /** @type {Walked["fields"]} */
  const fields = [];
  const add = (/** @type {number} */ weight, /** @type {string | null | undefined} */ value) => {
    if (value) fields.push([weight, spaced(value.slice(0, MAX_FIELD))]);
  };
  add(1, name);
  const text = isUsed && name ? "" : ownText(element);
  add(0.95, text);
  add(0.8, signsIn(shownText(element, 3).trim()));
  for (const attributeName of ATTRIBUTES) {
    const value = attribute(element, attributeName);
    if (value !== name) add(isUsed ? 0.75 : 0.45, value);
  }
  add(isUsed ? 0.5 : 0.55, attribute(element, "class"));
  if (isUsed) {
    add(0.45, attribute(element, "href"));
    add(0.6, shownValue(element));
    if (role === "link" && /^by$/i.test(textBefore(element))) add(0.7, "author name writer");
    if (!name) add(0.8, besideText(element));
  }
  const type = typeOf(element);
  if (TYPES.has(type)) add(type === "search" || type === "password" ? 0.9 : 0.75, type === "tel" ? "tel phone" : type === "file" ? "file upload" : type);
  if (element instanceof HTMLTableCellElement) add(0.95, columnName(element));
  if (tagOf(element) === "td") add(0.6, rowName(element));
  if (tagOf(element) === "dd") add(0.85, textBefore(element));
  if (Object.hasOwn(PLACES, role)) add(0.6, PLACES[role]);
  return fields;
}

/** A button of a form sends it, if it does not say otherwise.
 * @param {Element} element */
function typeOf(element) {
  if (element instanceof HTMLButtonElement) return element.form ? element.type : "";
  return element instanceof HTMLInputElement ? element.type : "";
}

/** Text beside a control without a name: it often is meant for its label.
 * @param {Element} element */
function besideText(element) {
  const parent = shownParent(element);
  return textBefore(element) || (parent && textBefore(parent)) || "";
}

/** @param {HTMLTableCellElement} cell */
function columnName(cell) {
  const row = parentNodeOf(cell);
  const table = closest(cell, "table");
  const head = table instanceof HTMLTableElement ? table.rows[0] : null;
  const title = head && head !== row ? head.cells[cell.cellIndex] : null;
  return title && tagOf(title) === "th" ? ownText(title) || contentOf(title, 60) : "";
}

/** @param {Element} cell */
function rowName(cell) {
  const row = parentNodeOf(cell);
  const first = row instanceof HTMLTableRowElement ? row.cells[0] : null;
  return first && first !== cell ? ownText(first) : "";
}

/** Text that is the element's own, with that of inline elements in it.
 * @param {Element} element */
function ownText(element) {
  let text = "";
  for (let node = firstChildOf(element); node && text.length < MAX_FIELD; node = nextSiblingOf(node)) {
    if (node instanceof Text) text += node.data.slice(0, MAX_FIELD);
    else if (node instanceof Element && INLINE.has(tagOf(node)) && childNodesOf(node).length === 1) {
      const only = childNodesOf(node)[0];
      if (only instanceof Text) text += only.data.slice(0, MAX_FIELD);
    }
  }
  return text.trim();
}

/** How much of a term is in a text.
 * @param {Term} term @param {string} text spaced */
function likeness(term, text) {
  if (term.exact.test(text)) return EXACT;
  if (term.loose.test(text)) return LOOSE;
  if (term.alike?.test(text)) return ALIKE;
  if (term.perhaps?.test(text)) return PERHAPS;
  const word = term.words.replaceAll(" ", "");
  return word.length > 3 && text.replaceAll(" ", "").includes(word) ? PART : 0;
}

/** How much of a term an element has itself.
 * @param {Term} term @param {Walked} node */
function ownLikeness(term, node) {
  let best = 0;
  for (const [weight, text] of node.fields) {
    if (weight > best) best = Math.max(best, weight * likeness(term, text));
  }
  if (term.isState && node.isUsed && STATE_OF[term.words]?.test(node.states)) best = Math.max(best, 0.9);
  return best < 0.9 && !node.isUsed ? Math.max(best, valueLikeness(term, node.element)) : best;
}

/** States as lines have them. @type {Record<string, RegExp>} */
const STATE_OF = {
  selected: /selected|pressed|checked|current/,
  chosen: /selected|pressed|checked|current/,
  active: /selected|pressed|checked|current/,
  pressed: /pressed/,
  checked: /checked/,
  disabled: /disabled/,
  required: /required/,
  invalid: /invalid/,
  expanded: /expanded/,
  collapsed: /collapsed/,
};

/** Whether a text is a value of what a term names: a price, a sum, a time.
 * @param {Term} term @param {Element} element */
function valueLikeness({ words, exact, alike }, element) {
  const wants = PRICED.test(words) ? "price" : SUMMED.test(words) ? "sum" : TIMED.test(words) ? "time" : "";
  const text = wants && ownText(element);
  if (!text || !(wants === "time" ? TIME : PRICE).test(text)) return 0;
  if (wants !== "sum") return 0.8;
  const parent = shownParent(element);
  const beside = spaced(`${textBefore(element)} ${parent ? ownText(parent) : ""}`);
  return exact.test(beside) || alike?.test(beside) ? 0.9 : 0.35;
}

/** @typedef {{at: number, node: Walked, score: number, isComplete: boolean, isItem: boolean}} Found */

/** One description, looked for among the elements of a page. */
class Search {
  /** @param {Walked[]} nodes @param {Query} query */
  constructor(nodes, query) {
    this.nodes = nodes;
    this.query = query;
    /** How much of each term each element has itself.
     * @type {Float32Array[]} */
    this.own = query.terms.map((term) => Float32Array.from(nodes, (node) => ownLikeness(term, node)));
    /** Where each term is, in order.
     * @type {number[][]} */
    this.places = this.own.map((values) => indexesWhere(values, (value) => value >= HAS));
    /** How much each term counts: little where the page does not have it.
     * @type {number[]} */
    this.weights = query.terms.map((term, index) => term.weight * this.#presence(term, index));
    this.#chooseHead();
    /** Whether the page has nothing of the words, so that only the kind is left. */
    this.isKindOnly = query.kinds.length > 0 && this.places.every((places) => !places.length);
    /** Places of a term outside of what belongs to others of a kind.
     * @type {Map<string, number[]>} */
    this.freePlaces = new Map();
    /** Elements of one kind that have the same terms, in order.
     * @type {Map<string, number[]>} */
    this.groups = new Map();
  }

  /** @returns {Found[]} the best first */
  run() {
    const { nodes, query } = this;
    const candidates = indexesWhere(nodes, (node, at) => !isNever(node) && this.#isCandidate(node, at));
    for (const at of candidates) {
      const key = this.#groupOf(at);
      const group = this.groups.get(key);
      if (group) group.push(at);
      else this.groups.set(key, [at]);
    }
    const found = candidates.map((at) => this.#judge(at)).filter(({ score }) => score > 0);
    found.sort((one, other) => other.score - one.score || one.at - other.at);
    return query.terms.length || query.kinds.length ? found : [];
  }

  /** A first word that begins the name of something to press says what is done.  */
  #chooseHead() {
    const [first] = this.query.terms;
    if (!first || first.place !== "before" || this.query.terms.length < 2) return;
    const begins = (/** @type {Walked} */ node) => {
      const word = node.name.split(" ")[0] ?? "";
      return node.isUsed && PRESSED.has(node.role) && (first.exact.test(word) || (first.isBroad && first.alike?.test(word)));
    };
    if (!(this.places[0] ?? []).some((at) => begins(/** @type {Walked} */ (this.nodes[at])))) return;
    if (!first.isAction) return;
    for (const term of this.query.terms) if (term.place === "head") term.place = "before";
    first.place = "head";
    first.isBroad = false;
  }

  /** Little for words that the page does not have, and more for those that it has at few places.
   * @param {Term} term @param {number} index */
  #presence(term, index) {
    const places = this.places[index] ?? [];
    if (!places.length) return term.isLook || term.isKind || term.isBroad ? 0 : 0.4;
    const isNamed = () => places.some((at) => this.nodes[at]?.isUsed && term.exact.test(this.nodes[at]?.name ?? ""));
    if (term.isLook) return isNamed() ? 0.8 : 0.2;
    if (term.isBroad && !isNamed()) return 0.3;
    return Math.max(0.7, 1.25 - 0.12 * Math.log2(places.length));
  }

  /** @param {Walked} node @param {number} at */
  #isCandidate(node, at) {
    const { query, own } = this;
    if (own.some((values, term) => (values[at] ?? 0) >= HAS && query.terms[term]?.place !== "after")) return true;
    if (kindLikeness(node, query) || (query.ordinal !== null && isItemOfMany(node))) return true;
    return own.some((values) => (values[at] ?? 0) >= HAS) || (node.isUsed && query.kinds.length > 0);
  }

  /** Those that may be meant instead: of the same role, with the same words before what they are in.
   * @param {number} at */
  #groupOf(at) {
    const node = /** @type {Walked} */ (this.nodes[at]);
    const has = this.query.terms.map((term, index) => term.place !== "after" && (this.own[index]?.[at] ?? 0) >= HAS);
    return `${node.role || (node.isUsed ? "clickable" : tagOf(node.element))} ${node.isUsed} ${has.map(Number).join("")}`;
  }

  /** Places of a term that are not in others of a group.
   * @param {number} term @param {string} key @param {number} at */
  #placesFor(term, key, at) {
    const id = `${term} ${key}`;
    let free = this.freePlaces.get(id);
    if (!free) {
      const group = this.groups.get(key) ?? [];
      free = (this.places[term] ?? []).filter((place) => {
        const before = group[firstFrom(group, place + 1) - 1];
        return before === undefined || (this.nodes[before]?.end ?? 0) <= place;
      });
      this.freePlaces.set(id, free);
    }
    const end = this.nodes[at]?.end ?? at;
    const own = (this.places[term] ?? []).some((place) => place >= at && place < end);
    return own ? (this.places[term] ?? []) : free;
  }

  /** @param {number} at @returns {Found} */
  #judge(at) {
    const { nodes, query } = this;
    const node = /** @type {Walked} */ (nodes[at]);
    const kind = kindLikeness(node, query);
    const isContainer = kind > 0.5 && CONTAINERS.has(node.role || "item") && !node.isUsed;
    let covered = 0;
    let all = 0;
    let ownAll = 0;
    let isComplete = true;
    let bonus = 0;
    let after = 0;
    let afterFound = 0;
    query.terms.forEach((term, index) => {
      const weight = this.isKindOnly ? 0 : (this.weights[index] ?? 0);
      const own = this.own[index]?.[at] ?? 0;
      const inside = isContainer && own < EXACT ? this.#insideLikeness(index, at) : 0;
      const around = own >= EXACT || inside >= EXACT || !weight ? 0 : this.#aroundLikeness(index, at);
      const share = { head: this.#isTitled(index, at) ? 0.6 : 0.35, before: 0.6, after: 0.9 }[term.place];
      const mine = Math.max(own * (term.place === "after" ? 0.9 : 1), inside);
      covered += weight * Math.max(mine, share * around);
      if (term.place === "after") {
        after += weight;
        afterFound += weight * Math.max(mine, around);
      }
      ownAll += weight * mine;
      all += weight;
      if (!term.isLook && mine < PART) isComplete = false;
      if (term.place === "head" && mine < HAS && this.places[index]?.length) bonus -= 12;
      if (term.isAction && !term.isBroad && index === 0 && own >= 0.5 && node.isUsed) bonus += 8;
    });
    const coverage = all ? covered / all : 0;
    const namedKinds = query.kinds.filter((word) => ` ${node.name} `.includes(` ${word} `)).length;
    const isNamedKind = namedKinds > 0 && namedKinds === query.kinds.length && node.isUsed;
    const isItem = query.ordinal !== null && isItemOfMany(node);
    const nothing = { at, node, score: isItem ? 1 : 0, isComplete: false, isItem };
    if (all ? coverage < MIN_COVERAGE : !kind && !namedKinds) return nothing;
    if (all && ownAll === 0 && kind < 0.5) return nothing;
    let score = (all ? 100 * coverage : 40) + bonus;
    if (query.kinds.length) score += isNamedKind ? 24 : kind ? 24 * kind : namedKinds ? 6 : -14;
    score += 5 * namedKinds;
    if (query.isTyped) score += FIELDS.has(node.role) ? 14 : -14;
    const isAction = ACTIONS.has(node.name.split(" ")[0] ?? "") && query.terms.every((term) => !term.isAction);
    if (isAction && node.isUsed) score -= 6;
    if (tagOf(node.element) === "h1" && query.roles.has("heading")) score += 6;
    score += this.#useBonus(node, after ? afterFound / after : 1) + this.#nameBonus(node);
    if (isContainer) score -= Math.min(6, 2 * Math.log10(Math.max(1, node.end - at)));
    else if (!node.isUsed) score -= Math.min(3, Math.log2(Math.max(1, node.end - at)));
    if (query.roles.has("item") && closest(node.element, "nav, header, footer, [role=navigation]")) score -= 12;
    return { at, node, score: Math.max(score, 1), isComplete, isItem };
  }

  /** For what can be acted on, unless a text is meant; less for what only stands above others.
   * @param {Walked} node @param {number} surely how much of what it should be in is around it */
  #useBonus({ element, role, isUsed }, surely) {
    const { roles, terms, kinds } = this.query;
    const wantsText =
      Array.from(roles).some((each) => TEXT_KINDS.has(each)) ||
      terms.some(({ words, place }) => place === "head" && [PRICED, SUMMED, TIMED].some((value) => value.test(words)));
    if (isUsed) return wantsText ? 0 : 16 * surely;
    // The value in a column of that name.
    if (tagOf(element) === "td" && terms.some((term) => term.place === "after")) return 10;
    return !kinds.length && TITLES.has(role || tagOf(element)) ? -16 : 0;
  }

  /** Whether a term is in the name of a group or section that something to act on is in.
   * @param {number} term @param {number} at */
  #isTitled(term, at) {
    const { nodes } = this;
    if (!nodes[at]?.isUsed) return false;
    for (let around = nodes[at]?.parent ?? -1; around >= 0; around = nodes[around]?.parent ?? -1) {
      const node = /** @type {Walked} */ (nodes[around]);
      if (node.name && (this.own[term]?.[around] ?? 0) >= HAS) return true;
    }
    return false;
  }

  /** For a name that is just what was looked for, and less where it says much else.
   * @param {Walked} node */
  #nameBonus({ name, fields }) {
    const { phrase, kinds, terms } = this.query;
    const text = name || (fields[0]?.[1] ?? "");
    if (!text || !phrase) return 0;
    if (text === phrase || text === [phrase, ...kinds].join(" ")) return 14;
    const words = text.split(" ").filter((word) => !SMALL_WORDS.has(word));
    const isOther = (/** @type {string} */ word) => terms.every((term) => !term.loose.test(word));
    const others = words.filter(isOther).length;
    return (` ${text} `.includes(` ${phrase} `) ? 6 : 0) - Math.min(10, 2 * others);
  }

  /** How much of a term is in the content of an element.
   * @param {number} term @param {number} at */
  #insideLikeness(term, at) {
    const places = this.places[term] ?? [];
    const end = this.nodes[at]?.end ?? at;
    let best = 0;
    for (let index = firstFrom(places, at); index < places.length && /** @type {number} */ (places[index]) < end; index++) {
      best = Math.max(best, this.own[term]?.[/** @type {number} */ (places[index])] ?? 0);
    }
    return 0.85 * best;
  }

  /** How surely a term that is near an element belongs to it and not to others of its kind.
   * @param {number} term @param {number} at */
  #aroundLikeness(term, at) {
    const key = this.#groupOf(at);
    const places = this.#placesFor(term, key, at);
    const group = this.groups.get(key) ?? [];
    if (!places.length) return 0;
    const { nodes } = this;
    let around = nodes[at]?.parent ?? -1;
    for (; around >= 0; around = nodes[around]?.parent ?? -1) {
      if (countWithin(places, around, nodes[around]?.end ?? 0) > 0) break;
    }
    if (around < 0) return 0;
    const end = nodes[around]?.end ?? 0;
    const near = Math.min(1, Math.max(0.3, 1 - 0.5 * Math.log10((end - around) / 15)));
    if (countWithin(group, around, end) <= 1) return near;
    // What a container is called is true of all in it.
    if ((this.own[term]?.[around] ?? 0) >= HAS) return 0.85;
    const before = places[firstFrom(places, at) - 1] ?? -1;
    const isNext = before >= around && countWithin(group, before + 1, at) === 0;
    return (isNext ? 0.9 : 0.3) * near;
  }
}

/** One of those that a page lists: of these one is counted out where nothing else fits.
 * @param {Walked} node */
function isItemOfMany({ role, isUsed, element }) {
  if (closest(element, "nav, header, footer, aside, [role=navigation]")) return false;
  return ["row", "listitem", "article"].includes(role) || (!role && !isUsed && isRepeated(element));
}

/** The page itself, and labels beside their controls.
 * @param {Walked} node */
function isNever({ element, isLabel }) {
  return isLabel || tagOf(element) === "html" || tagOf(element) === "body";
}

/** Whether an element is of the kind that is meant; a half: it may look like it.
 * @param {Walked} node @param {Query} query */
function kindLikeness({ role, isUsed, element }, { roles, lookalikes }) {
  if (roles.has(role) || (isUsed && !role && roles.has("button"))) return 1;
  if (isUsed && element instanceof HTMLLabelElement && element.control) {
    return roles.has(roleOf(element.control)) ? 1 : 0.5;
  }
  if (roles.has("item") && !role && isRepeated(element)) return 0.9;
  return lookalikes.has(role) ? 0.5 : 0;
}

/** @template T @param {ArrayLike<T>} values @param {(value: T, at: number) => boolean} fits */
function indexesWhere(values, fits) {
  const found = [];
  for (let at = 0; at < values.length; at++) if (fits(/** @type {T} */ (values[at]), at)) found.push(at);
  return found;
}

/** The first place of a sorted list that is not before `least`.
 * @param {number[]} places @param {number} least */
function firstFrom(places, least) {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (places[middle]) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @param {number[]} places @param {number} from @param {number} end */
function countWithin(places, from, end) {
  return firstFrom(places, end) - firstFrom(places, from);
}

/** Those that can be seen first; then the one that was counted out.
 * @param {Found[]} found the best first @param {Query} query */
function orderFound(found, { ordinal, terms }) {
  const looked = found.slice(0, MAX_LOOKED_AT).map((each) => ({ ...each, visible: isSeen(each.node.element) }));
  looked.sort((one, other) => Number(other.visible) - Number(one.visible) || other.score - one.score || one.at - other.at);
  const [best] = looked;
  if (!best || ordinal === null) return looked;
  if (terms.some((term) => Object.hasOwn(ORDINALS, term.words) && ownLikeness(term, best.node) >= LOOSE)) return looked;
  for (const one of looked.slice(0, MAX_COUNTED)) {
    if (one.score < WORST_SHARE * best.score) break;
    const same = looked.filter(
      (each) => each.visible && Math.abs(each.score - one.score) < SAME_SCORE && each.node.role === one.node.role,
    );
    const named = same.filter((each) => each.node.name === one.node.name);
    const meant = nthOf(named.length > 1 ? named : same, ordinal);
    if (meant) return [meant, ...looked.filter((each) => each !== meant)];
  }
  const meant = nthOf(mostOfOneKind(looked.filter((each) => each.visible && each.isItem)), ordinal);
  return meant ? [meant, ...looked.filter((each) => each !== meant)] : looked;
}

/** @template {Found} T @param {T[]} found @returns {T[]} */
function mostOfOneKind(found) {
  const kinds = Object.values(Object.groupBy(found, ({ node }) => node.role || tagOf(node.element)));
  return kinds.reduce((/** @type {T[]} */ most, kind = []) => (kind.length > most.length ? kind : most), []);
}

/** @template {Found} T @param {T[]} found @param {number} ordinal @returns {T | undefined} one of several */
function nthOf(found, ordinal) {
  const ordered = [...found].sort((one, other) => one.at - other.at);
  return ordered.length > 1 ? ordered.at(ordinal) : undefined;
}

/** @param {Element} element */
function isSeen(element) {
  return isRendered(element) && outerRectOf(element).width > 0;
}

/**
 * The best elements for each of several descriptions, which may be parts of one. `complete`: the first one has all words
 * of its description itself.
 *
 * @param {{queries: string[], limit?: number}} given
 */
function findElements({ queries, limit = 20 }) {
  const { nodes, truncated } = walkPage(documentElementOf(document));
  const alike = new Alike(nodes);
  const results = queries.map((text) => {
    const query = queryOf(text);
    const all = new Search(nodes, query).run();
    const ordered = orderFound(all, query);
    const least = WORST_SHARE * (ordered[0]?.score ?? 0);
    const good = ordered.filter(({ score }) => score >= least);
    return {
      matches: good.slice(0, limit).map((each) => describeFound(each, alike)),
      found: all.filter(({ score }) => score >= least).length,
      complete: ordered[0]?.isComplete ?? false,
    };
  });
  return { results, truncated, next: nextRef };
}

/** Elements to act on that share a role and a name with others. */
class Alike {
  /** @param {Walked[]} nodes */
  constructor(nodes) {
    this.nodes = nodes;
    /** @type {Map<string, Map<Element, number>>} */
    this.counts = new Map();
  }

  /** @param {Walked} node */
  contextOf({ element, role, name, isUsed }) {
    if (!isUsed) return "";
    const key = `${role} ${name}`;
    let counts = this.counts.get(key);
    if (!counts) {
      const same = this.nodes.filter((node) => node.isUsed && node.role === role && node.name === name);
      counts = countAround(same.map((node) => node.element).filter(isRendered));
      this.counts.set(key, counts);
    }
    return (counts.get(documentElementOf(document)) ?? 0) > 1 ? (contextAmong(element, counts)?.text ?? "") : "";
  }
}

/** @param {Found & {visible: boolean}} found @param {Alike} alike */
function describeFound({ node, score, visible }, alike) {
  return { ...describeMatch(node.element), context: alike.contextOf(node), score: Math.round(score), visible };
}

/** @param {Element} element */
function describeMatch(element) {
  const role = kindOf(element);
  return { ref: refOf(element), role, name: nameOf(element, role).text, text: contentOf(element, 120) };
}
