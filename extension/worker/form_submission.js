/**
 * Outcome of a form that the browser has submitted for a call of its tool: the document that it led to.
 *
 * A page of another site is named by its origin alone: the client may not be allowed to see that site.
 */

import { existing } from "./tabs.js";
import { Code, cut, TITLE_BYTES, URL_BYTES, WireError } from "./wire.js";

/**
 * @import { Executed } from "./document.js"
 * @typedef {{ tabId: number, frameId: number, documentId: string, origin: string }} Submitter the form's document
 */

/** Less than a client's call may take. */
const LONGEST_MS = 8_000;
/** For a navigation to begin, and for the title of a document that is still loading. */
const MOMENT_MS = 500;
const LOOKING_MS = 25;

/**
 * Wait for the document that follows the submission. A download, an empty answer and a form with another target leave
 * the old one.
 *
 * @param {Submitter} submitter
 * @returns {Promise<Executed>}
 * @throws {WireError} the tab or the frame was closed
 */
export async function waitSubmissionOutcome(submitter) {
  const { tabId, frameId, documentId } = submitter;
  const submittedAt = performance.now();
  let arrivedAt = Infinity;
  for (;;) {
    const [tab, frame] = await Promise.all([existing(tabId), existingFrame(tabId, frameId)]);
    if (!tab || !frame) throw new WireError(Code.NAVIGATED, "The form was submitted, then closed.", { handed: true });
    const now = performance.now();
    const hasArrived = frame.documentId !== documentId;
    if (hasArrived) arrivedAt = Math.min(arrivedAt, now);
    const isLoading = tab.status === "loading";
    if (hasArrived && (!isLoading || now - arrivedAt > MOMENT_MS)) return formatArrival(submitter, frame, tab.title ?? "");
    if (!hasArrived && !isLoading && now - submittedAt > MOMENT_MS) {
      return makeResult("The form was submitted, and the page is still the same: look at the page for the outcome.");
    }
    if (now - submittedAt > LONGEST_MS) {
      return makeResult("The form was submitted, and the browser is still loading the next page.");
    }
    await new Promise((resolve) => setTimeout(resolve, LOOKING_MS));
  }
}

/**
 * @param {number} tabId
 * @param {number} frameId
 */
async function existingFrame(tabId, frameId) {
  try {
    return await chrome.webNavigation.getFrame({ tabId, frameId });
  } catch {
    return null; // the only way this fails: no tab with that id
  }
}

/**
 * @param {Submitter} submitter
 * @param {{ url: string, errorOccurred: boolean }} frame
 * @param {string} title of the tab
 */
function formatArrival({ frameId, origin }, { url, errorOccurred }, title) {
  const site = URL.parse(url)?.origin ?? "null";
  const isSameSite = site === origin && site !== "null";
  const address = isSameSite ? cut(url, URL_BYTES) : `a page of ${site}`;
  if (errorOccurred) return makeResult(`The form was submitted, but the next page did not load: ${address}.`, true);
  const named = isSameSite && frameId === 0 && title ? ` (“${cut(title, TITLE_BYTES)}”)` : "";
  return makeResult(`The form was submitted. The page is now ${address}${named}.`);
}

/** @param {string} text @param {boolean} [isError] @returns {Executed} */
function makeResult(text, isError = false) {
  return { success: true, payload: { content: [{ type: "text", text }], ...(isError && { isError }) } };
}
