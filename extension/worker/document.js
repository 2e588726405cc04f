/**
 * One document that offers tools, behind its content script's port, and the calls that run in it. Where it lives is
 * read from the port's sender alone; what a content script says about itself is not believed, since a page may have
 * got at it.
 *
 * Between content script and worker, on the port named `FRAME_PORT`:
 *
 * @typedef {{ type: "register-tools" | "tools-updated", tools: unknown[], prompts?: unknown[],
 *   resourceTemplates?: unknown[], resources?: unknown[], via: Record<string, unknown>,
 *   leftOut: Record<string, number>, delegated?: boolean, serverInfo?: object, capabilities?: object }} ToolsMessage
 *   content script → worker, whole lists; `leftOut`: how many entries are not in them, for their size; `delegated`: the
 *   frame has the permission policy `tools`
 * @typedef {{ type: "tool-result", requestId: string, data: { success: boolean, payload: any } }} ResultMessage
 * @typedef {{ type: "tool-result", requestId: string, error: { code: number, message: string, handed: boolean } }
 *   } FailureMessage
 * @typedef {{ type: "tool-submitted", requestId: string }} SubmittedMessage the tool is a form, which the page receives
 *   now; a navigation that follows is its outcome
 * @typedef {{ type: "tool-progress", requestId: string, progress: number, total?: number, message?: string }
 *   } ProgressMessage
 * @typedef {{ type: "resource-watched" | "resource-unwatched", uri: string }
 *   | { type: "resource-rejected", uri: string, error: { code: number, message: string, handed: boolean } }
 *   | { type: "resource-updated", uri: string, watched: string }} WatchMessage `resource-watched`: its changes are
 *   reported from now on; `resource-unwatched`: they are not any more; `resource-updated`: `uri` has changed, which is
 *   `watched` or a part of it
 * @typedef {{ type: "page-notification", method: string, params?: object, dropped?: number }} PageNotificationMessage
 *   `dropped`: how many before it were too much
 * @typedef {{ type: "frame-visible" }} VisibleMessage
 * @typedef {{ type: "page-question", questionId: string, method: string, params: object }} QuestionMessage the page
 *   requests something of the client of the call that runs in it
 * @typedef {{ type: "page-question-cancelled", questionId: string }} QuestionCancelledMessage answered as well
 * @typedef {{ type: "find-parent" }} FindParentMessage the parent's script asks who we are: iframe_servers.js
 * @typedef {{ type: "child-frame", nonce: string }} ChildMessage a child frame has sent this
 * @typedef {{ type: "to-server", payload: any }} ToServerMessage
 * @typedef {{ type: "from-child", nonce: string, payload: any }} FromChildMessage
 * @typedef {ToolsMessage | ResultMessage | FailureMessage | SubmittedMessage | ProgressMessage | WatchMessage
 *   | PageNotificationMessage | VisibleMessage | QuestionMessage | QuestionCancelledMessage | FindParentMessage
 *   | ChildMessage | ToServerMessage | FromChildMessage | OfferedMessage | RejectedMessage | OfferedCallMessage
 *   | CallCancelledMessage } FrameMessage the last four: offers/tool_offers.js
 * @typedef {{ type: "execute-tool", requestId: string, toolName: string, args: any, wantsProgress: boolean }
 *   } ExecuteMessage worker → content script
 * @typedef {{ type: "ask-server", requestId: string, method: string, params: any, wantsProgress: boolean }
 *   } AskMessage answered by `tool-result`; where it failed, its payload is the JSON-RPC error
 * @typedef {{ type: "watch-resource" | "unwatch-resource", uri: string }} WatchCommand
 * @typedef {{ type: "cancel-tool", requestId: string }} CancelMessage
 * @typedef {{ type: "host-status", missing: boolean }} StatusMessage
 * @typedef {{ type: "question-answer", questionId: string, result?: object,
 *   error?: { code: number, message: string } }} AnswerMessage one of the two
 * @typedef {{ type: "frame-nonce", nonce: string }} NonceMessage to be said to the parent window
 * @typedef {{ type: "frame-hosted", hosted: boolean }} HostedMessage the parent's script speaks to our server for us
 * @typedef {{ type: "to-child", nonce: string, origin: string, payload: any }} ToChildMessage
 * @typedef {{ type: "from-server", payload: any }} FromServerMessage
 * @typedef {ExecuteMessage | AskMessage | WatchCommand | CancelMessage | StatusMessage | AnswerMessage | NonceMessage
 *   | HostedMessage | ToChildMessage | FromServerMessage | OfferMessage | WithdrawMessage | CallResultMessage
 *   } WorkerMessage the last three: offers/tool_offers.js
 * A content script without a port also listens for `{ type: "dial" }` sent to its tab.
 */

