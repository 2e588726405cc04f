/** Requests to the client of a request, with their deadlines. */

import { Code, notification, WireError } from "./wire.js";

/**
 * @import { Link } from "./audience.js"
 * @import { Message } from "./wire.js"
 * @typedef {{ resolve: (result: any) => void, reject: (error: WireError) => void }} Waiting
 */

/** Seconds that a client has to answer. */
export const QUESTION_SECONDS = 120;

export class Questions {
  #asked = 0;
  /** By our id, on the link that it was asked over. @type {WeakMap<Link, Map<string, Waiting>>} */
  #open = new WeakMap();

  /**
   * Ask the client of a request. A question that the client need not answer any more, though the request goes on, is
   * cancelled there.
   *
   * @param {Link} link
   * @param {string} request its id
   * @param {{ method: string, params: object, isTimed?: boolean }} question `isTimed`: the client has QUESTION_SECONDS
   * @param {{ over: AbortSignal, cancelled: AbortSignal }} signals `over`: the request has ended, and the question
   *   with it; `cancelled`: the page does not need the answer any more
   * @returns {Promise<any>} the result
   * @throws {WireError} it was answered with an error, or not at all
   */
  async ask(link, request, { method, params, isTimed = true }, { over, cancelled }) {
    const id = `ext:${(this.#asked += 1)}`;
    const open = this.#openOn(link);
    /** @type {PromiseWithResolvers<any>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    const ended = () => reject(unanswered(Code.GONE, "The call has ended, so the answer is not needed any more."));
    const stop = (/** @type {WireError} */ why) => {
      link.post({ ...notification("browser/cancelled", { id }), for: request });
      reject(why);
    };
    const late = () => stop(unanswered(Code.TIMED_OUT, `The client did not answer within ${QUESTION_SECONDS} s.`));
    const withdrawn = () => stop(unanswered(Code.GONE, "The request was cancelled."));
    const timer = isTimed ? setTimeout(late, QUESTION_SECONDS * 1000) : undefined;
    over.addEventListener("abort", ended);
    cancelled.addEventListener("abort", withdrawn);
    open.set(id, { resolve, reject });
    try {
      link.post({ jsonrpc: "2.0", id, method, for: request, params });
      return await promise;
    } finally {
      open.delete(id);
      clearTimeout(timer);
      over.removeEventListener("abort", ended);
      cancelled.removeEventListener("abort", withdrawn);
    }
  }

  /**
   * Handle a response; one without a request is dropped.
   *
   * @param {Link} link
   * @param {Message} answer
   * @returns {boolean} whether a request was open
   */
  answered(link, { id, result, error }) {
    const waiting = this.#openOn(link).get(String(id));
    if (!waiting) return false;
    if (error === undefined) waiting.resolve(result);
    else waiting.reject(unanswered(error?.code, String(error?.message ?? "The client did not answer.")));
    return true;
  }

  /** @param {Link} link */
  #openOn(link) {
    const open = this.#open.get(link) ?? new Map();
    this.#open.set(link, open);
    return open;
  }
}

/**
 * @param {unknown} code
 * @param {string} message
 */
function unanswered(code, message) {
  return new WireError(Number.isInteger(code) ? Number(code) : Code.INTERNAL_ERROR, message, { handed: true });
}
