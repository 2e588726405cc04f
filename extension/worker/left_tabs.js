/** Tabs that ended sessions have left open, for the popup, until the user closes or keeps them. */

import { isLastTab } from "./session_ends.js";

/**
 * @import { Handovers } from "./handovers.js"
 * @import { TabOwners } from "./tab_owners.js"
 * @typedef {{ client: string, asks: boolean }} Left `asks`: the user is asked whether to close it
 * @typedef {{ client: string, tabs: number }} LeftByClient
 */

const KEY = "left";

export class LeftTabs {
  /** @type {Map<number, Left>} */
  #tabs = new Map();

  /**
   * @param {TabOwners} owners
   * @param {Handovers} handovers
   * @param {() => void} changed
   */
  constructor(owners, handovers, changed) {
    this.owners = owners;
    this.handovers = handovers;
    this.changed = changed;
  }

  /** Read the tabs that an earlier worker has kept. */
  async load() {
    const stored = /** @type {[number, Left][] | undefined} */ ((await chrome.storage.session.get(KEY))[KEY]);
    this.#tabs = new Map(stored);
  }

  /** Number of tabs about which the user is asked. */
  get asking() {
    return this.#left().filter(([, { asks }]) => asks).length;
  }

  /** @returns {LeftByClient[]} */
  get byClient() {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const [, { client }] of this.#left()) counts.set(client, (counts.get(client) ?? 0) + 1);
    return [...counts].map(([client, tabs]) => ({ client, tabs }));
  }

  /** @param {number[]} tabIds @param {Left} left */
  add(tabIds, left) {
    if (tabIds.length === 0) return;
    for (const tabId of tabIds) this.#tabs.set(tabId, left);
    this.#save();
  }

  /** @param {number} tabId */
  removed(tabId) {
    if (this.#tabs.delete(tabId)) this.#save();
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    const left = this.#tabs.get(from);
    if (left) this.#tabs.set(to, left);
    this.removed(from);
  }

  /** The user wants the tabs of a client no more. The browser asks before it leaves a page with unsaved changes. @param {string} client */
  async close(client) {
    for (const tabId of this.#of(client))
      if (!(await isLastTab(tabId))) await chrome.tabs.remove(tabId).catch(() => {}); // it is gone
  }

  /** The user keeps the tabs of a client. @param {string} client */
  keep(client) {
    for (const tabId of this.#of(client)) this.#tabs.delete(tabId);
    this.#save();
  }

  /** @param {string} client */
  #of(client) {
    return this.#left().flatMap(([tabId, left]) => (left.client === client ? [tabId] : []));
  }

  /** Without those that a client may use again. */
  #left() {
    return [...this.#tabs].filter(([tabId]) => this.owners.ownerOf(tabId) === null && !this.handovers.has(tabId));
  }

  /** Keep them for a later worker. */
  #save() {
    void chrome.storage.session.set({ [KEY]: [...this.#tabs] });
    this.changed();
  }
}
