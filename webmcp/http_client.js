/**
 * MCP client over Streamable HTTP with `fetch`, for what the tools of a server need.
 *
 * It begins with `initialize` (MCP 2024-11-05 to 2025-11-25) and tries `server/discover` (2026-07-28) if that fails.
 * It follows no redirect, and quotes no text of `fetch`, which can contain the URL.
 * @typedef {import("./event_stream.js").Message} Message
 * @typedef {import("./request_headers.js").HeaderOptions & { url: URL, timeoutMs: number, closed: AbortSignal,
 *   onListChanged: () => void, warn: (text: string) => void }} ClientOptions
 * @typedef {{ id: string | null, revision: string }} Session
 * @typedef {{ signal: AbortSignal, session: Session, headers?: Record<string, string> | undefined }} Exchange
 * @typedef {{ method: string, params: Record<string, unknown>, repeated?: import("./request_headers.js").ParameterHeaders }} Request
 */

import { isEventStream, readMessages } from "./event_stream.js";
import { mask, readHeaders, repeatInHeaders } from "./request_headers.js";

export const CLOSE_LIMIT_MS = 3_000; // for the last requests to a server that may be dead
const CLIENT_INFO = { name: "mcpb-webmcp", version: "0.2.0" };
const HANDSHAKE_REVISIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN_REVISION = "2026-07-28";
const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": MODERN_REVISION,
  "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
  "io.modelcontextprotocol/clientCapabilities": {},
};
const LISTEN = { method: "subscriptions/listen", params: { notifications: { toolsListChanged: true } } };
const UNKNOWN_REVISION = "The server speaks no revision of MCP that this module knows.";
const MAY_HAVE_RUN = "The connection ended before the response. The request may have run.";
const MAX_PAGES = 200;
const MAX_TOOLS = 2_000;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;
const METHOD_NOT_FOUND = -32601;
const NO_STREAM = [400, 404, 405, 501]; // HTTP statuses
const MAX_SENDING = 32; // answers to a server that floods the page with requests
const PROTOCOL_HEADERS = ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"];

/** The server answered with an HTTP status or a JSON-RPC error. */
class ServerError extends Error {
  /** @param {any} error of JSON-RPC @param {number} [status] */
  constructor(error, status = 0) {
    super(typeof error?.message === "string" ? mask(error.message) : "The server reported an error without a text.");
    this.code = error?.code;
    this.status = status;
  }
}

/** The server does not know the session any more, and has not accepted the request. */
class SessionLostError extends ServerError {}

export class HttpClient {
  /** @type {Session} */
  #session = { id: null, revision: "" };
  /** @type {Promise<void> | null} */
  #reopening = null;
  #lastId = 0;
  #sending = 0;
  /** Restarts the timeout of a request, by its id, which is its progress token. @type {Map<unknown, () => void>} */
  #timeouts = new Map();

  /** @param {ClientOptions} options */
  constructor(options) {
    this.options = options;
  }

