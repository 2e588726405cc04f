/**
 * How much a page may make us carry. One rule for both ends of the port between content script and worker: the
 * page's own process does the work, and the worker, which believes no content script, does it again. Content scripts
 * can be no modules; so this is a plain script, which manifest.json puts before theirs and which the worker's modules
 * import for what it leaves on `globalThis`.
 */
var PageBounds = (() => {
  const MIB = 1024 * 1024;
  /** Of one frame's list of tools, as JSON. */
  const FRAME_TOOLS_BYTES = MIB;
  /** Of serverInfo and capabilities, each: they are labels. */
  const LABEL_BYTES = 64 * 1024;
  /** Of a page server's own notification, or of one about a call's progress. */
  const NOTIFICATION_BYTES = 64 * 1024;
  const NOTIFICATIONS_PER_SECOND = 10;

  /** Bytes of a value as UTF-8 JSON. @param {unknown} value */
  function jsonBytes(value) {
    return new TextEncoder().encode(JSON.stringify(value)).length;
  }

  /**
   * As many tools as a list may hold, in their order; one that is too long leaves its place to the next.
   *
   * @template T
   * @param {T[]} tools
   * @returns {T[]}
   */
  function fitting(tools) {
    let room = FRAME_TOOLS_BYTES;
    return tools.filter((tool) => {
      const bytes = jsonBytes(tool) + 1;
      if (bytes > room) return false;
      room -= bytes;
      return true;
    });
  }

  /** An object that is short enough for a label; undefined where it is not. @param {unknown} value */
  function label(value) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return jsonBytes(value) <= LABEL_BYTES ? value : undefined;
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

  return Object.freeze({ FRAME_TOOLS_BYTES, jsonBytes, fitting, label, Pace });
})();
globalThis.PageBounds = PageBounds;
