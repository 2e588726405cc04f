/** Debugger of one tab: its commands, the subscribers of its events, and settings for a hidden tab. */

import { isExtensionPage } from "./tab_access.js";
import { EventRoom } from "./event_quota.js";
import { Code, WireError } from "./wire.js";
import { withoutCookies } from "./devtools_allowlist.js";
import { MainDocument } from "./main_document.js";

/**
 * @typedef {{ sessionId: string, method: string, params: Record<string, unknown> }} Order `sessionId`: empty for the tab
 *   itself
 * @typedef {Order & { session: string }} Asking `session`: that of the client, or empty
 * @typedef {{ tabId: number, sessionId: string, method: string, params: any }} CdpEvent
 * @typedef {{ session: string, caller: string, events: Set<string>, tell: (event: CdpEvent) => void }} Subscription
 *   `caller`: see `callerOf`; `tell` throws a WireError when it may hear no more
 * @typedef {Subscription & { end: () => void, fail: (error: unknown) => void }} Subscribed
 * @typedef {{ asking: Asking, fail: (error: WireError) => void }} Running
 */

const PROTOCOL = "1.3";
/** After the last command or subscription, before the tab is released; and before a dialog without a subscriber is closed. */
const LINGER_MS = 5_000;
/** For what is in the tab to be found. A page that is busy answers when it is done. */
const EXPLORING_MS = 1_000;
/** For the event that reports an execution context, which may come after the answer. */
const CONTEXT_MS = 1_000;
const AUTO_ATTACH = { autoAttach: true, waitForDebuggerOnStart: false, flatten: true };
const DIALOG_OPENING = "Page.javascriptDialogOpening";
/** Event of the extension for each subscription: it is active and has received the present state. */
const SUBSCRIBED = "mcpb.subscribed";
/** The document that a command was bound to is gone: nothing ran. */
const UNBOUND = /uniqueContextId not found/;
const INTERRUPTED = /^Detached while|navigated or closed|context was destroyed/;
/** No such method, parameters, session: the target answered, and did nothing. */
const NOTHING_RAN = new Set([-32601, -32602, -32001]);

/**
 * Said once, in this order; the browser keeps to it in a session, so nothing that comes later has to wait for the
 * answers, which a busy page would delay.
 *
 * @type {[string, Record<string, unknown>][]}
 */
const SETTING_UP = [
  ["Inspector.enable", {}], // reports crashes
  ["Page.enable", {}], // reports dialogs; one that opened before cannot be answered
  // A hidden page draws no frames: the first is needed for pointer moves, the second for painting.
  ["Emulation.setFocusEmulationEnabled", { enabled: true }],
  ["Page.startScreencast", { format: "jpeg", everyNthFrame: 1_000_000, maxWidth: 1, maxHeight: 1 }],
];

export class Attachment {
  /** The tab's main document. */
  document = new MainDocument();
  /** The tab can be sent commands. */
  isReady = false;
  /** Of clients: those that have used it. @type {Set<string>} */
  sessions = new Set();
  /** Those that have used it, see `callerOf`. @type {Set<string>} */
  callers = new Set();
  /** @type {Set<Subscribed>} */
  #subscriptions = new Set();
  /** @type {Set<Running>} */
  #running = new Set();
  /** Frames and workers in processes of their own: session → the event that reported it. @type {Map<string, CdpEvent>} */
  #children = new Map();
  /** Event of the open dialog. @type {CdpEvent | null} */
  #dialog = null;
  #room = new EventRoom();
  /** The tab is being closed. */
  #isLeaving = false;
  #users = 0;
  #hasEnded = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the tab is let go */
  #lingering;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the dialog is dismissed */
  #unanswered;
  /** Sessions in which we have switched on Runtime. @type {Map<string, Promise<void>>} */
  #watched = new Map();
  /** Sessions in which a client has. @type {Set<string>} */
  #watchedByClients = new Set();
  /** Under way. @type {Set<Promise<void>>} */
  #explorations = new Set();

  /**
   * @param {number} tabId
   * @param {() => void} unused it has detached from the tab, which was unused for a while
   */
  constructor(tabId, unused) {
    this.tabId = tabId;
    this.unused = unused;
    /** Rejected when the tab cannot be attached to. */
    this.begun = this.#begin();
  }

