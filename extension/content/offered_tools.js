/**
 * Tools of remote servers that clients offer to this document, registered with the browser's own WebMCP. The page and
 * the browser's assistant can call them; what runs them is the client, which the worker asks. They are no tools of the
 * page: `hides` and `knows` keep them out of what this document announces. A name that the page has itself is left to it.
 *
 * @typedef {import("../worker/offers/offered_tool.js").OfferedTool} OfferedTool
 * @typedef {import("../worker/offers/offered_tool.js").LeftOutTool} LeftOutTool
 * @typedef {import("../worker/offers/tool_offers.js").OfferMessage} OfferMessage
 * @typedef {import("../worker/offers/tool_offers.js").CallResultMessage} CallResultMessage
 * @typedef {{ server: string, definition: string, withdrawn: AbortController }} Registration `definition`: as JSON;
 *   `withdrawn`: takes the tool out of WebMCP
 * @typedef {{ resolve: (text: string) => void, reject: (error: Error) => void }} OpenCall
 */

const PAGE_HAS_NAME = "The page has a tool of this name.";
const SERVER_HAS_NAME = "Another server's tool has this name.";
const CALL_CANCELLED = "The call was cancelled.";
const NOT_OFFERED_NOW = "The tool is not offered any more. Nothing was run.";
const CLIENT_GONE = "The tool is not offered any more: its client is gone. The call may have run.";
const WITHOUT_WEBMCP = "This browser or page has no WebMCP (document.modelContext): tools cannot be offered to it.";
const WITHOUT_POLICY = "This page frame may not use WebMCP (permissions policy `tools`): tools cannot be offered to it.";

class OfferedTools {
  /** @type {Map<string, Registration>} by name */
  #registered = new Map();
  /** How many tools were withdrawn: a time for `hides`. */
  #withdrawals = 0;
  /** When each name was withdrawn last. @type {Map<string, number>} */
  #withdrawnAt = new Map();
  /** @type {Map<string, OpenCall>} */
  #calls = new Map();
  #limits = new PageBounds.CallLimits();
  /** Fires when the worker that offers is gone. */
  #session = new AbortController();
  /** Offers are applied one after the other: to register a tool takes a while in some browsers. */
  #applied = Promise.resolve();

  /**
   * @param {ModelContext | null} context
   * @param {{ send: (message: FrameMessage) => boolean, isOfServer: (name: string) => boolean,
   *   onRejected: () => void }} page `send`: to the worker, false: it is gone; `isOfServer`: whether a page server has a
   *   tool of this name; `onRejected`: a name that `hides` has hidden is the page's after all
   */
  constructor(context, { send, isOfServer, onRejected }) {
    this.context = typeof context?.registerTool === "function" ? context : null;
    this.send = send;
    this.isOfServer = isOfServer;
    this.onRejected = onRejected;
  }

  /** Of now, for `hides`. */
  get time() {
    return this.#withdrawals;
  }

  /**
   * Whether a tool that the browser has listed is, or may be, one of these.
   *
   * @param {string} name
   * @param {number} time when the list was requested
   */
  hides(name, time) {
    return this.#registered.has(name) || Number(this.#withdrawnAt.get(name) ?? -1) >= time;
  }

  /** Whether a tool of this name was ever registered: page servers relay what the browser lists. @param {string} name */
  knows(name) {
    return this.#registered.has(name) || this.#withdrawnAt.has(name);
  }

  /** Register these tools in place of others of their server. Equal ones stay. @param {OfferMessage} message */
  offer(message) {
    const ended = this.#session.signal;
    this.#applied = this.#applied.then(() => this.#apply(message, ended)).catch((error) => console.debug("mcpb:", error));
  }

  /** Take back all tools of a server. @param {string} server */
  withdraw(server) {
    this.offer({ type: "offer-tools", server, offerId: 0, tools: [] });
  }

