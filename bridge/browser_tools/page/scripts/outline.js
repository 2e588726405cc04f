/** The page as an outline: a line for each element that means something, in the order in which it is shown. */

const MAX_OPTIONS = 30;
/** Siblings of one kind: of more than so many, only the first are shown. */
const MAX_ALIKE = 40;
const SHOWN_ALIKE = 20;
/** Kinds that are folded, and what several of them are called. @type {Record<string, string>} */
const FOLDED = {
  listitem: "list items",
  row: "rows",
  article: "articles",
  option: "options",
  menuitem: "menu items",
  treeitem: "tree items",
  link: "links",
};
/** Roles without a line where a single element stands in them, and they have no name but its own. */
const WRAPPERS = new Set(["listitem", "cell", "gridcell"]);
/** Kinds that stay where only controls are wanted: groups, once they have a name, and what tells the user something. */
const GROUPS = new Set(["group", "radiogroup"]);
const MESSAGES = new Set(["alert", "alertdialog", "dialog", "status"]);
/** Characters of a message there. */
const MAX_MESSAGE = 300;
/** Lines of a match's content, and beside it, that `query` shows. */
const MATCH_INSIDE = 8;
const MATCH_BESIDE = 1;
/** Characters of the outline in which `query` looks. */
const MAX_SEARCHED = 1_000_000;
/** Of one level. */
const INDENT_CHARS = 2;

/**
 * Indent in levels; text before the ref; the ref, or 0; text behind it; whether it is a frame with a page of its own.
 * @typedef {[indent: number, head: string, ref: number, tail: string, isFrame: boolean]} Line
 */

/** Lines, as many as fit. */
class Outline {
  /** @param {number} maxIndent @param {number} maxChars */
  constructor(maxIndent, maxChars) {
    this.maxIndent = maxIndent;
    this.left = maxChars;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {false | "depth" | "size"} */
    this.truncated = false;
    this.text = "";
    this.textIndent = 0;
    /** The line of an element that nothing is below yet and that has no name: text may stand in it. */
    this.mayTakeText = false;
    /** A heading that has a line once a control follows it.
     * @type {Line | null} */
    this.heading = null;
  }

  get isFull() {
    return this.truncated === "size";
  }

  /** @param {number} indent */
  tooDeep(indent) {
    if (indent < this.maxIndent) return false;
    this.truncated ||= "depth";
    return true;
  }

  /** @param {number} indent @param {string} text a piece of a running text */
  write(indent, text) {
    const line = oneLine(text.slice(0, 4 * this.left + 4));
    this.#append(indent, /(^|\s)$/.test(this.text) ? line.trimStart() : line);
  }

  /** Text that keeps its line breaks and spaces: each of its lines has its own.
   * @param {number} indent @param {string} text */
  writePreserved(indent, text) {
    const [first = "", ...others] = text.slice(0, 4 * this.left + 4).split(/\r?\n/);
    this.#append(indent, printable(first));
    if (others.some((line) => line.trim())) this.mayTakeText = false;
    for (const line of others) {
      this.endText();
      this.#append(indent, printable(line));
    }
  }