import { waitSubmissionOutcome } from "./form_submission.js";
import { isTooLarge } from "./host_connection.js";
import { PageRequests } from "./page_requests.js";
import { ResourceWatches } from "./resource_watches.js";
import { ToolOffers } from "./offers/tool_offers.js";
import { fitLabel, fitOffer } from "./tool_list.js";
import { Code, cut, jsonBytes, URL_BYTES, WireError } from "./wire.js";

const { isObject } = PageBounds;

/**
 * @import { CallCancelledMessage, CallResultMessage, OfferedCallMessage, OfferedMessage, OfferMessage,
 *   RejectedMessage, WithdrawMessage } from "./offers/tool_offers.js"
 * @import { SendRequest } from "./page_requests.js"
 * @import { Lists, Via } from "./wire.js"
 * @typedef {Lists & { via: Record<string, Via>, serverInfo?: object, capabilities?: object, notice?: string }} Offer
 * @typedef {{ progress: number, total?: number, message?: string }} Progress
 * @typedef {{ success: boolean, payload: any }} Executed
 * @typedef {(progress: Progress) => void} OnProgress
 * @typedef {{ id: string, signal: AbortSignal, onProgress: OnProgress, onQuestion: SendRequest }} Asked
 * @typedef {{ resolve: (executed: Executed | Promise<Executed>) => void, reject: (error: WireError) => void,
 *   isOfServer: boolean, isSubmitted: boolean, requests: PageRequests, onProgress: OnProgress,
 *   pace: InstanceType<typeof PageBounds.Pace> }} Call `isOfServer`: a request to the page's server, and no tool;
 *   `isSubmitted`: its form has reached the page; `requests`: those of the page to the client
 */

export const FRAME_PORT = "mcpb-frame";
/** What content scripts may fail a call or a watch with. @type {Set<number>} */
const CONTENT_CODES = new Set([
  Code.INVALID_PARAMS,
  Code.TIMED_OUT,
  Code.TOO_LARGE,
  Code.NAVIGATED,
  Code.NO_LONGER_OFFERED,
]);
/** Of what a content script calls its question. */
const LONGEST_QUESTION_ID = 64;

const ABANDONED = "The page navigated or was closed before it answered.";

export class Frame {
  /** What it offers, as the wire has it; null: not known yet. @type {Offer | null} */
  offer = null;
  /** That the offer takes: its own as JSON, or what its tools take by their number. */
  bytes = 0;
  /** @type {Map<string, Via>} by tool name */
  via = new Map();
  /** What was last announced, as JSON; empty: nothing. */
  announced = "";
  /** There was no room for its offer: an empty one is announced in its place. */
  crowdedOut = false;
  /** The page around it grants it the permission policy `tools`, as its content script reads it. */
  delegated = false;
  /** Of the notifications of its page server. */
  pace = new PageBounds.Pace();
  /** @type {Map<string, Call>} */
  #calls = new Map();
  /** Open requests of the page to the client of a call, by the content script's id. @type {Map<string, AbortController>} */
  #questions = new Map();
  watches = new ResourceWatches((type, uri) => this.post({ type, uri }));

  /**
   * @param {chrome.runtime.Port} port
   * @param {number} tabId
   * @param {chrome.runtime.MessageSender} sender
   * @param {() => void} offersChanged called when `offers.shown` has changed
   */
  constructor(port, tabId, sender, offersChanged) {
    this.port = port;
    this.offers = new ToolOffers((message) => this.post(message), offersChanged);
    this.tabId = tabId;
    this.frameId = sender.frameId ?? 0;
    this.documentId = sender.documentId ?? crypto.randomUUID();
    this.origin = sender.origin ?? "null";
    this.url = cut(sender.url ?? "", URL_BYTES);
  }

  /** Name of its frame among all frames; a later document in the frame has the same. */
  get key() {
    return `${this.tabId}:${this.frameId}`;
  }

