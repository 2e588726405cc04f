/** The state of a page, for calls that wait and for watches: its texts, its changes, and how long it has stood still. */

/** Which of these texts are shown, in upper or lower case.
 * @param {{texts: string[]}} given @returns {boolean[]} */
function seesTexts({ texts }) {
  const shown = folded(oneLine(shownTexts().join(" ")));
  return texts.map((text) => shown.includes(folded(oneLine(text).trim())));
}

/** Texts of the document and of its shadow trees. @returns {string[]} */
function shownTexts() {
  const root = documentElementOf(document);
  const texts = [root instanceof HTMLElement ? innerTextOf(root) : contentOf(root, MAX_WALK)];
  /** @type {Node[]} */
  const waiting = [root];
  for (let seen = 0; waiting.length && seen < MAX_WALK; seen++) {
    const node = /** @type {Node} */ (waiting.pop());
    const shadow = node instanceof Element ? shadowOf(node) : null;
    if (shadow) {
      for (const child of childNodesOf(shadow)) if (child instanceof HTMLElement) texts.push(innerTextOf(child));
    }
    for (const child of shownChildren(node)) if (child instanceof Element) waiting.push(child);
  }
  return texts;
}

/** When the tree or a request has changed last, by `performance.now()`. */
let changedAt = 0;

/**
 * How long the document has been quiet, in ms: parsed, its tree unchanged, no request ended. The first call begins to
 * watch.
 *
 * @returns {{quietMs: number}}
 */
function quietness() {
  if (!changedAt) {
    const note = () => void (changedAt = performance.now());
    note();
    new MutationObserver(note).observe(document, { subtree: true, childList: true, characterData: true });
    new PerformanceObserver(note).observe({ type: "resource" });
  }
  return { quietMs: document.readyState === "loading" ? 0 : performance.now() - changedAt };
}

/** Number of changes of the document since the first call of `untilChanged`; 0: it is not watched yet. */
let changeCount = 0;
/** @type {Set<(count: number) => void>} */
const awaitingChange = new Set();

/**
 * The number of changes of the document, once it differs from `since`, or after `ms` milliseconds. The first
 * call begins to count.
 *
 * @param {{since?: number | null, ms: number}} given @returns {number | Promise<number>}
 */
function untilChanged({ since, ms }) {
  if (!changeCount) {
    changeCount = 1;
    const note = () => {
      changeCount++;
      for (const resolve of awaitingChange) resolve(changeCount);
      awaitingChange.clear();
    };
    const all = { subtree: true, childList: true, characterData: true, attributes: true };
    new MutationObserver(note).observe(document, all);
    document.addEventListener("input", note, { capture: true });
  }
  if (since !== changeCount) return changeCount;
  return new Promise((resolve) => {
    awaitingChange.add(resolve);
    setTimeout(() => {
      awaitingChange.delete(resolve);
      resolve(changeCount);
    }, ms);
  });
}
