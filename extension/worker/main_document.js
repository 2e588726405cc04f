/**
 * The main document of an attached tab, as DevTools events report it: what a command is bound to.
 *
 * Chromium holds DevTools commands back while a navigation commits and hands them to the new document (measured in
 * Chromium 150). So a command that names no document of its own is sent only while no navigation is under way.
 */

/**
 * @typedef {{ uniqueId: string, auxData?: { isDefault?: boolean, frameId?: string } }} Context
 */

/** Navigation types that keep the document. */
const SAME_DOCUMENT = new Set(["sameDocument", "historySameDocument"]);

export class MainDocument {
  /** Number of documents that the main frame has had since the tab was attached to. */
  count = 0;
  #frameId = "";
  /** Frames on their way to another document. @type {Set<string>} */
  #leaving = new Set();
  /** Default execution contexts: DevTools session → frame → unique id. @type {Map<string, Map<string, string>>} */
  #contexts = new Map();
  /** @type {Set<() => void>} */
  #waiting = new Set();

  /** The main frame is on its way to another document. */
  get isLeaving() {
    return this.#frameId ? this.#leaving.has(this.#frameId) : this.#leaving.size > 0;
  }

  /** Take the answer of Page.getFrameTree. @param {any} answer */
  learn({ frameTree: { frame } }) {
    this.#frameId ||= frame.id;
    this.#wake();
  }

  /** @param {string} sessionId @param {string} method @param {any} params of a DevTools event */
  handle(sessionId, method, params) {
    switch (method) {
      case "Runtime.executionContextCreated":
        return this.#addContext(sessionId, params.context);
      case "Runtime.executionContextsCleared":
        return void this.#contexts.delete(sessionId);
    }
    if (sessionId === "") this.#handlePage(method, params);
  }

  /** @param {string} method @param {any} params */
  #handlePage(method, params) {
    switch (method) {
      case "Page.frameStartedNavigating":
        if (!SAME_DOCUMENT.has(params.navigationType)) this.#leaving.add(params.frameId);
        return;
      case "Page.frameStoppedLoading":
      case "Page.frameDetached":
        this.#leaving.delete(params.frameId);
        return this.#wake();
      case "Page.frameNavigated":
        if (!params.frame.parentId) this.#replace(params.frame);
        this.#leaving.delete(params.frame.id);
        return this.#wake();
      case "Inspector.targetCrashed":
        this.#leaving.clear();
        this.#contexts.delete("");
        return this.#wake();
    }
  }

  /** The tab is attached to no longer. */
  end() {
    this.#leaving.clear();
    this.#wake();
  }

  /** Forget the contexts of a session: events no longer report them. @param {string} sessionId */
  forgetContexts(sessionId) {
    this.#contexts.delete(sessionId);
  }

  /**
   * @param {string} sessionId
   * @param {string} frameId empty: the main frame's
   * @returns {string | undefined} unique id of the frame's default execution context
   */
  contextOf(sessionId, frameId) {
    return this.#contexts.get(sessionId)?.get(frameId || this.#frameId);
  }

  /**
   * Wait for events that make a condition true.
   *
   * @param {() => boolean} isSo
   * @param {number} timeoutMs
   * @returns {Promise<boolean>} whether it is true
   */
  async waitUntil(isSo, timeoutMs) {
    if (isSo()) return true;
    const { promise, resolve } = Promise.withResolvers();
    const look = () => isSo() && resolve(undefined);
    const timer = setTimeout(resolve, timeoutMs);
    this.#waiting.add(look);
    await promise;
    this.#waiting.delete(look);
    clearTimeout(timer);
    return isSo();
  }

  /** @param {{ id: string }} frame */
  #replace(frame) {
    this.count += 1;
    this.#leaving.clear();
    this.#frameId = frame.id;
  }

  /** @param {string} sessionId @param {Context} context */
  #addContext(sessionId, { uniqueId, auxData }) {
    if (!auxData?.isDefault || !auxData.frameId) return;
    const contexts = this.#contexts.get(sessionId) ?? new Map();
    this.#contexts.set(sessionId, contexts.set(auxData.frameId, uniqueId));
    this.#wake();
  }

  /** Let those who wait for a change look again. */
  #wake() {
    for (const look of [...this.#waiting]) look();
  }
}
