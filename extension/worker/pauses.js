/**
 * Sites and sessions that the user paused, with the time of each change: of two changes of one pause the later one
 * counts, wherever it was made. Sites stay paused when the browser is restarted (`chrome.storage.local`); sessions do
 * not outlive it here (`chrome.storage.session`). Bridges keep both (`bridge/state/pauses_file.py`).
 */

import { integer, invalid, optionalText } from "./params.js";
import { matches, readPattern } from "./site_patterns.js";
import { Code, notification, WireError } from "./wire.js";

/**
 * @import { Audience, Link } from "./audience.js"
 * @typedef {{ site?: string, session?: string, paused: boolean, at: number }} Change of a site or of a session; `at`:
 *   milliseconds since the epoch
 */

const SITES_KEY = "pauses";
/** Of versions before changes had times. */
const OLD_SITES_KEY = "pausedSites";
const SESSIONS_KEY = "pausedSessions";
/** Of sessions, and of what was resumed: the oldest ones leave. */
const KEPT = 256;
/** What was resumed longer ago is forgotten. */
const KEPT_MS = 30 * 24 * 3600 * 1000;

export class Pauses {
  /** @type {Map<string, Change>} by site pattern, in canonical form */
  #sites = new Map();
  /** @type {Map<string, Change>} by session */
  #sessions = new Map();

  /**
   * @param {Audience} audience
   * @param {() => void} changed
   */
  constructor(audience, changed) {
    this.audience = audience;
    this.changed = changed;
  }

  /** Read the stored pauses, those of earlier versions too. */
  async load() {
    const [local, session] = await Promise.all([
      chrome.storage.local.get([SITES_KEY, OLD_SITES_KEY]),
      chrome.storage.session.get(SESSIONS_KEY),
    ]);
    const before = /** @type {string[]} */ (local[OLD_SITES_KEY] ?? []).map((site) => ({ site, paused: true, at: 0 }));
    const changes = [...before, .../** @type {Change[]} */ (local[SITES_KEY] ?? [])];
    for (const change of [...changes, .../** @type {Change[]} */ (session[SESSIONS_KEY] ?? [])]) this.#merge(change);
  }

  /** As the wire has them: what is paused, and all changes that are known. */
  get all() {
    const changes = [...this.#sites.values(), ...this.#sessions.values()];
    return { sites: names(this.#sites), sessions: names(this.#sessions), changes };
  }

  /** @param {string} origin @returns {string} the pattern that pauses it; empty: none does */
  patternOf(origin) {
    for (const [pattern, { paused }] of this.#sites) if (paused && matches(pattern, origin)) return pattern;
    return "";
  }

  /** @param {string} session */
  hasSession(session) {
    return this.#sessions.get(session)?.paused ?? false;
  }

  /**
   * @param {string} site a pattern
   * @param {boolean} paused false: resume
   * @param {number} at when the user did it; 0: now
   * @throws {WireError} it is no pattern
   */
  setSite(site, paused, at = 0) {
    const pattern = readPattern(site);
    if (!pattern) throw invalid(`${site} is no site; write its origin, as https://bank.example, or its host.`);
    this.#set({ site: pattern, paused, at: at || later(this.#sites.get(pattern)) });
  }

  /**
   * @param {string} session
   * @param {boolean} paused false: resume
   * @param {number} at when the user did it; 0: now
   */
  setSession(session, paused, at = 0) {
    this.#set({ session, paused, at: at || later(this.#sessions.get(session)) });
  }

  /** @param {string} origin @throws {WireError} it is paused */
  checkSite(origin) {
    const pattern = this.patternOf(origin);
    if (pattern) throw paused(`The user paused ${pattern}.`, { site: pattern });
  }

  /** @param {string} session @throws {WireError} it is paused */
  checkSession(session) {
    if (this.hasSession(session)) throw paused(`The user paused this client (session ${session}).`);
  }

  /** Send what is paused to a new connection. @param {Link} link */
  announceTo(link) {
    link.post(this.#announcement);
  }

  /** @param {Change} change */
  #set(change) {
    if (!this.#merge(change)) return;
    this.#save();
    this.audience.post(this.#announcement);
    this.changed();
  }

  /** @param {Change} change @returns {boolean} false: what is known is as late */
  #merge(change) {
    const [known, name] = change.site ? [this.#sites, change.site] : [this.#sessions, change.session ?? ""];
    if (!isLater(change, known.get(name))) return false;
    known.delete(name); // the newest stand last
    known.set(name, change);
    forget(known, (each) => !each.paused, Date.now() - KEPT_MS);
    if (known === this.#sessions) forget(known, () => true, 0);
    return true;
  }

  /** The message with all pauses. */
  get #announcement() {
    return notification("browser/paused", this.all);
  }

  /** Store the pauses: sites for good, sessions until the browser ends. */
  #save() {
    void chrome.storage.local.set({ [SITES_KEY]: [...this.#sites.values()] });
    void chrome.storage.local.remove(OLD_SITES_KEY);
    void chrome.storage.session.set({ [SESSIONS_KEY]: [...this.#sessions.values()] });
  }
}

/**
 * `browser/pause`.
 *
 * @param {Pauses} pauses
 * @param {any} params
 */
export function pause(pauses, params) {
  const [site, session] = [optionalText(params, "site"), optionalText(params, "session")];
  if (Boolean(site) === Boolean(session)) throw invalid("Name either a site or a session.");
  if (typeof params.paused !== "boolean") throw invalid("paused must be true to pause, false to resume.");
  const at = params.at == null ? 0 : integer(params, "at");
  if (site) pauses.setSite(site, params.paused, at);
  else pauses.setSession(session, params.paused, at);
}

/**
 * @param {string} message
 * @param {{ site?: string }} data
 */
function paused(message, data = {}) {
  return new WireError(Code.PAUSED, message, { handed: false, ...data });
}

/** @param {Map<string, Change>} known @returns {string[]} those that are paused */
function names(known) {
  return [...known].flatMap(([name, { paused }]) => (paused ? [name] : []));
}

/** The time of a change that is made now, whatever the clock says. @param {Change | undefined} known */
function later(known) {
  return Math.max(Date.now(), (known?.at ?? -1) + 1);
}

/**
 * Of two changes at the same moment the pause counts.
 *
 * @param {Change} change
 * @param {Change | undefined} known
 */
function isLater(change, known) {
  if (!known) return true;
  return change.at === known.at ? change.paused && !known.paused : change.at > known.at;
}

/**
 * Drop the oldest of these entries beyond KEPT, and those before a time.
 *
 * @param {Map<string, Change>} known
 * @param {(change: Change) => boolean} isBounded
 * @param {number} before
 */
function forget(known, isBounded, before) {
  const bounded = [...known].filter(([, change]) => isBounded(change)).sort(([, one], [, two]) => two.at - one.at);
  for (const [index, [name, { at }]] of bounded.entries()) if (index >= KEPT || at < before) known.delete(name);
}
