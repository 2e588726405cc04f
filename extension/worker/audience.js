/**
 * Connections that receive announcements: to a native host, to a WebSocket proxy, or to both. Each is one from when it
 * has received the whole state. It keeps no state of its own.
 */

/**
 * @import { Message } from "./wire.js"
 * @typedef {{ name: string, ended: AbortSignal, post: (message: Message) => void }} Link a connection that clients are
 *   reached over; `name`: the way that it takes; `post` drops a message after the end
 */

export class Audience {
  /** @type {Set<Link>} */
  #links = new Set();

  /** @param {(link: Link) => void} introduce posts what else belongs to the whole state, without waiting for anything */
  constructor(introduce) {
    this.introduce = introduce;
  }

  /**
   * Send a connection the whole state; it receives each change from then on.
   *
   * @param {Link} link
   * @param {Message} first
   */
  admit(link, first) {
    if (link.ended.aborted) return;
    link.post(first);
    this.introduce(link);
    this.#links.add(link);
    link.ended.addEventListener("abort", () => this.#links.delete(link));
  }

  /** Return whether no connection receives announcements. */
  get isEmpty() {
    return this.#links.size === 0;
  }

  /** @param {Message} message @throws {import("./wire.js").WireError} it cannot be carried */
  post(message) {
    for (const link of this.#links) link.post(message);
  }
}
