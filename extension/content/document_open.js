/**
 * Survives `document.open()`, which `document.write()` calls once a page has loaded: it removes all listeners from
 * window and document, ours included, but keeps document and scripts. No event reports it; a MutationObserver of the
 * document stays and reports that the old root was removed.
 */

/** A name that no page can listen for: hearing it would tell that we are here. */
const PROBE = crypto.getRandomValues(new Uint32Array(4)).join();
/** What is done each time, in this order. @type {(() => void)[]} */
const onReopened = [];
let isProbeHeard = false;

/**
 * Hear an event for as long as the document lives.
 *
 * @param {EventTarget} target
 * @param {string} type
 * @param {(event: any) => void} listener
 * @param {AddEventListenerOptions} [options]
 */
function hear(target, type, listener, options = {}) {
  const listen = () => target.addEventListener(type, listener, options);
  listen();
  onReopened.push(listen);
}

hear(window, PROBE, () => (isProbeHeard = true));
new MutationObserver(() => {
  isProbeHeard = false;
  window.dispatchEvent(new Event(PROBE));
  if (isProbeHeard) return; // a root that a page has replaced by itself
  for (const act of onReopened) act();
}).observe(document, { childList: true });
