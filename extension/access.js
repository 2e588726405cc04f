/** Which tab a request means, and whether its session may command it and what it shows. */

import { integer, invalid, optionalText } from "./params.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Browser } from "./commands.js"
 * @import { Tab } from "./wire.js"
 */

/**
 * The tab that a request names, if it exists.
 *
 * @param {Browser} browser
 * @param {any} params
 */
export async function present({ tabs }, params) {
  const tabId = integer(params, "tabId");
  const tab = await tabs.refresh(tabId);
  if (!tab) throw noSuchTab(tabId, { handed: false });
  return tab;
}

/**
 * @param {number} tabId
 * @param {{ handed: boolean }} reach
 */
export function noSuchTab(tabId, { handed }) {
  return new WireError(Code.NO_SUCH_TAB, `There is no tab ${tabId}.`, { handed });
}

/**
 * The tab that a request names, if its session may command it. A request without a session may command any.
 *
 * @param {Browser} browser
 * @param {any} params
 */
export async function mine(browser, params) {
  const tab = await present(browser, params);
  checkOwner(tab, optionalText(params, "session"));
  return tab;
}

/**
 * @param {Tab} tab
 * @param {string} session empty: it may command any tab
 */
export function checkOwner(tab, session) {
  if (!session || tab.owner === session || (tab.owner === null && tab.handedOver)) return;
  const whose = tab.owner === null ? "was not handed over to this session" : "belongs to another session";
  throw new WireError(Code.NOT_YOURS, `Tab ${tab.tabId} ${whose}. Open a tab of your own with createTab.`, {
    handed: false,
  });
}

/**
 * @param {Browser} browser
 * @param {string} url
 */
export function checkUrl({ origins, pauses }, url) {
  const parsed = URL.parse(url);
  if (!parsed) throw invalid(`${url} is not a complete URL; write it with its scheme, as https://example.com/.`);
  pauses.checkSite(parsed.origin);
  if (parsed.href === "about:blank" || origins.allow(parsed.origin)) return;
  throw new WireError(Code.NOT_ALLOWED, `The extension's list of allowed origins does not name ${parsed.origin}.`, {
    handed: false,
  });
}

/**
 * A page, or a frame, is asked of: may it be? Of what has no address yet nothing is known.
 *
 * @param {Browser} browser
 * @param {string} url
 */
export function checkShown(browser, url) {
  if (url) checkUrl(browser, url);
}

/** @param {Browser} browser @param {string} url */
export function mayShow(browser, url) {
  try {
    checkShown(browser, url);
    return true;
  } catch {
    return false;
  }
}
