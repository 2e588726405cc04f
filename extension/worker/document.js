/**
 * One document that offers tools, behind its content script's port, and the calls that run in it. Where it lives is
 * read from the port's sender alone; what a content script says about itself is not believed, since a page may have
 * got at it.
 *
 * Between content script and worker, on the port named `FRAME_PORT`:
 *
 * @typedef {{ type: "register-tools" | "tools-updated", tools: unknown[], via: Record<string, unknown>,
 *   leftOut: number, delegated?: boolean, serverInfo?: object, capabilities?: object }} ToolsMessage content script →
 *   worker, whole lists; `leftOut`: how many tools are not in it, for their size; `delegated`: the frame has the
 *   permission policy `tools`
 * @typedef {{ type: "tool-result", requestId: string, data: { success: boolean, payload: any } }} ResultMessage
 * @typedef {{ type: "tool-result", requestId: string, error: { code: number, message: string, handed: boolean } }
 *   } FailureMessage
 * @typedef {{ type: "tool-submitted", requestId: string }} SubmittedMessage the tool is a form, which the page receives
 *   now; a navigation that follows is its outcome
 * @typedef {{ type: "tool-progress", requestId: string, progress: number, total?: number, message?: string }
 *   } ProgressMessage
 * @typedef {{ type: "page-notification", method: string, params?: object }} PageNotificationMessage
 * @typedef {{ type: "frame-visible" }} VisibleMessage
 * @typedef {{ type: "page-question", questionId: string, message: string, requestedSchema?: object }
 *   } QuestionMessage the page asks the user of the call that runs in it
 * @typedef {{ type: "find-parent" }} FindParentMessage the parent's script asks who we are: iframe_servers.js
 * @typedef {{ type: "child-frame", nonce: string }} ChildMessage a child frame has sent this
 * @typedef {{ type: "to-server", payload: any }} ToServerMessage
 * @typedef {{ type: "from-child", nonce: string, payload: any }} FromChildMessage
 * @typedef {ToolsMessage | ResultMessage | FailureMessage | SubmittedMessage | ProgressMessage
 *   | PageNotificationMessage | VisibleMessage | QuestionMessage | FindParentMessage | ChildMessage | ToServerMessage
 *   | FromChildMessage } FrameMessage
 * @typedef {{ type: "execute-tool", requestId: string, toolName: string, args: any, wantsProgress: boolean }
 *   } ExecuteMessage worker → content script
 * @typedef {{ type: "cancel-tool", requestId: string }} CancelMessage
 * @typedef {{ type: "host-status", missing: boolean }} StatusMessage
 * @typedef {{ type: "question-answer", questionId: string, result?: ElicitResult,
 *   error?: { code: number, message: string } }} AnswerMessage one of the two
 * @typedef {{ type: "frame-nonce", nonce: string }} NonceMessage to be said to the parent window
 * @typedef {{ type: "frame-hosted", hosted: boolean }} HostedMessage the parent's script speaks to our server for us
 * @typedef {{ type: "to-child", nonce: string, origin: string, payload: any }} ToChildMessage
 * @typedef {{ type: "from-server", payload: any }} FromServerMessage
 * @typedef {ExecuteMessage | CancelMessage | StatusMessage | AnswerMessage | NonceMessage | HostedMessage
 *   | ToChildMessage | FromServerMessage} WorkerMessage
 * A content script without a port also listens for `{ type: "dial" }` sent to its tab.
 */

import { waitSubmissionOutcome } from "./form_submission.js";
import { isTooLarge } from "./host_connection.js";
import { fitLabel, fitQuestion, fitTools } from "./tool_list.js";
import { Code, cut, jsonBytes, URL_BYTES, WireError } from "./wire.js";

/**
 * @import { Tool, Via } from "./wire.js"
 * @typedef {{ tools: Tool[], via: Record<string, Via>, serverInfo?: object, capabilities?: object, notice?: string
 *   }} Offer
 * @typedef {{ progress: number, total?: number, message?: string }} Progress
 * @typedef {{ success: boolean, payload: any }} Executed
 * @typedef {{ message: string, requestedSchema?: object }} Question
 * @typedef {{ action: "accept" | "decline" | "cancel", content?: object }} ElicitResult MCP's
 * @typedef {{ onProgress: (progress: Progress) => void, onQuestion: (question: Question) => Promise<any> }} Hearing
 * @typedef {{ id: string, signal: AbortSignal } & Hearing} Asked
 * @typedef {{ resolve: (executed: Executed | Promise<Executed>) => void, reject: (error: WireError) => void,
 *   isSubmitted: boolean, asking: boolean, questions: number, pace: InstanceType<typeof PageBounds.Pace> } & Hearing
 *   } Call `isSubmitted`: its form has reached the page; `asking`: a question of it is open; `questions`: how many more
 *   it may ask
 */

