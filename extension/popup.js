/** The popup: is a host there, and if not, why and what to run; who is attached; what this tab offers. */

import { POPUP_PORT } from "./popups.js";
import { LABEL_KEY } from "./profile.js";

/**
 * @import { Report } from "./popups.js"
 * @import { Client } from "./wire.js"
 */

const REDIAL_MS = 250;
const SILENCE_MS = 2_000;

const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
dial();

const label = /** @type {HTMLInputElement} */ (element("label"));
label.value = String((await chrome.storage.local.get(LABEL_KEY))[LABEL_KEY] ?? "");
label.addEventListener("change", () => void chrome.storage.local.set({ [LABEL_KEY]: label.value.trim() }));

/**
 * The worker may be stopped while the popup is open: dialling starts it again. A port that is opened just while a
 * worker stops can be lost without a word (seen in Chromium 156): one that stays silent is given up.
 */
function dial() {
  const port = chrome.runtime.connect({ name: POPUP_PORT });
  const silence = setTimeout(() => {
    port.disconnect();
    dial();
  }, SILENCE_MS);
  port.onMessage.addListener((report) => {
    clearTimeout(silence);
    show(report);
  });
  port.onDisconnect.addListener(() => {
    clearTimeout(silence);
    setTimeout(dial, REDIAL_MS);
  });
  port.postMessage({ tabId: tab?.id ?? chrome.tabs.TAB_ID_NONE });
}

/** @param {Report} report */
function show({ connected, resting, attempts, trouble, host, clients, offers }) {
  element("state").textContent = stateText(host, trouble);
  element("trouble").hidden = connected || !trouble;
  element("what").textContent = trouble?.what ?? "";
  element("remedy").hidden = !trouble?.command;
  element("command").textContent = trouble?.command ?? "";
  element("attempts").textContent = attempts === 0 ? "" : attemptsText(attempts, resting);
  element("clients").replaceChildren(...lines(clients.flatMap(clientLines), "none"));
  element("offers").replaceChildren(...(offers.length > 0 ? offers.flatMap(offer) : lines([], "none")));
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

/** @param {Client} client @returns {string[]} */
function clientLines({ sessions, pid, version }) {
  if (sessions.length === 0) return [`bridge ${version}, pid ${pid}`];
  return sessions.map(
    ({ client, title }) => `${[title, client.name, client.version].filter(Boolean).join(" ")}, pid ${pid}`,
  );
}

/** @param {Report["offers"][number]} offer */
function offer({ origin, allowed, tools, notice }) {
  const head = document.createElement("p");
  head.textContent = allowed ? origin : `${origin} (not in the list of allowed origins: not offered)`;
  const list = document.createElement("ul");
  list.append(
    ...lines(
      tools.map(({ name, via }) => `${name} (${via ?? "unknown"})`),
      "none",
    ),
  );
  if (!notice) return [head, list];
  const note = document.createElement("p");
  note.textContent = notice;
  return [head, list, note];
}

/**
 * @param {string[]} texts
 * @param {string} otherwise
 */
function lines(texts, otherwise) {
  return (texts.length > 0 ? texts : [otherwise]).map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  });
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
