/**
 * The client end of MCP-B's transports: a page server, spoken to over a carrier. Whatever passes here can be read and
 * forged by the page, so nothing but the page's own business may pass.
 *
 * A page may hold several servers on one channel (two bundles with one each): all of them answer every request.
 *
 * @typedef {{ jsonrpc: "2.0", id?: string, method?: string, params?: any, result?: any,
 *   error?: { code: number, message: string } }} McpMessage
 * @typedef {{ isOpen: boolean, post: (payload: McpMessage | string) => void,
 *   listen: (ear: { onMessage: (payload: any) => void, lost: () => void }, closed: AbortSignal) => void }} Carrier how
 *   servers are reached; `lost`: what was asked over it will not be answered
 * @typedef {{ progress: number, total?: number, message?: string }} McpProgress
 * @typedef {{ onChange: () => void, onLate: () => void, onNotification: (method: string, params: any) => void,
 *   onQuestion: (question: PageQuestion) => Promise<PageAnswer> }} TransportEvents `onChange`: worth listing anew;
 *   `onLate`: `tools` has more in it, from another server; `onQuestion`: the page asks the user
 * @typedef {{ message: string, requestedSchema?: object }} PageQuestion
 * @typedef {{ result?: object, error?: { code: number, message: string } }} PageAnswer one of the two
 * @typedef {{ resolve: (result: any) => void, reject: (error: Error) => void, refusals: number,
 *   toolName?: string, onProgress?: (progress: McpProgress) => void }} PendingRequest
 */

const CLIENT_INFO = { name: "mcpb", version: chrome.runtime.getManifest().version };
const PROTOCOL_VERSION = "2025-11-25";
const CAPABILITIES = { elicitation: {} };
const LISTING_MS = 10_000;
/** How long another server on the channel may take to speak up after one server has. */
const OTHERS_MS = 100;
const LONGEST_LIST = 100;
const POLL_MS = 60_000;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;

/** Between us and content/polyfill_server.js in the page's world. */
const POLYFILL_CHANNEL = "dev.mcpb.polyfill";

