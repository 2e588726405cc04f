/**
 * One WebSocket to a WebSocket proxy, from its opening to its end. Messages are whole: there are no chunks. It connects
 * once; websocket_proxy.js connects again.
 */

import { stayAwake } from "./firefox.js";
import { decode, encode } from "./json_text.js";

/** @import { Message } from "./wire.js" */

/** The proxy sends a message every 20 s; a socket that is silent for longer is dead, whatever the browser says of it. */
const SILENCE_MS = 50_000;
const NORMAL_CLOSURE = 1000;
/** Code of a socket that ended without a close frame, as the browser has it. */
export const ABNORMAL_CLOSURE = 1006;

export class WebSocketConnection {
  /** Of this way, among the connections that clients are reached over. */
  name = "proxy";
  /** @type {WebSocket} */
  #socket;
  #end = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #silence;

  /**
   * @param {string} url
   * @param {(link: WebSocketConnection, message: any) => void} received
   * @param {(link: WebSocketConnection, code: number, reason: string) => void} ended
   */
  constructor(url, received, ended) {
    this.#socket = new WebSocket(url);
    this.ended = this.#end.signal;
    const end = (/** @type {number} */ code, /** @type {string} */ reason) => {
      if (this.ended.aborted) return;
      this.close();
      ended(this, code, reason);
    };
    const listen = () => {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => end(ABNORMAL_CLOSURE, ""), SILENCE_MS);
    };
    this.#socket.addEventListener("message", ({ data }) => {
      listen();
      stayAwake();
      const message = decode(data);
      if (message !== undefined && !this.ended.aborted) received(this, message);
    });
    this.#socket.addEventListener("close", ({ code, reason }) => end(code, reason));
    listen();
  }

  /** End it from our side. No `ended` follows. */
  close() {
    clearTimeout(this.#silence);
    this.#end.abort();
    this.#socket.close(NORMAL_CLOSURE);
  }

  /**
   * Send a message; before the socket is open and after its end it is dropped.
   *
   * @param {Message} message
   * @throws {import("./wire.js").WireError} it cannot be carried: too large or nested too deeply
   */
  post(message) {
    if (this.ended.aborted || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(encode(message));
  }
}
