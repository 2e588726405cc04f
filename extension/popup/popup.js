/**
 * The popup: one line with the state, this tab, the agents or the next step, and details.
 *
 * Everything keeps its place: the overview has a fixed layout, and rows stay where they are (`rows.js`).
 */

import { POPUP_PORT } from "../worker/popup_state.js";
import { onPortEnd } from "../worker/port_end.js";
import { ALL_SITES, SiteAccess } from "../worker/host_permissions.js";
import { hostOf, listenForProxy, nextStep, showProxy } from "./popup_proxy.js";
import { showSettings } from "./popup_settings.js";
import { Rows, write } from "./rows.js";

/**
 * @import { PopupMessage, Report } from "../worker/popup_state.js"
 * @import { SiteApproval } from "../worker/wire.js"
 * @import { Item } from "./rows.js"
 * @typedef {{ text: string, message: PopupMessage } | null} TabAction the button below the sentence about this tab
 */

const REDIAL_MS = 250;
const SILENCE_MS = 2_000;
/** Between two attempts to connect while the popup is open and the worker itself waits for its alarm. */
const CONNECTING_MS = 3_000;
const COPIED_MS = 1_500;
/** Of a site's tools, as a user reads them. */
const USES = { "": "as configured", on: "on", ask: "ask me first", off: "off" };
/** Why no client can use this tab. */
const REASONS = {
  incognito: "Agents cannot use incognito tabs.",
  "kept out": "The browser gives mcpb no access to this site. Agents cannot use it.",
  "of the browser": "Browsers keep extensions out of this page. Agents cannot use it.",
};

/** @type {chrome.runtime.Port} */
let port;
/** The newest click that no report has followed yet. @type {PopupMessage | null} */
let asked = null;
/** The worker itself tries to connect only once a minute. */
let isResting = false;
/** Tabs that ended sessions have left open. */
let leftTabs = 0;
const clients = new Rows(element("clients"), "disconnected");
const sites = new Rows(element("sites"), "resumed");
const approvals = new Rows(element("approvals"), "revoked");
const offers = new Rows(element("offers"), "gone");
const left = new Rows(element("left"), "done");
/** Choice of the use of a site's tools, by the key of its row. @type {Map<string, HTMLSelectElement>} */
const choices = new Map();
/** Buttons by client that has left tabs. @type {Map<string, HTMLElement>} */
const leftButtons = new Map();

const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
dial();
setInterval(() => isResting && post({ type: "connect", isUrgent: false }), CONNECTING_MS);

const siteAccess = new SiteAccess(showAccess);
void siteAccess.load().then(showAccess);
void showSettings();
listenForProxy(ask);

element("allow").addEventListener("click", () => void chrome.permissions.request(ALL_SITES));
element("show-prompt").addEventListener("click", () => ask({ type: "show-prompt" }));
element("connect").addEventListener("click", () => ask({ type: "connect", isUrgent: true }));
element("show-details").addEventListener("click", showDetails);
element("show-left").addEventListener("click", () => {
  showDetails();
  element("left").scrollIntoView({ block: "center" });
});
document.addEventListener("click", ({ target }) => {
  const button = /** @type {Element} */ (target).closest("button");
  if (button?.dataset["copy"]) void copy(button, element(button.dataset["copy"]));
});

/**
 * The worker may be stopped while the popup is open: dialling starts it again. A port that is opened just while a
 * worker stops can be lost without a word (seen in Chromium 156): one that stays silent is given up.
 */
function dial() {
  port = chrome.runtime.connect({ name: POPUP_PORT });
  const silence = setTimeout(() => {
    port.disconnect();
    dial();
  }, SILENCE_MS);
  port.onMessage.addListener((report) => {
    clearTimeout(silence);
    asked = null;
    show(report);
  });
  onPortEnd(port, () => {
    clearTimeout(silence);
    setTimeout(dial, REDIAL_MS);
  });
  post({ type: "watch", tabId: tab?.id ?? chrome.tabs.TAB_ID_NONE });
  if (asked) post(asked);
}

/** Ask the worker; if this port is lost, the next one says it again. @param {PopupMessage} message */
function ask(message) {
  asked = message;
  post(message);
}

/** @param {PopupMessage} message */
function post(message) {
  try {
    port.postMessage(message);
  } catch {
    // The worker was stopped just now: the port is dialled again.
  }
}

