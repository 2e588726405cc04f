// The other product's extension, played: it dials its native hosts, and runs a few of its tools with plain
// extension APIs. Tests look into it, and turn what it does, by evaluating in its worker.

const HOSTS = ["com.anthropic.claude_browser_extension", "com.anthropic.claude_code_browser_extension"];
const PONG_MS = 10_000;

/** Its versions since 2026 say which call an answer is for; before, none did. */
let namesCalls = true;
/** Whether it asks before it goes to an address. */
let asks = false;
/** The types of all that its present host has said. */
let heard = [];
/** The connection to its host, if there is one. @type {chrome.runtime.Port | null} */
let port = null;

/** The tab group of each session, as long as it is there. */
const groups = new Map();
/** What resolves each question to the person. */
const questions = new Map();

/** Dial hosts in order until one answers; whether one did. */
async function dial(names = HOSTS) {
  hangUp();
  for (const name of names) {
    port = await answering(name);
    if (port) return true;
  }
  return false;
}

function hangUp() {
  port?.disconnect();
  port = null;
  heard = [];
}

/** A connection whose other end has answered a ping. @returns {Promise<chrome.runtime.Port | null>} */
function answering(name) {
  const dialed = chrome.runtime.connectNative(name);
  return new Promise((resolve) => {
    const patience = setTimeout(() => (dialed.disconnect(), resolve(null)), PONG_MS);
    dialed.onDisconnect.addListener(() => {
      clearTimeout(patience);
      if (port === dialed) port = null;
      resolve(null);
    });
    dialed.onMessage.addListener((message) => {
      heard.push(message.type);
      if (message.type === "tool_request") return void answer(dialed, message);
      if (message.type !== "pong") return;
      clearTimeout(patience);
      dialed.postMessage({ type: "get_status" });
      resolve(dialed);
    });
    dialed.postMessage({ type: "ping" });
  });
}

async function answer(to, { method, params }) {
  if (method === "permission_response") return questions.get(params.request_id)?.(params.allowed);
  const unknown = { result: { content: `Unknown method: ${method}` } };
  const said = method === "execute_tool" ? await outcome(to, params) : unknown;
  if (!said) return;
  to.postMessage({ type: "tool_response", ...(namesCalls && { tool_use_id: params?.tool_use_id }), ...said });
}

/** What a call has come to; null where there is nothing to say, and nothing is said. */
async function outcome(to, params) {
  const tool = TOOLS[params.tool];
  try {
    if (!tool) throw new Error(`Unknown tool: ${params.tool}`);
    await allowed(to, params);
    const content = await tool(params.args ?? {}, (namesCalls && params.session_scope?.sessionId) || "");
    return content.length ? { result: { content } } : null;
  } catch (error) {
    return { error: { content: [text(error.message)] } };
  }
}

async function allowed(to, { tool, args, tool_use_id, handle_permission_prompts }) {
  if (!asks || tool !== "navigate" || !handle_permission_prompts) return;
  const request_id = crypto.randomUUID();
  const answered = new Promise((resolve) => questions.set(request_id, resolve));
  const params = { tool_use_id, request_id, tool_type: tool, url: args.url, action_data: {} };
  to.postMessage({ type: "notification", jsonrpc: "2.0", method: "permission_request", params });
  if (!(await answered)) throw new Error("Permission denied by user");
}

const TOOLS = {
  async tabs_context_mcp({ createIfEmpty }, session) {
    if (!groups.has(session)) {
      if (!createIfEmpty) return [text("This session has no tab group. Call it with createIfEmpty: true.")];
      await opened(session);
    }
    const tabGroupId = groups.get(session);
    const tabs = await chrome.tabs.query({ groupId: tabGroupId });
    const availableTabs = tabs.map(({ id, title, url }) => ({ tabId: id, title, url }));
    return [text(JSON.stringify({ availableTabs, tabGroupId }))];
  },

  async tabs_create_mcp(_, session) {
    if (!groups.has(session)) throw new Error("No MCP tab group exists: tabs_context_mcp makes one.");
    return [text(`Created new tab. Tab ID: ${await opened(session)}`)];
  },

  async navigate({ tabId, url }, session) {
    await owned(tabId, session);
    const loaded = new Promise((resolve) => {
      const listener = (id, { status }) => {
        if (id !== tabId || status !== "complete") return;
        chrome.tabs.onUpdated.removeListener(listener);
        resolve(null);
      };
      chrome.tabs.onUpdated.addListener(listener);
    });
    await chrome.tabs.update(tabId, { url });
    await loaded;
    return [text(`Navigated to ${url}`), text(`Tab Context:\n- Executed on tabId: ${tabId}`)];
  },

  async get_page_text({ tabId }, session) {
    await owned(tabId, session);
    const func = () => document.body.innerText;
    const [{ result }] = await chrome.scripting.executeScript({ target: { tabId }, func });
    return result ? [text(result)] : [];
  },

  async computer({ action, tabId }, session) {
    await owned(tabId, session);
    if (action !== "screenshot") throw new Error(`Unsupported action: ${action}`);
    await chrome.tabs.update(tabId, { active: true });
    await chrome.debugger.attach({ tabId }, "1.3");
    const { data } = await chrome.debugger.sendCommand({ tabId }, "Page.captureScreenshot");
    await chrome.debugger.detach({ tabId });
    return [{ type: "image", source: { type: "base64", media_type: "image/png", data } }];
  },
};

/** A new tab in the group of a session. */
async function opened(session) {
  const { id } = await chrome.tabs.create({ active: false });
  groups.set(session, await chrome.tabs.group({ tabIds: id, groupId: groups.get(session) }));
  return id;
}

/** A tab, if it is the session's. */
async function owned(tabId, session) {
  const tab = await chrome.tabs.get(tabId).catch(() => null);
  if (!tab) throw new Error(`Tab ${tabId} no longer exists.`);
  if (tab.groupId !== groups.get(session)) throw new Error(`Tab ${tabId} is not in the group of this session.`);
  return tab;
}

chrome.tabGroups.onRemoved.addListener(({ id }) => {
  for (const [session, group] of groups) if (group === id) groups.delete(session);
});

const text = (words) => ({ type: "text", text: words });

dial();