/** A page server's JSON-RPC error, in its own words. */
class PageServerError extends Error {}

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
  /** Requests of the newest listing: answers to it may come from several servers. @type {Set<string>} */
  #listing = new Set();
  /** What the newest listing brings in. @type {Map<string, import("../worker/wire.js").Tool>} */
  #incoming = new Map();
  /** @type {Map<string, import("../worker/wire.js").Tool>} */
  #tools = new Map();
  /** How many servers answered the newest listing. */
  #servers = 0;
  #initialized = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #poll;
  /** A page server is there. */
  connected = false;
  /** @type {object | undefined} */
  serverInfo;
  /** @type {{ tools?: { listChanged?: boolean } } | undefined} */
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
    closed.addEventListener("abort", () => clearTimeout(this.#poll));
  }

  /** Ask for a server that announced itself before we listened. */
  check() {
    this.carrier.post("mcp-check-ready");
  }

  /** Ask the server for its tools; `tools` has them then. */
  async list() {
    if (!this.connected || !this.carrier.isOpen) return;
    try {
      await this.#initialize();
      await this.#readList();
    } catch (error) {
      if (!(error instanceof PageServerError)) throw error;
      this.#initialized = false; // another server may stand in its place, one that wants to be introduced
    }
    clearTimeout(this.#poll);
    // Only a server that does not notify is asked again and again.
    if (!this.capabilities?.tools?.listChanged) this.#poll = setTimeout(() => this.events.onChange(), POLL_MS);
  }

  /** As listed last. @returns {import("../worker/wire.js").Tool[]} */
  get tools() {
    return [...this.#tools.values()];
  }

  /** @param {string} name @returns {import("../worker/wire.js").Tool | undefined} as listed last */
  tool(name) {
    return this.#tools.get(name);
  }

  /**
   * @param {string} name
   * @param {unknown} args
   * @param {{ signal: AbortSignal, onProgress?: (progress: McpProgress) => void }} asked
   * @returns {Promise<unknown>} what the server answered
   * @throws {PageServerError | NavigatedError | NotOfferedError} it stopped meanwhile; it cannot be reached now
   */
  call(name, args, { signal, onProgress }) {
    if (!this.carrier.isOpen) throw new NotOfferedError("The page's MCP server is out of reach just now. Try again.");
    const id = PageBounds.randomUuid();
    const meta = onProgress && { _meta: { progressToken: id } };
    const answer = this.#request("tools/call", { name, arguments: args, ...meta }, { id, toolName: name, onProgress });
    signal.addEventListener("abort", () => {
      if (this.#pending.delete(id)) this.#cancelled(id);
    });
    return answer;
  }

  /** Exchange MCP's opening messages with the server, once. */
  async #initialize() {
    if (this.#initialized) return;
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: CAPABILITIES, clientInfo: CLIENT_INFO };
    const answer = plain(await this.#request("initialize", params, { timeoutMs: LISTING_MS }));
    this.serverInfo = answer?.serverInfo;
    this.capabilities = answer?.capabilities;
    this.#initialized = true;
    this.#notify("notifications/initialized");
  }

  /** Read the tools of all servers on the channel anew. */
  async #readList() {
    const serversBefore = this.#servers;
    this.#incoming = new Map();
    this.#servers = 0;
    this.#listing.clear();
    await this.#readPages();
    if (this.#servers < serversBefore) await new Promise((resolve) => setTimeout(resolve, OTHERS_MS));
    this.#tools = this.#incoming; // late answers still go into it
  }

  /** Request the list page by page; each server on the channel answers. */
  async #readPages() {
    /** @type {string | undefined} */
    let cursor;
    for (let page = 0; page < LONGEST_LIST; page += 1) {
      const id = PageBounds.randomUuid();
      this.#listing.add(id);
      const params = cursor === undefined ? {} : { cursor };
      const answer = await this.#request("tools/list", params, { id, timeoutMs: LISTING_MS });
      if (typeof answer?.nextCursor !== "string") return;
      cursor = answer.nextCursor;
    }
  }

  /**
   * @param {string} method
   * @param {object} params
   * @param {{ id?: string, timeoutMs?: number, toolName?: string,
   *   onProgress?: ((progress: McpProgress) => void) | undefined }} options
   * @returns {Promise<any>}
   */
  #request(method, params, { id = PageBounds.randomUuid(), timeoutMs, toolName, onProgress }) {
    return new Promise((resolve, reject) => {
      this.#pending.set(id, {
        resolve,
        reject,
        refusals: 0,
        ...(toolName && { toolName }),
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

  /** Cancels a call. @param {string} requestId */
  #cancelled(requestId) {
    this.#notify("notifications/cancelled", { requestId, reason: "cancelled" });
  }

  /** @param {any} payload */
  #received(payload) {
    if (payload === "mcp-server-ready") return this.#ready();
    if (payload === "mcp-server-stopped") return this.stopped();
    if (typeof payload !== "object" || payload === null) return;
    if (typeof payload.method === "string") return this.#asked(payload);
    this.#answered(payload);
  }

  /** Said at its start, and to every client that asks; a server may have been replaced without a word. */
  #ready() {
    this.connected = true;
    this.events.onChange();
  }

  /** The way to the server has gone, not the server: what it offered stays so until it is asked again. */
  #lost() {
    for (const id of [...this.#pending.keys()]) this.#abandon(id);
  }

  /** The server has stopped; another one may be there. */
  stopped() {
    this.connected = false;
    this.#initialized = false;
    const asked = [...this.#pending.keys()]; // what is asked from now on is asked of another one
    this.check();
    setTimeout(() => this.#gone(asked), OTHERS_MS);
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
    this.#tools = new Map();
    this.events.onChange();
  }

  /** @param {string} id */
  #abandon(id) {
    const pending = this.#pending.get(id);
    if (!pending || !this.#pending.delete(id)) return;
    if (!pending.toolName) return pending.reject(new PageServerError("The page's MCP server has stopped."));
    this.#cancelled(id);
    pending.reject(new NavigatedError("The page's MCP server stopped while the tool was running."));
  }

  /** @param {McpMessage} message a request or notification of the page server */
  #asked({ id, method = "", params }) {
    if (id !== undefined) return void this.#answer(id, method, plain(params) ?? {});
    if (method === "notifications/tools/list_changed") return this.events.onChange();
    if (method === "notifications/progress") return this.#progress(params);
    this.events.onNotification(method, plain(params) ?? {});
  }

  /**
   * @param {string} id
   * @param {string} method
   * @param {any} params
   */
  async #answer(id, method, params) {
    this.carrier.post({ jsonrpc: "2.0", id, ...(await this.#answerTo(method, params)) });
  }

  /**
   * @param {string} method
   * @param {any} params
   * @returns {PageAnswer | Promise<PageAnswer>}
   */
  #answerTo(method, params) {
    if (method === "ping") return { result: {} };
    if (method !== "elicitation/create") return failed(METHOD_NOT_FOUND, `mcpb does not answer ${method}.`);
    if ((params.mode ?? "form") !== "form") return failed(INVALID_PARAMS, "mcpb asks with forms alone.");
    const question = PageBounds.question(params);
    return question ? this.events.onQuestion(question) : failed(INVALID_PARAMS, PageBounds.QUESTION_RULE);
  }

  /** @param {any} params */
  #progress(params) {
    const { progressToken, progress, total, message } = plain(params) ?? {};
    this.#pending.get(progressToken)?.onProgress?.({ progress, total, message });
  }

  /** @param {McpMessage} message */
  #answered({ id = "", result, error }) {
    if (this.#listing.has(id) && Array.isArray(result?.tools)) this.#listed(id, result.tools);
    const pending = this.#pending.get(id);
    if (!pending) return;
    if (this.#servers > 1 && isRefusal(pending.toolName, result, error)) {
      return this.#refused(id, pending, result, error);
    }
    this.#settle(id, pending, result, error);
  }

  /**
   * One server's tools; the first to define a name keeps it.
   *
   * @param {string} id
   * @param {unknown[]} tools
   */
  #listed(id, tools) {
    const isLate = !this.#pending.has(id);
    const [firstPage] = this.#listing;
    if (id === firstPage) this.#servers += 1;
    for (const tool of tools.map(plain)) {
      if (typeof tool?.name === "string" && !this.#incoming.has(tool.name)) this.#incoming.set(tool.name, tool);
    }
    if (isLate) this.events.onLate();
  }

  /**
   * A server that does not know the tool must not speak for one that does.
   *
   * @param {string} id
   * @param {PendingRequest} pending
   * @param {any} result
   * @param {McpMessage["error"]} error
   */
  #refused(id, pending, result, error) {
    pending.refusals += 1;
    if (pending.refusals < this.#servers) return;
    setTimeout(() => this.#settle(id, pending, result, error), OTHERS_MS);
  }

  /**
   * @param {string} id
   * @param {PendingRequest} pending
   * @param {any} result
   * @param {McpMessage["error"]} error
   */
  #settle(id, pending, result, error) {
    if (!this.#pending.delete(id)) return;
    if (error) return pending.reject(new PageServerError(String(error.message)));
    pending.resolve(result);
  }
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
 * @param {string | undefined} toolName
 * @param {any} result
 * @param {McpMessage["error"]} error
 */
function isRefusal(toolName, result, error) {
  if (toolName === undefined) return false;
  if (error && error.code !== METHOD_NOT_FOUND && error.code !== INVALID_PARAMS) return false;
  const text = String(error?.message ?? (result?.isError === true && result.content?.[0]?.text) ?? "");
  const words = text.replace(/^MCP error -3260[12]: /, ""); // the MCP package's errors begin so
  return words === `Tool ${toolName} not found` || words === `Unknown tool: ${toolName}`;
}
