/** Differences of Firefox. */

/** Firefox alone has this function. */
export const isFirefox = "getBrowserInfo" in chrome.runtime;

/**
 * What `webNavigation.onErrorOccurred` says of a load that is stopped, gives way to another, or is answered without a
 * page, but also of one that goes on in another process, even after it was committed (seen in Firefox 140).
 */
export const LOAD_ABORTED = "Error code 2152398850";

/**
 * What kept which page from loading, if a document is Firefox's own page about that. Of a port that it forbids no
 * other event tells, and sometimes this one comes before the others (seen in Firefox 140).
 *
 * @param {string} url the document's
 * @returns {{ error: string, address: string } | null} Firefox's name for it, such as `deniedPortAccess`, and where the
 *   page would have been; null: the document is no such page
 */
export function failureOfPage(url) {
  // Firefox escapes a space as %20, and leaves a + as it is.
  const parsed = /^about:(net|cert)error\?/.test(url) ? URL.parse(url.replaceAll("+", "%2B")) : null;
  const error = parsed?.searchParams.get("e");
  return error ? { error, address: parsed?.searchParams.get("u") ?? "" } : null;
}

/**
 * Have Firefox keep the background page. It ends a page that has been idle for 30 s; messages of a WebSocket do not
 * count, calls of functions of the browser's own process do (measured in Firefox 140: this one does, `storage.local.get`
 * does not).
 */
export function stayAwake() {
  if (isFirefox) void chrome.runtime.getPlatformInfo();
}

/**
 * Who Firefox, or its fork, says it is.
 *
 * @returns {Promise<{ brand: string, version: string, platform: string }>}
 */
export async function firefoxInfo() {
  const { getBrowserInfo, getPlatformInfo } = /** @type {any} */ (chrome.runtime);
  const [{ name, version }, { os }] = await Promise.all([getBrowserInfo(), getPlatformInfo()]);
  return { brand: name, version, platform: os };
}

/**
 * Why a native port has ended, in the browser's words; empty where it gives no reason.
 *
 * @param {chrome.runtime.Port} port in its onDisconnect
 * @returns {string}
 */
export function endOf(port) {
  const { error } = /** @type {{ error?: { message: string } }} */ (port);
  return error?.message ?? chrome.runtime.lastError?.message ?? "";
}
