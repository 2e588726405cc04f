/**
 * The client end of MCP-B's transports: a page server, spoken to over a carrier. Whatever passes here can be read and
 * forged by the page, so nothing but the page's own business may pass.
 *
 * A page may hold several servers on one channel (two bundles with one each): all of them answer every request.
 *
 * @typedef {string | number} RequestId
 * @typedef {{ jsonrpc: "2.0", id?: RequestId, method?: string, params?: any, result?: any,
 *   error?: McpError }} McpMessage
 * @typedef {{ isOpen: boolean, post: (payload: McpMessage | string) => void,
 *   listen: (ear: { onMessage: (payload: any) => void, lost: () => void }, closed: AbortSignal) => void }} Carrier how
 *   servers are reached; `lost`: what was asked over it will not be answered
 * @typedef {{ progress: number, total?: number, message?: string }} McpProgress
 * @typedef {{ onReady: () => void, onChange: (kind: ListKind) => void, onLate: () => void,
 *   onUpdated: (uri: string) => void, onStopped: () => void, onNotification: (method: string, params: any) => void,
 *   onQuestion: (question: PageQuestion, cancelled: AbortSignal) => Promise<PageAnswer> }} TransportEvents `onReady`: a
 *   server is there, whose lists are worth reading; `onChange`: this list is worth reading anew; `onLate`: a list has
 *   more in it, from another server; `onUpdated`: a resource has changed; `onStopped`: no resource is watched any more;
 *   `onQuestion`: the page requests something of the client of its call; once it has cancelled that, no answer is needed
 * @typedef {{ method: string, params: object }} PageQuestion within the bounds of content/bounds.js
 * @typedef {{ result?: object, error?: { code: number, message: string } }} PageAnswer one of the two
 * @typedef {{ code: number, message: string, data?: unknown }} McpError
 * @typedef {(result: any, error: McpError | undefined) => boolean} IsRefusal whether a server says that it has no such
 *   tool, resource or prompt
 * @typedef {{ resolve: (result: any) => void, reject: (error: Error) => void, isRun: boolean,
 *   refusals: Reply[], isRefusal?: IsRefusal, onProgress?: (progress: McpProgress) => void }} PendingRequest `isRun`:
 *   the page may have done something by then
 * @typedef {{ result?: any, error?: McpError | undefined }} Reply
 * @typedef {{ id: string, servers: number, declared: Map<string, { notifies: boolean, subscribes: boolean }> }}
 *   Introduction an `initialize`: how many servers have answered it, and what they declare, all together
 * @typedef {{ signal: AbortSignal, onProgress?: (progress: McpProgress) => void }} Asking
 */

const CLIENT_INFO = { name: "mcpb", version: chrome.runtime.getManifest().version };
const PROTOCOL_VERSION = "2025-11-25";
/** What a page may ask for, not what it will be granted. */
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };
const LISTING_MS = 10_000;
const POLL_MS = 60_000;
const UPDATED = "notifications/resources/updated";
const CANCELLED = "notifications/cancelled";
/** Of an unknown method, in an error. */
const SHOWN_METHOD_BYTES = 100;
const INVALID_REQUEST = -32600;
const TOO_MANY_REQUESTS = failed(INVALID_REQUEST, `At most ${PageBounds.OPEN_REQUESTS} requests of a page can be open.`);
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
/** Of `resources/read`: MCP 2025-11-25, "Resources", "Error Handling". */
const RESOURCE_NOT_FOUND = -32002;

/** Between us and content/polyfill_server.js in the page's world. */
const POLYFILL_CHANNEL = "dev.mcpb.polyfill";

/** A page server's JSON-RPC error, in its own words; or it has not answered: then `error` is undefined. */
class PageServerError extends Error {
  /** @param {string} message @param {McpError} [error] */
  constructor(message, error) {
    super(message);
    this.error = error;
  }
}

/** To servers in this very window, by `postMessage`. */
class WindowCarrier {
  isOpen = true;

  /** @param {string} channel */
  constructor(channel) {
    this.channel = channel;
  }

