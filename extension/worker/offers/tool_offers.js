/**
 * Tools of remote servers that clients offer to one document, and the page's calls of them. Of the offers of one server
 * the first is active: the content script registers its tools. The others wait, and take over in their order.
 * Rules: docs/PROTOCOL.md, "browser/offerTools".
 */

import { ConnectionQuota } from "../connection_quota.js";
import { Code, cut, WireError } from "../wire.js";

/**
 * @import { LeftOutTool, OfferedTool } from "./offered_tool.js"
 * @typedef {{ active: boolean, names: string[], leftOut: LeftOutTool[] }} OfferState
 * @typedef {{ connection: string, signal: AbortSignal, onState: (state: OfferState) => void,
 *   call: (name: string, args: unknown, cancelled: AbortSignal) => Promise<any> }} Offerer `signal`: the offer is over;
 *   `call`: runs a tool at the client
 * @typedef {{ server: string, tools: OfferedTool[], leftOut: LeftOutTool[] }} GivenOffer
 * @typedef {Offerer & GivenOffer & { id: number, isReported: boolean, names: string[], calls: number,
 *   end: (error?: WireError) => void }} Offer `isReported`: the content script has answered; `names`: tools that are
 *   registered; `calls`: how many run
 * @typedef {{ type: "tools-offered", server: string, offerId: number, names: string[], leftOut: LeftOutTool[]
 *   }} OfferedMessage content script → worker
 * @typedef {{ type: "tools-rejected", server: string, offerId: number,
 *   error: { code: number, message: string, handed: boolean } }} RejectedMessage none of them can be registered
 * @typedef {{ type: "offered-call", callId: string, server: string, name: string, args: unknown }} OfferedCallMessage
 * @typedef {{ type: "offered-call-cancelled", callId: string }} CallCancelledMessage
 * @typedef {{ type: "offer-tools", server: string, offerId: number, tools: OfferedTool[] }} OfferMessage worker →
 *   content script: register these tools, in place of others of this server
 * @typedef {{ type: "withdraw-tools", server: string }} WithdrawMessage
 * @typedef {{ type: "offered-result", callId: string, text: string }
 *   | { type: "offered-result", callId: string, message: string }} CallResultMessage `message`: of the rejection
 */

/** Offers of a client's connection, in all documents: they count towards the 256 requests that may be in flight. */
const MAX_OFFERS = 64;
const quota = new ConnectionQuota(MAX_OFFERS);
/** Of the content script's id of a call. */
const LONGEST_CALL_ID = 64;
/** Of the reason why a tool is left out. */
const REASON_BYTES = 256;

const ENDED = "The tool is not offered any more: its client has ended the offer. The call may have run.";
const NOT_OFFERED = "The tool is not offered any more. Nothing was run.";
const SENSELESS = "The client's answer makes no sense.";
const TOO_LARGE = "The result is larger than a page can be given.";

export class ToolOffers {
  /** By server: the active offer, then those that wait. @type {Map<string, Offer[]>} */
  #queues = new Map();
  /** Replaced ones of which calls still run. @type {Set<Offer>} */
  #replaced = new Set();
  #offered = 0;
  /** Running calls, by the content script's id. @type {Map<string, AbortController>} */
  #calls = new Map();
  #limits = new PageBounds.CallLimits();

  /**
   * @param {(message: OfferMessage | WithdrawMessage | CallResultMessage) => boolean} post to the content script;
   *   false: the message is too large
   * @param {() => void} changed called when `shown` has changed
   */
  constructor(post, changed) {
    this.post = post;
    this.changed = changed;
  }