  /** @param {number} indent @param {string} text printable */
  #append(indent, text) {
    if (indent !== this.textIndent) this.endText();
    this.textIndent = indent;
    if (this.text.length <= this.left) this.text += text;
  }

  /** What comes next begins another line. */
  endText() {
    const text = this.text.trimEnd();
    this.text = "";
    if (!text.trim() || this.tooDeep(this.textIndent)) return;
    const room = this.left - INDENT_CHARS * this.textIndent - 3;
    const whole = quotedText(text, Math.max(room, 1));
    // Quotes within it are longer than they were.
    const shown = whole.length <= room + 2 ? whole : quotedText(text, Math.max(Math.floor(room / 2), 1));
    const above = this.lines.at(-1);
    if (this.mayTakeText && above && above[0] === this.textIndent - 1 && shown.length + 2 <= this.left) {
      above[3] += `: ${shown}`;
      this.left -= shown.length + 2;
      this.mayTakeText = false;
    } else this.add([this.textIndent, shown, 0, "", false]);
    if (shown.endsWith('…"') && !text.endsWith("…")) this.truncated = "size";
  }

  /** @param {Line} line @param {boolean} mayTakeText */
  add(line, mayTakeText = false) {
    this.endText();
    const { heading } = this;
    this.heading = null;
    if (heading) this.add(heading);
    if (this.isFull) return;
    const length = lengthOf(line);
    if (length > this.left) {
      this.truncated = "size";
      return;
    }
    this.left -= length;
    this.lines.push(line);
    this.mayTakeText = mayTakeText;
  }

  /** Say of elements with the same role and name what they are in, as far as it fits and no line around says it. */
  addContexts() {
    /** @type {Map<Element, Line>} */
    const lines = new Map();
    for (const line of this.lines) if (line[2] && !line[1].startsWith("…")) lines.set(elementOf(line[2]), line);
    /** Headings that contexts repeat.
     * @type {Set<Line | undefined>} */
    const repeated = new Set();
    for (const [element, { text, card }] of contextsOf(Array.from(lines, ([each, line]) => [each, line[1]]))) {
      const line = /** @type {Line} */ (lines.get(element));
      const context = ` in ${quoted(text, MAX_TITLE)}`;
      if ((card && lines.has(card)) || context.length > this.left) continue;
      line[3] = context + line[3];
      this.left -= context.length;
      const heading = card && queryAll(card, HEADINGS)[0];
      if (heading) repeated.add(lines.get(heading));
    }
    this.lines = this.lines.filter((line) => !repeated.has(line) || !line[1].startsWith("heading "));
  }

  /** Leave out a line that says no more than the only one directly below it.
   * @param {number} at its index, when everything in it has been read */
  unwrap(at) {
    this.endText();
    const [wrapper, only, ...others] = this.lines.slice(at);
    if (!wrapper || !only || wrapper[3] || others.some(([indent]) => indent <= only[0])) return;
    const name = nameIn(wrapper[1]);
    if (name && name !== nameIn(only[1])) return;
    const moved = [only, ...others];
    this.lines.splice(at, 1);
    for (const line of moved) line[0] -= 1;
    this.left += lengthOf(wrapper) + INDENT_CHARS * moved.length;
  }
}

/** Characters of a line in the text, with its end.
 * @param {Line} line */
function lengthOf([indent, head, ref, tail]) {
  return INDENT_CHARS * indent + head.length + tail.length + (ref ? 3 + String(ref).length : 0) + 1;
}

/** @param {string} head of a line @returns {string} */
function nameIn(head) {
  const end = head.indexOf(" ");
  return end < 0 ? "" : head.slice(end);
}

/**
 * Where a node stands: `isNamed`: its text is in a name that stands elsewhere; `isPointed`: the pointer around it says
 * “click”; `message`: the message that it is in, if only controls and messages are wanted.
 * @typedef {{indent: number, isNamed: boolean, isPointed: boolean, message: {left: number} | null}} Place
 */

class Reader {
  /** @param {Outline} outline @param {{interactiveOnly: boolean, links: boolean, folds: boolean}} options */
  constructor(outline, { interactiveOnly, links, folds }) {
    this.outline = outline;
    this.interactiveOnly = interactiveOnly;
    this.links = links;
    this.folds = folds;
    /** @type {Element | null} */
    this.start = null;
    /** A block's end is a null; the end of a wrapper is the index of its line; what is ours to say is a text, with the
     * ref of its element or 0.
     * @type {[Node | [text: string, ref: number] | number | null, Place][]} */
    this.waiting = [];
  }

  /** @param {Element} start */
  read(start) {
    this.start = start;
    this.waiting.push([start, { indent: 0, isNamed: false, isPointed: false, message: null }]);
    while (this.waiting.length && !this.outline.isFull) {
      const [node, place] = /** @type {[Node | [string, number] | number | null, Place]} */ (this.waiting.pop());
      if (node === null) this.outline.endText();
      else if (typeof node === "number") this.outline.unwrap(node);
      else if (Array.isArray(node)) this.outline.add([place.indent, node[0], node[1], "", false]);
      else if (node instanceof Element) this.#element(node, place);
      else if (node instanceof Text) this.#text(node, place);
    }
    this.outline.endText();
    if (this.interactiveOnly) this.outline.addContexts();
  }

