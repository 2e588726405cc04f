/**
 * Numbers of tabs, counted from 1 in this profile: clients name a tab by its number, in every session by the same.
 * A tab gets its number with its first page, or when it is a client's. None is assigned twice while the browser
 * runs. After `load` nothing here waits, so that assignments never overlap.
 */

import { isFirefox } from "./firefox.js";

const KEY = "tabNumbers";
const PAGE = /^(https?|file):/;

/** @typedef {{ next: number, numbers: [number, number][] }} Stored `numbers`: tab ids with their numbers */

export class TabNumbers {
  #next = 1;
  /** Tab id → its number. @type {Map<number, number>} */
  #numbers = new Map();
  #isSaving = false;

  /** Read the numbers that an earlier worker has kept. */
  async load() {
    const stored = /** @type {Stored | undefined} */ ((await chrome.storage.session.get(KEY))[KEY]);
    const { next, numbers } = stored ?? (await storedBefore());
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
}

/**
 * The numbers from before this extension was reloaded, which ends its session storage. Chromium does not use a tab id
 * again after its own restart: where none of the tabs exists, the browser has been restarted, and counting begins anew.
 * Firefox counts its tab ids from 1 at each start, so that these say nothing.
 *
 * @returns {Promise<Stored>}
 */
async function storedBefore() {
  const none = { next: 1, numbers: [] };
  if (isFirefox) return none;
  const stored = /** @type {Stored | undefined} */ ((await chrome.storage.local.get(KEY))[KEY]);
  const open = new Set((await chrome.tabs.query({})).map((tab) => tab.id));
  return stored?.numbers.some(([tabId]) => open.has(tabId)) ? stored : none;
}
