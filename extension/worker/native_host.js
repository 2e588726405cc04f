/**
 * Connection to the native host: its state, the next attempt, and the error for the user.
 *
 * A host that ended is started again after growing pauses, all below the 30 s after which the browser would stop the
 * worker. A host that is missing, reports an error or never sends hello is not worth keeping the worker awake: only an
 * alarm and `nudge` (a frame that becomes visible or changes its tools) start it again. For some minutes after the
 * extension was loaded a missing host is tried every few seconds, since the user may be installing mcpb.
 *
 * A host of another wire version stays connected, so that bridges learn both versions from it; its messages are ignored.
 */

import { isFirefox } from "./firefox.js";
import { HostConnection } from "./host_connection.js";
import { notification, WIRE_VERSION } from "./wire.js";

/**
 * @import { LastError } from "./last_error.js"
 * @typedef {{ wire: number, instance: string, version: string, pid: number, browserPid: number, command: string }} HostHello
 * @typedef {{ what: string, command: string, detail?: string }} Trouble an error, and the command that fixes it;
 *   `detail`: the browser's words, or what else may be the cause
 */

export const RETRY_ALARM = "native-host";
/** Above the 30 s after which an idle worker is stopped, or it would never be. */
const ALARM_MINUTES = 1;
const FIRST_PAUSE_MS = 150;
const LONGEST_PAUSE_MS = 25_000;
/** A host that lived this long was healthy: its end says nothing about the next one. */
const HEALTHY_MS = 10_000;
/** A host sends its hello at once; a silent process is not a host. */
const HELLO_MS = 10_000;
/** Attempts without a hello before the worker is allowed to sleep. */
const PATIENCE = 7;
const NUDGE_PAUSE_MS = 1_000;
/** Before a host of another wire version is replaced, which may have been updated meanwhile. */
const REJECTED_PAUSE_MS = 30_000;
/** How long, and how often, a missing host is expected to be registered. Trying starts no process. */
const EXPECTED_MS = 5 * 60_000;
const EXPECTED_PAUSE_MS = 3_000;
const NOT_REGISTERED = "mcpb is not registered with this browser.";
/** Characters of a command from the host, which the popup shows and copies. */
const MAX_COMMAND = 500;
const PROGRAM = "mcpb";
const INSTALL = "mcpb install-native-host";
const UPDATE = isFirefox ? "mcpb extension --firefox" : "mcpb extension";

export class NativePort {
  /** @type {HostConnection | null} */
  #link = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the next attempt */
  #timer;
  /** Time of the next attempt; none is planned: never. */
  #due = Infinity;
  #expectedUntil = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the host must have said hello */
  #patience;
  #opening = false;
  /** The host speaks another version of the wire. */
  #rejected = false;
  #failures = 0;
  #openedAt = 0;
  #triedAt = 0;
  /** @type {HostHello | null} */
  host = null;
  /** @type {Trouble | null} */
  trouble = null;
  /** Fast attempts have ended: frames must not wake the worker only for them. */
  resting = false;

  /**
   * @param {{ hello: () => Promise<object>, opened: (link: HostConnection) => void, greeted: () => void,
   *   received: (link: HostConnection, message: any) => void, ended: (link: HostConnection) => void, changed: () => void }} events
   *   `opened`: the hello is sent; `greeted`: the host has sent its own; `changed`: anything a user sees
   * @param {LastError} last where what goes wrong is kept
   */
  constructor(events, last) {
    this.events = events;
    this.last = last;
  }

