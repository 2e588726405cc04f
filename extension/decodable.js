/**
 * What any JSON decoder can read: pages may answer with text and nesting that strict decoders refuse, and a frame
 * that cannot be read loses its call without a word.
 */

import { MAX_DEPTH } from "./wire.js";

/** The value is nested deeper than any reader on the way allows. */
export class TooDeepError extends Error {
  constructor() {
    super(`nested deeper than ${MAX_DEPTH} levels`);
  }
}

/**
 * The same value with lone surrogates replaced by U+FFFD; the very same object where nothing had to be mended.
 *
 * @template T
 * @param {T} value a JSON value
 * @param {number} levels that it may have, where it goes into something else
 * @returns {T}
 * @throws {TooDeepError}
 */
export function decodable(value, levels = MAX_DEPTH) {
  return /** @type {T} */ (mend(value, levels));
}

/**
 * @param {unknown} value
 * @param {number} levels that may still open
 * @returns {unknown}
 */
function mend(value, levels) {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed();
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) throw new TooDeepError();
  return Array.isArray(value) ? mendArray(value, levels - 1) : mendObject(value, levels - 1);
}

/**
 * @param {unknown[]} array
 * @param {number} levels
 */
function mendArray(array, levels) {
  let mended = array;
  array.forEach((item, index) => {
    const better = mend(item, levels);
    if (better === item) return;
    if (mended === array) mended = [...array];
    mended[index] = better;
  });
  return mended;
}

/**
 * @param {object} object
 * @param {number} levels
 */
function mendObject(object, levels) {
  const entries = Object.entries(object);
  const mended = entries.map(([key, item]) => [key.toWellFormed(), mend(item, levels)]);
  const same = mended.every(([key, item], index) => key === entries[index]?.[0] && item === entries[index]?.[1]);
  return same ? object : Object.fromEntries(mended);
}
