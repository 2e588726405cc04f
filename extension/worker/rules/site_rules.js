/**
 * Site rules of sessions, enforced in tabs that sessions use: by the browser's network stack and before each command.
 *
 * A bridge sends the rules of its sessions (`browser/siteRules`). They hold in tabs that a session owns, in tabs of the
 * user that it has commanded, and in tabs that pages of those open. Rules end with the release of the tab. State is
 * kept in `chrome.storage.session`, as long as the browser keeps its own session rules.
 */

import { existing } from "../tabs.js";
import { matches } from "../site_patterns.js";
import { Code, WireError } from "../wire.js";
import { commonList, networkRules, usingSessions } from "./network_rules.js";
import { patternFor } from "./origin_patterns.js";

/**
 * @import { TabOwners } from "../tab_owners.js"
 * @import { Pauses } from "../pauses.js"
 * @import { Client } from "../wire.js"
 * @import { Limits, Situation } from "./network_rules.js"
 * @typedef {Limits & { connection: string }} Rules
 * @typedef {{ origin: string, rule: string, sessions: string[] }} Blocked a page that a tab was kept from
 */

const KEY = "siteRules";
const NO_RULES = "[]";
const NO_TAB = chrome.tabs.TAB_ID_NONE;
/** Chromium's own extension that shows PDF files: its frame in a tab has this host. */
const PDF_VIEWER = "mhjfbmdgcfjbbpaeojofohoefgiehjai";

export class SiteRules {
  /** @type {Map<string, Rules>} session → its rules */
  #sessions = new Map();
  /** Tabs that sessions use without owning them. @type {Map<number, Set<string>>} */
  #used = new Map();
  /** Tabs that belong to the user alone. @type {Set<number>} */
  #userTabs = new Set();
  /** @type {Map<string, Set<string>>} session → hosts that its tabs have shown */
  #hosts = new Map();
  /** Sessions for which a tab is being opened, as often as that is so. @type {string[]} */
  #opening = [];
  /** New tabs that are not settled, with the sessions whose pages may have opened them. @type {Map<number, Set<string>>} */
  #begun = new Map();
  /** New tabs that show nothing yet: a request may have been stopped before they were known. @type {Set<number>} */
  #fresh = new Set();
  /** Tabs that clients have sent away from what they show, until another document is there. @type {Set<number>} */
  #sentAway = new Set();
  /** Tabs in which a client's navigation is being started, as often as that is so. @type {number[]} */
  #starting = [];
  /** Connections of bridges that are there. @type {Set<string>} */
  #connections = new Set();
  /** Tabs for which the rules in force were made. @type {Set<number>} */
  #clientTabs = new Set();
  /** @type {Map<number, Blocked>} */
  #blocked = new Map();
  /** The rules in force, as JSON. */
  #applied = NO_RULES;
  /** @type {Promise<void>} the latest change of rules */
  #applying = Promise.resolve();

  /** @type {(loaded: void) => void} */
  #hasLoaded;
  /** What the browser reports earlier waits until what is kept is known. */
  #loaded;

  /**
   * @param {TabOwners} owners
   * @param {Pauses} pauses
   * @param {() => void} changed what `blockedIn` returns has changed
   */
  constructor(owners, pauses, changed) {
    this.owners = owners;
    this.pauses = pauses;
    this.changed = changed;
    const { promise, resolve } = Promise.withResolvers();
    this.#loaded = promise;
    this.#hasLoaded = resolve;
  }

