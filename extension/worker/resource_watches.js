/**
 * Resources of one document that clients watch. The page's server gets one `resources/subscribe` for each URI, for
 * the first watch, and one `resources/unsubscribe` after the last one.
 */

import "../content/resource_updates.js";
import { ConnectionQuota } from "./connection_quota.js";
import { Code, WireError } from "./wire.js";

/**
 * @typedef {{ connection: string, signal: AbortSignal, onActive: () => void, onUpdated: (uri: string) => void }} Watcher
 *   `onActive`: changes are reported from now on
 * @typedef {Watcher & { end: (error?: WireError) => void, updates: InstanceType<typeof ResourceUpdates> }} Watch
 * @typedef {{ isActive: boolean, watches: Set<Watch> }} Watched
 */

/** Watched URIs of a document. */
const MAX_URIS = 64;
/** Watches of a client's connection, in all documents: half of the 256 requests that may be in flight. */
const MAX_WATCHES = 128;
const quota = new ConnectionQuota(MAX_WATCHES);

export class ResourceWatches {
  /** By URI. @type {Map<string, Watched>} */
  #watched = new Map();

  /**
   * @param {(type: "watch-resource" | "unwatch-resource", uri: string) => void} tell the content script
   */
  constructor(tell) {
    this.tell = tell;
  }

  /**
   * Watch a resource until its document or server is gone.
   *
   * @param {string} uri the page's own
   * @param {Watcher} watcher
   * @returns {Promise<{}>} at its end; never after `signal` has fired
   * @throws {WireError} too many are watched, or the page's server rejects it
   */
  watch(uri, watcher) {
    this.#checkRoom(uri, watcher.connection);
    /** @type {PromiseWithResolvers<{}>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    const watched = this.#watched.get(uri) ?? this.#begin(uri);
    const updates = new ResourceUpdates((changed) => watched.watches.has(watch) && watcher.onUpdated(changed));
    /** @type {Watch} */
    const watch = { ...watcher, updates, end: (error) => (error ? reject(error) : resolve({})) };
    watched.watches.add(watch);
    quota.take(watcher.connection);
    if (watched.isActive) watcher.onActive();
    watcher.signal.addEventListener("abort", () => this.#forget(uri, watched, watch));
    return promise;
  }

  /** The content script hears its changes now. @param {string} uri */
  activated(uri) {
    const watched = this.#watched.get(uri);
    if (!watched || watched.isActive) return;
    watched.isActive = true;
    for (const watch of watched.watches) watch.onActive();
  }

  /** A resource cannot be watched. @param {string} uri @param {WireError} why */
  rejected(uri, why) {
    this.#end(uri, why);
  }

  /** A resource has changed. @param {string} uri @param {string} whole the watched one, which it is or is a part of */
  updated(uri, whole) {
    if (uri.length > PageBounds.URI_CHARS || !PageBounds.isPartOf(uri, whole)) return;
    for (const watch of this.#watched.get(whole)?.watches ?? []) watch.updates.add(uri, whole);
  }

  /** The server of a resource reports changes no more: it has stopped. @param {string} uri */
  ended(uri) {
    this.#end(uri);
  }

  /** No client may watch the document any more. */
  endAll() {
    for (const uri of [...this.#watched.keys()]) {
      this.tell("unwatch-resource", uri);
      this.#end(uri);
    }
  }

  /** @param {string} uri @param {string} connection */
  #checkRoom(uri, connection) {
    if (!this.#watched.has(uri) && this.#watched.size >= MAX_URIS) {
      throw tooMany(`${MAX_URIS} resources of this page are watched, which is the limit. End one of these watches.`);
    }
    if (quota.isFull(connection)) {
      throw tooMany(`This client watches ${MAX_WATCHES} resources, which is the limit. End one of its watches.`);
    }
  }

  /** @param {string} uri */
  #begin(uri) {
    /** @type {Watched} */
    const watched = { isActive: false, watches: new Set() };
    this.#watched.set(uri, watched);
    this.tell("watch-resource", uri);
    return watched;
  }

  /** @param {string} uri @param {WireError} [error] */
  #end(uri, error) {
    const watched = this.#watched.get(uri);
    this.#watched.delete(uri);
    for (const watch of watched?.watches ?? []) watch.end(error);
  }

  /** Its request is over. @param {string} uri @param {Watched} watched @param {Watch} watch */
  #forget(uri, watched, watch) {
    if (!watched.watches.delete(watch)) return;
    quota.release(watch.connection);
    if (watched.watches.size > 0 || this.#watched.get(uri) !== watched) return;
    this.#watched.delete(uri);
    this.tell("unwatch-resource", uri);
  }
}

/** @param {string} message */
function tooMany(message) {
  return new WireError(Code.RATE_LIMITED, message, { handed: false });
}
