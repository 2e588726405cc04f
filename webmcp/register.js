/**
 * WebMCP tools of a page that stand for the tools of an MCP server: `registerWebMcp(options)`.
 *
 * README.md describes options and handle. The module does nothing until it is called.
 * @typedef {{ name: string, title?: string, description?: string, inputSchema?: object,
 *   annotations?: { title?: string, readOnlyHint?: boolean }, [member: string]: unknown }} McpTool
 * @typedef {Record<"info" | "warn" | "error", (message: string) => void>} WebMcpLogger
 * @typedef {{ url: string, headers?: Record<string, string>,
 *   getHeaders?: () => Promise<Record<string, string>> | Record<string, string>, watch?: boolean, prefix?: string,
 *   timeoutMs?: number, logger?: WebMcpLogger, quiet?: boolean, onSync?: (tools: McpTool[]) => void,
 *   onError?: (error: Error) => void, filter?: (tool: McpTool) => boolean,
 *   mapTool?: (tool: McpTool) => McpTool }} WebMcpOptions
 * @typedef {{ readonly tools: ReadonlyArray<string>, readonly disposed: boolean, refresh(): Promise<void>,
 *   dispose(): Promise<void> }} WebMcpHandle
 */

import { toText } from "./content.js";
import { CLOSE_LIMIT_MS, HttpClient, withSignal } from "./http_client.js";
import { findModelContext, registerTool } from "./model_context.js";
import { findParameterHeaders } from "./request_headers.js";

const MAX_TIMER_MS = 2 ** 31 - 1;
const MAX_LOG_CHARS = 500;
const MAX_PAUSE_MS = 2_000;
const QUIET_MS = 10_000;
const OPTIONS = "url headers getHeaders watch prefix timeoutMs logger quiet onSync onError filter mapTool".split(" ");

/** Register the tools of an MCP server as WebMCP tools of this page. In a page without WebMCP, nothing is sent.
 * @param {WebMcpOptions} options @returns {Promise<WebMcpHandle>}
 * @throws {Error} the server cannot be used; then nothing is registered */
export function registerWebMcp(options) {
  return Adapter.start(options);
}

/** The tools of one server in this page; `refresh` and `dispose` can be called without the object. */
class Adapter {
  #context = findModelContext();
  #lifecycle = new AbortController();
  #options;
  /** By name. @type {Map<string, import("./model_context.js").SelectedTool & { controller: AbortController }>} */
  #registered = new Map();
  #client = /** @type {HttpClient | undefined} */ (undefined);
  #sync = /** @type {Promise<void> | null} */ (null);
  #isStale = false; // the server has reported a change that no synchronization has read
  #changedAt = -Infinity;
  #pauseMs = 0;
  #disposal = /** @type {Promise<void> | undefined} */ (undefined);