/** @param {Report} report */
function show(report) {
  isResting = report.resting;
  const [kind, text] = stateText(report);
  write(element("state"), text);
  element("state").className = kind;
  showTab(report);
  showAgents(report);
  showFooter(report);
  showConnection(report);
  showProxy(report.proxy);
  sites.show(report.sites.filter(({ origin }) => origin !== report.site).map(siteItem));
  approvals.show(report.approvals.map(approvalItem));
  offers.show(offerItems(report.offers));
  left.show(report.left.map(leftItem));
}

// ── The line with the state ─────────────────────────────────────────────────────────────────────────────────────

/**
 * The color of the dot, and the state in words.
 *
 * @param {Report} report
 * @returns {[string, string]}
 */
function stateText({ state, host, proxy, trouble, clients, activeSessions, sites, site }) {
  if (!host && !proxy.isConnected) return trouble || proxy.failure ? ["bad", "Not connected"] : ["", "Connecting…"];
  const count = clients.flatMap(({ sessions }) => sessions).length;
  if (state === "paused") {
    const isSitePaused = sites.some(({ origin, paused }) => paused && origin === site);
    return ["poor", isSitePaused ? "This site is paused" : "Agents are paused"];
  }
  if (state === "active") return ["live", "In use on this tab"];
  if (activeSessions.length > 0) return ["live", "In use on another tab"];
  if (count === 0) return ["good", "Connected, no agent"];
  return ["good", `Connected, ${count} ${count === 1 ? "agent" : "agents"}`];
}

// ── This tab ────────────────────────────────────────────────────────────────────────────────────────────────────

/** @param {Report} report */
function showTab({ page, site, sites, owner, handedOver, blocked }) {
  const isPaused = sites.some(({ origin, paused }) => paused && origin === site);
  const isUsable = page === "usable" || owner !== null;
  write(element("site"), isUsable ? site : "");
  const [text, action] = isUsable ? tabText(owner, handedOver, blocked, isPaused) : [REASONS[page], null];
  write(element("tab"), text);
  const pause = element("pause-site");
  pause.classList.toggle("absent", !isUsable || !site);
  write(pause, isPaused ? "Resume" : "Pause");
  pause.ariaLabel = `${pause.textContent} ${site}`;
  pause.onclick = () => ask({ type: "pause-site", origin: site, paused: !isPaused });
  const button = element("tab-action");
  button.classList.toggle("absent", action === null);
  if (!action) return;
  write(button, action.text);
  button.onclick = () => ask(action.message);
}

/**
 * What clients may do in this tab, and the button that changes it.
 *
 * @param {string | null} owner
 * @param {boolean} handedOver
 * @param {Report["blocked"]} blocked
 * @param {boolean} isPaused
 * @returns {[string, TabAction]}
 */
function tabText(owner, handedOver, blocked, isPaused) {
  if (blocked) {
    const { origin, rule, clients } = blocked;
    const text = `mcpb keeps this tab from ${origin}: ${rule}. It is used by ${clients.join(", ")}.`;
    return [text, { text: "Release this tab", message: { type: "release" } }];
  }
  if (owner !== null) return [`This tab belongs to ${owner || "an agent"}.`, null];
  const [text, action] = handedOver
    ? ["Agents can control this tab.", "Stop agents"]
    : ["Agents can use this page's own tools only.", "Let agents control this tab"];
  const message = /** @type {PopupMessage} */ ({ type: "hand-over", handedOver: !handedOver });
  return [isPaused ? "This site is paused: agents cannot use it." : text, { text: action, message }];
}

// ── Agents, and the next step ───────────────────────────────────────────────────────────────────────────────────

/** @param {Report} report */
function showAgents(report) {
  const isConnected = report.host !== null || report.proxy.isConnected;
  const items = isConnected ? clientItems(report) : [];
  clients.show(items);
  const trouble = isConnected ? null : troubleOf(report);
  const isNextShown = items.length === 0 && (isConnected || trouble !== null);
  element("next").hidden = !isNextShown;
  element("clients").hidden = isNextShown;
  write(element("agents-title"), isNextShown ? "Next step" : "Agents");
  if (!isNextShown) return;
  const { what, command } = trouble ?? firstAgent(report);
  write(element("what"), trouble && command && !what.endsWith(":") ? `${what} Run in a terminal:` : what);
  element("step").hidden = !command;
  element("step").classList.toggle("wide", !trouble);
  write(element("command"), command);
  write(element("more"), trouble || !report.host ? "" : "Other agents start what follows “--”.");
  element("trying").hidden = !trouble;
  write(element("attempts"), `Tried ${report.attempts} ${report.attempts === 1 ? "time" : "times"}.`);
}

