/**
 * Connection to a WebSocket proxy: its settings, its opening, the next attempt, and the failure for the user.
 *
 * The proxy asks for the token (`authenticate`), also before the token ends; after its `authenticated` the socket carries
 * the native wire. A socket that ended is opened again after 1 s to a minute. The browser stops a worker that waits
 * longer than 30 s: an alarm starts it again, as long as the user wants to be connected.
 */

import { isFirefox } from "./firefox.js";
import { probe, SignInError } from "./oauth_metadata.js";
import { readAddress, socketUrl } from "./proxy_address.js";
import { describeFailure, readClose } from "./proxy_failures.js";
import { SignIn } from "./sign_in.js";
import { ABNORMAL_CLOSURE, WebSocketConnection } from "./websocket_connection.js";
import { Code, notification, WIRE_VERSION } from "./wire.js";

/**
 * @import { Failure } from "./proxy_failures.js"
 * @import { Code as UserCode } from "./sign_in.js"
 * @typedef {{ userId: string, version: string }} Authenticated
 * @typedef {{ address: string, isManaged: boolean, isForbidden: boolean, isConnected: boolean, isWanted: boolean,
 *   userId: string, code: UserCode | null, failure: Failure | null }} ProxyReport `isWanted`: connected, or on the way
 */

export const PROXY_ALARM = "websocket-proxy";
const KEY = "proxy";
/** Of the administrator. */
const ADDRESS = "proxyAddress";
const FORBIDDEN = "proxyForbidden";
export const PROXY_POLICY = [ADDRESS, FORBIDDEN];
/** Above the 30 s after which an idle worker is stopped, or it would never be. */
const ALARM_MINUTES = 1;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** Between two attempts because a page would be used now. */
const NUDGE_PAUSE_MS = 5_000;
/** A connection that lived this long was healthy: its end says nothing about the next one. */
const HEALTHY_MS = 10_000;
const MAX_DETAIL = 300;
const UPDATE_PROXY = "Update mcpb on the proxy's machine.";
const UPDATE_EXTENSION = isFirefox ? "Run: mcpb extension --firefox" : "Run: mcpb extension";

export class WebSocketProxy {
  /** Origin of the proxy; empty: the user wants none. */
  #address = "";
  #isManaged = false;
  #isForbidden = false;
  /** @type {WebSocketConnection | null} */
  #link = null;
  /** @type {Authenticated | null} */
  #session = null;
  /** @type {Failure | null} */
  #failure = null;
  #isOpening = false;
  /** Number of what the user or the administrator last wanted: an attempt for an earlier wish comes to nothing. */
  #wish = 0;
  #failures = 0;
  #triedAt = 0;
  /** Time before which pages start no attempt. */
  #restsUntil = 0;
  #openedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** Time of the next attempt; none is planned: never. */
  #due = Infinity;
  /** The token that was sent last, and whether the proxy has rejected it. */
  #sent = "";
  #isRejected = false;
  /** What the proxy says is wrong, before it ends the socket. */
  #complaint = "";

  /**
   * @param {{ hello: () => Promise<any>, opened: (link: WebSocketConnection) => void, greeted: () => void,
   *   received: (link: WebSocketConnection, message: any) => void,
   *   left: (link: WebSocketConnection, connection: string) => void,
   *   ended: (link: WebSocketConnection) => void, changed: () => void }} events as those of `NativePort`; `left`: a
   *   client has gone
   */
  constructor(events) {
    this.events = events;
    this.signIn = new SignIn({
      changed: events.changed,
      signedIn: () => void this.connect(),
      failed: ({ reason, detail }) => this.#rest(reason, detail),
    });
  }

  /** Read the settings and tokens. */
  async load() {
    await this.#readSettings();
    await this.signIn.load();
    this.#setAlarm();
  }