  /** Take back all tools: the worker is gone. */
  withdrawAll() {
    this.#session.abort();
    this.#session = new AbortController();
    for (const name of [...this.#registered.keys()]) this.#withdraw(name);
    for (const { reject } of this.#calls.values()) reject(new Error(CLIENT_GONE));
    this.#calls.clear();
  }

  /** A call has ended. @param {CallResultMessage} message */
  settle(message) {
    const call = this.#calls.get(message.callId);
    this.#calls.delete(message.callId);
    if ("text" in message) call?.resolve(message.text);
    else call?.reject(new Error(message.message));
  }

  /**
   * @param {OfferMessage} offer
   * @param {AbortSignal} ended
   */
  async #apply({ server, offerId, tools }, ended) {
    if (ended.aborted) return;
    const definitions = new Map(tools.map((tool) => [tool.name, JSON.stringify(tool)]));
    for (const [name, { server: owner, definition }] of this.#registered) {
      if (owner === server && definitions.get(name) !== definition) this.#withdraw(name);
    }
    if (offerId === 0) return;
    const { context } = this;
    const notOffered = context ? await this.#registerAll(context, server, tools, ended) : WITHOUT_WEBMCP;
    if (ended.aborted) return;
    if (typeof notOffered === "string") {
      const error = { code: NO_LONGER_OFFERED, message: notOffered, handed: false };
      this.send({ type: "tools-rejected", server, offerId, error });
    } else {
      const names = tools.filter(({ name }) => this.#registered.get(name)?.server === server).map(({ name }) => name);
      this.send({ type: "tools-offered", server, offerId, names, leftOut: notOffered });
    }
  }

  /**
   * @param {ModelContext} context
   * @param {string} server
   * @param {OfferedTool[]} tools
   * @param {AbortSignal} ended
   * @returns {Promise<LeftOutTool[] | string>} the reason if the frame may have no tools
   */
  async #registerAll(context, server, tools, ended) {
    /** @type {LeftOutTool[]} */
    const leftOut = [];
    try {
      const taken = await this.#namesOfPage(context);
      for (const tool of tools) {
        if (ended.aborted) break;
        const { name } = tool;
        const other = this.#registered.get(name);
        if (other?.server === server) continue;
        const isTaken = taken.has(name) || (!this.knows(name) && this.isOfServer(name));
        const known = other ? SERVER_HAS_NAME : isTaken ? PAGE_HAS_NAME : "";
        const why = known || (await this.#register(context, server, tool));
        if (why) leftOut.push({ name, why });
      }
    } catch (error) {
      return isForbidden(error) ? WITHOUT_POLICY : reasonOf(error);
    }
    return leftOut;
  }

  /** @param {ModelContext} context @returns {Promise<Set<string>>} names that the browser lists as the page's */
  async #namesOfPage(context) {
    const { time } = this;
    const tools = await context.getTools();
    const names = tools.filter((tool) => tool.window === window).map(({ name }) => name);
    return new Set(names.filter((name) => !this.hides(name, time)));
  }

  /**
   * @param {ModelContext} context
   * @param {string} server
   * @param {OfferedTool} tool
   * @returns {Promise<string>} the browser's reason why it is not registered; empty: it is
   */
  async #register(context, server, tool) {
    const { name } = tool;
    const registration = { server, definition: JSON.stringify(tool), withdrawn: new AbortController() };
    this.#registered.set(name, registration);
    /** @type {ToolFunction} */
    const execute = (args, client) => this.#call(server, name, args, client?.signal);
    try {
      await context.registerTool({ ...tool, execute }, { signal: registration.withdrawn.signal });
      return "";
    } catch (error) {
      if (this.#registered.get(name) === registration) this.#registered.delete(name);
      this.onRejected();
      if (isForbidden(error)) throw error;
      return reasonOf(error);
    }
  }

  /** @param {string} name of a tool that is registered */
  #withdraw(name) {
    const registration = this.#registered.get(name);
    this.#withdrawnAt.set(name, this.#withdrawals);
    this.#withdrawals += 1;
    this.#registered.delete(name);
    registration?.withdrawn.abort();
  }

  /**
   * Let the client run a tool for the page.
   *
   * @param {string} server
   * @param {string} name
   * @param {unknown} args
   * @param {AbortSignal} [signal] of the page's call; absent in Chromium 150, where a call cannot be cancelled
   * @returns {Promise<string>}
   */
  async #call(server, name, args, signal) {
    const fault = signal?.aborted ? CALL_CANCELLED : this.#limits.begin(args);
    if (fault) throw new Error(fault);
    /** @type {PromiseWithResolvers<string>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    const callId = PageBounds.randomUuid();
    this.#calls.set(callId, { resolve, reject });
    const cancel = () => {
      if (!this.#calls.delete(callId)) return;
      this.send({ type: "offered-call-cancelled", callId });
      reject(new Error(CALL_CANCELLED));
    };
    signal?.addEventListener("abort", cancel);
    try {
      if (!this.send({ type: "offered-call", callId, server, name, args: args ?? {} })) throw new Error(NOT_OFFERED_NOW);
      return await promise;
    } finally {
      this.#calls.delete(callId);
      this.#limits.end();
      signal?.removeEventListener("abort", cancel);
    }
  }
}

/** Whether the frame lacks the permission policy `tools`. @param {unknown} error of WebMCP */
function isForbidden(error) {
  return error instanceof DOMException && error.name === "NotAllowedError";
}

/** @param {unknown} error of WebMCP */
function reasonOf(error) {
  return error instanceof Error || error instanceof DOMException ? error.message : String(error);
}