  /** @param {Text} node @param {Place} place */
  #text(node, { indent, isNamed, message }) {
    if ((this.interactiveOnly && !message?.left) || isNamed) return;
    const parent = shownParent(node);
    const style = parent && getComputedStyle(parent);
    if (style && style.visibility !== "visible") return;
    const text = message ? node.data.slice(0, message.left) : node.data;
    if (message) message.left -= text.length;
    if (style && keepsLines(style)) this.outline.writePreserved(indent, keptLines(text, style));
    else this.outline.write(indent, text);
  }

  /** @param {Element} element @param {Place} place */
  #element(element, place) {
    const style = getComputedStyle(element);
    if (isAway(element, style)) return;
    if (tagOf(element) === "br") return void this.outline.write(place.indent, " ");
    if (isBlock(style)) this.outline.endText();
    const inside = { ...place, isNamed: place.isNamed || isNaming(element), isPointed: style.cursor === "pointer" };
    const role = style.visibility === "visible" ? this.#role(element, place, inside) : "";
    if (role) {
      if (this.outline.tooDeep(place.indent)) return;
      if (this.interactiveOnly && MESSAGES.has(role)) inside.message = { left: MAX_MESSAGE };
      if (!this.#line(element, role, inside)) return;
      if (WRAPPERS.has(role) && element !== this.start && !isTarget(element, role, place, inside)) {
        this.waiting.push([this.outline.lines.length - 1, place]);
      }
    }
    this.#children(element, inside, style);
  }

  /** "" where only what is in it may have a line.
   * @param {Element} element @param {Place} place @param {Place} inside */
  #role(element, place, inside) {
    const tag = tagOf(element);
    if (tag === "html" || tag === "body") return "";
    const role = roleOf(element);
    if (isTarget(element, role, place, inside)) return role || "clickable";
    if (role === "iframe") return role;
    if (inside.isNamed) return "";
    if (!this.interactiveOnly) return role;
    if (role === "heading") this.#keepHeading(element, inside);
    if (MESSAGES.has(role)) return contentOf(element, 2) ? role : "";
    return GROUPS.has(role) && nameOf(element, role).text ? role : "";
  }

  /** What is in a heading has its own line: a link, mostly.
   * @param {Element} element @param {Place} place */
  #keepHeading(element, { indent }) {
    const name = nameOf(element, "heading");
    const isOnly = name.text && queryAll(element, "a, button, input, [role]").length === 0;
    this.outline.heading = isOnly ? [indent, headOf("heading", name), refOf(element), "", false] : null;
  }

  /** Its line; false: nothing in it is to be read.
   * @param {Element} element @param {string} role @param {Place} inside becomes the place of what is in it */
  #line(element, role, inside) {
    const name = nameOf(element, role);
    const isFrame = role === "iframe";
    const tail = statesOf(element, role, name, this.links || element === this.start);
    this.outline.add([inside.indent, headOf(role, name), refOf(element), tail, isFrame], !name.text && !tail);
    inside.indent += 1;
    inside.isNamed ||= name.from === "content" && !name.text.endsWith("…");
    return (
      !isFrame && role !== "img" && tagOf(element) !== "textarea" && !(isEditingHost(element) && isOnlyText(element))
    );
  }

  /** @param {Element} element @param {Place} place @param {CSSStyleDeclaration} style */
  #children(element, place, style) {
    if (element instanceof HTMLSelectElement) return this.#options(element, place);
    if (isBlock(style)) this.waiting.push([null, place]);
    const children = this.folds && element !== this.start ? this.#fold(element) : shownChildren(element);
    for (let index = children.length - 1; index >= 0; index--) {
      this.waiting.push([/** @type {Node | [string, number]} */ (children[index]), place]);
    }
  }

  /** The content of an element; of a long run of elements of one kind, the first and how many more there are.
   * @param {Element} element @returns {(Node | [string, number])[]} */
  #fold(element) {
    const children = shownChildren(element);
    if (children.length <= MAX_ALIKE) return children;
    /** @type {(Node | [string, number])[]} */
    const shown = [];
    /** @type {Node[]} */
    let run = [];
    let kind = "";
    const endRun = () => {
      const alike = kind ? run.filter((node) => node instanceof Element && isRendered(node)) : [];
      if (alike.length > MAX_ALIKE) {
        shown.push(...alike.slice(0, SHOWN_ALIKE));
        shown.push([`… ${alike.length - SHOWN_ALIKE} more ${FOLDED[kind]},`, refOf(element)]);
      } else shown.push(...run);
      run = [];
    };
    for (const node of children) {
      const isBetween = !(node instanceof Element) && (wholeTextOf(node) ?? "").trim() === "";
      const next = isBetween ? kind : node instanceof Element ? foldedKind(node) : "";
      if (next !== kind) endRun();
      kind = next;
      run.push(node);
    }
    endRun();
    return shown;
  }

  /** @param {HTMLSelectElement} select @param {Place} place */
  #options(select, place) {
    const more = select.options.length - MAX_OPTIONS;
    if (more > 0) this.waiting.push([[`… ${more} more options`, 0], place]);
    for (const option of Array.from(select.options).slice(0, MAX_OPTIONS).reverse()) this.waiting.push([option, place]);
  }
}

/** Whether it is something to act on.
 * @param {Element} element @param {string} role @param {Place} place @param {Place} inside */
function isTarget(element, role, place, inside) {
  const isPointed = inside.isPointed && !place.isPointed && closest(element, "label") === null;
  return isInteractive(element, role, isPointed) || isOnlyLabel(element);
}