  /** Open a session, or find that the server speaks 2026-07-28. */
  async connect() {
    try {
      await this.#initialize();
    } catch (error) {
      if (!(error instanceof ServerError) || error.status >= 500 || [401, 403].includes(error.status)) throw error;
      const exchange = { signal: this.options.closed, session: { id: null, revision: MODERN_REVISION } };
      const found = await this.#exchange({ method: "server/discover", params: {} }, exchange).catch((second) => {
        throw new Error(`No MCP endpoint: it rejects initialize (${error.message}) and server/discover (${second.message}).`);
      });
      if (![found["supportedVersions"]].flat().includes(MODERN_REVISION)) throw new Error(UNKNOWN_REVISION);
      this.#session = exchange.session;
    }
  }

  /** Do the handshake. */
  async #initialize() {
    const session = { id: null, revision: "" };
    const exchange = { signal: this.options.closed, session };
    const params = { protocolVersion: HANDSHAKE_REVISIONS[0], capabilities: {}, clientInfo: CLIENT_INFO };
    try {
      const { protocolVersion } = await this.#exchange({ method: "initialize", params }, exchange);
      session.revision = HANDSHAKE_REVISIONS.find((revision) => revision === protocolVersion) ?? "";
      if (!session.revision) throw new Error(UNKNOWN_REVISION);
      await this.#fetch("POST", { method: "notifications/initialized" }, exchange);
      this.#session = session;
    } catch (error) {
      await this.close(session);
      throw error;
    }
  }

  /** Replace a lost session, once for all requests that have noticed it. @param {Session} lost */
  async #reopen(lost) {
    if (this.#session === lost) await (this.#reopening ??= this.connect().finally(() => (this.#reopening = null)));
  }

  /** End a session. A server that is dead takes CLOSE_LIMIT_MS. */
  async close(session = this.#session) {
    if (session.id) await this.#fetch("DELETE", null, { signal: AbortSignal.timeout(CLOSE_LIMIT_MS), session }).catch(() => {});
  }

  /** List the tools of all pages. @returns {Promise<any[]>} */
  async listTools() {
    let tools = /** @type {any[]} */ ([]);
    const cursors = new Set();
    for (let cursor; cursors.size < MAX_PAGES; cursors.add(cursor)) {
      const page = await this.request({ method: "tools/list", params: cursor === undefined ? {} : { cursor } });
      if (!Array.isArray(page["tools"])) throw new Error("The server answered tools/list without tools.");
      tools = tools.concat(page["tools"]);
      if (tools.length > MAX_TOOLS) throw new Error(`The server lists over ${MAX_TOOLS} tools.`);
      cursor = page["nextCursor"];
      if (typeof cursor !== "string") return tools;
      if (cursors.has(cursor)) throw new Error("The server repeats a cursor in its list of tools.");
    }
    throw new Error(`The server's list of tools has over ${MAX_PAGES} pages.`);
  }

  /** Return the result of a request. After a lost session it is sent again: the server has not accepted it.
   * @param {Request} request @param {AbortSignal} signal */
  async request(request, signal = this.options.closed) {
    const session = this.#session;
    return this.#exchange(request, { signal, session }).catch(async (error) => {
      if (!(error instanceof SessionLostError)) throw error;
      await withSignal(this.#reopen(session), signal);
      return this.#exchange(request, { signal, session: this.#session });
    });
  }

  /** Receive notifications until the client is closed. A broken stream is opened again. */
  async watch() {
    const { closed, onListChanged, warn } = this.options;
    let lastEventId = "";
    let watched = /** @type {Session | null} */ (null);
    for (let delayMs = FIRST_DELAY_MS, isFirst = true; !closed.aborted; isFirst = false) {
      const session = this.#session;
      if (watched !== session) lastEventId = "";
      const begun = performance.now();
      try {
        const exchange = { signal: closed, session, headers: lastEventId ? { "Last-Event-ID": lastEventId } : undefined };
        const isModern = session.revision === MODERN_REVISION;
        const response = await (isModern ? this.#post(++this.#lastId, LISTEN, exchange) : this.#fetch("GET", null, exchange));
        watched = session;
        if (!isFirst) onListChanged(); // a change in between was not reported
        for await (const { messages, eventId } of readMessages(response)) {
          lastEventId = eventId || lastEventId;
          for (const message of messages) {
            if (message.error) throw new ServerError(message.error);
            this.#receive(message, session);
          }
        }
      } catch (error) {
        if (error instanceof SessionLostError && watched) {
          lastEventId = "";
          onListChanged(); // the synchronization opens a new session, or reports why it cannot
        } else if (error instanceof ServerError && (error.code === METHOD_NOT_FOUND || NO_STREAM.includes(error.status))) {
          return warn(`The server sends no notifications (${error.message}): only refresh() finds changed tools.`);
        }
      }
      if (performance.now() - begun > MAX_DELAY_MS) delayMs = FIRST_DELAY_MS;
      await sleep(delayMs, closed).catch(() => {});
      delayMs = Math.min(2 * delayMs, MAX_DELAY_MS);
    }
  }

  /** Wait for the result of a request: until the signal aborts, or `timeoutMs` pass without progress.
   * @param {Request} request @param {Exchange} exchange @returns {Promise<Record<string, unknown>>} */
  async #exchange(request, { signal, session }) {
    const id = ++this.#lastId;
    const { timeoutMs } = this.options;
    const timeout = new AbortController();
    const exchange = { signal: AbortSignal.any([signal, timeout.signal]), session };
    let timer = 0;
    const restart = () => {
      clearTimeout(timer);
      timer = setTimeout(() => timeout.abort(new Error(`${request.method} timed out after ${timeoutMs} ms.`)), timeoutMs);
    };
    restart();
    this.#timeouts.set(id, restart);
    try {
      const response = await this.#post(id, request, exchange);
      if (request.method === "initialize") session.id = response.headers.get("Mcp-Session-Id");
      const { result, error } = await this.#readResponse(response, id, exchange);
      if (typeof result !== "object" || result === null) throw new ServerError(error);
      return /** @type {Record<string, unknown>} */ (result);
    } catch (error) {
      if (!exchange.signal.aborted) throw error;
      // In 2026-07-28 the end of the response cancels the request.
      if (request.method !== "initialize" && session.revision !== MODERN_REVISION) {
        this.#sendLater({ method: "notifications/cancelled", params: { requestId: id } }, session);
      }
      throw exchange.signal.reason;
    } finally {
      clearTimeout(timer);
      this.#timeouts.delete(id);
    }
  }

  /** Read up to the response to a request. A stream that ends before it is resumed, if its events have ids.
   * @param {Response} response @param {number} id @param {Exchange} exchange @returns {Promise<Message>} */
  async #readResponse(response, id, { signal, session }) {
    let lastEventId = "";
    for (let delayMs = FIRST_DELAY_MS; ; ) {
      try {
        for await (const { messages, eventId, retryMs } of readMessages(response)) {
          lastEventId = eventId || lastEventId;
          if (retryMs) delayMs = Math.min(retryMs, MAX_DELAY_MS);
          for (const message of messages) {
            if (message.id === id && message.method === undefined) return message;
            this.#receive(message, session);
          }
        }
      } catch (error) {
        if (signal.aborted || !(error instanceof TypeError)) throw error; // a TypeError: the connection is lost
      }
      if (!lastEventId || session.revision === MODERN_REVISION) throw new Error(MAY_HAVE_RUN);
      await sleep(delayMs, signal);
      response = await this.#fetch("GET", null, { signal, session, headers: { "Last-Event-ID": lastEventId } }).catch((error) => {
        throw error instanceof SessionLostError ? new Error(MAY_HAVE_RUN) : error;
      });
    }
  }

  /** Handle a message that is not a response. @param {Message} message @param {Session} session */
  #receive({ id, method, params }, session) {
    if (method === "notifications/tools/list_changed") this.options.onListChanged();
    else if (method === "notifications/progress") this.#timeouts.get(params?.["progressToken"])?.();
    else if (id === undefined || session.revision === MODERN_REVISION || this.#sending >= MAX_SENDING) return;
    else if (typeof method === "string") {
      const error = { code: METHOD_NOT_FOUND, message: `A page cannot answer ${method.slice(0, 100)}.` };
      this.#sendLater(method === "ping" ? { id, result: {} } : { id, error }, session);
    }
  }

  /** @param {number} id @param {Request} request @param {Exchange} exchange */
  #post(id, { method, params, repeated = [] }, exchange) {
    const isModern = exchange.session.revision === MODERN_REVISION;
    const headers = isModern ? repeatInHeaders(method, params, repeated) : {};
    const meta = { progressToken: id, ...(isModern && MODERN_META) };
    return this.#fetch("POST", { id, method, params: { ...params, _meta: meta } }, { ...exchange, headers });
  }

  /** Send a message of which nothing depends. @param {Message} message @param {Session} session */
  async #sendLater(message, session) {
    this.#sending += 1;
    await this.#fetch("POST", message, { signal: AbortSignal.timeout(CLOSE_LIMIT_MS), session }).catch(() => {});
    this.#sending -= 1;
  }

  /** Return a response of success. @param {string} method @param {Message | null} message @param {Exchange} exchange */
  async #fetch(method, message, { signal, session, headers: additional }) {
    const { url } = this.options;
    const body = message && JSON.stringify({ jsonrpc: "2.0", ...message });
    const headers = await withSignal(readHeaders(this.options), signal);
    for (const name of PROTOCOL_HEADERS) headers.delete(name);
    headers.set("Accept", method === "GET" ? "text/event-stream" : "application/json, text/event-stream");
    if (body) headers.set("Content-Type", "application/json");
    if (session.id) headers.set("Mcp-Session-Id", session.id);
    // Servers of older revisions do not allow a browser to send this header to another origin.
    if (session.revision >= "2025-06-18") headers.set("MCP-Protocol-Version", session.revision);
    for (const [name, value] of Object.entries(additional ?? {})) headers.set(name, value);
    // With "no-store", Chromium would ask a server of another origin for permission (preflight) before each request.
    const cache = method === "GET" ? "no-store" : "default";
    const response = await fetch(url, { method, headers, body, signal, redirect: "manual", cache }).catch(() => {
      signal.throwIfAborted();
      throw new Error(`${url.origin} cannot be reached, or does not allow this page to use it (CORS).`);
    });
    if (response.ok && method === "GET" && !isEventStream(response)) throw new ServerError({ message: "no event stream" }, 405);
    if (response.ok) return response;
    if (response.type === "opaqueredirect") throw new Error(`${url.origin} redirects: use the URL to which it leads.`);
    const { status } = response;
    const { value } = await readMessages(response).next().catch(() => ({ value: undefined }));
    const { id, error = { message: `HTTP ${status} at ${url.origin}${url.pathname}` } } = value?.messages[0] ?? {};
    // MCP answers an unknown session with 404, and some servers with 400 that does not respond to this request.
    const isLost = status === 404 ? error?.code !== METHOD_NOT_FOUND : status === 400 && (!id || id !== message?.id);
    throw new (session.id && isLost ? SessionLostError : ServerError)(error, status);
  }
}

/** @template T @param {Promise<T>} promise @param {AbortSignal} signal @returns {Promise<T>} rejects when it aborts */
export function withSignal(promise, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** @param {number} delayMs @param {AbortSignal} signal */
const sleep = (delayMs, signal) => withSignal(new Promise((resolve) => setTimeout(resolve, Math.max(delayMs, 100))), signal);