export const FRAME_PORT = "mcpb-frame";
/** What content scripts may fail a call with. @type {Set<number>} */
const CONTENT_CODES = new Set([Code.TOO_LARGE, Code.NAVIGATED, Code.NO_LONGER_OFFERED]);
/** Questions of one call to the user. */
const MOST_QUESTIONS = 8;
/** Of what a content script calls its question. */
const LONGEST_QUESTION_ID = 64;

const ABANDONED = "The page navigated or was closed while the tool was running.";

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

  /**
   * @param {chrome.runtime.Port} port
   * @param {number} tabId
   * @param {chrome.runtime.MessageSender} sender
   */
  constructor(port, tabId, sender) {
    this.port = port;
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
  offers(toolName) {
    return this.tools.some((tool) => tool.name === toolName);
  }

  /** Take a whole list of tools. @param {ToolsMessage} message */
  list({ tools, via, leftOut, delegated, ...labels }) {
    this.delegated = delegated === true;
    const fit = fitTools(Array.isArray(tools) ? tools : [], isObject(via) ? via : {}, leftOut);
    const [serverInfo, capabilities] = [fitLabel(labels.serverInfo), fitLabel(labels.capabilities)];
    this.via = fit.via;
    this.offer = {
      tools: fit.tools,
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
  execute({ toolName, args, wantsProgress }, { id, signal, ...hearing }) {
    /** @type {PromiseWithResolvers<Executed>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    this.#hand({ type: "execute-tool", requestId: id, toolName, args, wantsProgress });
    const pace = new PageBounds.Pace();
    const fresh = { isSubmitted: false, asking: false, questions: MOST_QUESTIONS, pace };
    this.#calls.set(id, { resolve, reject, ...hearing, ...fresh });
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
    call.resolve(success === true ? { success, payload } : { success: false, payload: String(payload) });
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

  /** Asks the user for the page; the page gets the answer or an error. @param {QuestionMessage} message */
  async question({ questionId, ...asked }) {
    if (typeof questionId !== "string" || questionId.length > LONGEST_QUESTION_ID) return;
    try {
      this.post({ type: "question-answer", questionId, result: elicited(await this.#ask(asked)) });
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      const { code, message } = error;
      this.post({ type: "question-answer", questionId, error: { code, message } });
    }
  }

  /** @param {{ message: unknown, requestedSchema?: unknown }} asked */
  async #ask(asked) {
    const [call, another] = this.#calls.values();
    if (!call || another) {
      const count = call ? "several calls run" : "no call runs";
      throw refusal(Code.INVALID_REQUEST, `A page may ask only while exactly one call runs in its frame: ${count}.`);
    }
    if (call.asking) throw refusal(Code.INVALID_REQUEST, "Another question of this call is still open.");
    const question = fitQuestion(asked);
    if (call.questions === 0) {
      const text = `A call may ask ${MOST_QUESTIONS} questions, and none once the user has cancelled one.`;
      throw refusal(Code.INVALID_REQUEST, text);
    }
    call.questions -= 1;
    call.asking = true;
    try {
      const answer = await call.onQuestion(question);
      if (answer?.action === "cancel") call.questions = 0;
      return answer;
    } finally {
      call.asking = false;
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
  }

  /** Say something that may get lost. @param {WorkerMessage} message */
  post(message) {
    try {
      this.port.postMessage(message);
    } catch {
      // The only way this fails: the document is gone. Its onDisconnect follows.
    }
  }

  /**
   * @param {ExecuteMessage} message
   * @throws {WireError} it did not reach the page
   */
  #hand(message) {
    try {
      this.port.postMessage(message);
    } catch (error) {
      if (isTooLarge(error)) {
        const bytes = jsonBytes(message.args);
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

/**
 * A client's answer, as far as a page may hear it.
 *
 * @param {any} result
 * @returns {ElicitResult}
 * @throws {WireError} it is invalid
 */
function elicited(result) {
  const { action, content } = isObject(result) ? result : {};
  if (action !== "accept" && action !== "decline" && action !== "cancel") {
    throw refusal(Code.INTERNAL_ERROR, "The client's answer makes no sense.");
  }
  return { action, ...(isObject(content) && { content }) };
}

/** @param {FailureMessage["error"]} error as a content script wrote it */
function failure(error) {
  const { code, message, handed } = isObject(error) ? error : { code: Code.INTERNAL_ERROR, message: "", handed: true };
  const known = CONTENT_CODES.has(Number(code)) ? Number(code) : Code.INTERNAL_ERROR;
  return new WireError(known, String(message), { handed: handed !== false });
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