  /** The user has authorized this browser, or is about to. */
  get #isWanted() {
    return this.#address !== "" && (this.signIn.has(this.#address) || this.signIn.isPending(this.#address));
  }

  /** Return whether clients can reach this browser through the proxy. */
  get isConnected() {
    return this.#session !== null;
  }

  /** For the popup. @returns {ProxyReport} */
  get report() {
    return {
      ...{ address: this.#address, isManaged: this.#isManaged, isForbidden: this.#isForbidden },
      ...{ isConnected: this.isConnected, isWanted: this.#isWanted, userId: this.#session?.userId ?? "" },
      ...{ code: this.signIn.code, failure: this.#failure },
    };
  }

  /** The administrator has changed something. */
  async settingsChanged() {
    const before = this.#address;
    await this.#readSettings();
    if (this.#address !== before) this.#hangUp();
    this.#setAlarm();
    this.events.changed();
    await this.connect();
  }

  /**
   * The user wants to be reached through a proxy.
   *
   * @param {string} given its address
   */
  async choose(given) {
    const address = this.#isManaged ? this.#address : readAddress(given);
    if (this.#isForbidden) return this.#rest("forbidden");
    if (!address) return this.#rest("bad-address");
    this.#hangUp();
    this.#failure = null;
    this.#failures = 0;
    this.#isRejected = false;
    this.#address = address;
    const wish = this.#wish;
    await chrome.storage.local.set({ [KEY]: { address } });
    if (this.signIn.has(address)) return this.connect();
    const hello = await this.events.hello();
    if (wish !== this.#wish) return;
    try {
      await this.signIn.begin(address, nameOf(hello));
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      if (wish === this.#wish) this.#rest(error.reason, error.detail);
    }
    this.#setAlarm();
  }

  /** The user does not want to be reached through the proxy any more. */
  async disconnect() {
    this.#hangUp();
    this.#failure = null;
    await this.signIn.forget();
    if (!this.#isManaged) {
      this.#address = "";
      await chrome.storage.local.remove(KEY);
    }
    this.#setAlarm();
    this.events.changed();
  }

  /** Connect, unless that has been done or the user is not signed in. */
  async connect() {
    if (this.#link || this.#isOpening || !this.signIn.has(this.#address)) return;
    clearTimeout(this.#timer);
    this.#due = Infinity;
    this.#isOpening = true;
    this.#triedAt = Date.now();
    const wish = this.#wish;
    try {
      await this.signIn.token(this.#isRejected ? this.#sent : ""); // the proxy waits 10 s for it
      if (wish === this.#wish) this.#open(this.#address);
    } catch (error) {
      if (wish === this.#wish) this.#notOpened(error);
    } finally {
      this.#isOpening = false;
    }
    this.#setAlarm();
    if (wish !== this.#wish) await this.connect();
  }

  /** Connect because a page would be used now, unless an attempt has just ended. */
  nudge() {
    const due = Math.max(this.#triedAt + NUDGE_PAUSE_MS, this.#restsUntil);
    if (!this.#link && !this.#isOpening) this.#tryWithin(Math.max(0, due - Date.now()));
  }

  /** Say hello once more, because what it says has changed. */
  async greetAgain() {
    if (!this.isConnected) return;
    this.#link?.post(notification("browser/hello", await this.events.hello()));
  }

  /** Read what the user and the administrator have set. */
  async #readSettings() {
    const [managed, local] = await Promise.all([administrators(), chrome.storage.local.get(KEY)]);
    this.#isForbidden = managed[FORBIDDEN] === true;
    const preset = readAddress(String(managed[ADDRESS] ?? ""));
    this.#isManaged = preset !== "";
    const chosen = /** @type {any} */ (local[KEY])?.address ?? "";
    this.#address = this.#isForbidden ? "" : preset || String(chosen);
  }

  /** @param {string} address */
  #open(address) {
    this.#openedAt = Date.now();
    this.#link = new WebSocketConnection(
      socketUrl(address),
      (link, message) => void this.#received(link, message),
      (link, code, reason) => this.#ended(link, code, reason),
    );
  }

  /** @param {unknown} error */
  #notOpened(error) {
    if (!(error instanceof SignInError)) {
      console.error(error);
      return this.#retry("storage");
    }
    if (error.reason === "signed-out") return this.#rest(error.reason);
    this.#retry(error.reason, error.detail);
  }

  /**
   * @param {WebSocketConnection} link
   * @param {any} message
   */
  async #received(link, message) {
    const { id, method, params } = message ?? {};
    if (typeof id === "string" && id.startsWith("proxy:") && method !== undefined) return this.#answer(link, id, method);
    if (method === "authenticated") return this.#authenticated(link, params ?? {});
    if (method === "host/error") return void (this.#complaint = oneLine(String(params?.message ?? "")));
    if (!this.#session) return;
    if (method === "disconnected") return this.events.left(link, String(params?.connection_id));
    this.events.received(link, message);
  }

  /**
   * A request of the proxy itself.
   *
   * @param {WebSocketConnection} link
   * @param {string} id
   * @param {string} method
   */
  async #answer(link, id, method) {
    if (method !== "authenticate") {
      const error = { code: Code.METHOD_NOT_FOUND, message: `This extension does not know ${method}.` };
      return link.post({ jsonrpc: "2.0", id, error });
    }
    const wish = this.#wish;
    try {
      // Asked again, the proxy wants another token than the one that is about to end.
      const used = this.isConnected || this.#isRejected ? this.#sent : "";
      const [accessToken, hello] = [await this.signIn.token(used), await this.events.hello()];
      this.#sent = accessToken;
      link.post({ jsonrpc: "2.0", id, result: { name: nameOf(hello), accessToken, client_id: hello.profile.id } });
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      // Without a new token the proxy ends the socket. It may have done so meanwhile, because the sign-in has ended.
      if (error.reason !== "signed-out" || wish !== this.#wish) return;
      this.#hangUp();
      this.#rest(error.reason);
    }
  }

  /**
   * @param {WebSocketConnection} link
   * @param {any} params
   */
  async #authenticated(link, { user_id: userId, wire, version }) {
    if (wire !== undefined && wire !== WIRE_VERSION) return this.#rejectWire(Number(wire));
    const isFirst = this.#session === null;
    // Requests may follow at once.
    this.#session = { userId: oneLine(String(userId)), version: String(version ?? "") };
    this.#isRejected = false;
    this.#failure = null;
    if (!isFirst) return;
    const hello = await this.events.hello();
    if (link.ended.aborted) return;
    // A proxy that does not know our wire has clients that send requests, and no more.
    if (wire === WIRE_VERSION) {
      link.post(notification("browser/hello", hello));
      this.events.opened(link);
    }
    this.events.greeted();
    this.events.changed();
  }

  /** @param {number} wire of the proxy */
  #rejectWire(wire) {
    this.#hangUp();
    const update = wire < WIRE_VERSION ? UPDATE_PROXY : UPDATE_EXTENSION;
    this.#retry("wire-version", `It speaks version ${wire} of the wire, this extension ${WIRE_VERSION}. ${update}`, true);
  }

  /**
   * @param {WebSocketConnection} link
   * @param {number} code
   * @param {string} given
   */
  #ended(link, code, given) {
    if (this.#link !== link) return;
    const wasAuthenticated = this.isConnected;
    if (code === ABNORMAL_CLOSURE && !wasAuthenticated) return void this.#notAuthenticated();
    const { reason, detail, isToken } = this.#complaint
      ? { reason: "complaint", detail: this.#complaint, isToken: false }
      : readClose(code, oneLine(given));
    this.#complaint = "";
    if (wasAuthenticated && Date.now() - this.#openedAt > HEALTHY_MS) this.#failures = 0;
    this.#forget();
    // One new token may help; if it does not, a token each minute would not either.
    const isNewRejected = isToken && this.#isRejected;
    this.#isRejected = isToken;
    this.#retry(reason, detail, isNewRejected || reason === "too-many" || reason === "replaced");
  }

  /** The socket did not open, or was lost at once: the browser does not say why, but an HTTP response may. */
  async #notAuthenticated() {
    this.#forget();
    const wish = this.#wish;
    this.#isOpening = true;
    const reason = await probe(this.#address);
    this.#isOpening = false;
    if (wish === this.#wish) return this.#retry(reason, "", reason === "too-many");
    await this.connect();
  }

  /** End the connection, and an attempt, from our side. */
  #hangUp() {
    this.#wish += 1;
    clearTimeout(this.#timer);
    this.#due = Infinity;
    this.#link?.close();
    this.#forget();
  }

  /** There is no connection now. */
  #forget() {
    const link = this.#link;
    this.#link = null;
    this.#session = null;
    if (link) this.events.ended(link);
  }

  /**
   * Try again later.
   *
   * @param {string} reason
   * @param {string} [detail]
   * @param {boolean} [isLasting] soon would be no use
   */
  #retry(reason, detail, isLasting = false) {
    this.#failure = describeFailure(reason, this.#address, detail);
    this.#restsUntil = isLasting ? Date.now() + LONGEST_PAUSE_MS : 0;
    this.#tryWithin(isLasting ? LONGEST_PAUSE_MS : pauseMs(this.#failures));
    this.#failures += 1;
    this.events.changed();
  }

  /** Only the user can go on. @param {string} reason @param {string} [detail] */
  #rest(reason, detail) {
    this.#failure = describeFailure(reason, this.#address, detail);
    this.#setAlarm();
    this.events.changed();
  }

  /** Plan an attempt, unless a sooner one is planned. @param {number} ms */
  #tryWithin(ms) {
    const due = Date.now() + ms;
    if (this.#due <= due || !this.signIn.has(this.#address)) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => {
      this.#due = Infinity; // also if an attempt is running, which plans the next one
      void this.connect();
    }, ms);
  }

  /** Have the worker started as long as there is a reason to be connected. */
  #setAlarm() {
    if (this.#isWanted) void chrome.alarms.create(PROXY_ALARM, { periodInMinutes: ALARM_MINUTES });
    else void chrome.alarms.clear(PROXY_ALARM);
  }
}

/** @returns {Promise<{ [key: string]: unknown }>} */
async function administrators() {
  try {
    return await chrome.storage.managed.get([ADDRESS, FORBIDDEN]);
  } catch (error) {
    // To Firefox it is an error that no administrator has said anything. After any other, the feature stays off.
    if (isFirefox && error instanceof Error && /manifest not found/i.test(error.message)) return {};
    return { [FORBIDDEN]: true };
  }
}

/**
 * What clients know this browser by.
 *
 * @param {{ browser: { brand: string, version: string }, profile: { label: string } }} hello
 */
function nameOf({ browser, profile }) {
  const name = `${browser.brand} ${browser.version.split(".")[0]}`.trim();
  return profile.label ? `${profile.label} (${name})` : name;
}

/** @param {number} failures in a row */
function pauseMs(failures) {
  const base = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
  return Math.min(LONGEST_PAUSE_MS, base * (1 + Math.random() / 2)); // many browsers lost it at the same moment
}

/** Text of another program for the popup. @param {string} text */
function oneLine(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").slice(0, MAX_DETAIL);
}
