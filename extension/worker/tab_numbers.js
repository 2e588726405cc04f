/**
 * Numbers of tabs within their domain, counted from 1, for the public names of tools. Kept in `chrome.storage.session`,
 * so that a restarted worker assigns the same ones; none is assigned twice while the browser runs. After `load` nothing
 * here waits, so that assignments never overlap.
 */

const KEY = "ordinals";
/** Schemes whose pages have a domain to count in. */
const COUNTED = new Set(["http:", "https:"]);

/** @typedef {{ next: number, tabs: Map<number, number> }} Domain `tabs`: tab id → its number */

export class Ordinals {
  /** A Map: pages choose these names, and `constructor` is a host, too. @type {Map<string, Domain>} */
  #domains = new Map();

  async load() {
    const stored = /** @type {any} */ ((await chrome.storage.session.get(KEY))[KEY]) ?? [];
    this.#domains = new Map(
      stored.map((/** @type {any} */ [domain, next, tabs]) => [domain, { next, tabs: new Map(tabs) }]),
    );
  }

  /**
   * The tab's number in the domain of its URL; 0 where there is no domain.
   *
   * @param {number} tabId
   * @param {string} url
   */
  of(tabId, url) {
    const name = domainOf(url);
    if (!name) return 0;
    const domain = this.#domains.get(name) ?? { next: 1, tabs: new Map() };
    this.#domains.set(name, domain);
    return domain.tabs.get(tabId) ?? this.#mint(domain, tabId);
  }

  /** A tab is gone; its numbers stay taken. @param {number} tabId */
  forget(tabId) {
    for (const { tabs } of this.#domains.values()) tabs.delete(tabId);
    this.#save();
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    for (const { tabs } of this.#domains.values()) {
      const ordinal = tabs.get(from);
      if (ordinal !== undefined) tabs.set(to, ordinal);
      tabs.delete(from);
    }
    this.#save();
  }

  /**
   * @param {Domain} domain
   * @param {number} tabId
   */
  #mint(domain, tabId) {
    const ordinal = domain.next;
    domain.next += 1;
    domain.tabs.set(tabId, ordinal);
    queueMicrotask(() => this.#save());
    return ordinal;
  }

  #save() {
    const kept = [...this.#domains].map(([name, { next, tabs }]) => [name, next, [...tabs]]);
    void chrome.storage.session.set({ [KEY]: kept });
  }
}

/** Host, and port where it is not the scheme's own. @param {string} url */
function domainOf(url) {
  const parsed = URL.parse(url);
  return parsed && COUNTED.has(parsed.protocol) ? parsed.host : "";
}