/**
 * What is wrong: with the proxy, where the user wants one, else with the native host.
 *
 * @param {Report} report
 * @returns {{ what: string, command: string } | null}
 */
function troubleOf({ proxy, trouble }) {
  return (proxy.address && nextStep(proxy)) || trouble;
}

/**
 * How the first agent is connected.
 *
 * @param {Report} report
 * @returns {{ what: string, command: string }}
 */
function firstAgent({ host, proxy }) {
  const what = "No agent is connected. On its machine, run in a terminal:";
  if (!host) return { what, command: `mcpb proxy login ${proxy.address}` };
  return {
    what: "No agent is connected. Start yours, or first add mcpb to it. For Claude Code, in a terminal:",
    command: `claude mcp add --scope user browser -- ${host.command} bridge --name browser`,
  };
}

/** @param {Report} report @returns {Item[]} one for each session */
function clientItems({ clients, proxy, pausedSessions, activeSessions }) {
  /** @type {Map<string, Item>} */
  const items = new Map();
  for (const { pid, sessions } of clients) {
    for (const { id, client, title } of sessions) {
      const name = title || client.name || "an agent";
      const isPaused = pausedSessions.includes(id);
      const isActive = !isPaused && activeSessions.includes(id);
      const state = isPaused ? "paused" : isActive ? "active now" : "";
      const program = title ? [client.name, client.version] : [client.version && `version ${client.version}`];
      items.set(id, {
        key: id,
        name,
        kind: isPaused ? "poor" : isActive ? "live" : "",
        facts: [state || program.filter(Boolean).join(" "), placeOf(pid, proxy)].filter(Boolean).join(" · "),
        action: pauseButton(isPaused, name, { type: "pause-session", session: id, paused: !isPaused }),
      });
    }
  }
  return [...items.values()];
}

/** Where a client is. @param {number} pid 0: behind the proxy @param {Report["proxy"]} proxy */
function placeOf(pid, proxy) {
  return pid ? `pid ${pid}` : `through ${hostOf(proxy)}`;
}

/**
 * @param {boolean} isPaused
 * @param {string} name of what is paused or resumed
 * @param {PopupMessage} message
 */
function pauseButton(isPaused, name, message) {
  const text = isPaused ? "Resume" : "Pause";
  return { text, label: `${text} ${name}`, act: () => ask(message) };
}

// ── Footer: what waits for the user, else the versions ──────────────────────────────────────────────────────────

/** @param {Report} report */
function showFooter({ host, prompts, left }) {
  element("waiting").hidden = prompts === 0;
  const waiting = prompts === 1 ? "An agent waits for your approval." : `${prompts} agents wait for your approval.`;
  write(element("prompts"), waiting);
  leftTabs = left.reduce((sum, { tabs }) => sum + tabs, 0);
  write(element("leftover-tabs"), `Agents left ${countTabs(leftTabs)} open.`);
  const { version } = chrome.runtime.getManifest();
  const isSame = !host || host.version === version;
  write(element("version"), isSame ? `Version ${version}` : `Extension ${version}, native host ${host.version}`);
  showAccess();
}

/** Show the notice that comes first; the versions give way to it. */
function showAccess() {
  const isWaiting = !element("waiting").hidden;
  const isUrgent = isWaiting || !siteAccess.isEverywhere;
  element("access").hidden = siteAccess.isEverywhere || isWaiting;
  element("leftover").hidden = isUrgent || leftTabs === 0;
  element("version").hidden = isUrgent || leftTabs > 0;
}

// ── Details ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Show the details in place of the overview, or the overview again. */
function showDetails() {
  const isShown = element("details").hidden;
  element("details").hidden = !isShown;
  element("overview").hidden = isShown;
  const button = element("show-details");
  button.ariaExpanded = String(isShown);
  write(button, isShown ? "Back" : "Details");
}

