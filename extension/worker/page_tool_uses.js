/**
 * The user's setting for page tools of each site in the popup: on, ask or off. Stored in the profile. For sites without
 * a setting the bridges decide.
 */

import { canonical, isOrigin } from "./site_patterns.js";
import { invalid } from "./params.js";
import { notification } from "./wire.js";

/**
 * @import { Link } from "./host_connection.js"
 * @typedef {"on" | "ask" | "off"} Use
 */

const KEY = "pageTools";
/** @type {readonly string[]} */
const USES = ["on", "ask", "off"];

export class PageToolUses {
  /** By origin, in canonical form. @type {Map<string, Use>} */
  #uses = new Map();
  /** @type {Link | null} */
  #link = null;

  /** @param {() => void} changed */
  constructor(changed) {
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
    this.#announce();
    this.changed();
  }

  /** Tell a link what is set; only then do changes follow. @param {Link} link */
  announceAll(link) {
    this.#link = link;
    this.#announce();
  }

  /** The settings, as storage and wire have them. */
  get #all() {
    return Object.fromEntries(this.#uses);
  }

  /** Send the settings to the host. */
  #announce() {
    this.#link?.post(notification("browser/pageTools", { sites: this.#all }));
  }
}
