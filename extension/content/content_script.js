/**
 * Content script: sends this document's tools to the worker over a port, and runs its calls in the page. Its messages
 * are described in ../worker/document.js. It stops when an update of the extension has orphaned it, which an undefined
 * `chrome.runtime.id` shows.
 *
 * @typedef {import("../worker/document.js").FrameMessage} FrameMessage
 * @typedef {import("../worker/document.js").ExecuteMessage} ExecuteMessage
 * @typedef {import("../worker/document.js").AnswerMessage} AnswerMessage
 * @typedef {import("../worker/document.js").AskMessage} AskMessage
 * @typedef {import("../worker/document.js").WorkerMessage} WorkerMessage
 */

const PORT_NAME = "mcpb-frame";
const FIRST_REDIAL_MS = 250;
const LONGEST_REDIAL_MS = 25_000;
/** The worker answers a new port at once; one that is opened just while a worker stops can be lost without a word. */
const SILENCE_MS = 3_000;
/** Time between two announcements of a page that changes its tools in quick succession. */
const LISTS_PAUSE_MS = 500;
/** Of a message to the worker: the browser's own limit, and that of the wire. */
const MESSAGE_BYTES = 64 * 1024 * 1024;
const INTERNAL_ERROR = -32603;
const GONE = -32010;
const TIMED_OUT = -32011;
const TOO_LARGE = -32012;
const NAVIGATED = -32013;
const NO_LONGER_OFFERED = -32018;

const NOBODY_TO_ASK = { error: { code: GONE, message: "The caller of the page's tool is gone." } };

