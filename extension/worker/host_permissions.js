/**
 * Sites into which the browser lets the extension. The user withdraws access on the extension's details page ("on
 * click", "on specific sites") and gives it again; the debugger would go on without it, so each command asks here.
 */

import { canonical } from "./site_patterns.js";
import { Code, WireError } from "./wire.js";

const EVERYWHERE = "<all_urls>";
export const ALL_SITES = { origins: [EVERYWHERE] };

export class SiteAccess {
  /** Match patterns that are granted. @type {Set<string>} */
  #granted = new Set();

  /** @param {() => void} changed called when it may have; `load` comes before the first question */
  constructor(changed) {
    chrome.permissions.onAdded.addListener(() => void this.load().then(changed));
    chrome.permissions.onRemoved.addListener(({ origins = [] }) => {
      for (const pattern of origins) this.#granted.delete(pattern); // at once: reading them anew takes a moment
      changed();
      void this.load().then(changed);
    });
  }

  /** Read the match patterns that are granted now. */
  async load() {
    this.#granted = new Set((await chrome.permissions.getAll()).origins);
  }

  /** Whether the extension may use all sites. False: on some sites, or on all, no page's tools are found. */
  get isEverywhere() {
    return this.#granted.has(EVERYWHERE);
  }

  /** Whether the extension may use an address; an address outside of the web has no site. @param {string} url */
  has(url) {
    const site = URL.parse(url);
    if (this.isEverywhere || !site || !isWeb(site)) return true;
    return [...this.#granted].some((pattern) => matches(pattern, site));
  }

  /** @param {string} url @throws {WireError} the user has withdrawn the access to it */
  check(url) {
    if (!this.has(url)) throw noAccess(URL.parse(url)?.origin ?? url, { handed: false });
  }
}

/**
 * @param {string} origin
 * @param {{ handed: boolean }} reach
 */
export function noAccess(origin, reach) {
  const what = `The browser does not let mcpb into ${origin}: the user gives access to sites on the extensions page.`;
  return new WireError(Code.NOT_ALLOWED, what, reach);
}

/** @param {URL} url */
function isWeb({ protocol }) {
  return protocol === "http:" || protocol === "https:";
}

/**
 * Whether a match pattern includes an address. Permissions are given to hosts: paths do not matter.
 *
 * @param {string} pattern
 * @param {URL} url of the web
 */
function matches(pattern, { protocol, origin }) {
  const [, scheme, host, port] = /^(\*|https?):\/\/([^/]*?)(:\d+)?\//.exec(pattern) ?? [];
  if (scheme === undefined || (scheme !== "*" && `${scheme}:` !== protocol)) return false;
  const site = new URL(canonical(origin));
  if (port !== undefined && port !== `:${site.port}`) return false;
  if (host === "*") return true;
  if (!host?.startsWith("*.")) return host === site.hostname;
  return `.${site.hostname}`.endsWith(host.slice(1));
}
