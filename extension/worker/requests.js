/**
 * Requests of clients: routed to a command, answered on the connection that they came over, and cancelled with it or by
 * their client. A running command may ask its client something in turn.
 */

import { connectionKey, connectionOf } from "./clients.js";
import { Code, notification, WireError } from "./wire.js";

/**
 * @import { Message } from "./wire.js"
 * @import { Link } from "./audience.js"
 * @import { Questions } from "./client_requests.js"
 * @typedef {{ id: string, connection: string, signal: AbortSignal, notify: (method: string, params: object) => void,
 *   ask: (method: string, params: object, cancelled: AbortSignal, isTimed?: boolean) => Promise<any> }} Asked `id`,
 *   `connection` (the client's): distinct on all ways; `notify` and `ask` speak to the asker alone; `isTimed` is false
 *   where the client sets the time limit; `signal` fires when it is over, however it ended
 * @typedef {(params: any, asked: Asked) => Promise<object> | object} Command
 * @typedef {(link: Link, connection: { id: string, key: string }, method: string, params: any) => any} Prepare makes the
 *   parameters of a request complete, or throws a WireError; `id`: of the client's connection on the wire; `key`: distinct
 *   on all ways
 * @typedef {{ commands: Record<string, Command>, prepare: Prepare }} Way that requests come; `commands`: by method
 * @typedef {{ tabId: number | undefined, session: string }} Running `session`: empty if the request names none
 */

/** Requests that only wait for events: they last as long as their client. */
const WATCHES = new Set(["browser/approvals", "browser/offerTools", "browser/watchResource", "subscribeCDP"]);

export class Calls {
  /** @type {WeakMap<Link, Map<string | number, AbortController>>} */
  #running = new WeakMap();
  /** Requests under way, without those that only wait for news. @type {Set<Running>} */
  running = new Set();

  /**
   * @param {Record<string, Way>} ways by the name of the link
   * @param {Questions} questions
   * @param {() => void} changed called when `running` has changed
   */
  constructor(ways, questions, changed) {
    this.ways = ways;
    this.questions = questions;
    this.changed = changed;
  }

  /**
   * Answer a request.
   *
   * @param {Link} link
   * @param {Message & { id: string | number, method: string }} request
   */
  async serve(link, { id, method, params: given }) {
    const running = this.#runningOn(link);
    if (running.has(id)) return post(link, { jsonrpc: "2.0", id, error: inFlight().toWire() });
    const call = new AbortController();
    const { params, rejection } = this.#prepared(link, String(id), method, given ?? {});
    if (rejection) return post(link, { jsonrpc: "2.0", id, error: rejection });
    const ended = WATCHES.has(method) ? () => {} : this.#began(params);
    running.set(id, call);
    const answer = await this.#outcome(link, String(id), method, params, call.signal);
    running.delete(id);
    ended();
    if (!call.signal.aborted) post(link, { jsonrpc: "2.0", id, ...answer });
    call.abort();
  }

  /**
   * @param {Link} link
   * @param {string} id
   * @param {string} method
   * @param {any} given
   * @returns {{ params: any, rejection: object | null }}
   */
  #prepared(link, id, method, given) {
    const connection = { id: connectionOf(id), key: connectionKey(link, connectionOf(id)) };
    try {
      return { params: this.#wayOf(link).prepare(link, connection, method, given), rejection: null };
    } catch (error) {
      return { params: given, rejection: asWireError(error).toWire() };
    }
  }

  /** @param {Link} link @returns {Way} */
  #wayOf(link) {
    return /** @type {Way} */ (this.ways[link.name]);
  }

  /** @param {any} params of a request that runs now @returns {() => void} to be called at its end */
  #began({ tabId, session }) {
    const running = { tabId: Number.isInteger(tabId) ? tabId : undefined, session: String(session ?? "") };
    this.running.add(running);
    this.changed();
    return () => {
      this.running.delete(running);
      this.changed();
    };
  }

  /** Give a request up: no answer follows. @param {Link} link @param {string | number} id */
  cancel(link, id) {
    this.#running.get(link)?.get(id)?.abort();
  }

  /** A client has gone: give its requests up. @param {Link} link @param {string} connection */
  abandon(link, connection) {
    for (const [id, call] of this.#running.get(link) ?? []) if (connectionOf(String(id)) === connection) call.abort();
  }

  /**
   * @param {Link} link
   * @param {string} id
   * @param {string} method
   * @param {object} params
   * @param {AbortSignal} signal
   * @returns {Promise<{ result: object } | { error: object }>}
   */
  async #outcome(link, id, method, params, signal) {
    const { commands } = this.#wayOf(link);
    const command = Object.hasOwn(commands, method) ? commands[method] : undefined;
    if (!command) return { error: unknown(method).toWire() };
    const notify = (/** @type {string} */ name, /** @type {object} */ about) => {
      if (!signal.aborted) post(link, { ...notification(name, about), for: id });
    };
    /** @type {Asked["ask"]} */
    const ask = (name, about, cancelled, isTimed) =>
      this.questions.ask(link, id, { method: name, params: about, isTimed }, { over: signal, cancelled });
    try {
      const names = { id: connectionKey(link, id), connection: connectionKey(link, connectionOf(id)) };
      const asked = { ...names, signal, notify, ask };
      return { result: await Promise.race([command(params, asked), givenUp(signal)]) };
    } catch (error) {
      return { error: asWireError(error).toWire() };
    }
  }

  /** @param {Link} link */
  #runningOn(link) {
    const known = this.#running.get(link);
    if (known) return known;
    /** @type {Map<string | number, AbortController>} */
    const running = new Map();
    this.#running.set(link, running);
    link.ended.addEventListener("abort", () => {
      for (const call of running.values()) call.abort();
    });
    return running;
  }
}

/** Settles when the request is cancelled. @param {AbortSignal} signal @returns {Promise<object>} */
function givenUp(signal) {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve({})));
}

/**
 * @param {Link} link
 * @param {Message} message
 */
function post(link, message) {
  try {
    link.post(message);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    if (message.id !== undefined) link.post({ jsonrpc: "2.0", id: message.id, error: error.toWire() });
  }
}

/** It would take the place of the first one, which then could not be ended. */
function inFlight() {
  return new WireError(Code.INVALID_REQUEST, "A request with this id is in flight.", { handed: false });
}

/** @param {string} method */
function unknown(method) {
  return new WireError(Code.METHOD_NOT_FOUND, `This version of the extension does not know ${method}.`, {
    handed: false,
  });
}

/** An internal error is reported without its text, which may quote a page. @param {unknown} error */
function asWireError(error) {
  if (error instanceof WireError) return error;
  console.error(error);
  return new WireError(Code.INTERNAL_ERROR, "The extension failed; its error page in the browser says why.", {
    handed: true,
  });
}