  /** Attach to the tab and set it up. */
  async #begin() {
    const { url, pendingUrl } = await chrome.tabs.get(this.tabId);
    if (isExtensionPage(url) || isExtensionPage(pendingUrl)) throw new Error("It shows a page of an extension.");
    await chrome.debugger.attach({ tabId: this.tabId }, PROTOCOL);
    for (const [method, params] of SETTING_UP) void this.#order("", method, params);
    void this.#learnDocument();
    this.#explore("");
    this.isReady = true;
  }

  /** Learn which document the tab shows. */
  async #learnDocument() {
    try {
      this.document.learn(await this.#command({ sessionId: "", method: "Page.getFrameTree", params: {} }));
    } catch {
      // The tab is gone, or its page has crashed: there is nothing to learn.
    }
  }

  /**
   * See `DevTools.send`.
   *
   * @param {Asking} asking
   * @param {AbortSignal} signal
   * @returns {Promise<object>}
   */
  async send(asking, signal) {
    const { promise: failed, reject: fail } = Promise.withResolvers();
    const running = { asking, fail };
    const release = this.#use(signal);
    this.#running.add(running);
    try {
      return /** @type {object} */ (await Promise.race([this.#passOn(asking), failed]));
    } catch (error) {
      throw error instanceof WireError ? error : refusal(error);
    } finally {
      this.#running.delete(running);
      release();
    }
  }

  /**
   * See `DevTools.subscribe`. It receives the events of the present state, then SUBSCRIBED.
   *
   * @param {Subscription} subscription
   * @param {AbortSignal} signal
   */
  async subscribe(subscription, signal) {
    const release = this.#use(signal);
    const { promise: over, resolve, reject } = Promise.withResolvers();
    const subscribed = { ...subscription, end: () => resolve(undefined), fail: reject };
    signal.addEventListener("abort", subscribed.end);
    if (this.#hasEnded || signal.aborted) subscribed.end();
    this.callers.add(subscription.caller);
    this.#subscriptions.add(subscribed);
    this.#mindDialog();
    for (const event of [...this.#children.values(), this.#dialog])
      if (event && subscription.events.has(event.method)) tell([subscribed], event);
    void this.#greet(subscribed);
    try {
      await over;
    } finally {
      this.#subscriptions.delete(subscribed);
      this.#mindDialog();
      release();
    }
  }

  /** @param {Subscribed} subscribed */
  async #greet(subscribed) {
    await Promise.race([this.#allExplored(), pause(EXPLORING_MS)]);
    tell([subscribed], { tabId: this.tabId, sessionId: "", method: SUBSCRIBED, params: {} });
  }

  /** See `DevTools.leave`. */
  leave() {
    this.#isLeaving = true;
    if (this.#dialog) this.#answer(this.#dialog);
  }

  /** The address of what a session shows; empty: it is the tab, or not known. @param {string} sessionId */
  urlOf(sessionId) {
    return /** @type {any} */ (this.#children.get(sessionId)?.params)?.targetInfo.url ?? "";
  }

  /** The browser tells. @param {string} sessionId @param {string} method @param {any} params */
  onEvent(sessionId, method, params) {
    const event = { tabId: this.tabId, sessionId, method, params: withoutCookies(method, params) };
    if (method === "Page.screencastFrame") return; // of our own
    if (sessionId && method.startsWith("Page.") && method !== "Page.downloadWillBegin") return; // those of the tab count
    this.document.handle(sessionId, method, params);
    if (method === "Target.attachedToTarget") this.#found(event);
    if (method === "Target.targetInfoChanged") this.#update(params.targetInfo);
    if (method === "Target.detachedFromTarget") this.#lost(params.sessionId);
    if (method === "Page.frameNavigated" && showsExtensionPage(sessionId, params.frame)) return this.#letGo();
    if (method === "Inspector.targetCrashed") this.#crashed(sessionId);
    if (method === DIALOG_OPENING) this.#setDialog(event);
    if (method === "Page.javascriptDialogClosed") this.#setDialog(null);
    const hearing = [...this.#subscriptions].filter(({ events }) => events.has(method));
    if (hearing.length === 0) return;
    for (const admitted of this.#room.admit(event, Date.now())) tell(hearing, admitted);
  }

  /**
   * Report an event of the extension to some callers.
   *
   * @param {Set<string>} callers
   * @param {string} method
   * @param {any} params
   */
  notify(callers, method, params) {
    const subscribers = [...this.#subscriptions].filter(({ caller, events }) => callers.has(caller) && events.has(method));
    tell(subscribers, { tabId: this.tabId, sessionId: "", method, params });
  }

  /** The browser has let go of the tab, or we have. */
  ended() {
    this.#hasEnded = true;
    this.isReady = false;
    this.document.end();
    clearTimeout(this.#lingering);
    this.#setDialog(null);
    for (const sessionId of this.#children.keys()) this.#lost(sessionId);
    this.#fail("", Code.NAVIGATED, "The browser let go of the tab.");
    for (const { end } of this.#subscriptions) end();
  }

  /**
   * Have the default execution contexts of a session reported, the main frame's at least.
   *
   * @param {string} sessionId
   */
  async watchContexts(sessionId) {
    const { promise: failed, reject: fail } = Promise.withResolvers();
    const running = { asking: { session: "", sessionId, method: "Runtime.enable", params: {} }, fail };
    this.#running.add(running); // a page that crashes meanwhile never answers
    try {
      await Promise.race([this.#learnContexts(sessionId), failed]);
    } finally {
      this.#running.delete(running);
    }
  }

  /** @param {string} sessionId */
  async #learnContexts(sessionId) {
    if (!this.#watchedByClients.has(sessionId)) {
      const watched = this.#watched.get(sessionId) ?? this.#order(sessionId, "Runtime.enable");
      this.#watched.set(sessionId, watched);
      await watched;
    }
    if (this.contextOf(sessionId)) return;
    // A page that has run no script yet has no context until one is needed.
    await this.#order(sessionId, "Runtime.evaluate", { expression: "0" });
    await this.document.waitUntil(() => this.contextOf(sessionId) !== undefined, CONTEXT_MS);
  }

  /**
   * The execution context that Runtime.evaluate means by default; undefined: not known, or the session has no frames.
   *
   * @param {string} sessionId
   */
  contextOf(sessionId) {
    const child = /** @type {any} */ (this.#children.get(sessionId)?.params)?.targetInfo;
    return this.document.contextOf(sessionId, child?.targetId ?? "");
  }

  /** @param {string} sessionId */
  #forgetContexts(sessionId) {
    this.#watched.delete(sessionId);
    this.#watchedByClients.delete(sessionId);
    this.document.forgetContexts(sessionId);
  }

  /** Whether a session is that of a document. @param {string} sessionId */
  isOfDocument(sessionId) {
    return sessionId === "" || /** @type {any} */ (this.#children.get(sessionId)?.params)?.targetInfo.type === "iframe";
  }

  /**
   * A client's command. Runtime.enable reports what there is only where Runtime was off.
   *
   * @param {Order} order
   */
  async #passOn(order) {
    const { sessionId, method } = order;
    if (method === "Runtime.enable" && !this.#watchedByClients.has(sessionId)) {
      this.#watchedByClients.add(sessionId);
      if (this.#watched.delete(sessionId)) await this.#order(sessionId, "Runtime.disable");
    }
    if (method === "Runtime.disable") this.#forgetContexts(sessionId);
    return this.#command(order);
  }

  /** @param {Order} order @returns {Promise<object>} */
  async #command({ sessionId, method, params }) {
    const { tabId } = this;
    return (await chrome.debugger.sendCommand(sessionId ? { tabId, sessionId } : { tabId }, method, params)) ?? {};
  }

  /**
   * A command of our own. Where it fails, what it was for is gone.
   *
   * @param {string} sessionId
   * @param {string} method
   * @param {Record<string, unknown>} [params]
   */
  async #order(sessionId, method, params = {}) {
    await this.#command({ sessionId, method, params }).catch(() => {});
  }

  /** @param {AbortSignal} signal @returns {() => void} to be called when it is used no more */
  #use(signal) {
    clearTimeout(this.#lingering);
    this.#users += 1;
    let isUsed = true;
    const release = () => {
      if (!isUsed) return;
      isUsed = false;
      this.#users -= 1;
      if (this.#users === 0 && !this.#hasEnded) this.#lingering = setTimeout(() => this.#letGo(), LINGER_MS);
    };
    if (signal.aborted) release();
    signal.addEventListener("abort", release);
    return release;
  }

  /** Detach from the tab, after an answer to its dialog. */
  #letGo() {
    if (this.#dialog) this.#answer(this.#dialog); // the page would hang in it for ever
    void chrome.debugger.detach({ tabId: this.tabId }).catch(() => {}); // it went by itself
    this.unused();
  }

  /** @param {CdpEvent | null} event */
  #setDialog(event) {
    this.#dialog = event;
    if (event && this.#isLeaving) this.#answer(event);
    this.#mindDialog();
  }

  /** Have a dialog that no subscriber receives dismissed after a while; otherwise leave it to the client. */
  #mindDialog() {
    const dialog = this.#dialog;
    const isHeard = [...this.#subscriptions].some(({ events }) => events.has(DIALOG_OPENING));
    if (dialog && !isHeard) {
      this.#unanswered ??= setTimeout(() => this.#answer(dialog), LINGER_MS);
    } else {
      clearTimeout(this.#unanswered);
      this.#unanswered = undefined;
    }
  }

  /** In the client's place: no, unless that would keep the tab open. @param {CdpEvent} dialog */
  #answer({ params: { type } }) {
    const accept = this.#isLeaving && type === "beforeunload";
    void this.#order("", "Page.handleJavaScriptDialog", { accept });
  }

  /** Have what is in it announced. @param {string} sessionId */
  #explore(sessionId) {
    const exploration = this.#order(sessionId, "Target.setAutoAttach", AUTO_ATTACH);
    this.#explorations.add(exploration);
    void exploration.then(() => this.#explorations.delete(exploration));
  }

  /** Settles when all frames and workers that are being searched have been reported. */
  async #allExplored() {
    while (this.#explorations.size > 0) await Promise.all(this.#explorations);
  }

  /** @param {CdpEvent} event */
  #found(event) {
    const { sessionId } = event.params;
    this.#children.set(sessionId, event);
    void this.#order(sessionId, "Inspector.enable");
    void this.#order(sessionId, "Page.enable"); // reports downloads
    this.#explore(sessionId);
  }

  /** @param {{ targetId: string }} targetInfo */
  #update(targetInfo) {
    for (const event of this.#children.values())
      if (event.params.targetInfo.targetId === targetInfo.targetId) event.params = { ...event.params, targetInfo };
  }

  /** @param {string} sessionId */
  #crashed(sessionId) {
    if (sessionId === "") this.#setDialog(null);
    this.#forgetContexts(sessionId);
    this.#fail(sessionId, Code.INTERNAL_ERROR, "The page has crashed.");
  }

  /** With all that is in it: of that the browser does not always tell. @param {string} sessionId */
  #lost(sessionId) {
    this.#children.delete(sessionId);
    this.#forgetContexts(sessionId);
    this.#fail(sessionId, Code.NAVIGATED, "The frame is gone.");
    for (const [inner, { sessionId: outer }] of this.#children) if (outer === sessionId) this.#lost(inner);
  }

  /**
   * What runs in a session will not be answered: of that the browser does not tell either.
   *
   * @param {string} sessionId
   * @param {number} code
   * @param {string} text
   */
  #fail(sessionId, code, text) {
    for (const { asking, fail } of this.#running)
      if (asking.sessionId === sessionId) fail(new WireError(code, text, { handed: true }));
  }
}

/** Return whether the tab now shows a page of an extension. @param {string} sessionId @param {any} frame */
function showsExtensionPage(sessionId, { parentId, url }) {
  return sessionId === "" && !parentId && isExtensionPage(url);
}

/** @param {Subscribed[]} hearing those that it is for @param {CdpEvent} event */
function tell(hearing, event) {
  for (const subscribed of hearing) {
    try {
      subscribed.tell(event);
    } catch (error) {
      subscribed.fail(error);
    }
  }
}

/** @param {unknown} error what the browser said to a command */
function refusal(error) {
  const { code, message, data } = said(error instanceof Error ? error.message : String(error));
  const text = data ? `${message} ${data}` : message;
  if (UNBOUND.test(text)) return new WireError(Code.NAVIGATED, text, { handed: false });
  if (INTERRUPTED.test(text)) return new WireError(Code.NAVIGATED, text, { handed: true });
  if (code === undefined || NOTHING_RAN.has(code)) return new WireError(Code.INVALID_PARAMS, text, { handed: false });
  return new WireError(Code.INTERNAL_ERROR, text, { handed: true });
}

/** @param {string} text @returns {{ code?: number, message: string, data?: string }} without a code: nothing was sent to the target */
function said(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text };
  }
}

/** @param {number} ms @returns {Promise<void>} */
function pause(ms) {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
