/**
 * The last error of a connection to a native host, and how many hosts have exited. The browser reports both only to the
 * extension, so the next hello carries them to `mcpb doctor` and `mcpb status`. Kept in `chrome.storage.session`, since the browser stops the worker while there
 * is no host.
 */

import { cut, TROUBLE_BYTES } from "./wire.js";

/**
 * @typedef {{ attempts: number, reason: string, at: number }} Failed as the wire has it
 * @typedef {{ count: number, reason: string, at: number }} Exits as the wire has it
 */

const KEY = "lastTrouble";
/** Firefox gives no reason for a host that ended. */
const NO_REASON = "The native host has ended.";

export class LastError {
  /** Stays when a host is there again. @type {Failed | null} */
  newest = null;
  /** How often it came to nothing since a host last said hello. */
  inARow = 0;
  /** Of hosts that had said hello. @type {Exits | null} */
  exits = null;

  /** Read the error that an earlier worker has kept. */
  async load() {
    const stored = /** @type {any} */ ((await chrome.storage.session.get(KEY))[KEY]);
    if (stored) ({ newest: this.newest, inARow: this.inARow, exits: this.exits = null } = stored);
  }

  /** Another attempt, or a connection, has come to nothing. @param {string} reason the browser's words, or the host's */
  failed(reason) {
    this.inARow += 1;
    this.newest = { attempts: this.inARow, reason: cut(reason || NO_REASON, TROUBLE_BYTES), at: Date.now() };
    this.#keep();
  }

  /** A host that had said hello has ended. @param {string} reason the browser's words */
  exited(reason) {
    this.failed(reason);
    const { reason: text, at } = /** @type {Failed} */ (this.newest);
    this.exits = { count: (this.exits?.count ?? 0) + 1, reason: text, at };
    this.#keep();
  }

  /** A host is there. */
  ended() {
    if (this.inARow === 0) return;
    this.inARow = 0;
    this.#keep();
  }

  /** Keep it for a later worker. */
  #keep() {
    const { newest, inARow, exits } = this;
    void chrome.storage.session.set({ [KEY]: { newest, inARow, exits } });
  }
}
