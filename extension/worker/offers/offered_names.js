/**
 * Names of tools that clients have offered to the pages of an origin in a tab. Page servers there relay what the browser
 * lists, also of other frames of their origin. The page does not own such a tool: it stays unannounced while a frame of
 * that origin is there.
 */

/** @typedef {{ tabId: number, origin: string }} OfPage */

export class OfferedNames {
  /** @type {Map<string, Set<string>>} by tab and origin */
  #names = new Map();

  /** @param {OfPage} page @param {{ name: string }[]} tools */
  add(page, tools) {
    const known = this.#names.get(keyOf(page)) ?? new Set();
    this.#names.set(keyOf(page), known);
    for (const { name } of tools) known.add(name);
  }

  /** @param {OfPage} page @param {string} name */
  has(page, name) {
    return this.#names.get(keyOf(page))?.has(name) ?? false;
  }

  /** The last frame of this origin has left the tab. @param {OfPage} page */
  forget(page) {
    this.#names.delete(keyOf(page));
  }
}

/** @param {OfPage} page */
function keyOf({ tabId, origin }) {
  return `${tabId} ${origin}`;
}
