/**
 * Limit for DevTools events of one tab. A page can cause them faster than a client reads, and a client that falls too
 * far behind is disconnected with all its calls. Events over the limit are left out and counted.
 */

import { jsonBytes } from "./wire.js";

/** @import { CdpEvent } from "./devtools_tab.js" */

const MIB = 1024 * 1024;
const LONGEST_BYTES = MIB;
const EVENTS_PER_SECOND = 4_000;
const BYTES_PER_SECOND = 16 * MIB;
/** They report the state of a tab; a page cannot cause many of them. */
const STATE = /^(Inspector|Page|Target)\./;
/** Ours: in the place of what was left out. */
const DROPPED = "mcpb.eventDropped";

export class EventRoom {
  #secondEnds = 0;
  #events = 0;
  #bytes = 0;
  #dropped = 0;
  /** About the last that was left out. @type {CdpEvent | null} */
  #notice = null;
  #mayTell = true;

  /**
   * @param {CdpEvent} event
   * @param {number} now in milliseconds
   * @returns {CdpEvent[]} what to tell: the event, or that it was left out, or nothing; before it what is still to be
   *   said of earlier ones
   */
  admit(event, now) {
    if (now >= this.#secondEnds) this.#begin(now);
    const bytes = jsonBytes(event.params);
    const fits = this.#fits(event.method, bytes);
    if (!fits) this.#count(event, bytes);
    const notices = this.#untold();
    return fits ? [...notices, event] : notices;
  }

  /** @param {number} now */
  #begin(now) {
    this.#secondEnds = now + 1000;
    this.#events = 0;
    this.#bytes = 0;
    this.#mayTell = true;
  }

  /** @param {string} method @param {number} bytes */
  #fits(method, bytes) {
    if (bytes > LONGEST_BYTES) return false;
    if (STATE.test(method)) return true;
    if (this.#events + 1 > EVENTS_PER_SECOND || this.#bytes + bytes > BYTES_PER_SECOND) return false;
    this.#events += 1;
    this.#bytes += bytes;
    return true;
  }

  /** @param {CdpEvent} event @param {number} bytes */
  #count({ tabId, sessionId, method }, bytes) {
    this.#dropped += 1;
    this.#notice = { tabId, sessionId, method: DROPPED, params: { method, bytes, dropped: this.#dropped } };
  }

  /** What is to be said of those that were left out: once a second. */
  #untold() {
    if (!this.#notice || !this.#mayTell) return [];
    const notice = this.#notice;
    this.#mayTell = false;
    this.#notice = null;
    return [notice];
  }
}
