/**
 * Tools that the browser itself lists (WebMCP). Read and run in the isolated world, where a page's own
 * `document.modelContext` cannot get in between.
 *
 * @typedef {{ name: string, title?: string, description: string, inputSchema?: object | string,
 *   annotations?: object, origin: string, window: Window }} RegisteredTool
 * @typedef {(args: unknown, client?: { signal?: AbortSignal }) => Promise<string>} ToolFunction
 * @typedef {EventTarget & { getTools(): Promise<RegisteredTool[]>,
 *   executeTool(tool: RegisteredTool, args: unknown, options: { signal: AbortSignal }): Promise<string | null>,
 *   registerTool(tool: { name: string, description: string, execute: ToolFunction }, options: { signal: AbortSignal }):
 *     Promise<void> | void }} ModelContext
 */

/** The page went away under a running call. */
class NavigatedError extends Error {}

/** The page does not offer this tool any more; nothing was run. */
class NotOfferedError extends Error {}

/** The page took the tool back while it ran; Chromium 150 has no result then (seen). */
class WithdrawnError extends Error {}

/** For the browser to list a form again whose definition has changed. */
const RELISTING_MS = 1_000;

class NativeTools {
  /** This document's tools, read since they have changed last: reading takes as long as a short call.
   * @type {Promise<RegisteredTool[]> | null} */
  #known = null;
  /** Forms whose definition we have changed are listed again; until then the browser leaves them out.
   * @type {Promise<unknown>} */
  #relisted = Promise.resolve();
  /** The browser lists schemas as JSON, and takes arguments as JSON: Chromium 150 does, 156 has objects (both seen). */
  speaksJson = false;

  /**
   * @param {() => void} onChange
   * @param {AbortSignal} closed
   */
  constructor(onChange, closed) {
    const context = /** @type {{ modelContext?: ModelContext }} */ (/** @type {unknown} */ (document)).modelContext;
    /** @type {ModelContext | null} absent: this browser, or this page, has no WebMCP */
    this.context = typeof context?.getTools === "function" ? context : null;
    const targets = this.context ? [window, this.context] : [];
    this.forms = new FormTools(targets, (toolName) => {
      this.#relisted = Promise.all([this.#relisted, this.#waitRelisted(toolName)]);
    });
    const changed = () => {
      this.#known = null;
      this.forms.forget();
      onChange();
    };
    this.context?.addEventListener("toolchange", changed, { signal: closed });
  }

  /** @returns {Promise<import("../worker/wire.js").Tool[]>} MCP Tools */
  async list() {
    await this.#relisted;
    this.#known = this.#read();
    return (await this.#known).map(asMcpTool);
  }

  /**
   * @param {string} name
   * @param {object} args
   * @param {{ signal: AbortSignal, onSubmit: () => void }} asked `onSubmit`: the tool's form is about to reach the page
   * @returns {Promise<unknown>} a CallToolResult
   * @throws {NotOfferedError | WithdrawnError | NavigatedError | DOMException} the last says little about a function
   */
  async call(name, args, { signal, onSubmit }) {
    const execute = () => this.#execute(name, args, signal);
    const form = this.forms.find(name);
    if (form) return this.forms.call(form, execute, { signal, onSubmit });
    try {
      return answered(await execute());
    } catch (error) {
      if (!(error instanceof DOMException) || (await this.#findTool(name, { isAnew: true }))) throw error;
      throw new WithdrawnError("The page took the tool back during the call, and the browser dropped the result.");
    }
  }

  /** Whether a tool is a form. @param {string} name */
  isForm(name) {
    return this.forms.find(name) !== undefined;
  }

  /** This document's own tools: a frame of the same origin sees its neighbours' as well. */
  async #read() {
    if (!this.context) return [];
    try {
      const tools = await this.context.getTools();
      this.speaksJson = tools.some(({ inputSchema }) => typeof inputSchema === "string");
      return tools.filter((tool) => tool.window === window);
    } catch (error) {
      this.#known = null;
      if (error instanceof DOMException) return []; // a frame without the permission policy "tools"
      throw error;
    }
  }

  /**
   * @param {string} name
   * @param {object} args
   * @param {AbortSignal} signal
   * @returns {Promise<string | null>} null: the page navigates
   */
  async #execute(name, args, signal) {
    await this.#relisted;
    const tool = await this.#findTool(name);
    if (!tool) throw new NotOfferedError(`The page does not offer ${name} any more.`);
    const context = /** @type {ModelContext} */ (this.context);
    return context.executeTool(tool, makeArguments(args), { signal });
  }

  /** @param {string} name @param {{ isAnew?: boolean }} [reading] */
  async #findTool(name, { isAnew = false } = {}) {
    if (isAnew) this.#known = null;
    this.#known ??= this.#read();
    return (await this.#known).find((tool) => tool.name === name);
  }

  /**
   * Wait until the browser lists a form again whose definition has just changed; not for long.
   *
   * @param {string} name
   * @returns {Promise<void>}
   */
  #waitRelisted(name) {
    const timeout = AbortSignal.timeout(RELISTING_MS);
    return new Promise((resolve) => {
      const look = async () => {
        if (await this.#findTool(name, { isAnew: true })) resolve();
      };
      this.context?.addEventListener("toolchange", look, { signal: timeout });
      timeout.addEventListener("abort", () => resolve());
      void look();
    });
  }
}

/**
 * Arguments for every browser: Chromium 150 takes JSON, into which it converts an object, and 156 an object (both
 * seen). So that no call is sent twice: each attempt reaches the page's listeners of `toolactivated`.
 *
 * @param {object} args
 */
function makeArguments(args) {
  return { ...args, [Symbol.toPrimitive]: () => JSON.stringify(args) };
}

/**
 * What `executeTool` answered, as a CallToolResult.
 *
 * @param {unknown} answer
 * @throws {NavigatedError} null is its word for that
 */
function answered(answer) {
  if (answer === null) throw new NavigatedError("The page navigated while the tool was running.");
  return resultOfWebMcp(answer);
}

/** @param {RegisteredTool} tool */
function asMcpTool({ name, title, description, inputSchema, annotations }) {
  const schema = typeof inputSchema === "string" ? parsedOrNull(inputSchema) : inputSchema;
  return {
    name,
    ...(title && { title }),
    description,
    inputSchema: schema ?? { type: "object" },
    ...(annotations && { annotations }),
  };
}
