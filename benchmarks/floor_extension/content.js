// Passes tools/call requests to the page of the bench and its answers back, without a check.

const port = chrome.runtime.connect();
/** Tools of the browser's own WebMCP by name, read at the first call. */
let tools;
/** This browser takes arguments as JSON text: Chromium 150 does, 156 no longer. */
let takesJson = false;

function callServer(payload) {
  window.postMessage({ channel: "mcp-default", type: "mcp", direction: "client-to-server", payload });
}

function passAnswer({ data }) {
  if (data.direction === "server-to-client" && data.payload.id !== undefined) port.postMessage(data.payload);
}

async function callNatively({ jsonrpc, id, params }) {
  tools ??= new Map((await document.modelContext.getTools()).map((tool) => [tool.name, tool]));
  const text = await execute(tools.get(params.name), params.arguments);
  port.postMessage({ jsonrpc, id, result: JSON.parse(text) });
}

async function execute(tool, given) {
  if (takesJson) return document.modelContext.executeTool(tool, JSON.stringify(given));
  try {
    return await document.modelContext.executeTool(tool, given);
  } catch {
    takesJson = true;
    return execute(tool, given);
  }
}

if (location.search === "?native") {
  port.onMessage.addListener(callNatively);
} else {
  port.onMessage.addListener(callServer);
  window.addEventListener("message", passAnswer);
}
