/**
 * MCP-B servers inside iframes answer their parent window alone. So this frame's script speaks to such a server
 * through the worker and the script of the parent frame:
 *
 *   this frame ⇄ worker ⇄ parent frame ⇄ postMessage ⇄ the server in this frame
 *
 * They find each other once the server has said to its parent that it is there. The parent's script asks who is in
 * that window; this frame's script dials; the worker gives it a nonce, which it posts to its parent; the parent's
 * script tells the worker from which window that came. The nonce is minted only while the parent's script listens, so
 * that the script hears it before any page could say it again. The parent's page sees the server's answers, and could
 * ask the server itself: that is MCP-B's own design.
 *
 * @typedef {import("../worker/document.js").ToChildMessage} ToChildMessage
 * @typedef {{ nonce: string, unanswered: Set<unknown>, asked: Set<unknown>,
 *   requestPace: InstanceType<typeof PageBounds.Pace>, pace: InstanceType<typeof PageBounds.Pace>,
 *   changed: Map<string, () => void>, updates: InstanceType<typeof ResourceUpdates>, isProven: boolean }} Child
 *   `nonce`: how the worker calls the document in it; empty: no nonce has said yet. `unanswered`: ids of requests to its
 *   server, `asked`: of its server's own. `isProven`: its server has answered one
 */

const IFRAME_CHANNEL = "mcp-iframe";
/** Messages between content scripts. Pages see them as well. */
const FRAME_CHANNEL = "dev.mcpb.frame";
const LONGEST_NONCE = 64;
/** Of one server; what is older than that has been given up without a word. */
const LONGEST_UNANSWERED = 1024;
const TOO_OFTEN = {
  answer: failed(INVALID_REQUEST, `A page server may send ${PageBounds.REQUESTS_PER_SECOND} requests in a second.`),
  fit: undefined,
};

/** Connection of this frame to the server in it, while a parent script hosts it. */
class IframeCarrier {
  #nonce = "";
  /** @type {Parameters<Carrier["listen"]>[0] | undefined} */
  #ear;
  isOpen = false;

  /**
   * @param {{ onAsked: () => void, onPost: (payload: McpMessage | string) => void }} events `onAsked`: the parent has
   *   received a message of this server, and asks for the nonce; `onPost`: something for the server
   */
  constructor({ onAsked, onPost }) {
    this.onAsked = onAsked;
    this.onPost = onPost;
  }

  /**
   * @param {Parameters<Carrier["listen"]>[0]} ear
   * @param {AbortSignal} closed
   */
  listen(ear, closed) {
    this.#ear = ear;
    if (window.parent === window) return;
    hear(window, "message", (event) => this.#received(event), { signal: closed, capture: true });
  }

  /** Say to the parent's script that we listen now, if it may have asked before we did. */
  check() {
    if (window.parent === window || document.readyState === "loading") return;
    window.parent.postMessage({ channel: FRAME_CHANNEL, listens: true }, "*");
  }

  /** @param {McpMessage | string} payload */
  post(payload) {
    if (this.isOpen) this.onPost(payload);
  }

  /** Tell the parent's script who we are. @param {string} nonce */
  introduce(nonce) {
    this.#nonce = nonce;
    window.parent.postMessage({ channel: FRAME_CHANNEL, nonce }, "*");
  }

  /** The way is free, and there is a server at its end. */
  open() {
    this.isOpen = true;
    this.onMessage("mcp-server-ready");
  }

  /** The server has said something. @param {any} payload */
  onMessage(payload) {
    this.#ear?.onMessage(payload);
  }

  /** The parent's script carries no messages any more. */
  close() {
    this.isOpen = false;
    this.#ear?.lost();
  }

  /** @param {MessageEvent} event */
  #received(event) {
    const { isTrusted, source, data } = event;
    if (!isTrusted || source !== window.parent) return;
    if (data?.channel === FRAME_CHANNEL && data.ask === true) this.onAsked();
    // A request was meant for the document that was here when it was sent. We hear it before the page does.
    if (data?.channel === IFRAME_CHANNEL && "nonce" in data && data.nonce !== this.#nonce)
      event.stopImmediatePropagation();
  }
}

/** The servers in the iframes of this frame, spoken to for their own frames' scripts. */
class IframeHost {
  /** @type {Map<Window, Child>} windows whose servers have said that they are there */
  #children = new Map();
  /** An earlier response would be ignored. */
  #isAsking = false;

