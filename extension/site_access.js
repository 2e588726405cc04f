/** Whether the person lets us into all sites. Browsers let them withdraw that, and give it again. */

export const ALL_SITES = { origins: ["<all_urls>"] };

/** @returns {Promise<boolean>} false: on some sites, or on all, no page's tools are found */
export function isAllowedEverywhere() {
  return chrome.permissions.contains(ALL_SITES);
}

/** @param {() => void} listener called when it may have changed */
export function onAccessChanged(listener) {
  chrome.permissions.onAdded.addListener(listener);
  chrome.permissions.onRemoved.addListener(listener);
}