  /** Read what an earlier worker has kept, and the rules in force. */
  async load() {
    const [{ [KEY]: stored }, rules, tabs] = await Promise.all([
      chrome.storage.session.get(KEY),
      chrome.declarativeNetRequest.getSessionRules(),
      chrome.tabs.query({}),
    ]);
    this.#applied = JSON.stringify(rules);
    const kept = /** @type {any} */ (stored) ?? {};
    const existing = new Set(tabs.map(({ id }) => id));
    this.#sessions = new Map(kept.sessions);
    this.#used = mapOfSets(kept.used);
    this.#hosts = mapOfSets(kept.hosts);
    this.#userTabs = new Set((kept.userTabs ?? []).filter((/** @type {number} */ tabId) => existing.has(tabId)));
    this.#clientTabs = new Set(kept.clientTabs);
    this.#hasLoaded();
  }

  // ── From bridges ──────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Replace the rules of a connection's sessions; returns when they are in force.
   *
   * @param {string} connection
   * @param {{ session: string, deny: string[], allow: string[] | null }[]} rules
   */
  async setRules(connection, rules) {
    this.#connections.add(connection);
    for (const ended of this.#sessions.values()) if (ended.connection === connection) ended.connection = "";
    for (const { session, deny, allow } of rules) this.#sessions.set(session, { connection, deny, allow });
    await this.#apply();
  }

  /** Connections may have ended: their sessions' rules go, unless those own tabs. @param {Client[]} clients */
  setClients(clients) {
    this.#connections = new Set(clients.map(({ connection }) => connection));
    void this.#apply();
  }

  /**
   * Return whose rules hold for a request: its session's, else those of all sessions of its connection.
   *
   * @param {string} session empty: the request has none
   * @param {string} connection of the client
   */
  sessionsOf(session, connection) {
    if (session) return [session];
    return [...this.#sessions].filter(([, { connection: by }]) => by === connection).map(([id]) => id);
  }

  /**
   * @param {string[]} sessions
   * @param {string} origin as the browser reports it
   * @throws {WireError} a rule of theirs forbids it
   */
  check(sessions, origin) {
    const rule = this.#ruleAgainst(sessions, origin);
    if (!rule) return;
    throw new WireError(Code.NOT_ALLOWED, `${origin} is not allowed to this client: ${rule}.`, { handed: false });
  }

  /**
   * Note that sessions command a tab; returns when their rules are in force there.
   *
   * @param {number} tabId
   * @param {string[]} sessions
   */
  async use(tabId, sessions) {
    const users = this.#usersOf(tabId);
    const added = sessions.filter((session) => this.#sessions.has(session) && !users.has(session));
    if (added.length === 0) return this.#applying;
    this.#used.set(tabId, new Set([...(this.#used.get(tabId) ?? []), ...added]));
    await this.#learnHosts(tabId, added);
    await this.#apply();
  }

  /**
   * Open a tab for a session: its rules hold for it from its first request on.
   *
   * @template T
   * @param {string[]} sessions
   * @param {string} url that the tab shall show; empty: none
   * @param {() => Promise<T>} open
   * @returns {Promise<T>}
   */
  async whileOpening(sessions, url, open) {
    const limited = sessions.filter((session) => this.#sessions.has(session));
    if (limited.length === 0) return open();
    this.#opening.push(...limited);
    for (const session of limited) this.#addHost(session, url);
    try {
      await this.#apply();
      return await open();
    } finally {
      for (const session of limited) this.#opening.splice(this.#opening.indexOf(session), 1);
      if (this.#opening.length === 0) this.#settleBegun();
      await this.#apply();
    }
  }

  /**
   * Start a client's navigation: on the way the tab may not come back to a paused site that it shows.
   *
   * @template T
   * @param {number} tabId
   * @param {() => Promise<T>} start
   * @returns {Promise<T>}
   */
  async sendAway(tabId, start) {
    if (this.pauses.all.sites.length === 0) return start();
    this.#starting.push(tabId);
    try {
      this.#sentAway.add(tabId);
      await this.#apply();
      return await start();
    } finally {
      this.#starting.splice(this.#starting.indexOf(tabId), 1);
    }
  }

  /** A tab is no session's any more. @param {number} tabId */
  release(tabId) {
    this.#sentAway.delete(tabId);
    this.#used.delete(tabId);
    this.#blocked.delete(tabId);
    void this.#apply();
  }

  /** The ownership of tabs or the pauses have changed. @returns {Promise<void>} when the rules are in force */
  refresh() {
    return this.#apply();
  }

  /** @param {number} tabId @returns {Blocked | null} the page that the tab was kept from last */
  blockedIn(tabId) {
    return this.#blocked.get(tabId) ?? null;
  }

  // ── From the browser ──────────────────────────────────────────────────────────────────────────────────────────

  /**
   * A page has opened a tab. The browser reports this before the tab's first navigation (measured in Chromium 150).
   *
   * @param {number} tabId
   * @param {number} sourceTabId the page's
   */
  async opened(tabId, sourceTabId) {
    await this.#loaded;
    const users = this.#usersOf(sourceTabId);
    if (users.size > 0) this.#used.set(tabId, users);
    else if (this.#userTabs.has(sourceTabId)) this.#userTabs.add(tabId);
    else return;
    this.#fresh.add(tabId);
    void this.#apply();
  }

  /** @param {{ tabId: number, frameId: number, url: string }} navigation */
  async began({ tabId, frameId, url }) {
    await this.#loaded;
    const users = this.#usersOf(tabId);
    if (users.size > 0) {
      const added = [...users].map((session) => this.#addHost(session, url));
      if (added.some(Boolean)) void this.#apply();
      return;
    }
    if (frameId !== 0 || this.#userTabs.has(tabId) || this.#applied === NO_RULES) return;
    this.#fresh.add(tabId);
    this.#begun.set(tabId, await this.#openersOf(tabId, url));
    if (this.#opening.length > 0) return;
    this.#settleBegun();
    void this.#apply();
  }

  /** @param {{ tabId: number, frameId: number, url: string }} navigation */
  async committed(navigation) {
    await this.began(navigation);
    if (navigation.frameId !== 0) return;
    this.#fresh.delete(navigation.tabId);
    await this.#endSendingAway(navigation.tabId);
    if (this.#blocked.delete(navigation.tabId)) this.changed();
    if (this.pauses.all.sites.length > 0) void this.#apply();
  }

  /**
   * A page did not load. A new tab that was stopped before it was known, and that may go there, is sent there again.
   *
   * @param {{ tabId: number, frameId: number, url: string }} navigation
   */
  async failed({ tabId, frameId, url }) {
    await this.#loaded;
    const origin = URL.parse(url)?.origin;
    if (frameId !== 0 || !origin) return;
    if (await this.#endSendingAway(tabId)) void this.#apply();
    const sessions = [...this.#usersOf(tabId)];
    const rule = this.#ruleAgainst(sessions, origin) || (sessions.length > 0 && this.#pauseAgainst(origin));
    if (rule) {
      this.#blocked.set(tabId, { origin, rule, sessions });
      return this.changed();
    }
    const using = usingSessions(this.#situation());
    const mayBeOurs = this.#ruleAgainst(using, origin) || this.#pauseAgainst(origin);
    if (!mayBeOurs || !this.#fresh.delete(tabId)) return;
    await this.#apply();
    await chrome.tabs.update(tabId, { url }).catch(() => {}); // the user has closed it
  }

  /** @param {number} tabId */
  removed(tabId) {
    const all = [this.#used, this.#userTabs, this.#fresh, this.#blocked, this.#begun, this.#sentAway];
    for (const known of all) known.delete(tabId);
    void this.#apply();
  }

  /** A tab goes on under another id. @param {number} added @param {number} removed */
  replaced(added, removed) {
    const users = this.#used.get(removed);
    if (users) this.#used.set(added, users);
    if (this.#userTabs.has(removed)) this.#userTabs.add(added);
    this.removed(removed);
  }

  /**
   * A navigation of a tab has ended. Another one of a client may be on its way: it still has to stay away.
   *
   * @param {number} tabId
   * @returns {Promise<boolean>} whether the tab is no longer being sent away
   */
  async #endSendingAway(tabId) {
    if (!this.#sentAway.has(tabId)) return false;
    const tab = await chrome.tabs.get(tabId).catch(() => null);
    if (tab?.pendingUrl || this.#starting.includes(tabId)) return false;
    return this.#sentAway.delete(tabId);
  }

  // ── What follows ──────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {number} tabId @returns {Set<string>} sessions that use a tab */
  #usersOf(tabId) {
    const owner = this.owners.ownerOf(tabId);
    return new Set([...(this.#used.get(tabId) ?? []), ...(owner === null ? [] : [owner])]);
  }

  /** @param {Iterable<string>} sessions @param {string} origin @returns {string} in words for a user; "": none */
  #ruleAgainst(sessions, origin) {
    for (const session of sessions) {
      const rules = this.#sessions.get(session);
      const denied = rules && patternFor(rules.deny, origin);
      if (denied) return `policy.deny has "${denied}"`;
    }
    const list = commonList([...sessions].map((session) => this.#sessions.get(session)?.allow ?? null));
    if (!list || patternFor(list, origin) || origin === "null") return "";
    return "it is not among the sites that the user has allowed";
  }

  /** @param {string} origin */
  #pauseAgainst(origin) {
    const pattern = this.pauses.patternOf(origin);
    return pattern ? `the user has paused ${pattern}` : "";
  }

  /** Sessions without a bridge and without a tab of their own have ended. */
  #forgetEnded() {
    for (const [session, { connection }] of this.#sessions) {
      if (this.#connections.has(connection) || this.owners.tabsOf(session).length > 0) continue;
      this.#sessions.delete(session);
      this.#hosts.delete(session);
      for (const [tabId, users] of this.#used) if (users.delete(session) && users.size === 0) this.#used.delete(tabId);
    }
  }

  /** @param {string} session @param {string} url @returns {boolean} whether it is new */
  #addHost(session, url) {
    const host = URL.parse(url)?.hostname;
    const hosts = this.#hosts.get(session) ?? new Set();
    if (!host || !this.#sessions.has(session) || hosts.has(host)) return false;
    this.#hosts.set(session, hosts.add(host));
    return true;
  }

  /** @param {number} tabId @param {string[]} sessions */
  async #learnHosts(tabId, sessions) {
    const frames = (await chrome.webNavigation.getAllFrames({ tabId })) ?? [];
    for (const { url } of frames) for (const session of sessions) this.#addHost(session, url);
  }

  /**
   * The sessions whose pages may have opened a tab that the browser did not report to `opened` (seen in Chromium 150):
   * that of a page's picture-in-picture window, and those in which the PDF viewer opens links.
   *
   * @param {number} tabId
   * @param {string} url of its first navigation
   */
  async #openersOf(tabId, url) {
    if (url === "about:blank") return this.#usersOf(await pictureOpener(tabId));
    const using = URL.parse(url)?.protocol.startsWith("http") ? usingSessions(this.#situation()) : [];
    return new Set([...using].filter((session) => this.#hosts.get(session)?.has(PDF_VIEWER)));
  }

  /** Those tabs that are no session's, now that no tab is being opened, are the user's. */
  #settleBegun() {
    for (const [tabId, openers] of this.#begun) {
      if (this.#usersOf(tabId).size > 0) continue;
      if (openers.size > 0) this.#used.set(tabId, openers);
      else this.#userTabs.add(tabId);
    }
    this.#begun.clear();
  }

  /** Tabs that sessions own or use. */
  #clientTabIds() {
    return new Set([...this.owners.tabs, ...this.#used.keys()]);
  }

  /** @returns {Situation} */
  #situation() {
    return {
      sessions: this.#sessions,
      clientTabs: new Map([...this.#clientTabIds()].map((tabId) => [tabId, this.#usersOf(tabId)])),
      userTabs: this.#userTabs,
      opening: new Set(this.#opening),
      hosts: this.#hosts,
      paused: new Map(),
    };
  }

  /** Bring the rules into force, after those that are on their way. */
  #apply() {
    this.#applying = this.#applying.catch(() => {}).then(() => this.#applyNow());
    this.#applying.catch((error) => console.error(error));
    return this.#applying;
  }

  /** Make the rules from the present state and bring them into force. */
  async #applyNow() {
    const tabs = await chrome.tabs.query({});
    this.#forgetEnded();
    const clientTabs = this.#clientTabIds();
    if (this.#applied === NO_RULES) for (const { id } of tabs) if (id !== undefined) this.#userTabs.add(id);
    for (const tabId of this.#clientTabs) if (!clientTabs.has(tabId)) this.#userTabs.add(tabId);
    for (const tabId of clientTabs) this.#userTabs.delete(tabId);
    this.#clientTabs = clientTabs;
    const situation = { ...this.#situation(), paused: this.#pausedIn(tabs) };
    const rules = networkRules(situation);
    await this.#bringIntoForce(rules);
    if (rules.length === 0) this.#userTabs.clear();
    this.#save();
  }

  /** @param {chrome.declarativeNetRequest.Rule[]} rules */
  async #bringIntoForce(rules) {
    const wanted = JSON.stringify(rules);
    if (wanted === this.#applied) return;
    const present = await chrome.declarativeNetRequest.getSessionRules();
    const removeRuleIds = present.map(({ id }) => id);
    try {
      await chrome.declarativeNetRequest.updateSessionRules({ removeRuleIds, addRules: rules });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const what = `The browser rejects the rules for sites (${why}). Shorten policy.deny and policy.allow in config.toml.`;
      throw new WireError(Code.INTERNAL_ERROR, what, { handed: false });
    }
    this.#applied = wanted;
  }

  /**
   * @param {chrome.tabs.Tab[]} tabs
   * @returns {Map<string, Set<number>>} paused pattern → tabs that show it
   */
  #pausedIn(tabs) {
    // A tab that was kept from the site shows its address, too.
    const staying = tabs.filter(({ id = NO_TAB }) => !this.#sentAway.has(id) && !this.#blocked.has(id));
    const showing = (/** @type {string} */ pattern) =>
      staying.filter(({ url }) => matches(pattern, URL.parse(url ?? "")?.origin ?? ""));
    const ids = (/** @type {string} */ pattern) => new Set(showing(pattern).map(({ id }) => Number(id)));
    return new Map(this.pauses.all.sites.map((pattern) => [pattern, ids(pattern)]));
  }

  /** Keep the state for a later worker. */
  #save() {
    const [used, hosts] = [this.#used, this.#hosts].map((map) => [...map].map(([key, values]) => [key, [...values]]));
    const tabs = { clientTabs: [...this.#clientTabs], userTabs: [...this.#userTabs] };
    const kept = { sessions: [...this.#sessions], used, hosts, ...tabs };
    void chrome.storage.session.set({ [KEY]: kept });
  }
}

/**
 * The tab whose page has opened a picture-in-picture window; TAB_ID_NONE: it is no such window. A new tab of the user
 * has an opener too, the tab that was in front, but in the same window.
 *
 * @param {number} tabId
 */
async function pictureOpener(tabId) {
  const tab = await existing(tabId);
  const beside = tab ? await chrome.tabs.query({ windowId: tab.windowId }) : [];
  return (beside.length === 1 && tab?.openerTabId) || chrome.tabs.TAB_ID_NONE;
}

/**
 * @param {[any, string[]][]} [entries]
 * @returns {Map<any, Set<string>>}
 */
function mapOfSets(entries = []) {
  return new Map(entries.map(([key, values]) => [key, new Set(values)]));
}
