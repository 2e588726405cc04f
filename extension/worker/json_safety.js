/**
 * Values that any JSON decoder can read: pages may answer with text and nesting that strict decoders refuse, and the
 * call of a frame that cannot be decoded would get no answer.
 */

import { MAX_DEPTH } from "./wire.js";

/** The value is nested deeper than any reader on the way allows. */
export class TooDeepError extends Error {
  constructor() {
    super(`nested deeper than ${MAX_DEPTH} levels`);
  }
}

/**
 * The same value with lone surrogates replaced by U+FFFD; the same object if nothing was replaced.
 *
 * @template T
 * @param {T} value a JSON value
 * @param {number} levels that it may have, where it goes into something else
 * @returns {T}
 * @throws {TooDeepError}
 */
export function decodable(value, levels = MAX_DEPTH) {
  return isDecodable(value, levels) ? value : /** @type {T} */ (replaceSurrogates(value, levels));
}

/**
 * Makes nothing: almost every value is fine, and a long one has very many parts.
 *
 * @param {unknown} value
 * @param {number} levels that may still open
 * @returns {boolean}
 */
function isDecodable(value, levels) {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) throw new TooDeepError();
  if (Array.isArray(value)) return value.every((item) => isDecodable(item, levels - 1));
  const object = /** @type {Record<string, unknown>} */ (value);
  return Object.keys(object).every((key) => key.isWellFormed() && isDecodable(object[key], levels - 1));
}

/**
 * @param {unknown} value
 * @param {number} levels that may still open
 * @returns {unknown}
 */
function replaceSurrogates(value, levels) {
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value !== "object" || value === null) return value;
  if (levels === 0) throw new TooDeepError();
  if (Array.isArray(value)) return value.map((item) => replaceSurrogates(item, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.toWellFormed(), replaceSurrogates(item, levels - 1)]));
}
