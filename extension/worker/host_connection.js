/**
 * One connection to one native host, from `connectNative` to its end. A call is answered only on the connection that it
 * came over.
 */

import { decodable, TooDeepError } from "./json_safety.js";
import { endOf, isFirefox } from "./firefox.js";
import { Code, FROM_BROWSER_BYTES, HOST_NAME, jsonBytes, WireError } from "./wire.js";

/** @import { Message } from "./wire.js" */

export class HostConnection {
  /** Of this way, among the connections that clients are reached over. */
  name = "native";
  #port = chrome.runtime.connectNative(HOST_NAME);
  #end = new AbortController();

  /**
   * @param {(link: HostConnection, message: any) => void} received
   * @param {(link: HostConnection, reason: string) => void} ended with the browser's own words, or empty
   */
  constructor(received, ended) {
    this.#port.onMessage.addListener((message) => received(this, message));
    this.#port.onDisconnect.addListener(() => {
      const reason = endOf(this.#port);
      this.#end.abort();
      ended(this, reason);
    });
  }

  /** Aborted when the host is gone. */
  get ended() {
    return this.#end.signal;
  }

  /** End it from our side; the host sees the end of its input. No `ended` follows. */
  close() {
    this.#end.abort();
    this.#port.disconnect();
  }

  /**
   * Send a message; after the end of the link it is dropped.
   *
   * @param {Message} message
   * @throws {WireError} it cannot be carried: too large or nested too deeply
   */
  post(message) {
    if (this.ended.aborted) return;
    const body = readable(message);
    if (isFirefox) checkSize(body); // it would hand on what the host cannot take
    try {
      this.#port.postMessage(body);
    } catch (error) {
      // The port may be gone before its onDisconnect has been delivered.
      if (!isTooLarge(error)) return;
      throw tooLarge(jsonBytes(body));
    }
  }
}

/**
 * The message as any decoder can read it.
 *
 * @param {Message} message
 * @throws {WireError} it is nested too deeply
 */
export function readable(message) {
  try {
    return decodable(message);
  } catch (error) {
    if (!(error instanceof TooDeepError)) throw error;
    throw new WireError(Code.TOO_LARGE, `The message is ${error.message}, which is the most that can be passed on.`, {
      handed: true,
    });
  }
}

/** @param {Message} body */
function checkSize(body) {
  const bytes = jsonBytes(body);
  if (bytes > FROM_BROWSER_BYTES) throw tooLarge(bytes);
}

/** Whether a port refused a message for its size. @param {unknown} error */
export function isTooLarge(error) {
  return error instanceof Error && error.message.includes("exceeded maximum allowed size");
}

/** @param {number} bytes of a message */
export function tooLarge(bytes) {
  return new WireError(
    Code.TOO_LARGE,
    `The result has ${bytes} bytes; at most ${FROM_BROWSER_BYTES} can be passed on. Ask for less.`,
    { handed: true },
  );
}
