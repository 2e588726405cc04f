// The page end of MCP-B's tab transport, by hand, or with `parent` that of its iframe transport, which answers the
// parent window alone. Offers the tools in `offered` and no others, and answers more methods with `more`.
function startServer(
  offered,
  { name = "by hand", listChanged = true, about = {}, parent = false, capabilities = {}, more = {} } = {},
) {
  const [channel, client] = parent ? ["mcp-iframe", window.parent] : ["mcp-default", window];
  const running = new Map();
  const asked = new Map();
  window.responses = []; // to requests of the server, in their order
  const send = (payload) =>
    client.postMessage({ channel, type: "mcp", direction: "server-to-client", payload }, "*");

  async function call(id, { name: toolName, arguments: args, _meta }) {
    window.lastCall = { id, name: toolName };
    const tool = offered.get(toolName);
    if (!tool) return { error: { code: -32602, message: `Tool ${toolName} not found` } };
    const controller = new AbortController();
    running.set(id, controller);
    const token = _meta?.progressToken;
    const progress = (params) =>
      token !== undefined &&
      send({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: token, ...params } });
    try {
      return { result: await runTool(tool, args, { signal: controller.signal, progress }) };
    } catch (error) {
      return { result: { content: [{ type: "text", text: error.message }], isError: true } };
    } finally {
      running.delete(id);
    }
  }

  const answers = {
    initialize: ({ protocolVersion }) => ({
      result: {
        protocolVersion,
        capabilities: { tools: { listChanged }, ...capabilities },
        serverInfo: { name, version: "1", ...about },
      },
    }),
    "tools/list": () => ({
      result: { tools: [...offered].map(([toolName, { run, ...tool }]) => ({ name: toolName, ...tool })) },
    }),
    ...more,
  };

  async function received({ source, data }) {
    if (source !== client || data?.channel !== channel || data.direction !== "client-to-server") return;
    const { payload } = data;
    if (payload === "mcp-check-ready") return send("mcp-server-ready");
    const { id, method, params } = payload;
    if (method === undefined) return window.responses.push(payload), asked.get(id)?.(payload);
    if (method === "initialize") window.client = params;
    if (method === "notifications/cancelled") return running.get(params.requestId)?.abort();
    if (id === undefined) return;
    const answer = method === "tools/call" ? await call(id, params) : await answers[method]?.(params);
    const isCancelled = method === "tools/call" && answer.result?.content?.[0]?.text === "cancelled";
    if (!isCancelled)
      send({ jsonrpc: "2.0", id, ...(answer ?? { error: { code: -32601, message: `unknown ${method}` } }) });
  }

  window.addEventListener("message", received);
  send("mcp-server-ready");
  return {
    changed: () => send({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }),
    notify: (method, params) => send({ jsonrpc: "2.0", method, params }),
    log: (words) => send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: words } }),
    // A request to the client; resolves to its response. The newest response is also in `window.answer`.
    request: (requestMethod, params, id = `asked-${asked.size}`) =>
      new Promise((resolve) => {
        asked.set(id, (response) => resolve((window.answer = response)));
        send({ jsonrpc: "2.0", id, method: requestMethod, params });
      }),
    cancel: (requestId) => send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } }),
    vanish: () => window.removeEventListener("message", received),
    stop: () => {
      window.removeEventListener("message", received);
      send("mcp-server-stopped");
    },
  };
}
