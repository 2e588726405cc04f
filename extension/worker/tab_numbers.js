/**
 * Numbers of tabs, counted from 1 in this profile: clients name a tab by its number, in every session by the same.
 * A tab gets its number with its first page, or when it is a client's. None is assigned twice while the browser
 * runs. After `load` nothing here waits, so that assignments never overlap.
 */

import { isFirefox } from "./firefox.js";

const KEY = "tabNumbers";
const PAGE = /^(https?|file):/;
/** For the event of the browser's start, which follows the worker's start (measured in Chromium 150: 20 to 100 ms). */
const STARTUP_MS = 500;

/** @typedef {{ next: number, numbers: [number, number][] }} Stored `numbers`: tab ids with their numbers */

export class TabNumbers {
  /**
   * The browser has just started, so that numbers of an earlier run are void. An extension that the browser loads from
   * its command line is installed at each start.
   *
   * @type {Promise<Stored>}
   */
  #startup = new Promise((resolve) => {
    const begin = () => resolve({ next: 1, numbers: [] });
    chrome.runtime.onStartup.addListener(begin);
    chrome.runtime.onInstalled.addListener(({ reason }) => reason === "install" && begin());
  });
  #next = 1;
  /** Tab id → its number. @type {Map<number, number>} */
  #numbers = new Map();
  #isSaving = false;

  /** Read the numbers that an earlier worker has kept. */
  async load() {
    const stored = /** @type {Stored | undefined} */ ((await chrome.storage.session.get(KEY))[KEY]);
    const { next, numbers } = stored ?? (await this.#storedBefore());
    this.#next = next;
    this.#numbers = new Map(numbers);
    this.#save();
  }

  /**
   * The number of a tab; 0: it has none, as each private tab.
   *
   * @param {chrome.tabs.Tab} tab
   * @param {boolean} isClients whether a client may use it whatever it shows
   */
  of({ id = chrome.tabs.TAB_ID_NONE, url = "", incognito }, isClients) {
    if (incognito) return 0;
    return this.#numbers.get(id) ?? (isClients || PAGE.test(url) ? this.#assign(id) : 0);
  }

  /** A tab is gone; its number stays taken. @param {number} tabId */
  forget(tabId) {
    if (this.#numbers.delete(tabId)) this.#save();
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    const number = this.#numbers.get(from);
    if (number === undefined) return;
    this.#numbers.delete(from);
    this.#numbers.set(to, number);
    this.#save();
  }

  /** @param {number} tabId */
  #assign(tabId) {
    const number = this.#next;
    this.#next += 1;
    this.#numbers.set(tabId, number);
    this.#save();
    return number;
  }

  /** Keep the numbers for a later worker. */
  #save() {
    if (this.#isSaving) return;
    this.#isSaving = true;
    queueMicrotask(() => {
      this.#isSaving = false;
      const stored = { [KEY]: { next: this.#next, numbers: [...this.#numbers] } };
      void chrome.storage.session.set(stored);
      void chrome.storage.local.set(stored);
    });
  }

  /**
   * The numbers from before this extension was off or reloaded, which ends its session storage. Counting begins anew
   * only with the browser. Chromium does not use a tab id again after its own restart: if one of these tabs is open, the
   * browser still runs. Firefox counts its tab ids from 1 at each start: there no tab keeps its number.
   *
   * @returns {Promise<Stored>}
   */
  async #storedBefore() {
    const stored = /** @type {Stored | undefined} */ ((await chrome.storage.local.get(KEY))[KEY]);
    if (!stored) return { next: 1, numbers: [] };
    const open = new Set(isFirefox ? [] : (await chrome.tabs.query({})).map((tab) => tab.id));
    const kept = { next: stored.next, numbers: stored.numbers.filter(([tabId]) => open.has(tabId)) };
    if (kept.numbers.length > 0) return kept;
    return Promise.race([this.#startup, new Promise((resolve) => setTimeout(() => resolve(kept), STARTUP_MS))]);
  }
}
