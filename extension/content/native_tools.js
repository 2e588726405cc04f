/**
 * Tools that the browser itself lists (WebMCP). Read and run in the isolated world, where a page's own
 * `document.modelContext` cannot get in between.
 *
 * @typedef {{ name: string, title?: string, description: string, inputSchema?: object | string,
 *   annotations?: object, origin: string, window: Window }} RegisteredTool
 * @typedef {EventTarget & { getTools(): Promise<RegisteredTool[]>,
 *   executeTool(tool: RegisteredTool, args: unknown, options: { signal: AbortSignal }): Promise<string | null>
 *   }} ModelContext
 */

/** The page went away under a running call. */
class NavigatedError extends Error {}

/** The page does not offer this tool any more; nothing was run. */
class NotOfferedError extends Error {}

class NativeTools {
  /** The browser has refused an object, and taken JSON. */
  #takesJson = false;
  /** This document's tools, read since they have changed last: reading takes as long as a short call.
   * @type {Promise<RegisteredTool[]> | null} */
  #known = null;

  /**
   * @param {() => void} onChange
   * @param {AbortSignal} closed
   */
  constructor(onChange, closed) {
    const context = /** @type {{ modelContext?: ModelContext }} */ (/** @type {unknown} */ (document)).modelContext;
    /** @type {ModelContext | null} absent: this browser, or this page, has no WebMCP */
    this.context = typeof context?.getTools === "function" ? context : null;
    const changed = () => {
      this.#known = null;
      onChange();
    };
    this.context?.addEventListener("toolchange", changed, { signal: closed });
  }

  /** @returns {Promise<import("../worker/wire.js").Tool[]>} MCP Tools */
  async list() {
    this.#known = this.#read();
    return (await this.#known).map(asMcpTool);
  }

  /**
   * @param {string} name
   * @param {unknown} args
   * @param {AbortSignal} signal
   * @returns {Promise<unknown>} a CallToolResult
   * @throws {NotOfferedError | NavigatedError | DOMException} the last is the browser's, and says little
   */
  async call(name, args, signal) {
    this.#known ??= this.#read();
    const tool = (await this.#known).find((registered) => registered.name === name);
    if (!tool) throw new NotOfferedError(`The page does not offer ${name} any more.`);
    return answered(await this.#execute(tool, args, signal));
  }

  /** This document's own tools: a frame of the same origin sees its neighbours' as well. */
  async #read() {
    if (!this.context) return [];
    try {
      return (await this.context.getTools()).filter((tool) => tool.window === window);
    } catch (error) {
      this.#known = null;
      if (error instanceof DOMException) return []; // a frame without the permission policy "tools"
      throw error;
    }
  }

  /**
   * @param {RegisteredTool} tool
   * @param {unknown} args
   * @param {AbortSignal} signal
   */
  async #execute(tool, args, signal) {
    const context = /** @type {ModelContext} */ (this.context);
    if (this.#takesJson) return context.executeTool(tool, JSON.stringify(args), { signal });
    try {
      return await context.executeTool(tool, args, { signal });
    } catch (error) {
      if (!wantsJson(error)) throw error;
      const answer = await context.executeTool(tool, JSON.stringify(args), { signal });
      this.#takesJson = true;
      return answer;
    }
  }
}

/**
 * Whether the browser refused an object because it takes JSON: Chromium 150 does, 156 no longer (both seen). It says
 * so before anything runs, and in words that no page can put into its mouth: what a page throws is never passed on.
 *
 * @param {unknown} error
 */
function wantsJson(error) {
  if (error instanceof TypeError) return true;
  return error instanceof DOMException && error.message.includes("Failed to parse input arguments");
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
