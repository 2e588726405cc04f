/** JSON text of messages on a WebSocket, within the limits of the wire. */

import { readable, tooLarge } from "./host_connection.js";
import { FROM_BROWSER_BYTES, jsonBytes } from "./wire.js";

/** @import { Message } from "./wire.js" */

/** Of a UTF-16 code unit in UTF-8, at most. */
const MOST_BYTES = 3;

/**
 * @param {Message} message
 * @returns {string}
 * @throws {import("./wire.js").WireError} it is too large or nested too deeply
 */
export function encode(message) {
  const body = readable(message);
  const text = JSON.stringify(body);
  if (text.length * MOST_BYTES <= FROM_BROWSER_BYTES) return text;
  const bytes = jsonBytes(body);
  if (bytes > FROM_BROWSER_BYTES) throw tooLarge(bytes);
  return text;
}

/** @param {unknown} data of a WebSocket's message @returns {unknown} undefined: it is no JSON text */
export function decode(data) {
  if (typeof data !== "string") return undefined;
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}
