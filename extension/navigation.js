/** Waiting for a tab's main frame to get where it was sent. */

import { Code, WireError } from "./wire.js";

/**
 * @typedef {"load" | "commit"} WaitUntil
 * @typedef {{ waitUntil: WaitUntil, timeoutMs: number, signal: AbortSignal }} Patience
 */

/**
 * Start a navigation and wait for its end.
 *
 * @param {number} tabId
 * @param {() => Promise<unknown>} start tells the browser to go; its rejection is ours
 * @param {Patience} patience
 * @throws {WireError} the page did not load, took too long, or its tab was closed. All may have reached the site.
 */
export async function navigation(tabId, start, { waitUntil, timeoutMs, signal }) {
  const stop = new AbortController();
  const arrival = arrived(tabId, waitUntil, AbortSignal.any([stop.signal, signal]));
  arrival.catch(() => {}); // `start` may fail first
  const timer = setTimeout(() => stop.abort(tookTooLong(timeoutMs)), timeoutMs);
  try {
    await start();
    await arrival;
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}

/**
 * Where a tab is now.
 *
 * @param {number} tabId
 * @returns {Promise<{ tabId: number, url: string, title: string, documentId: string }>}
 */
export async function whereabouts(tabId) {
  const [tab, frame] = await Promise.all([
    chrome.tabs.get(tabId),
    chrome.webNavigation.getFrame({ tabId, frameId: 0 }),
  ]);
  return { tabId, url: tab.url ?? "", title: tab.title ?? "", documentId: frame?.documentId ?? "" };
}

/**
 * Settles on the first event of the main frame that ends the wait.
 *
 * @param {number} tabId
 * @param {WaitUntil} waitUntil
 * @param {AbortSignal} signal ends the wait and its listeners
 * @returns {Promise<void>}
 */
function arrived(tabId, waitUntil, signal) {
  return new Promise((resolve, reject) => {
    /** An earlier navigation of the tab may still report its end: only what follows our start counts. */
    let begun = false;
    let committed = false;
    const of = (/** @type {(details: any) => void} */ react) => (/** @type {any} */ details) => {
      if (details.tabId === tabId && details.frameId === 0) react(details);
    };
    const begins = of(() => (begun = true));
    const commits = of(({ transitionQualifiers }) => {
      begun = true;
      committed = true;
      // A page from the back/forward cache was loaded long ago: no load event follows.
      if (waitUntil === "commit" || transitionQualifiers?.includes("forward_back"))
        void finishOnceLoaded(tabId, waitUntil, resolve);
    });
    const completes = of(() => committed && resolve());
    const moves = of(() => resolve());
    const fails = of(({ error, url }) => begun && reject(notLoaded(error, url)));
    const closes = (/** @type {number} */ closed) => closed === tabId && reject(closedMeanwhile());

    const web = chrome.webNavigation;
    const listening = /** @type {[chrome.events.Event<any>, (...args: any[]) => void][]} */ ([
      [web.onBeforeNavigate, begins],
      [web.onCommitted, commits],
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

/**
 * @param {number} tabId
 * @param {WaitUntil} waitUntil
 * @param {() => void} resolve
 */
async function finishOnceLoaded(tabId, waitUntil, resolve) {
  if (waitUntil === "commit") return resolve();
  const tab = await chrome.tabs.get(tabId);
  if (tab.status === "complete") resolve();
}

/** @param {number} timeoutMs */
function tookTooLong(timeoutMs) {
  return new WireError(Code.TIMED_OUT, `The page did not load within ${timeoutMs} ms.`, { handed: true });
}

/**
 * @param {string} error the browser's name for it
 * @param {string} url
 */
function notLoaded(error, url) {
  return new WireError(Code.INTERNAL_ERROR, `${url} did not load: ${error}.`, { handed: true });
}

function closedMeanwhile() {
  return new WireError(Code.GONE, "The tab was closed before the page had loaded.", { handed: true });
}
