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
  /** Notifications of a page server that clients receive as they are. */
  const NOTIFICATIONS = Object.freeze(["notifications/message", "notifications/elicitation/complete"]);
  const ELICITATION = "elicitation/create";
  /** What a page server may request of the client of a call. */
  const REQUESTS = Object.freeze([ELICITATION, "sampling/createMessage", "roots/list"]);
  /** Of the params of such a request. */
  const REQUEST_BYTES = 4 * MIB;
  /** Of the id of a request: it is stored until the request has its response. */
  const REQUEST_ID_CHARS = 1024;
  /** From a server in an iframe, with which the worker is busy at each; a call may send as many. */
  const REQUESTS_PER_SECOND = 8;
  /** Requests of a document, or of a server in an iframe, that may be open: a call may have fewer. */
  const OPEN_REQUESTS = 8;
  /** Running calls of a document of tools that clients offer to it. */
  const OFFERED_CALLS = 32;
  const OFFERED_CALLS_PER_SECOND = 32;
  /** Of the arguments of such a call. */
  const OFFERED_ARGS_BYTES = MIB;
  const ELICITATION_MESSAGE_BYTES = 2 * 1024;
  const ELICITATION_SCHEMA_BYTES = 64 * 1024;
  const ELICITATION_URL_BYTES = 8 * 1024;
  const ELICITATION_ID_CHARS = 256;

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
    return isObject(value) && jsonBytes(value) <= LABEL_BYTES ? value : undefined;
  }

  /**
   * A page's request to the client of a call, as far as it may be sent.
   *
   * @param {string} method one of `REQUESTS`
   * @param {unknown} params
   * @returns {{ params: object, fault?: undefined } | { params?: undefined, fault: string }} `fault`: the reason why
   *   its params are not sent
   */
  function fitRequest(method, params) {
    if (!isObject(params)) return { fault: `The params of ${method} must be an object.` };
    if (method === ELICITATION) return fitElicitation(params);
    const bytes = jsonBytes(params);
    if (bytes <= REQUEST_BYTES) return { params };
    return { fault: `The params of ${method} have ${bytes} bytes; at most ${REQUEST_BYTES} can be sent.` };
  }

  /**
   * The text of an elicitation is truncated; a truncated form or URL would ask for something else.
   *
   * @param {Record<string, unknown>} given
   * @returns {ReturnType<typeof fitRequest>}
   */
  function fitElicitation({ mode, message, requestedSchema, url, elicitationId }) {
    if (typeof message !== "string") return { fault: "An elicitation needs a message." };
    const text = cut(message, ELICITATION_MESSAGE_BYTES);
    if (mode === "url") return fitUrl(text, url, elicitationId);
    if (mode !== undefined && mode !== "form") return { fault: "The mode of an elicitation is form or url." };
    if (requestedSchema === undefined) return { params: { message: text } };
    if (isObject(requestedSchema) && jsonBytes(requestedSchema) <= ELICITATION_SCHEMA_BYTES) {
      return { params: { message: text, requestedSchema } };
    }
    return { fault: `The requestedSchema must be an object of at most ${ELICITATION_SCHEMA_BYTES} bytes.` };
  }

  /**
   * @param {string} message
   * @param {unknown} url
   * @param {unknown} elicitationId
   * @returns {ReturnType<typeof fitRequest>}
   */
  function fitUrl(message, url, elicitationId) {
    if (typeof url !== "string" || url === "" || new TextEncoder().encode(url).length > ELICITATION_URL_BYTES) {
      return { fault: `The url of an elicitation must be a text of at most ${ELICITATION_URL_BYTES} bytes.` };
    }
    if (typeof elicitationId !== "string" || elicitationId.length > ELICITATION_ID_CHARS) {
      return { fault: `The elicitationId must be a text of at most ${ELICITATION_ID_CHARS} characters.` };
    }
    return { params: { mode: "url", message, url, elicitationId } };
  }

  /** @param {unknown} value @returns {value is Record<string, unknown>} */
  function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }

  /** Return whether a value can be the id of a request. @param {unknown} id @returns {id is string | number} */
  function isRequestId(id) {
    return typeof id === "number" || (typeof id === "string" && id.length <= REQUEST_ID_CHARS);
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
    /** How many were dropped since `takeDropped`. */
    #dropped = 0;
    #since = -Infinity;
    #count = 0;

    /** @param {number} perSecond */
    constructor(perSecond = NOTIFICATIONS_PER_SECOND) {
      this.perSecond = perSecond;
    }

    /**
     * Whether one more may pass.
     *
     * @param {object} message a JSON value
     */
    allows(message) {
      const now = performance.now();
      if (now - this.#since >= 1000) [this.#since, this.#count] = [now, 0];
      this.#count += 1;
      const isAllowed = this.#count <= this.perSecond && jsonBytes(message) <= NOTIFICATION_BYTES;
      if (!isAllowed) this.#dropped += 1;
      return isAllowed;
    }

    /** Count some that were dropped earlier. @param {unknown} count */
    addDropped(count) {
      if (Number.isSafeInteger(count) && Number(count) > 0) this.#dropped += Number(count);
    }

    /** Return how many were dropped since the last time, as a member of a message; none: no member. */
    takeDropped() {
      const dropped = this.#dropped;
      this.#dropped = 0;
      return dropped > 0 ? { dropped } : {};
    }
  }

  /** Calls of a document of tools that clients offer to it: they must not occupy the client. */
  class CallLimits {
    #running = 0;
    #pace = new Pace(OFFERED_CALLS_PER_SECOND);

    /**
     * Count a call, unless it must not run. `end` follows each one that is counted.
     *
     * @param {unknown} args
     * @returns {string} reason why it must not run; empty: it may
     */
    begin(args) {
      if (this.#running >= OFFERED_CALLS) return `A page may have ${OFFERED_CALLS} running calls of such tools.`;
      if (args !== undefined && jsonBytes(args) > OFFERED_ARGS_BYTES) {
        return `The arguments of such a tool may have ${OFFERED_ARGS_BYTES} bytes.`;
      }
      if (!this.#pace.allows({})) return `A page may call such tools ${OFFERED_CALLS_PER_SECOND} times a second.`;
      this.#running += 1;
      return "";
    }

    /** A call has ended. */
    end() {
      this.#running -= 1;
    }
  }

  return Object.freeze({
    FRAME_OFFER_BYTES,
    ENTRY_BYTES,
    KINDS,
    URI_CHARS,
    NOTIFICATIONS,
    ELICITATION,
    REQUESTS,
    REQUESTS_PER_SECOND,
    OPEN_REQUESTS,
    cut,
    jsonBytes,
    fitOffer,
    fitRequest,
    label,
    isObject,
    isPartOf,
    isRequestId,
    randomUuid,
    Pace,
    CallLimits,
  });
})();
globalThis.PageBounds = PageBounds;
