/** Wait for the end of a navigation in a tab's main frame. */

import { failureOfPage, isFirefox, LOAD_ABORTED } from "./firefox.js";
import { untilQuiet } from "./page_activity.js";
import { existing } from "./tabs.js";
import { Code, WireError } from "./wire.js";

/**
 * @typedef {"load" | "commit"} WaitUntil
 * @typedef {{ waitUntil: WaitUntil, quietMs?: number, timeoutMs: number, signal: AbortSignal }} Patience
 */

/** What a timer can count to. */
const LONGEST_MS = 2 ** 31 - 1;
/** After a load that may go on elsewhere; then the tab tells whether it did. */
const MOMENT_MS = 500;
/** Firefox is silent about a step where a tab's history ends. Others begin within moments, if no page is in the way. */
const NO_STEP_MS = 5000;
/** The page of a tab that was just opened is asked for by one name, and comes by another. */
const NEW_TAB = /^(chrome|edge):\/\/(newtab|new-tab-page)\//;
const ABORTED = "net::ERR_ABORTED";
const NO_PAGE = "it leads to no page (an empty answer, a download), or was stopped";

/**
 * Addresses by tab that failed in Firefox, as an event reported, before the tab showed Firefox's page about it. That
 * page is committed under the same address, maybe during the tab's next navigation, which it must not end.
 *
 * @type {Map<number, string>}
 */
const unshownFailures = new Map();

/** A page did not load; `url` is its address. */
export class LoadError extends WireError {
  /**
   * @param {string} error the browser's name for it
   * @param {string} url
   */
  constructor(error, url) {
    super(Code.INTERNAL_ERROR, `${url} did not load: ${error}.`, { handed: true });
    this.url = url;
  }
}

/**
 * Start a navigation and wait for its end.
 *
 * @param {number} tabId
 * @param {string} target where to; empty: it is not known
 * @param {() => Promise<unknown>} start tells the browser to go; its rejection is ours
 * @param {Patience} patience
 * @returns {Promise<string | null>} the document whose load event ended the wait, whose tab may still say that it loads;
 *   empty in Firefox; null: something else was the end
 * @throws {WireError} the page did not load, took too long, or its tab was closed. All may have reached the site.
 */