  /** What is registered, for the popup. @returns {{ server: string, tools: number }[]} */
  get shown() {
    return [...this.#queues].map(([server, [offer]]) => ({ server, tools: offer?.names.length ?? 0 }));
  }

  /**
   * Offer tools until the document is gone.
   *
   * @param {GivenOffer} given
   * @param {Offerer} offerer
   * @returns {Promise<{}>} at its end; never after `signal` has fired
   * @throws {WireError} the connection has too many, or the document cannot have tools
   */
  offer(given, offerer) {
    const queue = this.#queues.get(given.server) ?? [];
    const index = queue.findIndex(({ connection }) => connection === offerer.connection);
    if (index < 0 && quota.isFull(offerer.connection)) throw tooMany();
    /** @type {PromiseWithResolvers<{}>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    const end = (/** @type {WireError | undefined} */ error) => (error ? reject(error) : resolve({}));
    const offer = { ...given, ...offerer, id: (this.#offered += 1), isReported: false, names: [], calls: 0, end };
    this.#queues.set(given.server, queue);
    offer.signal.addEventListener("abort", () => this.#forget(offer));
    if (index < 0) {
      queue.push(offer);
      quota.take(offer.connection);
    } else {
      this.#retire(queue.splice(index, 1, offer));
    }
    if (queue[0] === offer) this.#activate(offer);
    else offer.onState({ active: false, names: [], leftOut: [] });
    return promise;
  }

  /** The content script has registered what it can. @param {OfferedMessage} message */
  registered({ server, offerId, names, leftOut }) {
    const offer = this.#takeReported(server, offerId);
    if (!offer) return;
    const [own, reported] = [namesOf(offer.tools), new Set(listOf(names))];
    const reasons = new Map(listOf(leftOut).map((each) => [each?.name, cut(String(each?.why), REASON_BYTES)]));
    offer.names = own.filter((name) => reported.has(name));
    const others = own.filter((name) => !reported.has(name));
    const left = [...offer.leftOut, ...others.map((name) => ({ name, why: reasons.get(name) ?? "" }))];
    offer.onState({ active: true, names: offer.names, leftOut: left });
    this.changed();
  }

  /** The document cannot have these tools. @param {RejectedMessage} message @param {WireError} error */
  rejected({ server, offerId }, error) {
    this.#takeReported(server, offerId)?.end(error); // its signal fires next
  }

  /** Run a page's call at the client of the active offer. @param {OfferedCallMessage} message */
  async call({ callId, server, name, args }) {
    if (typeof callId !== "string" || callId.length > LONGEST_CALL_ID || this.#calls.has(callId)) return;
    const fault = this.#limits.begin(args);
    if (fault) return this.#reply(callId, { message: fault });
    const cancelled = new AbortController();
    this.#calls.set(callId, cancelled);
    try {
      this.#reply(callId, await this.#outcome(server, name, args, cancelled.signal));
    } finally {
      this.#calls.delete(callId);
      this.#limits.end();
    }
  }

  /** The page has cancelled a call. @param {CallCancelledMessage} message */
  cancel({ callId }) {
    this.#calls.get(callId)?.abort();
  }

  /** No client may offer the document anything any more. @param {WireError} [why] absent: the document is gone */
  endAll(why) {
    const offers = [...this.#replaced, ...[...this.#queues.values()].flat()];
    if (why) for (const server of this.#queues.keys()) this.post({ type: "withdraw-tools", server });
    for (const queue of this.#queues.values()) for (const { connection } of queue) quota.release(connection);
    this.#queues.clear();
    this.#replaced.clear();
    for (const offer of offers) offer.end(why);
    if (offers.length > 0) this.changed();
  }

  /**
   * @param {string} server
   * @param {string} name
   * @param {unknown} args
   * @param {AbortSignal} cancelled
   * @returns {Promise<{ text: string } | { message: string }>}
   */
  async #outcome(server, name, args, cancelled) {
    const offer = this.#queues.get(server)?.[0];
    if (!offer?.tools.some((tool) => tool.name === name)) return { message: NOT_OFFERED };
    offer.calls += 1;
    try {
      const result = await offer.call(name, args, cancelled);
      return typeof result?.text === "string" ? { text: result.text } : { message: SENSELESS };
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return { message: offer.signal.aborted ? ENDED : error.message };
    } finally {
      offer.calls -= 1;
      if (this.#replaced.has(offer)) this.#retire([offer]);
    }
  }

  /** @param {string} callId @param {{ text: string } | { message: string }} outcome */
  #reply(callId, outcome) {
    if (this.post({ type: "offered-result", callId, ...outcome })) return;
    this.post({ type: "offered-result", callId, message: TOO_LARGE });
  }

  /** The active offer that a content script reports about, which it does once. @param {string} server @param {number} id */
  #takeReported(server, id) {
    const offer = this.#queues.get(server)?.[0];
    if (offer?.id !== id || offer.isReported) return undefined;
    offer.isReported = true;
    return offer;
  }

  /** @param {Offer} offer */
  #activate({ server, id, tools }) {
    this.post({ type: "offer-tools", server, offerId: id, tools });
  }

  /** Replaced ones end with their last call: a call may be the reason why the tools change. @param {Offer[]} offers */
  #retire(offers) {
    for (const offer of offers) {
      if (offer.calls > 0) {
        this.#replaced.add(offer);
      } else {
        this.#replaced.delete(offer);
        offer.end();
      }
    }
  }

  /** Its request is over. @param {Offer} offer */
  #forget(offer) {
    this.#replaced.delete(offer);
    const queue = this.#queues.get(offer.server) ?? [];
    const index = queue.indexOf(offer);
    if (index < 0) return;
    queue.splice(index, 1);
    quota.release(offer.connection);
    const [next] = queue;
    if (!next) {
      this.#queues.delete(offer.server);
      this.post({ type: "withdraw-tools", server: offer.server });
    } else if (index === 0) {
      this.#activate(next);
    }
    this.changed();
  }
}

/** A connection has taken its quota. */
function tooMany() {
  const what = `This client offers tools to ${MAX_OFFERS} documents, which is the limit. End one of these offers.`;
  return new WireError(Code.RATE_LIMITED, what, { handed: false });
}

/** @param {OfferedTool[]} tools */
function namesOf(tools) {
  return tools.map(({ name }) => name);
}

/** @param {unknown} value of a content script @returns {any[]} */
function listOf(value) {
  return Array.isArray(value) ? value : [];
}
