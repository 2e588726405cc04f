/**
 * In the page's own world: a page server for pages whose WebMCP is a polyfill, which no other world can see. It
 * speaks MCP-B's tab transport on a private channel, as far as content/tab_transport.js needs it. A page without a
 * polyfill cannot see that it is there: it has no global, hears and sends no message, and calls no function that the
 * page may have replaced.
 */
(() => {
  const CHANNEL = "dev.mcpb.polyfill";
  // An update of the extension brings this file in once more; a call is addressed to one of the two servers.
  const SERVER = String(Math.random());
  // The browser's own, before the page replaces them.
  const { apply } = Reflect;
  const { addEventListener } = EventTarget.prototype;
  const { setTimeout } = window;
  /** @type {ModelContext | null} */
  let found = null;
  /** @type {Map<string, AbortController>} */
  const running = new Map();

  /** @param {object | string} payload */
  function send(payload) {
    const target = window.origin === "null" ? "*" : window.origin;
    const message = { channel: CHANNEL, type: "mcp", direction: "server-to-client", server: SERVER, payload };
    window.postMessage(message, target);
  }

  /** The page's WebMCP if it is a polyfill, which is no native code; else null. */
  function polyfill() {
    const { modelContext } = /** @type {{ modelContext?: ModelContext }} */ (/** @type {unknown} */ (document));
    const context =
      modelContext ?? /** @type {{ modelContext?: ModelContext }} */ (/** @type {unknown} */ (navigator)).modelContext;
    if (typeof context?.getTools !== "function" || typeof context.executeTool !== "function") return null;
    return /\[native code\]/.test(Function.prototype.toString.call(context.getTools)) ? null : context;
  }

  /** Look for a polyfill, and serve its tools from then on. */
  function look() {
    const context = polyfill();
    if (!context || context === found) return;
    found = context;
    apply(addEventListener, window, ["message", received]);
    context.addEventListener?.("toolchange", () =>
      send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }),
    );
    send("mcp-server-ready");
  }

  /** The result of `tools/list`. */
  async function list() {
    const tools = (await found?.getTools()) ?? [];
    return { tools: tools.map(asTool) };
  }

  /** Only what is data: a registered tool also holds its window. @param {RegisteredTool} tool */
  function asTool({ name, title, description, inputSchema, annotations }) {
    const schema = typeof inputSchema === "string" ? JSON.parse(inputSchema) : inputSchema;
    return {
      name,
      ...(title && { title }),
      description,
      inputSchema: schema ?? { type: "object" },
      ...(annotations && { annotations: { ...annotations } }),
    };
  }

  /**
   * The arguments as JSON: all known polyfills take that, as browsers once did, also those whose schemas are objects.
   * What it throws may be the tool's own, so that nothing is tried a second way: a tool is never run twice.
   *
   * @param {string} id
   * @param {{ name: string, arguments: unknown }} call
   */
  async function call(id, { name, arguments: args }) {
    const context = /** @type {ModelContext} */ (found);
    const tool = (await context.getTools()).find((registered) => registered.name === name);
    if (!tool) throw new Error(`Tool ${name} not found`);
    const controller = new AbortController();
    running.set(id, controller);
    try {
      return await context.executeTool(tool, JSON.stringify(args), { signal: controller.signal });
    } finally {
      running.delete(id);
    }
  }

  /** @param {{ id: string, method: string, params: any }} request */
  async function outcome({ id, method, params }) {
    if (method === "initialize") return { capabilities: { tools: { listChanged: Boolean(found?.addEventListener) } } };
    if (method === "tools/list") return list();
    if (method === "tools/call") return call(id, params);
    throw new Error(`unknown method ${method}`);
  }

  /** @param {{ id: string, method: string, params: any }} request */
  async function answer(request) {
    const { id } = request;
    try {
      send({ jsonrpc: "2.0", id, result: await outcome(request) });
    } catch (error) {
      send({
        jsonrpc: "2.0",
        id,
        error: { code: -32603, message: error instanceof Error ? error.message : String(error) },
      });
    }
  }

  /** @param {MessageEvent} event */
  function received({ source, data }) {
    if (source !== window || data?.channel !== CHANNEL || data.server !== SERVER || data.type !== "mcp") return;
    if (data.direction !== "client-to-server") return;
    const { payload } = data;
    if (payload.method === "notifications/cancelled") return running.get(payload.params.requestId)?.abort();
    if (payload.id !== undefined) void answer(payload);
  }

  /** Look again after the page has loaded. */
  function loaded() {
    look();
    // There is no event for a polyfill that is installed late.
    apply(setTimeout, window, [look, 1_000]);
    apply(setTimeout, window, [look, 5_000]);
  }

  /** A listener that is there already is not added twice. */
  function listen() {
    apply(addEventListener, document, ["DOMContentLoaded", look]);
    apply(addEventListener, window, ["load", loaded]);
  }

  /** The page may have called `document.open()`; what a polyfill holds is still there. */
  function reopened() {
    listen();
    if (!found) return;
    apply(addEventListener, window, ["message", received]);
    send("mcp-server-ready");
  }

  listen();
  new MutationObserver(reopened).observe(document, { childList: true }); // content/document_open.js says why
  if (document.readyState !== "loading") look();
})();
