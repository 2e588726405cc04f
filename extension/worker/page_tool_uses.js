/**
 * The user's setting for page tools of each site in the popup: on, ask or off. Stored in the profile. For sites without
 * a setting the bridges decide.
 */

import { canonical, isOrigin } from "./site_patterns.js";
import { invalid } from "./params.js";
import { notification } from "./wire.js";

/**
 * @import { Audience, Link } from "./audience.js"
 * @typedef {"on" | "ask" | "off"} Use
 */

const KEY = "pageTools";
/** @type {readonly string[]} */
const USES = ["on", "ask", "off"];

export class PageToolUses {
  /** By origin, in canonical form. @type {Map<string, Use>} */
  #uses = new Map();

  /**
   * @param {Audience} audience
   * @param {() => void} changed
   */
  constructor(audience, changed) {
    this.audience = audience;
    this.changed = changed;
  }

  /** Read the stored settings. */
  async load() {
    const stored = (await chrome.storage.local.get(KEY))[KEY] ?? {};
    this.#uses = new Map(Object.entries(/** @type {Record<string, Use>} */ (stored)));
  }

  /** @param {string} origin @returns {Use | ""} empty: the user has set nothing */
  of(origin) {
    return this.#uses.get(canonical(origin)) ?? "";
  }

  /**
   * @param {string} origin
   * @param {string} use empty: nothing is set any more
   * @throws {import("./wire.js").WireError} the origin has no page of its own, or the value does not exist
   */
  set(origin, use) {
    if (!isOrigin(origin)) throw invalid(`${origin} is not a site; write its origin, as https://bank.example.`);
    if (use !== "" && !USES.includes(use)) throw invalid(`${use} is not one of on, ask, off.`);
    if (use === "") this.#uses.delete(canonical(origin));
    else this.#uses.set(canonical(origin), /** @type {Use} */ (use));
    void chrome.storage.local.set({ [KEY]: this.#all });
    this.audience.post(this.#announcement);
    this.changed();
  }

  /** Send what is set to a new connection. @param {Link} link */
  announceTo(link) {
    link.post(this.#announcement);
  }

  /** The settings, as storage and wire have them. */
  get #all() {
    return Object.fromEntries(this.#uses);
  }

  /** The message with all settings. */
  get #announcement() {
    return notification("browser/pageTools", { sites: this.#all });
  }
}