export async function navigation(tabId, target, start, { waitUntil, quietMs = 0, timeoutMs, signal }) {
  const stop = new AbortController();
  const journey = { tabId, target, ...(await underWay(tabId)) };
  const arrival = arrived(journey, { waitUntil, quietMs }, AbortSignal.any([stop.signal, signal]));
  arrival.catch(() => {}); // `start` may fail first
  const timer = setTimeout(() => stop.abort(tookTooLong(timeoutMs)), Math.min(timeoutMs, LONGEST_MS));
  try {
    await start();
    return await arrival;
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

/**
 * Where a tab is now.
 *
 * @param {number} tabId
 * @returns {Promise<{ tabId: number, url: string, title: string, documentId: string, loading: boolean }>}
 */
export async function whereabouts(tabId) {
  const [tab, frame] = await Promise.all([
    chrome.tabs.get(tabId),
    chrome.webNavigation.getFrame({ tabId, frameId: 0 }),
  ]);
  const document = { documentId: frame?.documentId ?? "", loading: tab.status === "loading" };
  return { tabId, url: tab.url ?? "", title: tab.title ?? "", ...document };
}

/**
 * What a tab shows and where it was going already.
 *
 * @param {number} tabId
 */
async function underWay(tabId) {
  const [tab, frame] = await Promise.all([existing(tabId), chrome.webNavigation.getFrame({ tabId, frameId: 0 })]);
  const isThere = isFirefox ? tab?.status === "complete" : frame?.documentId;
  const unloaded = isThere ? "" : tab?.url || "about:blank";
  return { before: frame?.documentId ?? "", heading: tab?.pendingUrl || unloaded };
}

/**
 * Settles on the first event of the main frame that ends the wait. The events of a page that was on its way before
 * ours come in between, and a page may move within itself at any time. So the newest navigation counts, events of
 * documents before it do not, and nothing is over while the tab has another address to go to. Firefox names neither
 * documents nor such addresses: there it is the first page that loads from now on.
 *
 * @param {{ tabId: number, target: string, before: string, heading: string }} journey `before`: the document that is
 *   there; `heading`: the address of a navigation that may still end; empty: no navigation
 * @param {{ waitUntil: WaitUntil, quietMs: number }} patience
 * @param {AbortSignal} signal ends the wait and its listeners
 * @returns {Promise<string | null>} as `navigation`
 */
function arrived({ tabId, target, before, heading }, { waitUntil, quietMs }, signal) {
  return new Promise((settled, reject) => {
    const resolve = () => settled(null);
    let navigations = 0;
    /** Of the newest navigation; empty: it is under way. Undefined in Firefox: it is there, and has no name. */
    let document = "";
    /** The address that the newest navigation committed. */
    let committed = "";
    const left = new Set([before]);
    /** It is of the navigation that was under way before ours. @param {string} url */
    const isEarlier = (url) => url !== target && (url === heading || (NEW_TAB.test(url) && NEW_TAB.test(heading)));
    /** The address of a commit that was taken for Firefox's page about an earlier failure. */
    let passedOver = "";
    /** What Firefox's page is about. Its process may tell of it after the next page's commit. @param {string} url */
    const failureShown = (url) => {
      const failure = failureOfPage(url);
      return failure?.address === committed ? failure : null;
    };
    /** The end of the newest navigation, while the one before it is still to come. @type {(() => void) | null} */
    let held = null;
    const of = (/** @type {(details: any) => void} */ react) => (/** @type {any} */ details) => {
      if (details.tabId === tabId && details.frameId === 0) react(details);
    };
    /** @param {() => void} settle @param {(tab: chrome.tabs.Tab | null) => boolean} [isOver] */
    const end = async (settle, isOver = () => true) => {
      const count = navigations;
      const tab = await existing(tabId);
      // The frames of a PDF's viewer make its own address one to go to.
      const isLeaving = tab?.pendingUrl && tab.pendingUrl !== tab.url;
      if (count !== navigations) return;
      if (isLeaving) return void (held = () => void end(settle, isOver));
      if (isOver(tab)) settle();
    };
    const isComplete = (/** @type {chrome.tabs.Tab | null} */ tab) => tab?.status === "complete";
    /** Firefox says of loads that go on what it says of those that come to nothing. @param {string} url */
    const look = (url) => {
      const count = navigations;
      const settle = () => (document === "" ? reject(new LoadError(NO_PAGE, url)) : resolve());
      setTimeout(() => count > 0 && count === navigations && void end(settle, isComplete), MOMENT_MS);
    };

    const begins = of(({ url }) => {
      if (url === unshownFailures.get(tabId)) unshownFailures.delete(tabId);
      navigations += 1;
      held = null;
      if (document) left.add(document);
      document = "";
    });
    const commits = of(({ documentId, url, transitionQualifiers }) => {
      passedOver = url === unshownFailures.get(tabId) ? url : "";
      unshownFailures.delete(tabId);
      if (passedOver) return;
      if (isEarlier(url)) {
        if (documentId) left.add(documentId);
        return held?.();
      }
      navigations += 1;
      held = null;
      document = documentId;
      committed = url;
      if (waitUntil === "commit") return void end(resolve);
      // A page from the back/forward cache was loaded long ago: no load event follows.
      if (transitionQualifiers?.includes("forward_back")) void end(resolve, isComplete);
      const count = navigations;
      if (quietMs) {
        void untilQuiet(tabId, documentId, quietMs, signal).then(() => count === navigations && void end(resolve));
      }
    });
    const completes = of(({ documentId, url }) => {
      if (failureOfPage(url) && !failureShown(url)) return;
      if (documentId === document) return void end(() => settled(documentId ?? ""));
      if (isFirefox && document === "") look(url); // a download: nothing was committed
    });
    const shows = of((details) => {
      const { documentId, url } = details;
      if (url === passedOver) commits(details); // it is a page: Firefox's own one has another address here
      const failure = failureShown(url);
      if (!failure || documentId !== document) return;
      void end(() => reject(new LoadError(failure.error, failure.address)));
    });
    const moves = of(({ url }) => navigations === 0 && (target === "" || target === url) && void end(resolve));
    const fails = of(({ documentId, error, url }) => {
      if (error === LOAD_ABORTED) return look(url);
      // What has been committed is there: it was stopped, or gives way to another page.
      if (documentId === document) return void end(resolve, isComplete);
      if (document !== "" || navigations === 0 || left.has(documentId) || isEarlier(url)) return;
      // A load of the same address that was under way may have given way to ours.
      if (error === ABORTED && url === heading && url === target) return look(url);
      unshownFailures.set(tabId, url);
      void end(() => reject(new LoadError(error, url)));
    });
    const silence = () => navigations === 0 && reject(noStep());
    if (isFirefox && target === "") setTimeout(silence, NO_STEP_MS);
    const closes = (/** @type {number} */ closed) => closed === tabId && reject(closedMeanwhile());

    const web = chrome.webNavigation;
    const listening = /** @type {[chrome.events.Event<any>, (...args: any[]) => void][]} */ ([
      [web.onBeforeNavigate, begins],
      [web.onCommitted, commits],
      [web.onDOMContentLoaded, shows],
      [web.onCompleted, completes],
      [web.onReferenceFragmentUpdated, moves],
      [web.onHistoryStateUpdated, moves],
      [web.onErrorOccurred, fails],
      [chrome.tabs.onRemoved, closes],
    ]);
    for (const [event, listener] of listening) event.addListener(listener);
    signal.addEventListener("abort", () => {
      for (const [event, listener] of listening) event.removeListener(listener);
      reject(signal.reason);
    });
  });
}

/** @param {number} timeoutMs */
function tookTooLong(timeoutMs) {
  return new WireError(Code.TIMED_OUT, `The page did not load within ${timeoutMs} ms.`, { handed: true });
}

/** Back or Forward has started nothing. */
function noStep() {
  const what = `Nothing began within ${NO_STEP_MS} ms: the tab's history ends here, or its page is in the way.`;
  return new WireError(Code.TIMED_OUT, what, { handed: true });
}

/** The tab is gone. */
function closedMeanwhile() {
  return new WireError(Code.GONE, "The tab was closed before the page had loaded.", { handed: true });
}
