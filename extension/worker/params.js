/** Validation of a request's parameters. A value that the wire does not allow is an error of the client: -32602. */

import { Code, WireError } from "./wire.js";

/** @param {string} message */
export function invalid(message) {
  return new WireError(Code.INVALID_PARAMS, message, { handed: false });
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {number}
 */
export function integer(params, name) {
  const value = params[name];
  if (typeof value === "number" && Number.isInteger(value)) return value;
  throw invalid(`${name} must be a whole number, not ${JSON.stringify(value)}.`);
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {string} never empty
 */
export function text(params, name) {
  const value = params[name];
  if (typeof value === "string" && value !== "") return value;
  throw invalid(`${name} must be a text, not ${JSON.stringify(value)}.`);
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {string} empty: not given
 */
export function optionalText(params, name) {
  return params[name] === undefined || params[name] === null || params[name] === "" ? "" : text(params, name);
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {boolean} false: not given
 */
export function flag(params, name) {
  const value = params[name] ?? false;
  if (typeof value === "boolean") return value;
  throw invalid(`${name} must be true or false, not ${JSON.stringify(value)}.`);
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {Record<string, unknown>} empty: not given
 */
export function object(params, name) {
  const value = params[name] ?? {};
  if (typeof value === "object" && !Array.isArray(value)) return /** @type {Record<string, unknown>} */ (value);
  throw invalid(`${name} must be an object, not ${JSON.stringify(value).slice(0, 100)}.`);
}

/**
 * @param {Record<string, unknown>} params
 * @param {string} name
 * @returns {string[]} at least one
 */
export function texts(params, name) {
  const value = params[name];
  const isList = Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string");
  if (isList) return /** @type {string[]} */ (value);
  throw invalid(`${name} must be a list of texts.`);
}
