/** The state of a page, for calls that wait: the texts that it shows, and for how long it has stood still. */

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
