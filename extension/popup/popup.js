/**
 * The popup: state of the native host with the command to run, connected clients, and the tools of this tab. The user
 * pauses sites and clients here and hands this tab over to the clients.
 */

import { POPUP_PORT } from "../worker/popup_state.js";
import { BADGE_ONLY_KEY } from "../worker/approval_prompts.js";
import { LABEL_KEY } from "../worker/profile.js";
import { ALL_SITES, SiteAccess } from "../worker/host_permissions.js";

/**
 * @import { PopupMessage, Report } from "../worker/popup_state.js"
 * @import { Client, SiteApproval } from "../worker/wire.js"
 */

const REDIAL_MS = 250;
const SILENCE_MS = 2_000;
/** Of a site's tools, as a user reads them. */
const USES = { "": "as configured", on: "on", ask: "ask me first", off: "off" };

/** @type {chrome.runtime.Port} */
let port;
/** The newest click that no report has followed yet. @type {PopupMessage | null} */
let asked = null;
const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
dial();

const label = /** @type {HTMLInputElement} */ (element("label"));
label.value = String((await chrome.storage.local.get(LABEL_KEY))[LABEL_KEY] ?? "");
label.addEventListener("change", () => void chrome.storage.local.set({ [LABEL_KEY]: label.value.trim() }));

const siteAccess = new SiteAccess(showAccess);
const badgeOnly = /** @type {HTMLInputElement} */ (element("badge-only"));
badgeOnly.checked = (await chrome.storage.local.get(BADGE_ONLY_KEY))[BADGE_ONLY_KEY] === true;
badgeOnly.addEventListener("change", () => void chrome.storage.local.set({ [BADGE_ONLY_KEY]: badgeOnly.checked }));

