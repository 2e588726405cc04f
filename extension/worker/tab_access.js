/** Access to tabs: the tab that a request names, and whether its session may use it and see its content. */

import { integer, invalid, optionalText } from "./params.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Asked } from "./requests.js"
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
 * The tab that a request names, if its session may command it. A request without a session may command any. From now
 * on the site rules of its sessions hold in the tab.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
export async function mine(browser, params, asked) {
  const tab = await present(browser, params);
  checkOwner(tab, optionalText(params, "session"));
  await browser.siteRules.use(tab.tabId, sessionsOf(browser, params, asked));
  checkDocument(tab, optionalText(params, "documentId"));
  return tab;
}

/**
 * The sessions whose site rules hold for a request.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
export function sessionsOf({ siteRules }, params, { connection }) {
  return siteRules.sessionsOf(optionalText(params, "session"), connection);
}

/**
 * Return the caller of a request: its session, or its connection if it names none, as for a tab of all sessions.
 *
 * @param {any} params
 * @param {Asked} asked
 */
export function callerOf(params, { connection }) {
  return optionalText(params, "session") || connection;
}

/**
 * @param {Tab} tab
 * @param {string} documentId for which the client judged the command; empty: the one that is shown
 */
function checkDocument(tab, documentId) {
  if (!documentId || tab.documentId === documentId) return;
  const what = `Tab ${tab.tabId} shows another document than the one that the command is for. Look at it again.`;
  throw new WireError(Code.NAVIGATED, what, { handed: false });
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

/** Pages of extensions, ours too, and what they have made: there the APIs of an extension can be called. */
const EXTENSION_PAGE = /^((blob|filesystem|view-source):)*[a-z-]*extension:/i;

/** @param {string | undefined} url */
export function isExtensionPage(url) {
  return EXTENSION_PAGE.test(url ?? "");
}

/**
 * Check an address that a client wants to open.
 *
 * @param {Browser} browser
 * @param {string} url
 * @param {string[]} sessions whose site rules hold
 * @returns {string} the same address as the browser writes it: open this one, which was judged
 */
export function checkUrl(browser, url, sessions) {
  const parsed = parse(url);
  if (!/^https?:$/.test(parsed.protocol) && parsed.href !== "about:blank")
    throw invalid(`${url} cannot be opened: clients may open http, https and about:blank.`);
  checkSite(browser, parsed, sessions);
  return parsed.href;
}

/**
 * A tab's page is asked of: may it be? An empty page has the origin of its opener, which its address does not tell.
 *
 * @param {Browser} browser
 * @param {Tab} tab
 * @param {string[]} sessions whose site rules hold
 */
export function checkTab(browser, { url, origin }, sessions) {
  checkShown(browser, url, sessions);
  if (origin === "" || origin === "null" || URL.parse(url)?.origin === origin) return;
  checkSite(browser, parse(origin), sessions);
}

/**
 * A page, or a frame, is asked of: may it be? Of what has no address yet nothing is known.
 *
 * @param {Browser} browser
 * @param {string} url
 * @param {string[]} sessions whose site rules hold
 */
export function checkShown(browser, url, sessions) {
  if (!url) return;
  if (isExtensionPage(url)) throw invalid("A page of an extension takes no commands.");
  checkSite(browser, parse(url), sessions);
}

/** @param {string} url */
function parse(url) {
  const parsed = URL.parse(url);
  if (parsed) return parsed;
  throw invalid(`${url} is not a complete URL; write it with its scheme, as https://example.com/.`);
}

/**
 * @param {Browser} browser
 * @param {URL} url
 * @param {string[]} sessions
 */
function checkSite({ origins, pauses, siteAccess, siteRules }, { href, origin }, sessions) {
  siteAccess.check(href);
  pauses.checkSite(origin);
  siteRules.check(sessions, origin);
  if (href === "about:blank" || origins.allow(origin)) return;
  throw new WireError(Code.NOT_ALLOWED, `The extension's list of allowed origins does not name ${origin}.`, {
    handed: false,
  });
}

/** @param {Browser} browser @param {string} url @param {string[]} sessions */
export function mayShow(browser, url, sessions) {
  try {
    checkShown(browser, url, sessions);
    return true;
  } catch {
    return false;
  }
}