/** @param {Report} report */
function showConnection({ host, proxy, trouble, clients }) {
  const { version } = chrome.runtime.getManifest();
  const idle = clients.filter(({ sessions }) => sessions.length === 0);
  const parts = [
    `Extension ${version}`,
    host ? `native host ${host.version}, pid ${host.pid}` : "no native host",
    ...(proxy.isConnected ? [`proxy ${hostOf(proxy)}`] : []),
    ...idle.map(({ version: own, pid }) => `bridge ${own} without an agent, ${placeOf(pid, proxy)}`),
  ];
  write(element("connection"), `${parts.join("; ")}.`);
  write(element("detail"), trouble?.detail ?? "");
}

/** @param {Report["sites"][number]} site @returns {Item} */
function siteItem({ origin, paused }) {
  const action = pauseButton(paused, origin, { type: "pause-site", origin, paused: !paused });
  return { key: origin, name: origin, facts: paused ? "paused" : "not paused", kind: paused ? "poor" : "", action };
}

/** @param {Report["left"][number]} left @returns {Item} */
function leftItem({ client, tabs }) {
  return { key: client, name: client, facts: countTabs(tabs), control: leftActions(client) };
}

/** @param {number} tabs */
function countTabs(tabs) {
  return tabs === 1 ? "1 tab" : `${tabs} tabs`;
}

/** The buttons that close or keep the tabs of a client. @param {string} client */
function leftActions(client) {
  const known = leftButtons.get(client);
  if (known) return known;
  const buttons = document.createElement("div");
  buttons.className = "actions";
  buttons.append(leftButton("Keep", { type: "keep-left", client }), leftButton("Close", { type: "close-left", client }));
  leftButtons.set(client, buttons);
  return buttons;
}

/**
 * @param {string} text
 * @param {PopupMessage & { client: string }} message
 */
function leftButton(text, message) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.ariaLabel = `${text} the tabs of ${message.client}`;
  button.addEventListener("click", () => ask(message));
  return button;
}

/** @param {SiteApproval} approval @returns {Item} */
function approvalItem(approval) {
  const { origin, for: words, client, until } = approval;
  const end = until ? `, until ${new Date(until).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "";
  const audience = words.every((word) => word.startsWith("tools:")) ? "its pages" : client || "every client";
  const facts = `${words.join(", ")}, for ${audience}${end}`;
  const act = () => ask({ type: "revoke", approval });
  return {
    ...{ key: JSON.stringify([origin, words, client]), name: origin, facts },
    action: { text: "Revoke", label: `Revoke ${words.join(", ")} for ${origin}`, act },
  };
}

/**
 * Frames of one origin have a row each.
 *
 * @param {Report["offers"]} frames
 * @returns {Item[]}
 */
function offerItems(frames) {
  return frames.map(({ origin, allowed, tools, remote, notice, use }, index) => {
    const key = `${origin} ${frames.slice(0, index).filter((frame) => frame.origin === origin).length}`;
    const names = tools.map(({ name, via }) => `${name} (${via ?? "unknown"})`).join(", ") || "none";
    const control = origin === "null" ? null : useChoice(key, origin, use);
    const offered = remote.map((each) => `${each.server} (${each.tools})`).join(", ");
    const limits = [allowed ? "" : "Not in your list of sites", offered && `Tools of remote servers here: ${offered}`, notice];
    return { key, name: origin, facts: [names, ...limits.filter(Boolean)].join(". "), control };
  });
}

/**
 * The choice whether a site's tools are used.
 *
 * @param {string} key of its row
 * @param {string} origin
 * @param {string} use empty: as configured
 */
function useChoice(key, origin, use) {
  const choice = choices.get(key) ?? document.createElement("select");
  if (!choices.has(key)) {
    choice.ariaLabel = `Tools of ${origin}`;
    for (const [value, text] of Object.entries(USES)) choice.add(new Option(text, value));
    choice.addEventListener("change", () => ask({ type: "page-tools", origin, use: choice.value }));
    choices.set(key, choice);
  }
  if (choice.value !== use) choice.value = use;
  return choice;
}

// ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * @param {HTMLButtonElement} button
 * @param {HTMLElement} source of the text
 */
async function copy(button, source) {
  await navigator.clipboard.writeText(String(source.textContent));
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
