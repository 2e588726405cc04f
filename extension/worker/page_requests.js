/**
 * Requests that a page sends to the client of a call: which are sent, how many, and what the page gets of a result.
 * Rules: docs/PROTOCOL.md, "browser/pageRequest".
 */

import { invalid } from "./params.js";
import { Code, WireError } from "./wire.js";

/**
 * @typedef {{ method: string, params: object }} Request
 * @typedef {(request: Request, cancelled: AbortSignal) => Promise<any>} SendRequest returns the client's result
 */

const MAX_OPEN = 4;
const MAX_PER_CALL = 20;
const MAX_ELICITATIONS = 8;

/** Those of one call. */
export class PageRequests {
  #open = 0;
  #left = MAX_PER_CALL;
  #elicitationsLeft = MAX_ELICITATIONS;

  /** @param {SendRequest} send */
  constructor(send) {
    this.sendToClient = send;
  }

  /**
   * Send a request of the page.
   *
   * @param {{ method: unknown, params: unknown }} given as the content script sent it
   * @param {AbortSignal} cancelled the page has cancelled it
   * @returns {Promise<object>} what the page gets
   * @throws {WireError} it was not sent, or has failed; the text is for the page
   */
  async send(given, cancelled) {
    const isElicitation = given.method === PageBounds.ELICITATION;
    this.#check(isElicitation);
    const request = readRequest(given);
    this.#left -= 1;
    if (isElicitation) this.#elicitationsLeft -= 1;
    this.#open += 1;
    try {
      const result = await this.sendToClient(request, cancelled);
      if (!PageBounds.isObject(result)) throw senseless();
      return isElicitation ? this.#readElicitResult(result) : result;
    } finally {
      this.#open -= 1;
    }
  }

  /** @param {boolean} isElicitation */
  #check(isElicitation) {
    if (this.#open === MAX_OPEN) throw rejected(`A call may have ${MAX_OPEN} open requests to its client.`);
    if (this.#left === 0) throw rejected(`A call may send ${MAX_PER_CALL} requests to its client.`);
    if (!isElicitation || this.#elicitationsLeft > 0) return;
    throw rejected(`A call may send ${MAX_ELICITATIONS} elicitations, and none once the user has cancelled one.`);
  }

  /** @param {Record<string, unknown>} result */
  #readElicitResult({ action, content }) {
    if (action !== "accept" && action !== "decline" && action !== "cancel") throw senseless();
    if (action === "cancel") this.#elicitationsLeft = 0;
    return { action, ...(PageBounds.isObject(content) && { content }) };
  }
}

/**
 * The request to the client.
 *
 * @param {{ method: unknown, params: unknown }} given
 * @returns {Request}
 */
function readRequest({ method, params: given }) {
  if (typeof method !== "string" || !PageBounds.REQUESTS.includes(method)) {
    throw new WireError(Code.METHOD_NOT_FOUND, "A page cannot request this of a client.", { handed: false });
  }
  const { params, fault } = PageBounds.fitRequest(method, given);
  if (!params) throw invalid(fault);
  if (method === PageBounds.ELICITATION) return { method: "browser/elicitConfirmation", params };
  return { method: "browser/pageRequest", params: { method, params } };
}

/** @param {string} message */
function rejected(message) {
  return new WireError(Code.INVALID_REQUEST, message, { handed: false });
}

/** The client has answered with what is no result. */
function senseless() {
  return new WireError(Code.INTERNAL_ERROR, "The client's answer makes no sense.", { handed: true });
}