  /** @param {WebMcpOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /** Names that are registered now. */
  get tools() {
    return [...this.#registered.keys()];
  }

  /** Whether `dispose` was called. */
  get disposed() {
    return this.#lifecycle.signal.aborted;
  }

  /** Connect, and list the tools once. @param {WebMcpOptions} options @returns {Promise<WebMcpHandle>} */
  static async start(options) {
    const { timeoutMs = 60_000, watch = true, onSync } = options;
    const adapter = new Adapter(options);
    if (!adapter.#context) {
      adapter.#log("info", "This page has no WebMCP (document.modelContext): no tool is registered.");
      adapter.#callBack("onSync", onSync, []);
      return adapter;
    }
    if (!(timeoutMs > 0)) throw new TypeError("timeoutMs must be a positive number.");
    const unknown = Object.keys(options).filter((name) => !OPTIONS.includes(name));
    if (unknown.length) adapter.#log("warn", `Unknown options: ${unknown.join(", ")}`);
    adapter.#client = new HttpClient({
      ...{ ...options, url: resolveUrl(options), timeoutMs: Math.min(timeoutMs, MAX_TIMER_MS) },
      closed: adapter.#lifecycle.signal,
      onListChanged: () => adapter.#syncInBackground(),
      warn: (text) => adapter.#log("warn", text),
    });
    try {
      await adapter.#client.connect();
      if (watch) void adapter.#client.watch();
      await adapter.refresh();
      return adapter;
    } catch (error) {
      await adapter.dispose();
      throw error;
    }
  }

  /** Synchronize, or join the synchronization that runs. @returns {Promise<void>} */
  refresh = () => {
    if (!this.#client || this.disposed) return Promise.resolve();
    return (this.#sync ??= this.#synchronize(this.#client).finally(() => (this.#sync = null)));
  };

  /** Mark as disposed and cancel requests, withdraw tools, wait for a synchronization, end the session. */
  dispose = () => {
    this.#lifecycle.abort(new Error("WebMCP adapter has been disposed"));
    for (const { controller } of this.#registered.values()) controller.abort();
    this.#registered.clear();
    const synchronized = withSignal(Promise.resolve(this.#sync), AbortSignal.timeout(CLOSE_LIMIT_MS)).catch(() => {});
    return (this.#disposal ??= synchronized.then(() => this.#client?.close()));
  };

  /** Synchronize because of a reported change: behind a synchronization that runs, and with growing pauses. */
  async #syncInBackground() {
    if (this.#isStale) return;
    this.#isStale = true;
    this.#pauseMs = performance.now() - this.#changedAt > QUIET_MS ? 0 : Math.min(2 * this.#pauseMs + 50, MAX_PAUSE_MS);
    await new Promise((resolve) => setTimeout(resolve, this.#pauseMs));
    await this.#sync?.catch(() => {});
    this.#isStale = false;
    this.#changedAt = performance.now();
    await this.refresh().catch((error) => {
      this.#log("error", `The tools could not be synchronized: ${error.message}`);
      this.#callBack("onError", this.#options.onError, error);
    });
  }

  /** @param {HttpClient} client */
  async #synchronize(client) {
    const tools = await client.listTools().catch((error) => (this.disposed ? [] : Promise.reject(error)));
    const selected = this.#select(tools, client);
    if (this.disposed) return; // filter or mapTool may have disposed it
    for (const [name, { fingerprint, controller }] of this.#registered) {
      if (selected.get(name)?.fingerprint === fingerprint) continue;
      controller.abort();
      this.#registered.delete(name);
    }
    const added = [...selected].filter(([name]) => !this.#registered.has(name));
    await Promise.all(added.map(([name, tool]) => this.#register(name, tool)));
    if (!this.disposed) this.#callBack("onSync", this.#options.onSync, tools);
  }

  /** Select the tools to register, by their names. @param {McpTool[]} tools @param {HttpClient} client */
  #select(tools, client) {
    const { filter, mapTool, prefix = "" } = this.#options;
    /** @type {Map<string, import("./model_context.js").SelectedTool>} */
    const selected = new Map();
    for (const tool of tools) {
      try {
        if (typeof tool?.name !== "string") throw new Error("it has no name");
        if (filter && !filter(tool)) continue;
        const definition = makeDefinition(mapTool ? mapTool(structuredClone(tool)) : tool, prefix);
        if (selected.has(definition.name)) throw new Error("the server has two tools of this name");
        const fingerprint = JSON.stringify([tool.name, definition]);
        selected.set(definition.name, { definition, fingerprint, execute: this.#makeExecute(tool, client) });
      } catch (/** @type {any} */ error) {
        this.#log("warn", `Left out a tool (${error.message}): ${JSON.stringify(tool?.name)}`);
      }
    }
    return selected;
  }

  /** @param {string} name @param {import("./model_context.js").SelectedTool} tool */
  async #register(name, tool) {
    const controller = new AbortController();
    this.#registered.set(name, { ...tool, controller });
    const reason = await registerTool(this.#context, { ...tool.definition, execute: tool.execute }, controller.signal);
    if (!reason || controller.signal.aborted) return;
    this.#registered.delete(name);
    this.#log("warn", `Left out a tool (${reason}): ${JSON.stringify(name)}`);
  }

  /** @param {McpTool} tool @param {HttpClient} client @returns {import("./model_context.js").Execute} */
  #makeExecute({ name, inputSchema }, client) {
    const repeated = findParameterHeaders(inputSchema);
    return async (args = {}, context = {}) => {
      const { signal: closed } = this.#lifecycle;
      const signal = context?.signal ? AbortSignal.any([closed, context.signal]) : closed;
      signal.throwIfAborted();
      const result = await client.request({ method: "tools/call", params: { name, arguments: args }, repeated }, signal);
      if (result["resultType"] === "input_required") throw new Error("The tool asks for input, which a page cannot give.");
      if (result["isError"] === true) throw new Error(toText(result) || "The tool reported an error without a text.");
      return toText(result);
    };
  }

  /** @template T @param {string} name @param {((value: T) => unknown) | undefined} callback @param {T} value */
  async #callBack(name, callback, value) {
    try {
      await callback?.(value);
    } catch (/** @type {any} */ error) {
      this.#log("error", `${name} failed: ${error.message}`);
    }
  }

  /** @param {keyof WebMcpLogger} level @param {string} text */
  #log(level, text) {
    const { logger = console, quiet = false } = this.#options;
    if (!quiet) logger[level](`[webmcp-adapter] ${text}`.slice(0, MAX_LOG_CHARS));
  }
}

/** @param {McpTool} tool @param {string} prefix */
function makeDefinition({ name, title, description, inputSchema = { type: "object" }, annotations }, prefix) {
  return {
    name: prefix + name,
    title: typeof title === "string" ? title : undefined,
    description: [description, title, annotations?.title].find((text) => typeof text === "string" && text) || name,
    inputSchema,
    annotations: { readOnlyHint: annotations?.readOnlyHint, untrustedContentHint: true },
  };
}

/** @param {WebMcpOptions} options */
function resolveUrl({ url, prefix = "" }) {
  if (!/^[\w.-]*$/.test(prefix)) throw new TypeError("prefix can have the characters A-Z, a-z, 0-9, _, . and - only.");
  const found = typeof url === "string" ? URL.parse(url, globalThis.document?.baseURI) : null;
  if (found?.username === "" && found.password === "" && /^https?:$/.test(found.protocol)) return found;
  throw new TypeError("url must be a string with an http: or https: URL without a user name or password.");
}
