/** What Firefox does in its own way. */

/** Firefox alone has this function. */
export const isFirefox = "getBrowserInfo" in chrome.runtime;

/**
 * What `webNavigation.onErrorOccurred` says of a load that gives way to another, but also of one that goes on in another
 * process, even after it was committed (seen in Firefox 140). So it says nothing.
 */
export const LOAD_ABORTED = "Error code 2152398850";

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
