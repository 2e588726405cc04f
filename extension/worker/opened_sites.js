/**
 * Origins that the user has opened as top-level pages in this profile: tools of these origins are also listed in frames
 * of other sites. The record is bounded, holds no addresses and no times, and never leaves the profile's storage.
 */

import { canonical, isOrigin } from "./site_patterns.js";

const KEY = "openedSites";
/** Of origins; those opened longest ago leave. */
const MOST_SITES = 1000;
/** So many of the latest may change their order before that is stored. */
const RECENT_SITES = 100;

export class OpenedSites {
  /** In canonical form, the latest last. @type {Set<string>} */
  #origins = new Set();

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  /** Read the stored record. */
  async load() {
    this.#origins = new Set(/** @type {string[]} */ ((await chrome.storage.local.get(KEY))[KEY]) ?? []);
  }

  /** @param {string} origin */
  has(origin) {
    return this.#origins.has(canonical(origin));
  }

  /** The user has opened a page of this origin. @param {string} origin */
  add(origin) {
    const site = canonical(origin);
    if (!isOrigin(site) || this.#isRecent(site)) return;
    const isNew = !this.#origins.delete(site);
    this.#origins.add(site);
    const [oldest] = this.#origins;
    if (oldest !== undefined && this.#origins.size > MOST_SITES) this.#origins.delete(oldest);
    void chrome.storage.local.set({ [KEY]: [...this.#origins] });
    if (isNew) this.changed();
  }

  /** @param {string} site */
  #isRecent(site) {
    return this.#origins.has(site) && [...this.#origins].slice(-RECENT_SITES).includes(site);
  }
}
