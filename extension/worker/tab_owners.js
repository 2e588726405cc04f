/**
 * Owners of tabs: the session that opened each, and the tab groups of sessions. Kept in `chrome.storage.session`. A
 * session that no bridge names for a minute loses its tabs; an alarm measures the minute, since the worker may sleep.
 */

const KEY = "owners";
export const UNNAMED_ALARM = "unnamed-sessions";
const UNNAMED_MS = 60_000;

export class TabOwners {
  /** @type {Map<number, string>} */
  #owners = new Map();
  /** @type {Map<string, number>} session → tab group */
  #groups = new Map();
  /** @type {Map<string, number>} session → time since which no client names it (ms since the epoch) */
  #unnamed = new Map();
  /** @type {Set<string>} */
  #named = new Set();

  async load() {
    const stored = /** @type {any} */ ((await chrome.storage.session.get(KEY))[KEY]) ?? {};
    this.#owners = new Map(stored.owners);
    this.#groups = new Map(stored.groups);
    this.#unnamed = new Map(stored.unnamed);
  }

  /** @param {number} tabId */
  ownerOf(tabId) {
    return this.#owners.get(tabId) ?? null;
  }

  /** Those that a session owns. */
  get tabs() {
    return this.#owners.keys();
  }

  /** @param {string} session @returns {number[]} */
  tabsOf(session) {
    return [...this.#owners].filter(([, owner]) => owner === session).map(([tabId]) => tabId);
  }

  /**
   * @param {number} tabId
   * @param {string | null} session null: unowned
   */
  give(tabId, session) {
    if (session === null) this.#owners.delete(tabId);
    else this.#owners.set(tabId, session);
    this.#reckon();
  }

  /** @param {string} session */
  groupOf(session) {
    return this.#groups.get(session);
  }

  /**
   * @param {string} session
   * @param {number} groupId
   */
  setGroup(session, groupId) {
    this.#groups.set(session, groupId);
    this.#save();
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    const owner = this.ownerOf(from);
    this.#owners.delete(from);
    if (owner !== null) this.give(to, owner);
  }

  /** These sessions, and no others, are named by a bridge now. @param {Set<string>} sessions */
  named(sessions) {
    this.#named = sessions;
    this.#reckon();
  }

  /**
   * Release the tabs of sessions that no client has named for a minute.
   *
   * @param {number} now ms since the epoch
   * @returns {number[]} the released tabs
   */
  expire(now) {
    const gone = [...this.#unnamed].filter(([, since]) => now - since >= UNNAMED_MS).map(([session]) => session);
    const released = gone.flatMap((session) => this.release(session));
    this.#reckon();
    return released;
  }

  /** A session has ended. @param {string} session @returns {number[]} the tabs that were its own */
  release(session) {
    const tabs = this.tabsOf(session);
    for (const tabId of tabs) this.#owners.delete(tabId);
    this.#groups.delete(session);
    this.#reckon();
    return tabs;
  }

  #reckon() {
    const owning = new Set(this.#owners.values());
    for (const session of this.#unnamed.keys()) {
      if (this.#named.has(session) || !owning.has(session)) this.#unnamed.delete(session);
    }
    for (const session of owning) {
      if (!this.#named.has(session) && !this.#unnamed.has(session)) this.#unnamed.set(session, Date.now());
    }
    this.#save();
    this.#wind();
  }

  #wind() {
    if (this.#unnamed.size === 0) return void chrome.alarms.clear(UNNAMED_ALARM);
    void chrome.alarms.create(UNNAMED_ALARM, { when: Math.min(...this.#unnamed.values()) + UNNAMED_MS });
  }

  #save() {
    const kept = { owners: [...this.#owners], groups: [...this.#groups], unnamed: [...this.#unnamed] };
    void chrome.storage.session.set({ [KEY]: kept });
  }
}