element("allow").addEventListener("click", () => void chrome.permissions.request(ALL_SITES));
void siteAccess.load().then(showAccess);

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
  port.onDisconnect.addListener(() => {
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
function show({ connected, resting, attempts, trouble, host, sites, owner, handedOver, blocked, offers, ...about }) {
  element("state").textContent = stateText(host, trouble);
  element("trouble").hidden = connected || !trouble;
  element("what").textContent = trouble?.what ?? "";
  element("remedy").hidden = !trouble?.command;
  element("command").textContent = trouble?.command ?? "";
  element("attempts").textContent = attempts === 0 ? "" : attemptsText(attempts, resting);
  const attached = about.clients.flatMap((client) => clientItems(client, about));
  element("clients").replaceChildren(...orNone(attached));
  element("waiting").hidden = about.prompts === 0;
  element("prompts").replaceChildren(
    about.prompts === 1 ? "A client waits for your approval." : `${about.prompts} clients wait for your approval.`,
    button("Show", { type: "show-prompt" }),
  );
  element("approvals").replaceChildren(...orNone(about.approvals.map(approvalItem)));
  element("left").replaceChildren(...orNone(about.left.map(leftItem)));
  element("tab").replaceChildren(...(blocked ? blockedPage(blocked) : []), ...handOver(owner, handedOver));
  element("sites").replaceChildren(...orNone(sites.map(siteItem)));
  element("offers").replaceChildren(...orNone(offers.flatMap(offer)));
}

function showAccess() {
  element("access").hidden = siteAccess.isEverywhere;
}

/**
 * @param {Report["host"]} host
 * @param {Report["trouble"]} trouble
 */
function stateText(host, trouble) {
  if (host) return `Connected (native host ${host.version}, pid ${host.pid})`;
  return trouble ? "Not connected" : "Connecting…";
}

/**
 * @param {number} attempts
 * @param {boolean} resting
 */
function attemptsText(attempts, resting) {
  const tried = `Tried ${attempts} ${attempts === 1 ? "time" : "times"}.`;
  return resting ? `${tried} It is tried again every minute, and when this window is opened.` : tried;
}

/**
 * @param {Client} client
 * @param {{ pausedSessions: string[], controlling: string[] }} about
 */
function clientItems({ sessions, pid, version }, { pausedSessions, controlling }) {
  if (sessions.length === 0) return [line(`bridge ${version}, pid ${pid}`)];
  return sessions.map(({ id, client, title }) => {
    const paused = pausedSessions.includes(id);
    const name = [title, client.name, client.version].filter(Boolean).join(" ");
    return line(
      `${name}, pid ${pid}${paused ? ": paused" : ""}${controlling.includes(id) ? ": steers pages now" : ""}`,
      button(paused ? "Resume" : "Pause", { type: "pause-session", session: id, paused: !paused }),
    );
  });
}

/** @param {Report["sites"][number]} site */
function siteItem({ origin, paused }) {
  return line(
    `${origin}${paused ? ": paused" : ""}`,
    button(paused ? "Resume" : "Pause", { type: "pause-site", origin, paused: !paused }),
  );
}

/** @param {NonNullable<Report["blocked"]>} blocked */
function blockedPage({ origin, rule, clients }) {
  const text = `mcpb keeps this tab from ${origin}: ${rule}. The tab is used by ${clients.join(", ")}. `;
  return [text, button("Release this tab", { type: "release" }), document.createElement("br")];
}

/** @param {Report["left"][number]} left */
function leftItem({ client, tabs }) {
  return line(
    `${client}: ${tabs} ${tabs === 1 ? "tab" : "tabs"}`,
    button("Close", { type: "close-left", client }),
    button("Keep", { type: "keep-left", client }),
  );
}

/** @param {SiteApproval} approval */
function approvalItem(approval) {
  const { origin, for: words, client, until } = approval;
  const end = until ? `, until ${new Date(until).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "";
  return line(
    `${origin}: ${words.join(", ")}, for ${client || "every client"}${end}`,
    button("Revoke", { type: "revoke", approval }),
  );
}

/**
 * @param {string | null} owner
 * @param {boolean} handedOver
 */
function handOver(owner, handedOver) {
  if (owner !== null) return [`This is a tab of ${owner || "a client"}.`];
  return [
    handedOver ? "Clients may steer this tab." : "Clients may only call its page's tools.",
    button(handedOver ? "Take it back" : "Hand this tab over", { type: "hand-over", handedOver: !handedOver }),
  ];
}

/** @param {Report["offers"][number]} offer */
function offer({ origin, allowed, tools, notice, use }) {
  const head = document.createElement("p");
  head.textContent = allowed ? origin : `${origin} (not in the list of allowed origins: not offered)`;
  if (origin !== "null") head.append(" ", useOfTools(origin, use));
  const list = document.createElement("ul");
  list.append(...orNone(tools.map(({ name, via }) => line(`${name} (${via ?? "unknown"})`))));
  if (!notice) return [head, list];
  const note = document.createElement("p");
  note.textContent = notice;
  return [head, list, note];
}

/**
 * Whether this site's tools are used.
 *
 * @param {string} origin
 * @param {string} use empty: as configured
 */
function useOfTools(origin, use) {
  const choice = document.createElement("select");
  choice.title = `Tools of ${origin}`;
  for (const [value, text] of Object.entries(USES)) choice.add(new Option(text, value, false, value === use));
  choice.addEventListener("change", () => ask({ type: "page-tools", origin, use: choice.value }));
  return choice;
}

/** @param {HTMLElement[]} items */
function orNone(items) {
  return items.length > 0 ? items : [line("none")];
}

/** @param {(string | Node)[]} parts */
function line(...parts) {
  const item = document.createElement("li");
  item.append(...parts);
  return item;
}

/**
 * @param {string} text
 * @param {PopupMessage} message what it asks the worker
 */
function button(text, message) {
  const made = document.createElement("button");
  made.textContent = text;
  made.addEventListener("click", () => ask(message));
  return made;
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
