/** What clients may ask of a tab's DevTools. */

import { checkOwner, checkShown, mayShow, mine, noSuchTab, present, sessionsOf } from "./access.js";
import { navigation } from "./navigation.js";
import { object, optionalText, text, texts } from "./params.js";
import { existing } from "./tabs.js";
import { checkCommand } from "./worker/devtools_allowlist.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Asked, Command } from "./calls.js"
 * @import { Browser } from "./commands.js"
 * @import { DevTools } from "./devtools.js"
 * @import { CdpEvent } from "./devtools_tab.js"
 */

/** For a discarded tab, before it is asked anything. */
const LOADING_MS = 30_000;
/** Bridges look for denied page frames in a tab, to leave them out: only the page of the tab is judged by site rules. */
const NO_SESSIONS = /** @type {string[]} */ ([]);

/**
 * None where the browser has no DevTools for extensions.
 *
 * @param {Browser} browser
 * @returns {Record<string, Command>}
 */
export function devtoolsCommands(browser) {
  const { devtools } = browser;
  if (!devtools) return {};
  return {
    forwardCDPCommand: (params, asked) => forward(browser, devtools, params, asked),
    subscribeCDP: (params, asked) => subscribe(browser, devtools, params, asked),
  };
}

/**
 * @param {Browser} browser
 * @param {DevTools} devtools
 * @param {any} params
 * @param {Asked} asked
 */
async function forward(browser, devtools, params, asked) {
  const [method, sessionId] = [text(params, "method"), optionalText(params, "sessionId")];
  const asking = { method, sessionId, params: object(params, "params"), session: optionalText(params, "session") };
  checkCommand(method, asking.params);
  const { tabId, status } = await loaded(browser, params, asked);
  if (status === "unloaded") throw crashed(tabId);
  checkShown(browser, devtools.urlOf(tabId, sessionId), NO_SESSIONS);
  try {
    return await devtools.send(tabId, asking, asked.signal);
  } catch (error) {
    if (error instanceof WireError && !(await existing(tabId))) throw noSuchTab(tabId, error);
    throw error;
  }
}

/**
 * @param {Browser} browser
 * @param {DevTools} devtools
 * @param {any} params
 * @param {Asked} asked
 */
async function subscribe(browser, devtools, params, asked) {
  const { signal, notify } = asked;
  const session = optionalText(params, "session");
  const sessions = sessionsOf(browser, params, asked);
  const events = new Set(texts(params, "events"));
  const { tabId } = await loaded(browser, params, asked);
  const tell = (/** @type {CdpEvent} */ event) => {
    browser.pauses.checkSession(session);
    const tab = browser.tabs.get(tabId);
    if (tab) checkOwner(tab, session);
    checkShown(browser, tab?.url ?? "", sessions);
    if (mayShow(browser, devtools.urlOf(tabId, event.sessionId), NO_SESSIONS)) notify("browser/cdpEvent", event);
  };
  await devtools.subscribe(tabId, { session, events, tell }, signal);
  return {};
}

/**
 * The tab that a request names, if its session may command what it shows. One that the browser has discarded is loaded
 * first.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function loaded(browser, params, asked) {
  const sessions = sessionsOf(browser, params, asked);
  const tab = await mine(browser, params, asked);
  checkShown(browser, tab.url, sessions);
  if (!tab.discarded) return tab;
  const { tabId, url } = tab;
  const reload = () => chrome.tabs.reload(tabId);
  await navigation(tabId, url, reload, { waitUntil: "load", timeoutMs: LOADING_MS, signal: asked.signal });
  const now = await present(browser, params);
  checkShown(browser, now.url, sessions);
  return now;
}

/** @param {number} tabId */
function crashed(tabId) {
  const what = `The page of tab ${tabId} has crashed. Load it again with browser_navigate.`;
  return new WireError(Code.INTERNAL_ERROR, what, { handed: false });
}