class PageProxy {
  #closed = new AbortController();
  #iframe = new IframeCarrier({
    onAsked: oneAtATime(async () => void this.#foundByParent()),
    onPost: (payload) => this.#post({ type: "to-server", payload }),
  });
  #iframes = new IframeHost(
    {
      onServer: () => this.#worthwhile(),
      onNamed: (nonce) => this.#post({ type: "child-frame", nonce }),
      onSaid: (nonce, payload) => this.#passOn(nonce, payload),
    },
    this.#closed.signal,
  );
  #sources = new ToolSources(
    {
      onOffer: (offer) => this.#offered(offer),
      onUpdated: (uri) => this.#updated(uri),
      onStopped: (server) => this.#unwatched(server),
      onNotification: (method, params) => this.#notified({ method, params }),
      onQuestion: (question, cancelled) => this.#asked(question, cancelled),
    },
    this.#iframe,
    (message) => this.#post(message),
    this.#closed.signal,
  );
  /** @type {chrome.runtime.Port | null} */
  #port = null;
  /** @type {Offer | null} */
  #offer = null;
  /** @type {Map<string, AbortController>} running calls */
  #calls = new Map();
  /** Resources that the worker wants to hear of, and the server of each. @type {Map<string, { server: TabTransport }>} */
  #watched = new Map();
  #updates = new ResourceUpdates((uri, watched) => this.#post({ type: "resource-updated", uri, watched }));
  /** Open requests of the page to the client of its call, by id. @type {Map<string, (answer: PageAnswer) => void>} */
  #questions = new Map();
  #pace = new PageBounds.Pace();
  #tellOffer = oneAtATime(async () => {
    if (this.#offer) this.#post({ type: "tools-updated", delegated: hasToolsPolicy(), ...this.#offer });
  }, LISTS_PAUSE_MS);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #redial;
  #failures = 0;
  /** The worker has answered on this port. */
  #isKnown = false;
  /** A port is needed, whatever this frame offers: a server here or in a child frame uses this script. */
  #isWanted = false;
  /** The parent's script has asked who we are. */
  #hasHost = false;
  /** The worker is better left asleep, unless we have news. */
  #hostMissing = false;

  /** Begin, once the page is shown: a prerendered one waits. */
  start() {
    // A prerendered page may never be shown; its frame gets its final id when it is.
    if (/** @type {any} */ (document).prerendering) {
      return document.addEventListener("prerenderingchange", () => this.start(), { once: true });
    }
    hear(document, "visibilitychange", () => this.#visible());
    // Chromium 150 may crash when a document is left that has tools (seen).
    hear(window, "pagehide", () => this.#sources.offered.withdrawAll());
    hear(window, "pageshow", ({ persisted }) => persisted && this.#restored());
    onReopened.push(() => this.#closed.signal.aborted || this.#sources.reopened());
    chrome.runtime.onMessage.addListener((message) => {
      if (message?.type === "dial" && !this.#port) this.#dialIfWorthwhile();
    });
    if (isLate()) this.#check();
    this.#sources.start();
  }

  /** Look for servers that were there before us. Pages hear it, and know then that a client is there. */
  #check() {
    if (isTopFrame()) this.#sources.check();
    this.#iframes.check();
    this.#iframe.check();
  }

  /** @param {Offer} offer */
  #offered(offer) {
    const before = this.#offer;
    this.#offer = offer;
    if (JSON.stringify(offer) === JSON.stringify(before)) return;
    if (this.#port) return this.#tellOffer();
    this.#dialIfWorthwhile();
  }

  /** @param {{ method: string, params: object }} notification of the page's server */
  #notified(notification) {
    if (!this.#pace.allows(notification)) return;
    this.#post({ type: "page-notification", ...notification, ...this.#pace.takeDropped() });
  }

  /**
   * Whether it may be asked is the worker's to say: it knows the calls of all clients. A cancelled question is open
   * until the worker has answered it, so that a page which asks and cancels in a loop waits for the worker.
   *
   * @param {PageQuestion} question
   * @param {AbortSignal} cancelled
   * @returns {Promise<PageAnswer>}
   */
  #asked(question, cancelled) {
    return new Promise((resolve) => {
      if (!this.#port) return resolve(NOBODY_TO_ASK);
      if (this.#questions.size >= PageBounds.OPEN_REQUESTS) return resolve(TOO_MANY_REQUESTS);
      const questionId = PageBounds.randomUuid();
      this.#questions.set(questionId, resolve);
      cancelled.addEventListener("abort", () => this.#post({ type: "page-question-cancelled", questionId }));
      this.#post({ type: "page-question", questionId, ...question });
    });
  }

  /** @param {AnswerMessage} message */
  #replied({ questionId, result, error }) {
    const resolve = this.#questions.get(questionId);
    this.#questions.delete(questionId);
    resolve?.(error ? { error } : { result: result ?? {} });
  }

  /** The top frame always dials; other frames once they have a tool or a page server, or are needed to reach one. */
  #dialIfWorthwhile() {
    if (!this.#offer) return;
    if (isTopFrame() || this.#isWanted || this.#offer.tools.length > 0 || this.#offer.serverInfo) this.#dial();
  }

  /** A server here or in a child frame needs the port, whatever tools this frame has. */
  #worthwhile() {
    this.#isWanted = true;
    if (!this.#port) this.#dialIfWorthwhile();
  }

  /** The parent's script has received a message of a server here. */
  #foundByParent() {
    this.#hasHost = true;
    if (this.#iframe.isOpen) return this.#iframe.open();
    if (this.#port) return this.#post({ type: "find-parent" });
    this.#worthwhile();
  }

  /**
   * What the server in an iframe says, for that frame's script. A request has its answer in any case.
   *
   * @param {string} nonce
   * @param {McpMessage} payload
   */
  #passOn(nonce, payload) {
    try {
      this.#port?.postMessage({ type: "from-child", nonce, payload });
    } catch (error) {
      const { id } = payload;
      if (id !== undefined) this.#passOn(nonce, { jsonrpc: "2.0", id, error: unwritable(error, payload) });
    }
  }

  /** Connect to the worker, and register what this document offers. */
  #dial() {
    clearTimeout(this.#redial);
    if (isOrphaned()) return this.#closed.abort();
    if (!this.#offer) return;
    const port = chrome.runtime.connect({ name: PORT_NAME });
    this.#port = port;
    const silence = setTimeout(() => {
      port.disconnect();
      this.#lost(port);
    }, SILENCE_MS);
    port.onMessage.addListener((message) => {
      clearTimeout(silence);
      this.#received(message);
    });
    port.onDisconnect.addListener(() => {
      clearTimeout(silence);
      this.#lost(port);
    });
    this.#post({ type: "register-tools", delegated: hasToolsPolicy(), ...this.#offer });
    if (this.#hasHost) this.#post({ type: "find-parent" });
  }

  /** The worker was stopped, or does not want us. @param {chrome.runtime.Port} port */
  #lost(port) {
    void chrome.runtime?.lastError;
    if (this.#port !== port) return;
    this.#hangUp();
    if (this.#hostMissing) return;
    this.#redial = setTimeout(() => this.#dial(), Math.min(LONGEST_REDIAL_MS, FIRST_REDIAL_MS * 2 ** this.#failures));
    this.#failures += 1;
  }

  /** Ends running calls, open questions and offers: their client is gone. */
  #hangUp() {
    this.#port = null;
    this.#isKnown = false;
    this.#iframes.pause();
    this.#iframe.close();
    for (const call of this.#calls.values()) call.abort();
    this.#calls.clear();
    for (const resolve of this.#questions.values()) resolve(NOBODY_TO_ASK);
    this.#questions.clear();
    for (const uri of [...this.#watched.keys()]) this.#unwatch(uri);
    this.#sources.offered.withdrawAll();
  }

  /** The user has come back to the page: the worker may look for a host again. */
  #visible() {
    if (document.visibilityState !== "visible") return;
    if (!this.#port) return this.#dialIfWorthwhile();
    if (this.#hostMissing) this.#post({ type: "frame-visible" });
  }

  /** Back from the back/forward cache: the port died when the page was frozen, often without a word. */
  #restored() {
    this.#port?.disconnect();
    this.#hangUp();
    this.#dialIfWorthwhile();
  }

  /** @param {WorkerMessage} message */
  #received(message) {
    switch (message.type) {
      case "execute-tool":
        return void this.#execute(message);
      case "ask-server":
        return void this.#ask(message);
      case "watch-resource":
        return void this.#watch(message.uri);
      case "unwatch-resource":
        return this.#unwatch(message.uri);
      case "cancel-tool":
        return this.#cancel(message.requestId);
      case "question-answer":
        return this.#replied(message);
      case "offer-tools":
        return this.#sources.offered.offer(message);
      case "withdraw-tools":
        return this.#sources.offered.withdraw(message.server);
      case "offered-result":
        return this.#sources.offered.settle(message);
      case "frame-nonce":
        return this.#iframe.introduce(message.nonce);
      case "frame-hosted":
        return message.hosted ? this.#iframe.open() : this.#iframe.close();
      case "to-child":
        return this.#iframes.deliver(message);
      case "from-server":
        return this.#iframe.onMessage(message.payload);
      case "host-status":
        this.#hostMissing = message.missing;
        this.#failures = 0;
        if (!this.#isKnown) this.#iframes.ask();
        this.#isKnown = true;
    }
  }

  /** @param {ExecuteMessage} message */
  async #execute({ requestId, toolName, args, wantsProgress }) {
    const asking = this.#begin(requestId, wantsProgress);
    const onSubmit = () => this.#post({ type: "tool-submitted", requestId });
    try {
      const payload = await this.#sources.call(toolName, args, { ...asking, onSubmit });
      this.#answer(requestId, { data: { success: true, payload } });
    } catch (error) {
      this.#answer(requestId, failureOf(error));
    }
  }

  /** @param {AskMessage} message */
  async #ask({ requestId, method, params, wantsProgress }) {
    const asking = this.#begin(requestId, wantsProgress);
    try {
      const request = /** @type {ServerRequest} */ ({ method, params });
      this.#answer(requestId, { data: { success: true, payload: await this.#sources.ask(request, asking) } });
    } catch (error) {
      this.#answer(requestId, refusalOf(error));
    }
  }

  /**
   * @param {string} requestId
   * @param {boolean} wantsProgress
   * @returns {Asking}
   */
  #begin(requestId, wantsProgress) {
    const call = new AbortController();
    this.#calls.set(requestId, call);
    const { signal } = call;
    if (!wantsProgress) return { signal };
    const pace = new PageBounds.Pace();
    const onProgress = (/** @type {McpProgress} */ progress) => {
      if (!signal.aborted && pace.allows(progress)) this.#post({ type: "tool-progress", requestId, ...progress });
    };
    return { signal, onProgress };
  }

  /** Report changes of a resource from now on. @param {string} uri */
  async #watch(uri) {
    /** @type {{ server: TabTransport } | undefined} */
    let watch;
    try {
      watch = { server: this.#sources.serverOfResource(uri) };
      this.#watched.set(uri, watch);
      await watch.server.subscribe(uri);
      if (this.#watched.get(uri) === watch) this.#post({ type: "resource-watched", uri });
    } catch (error) {
      if (watch && this.#watched.get(uri) !== watch) return; // it was ended, and maybe begun again
      this.#watched.delete(uri);
      this.#post({ type: "resource-rejected", uri, error: rejectionOf(error) });
    }
  }

  /** @param {string} uri */
  #unwatch(uri) {
    this.#watched.get(uri)?.server.unsubscribe(uri);
    this.#watched.delete(uri);
  }

  /** A page server has stopped, or another one has taken its place. @param {TabTransport} server */
  #unwatched(server) {
    for (const [uri, watch] of this.#watched) {
      if (watch.server !== server) continue;
      this.#watched.delete(uri);
      this.#post({ type: "resource-unwatched", uri });
    }
  }

  /** A page server reports a change. @param {string} uri */
  #updated(uri) {
    if (uri.length > PageBounds.URI_CHARS) return;
    for (const watched of this.#watched.keys()) {
      if (PageBounds.isPartOf(uri, watched)) this.#updates.add(uri, watched);
    }
  }

  /** @param {string} requestId */
  #cancel(requestId) {
    this.#calls.get(requestId)?.abort();
    this.#calls.delete(requestId);
  }

  /**
   * Answer a call, unless it was cancelled.
   *
   * @param {string} requestId
   * @param {Outcome} outcome
   */
  #answer(requestId, outcome) {
    if (!this.#calls.delete(requestId)) return;
    try {
      this.#port?.postMessage({ type: "tool-result", requestId, ...outcome });
    } catch (error) {
      this.#post({ type: "tool-result", requestId, ...unsendable(error, outcome) });
    }
  }

  /** @param {FrameMessage} message @returns {boolean} false: the worker is gone */
  #post(message) {
    try {
      this.#port?.postMessage(message);
      return this.#port !== null;
    } catch {
      return false; // orphaned, or the worker is gone: onDisconnect says the rest
    }
  }
}

/**
 * @typedef {{ error: { code: number, message: string, handed: boolean } }
 *   | { data: { success: boolean, payload: unknown } }} Outcome of a call, as `tool-result` carries it
 */

/**
 * @param {unknown} error
 * @returns {Outcome}
 */
function failureOf(error) {
  const message = error instanceof Error || error instanceof DOMException ? error.message : String(error);
  if (error instanceof NotOfferedError) return { error: { code: NO_LONGER_OFFERED, message, handed: false } };
  if (error instanceof WithdrawnError) return { error: { code: NO_LONGER_OFFERED, message, handed: true } };
  if (error instanceof NavigatedError) return { error: { code: NAVIGATED, message, handed: true } };
  return { data: { success: false, payload: message } };
}

/**
 * As `failureOf`, of a request to a page server: its JSON-RPC error is passed on whole.
 *
 * @param {unknown} error
 * @returns {Outcome}
 */
function refusalOf(error) {
  if (!(error instanceof PageServerError)) return failureOf(error);
  const { code = INTERNAL_ERROR, data } = plain(error.error) ?? {};
  return { data: { success: false, payload: { code, message: error.message, ...(data !== undefined && { data }) } } };
}

/** Why a resource cannot be watched: the server's text, or that it has not answered. @param {unknown} error */
function rejectionOf(error) {
  const failure = failureOf(error);
  if ("error" in failure) return failure.error;
  const code = error instanceof PageServerError && error.error ? INVALID_PARAMS : TIMED_OUT;
  return { code, message: String(failure.data.payload), handed: true };
}

/**
 * What to say instead of a result that the port refused.
 *
 * @param {unknown} error
 * @param {object} outcome
 */
function unsendable(error, outcome) {
  const { code, message } = unwritable(error, outcome);
  if (code === TOO_LARGE) return { error: { code, message, handed: true } };
  return { data: { success: false, payload: message } };
}

/**
 * Why a port refused an answer of the page.
 *
 * @param {unknown} error the port's
 * @param {object} answer
 */
function unwritable(error, answer) {
  if (!isTooLarge(error)) {
    return { code: INTERNAL_ERROR, message: "The page has answered, but its answer cannot be written as JSON." };
  }
  const bytes = new Blob([JSON.stringify(answer)]).size;
  const message = `The result has ${bytes} bytes; at most ${MESSAGE_BYTES} can be passed on. Ask for less.`;
  return { code: TOO_LARGE, message };
}

/** @param {unknown} error */
function isTooLarge(error) {
  return error instanceof Error && error.message.includes("exceeded maximum allowed size");
}

/** Return whether this is the tab's own page, and no frame in one. */
function isTopFrame() {
  return window.parent === window;
}

/**
 * Whether this page was open before the extension was installed or updated. Else our listeners were there before any
 * server. Firefox brings the scripts into open pages by itself, without injection.js.
 */
function isLate() {
  if ("mcpbIsLate" in globalThis) return true;
  return chrome.runtime.getURL("").startsWith("moz-extension:") && document.readyState !== "loading";
}

/**
 * Whether this document has the permission policy `tools`: a frame of another site has it by `allow="tools"` alone. A
 * browser without WebMCP does not know it.
 */
function hasToolsPolicy() {
  const policy = /** @type {any} */ (document).featurePolicy;
  return policy?.features().includes("tools") === true && policy.allowsFeature("tools");
}

/** Return whether an update of the extension has left this script behind. */
function isOrphaned() {
  return chrome.runtime?.id === undefined;
}

var mcpbProxy = new PageProxy(); // a global by intent: injection.js looks for it
mcpbProxy.start();