  /**
   * @param {{ onServer: () => void, onNamed: (nonce: string) => void, onSaid: (nonce: string, payload: any) => void
   *   }} events `onServer`: one is there; `onNamed`: a child has said its nonce; `onSaid`: what a server says
   * @param {AbortSignal} closed
   */
  constructor(events, closed) {
    this.events = events;
    // Not anew after `document.open()`: the page could hear names before us then, and give them to frames of its own.
    window.addEventListener("message", (event) => this.#received(event), { signal: closed, capture: true });
  }

  /** Look for servers that were there before us. */
  check() {
    for (let index = 0; index < window.length; index += 1) {
      const child = /** @type {Window} */ (window[index]);
      child.postMessage(envelope("mcp-check-ready"), "*");
    }
  }

  /** The worker knows this frame: it is worth asking who is in those windows. */
  ask() {
    this.#isAsking = true;
    for (const child of this.#children.keys()) this.#ask(child);
  }

  /** The worker is gone, and with it all that it knew. */
  pause() {
    this.#isAsking = false;
  }

  /** Say something to a server. @param {ToChildMessage} message */
  deliver({ nonce, origin, payload }) {
    for (const [window, child] of this.#children) {
      if (child.nonce !== nonce) continue;
      expectAnswer(child.unanswered, payload);
      if (payload?.method === undefined) child.asked.delete(payload?.id);
      window.postMessage({ ...envelope(payload), nonce }, origin === "null" ? "*" : origin);
    }
  }

  /** @param {MessageEvent} event one that the page made up itself is not trusted: it could name any source */
  #received({ isTrusted, source, data }) {
    if (!isTrusted || !isChild(source)) return;
    if (data?.channel === FRAME_CHANNEL) return data.listens ? this.#listens(source) : this.#named(source, data.nonce);
    if (data?.channel !== IFRAME_CHANNEL || data.type !== "mcp" || data.direction !== "server-to-client") return;
    if (data.payload === "mcp-server-ready") return this.#found(source);
    const child = this.#children.get(source);
    if (child?.nonce) this.#said(child, source, data.payload);
  }

  /** @param {Window} window */
  #found(window) {
    if (!this.#children.has(window)) this.#adopt(window);
    this.events.onServer();
    if (this.#isAsking) this.#ask(window);
  }

  /** @param {Window} window */
  #listens(window) {
    if (this.#isAsking && this.#children.has(window)) this.#ask(window);
  }

  /** @param {Window} window */
  #adopt(window) {
    for (const known of this.#children.keys()) if (!isChild(known)) this.#children.delete(known);
    /** @type {Child} */
    const child = {
      nonce: "",
      unanswered: new Set(),
      asked: new Set(),
      requestPace: new PageBounds.Pace(PageBounds.REQUESTS_PER_SECOND),
      pace: new PageBounds.Pace(),
      changed: new Map(LIST_REQUESTS.map(({ changed }) => [changed, oneAtATime(async () => this.#tell(child, changed))])),
      updates: new ResourceUpdates((uri) => this.#tell(child, UPDATED, { uri })),
      isProven: false,
    };
    this.#children.set(window, child);
    return child;
  }

  /** @param {Window} window */
  #ask(window) {
    window.postMessage({ channel: FRAME_CHANNEL, ask: true }, "*");
  }

  /**
   * A window has said a nonce, which is its own as long as it says no other: the page can have one of its own frames
   * say it again, but only later.
   *
   * @param {Window} window
   * @param {unknown} nonce
   */
  #named(window, nonce) {
    if (typeof nonce !== "string" || nonce.length > LONGEST_NONCE) return;
    if ([...this.#children].some(([other, child]) => other !== window && child.nonce === nonce)) return;
    const child = this.#children.get(window) ?? this.#adopt(window);
    if (child.nonce !== nonce) for (const ids of [child.unanswered, child.asked]) ids.clear();
    child.isProven &&= child.nonce === nonce;
    child.nonce = nonce;
    if (child.pace.allows({ nonce })) this.events.onNamed(nonce);
  }

  /**
   * Pass on what was asked for, and of the rest no more than a frame may say by itself, once it has answered.
   *
   * @param {Child} child
   * @param {Window} window
   * @param {any} payload
   */
  #said(child, window, payload) {
    const isAnswer = typeof payload === "object" && payload !== null && payload.method === undefined;
    if (isAnswer) return this.#answered(child, payload);
    if (!child.isProven) return;
    if (payload?.id !== undefined) return this.#asked(child, window, payload);
    if (payload?.method === CANCELLED) return this.#cancelled(child, payload.params?.requestId);
    const changed = child.changed.get(payload?.method);
    if (changed) return changed();
    if (payload?.method === UPDATED) return this.#updated(child, payload.params?.uri);
    if (child.pace.allows(plain(payload))) this.events.onSaid(child.nonce, payload);
  }

  /**
   * A request of a server. One that goes to no client is answered here.
   *
   * @param {Child} child
   * @param {Window} window
   * @param {any} request
   */
  #asked(child, window, { id, method, params }) {
    if (!PageBounds.isRequestId(id) || typeof method !== "string") return;
    const { answer, fit } = this.#isTooMany(child) ?? readRequest(method, plain(params) ?? {});
    if (answer) {
      const { nonce } = child;
      return window.postMessage({ ...envelope({ jsonrpc: "2.0", id, ...answer }), nonce }, "*");
    }
    const request = /** @type {const} */ ({ jsonrpc: "2.0", id, method, params: fit });
    expectAnswer(child.asked, request);
    this.events.onSaid(child.nonce, request);
  }

  /** @param {Child} child */
  #isTooMany(child) {
    if (child.asked.size >= PageBounds.OPEN_REQUESTS) return { answer: TOO_MANY_REQUESTS, fit: undefined };
    return child.requestPace.allows({}) ? undefined : TOO_OFTEN;
  }

  /** @param {Child} child @param {unknown} requestId of one of the server's own requests */
  #cancelled(child, requestId) {
    if (child.asked.delete(requestId)) this.#tell(child, CANCELLED, { requestId });
  }

  /** @param {Child} child @param {unknown} uri */
  #updated(child, uri) {
    if (typeof uri === "string" && uri.length <= PageBounds.URI_CHARS) child.updates.add(uri);
  }

  /**
   * @param {Child} child
   * @param {string} method
   * @param {object} [params]
   */
  #tell(child, method, params) {
    this.events.onSaid(child.nonce, { jsonrpc: "2.0", method, ...(params && { params }) });
  }

  /**
   * @param {Child} child
   * @param {any} payload
   */
  #answered(child, payload) {
    if (!child.unanswered.delete(payload.id)) return;
    child.isProven = true;
    this.events.onSaid(child.nonce, payload);
  }
}

/**
 * @param {Set<unknown>} unanswered
 * @param {any} payload for a server
 */
function expectAnswer(unanswered, payload) {
  if (payload?.method === "notifications/cancelled") unanswered.delete(payload.params?.requestId);
  if (payload?.method === undefined || payload.id === undefined) return;
  unanswered.add(payload.id);
  const [oldest] = unanswered;
  if (unanswered.size > LONGEST_UNANSWERED) unanswered.delete(oldest);
}

/** @param {McpMessage | string} payload */
function envelope(payload) {
  return { channel: IFRAME_CHANNEL, type: "mcp", direction: "client-to-server", payload };
}

/** Whether it is the window of an iframe of this very document. @param {unknown} source @returns {source is Window} */
function isChild(source) {
  const other = /** @type {Window | null} */ (source);
  return other !== null && other !== window && other.parent === window;
}