  /** @param {McpMessage | string} payload */
  post(payload) {
    const target = window.origin === "null" ? "*" : window.origin;
    window.postMessage({ channel: this.channel, type: "mcp", direction: "client-to-server", payload }, target);
  }

  /**
   * @param {{ onMessage: (payload: any) => void }} ear
   * @param {AbortSignal} closed
   */
  listen({ onMessage }, closed) {
    const received = (/** @type {MessageEvent} */ { source, origin, data }) => {
      if (source !== window || origin !== window.origin) return;
      if (data?.channel !== this.channel || data.type !== "mcp" || data.direction !== "server-to-client") return;
      onMessage(data.payload);
    };
    hear(window, "message", received, { signal: closed });
  }
}

/** To content/polyfill_server.js in this very window: to the one that announced itself last. */
class PolyfillCarrier {
  isOpen = true;
  #server = "";

  /** @param {McpMessage | string} payload */
  post(payload) {
    const target = window.origin === "null" ? "*" : window.origin;
    const message = { channel: POLYFILL_CHANNEL, type: "mcp", direction: "client-to-server", payload };
    window.postMessage({ ...message, server: this.#server }, target);
  }

  /**
   * @param {{ onMessage: (payload: any) => void }} ear
   * @param {AbortSignal} closed
   */
  listen({ onMessage }, closed) {
    const received = (/** @type {MessageEvent} */ { source, origin, data }) => {
      if (source !== window || origin !== window.origin) return;
      if (data?.channel !== POLYFILL_CHANNEL || data.type !== "mcp" || data.direction !== "server-to-client") return;
      if (data.payload === "mcp-server-ready") this.#server = String(data.server);
      if (data.server === this.#server) onMessage(data.payload);
    };
    hear(window, "message", received, { signal: closed });
  }
}

class TabTransport {
  /** @type {Map<string, PendingRequest>} */
  #pending = new Map();
  /** Requests of page servers without a response; two servers may use the same id.
   * @type {Set<{ id: RequestId, cancelled: AbortController }>} */
  #open = new Set();
  #lists = new Map(LIST_REQUESTS.map((request) => [request.kind, new ServerList(request)]));
  /** The newest `initialize`. */
  #introduction = newIntroduction();
  /** The one that counts: an earlier one, until the servers have answered the newest. */
  #introduced = this.#introduction;
  /** @type {Promise<void> | null} */
  #initializing = null;
  /** @type {Map<ListKind, ReturnType<typeof setTimeout>>} */
  #polls = new Map();
  /** URIs whose changes are to be reported. @type {Set<string>} */
  #wanted = new Set();
  /** By URI: requests to report its changes, which are open or were accepted. @type {Map<string, Promise<void>>} */
  #subscribed = new Map();
  /** A page server is there. */
  connected = false;
  /** @type {object | undefined} */
  serverInfo;
  /** Of the server that answered first. @type {object | undefined} */
  capabilities;

  /**
   * @param {Carrier} carrier
   * @param {TransportEvents} events
   * @param {AbortSignal} closed
   */
  constructor(carrier, events, closed) {
    this.carrier = carrier;
    this.events = events;
    carrier.listen({ onMessage: (payload) => this.#received(payload), lost: () => this.#lost() }, closed);
    closed.addEventListener("abort", () => [...this.#polls.values()].forEach(clearTimeout));
  }

  /** Ask for a server that announced itself before we listened. */
  check() {
    this.carrier.post("mcp-check-ready");
  }

  /** Read one of the servers' lists; `entries` has it then. @param {ListKind} kind */
  async list(kind) {
    if (!this.connected || !this.carrier.isOpen) return;
    const list = this.#listOf(kind);
    try {
      await this.#initialize();
      if (!this.#isOffered(list.request)) return list.clear();
      const options = { timeoutMs: LISTING_MS, isRefusal: isError };
      await list.read(this.#servers, (id, method, params) => this.#request(method, params, { id, ...options }));
    } catch (error) {
      if (!(error instanceof PageServerError)) throw error;
      this.#initializing = null; // another server may stand in its place, one that wants to be introduced
    }
    clearTimeout(this.#polls.get(kind));
    // Only a server that does not notify is asked again and again.
    if (this.#introduced.declared.get(list.request.capability)?.notifies) return;
    this.#polls.set(kind, setTimeout(() => this.events.onChange(kind), POLL_MS));
  }

  /** As read last. @param {ListKind} kind @returns {any[]} */
  entries(kind) {
    return this.#listOf(kind).entries;
  }

  /** As read last. @param {ListKind} kind @param {string} key its name or URI @returns {any} */
  entry(kind, key) {
    return this.#listOf(kind).entry(key);
  }

  /** Whether a server here has such a capability. @param {string} capability */
  declares(capability) {
    return this.connected && this.#introduced.declared.has(capability);
  }

  /**
   * Run a tool.
   *
   * @param {string} name
   * @param {unknown} args
   * @param {Asking} asking
   * @returns {Promise<unknown>} what the server answered
   * @throws {PageServerError | NavigatedError | NotOfferedError} it stopped meanwhile; it cannot be reached now
   */
  call(name, args, asking) {
    const isRefusal = (/** @type {any} */ result, /** @type {McpError | undefined} */ error) =>
      isUnknownTool(name, result, error);
    return this.#run("tools/call", { name, arguments: args }, isRefusal, asking);
  }

  /**
   * Send a request about a resource or a prompt.
   *
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {Asking} asking
   * @returns {Promise<any>} the server's result
   * @throws {PageServerError | NavigatedError | NotOfferedError} as `call`
   */
  ask(method, params, asking) {
    return this.#run(method, params, isUnknownEntry, asking);
  }

  /**
   * Let a server report changes of a resource, if it can; others report them unasked.
   *
   * @param {string} uri
   * @throws {PageServerError} no server knows the resource
   */
  async subscribe(uri) {
    this.#wanted.add(uri);
    await this.#initialize();
    if (!this.#wanted.has(uri)) return;
    const subscribed = this.#subscribed.get(uri) ?? this.#requestUpdates(uri);
    this.#subscribed.set(uri, subscribed);
    try {
      await subscribed;
    } catch (error) {
      if (this.#subscribed.get(uri) === subscribed) this.#subscribed.delete(uri);
      throw error;
    }
  }

  /** @param {string} uri */
  async #requestUpdates(uri) {
    if (!this.#introduced.declared.get("resources")?.subscribes) return;
    let mayReportUnasked = false; // a server without subscriptions may be the one with the resource
    const isRefusal = (/** @type {any} */ result, /** @type {McpError | undefined} */ error) => {
      mayReportUnasked ||= error?.code === METHOD_NOT_FOUND;
      return isUnknownEntry(result, error);
    };
    try {
      await this.#request("resources/subscribe", { uri }, { timeoutMs: LISTING_MS, isRefusal });
    } catch (error) {
      if (!mayReportUnasked) throw error;
    }
  }

  /** End the reports of a resource, without waiting for the server. @param {string} uri */
  unsubscribe(uri) {
    this.#wanted.delete(uri);
    if (!this.#subscribed.delete(uri) || !this.connected) return;
    if (!this.#introduced.declared.get("resources")?.subscribes) return;
    this.#request("resources/unsubscribe", { uri }, { timeoutMs: LISTING_MS }).catch(() => {});
  }

  /** @param {ListKind} kind */
  #listOf(kind) {
    return /** @type {ServerList} */ (this.#lists.get(kind));
  }

  /** Servers of old declare nothing and have tools. @param {ListRequest} request */
  #isOffered({ capability }) {
    const { declared } = this.#introduced;
    if (declared.has(capability)) return true;
    return capability === "tools" && !declared.has("resources") && !declared.has("prompts");
  }

  /** How many servers are on the channel, as far as they have answered. */
  get #servers() {
    return Math.max(this.#introduced.servers, this.#introduction.servers);
  }

  /** Exchange MCP's opening messages with the servers, once. */
  #initialize() {
    this.#initializing ??= this.#introduce();
    return this.#initializing;
  }

  /** Send `initialize` to all servers of the channel, which forget the earlier one. */
  async #introduce() {
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: CAPABILITIES, clientInfo: CLIENT_INFO };
    const introduction = newIntroduction();
    this.#introduction = introduction;
    const options = { id: introduction.id, timeoutMs: LISTING_MS, isRefusal: isError };
    try {
      const answer = plain(await this.#request("initialize", params, options));
      this.serverInfo = answer?.serverInfo;
      this.capabilities = answer?.capabilities;
    } catch (error) {
      // A server may reject a second `initialize`: the first one counts.
      if (this.#introduced.servers > 0 && error instanceof PageServerError && error.error) return;
      throw error;
    }
    this.#notify("notifications/initialized");
    if (introduction.servers < this.#introduced.servers) await new Promise((resolve) => setTimeout(resolve, OTHERS_MS));
    if (this.#introduction === introduction) this.#use(introduction);
  }

  /** Let an introduction count, and read the kinds of lists that are new. @param {Introduction} introduction */
  #use(introduction) {
    const before = this.#introduced.declared;
    this.#introduced = introduction;
    if (before.size > 0) this.#readNew(before, introduction.declared);
  }

  /** Take a server's answer to the newest `initialize`; a late one may have lists that the others have not. @param {any} capabilities */
  #declare(capabilities) {
    const { declared } = this.#introduction;
    const before = new Map(declared);
    this.#introduction.servers += 1;
    for (const [capability, described] of Object.entries(capabilities ?? {})) {
      if (typeof described !== "object" || described === null) continue;
      const known = declared.get(capability);
      declared.set(capability, {
        notifies: described.listChanged === true && known?.notifies !== false,
        subscribes: described.subscribe === true || known?.subscribes === true,
      });
    }
    if (this.#introduced === this.#introduction) this.#readNew(before, declared);
  }

  /** @param {Introduction["declared"]} before @param {Introduction["declared"]} now */
  #readNew(before, now) {
    for (const { kind, capability } of LIST_REQUESTS) {
      if (now.has(capability) && !before.has(capability)) this.events.onChange(kind);
    }
  }

  /**
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {IsRefusal} isRefusal
   * @param {Asking} asking
   * @returns {Promise<any>}
   */
  #run(method, params, isRefusal, { signal, onProgress }) {
    if (!this.carrier.isOpen) throw new NotOfferedError("The page's MCP server is out of reach just now. Try again.");
    const id = PageBounds.randomUuid();
    const meta = onProgress && { _meta: { ...params._meta, progressToken: id } };
    const answer = this.#request(method, { ...params, ...meta }, { id, isRun: true, isRefusal, onProgress });
    signal.addEventListener("abort", () => {
      if (this.#pending.delete(id)) this.#cancelled(id);
    });
    return answer;
  }

  /**
   * @param {string} method
   * @param {object} params
   * @param {{ id?: string, timeoutMs?: number, isRun?: boolean, isRefusal?: IsRefusal,
   *   onProgress?: ((progress: McpProgress) => void) | undefined }} options
   * @returns {Promise<any>}
   */
  #request(method, params, { id = PageBounds.randomUuid(), timeoutMs, isRun = false, isRefusal, onProgress }) {
    return new Promise((resolve, reject) => {
      this.#pending.set(id, {
        resolve,
        reject,
        isRun,
        refusals: [],
        ...(isRefusal && { isRefusal }),
        ...(onProgress && { onProgress }),
      });
      this.carrier.post({ jsonrpc: "2.0", id, method, params });
      if (timeoutMs === undefined) return;
      setTimeout(() => {
        if (this.#pending.delete(id)) reject(new PageServerError(`no answer to ${method} within ${timeoutMs} ms`));
      }, timeoutMs);
    });
  }

  /**
   * @param {string} method
   * @param {object} [params]
   */
  #notify(method, params) {
    this.carrier.post({ jsonrpc: "2.0", method, ...(params && { params }) });
  }

  /** Cancels a request. @param {string} requestId */
  #cancelled(requestId) {
    this.#notify(CANCELLED, { requestId, reason: "cancelled" });
  }

  /** @param {any} payload */
  #received(payload) {
    if (payload === "mcp-server-ready") return this.#ready();
    if (payload === "mcp-server-stopped") return this.stopped();
    if (typeof payload !== "object" || payload === null) return;
    if (typeof payload.method === "string") return this.#asked(payload);
    this.#answered(payload);
  }

  /** Said at its start, and to every client that asks; a server may have been replaced, or joined, without a word. */
  #ready() {
    if (this.connected) this.#initializing = null;
    this.connected = true;
    this.events.onReady();
  }

  /** The way to the server has gone, not the server: what it offered stays so until it is asked again. */
  #lost() {
    for (const id of [...this.#pending.keys()]) this.#abandon(id);
    this.#withdraw(() => true);
    this.#endSubscriptions();
  }

  /** The server has stopped; another one may be there. */
  stopped() {
    this.connected = false;
    this.#initializing = null;
    this.#introduction = this.#introduced = newIntroduction();
    this.#withdraw(() => true);
    this.#endSubscriptions();
    const asked = [...this.#pending.keys()]; // what is asked from now on is asked of another one
    this.check();
    setTimeout(() => this.#gone(asked), OTHERS_MS);
  }

  /** No server has a subscription now: clients that watch resources must subscribe again. */
  #endSubscriptions() {
    this.#wanted.clear();
    this.#subscribed.clear();
    this.events.onStopped();
  }

  /**
   * A server has stopped after its last message. The owner of a request is unknown where there are
   * several: all of them end.
   *
   * @param {string[]} asked ids of the requests that were open
   */
  #gone(asked) {
    for (const id of asked) this.#abandon(id);
    if (this.connected) return;
    for (const list of this.#lists.values()) list.clear();
    this.events.onReady();
  }

  /** @param {string} id */
  #abandon(id) {
    const pending = this.#pending.get(id);
    if (!pending || !this.#pending.delete(id)) return;
    if (!pending.isRun) return pending.reject(new PageServerError("The page's MCP server has stopped."));
    this.#cancelled(id);
    pending.reject(new NavigatedError("The page's MCP server stopped while it was asked."));
  }

  /** @param {McpMessage} message a request or notification of the page server */
  #asked({ id, method = "", params }) {
    if (PageBounds.isRequestId(id)) return void this.#answer(id, method, plain(params) ?? {});
    if (id !== undefined) return;
    if (method === CANCELLED) return this.#withdraw((open) => open === params?.requestId);
    const changed = LIST_REQUESTS.filter((request) => request.changed === method);
    if (changed.length > 0) return changed.forEach(({ kind }) => this.events.onChange(kind));
    if (method === "notifications/progress") return this.#progress(params);
    if (PageBounds.NOTIFICATIONS.includes(method)) return this.events.onNotification(method, plain(params) ?? {});
    const uri = method === UPDATED && plain(params)?.uri;
    if (typeof uri === "string") this.events.onUpdated(uri);
  }

  /**
   * Answer a request, unless it is cancelled meanwhile.
   *
   * @param {RequestId} id
   * @param {string} method
   * @param {any} params
   */
  async #answer(id, method, params) {
    const request = { id, cancelled: new AbortController() };
    this.#open.add(request);
    const { answer, fit } = readRequest(method, params);
    const response = answer ?? (await this.events.onQuestion({ method, params: fit }, request.cancelled.signal));
    if (this.#open.delete(request)) this.carrier.post({ jsonrpc: "2.0", id, ...response });
  }

  /** Give up requests of page servers: no response follows. @param {(id: RequestId) => boolean} isMeant */
  #withdraw(isMeant) {
    for (const request of this.#open) {
      if (isMeant(request.id) && this.#open.delete(request)) request.cancelled.abort();
    }
  }

  /** @param {any} params */
  #progress(params) {
    const { progressToken, progress, total, message } = plain(params) ?? {};
    this.#pending.get(progressToken)?.onProgress?.({ progress, total, message });
  }

  /** @param {McpMessage} message */
  #answered({ id, result, error }) {
    if (typeof id !== "string") return;
    const isOfList = [...this.#lists.values()].some((list) => list.take(id, result));
    if (id === this.#introduction.id && !error) this.#declare(plain(result)?.capabilities);
    const pending = this.#pending.get(id);
    if (!pending) return isOfList ? this.events.onLate() : undefined;
    if (isOfList && error?.code === METHOD_NOT_FOUND) {
      // An empty list, unless another server has one.
      return void setTimeout(() => this.#settle(id, pending, { result: {} }), OTHERS_MS);
    }
    if (this.#servers > 1 && pending.isRefusal?.(result, error)) return this.#refused(id, pending, { result, error });
    this.#settle(id, pending, { result, error });
  }

  /**
   * A server that does not know a tool, resource or prompt must not speak for one that does.
   *
   * @param {string} id
   * @param {PendingRequest} pending
   * @param {Reply} refusal
   */
  #refused(id, pending, refusal) {
    pending.refusals.push(refusal);
    if (pending.refusals.length < this.#servers) return;
    const best = pending.refusals.find(({ error }) => error?.code !== METHOD_NOT_FOUND) ?? refusal;
    setTimeout(() => this.#settle(id, pending, best), OTHERS_MS);
  }

  /**
   * @param {string} id
   * @param {PendingRequest} pending
   * @param {Reply} reply
   */
  #settle(id, pending, { result, error }) {
    if (!this.#pending.delete(id)) return;
    if (error) return pending.reject(new PageServerError(textOf(plain(error)?.message), error));
    pending.resolve(result);
  }
}

/** @returns {Introduction} */
function newIntroduction() {
  return { id: PageBounds.randomUuid(), servers: 0, declared: new Map() };
}

/**
 * A page server's request: what to ask of the client of its call, or the response where no client is needed.
 *
 * @param {string} method
 * @param {unknown} params
 * @returns {{ fit: object, answer?: undefined } | { answer: PageAnswer, fit?: undefined }}
 */
function readRequest(method, params) {
  if (method === "ping") return { answer: { result: {} } };
  if (!PageBounds.REQUESTS.includes(method)) {
    return { answer: failed(METHOD_NOT_FOUND, `mcpb does not answer ${PageBounds.cut(method, SHOWN_METHOD_BYTES)}.`) };
  }
  const { params: fit, fault } = PageBounds.fitRequest(method, params);
  return fit ? { fit } : { answer: failed(INVALID_PARAMS, fault) };
}

/**
 * @param {number} code
 * @param {string} message
 * @returns {PageAnswer}
 */
function failed(code, message) {
  return { error: { code, message } };
}

/**
 * A page's value as JSON keeps it; null where it cannot (`postMessage` carries cycles and big integers).
 *
 * @param {unknown} value
 * @returns {any}
 */
function plain(value) {
  try {
    return JSON.parse(JSON.stringify(value));
  } catch {
    return null;
  }
}

/**
 * Whether a server says that it has no such tool: as an error, or as newer servers do, in a result. Only in the very
 * words that servers have for that: a tool may well answer that something was not found.
 *
 * @param {string} toolName
 * @param {any} result
 * @param {McpError | undefined} error
 */
function isUnknownTool(toolName, result, error) {
  if (error && error.code !== METHOD_NOT_FOUND && error.code !== INVALID_PARAMS) return false;
  const text = String(error?.message ?? (result?.isError === true && result.content?.[0]?.text) ?? "");
  const words = text.replace(/^MCP error -3260[12]: /, ""); // the MCP package's errors begin so
  return words === `Tool ${toolName} not found` || words === `Unknown tool: ${toolName}`;
}

/** @param {unknown} value what should be a text */
function textOf(value) {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** @param {any} _result @param {McpError | undefined} error */
function isError(_result, error) {
  return error !== undefined;
}

/**
 * Whether a server may have no such resource or prompt, by the codes that servers have for that.
 *
 * @param {any} _result
 * @param {McpError | undefined} error
 */
function isUnknownEntry(_result, error) {
  return error !== undefined && [METHOD_NOT_FOUND, INVALID_PARAMS, RESOURCE_NOT_FOUND].includes(error.code);
}
