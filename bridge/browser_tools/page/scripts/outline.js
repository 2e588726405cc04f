/** The page as an outline: a line for each element that means something, in the order in which it is shown. */

const MAX_OPTIONS = 30;

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
    if (indent !== this.textIndent) this.endText();
    this.textIndent = indent;
    if (this.text.length <= this.left) this.text += oneLine(text.slice(0, 4 * this.left + 4));
  }

  /** What comes next begins another line. */
  endText() {
    const text = this.text.trim();
    this.text = "";
    if (!text || this.tooDeep(this.textIndent)) return;
    const room = this.left - 2 * this.textIndent - 3;
    const whole = quoted(text, Math.max(room, 1));
    // Quotes within it are longer than they were.
    const shown = whole.length <= room + 2 ? whole : quoted(text, Math.max(Math.floor(room / 2), 1));
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
    if (this.isFull) return;
    const length = 2 * line[0] + line[1].length + line[3].length + (line[2] ? 8 + String(line[2]).length : 0) + 1;
    if (length > this.left) {
      this.truncated = "size";
      return;
    }
    this.left -= length;
    this.lines.push(line);
    this.mayTakeText = mayTakeText;
  }
}

/**
 * Where a node stands: `isNamed`: its text is in a name that stands elsewhere; `isPointed`: the pointer around it says
 * “click”.
 * @typedef {{indent: number, isNamed: boolean, isPointed: boolean}} Place
 */

class Reader {
  /** @param {Outline} outline @param {boolean} interactiveOnly */
  constructor(outline, interactiveOnly) {
    this.outline = outline;
    this.interactiveOnly = interactiveOnly;
    /** A block's end is a null; what is ours to say is a string.
     * @type {[Node | string | null, Place][]} */
    this.waiting = [];
  }

  /** @param {Element} start */
  read(start) {
    this.waiting.push([start, { indent: 0, isNamed: false, isPointed: false }]);
    while (this.waiting.length && !this.outline.isFull) {
      const [node, place] = /** @type {[Node | string | null, Place]} */ (this.waiting.pop());
      if (node === null) this.outline.endText();
      else if (typeof node === "string") this.outline.add([place.indent, node, 0, "", false]);
      else if (node instanceof Element) this.#element(node, place);
      else if (node instanceof Text) this.#text(node, place);
    }
    this.outline.endText();
  }

  /** @param {Text} node @param {Place} place */
  #text(node, { indent, isNamed }) {
    if (this.interactiveOnly || isNamed) return;
    const parent = shownParent(node);
    if (parent && getComputedStyle(parent).visibility !== "visible") return;
    this.outline.write(indent, node.data);
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
      if (!this.#line(element, role, inside)) return;
    }
    this.#children(element, inside, style);
  }

  /** "" where only what is in it may have a line.
   * @param {Element} element @param {Place} place @param {Place} inside */
  #role(element, place, inside) {
    const tag = tagOf(element);
    if (tag === "html" || tag === "body") return "";
    const role = roleOf(element);
    const isPointed = inside.isPointed && !place.isPointed && closest(element, "label") === null;
    if (isInteractive(element, role, isPointed) || isOnlyLabel(element)) return role || "clickable";
    if (role === "iframe") return role;
    return this.interactiveOnly || inside.isNamed ? "" : role;
  }

  /** Its line; false: nothing in it is to be read.
   * @param {Element} element @param {string} role @param {Place} inside becomes the place of what is in it */
  #line(element, role, inside) {
    const name = nameOf(element, role);
    const isFrame = role === "iframe";
    const tail = statesOf(element, role, name);
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
    const children = shownChildren(element);
    for (let index = children.length - 1; index >= 0; index--) {
      this.waiting.push([/** @type {Node} */ (children[index]), place]);
    }
  }

  /** @param {HTMLSelectElement} select @param {Place} place */
  #options(select, place) {
    const more = select.options.length - MAX_OPTIONS;
    if (more > 0) this.waiting.push([`… ${more} more options`, place]);
    for (const option of Array.from(select.options).slice(0, MAX_OPTIONS).reverse()) this.waiting.push([option, place]);
  }
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

/** @param {{filter?: "interactive" | "all", depth?: number, maxChars?: number, ref?: number}} given */
function readPage({ filter = "all", depth = 15, maxChars = 50_000, ref = 0 }) {
  const start = ref ? elementOf(ref) : documentElementOf(document);
  const outline = new Outline(depth, maxChars);
  if (start) new Reader(outline, filter === "interactive").read(start);
  return {
    lines: outline.lines,
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