/** The kind of an element that may be folded; empty: it always has its lines.
 * @param {Element} element */
function foldedKind(element) {
  const role = roleOf(element);
  return Object.hasOwn(FOLDED, role) ? role : "";
}

/**
 * The lines around those with all words of a query: what they are in, a part of their content, what is beside them.
 *
 * @param {Line[]} lines @param {string} query @returns {Line[]}
 */
function linesAround(lines, query) {
  const words = folded(query).split(/\s+/).filter(Boolean);
  /** @type {Set<number>} */
  const kept = new Set();
  lines.forEach(([indent, head, , tail, isFrame], at) => {
    const text = folded(head + tail);
    if (isFrame) kept.add(at); // its own document is asked as well
    if (!words.every((word) => text.includes(word))) return;
    kept.add(at);
    let level = indent;
    for (let above = at - 1; above >= 0 && level > 0; above--) {
      const [of] = /** @type {Line} */ (lines[above]);
      if (of >= level) continue;
      level = of;
      kept.add(above);
    }
    for (let below = at + 1; below <= at + MATCH_INSIDE && (lines[below]?.[0] ?? -1) > indent; below++) kept.add(below);
    for (let beside = at - MATCH_BESIDE; beside <= at + MATCH_BESIDE; beside++) {
      if (lines[beside]?.[0] === indent) kept.add(beside);
    }
  });
  return lines.filter((_, at) => kept.has(at));
}

/** @param {CSSStyleDeclaration} style of the element around a text */
function keepsLines(style) {
  return ["preserve", "preserve-breaks", "break-spaces"].includes(style.whiteSpaceCollapse);
}

/** Lines without the spaces that are not shown.
 * @param {string} text @param {CSSStyleDeclaration} style */
function keptLines(text, style) {
  if (style.whiteSpaceCollapse !== "preserve-breaks") return text;
  return text.replace(/[^\S\n]+/g, " ").replace(/ ?\n ?/g, "\n");
}

/** @param {CSSStyleDeclaration} style */
function isBlock(style) {
  return !style.display.startsWith("inline") && style.display !== "contents";
}

/** Its text is the name of another element, and stands in the line of that.
 * @param {Element} element */
function isNaming(element) {
  const tag = tagOf(element);
  if (element instanceof HTMLLabelElement) {
    return element.control !== null && isRendered(element.control) && !hasOwnName(element.control);
  }
  if (tag !== "legend" && tag !== "caption" && tag !== "figcaption") return false;
  const named = shownParent(element);
  return named !== null && ["fieldset", "table", "figure"].includes(tagOf(named)) && !hasOwnName(named);
}

/** A label whose control is not shown is all that there is to click.
 * @param {Element} element */
function isOnlyLabel(element) {
  return element instanceof HTMLLabelElement && element.control !== null && !isRendered(element.control);
}

/** Its text is its value then, which stands in its line.
 * @param {Element} editor */
function isOnlyText(editor) {
  return (
    queryAll(editor, "a, button, img, input, table").length === 0 && (wholeTextOf(editor) ?? "").length <= MAX_VALUE
  );
}

/**
 * @typedef {object} Reading
 * @property {"interactive" | "all"} [filter]
 * @property {number} [depth]
 * @property {number} [maxChars]
 * @property {number} [ref]
 * @property {boolean} [links] also the addresses of links
 * @property {string} [query] only what surrounds the lines with these words
 */

/** @param {Reading} given */
function readPage({ filter = "all", depth = 15, maxChars = 20_000, ref = 0, links = false, query = "" }) {
  const start = ref ? elementOf(ref) : documentElementOf(document);
  const outline = new Outline(depth, query ? MAX_SEARCHED : maxChars);
  const options = { interactiveOnly: filter === "interactive", links, folds: !query };
  if (start) new Reader(outline, options).read(start);
  return {
    lines: query ? linesAround(outline.lines, query) : outline.lines,
    truncated: outline.truncated,
    pdf: isPdf(),
    ...whereWeAre(),
    viewport: viewport(),
    next: nextRef,
  };
}

function whereWeAre() {
  return { title: cleaned(titleOf(document), 300), url: location.href.slice(0, 4_000) };
}

/** In CSS pixels. */
function viewport() {
  const page = documentElementOf(document);
  return {
    width: innerWidth,
    height: innerHeight,
    scrollX: Math.round(scrollX),
    scrollY: Math.round(scrollY),
    pageWidth: page?.scrollWidth ?? innerWidth,
    pageHeight: page?.scrollHeight ?? innerHeight,
  };
}
