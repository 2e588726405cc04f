/**
 * Which origins may offer tools and be opened: `allowedOrigins` in managed storage (an administrator's) or else in
 * local storage. Entries are site patterns (site_patterns.js), or `*`. Absent: all.
 */

import { isFirefox } from "./firefox.js";
import { canonical, matches } from "./site_patterns.js";

const KEY = "allowedOrigins";

export class Origins {
  /** @type {string[] | null} */
  #allowed = null;

  async load() {
    const [managed, local] = await Promise.all([administrators(), chrome.storage.local.get(KEY)]);
    const allowed = managed[KEY] ?? local[KEY];
    this.#allowed = Array.isArray(allowed) ? allowed.map((pattern) => canonical(String(pattern))) : null;
  }

  /** @param {string} origin as the browser reports it */
  allow(origin) {
    return this.#allowed === null || this.#allowed.some((pattern) => matches(pattern, origin));
  }
}

/** @returns {Promise<{ [key: string]: unknown }>} */
async function administrators() {
  try {
    return await chrome.storage.managed.get(KEY);
  } catch (error) {
    // To Firefox it is an error that no administrator has said anything. After any other, nothing may be offered.
    if (isFirefox && error instanceof Error && /manifest not found/i.test(error.message)) return {};
    throw error;
  }
}