  /** The members that name it on the wire. */
  get address() {
    return { tabId: this.tabId, frameId: this.frameId, documentId: this.documentId };
  }

  /** Its tools; none while its offer is not known. */
  get tools() {
    return this.offer?.tools ?? [];
  }

  /** Whether its list has a tool. @param {string} toolName */
  hasTool(toolName) {
    return this.tools.some((tool) => tool.name === toolName);
  }

  /**
   * Take a whole list of tools.
   *
   * @param {ToolsMessage} message
   * @param {(name: string) => boolean} isOffered whether a client has offered a tool of this name to the page
   */
  list({ via: givenVia, leftOut, delegated, ...given }, isOffered) {
    this.delegated = delegated === true;
    const via = isObject(givenVia) ? givenVia : {};
    const isRelayed = (/** @type {any} */ tool) => isOffered(tool?.name) && via[tool.name] !== "webmcp";
    const tools = Array.isArray(given.tools) ? given.tools.filter((tool) => !isRelayed(tool)) : [];
    const fit = fitOffer({ .../** @type {Record<string, unknown>} */ (given), tools }, via, leftOut);
    const [serverInfo, capabilities] = [fitLabel(given.serverInfo), fitLabel(given.capabilities)];
    this.via = fit.via;
    this.offer = {
      ...fit.lists,
      via: Object.fromEntries(fit.via),
      ...(serverInfo && { serverInfo }),
      ...(capabilities && { capabilities }),
      ...(fit.notice && { notice: fit.notice }),
    };
    this.bytes = Math.max(jsonBytes(this.offer), fit.room);
  }

  /**
   * Run one of its tools.
   *
   * @param {{ toolName: string, args: any, wantsProgress: boolean }} call
   * @param {Asked} asked
   * @returns {Promise<Executed>} never settles once `signal` has fired: the page was notified
   * @throws {WireError}
   */
  execute({ toolName, args, wantsProgress }, asked) {
    return this.#run({ type: "execute-tool", requestId: asked.id, toolName, args, wantsProgress }, args, asked);
  }

  /**
   * Send a request to its page server.
   *
   * @param {{ method: string, params: any, wantsProgress: boolean }} request
   * @param {Asked} asked
   * @returns {Promise<Executed>} as `execute`; the payload of a failure is the server's JSON-RPC error
   * @throws {WireError}
   */
  ask({ method, params, wantsProgress }, asked) {
    return this.#run({ type: "ask-server", requestId: asked.id, method, params, wantsProgress }, params, asked);
  }

  /**
   * @param {ExecuteMessage | AskMessage} message
   * @param {unknown} args the part of it that may be long
   * @param {Asked} asked
   * @returns {Promise<Executed>}
   */
  #run(message, args, { id, signal, onProgress, onQuestion }) {
    /** @type {PromiseWithResolvers<Executed>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#hand(message, args);
    const pace = new PageBounds.Pace();
    const isOfServer = message.type === "ask-server";
    const requests = new PageRequests(onQuestion);
    this.#calls.set(id, { resolve, reject, isOfServer, isSubmitted: false, requests, onProgress, pace });
    signal.addEventListener("abort", () => {
      if (this.#calls.delete(id)) this.post({ type: "cancel-tool", requestId: id });
    });
    return promise;
  }

  /** @param {ResultMessage | FailureMessage} message */
  settle(message) {
    const call = this.#calls.get(message.requestId);
    if (!call) return;
    this.#calls.delete(message.requestId);
    if ("error" in message) return this.#fail(call, failure(message.error));
    const { success, payload } = message.data ?? {};
    if (success === true) return call.resolve({ success, payload });
    if (!call.isOfServer) return call.resolve({ success: false, payload: String(payload) });
    if (isObject(payload)) return call.resolve({ success: false, payload: errorOf(payload) });
    call.reject(new WireError(Code.INTERNAL_ERROR, String(payload), { handed: true }));
  }

  /** A call's form reaches the page. @param {SubmittedMessage} message */
  markSubmitted({ requestId }) {
    const call = this.#calls.get(requestId);
    if (call) call.isSubmitted = true;
  }

