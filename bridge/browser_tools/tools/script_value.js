/**
 * The value of a client's script as text, made where the value lives: what is too long never leaves the page.
 *
 * JSON where it is that; else as near to it as can be, with what JSON has no words for in brackets.
 *
 * @param {number} limit characters
 * @param {any} given the value; a promise is waited for
 * @param {boolean} isBoxed it is the one item of an array
 * @returns {Promise<{ type: string, text: string, length: number }>}
 */
async (limit, given, isBoxed) => {
  const MAX_DEPTH = 12;
  const MAX_ITEMS = 10_000;
  const MAX_PREVIEW = 500;
  const MIN_COOKIE = 8;
  let items = 0;
  let isExact = true;

  /** @param {string} text */
  const inBrackets = (text) => {
    isExact = false;
    return `[${text.slice(0, MAX_PREVIEW)}]`;
  };

  /** @param {any} value */
  const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

  /** @param {any} node */
  const nodePreview = (node) => {
    if (node.nodeType !== 1) return inBrackets(`${node.nodeName} ${(node.textContent ?? "").trim()}`.trim());
    const own = node.cloneNode(false).outerHTML;
    const text = (node.textContent ?? "").slice(0, MAX_PREVIEW).replace(/\s+/g, " ").trim();
    return inBrackets(text ? `${own.replace(/<\/[^<]*$/, "")}${text.slice(0, 100)}` : own);
  };

  /** @param {any} value @param {any[]} around */
  const membersOf = (value, around) => {
    const names = Object.keys(value);
    const tag = tagOf(value);
    if (names.length === 0 && tag !== "Object") return inBrackets(tag);
    /** @type {Record<string, unknown>} */
    const found = {};
    for (const name of names) {
      if (items > MAX_ITEMS) {
        found["…"] = inBrackets(`${names.length - Object.keys(found).length} more`);
        break;
      }
      let member;
      try {
        member = value[name];
      } catch (error) {
        found[name] = inBrackets(`threw ${error}`);
        continue;
      }
      found[name] = copied(member, around);
    }
    return found;
  };

  /** @param {ArrayLike<any>} list @param {any[]} around */
  const listed = (list, around) => {
    const found = [];
    for (let place = 0; place < list.length; place += 1) {
      if (items > MAX_ITEMS) return [...found, inBrackets(`${list.length - place} more`)];
      found.push(copied(list[place], around));
    }
    return found;
  };

  /** @param {any} value @param {any[]} around @returns {unknown} */
  const copiedObject = (value, around) => {
    const tag = tagOf(value);
    if (typeof value.nodeType === "number" && typeof value.nodeName === "string") return nodePreview(value);
    if (value.window === value) return inBrackets("Window");
    if (around.includes(value)) return inBrackets("circular");
    if (around.length >= MAX_DEPTH) return inBrackets(Array.isArray(value) ? `Array(${value.length})` : tag);
    const inside = [...around, value];
    if (Array.isArray(value)) return listed(value, inside);
    if (value instanceof Error) return inBrackets(String(value.stack || value));
    if (tag === "RegExp") return inBrackets(String(value));
    if (tag === "Promise") return inBrackets(tag);
    if (tag === "Map") return { [inBrackets(`Map(${value.size})`)]: listed([...value].slice(0, MAX_ITEMS), inside) };
    if (tag === "Set") return { [inBrackets(`Set(${value.size})`)]: listed([...value].slice(0, MAX_ITEMS), inside) };
    if (ArrayBuffer.isView(value)) {
      const { length = value.byteLength } = /** @type {any} */ (value);
      return { [inBrackets(`${tag}(${length})`)]: Array.prototype.slice.call(value, 0, 100).map(String) };
    }
    if (typeof value.toJSON === "function") return copied(value.toJSON(), inside);
    if (/^(NodeList|HTML\w*Collection|DOMTokenList|FileList|NamedNodeMap|\w+RectList)$/.test(tag)) return listed(value, inside);
    return membersOf(value, inside);
  };

  /** @param {any} value @param {any[]} around @returns {unknown} */
  const copied = (value, around) => {
    items += 1;
    if (value === null || typeof value === "boolean") return value;
    if (typeof value === "string") return value.length > limit ? value.slice(0, limit) : value;
    if (typeof value === "number") return Number.isFinite(value) ? value : inBrackets(String(value));
    if (typeof value === "bigint") return inBrackets(`${value}n`);
    if (typeof value === "function") return inBrackets(around.length ? `function ${value.name}` : String(value));
    if (typeof value !== "object") return inBrackets(String(value)); // undefined, a symbol
    try {
      return copiedObject(value, around);
    } catch (error) {
      return inBrackets(`threw ${error}`);
    }
  };

  /** Cookies are credentials: they are kept out of transcripts. @param {string} text */
  const withoutCookies = (text) => {
    const cookies = typeof document === "undefined" ? "" : document.cookie;
    for (const pair of cookies.split("; ")) {
      const value = pair.slice(pair.indexOf("=") + 1);
      if (value.length >= MIN_COOKIE) text = text.split(value).join("[cookie]");
    }
    return text;
  };

  const value = await (isBoxed ? given[0] : given);
  if (value === undefined) return { type: "undefined", text: "", length: 0 };
  if (typeof value === "string") {
    return { type: "string", text: withoutCookies(value.slice(0, limit)), length: value.length };
  }
  const copy = copied(value, []);
  const text = !isExact && typeof copy === "string" ? copy.slice(1, -1) : JSON.stringify(copy);
  const shown = withoutCookies(text.slice(0, limit));
  return { type: isExact ? "json" : "preview", text: shown, length: text.length };
};
