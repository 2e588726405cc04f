/**
 * Which origins may offer tools and be opened: `allowedOrigins` in managed storage (an administrator's) or else in
 * local storage (the user's, set in the popup). Entries are site patterns (site_patterns.js), or `*`. Absent: all.
 */

import { isFirefox } from "./firefox.js";
import { canonical, matches } from "./site_patterns.js";

export const ALLOWED_ORIGINS = "allowedOrigins";

export class Origins {
  /** @type {string[] | null} */
  #allowed = null;
  /** Whether an administrator has set the list: the user's list does not count. */
  isManaged = false;

  /** Read the list that counts. */
  async load() {
    const [managed, local] = await Promise.all([administrators(), chrome.storage.local.get(ALLOWED_ORIGINS)]);
    this.isManaged = managed[ALLOWED_ORIGINS] !== undefined;
    const allowed = managed[ALLOWED_ORIGINS] ?? local[ALLOWED_ORIGINS];
    this.#allowed = Array.isArray(allowed) ? allowed.map((pattern) => canonical(String(pattern))) : null;
  }

  /** The list; null: all origins. */
  get patterns() {
    return this.#allowed;
  }

  /** @param {string} origin as the browser reports it */
  allow(origin) {
    return this.#allowed === null || this.#allowed.some((pattern) => matches(pattern, origin));
  }
}

/** @returns {Promise<{ [key: string]: unknown }>} */
async function administrators() {
  try {
    return await chrome.storage.managed.get(ALLOWED_ORIGINS);
  } catch (error) {
    // To Firefox it is an error that no administrator has said anything. After any other, nothing may be offered.
    if (isFirefox && error instanceof Error && /manifest not found/i.test(error.message)) return {};
    throw error;
  }
}

/**
 * Store the user's list; an empty one allows all origins again.
 *
 * @param {string[]} patterns valid ones
 */
export async function storePatterns(patterns) {
  if (patterns.length === 0) return chrome.storage.local.remove(ALLOWED_ORIGINS);
  return chrome.storage.local.set({ [ALLOWED_ORIGINS]: patterns });
}
