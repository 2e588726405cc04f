/** Activity of a page: until it is parsed and neither its tree nor its requests have changed for a while. */

const LOOK_MS = 100;
/** So many times the wanted quiet are waited for at most: some pages never stand still. */
const PATIENCE = 10;

/**
 * Settles when the document is quiet, or has been there for long enough. Timers are here and not in the page: the
 * browser slows down those of pages in the background.
 *
 * @param {number} tabId
 * @param {string | undefined} documentId Firefox names none
 * @param {number} quietMs
 * @param {AbortSignal} signal
 */
export async function untilQuiet(tabId, documentId, quietMs, signal) {
  const until = performance.now() + PATIENCE * quietMs;
  while (performance.now() < until && !signal.aborted) {
    const left = until - performance.now();
    const quiet = await Promise.race([lookAt(tabId, documentId), pause(left)]);
    if (quiet !== undefined && quiet >= quietMs) return;
    await pause(Math.min(left, quiet === undefined ? LOOK_MS : Math.max(quietMs - quiet, 1)));
  }
}

/**
 * How long the document has been quiet, in ms; undefined: it is not parsed, or cannot be asked.
 *
 * @param {number} tabId
 * @param {string | undefined} documentId
 * @returns {Promise<number | undefined>}
 */
async function lookAt(tabId, documentId) {
  const target = documentId ? { tabId, documentIds: [documentId] } : { tabId, frameIds: [0] };
  try {
    const [found] = await chrome.scripting.executeScript({ target, func: quietFor, injectImmediately: true });
    return found?.result ?? undefined;
  } catch {
    return undefined;
  }
}

/**
 * Runs in the page, in the world of this extension. The first call begins to watch.
 *
 * @returns {number | null} null: not parsed yet
 */
function quietFor() {
  const world = /** @type {{ mcpbChangedAt?: number }} */ (/** @type {unknown} */ (globalThis));
  if (world.mcpbChangedAt === undefined) {
    const note = () => void (world.mcpbChangedAt = performance.now());
    note();
    const tree = new MutationObserver(note);
    tree.observe(document, { subtree: true, childList: true, characterData: true });
    const requests = new PerformanceObserver(note);
    requests.observe({ type: "resource" });
    const end = () => {
      tree.disconnect();
      requests.disconnect();
      delete world.mcpbChangedAt;
    };
    setTimeout(end, 10_000);
    addEventListener("load", end, { once: true });
  }
  return document.readyState === "loading" ? null : performance.now() - (world.mcpbChangedAt ?? 0);
}

/** @param {number} ms @returns {Promise<undefined>} */
function pause(ms) {
  return new Promise((resolve) => void setTimeout(() => resolve(undefined), ms));
}
