/**
 * Sites and sessions that the person paused. Sites stay paused when the browser is restarted (`chrome.storage.local`);
 * sessions do not outlive it (`chrome.storage.session`).
 */

import { canonical } from "./origins.js";
import { invalid } from "./params.js";
import { Code, notification, WireError } from "./wire.js";

/** @import { Link } from "./link.js" */

const SITES_KEY = "pausedSites";
const SESSIONS_KEY = "pausedSessions";
/** Of sessions: nobody tells us when one has ended for good. The oldest ones leave. */
const KEPT_SESSIONS = 256;

export class Pauses {
  /** Origins, in canonical form. @type {Set<string>} */
  #sites = new Set();
  /** @type {Set<string>} */
  #sessions = new Set();
  /** @type {Link | null} */
  #link = null;

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  async load() {
    const [local, session] = await Promise.all([
      chrome.storage.local.get(SITES_KEY),
      chrome.storage.session.get(SESSIONS_KEY),
    ]);
    this.#sites = new Set((/** @type {string[]} */ (local[SITES_KEY]) ?? []).map(canonical));
    this.#sessions = new Set(/** @type {string[]} */ (session[SESSIONS_KEY]) ?? []);
  }

  /** As the wire has them: both lists, whole. */
  get all() {
    return { sites: [...this.#sites], sessions: [...this.#sessions] };
  }

  /** @param {string} origin */
  hasSite(origin) {
    return this.#sites.has(canonical(origin));
  }

  /** @param {string} session */
  hasSession(session) {
    return this.#sessions.has(session);
  }

  /**
   * @param {string} origin
   * @param {boolean} paused false: resume
   * @throws {WireError} it is no origin
   */
  setSite(origin, paused) {
    if (!isOrigin(origin)) throw invalid(`${origin} is no site; write its origin, as https://bank.example.`);
    this.#set(this.#sites, canonical(origin), paused);
  }

  /**
   * @param {string} session
   * @param {boolean} paused false: resume
   */
  setSession(session, paused) {
    this.#set(this.#sessions, session, paused);
  }

  /** @param {string} origin @throws {WireError} it is paused */
  checkSite(origin) {
    const site = canonical(origin);
    if (this.hasSite(site)) throw pausedBecause(site, site);
  }

  /** @param {string} session @throws {WireError} it is paused */
  checkSession(session) {
    if (this.hasSession(session)) throw pausedBecause(`This client (session ${session})`, session);
  }

  /** Tell a link what is paused; only then do changes follow. @param {Link} link */
  announceAll(link) {
    this.#link = link;
    this.#announce();
  }

  /**
   * @param {Set<string>} paused
   * @param {string} name
   * @param {boolean} isPaused
   */
  #set(paused, name, isPaused) {
    if (paused.has(name) === isPaused) return;
    if (isPaused) paused.add(name);
    else paused.delete(name);
    const [oldest] = this.#sessions;
    if (oldest !== undefined && this.#sessions.size > KEPT_SESSIONS) this.#sessions.delete(oldest);
    this.#save();
    this.#announce();
    this.changed();
  }

  #announce() {
    this.#link?.post(notification("browser/paused", this.all));
  }

  #save() {
    void chrome.storage.local.set({ [SITES_KEY]: [...this.#sites] });
    void chrome.storage.session.set({ [SESSIONS_KEY]: [...this.#sessions] });
  }
}

/** Whether it is the origin of pages that can be told apart: opaque ones are all called `null`. @param {string} text */
export function isOrigin(text) {
  return text !== "null" && URL.parse(text)?.origin === text;
}

/**
 * @param {string} who
 * @param {string} name for the command
 */
function pausedBecause(who, name) {
  return new WireError(
    Code.PAUSED,
    `${who} is paused by the person; resume it in the extension's popup or with \`mcpb pause ${name} --resume\`.`,
    { handed: false },
  );
}
