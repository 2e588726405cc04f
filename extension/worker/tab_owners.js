/**
 * Owners of tabs: the session that opened each, and the tab groups of sessions. Kept in `chrome.storage.session`. A
 * session that no bridge names for a minute has ended; an alarm measures the minute, since the worker may sleep.
 */

/**
 * @typedef {"never" | "unused" | "ask" | "always"} Closing which tabs are closed when their session has ended
 * @typedef {{ closing: Closing, client: string, groupKey: string }} Terms of a session: `client`: what users know it by;
 *   `groupKey`: the same for sessions that use one tab group after the other; empty: for none
 * @typedef {{ tabId: number, groupId: number }} ReleasedTab `groupId`: the group that it was put into
 */

const KEY = "owners";
export const UNNAMED_ALARM = "unnamed-sessions";
const UNNAMED_MS = 60_000;
/** @type {number} */
const NO_GROUP = chrome.tabGroups.TAB_GROUP_ID_NONE;
/** @type {Terms} */
const NO_TERMS = { closing: "never", client: "", groupKey: "" };

export class TabOwners {
  /** @type {Map<number, string>} */
  #owners = new Map();
  /** @type {Map<string, number>} session → tab group */
  #groups = new Map();
  /** @type {Map<number, number>} tab → the group that it was put into */
  #grouped = new Map();
  /** @type {Map<string, Terms>} by session */
  #terms = new Map();
  /** @type {Map<string, number>} group key → the tab group that was last used under it */
  #lastGroups = new Map();
  /** @type {Map<string, number>} session → time since which no client names it (ms since the epoch) */
  #unnamed = new Map();
  /** @type {Set<string>} */
  #named = new Set();

  /** Read the owners that an earlier worker has kept. */
  async load() {
    const stored = /** @type {any} */ ((await chrome.storage.session.get(KEY))[KEY]) ?? {};
    this.#owners = new Map(stored.owners);
    this.#groups = new Map(stored.groups);
    this.#grouped = new Map(stored.grouped);
    this.#terms = new Map(stored.terms);
    this.#lastGroups = new Map(stored.lastGroups);
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
    this.#grouped.delete(tabId);
    this.#reckon();
  }

  /** @param {string} session */
  termsOf(session) {
    return this.#terms.get(session) ?? NO_TERMS;
  }

  /** @param {string} session @param {Terms} terms */
  setTerms(session, terms) {
    this.#terms.set(session, terms);
    this.#save();
  }

  /**
   * The tab group of a session: its own, else that of an earlier session with the same key, unless a session uses it
   * that has not ended.
   *
   * @param {string} session
   */
  groupOf(session) {
    const own = this.#groups.get(session);
    if (own !== undefined) return own;
    const earlier = this.#lastGroups.get(this.termsOf(session).groupKey);
    const isUsed = [...this.#groups].some(([other, groupId]) => groupId === earlier && this.#named.has(other));
    return isUsed ? undefined : earlier;
  }

  /**
   * A tab of a session was put into its group.
   *
   * @param {number} tabId
   * @param {string} session
   * @param {number} groupId
   */
  setGroup(tabId, session, groupId) {
    this.#groups.set(session, groupId);
    this.#grouped.set(tabId, groupId);
    const { groupKey } = this.termsOf(session);
    if (groupKey) this.#lastGroups.set(groupKey, groupId);
    this.#save();
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    const [owner, groupId] = [this.ownerOf(from), this.#grouped.get(from)];
    this.#owners.delete(from);
    this.#grouped.delete(from);
    if (owner !== null) this.give(to, owner);
    if (groupId !== undefined) this.#grouped.set(to, groupId);
  }

  /** These sessions, and no others, are named by a bridge now. @param {Set<string>} sessions */
  named(sessions) {
    this.#named = sessions;
    this.#reckon();
  }

  /**
   * The sessions that own tabs and that no client has named for a minute.
   *
   * @param {number} now ms since the epoch
   * @returns {string[]}
   */
  expired(now) {
    return [...this.#unnamed].filter(([, since]) => now - since >= UNNAMED_MS).map(([session]) => session);
  }

  /** A session has ended. @param {string} session @returns {ReleasedTab[]} the tabs that were its own */
  release(session) {
    const released = this.tabsOf(session).map((tabId) => ({ tabId, groupId: this.#grouped.get(tabId) ?? NO_GROUP }));
    for (const { tabId } of released) {
      this.#owners.delete(tabId);
      this.#grouped.delete(tabId);
    }
    this.#groups.delete(session);
    this.#terms.delete(session);
    this.#reckon();
    return released;
  }

  /** Note since when no bridge names a session that owns tabs. */
  #reckon() {
    const owning = new Set(this.#owners.values());
    for (const session of this.#unnamed.keys()) {
      if (this.#named.has(session) || !owning.has(session)) this.#unnamed.delete(session);
    }
    for (const session of owning) {
      if (!this.#named.has(session) && !this.#unnamed.has(session)) this.#unnamed.set(session, Date.now());
    }
    for (const session of [...this.#terms.keys(), ...this.#groups.keys()]) {
      if (this.#named.has(session) || owning.has(session)) continue;
      this.#terms.delete(session);
      this.#groups.delete(session);
    }
    this.#save();
    this.#wind();
  }

  /** Set the alarm for the first of these sessions to expire. */
  #wind() {
    if (this.#unnamed.size === 0) return void chrome.alarms.clear(UNNAMED_ALARM);
    void chrome.alarms.create(UNNAMED_ALARM, { when: Math.min(...this.#unnamed.values()) + UNNAMED_MS });
  }

  /** Keep the owners for a later worker. */
  #save() {
    const kept = {
      ...{ owners: [...this.#owners], groups: [...this.#groups], grouped: [...this.#grouped] },
      ...{ terms: [...this.#terms], lastGroups: [...this.#lastGroups], unnamed: [...this.#unnamed] },
    };
    void chrome.storage.session.set({ [KEY]: kept });
  }
}
