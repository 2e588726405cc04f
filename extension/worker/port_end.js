/** End of a port. A reason that no listener reads becomes an error on the extension's card. */

/**
 * Call a function when the other side has ended a port, or the browser has put its page into the back/forward cache.
 *
 * @param {chrome.runtime.Port} port
 * @param {() => void} ended
 */
export function onPortEnd(port, ended) {
  port.onDisconnect.addListener(() => {
    void chrome.runtime.lastError;
    ended();
  });
}
