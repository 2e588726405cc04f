/** Commands of clients for a tab's debugger. */

import { callerOf, checkOwner, checkShown, checkTab, mayShow, mine, noSuchTab, present, sessionsOf } from "./tab_access.js";
import { navigation } from "./navigation.js";
import { integer, object, optionalText, text, texts } from "./params.js";
import { existing } from "./tabs.js";
import { checkCommand, checkEvents } from "./devtools_allowlist.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Asked, Command } from "./requests.js"
 * @import { Browser } from "./commands.js"
 * @import { DevTools } from "./devtools.js"
 * @import { Asking, Attachment, CdpEvent } from "./devtools_tab.js"
 */

/** For a discarded tab, before it is asked anything. */
const LOADING_MS = 30_000;
/** Bridges look for denied page frames in a tab, to leave them out: only the page of the tab is judged by site rules. */
const NO_SESSIONS = /** @type {string[]} */ ([]);
/** For a tab to arrive that is on its way to another document. */
const LEAVING_MS = 5_000;
/** Input that acts on the page. A release alone acts on nothing, and what was pressed is released. */
const PRESSES = /^Input\.(dispatch|insert|ime|synthesize|emulate)/;
const RELEASES = new Set(["keyUp", "mouseReleased", "touchEnd", "touchCancel", "dragCancel"]);

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
  const attachment = await attached(browser, devtools, params, asked);
  attachment.callers.add(callerOf(params, asked));
  const { tabId, status } = await judged(browser, attachment, asking, params, asked);
  // From here to the send nothing is waited for.
  if (status === "unloaded") throw crashed(tabId);
  checkShown(browser, attachment.urlOf(sessionId), NO_SESSIONS);
  try {
    return await devtools.send(tabId, inContext(attachment, asking), asked.signal);
  } catch (error) {
    if (error instanceof WireError && !(await existing(tabId))) throw noSuchTab(tabId, error);
    throw error;
  }
}

/**
 * The attachment of the tab that a request names. One that is not attached to yet is judged first.
 *
 * @param {Browser} browser
 * @param {DevTools} devtools
 * @param {any} params
 * @param {Asked} asked
 */
async function attached(browser, devtools, params, asked) {
  const known = devtools.attachmentOf(integer(params, "tabId"));
  if (known) return known;
  const { tabId } = await loaded(browser, params, asked);
  return devtools.attach(tabId, optionalText(params, "session"));
}

/**
 * The tab that a request names, judged by the document that it shows, which is the one that the command will reach:
 * input and scripts wait while the main frame is on its way to another document, and are judged anew when it has one.
 *
 * @param {Browser} browser
 * @param {Attachment} attachment
 * @param {Asking} asking
 * @param {any} params
 * @param {Asked} asked
 */
async function judged(browser, attachment, asking, params, asked) {
  const { document } = attachment;
  const waits = isPress(asking) || isContextless(attachment, asking);
  for (;;) {
    if (waits && !(await document.waitUntil(() => !document.isLeaving || asked.signal.aborted, LEAVING_MS)))
      throw leaving(attachment.tabId);
    if (isContextless(attachment, asking) && !attachment.contextOf(asking.sessionId)) {
      const tab = await loaded(browser, params, asked);
      if (tab.status === "unloaded") return tab; // a page that has crashed answers nothing
      await attachment.watchContexts(asking.sessionId);
    }
    await inForce(browser, params, asked);
    const { count } = document;
    const tab = await loaded(browser, params, asked);
    if (count === document.count && !(waits && document.isLeaving)) return tab;
  }
}

/**
 * Wait for the site rules of the tab, so that nothing has to be waited for when the tab is judged.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function inForce(browser, params, asked) {
  const tab = browser.tabs.get(integer(params, "tabId"));
  if (!tab) return;
  checkOwner(tab, optionalText(params, "session"));
  await browser.siteRules.use(tab.tabId, sessionsOf(browser, params, asked));
}

/** @param {Asking} asking */
function isPress({ method, params }) {
  return PRESSES.test(method) && !RELEASES.has(String(params.type));
}

/** Whether a script would run in whatever document is there by then. @param {Attachment} attachment @param {Asking} asking */
function isContextless(attachment, { sessionId, method, params }) {
  if (method !== "Runtime.evaluate" || !attachment.isOfDocument(sessionId)) return false;
  return params.contextId === undefined && params.uniqueContextId === undefined;
}

/**
 * The same command, with the execution context that it means by default.
 *
 * @param {Attachment} attachment
 * @param {Asking} asking
 * @returns {Asking}
 */
function inContext(attachment, asking) {
  if (!isContextless(attachment, asking)) return asking;
  const uniqueContextId = attachment.contextOf(asking.sessionId);
  if (!uniqueContextId) throw leaving(attachment.tabId);
  return { ...asking, params: { ...asking.params, uniqueContextId } };
}

/** @param {number} tabId */
function leaving(tabId) {
  const what = `Tab ${tabId} is on its way to another document, or has none that scripts run in. Nothing was done.`;
  return new WireError(Code.NAVIGATED, what, { handed: false });
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
  checkEvents(events);
  const { tabId } = await loaded(browser, params, asked);
  const tell = (/** @type {CdpEvent} */ event) => {
    browser.pauses.checkSession(session);
    const tab = browser.tabs.get(tabId);
    if (tab) checkOwner(tab, session);
    if (tab) checkTab(browser, tab, sessions);
    if (mayShow(browser, devtools.urlOf(tabId, event.sessionId), NO_SESSIONS)) notify("browser/cdpEvent", event);
  };
  await devtools.subscribe(tabId, { session, caller: callerOf(params, asked), events, tell }, signal);
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
  checkTab(browser, tab, sessions);
  if (!tab.discarded) return tab;
  const { tabId, url } = tab;
  const reload = () => chrome.tabs.reload(tabId);
  await navigation(tabId, url, reload, { waitUntil: "load", timeoutMs: LOADING_MS, signal: asked.signal });
  const now = await present(browser, params);
  checkTab(browser, now, sessions);
  return now;
}

/** @param {number} tabId */
function crashed(tabId) {
  const what = `The page of tab ${tabId} has crashed. Load it again with browser_navigate.`;
  return new WireError(Code.INTERNAL_ERROR, what, { handed: false });
}
