/** Tabs that the user handed over to clients in the popup, until they are taken back or closed. */

const KEY = "handedOver";

export class Handovers {
  /** @type {Set<number>} */
  #tabs = new Set();

  /** Read what was handed over before the worker was stopped. */
  async load() {
    this.#tabs = new Set(/** @type {number[]} */ ((await chrome.storage.session.get(KEY))[KEY]) ?? []);
  }

  /** @param {number} tabId */
  has(tabId) {
    return this.#tabs.has(tabId);
  }

  /**
   * @param {number} tabId
   * @param {boolean} handedOver false: taken back
   */
  set(tabId, handedOver) {
    if (this.has(tabId) === handedOver) return;
    if (handedOver) this.#tabs.add(tabId);
    else this.#tabs.delete(tabId);
    void chrome.storage.session.set({ [KEY]: [...this.#tabs] });
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    const handedOver = this.has(from);
    this.set(from, false);
    this.set(to, handedOver);
  }
}
