/**
 * The last error of a connection to a native host. The browser reports such errors only to the extension, so the next
 * hello carries it to `mcpb doctor`. Kept in `chrome.storage.session`, since the browser stops the worker while there
 * is no host.
 */

import { cut, TROUBLE_BYTES } from "./wire.js";

/** @typedef {{ attempts: number, reason: string, at: number }} Failed as the wire has it */

const KEY = "lastTrouble";
/** Firefox gives no reason for a host that ended. */
const NO_REASON = "The native host has ended.";

export class LastError {
  /** Stays when a host is there again. @type {Failed | null} */
  newest = null;
  /** How often it came to nothing since a host last said hello. */
  inARow = 0;

  /** Read the error that an earlier worker has kept. */
  async load() {
    const stored = /** @type {any} */ ((await chrome.storage.session.get(KEY))[KEY]);
    if (stored) ({ newest: this.newest, inARow: this.inARow } = stored);
  }

  /** Another attempt, or a connection, has come to nothing. @param {string} reason the browser's words, or the host's */
  failed(reason) {
    this.inARow += 1;
    this.newest = { attempts: this.inARow, reason: cut(reason || NO_REASON, TROUBLE_BYTES), at: Date.now() };
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
    const { newest, inARow } = this;
    void chrome.storage.session.set({ [KEY]: { newest, inARow } });
  }
}