  /** Connect, unless that has been done. */
  async connect() {
    if (this.#rejected) this.#hangUp();
    if (this.#link || this.#opening) return;
    clearTimeout(this.#timer);
    this.#due = Infinity;
    this.#opening = true;
    this.#triedAt = Date.now();
    const hello = await this.#ownHello();
    this.#opening = false;
    if (hello) return this.#open(hello);
    this.#failed({ what: "The extension cannot read its storage; its error page says why.", command: "" });
  }

  /** Null: it cannot be made. */
  async #ownHello() {
    try {
      return await this.events.hello();
    } catch (error) {
      console.error(error);
      this.last.failed(String(error));
      return null;
    }
  }

  /** @param {object} hello ours */
  #open(hello) {
    this.#openedAt = Date.now();
    const link = new HostConnection(
      (from, message) => this.#received(from, message),
      (from, reason) => this.#ended(from, reason),
    );
    this.#link = link;
    const silence = `it said nothing for ${HELLO_MS / 1000} s`;
    this.#patience = setTimeout(() => (link.close(), this.#ended(link, silence)), HELLO_MS);
    link.post(notification("browser/hello", hello));
    this.events.opened(link);
  }

  /** Connect because a host would be used now, unless an attempt runs or has just ended. */
  nudge() {
    const pause = this.#rejected ? REJECTED_PAUSE_MS : NUDGE_PAUSE_MS;
    this.#tryWithin(Math.max(0, this.#triedAt + pause - Date.now()));
  }

  /** The extension was loaded just now: its host is registered soon, if it is not already. */
  expect() {
    this.#expectedUntil = Date.now() + EXPECTED_MS;
    if (this.resting) this.#tryWithin(EXPECTED_PAUSE_MS);
  }

  /** Plan an attempt, unless a sooner one is planned or one is under way. @param {number} ms */
  #tryWithin(ms) {
    const due = Date.now() + ms;
    if ((this.#link && !this.#rejected) || this.#opening || this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => void this.connect(), ms);
  }

  /** Say hello once more, because what it says has changed. */
  async greetAgain() {
    const hello = await this.events.hello();
    this.#link?.post(notification("browser/hello", hello));
  }

  /**
   * @param {HostConnection} link
   * @param {any} message
   */
  #received(link, message) {
    if (this.#rejected) return;
    if (message?.method === "host/hello") return this.#greeted(message.params);
    if (message?.method === "host/error") return this.#complained(link, message.params);
    this.events.received(link, message);
  }

  /**
   * The host says what is wrong. Before its hello that is all it will say, and it may stay alive in silence.
   *
   * @param {HostConnection} link
   * @param {{ message?: unknown, command?: unknown } | undefined} complaint
   */
  #complained(link, complaint) {
    const trouble = { what: String(complaint?.message), command: readCommand(complaint?.command) };
    if (!this.host) {
      this.last.failed(trouble.what);
      link.close();
      this.#forget();
      return this.#rest(trouble);
    }
    this.trouble = trouble;
    this.events.changed();
  }

  /** @param {HostHello} host */
  #greeted(host) {
    clearTimeout(this.#patience);
    if (host.wire !== WIRE_VERSION) return this.#reject(host);
    this.host = { ...host, command: readCommand(host.command) || PROGRAM };
    this.last.ended();
    this.trouble = null;
    this.resting = false;
    void chrome.alarms.clear(RETRY_ALARM);
    this.events.greeted();
    this.events.changed();
  }

  /** @param {HostHello} host */
  #reject(host) {
    this.#rejected = true;
    const ours = chrome.runtime.getManifest().version;
    const older = host.wire < WIRE_VERSION ? "the native host" : "this extension";
    const detail =
      `This extension (${ours}) speaks version ${WIRE_VERSION} of the wire and the native host ` +
      `(${host.version}) version ${host.wire}: update ${older}.`;
    this.last.failed(detail);
    const what = "mcpb and its extension have different versions.";
    this.#rest({ what, detail, command: host.wire < WIRE_VERSION ? INSTALL : UPDATE });
  }

  /** Replace a host of another wire version: the next one may have the right one. */
  #hangUp() {
    this.#link?.close();
    this.#forget();
  }

  /**
   * @param {HostConnection} link
   * @param {string} reason
   */
  #ended(link, reason) {
    if (this.#link !== link) return;
    if (this.#rejected) return this.#forget();
    const greeted = this.host !== null;
    if (greeted) this.last.exited(reason);
    else this.last.failed(reason);
    this.#forget();
    if (isMissing(reason)) return this.#miss(missing(reason));
    if (!greeted) return this.#failed(silent(reason));
    if (Date.now() - this.#openedAt > HEALTHY_MS) this.#failures = 0;
    this.#retry({ what: "mcpb has ended. Connecting again.", command: "" });
  }

  /** No host is registered. @param {Trouble} trouble */
  #miss(trouble) {
    this.#rest(trouble);
    if (Date.now() < this.#expectedUntil) this.#tryWithin(EXPECTED_PAUSE_MS);
  }

  /** An attempt came to nothing. @param {Trouble} trouble */
  #failed(trouble) {
    if (this.#failures >= PATIENCE) return this.#rest(trouble);
    this.#retry(trouble);
  }

  /** @param {Trouble} trouble */
  #retry(trouble) {
    this.trouble = trouble;
    this.#tryWithin(pauseMs(this.#failures));
    this.#failures += 1;
    this.events.changed();
  }

  /** There is no host now. */
  #forget() {
    clearTimeout(this.#patience);
    const link = this.#link;
    this.#link = null;
    this.host = null;
    this.#rejected = false;
    if (link) this.events.ended(link);
  }

  /** @param {Trouble} trouble */
  #rest(trouble) {
    this.trouble = trouble;
    this.resting = true;
    void chrome.alarms.create(RETRY_ALARM, { periodInMinutes: ALARM_MINUTES });
    this.events.changed();
  }
}

/** Return the text if a user can read all of it before running it; otherwise nothing. @param {unknown} text */
function readCommand(text) {
  const isReadable = typeof text === "string" && text.length <= MAX_COMMAND && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text);
  return isReadable ? text : "";
}

/** @param {number} failures in a row */
function pauseMs(failures) {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures);
}

/** Whether trying again soon is useless. @param {string} reason the browser's words */
function isMissing(reason) {
  return /not found|forbidden|no such native application/i.test(reason);
}

/**
 * @param {string} reason
 * @returns {Trouble}
 */
function missing(reason) {
  if (isFirefox) {
    const detail = `${reason}. Or the host manifest does not name this add-on.`;
    return { what: NOT_REGISTERED, detail, command: INSTALL };
  }
  if (!/forbidden/i.test(reason)) {
    const detail =
      `${reason} Or the host manifest is broken. A browser that is started with --user-data-dir needs that ` +
      "directory named in the command.";
    return { what: NOT_REGISTERED, detail, command: INSTALL };
  }
  const what = "mcpb is registered with this browser, but for another extension.";
  return { what, detail: reason, command: `${INSTALL} --extension-id ${chrome.runtime.id}` };
}

/**
 * @param {string} reason
 * @returns {Trouble}
 */
function silent(reason) {
  return { what: "mcpb does not start in this browser.", detail: reason || "no reason given", command: INSTALL };
}
