// The other product's side of its channel: two host names in order, the first that answers is the port; an answer
// to a request carries no id.
const NAMES = ["com.anthropic.claude_browser_extension", "com.anthropic.claude_code_browser_extension"];

function dial(names) {
  const [name, ...others] = names;
  if (!name) return;
  const port = chrome.runtime.connectNative(name);
  port.onDisconnect.addListener(() => dial(others));
  port.onMessage.addListener((message) => {
    if (message.type === "pong") port.postMessage({ type: "get_status" });
    if (message.type !== "tool_request") return;
    const { tool, args } = message.params;
    port.postMessage({ type: "tool_response", result: { content: `${tool}: ${args.text}` } });
  });
  port.postMessage({ type: "ping" });
}

dial(NAMES);
