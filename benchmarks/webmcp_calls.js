/**
 * Calls of a remote tool from a page: a bare `fetch`, `execute` of the page module, and the browser's executeTool.
 *
 * The page imports it beside webmcp/register.js; the server allows the page (CORS) and has a tool that answers fast.
 */

/**
 * Measure the three ways in turn, so that a busy machine slows all of them.
 *
 * @param {(options: object) => Promise<{ dispose(): Promise<void> }>} registerWebMcp
 * @param {{ url: string, name: string, args: object, count: number }} call
 * @returns {Promise<Record<"fetch" | "execute" | "executeTool", number>>} medians in milliseconds
 */
export async function measureCalls(registerWebMcp, { url, name, args, count }) {
  /** @type {any} */
  const context = /** @type {any} */ (document).modelContext;
  let execute = async (/** @type {object} */ _) => "";
  const register = context.registerTool;
  context.registerTool = (/** @type {any} */ tool, /** @type {object} */ options) => {
    if (tool.name === name) execute = tool.execute;
    return register.call(context, tool, options);
  };
  const handle = await registerWebMcp({ url, watch: false });
  const tool = (await context.getTools()).find((/** @type {any} */ each) => each.name === name);
  const ways = {
    fetch: await openBareSession(url, name, args),
    execute: () => execute(args),
    executeTool: () => context.executeTool(tool, JSON.stringify(args)),
  };
  /** @type {Record<string, number[]>} */
  const times = { fetch: [], execute: [], executeTool: [] };
  for (let round = 0; round < count; round += 1) {
    for (const [way, run] of Object.entries(ways)) {
      const begun = performance.now();
      await run();
      times[way]?.push(performance.now() - begun);
    }
  }
  await handle.dispose();
  const medians = Object.entries(times).map(([way, each]) => [way, each.sort((a, b) => a - b)[count >> 1]]);
  return Object.fromEntries(medians);
}

/**
 * Open a session by hand.
 *
 * @param {string} url
 * @param {string} name
 * @param {object} args
 * @returns {Promise<() => Promise<unknown>>} one call: the request, and the text of its response
 */
async function openBareSession(url, name, args) {
  const headers = new Headers({ "Content-Type": "application/json", Accept: "application/json, text/event-stream" });
  /** @param {object} message */
  const post = (message) => fetch(url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  const clientInfo = { name: "bare", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const opened = await post({ id: 1, method: "initialize", params });
  await opened.text();
  headers.set("Mcp-Session-Id", opened.headers.get("Mcp-Session-Id") ?? "");
  await post({ method: "notifications/initialized" });
  return async () => {
    const response = await post({ id: 2, method: "tools/call", params: { name, arguments: args } });
    const text = await response.text();
    return JSON.parse(/^data: ({.*})$/m.exec(text)?.[1] ?? text);
  };
}
