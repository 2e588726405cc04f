/**
 * Pacing of updates of resources: the newest of each watched resource is never lost, and a page that reports many is not
 * passed on as fast.
 */

/** Between two reports about one watched resource: 9 in a second, below the limit of the wire. */
const UPDATES_APART_MS = 110;
/** Resources whose updates wait to be reported, as many as a frame offers; more than that are dropped. */
const WAITING_UPDATES = 1024;

var ResourceUpdates = class {
  /** By watched resource: the newest URI since the last report; empty: none. @type {Map<string, string>} */
  #waiting = new Map();

  /** @param {(uri: string, watched: string) => void} report */
  constructor(report) {
    this.report = report;
  }

  /** A resource has changed. @param {string} uri @param {string} [watched] which it is, or is a part of */
  add(uri, watched = uri) {
    if (this.#waiting.has(watched)) return void this.#waiting.set(watched, uri);
    if (this.#waiting.size >= WAITING_UPDATES) return;
    this.#waiting.set(watched, "");
    this.report(uri, watched);
    setTimeout(() => this.#passed(watched), UPDATES_APART_MS);
  }

  /** @param {string} watched */
  #passed(watched) {
    const newest = this.#waiting.get(watched);
    this.#waiting.delete(watched);
    if (newest) this.add(newest, watched);
  }
}
globalThis.ResourceUpdates = ResourceUpdates;