  /**
   * The navigation that follows the submission of a form is no failure.
   *
   * @param {Call} call
   * @param {WireError} error
   */
  #fail(call, error) {
    if (error.code !== Code.NAVIGATED || !call.isSubmitted) return call.reject(error);
    call.resolve(waitSubmissionOutcome(this));
  }

  /** @param {ProgressMessage} message */
  progress({ requestId, progress, total, message }) {
    const call = this.#calls.get(requestId);
    if (!call || typeof progress !== "number") return;
    const report = {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
    if (call.pace.allows(report)) call.onProgress(report);
  }

  /** Requests something of a client for the page, which gets the result or an error. @param {QuestionMessage} message */
  async question({ questionId, method, params }) {
    if (typeof questionId !== "string" || questionId.length > LONGEST_QUESTION_ID) return;
    if (this.#questions.has(questionId)) return;
    const cancelled = new AbortController();
    this.#questions.set(questionId, cancelled);
    try {
      const { requests } = this.#onlyCall();
      this.#reply(questionId, { result: await requests.send({ method, params }, cancelled.signal) });
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      const { code, message } = error;
      this.post({ type: "question-answer", questionId, error: { code, message } });
    } finally {
      this.#questions.delete(questionId);
    }
  }

  /** The page has cancelled a request to a client. @param {QuestionCancelledMessage} message */
  cancelQuestion({ questionId }) {
    this.#questions.get(questionId)?.abort();
  }

  /** @throws {WireError} another number of calls runs: the page must not choose whose client it asks */
  #onlyCall() {
    const [call, another] = this.#calls.values();
    if (call && !another) return call;
    const count = call ? "several calls run" : "no call runs";
    throw refusal(Code.INVALID_REQUEST, `A page may ask only while exactly one call runs in its frame: ${count}.`);
  }

  /**
   * @param {string} questionId
   * @param {{ result: object }} answer
   * @throws {WireError} it is too large for the page
   */
  #reply(questionId, answer) {
    try {
      this.port.postMessage({ type: "question-answer", questionId, ...answer });
    } catch (error) {
      if (isTooLarge(error)) throw refusal(Code.TOO_LARGE, "The client's answer is larger than a page can be given.");
    }
  }

  /**
   * The document is gone, or may not be used any more, and its calls end.
   *
   * @param {WireError} [why]
   */
  abandonCalls(why = new WireError(Code.NAVIGATED, ABANDONED, { handed: true })) {
    for (const call of this.#calls.values()) this.#fail(call, why);
    this.#calls.clear();
    for (const cancelled of this.#questions.values()) cancelled.abort();
    this.watches.endAll();
  }

  /**
   * Say something that may get lost.
   *
   * @param {WorkerMessage} message
   * @returns {boolean} false: it is too large
   */
  post(message) {
    try {
      this.port.postMessage(message);
    } catch (error) {
      // Otherwise the document is gone. Its onDisconnect follows.
      return !isTooLarge(error);
    }
    return true;
  }

  /**
   * @param {ExecuteMessage | AskMessage} message
   * @param {unknown} args
   * @throws {WireError} it did not reach the page
   */
  #hand(message, args) {
    try {
      this.port.postMessage(message);
    } catch (error) {
      if (isTooLarge(error)) {
        const bytes = jsonBytes(args);
        throw refusal(Code.TOO_LARGE, `Arguments of ${bytes} bytes are more than a page can be given.`);
      }
      throw refusal(Code.NAVIGATED, "The page that offered this tool has just gone. List the tools again.");
    }
  }
}

/**
 * A call that did not reach the page.
 *
 * @param {number} code
 * @param {string} message
 */
export function refusal(code, message) {
  return new WireError(code, message, { handed: false });
}

/** @param {FailureMessage["error"]} error as a content script wrote it */
export function failure(error) {
  const { code, message, handed } = isObject(error) ? error : { code: Code.INTERNAL_ERROR, message: "", handed: true };
  const known = CONTENT_CODES.has(Number(code)) ? Number(code) : Code.INTERNAL_ERROR;
  return new WireError(known, String(message), { handed: handed !== false });
}

/** A page server's JSON-RPC error. @param {Record<string, unknown>} given */
function errorOf({ code, message, data }) {
  const number = Number.isSafeInteger(code) ? Number(code) : Code.INTERNAL_ERROR;
  return { code: number, message: String(message), ...(data !== undefined && { data }) };
}
