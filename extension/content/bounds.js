/**
 * Limits of what a page may send. Content script and worker apply the same rule: the page's process does the work, and
 * the worker, which trusts no content script, repeats it. Content scripts cannot be modules, so this is a plain script:
 * manifest.json lists it before them, and the worker imports it for what it sets on `globalThis`.
 */
var PageBounds = (() => {
  const MIB = 1024 * 1024;
  /** Of one frame's four lists together, as JSON. */
  const FRAME_OFFER_BYTES = MIB;
  /** Of the URI of a resource. */
  const URI_CHARS = 2048;
  /** Minimum size of an entry: each one costs work, however short it is. */
  const ENTRY_BYTES = 1024;
  /** The lists, in the order in which they get room. */
  const KINDS = Object.freeze(/** @type {const} */ (["tools", "prompts", "resourceTemplates", "resources"]));
  /** Of serverInfo and capabilities, each: they are labels. */
  const LABEL_BYTES = 64 * 1024;
  /** Of a page server's own notification, or of one about a call's progress. */
  const NOTIFICATION_BYTES = 64 * 1024;
  const NOTIFICATIONS_PER_SECOND = 10;
  /** Limits of a page's question to the user. */
  const QUESTION_BYTES = 2 * 1024;
  const QUESTION_SCHEMA_BYTES = 64 * 1024;
  const QUESTION_RULE = "A question needs a message, and its requestedSchema is an object of at most 64 KiB.";

  /** Bytes of a value as UTF-8 JSON. @param {unknown} value */
  function jsonBytes(value) {
    return new TextEncoder().encode(JSON.stringify(value)).length;
  }

  /**
   * As much of a text as fits, in whole characters.
   *
   * @param {string} text
   * @param {number} bytes of UTF-8
   */
  function cut(text, bytes) {
    if (text.length * 3 <= bytes) return text;
    return text.slice(0, new TextEncoder().encodeInto(text, new Uint8Array(bytes)).read);
  }

  /**
   * Return a random UUID (RFC 9562, version 4). Content scripts of pages over plain HTTP have no `crypto.randomUUID`.
   */
  function randomUuid() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (Number(bytes[6]) & 0x0f) | 0x40;
    bytes[8] = (Number(bytes[8]) & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }

  /** Bytes of room that an entry takes in a list. @param {unknown} entry */
  function taken(entry) {
    return Math.max(ENTRY_BYTES, jsonBytes(entry) + 1);
  }

  /**
   * As much of a frame's lists as they may hold together: tools first, resources last. An entry that is too long leaves
   * its place to the next.
   *
   * @param {Record<string, any[]>} listed
   * @returns {{ lists: import("../worker/wire.js").Lists, room: number, leftOut: Record<string, number> }} lists
   *   that are empty are absent, except tools; `room`: bytes that they take; `leftOut`: how many entries are not in them
   */
  function fitOffer(listed) {
    let room = 0;
    /** @type {import("../worker/wire.js").Lists} */
    const lists = { tools: [] };
    /** @type {Record<string, number>} */
    const leftOut = {};
    for (const kind of KINDS) {
      const given = listed[kind] ?? [];
      const fit = given.filter((entry) => {
        const bytes = taken(entry);
        if (room + bytes > FRAME_OFFER_BYTES) return false;
        room += bytes;
        return true;
      });
      if (fit.length > 0) lists[kind] = fit;
      leftOut[kind] = given.length - fit.length;
    }
    return { lists, room, leftOut };
  }

  /** An object that is short enough for a label; undefined where it is not. @param {unknown} value */
  function label(value) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return jsonBytes(value) <= LABEL_BYTES ? value : undefined;
  }

  /**
   * A page's question to the user: its text is truncated; a truncated form would ask for something else.
   *
   * @param {{ message?: unknown, requestedSchema?: unknown }} asked
   * @returns {{ message: string, requestedSchema?: object } | null} null: it cannot be asked
   */
  function question({ message, requestedSchema: schema }) {
    if (typeof message !== "string") return null;
    const text = cut(message, QUESTION_BYTES);
    if (schema === undefined) return { message: text };
    if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return null;
    return jsonBytes(schema) <= QUESTION_SCHEMA_BYTES ? { message: text, requestedSchema: schema } : null;
  }

  /**
   * Whether a URI is that of a resource, or of a part of it: `cart://1/items` of `cart://1`, not `cart://10`.
   *
   * @param {string} uri
   * @param {string} whole
   */
  function isPartOf(uri, whole) {
    if (!uri.startsWith(whole)) return false;
    return uri.length === whole.length || /[/?#]$/.test(whole) || /[/?#]/.test(uri.charAt(whole.length));
  }

  /** Notifications of a frame, or those of a call about its progress: what is too much is dropped. */
  class Pace {
    #since = -Infinity;
    #count = 0;

    /**
     * Whether one more may pass.
     *
     * @param {object} message a JSON value
     */
    allows(message) {
      const now = performance.now();
      if (now - this.#since >= 1000) [this.#since, this.#count] = [now, 0];
      this.#count += 1;
      return this.#count <= NOTIFICATIONS_PER_SECOND && jsonBytes(message) <= NOTIFICATION_BYTES;
    }
  }

  return Object.freeze({
    FRAME_OFFER_BYTES,
    ENTRY_BYTES,
    KINDS,
    URI_CHARS,
    QUESTION_RULE,
    cut,
    jsonBytes,
    fitOffer,
    label,
    question,
    isPartOf,
    randomUuid,
    Pace,
  });
})();
globalThis.PageBounds = PageBounds;
