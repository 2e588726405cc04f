/**
 * The approval window: shows one prompt and sends the user's choice to the worker. No button works before the window
 * has had the focus for a moment, and none has the keyboard focus at first: what the user types or clicks elsewhere
 * while the window opens must not answer it.
 */

import { APPROVAL_PORT } from "../worker/approval_prompts.js";
import { onPortEnd } from "../worker/port_end.js";

/**
 * @import { ApprovalMessage } from "../worker/approval_prompts.js"
 * @import { Prompt } from "../worker/wire.js"
 */

const REDIAL_MS = 250;
/** Time with the focus before a button works. */
const READY_MS = 500;

/** @type {Record<string, string>} */
const LABELS = {
  once: "Allow once",
  session: "Allow for this session",
  hour: "Allow for one hour, to this client",
  client: "Always allow, to this client",
  always: "Always allow, to every client",
  no: "Do not allow",
};
/** @type {Record<string, string>} */
const KINDS = {
  read: "read this site",
  act: "read this site and act on it",
  "page-tools": "use the tools of its pages",
  upload: "upload files to it",
  sampling: "let its pages use this client's model",
  roots: "tell its pages which folders this client works in",
};

/** @type {chrome.runtime.Port} */
let port;
/** @type {Prompt | null} */
let shown = null;
/** The user's answer, sent again when the worker was restarted. @type {ApprovalMessage | null} */
let answer = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let ready;

for (const event of ["focus", "blur"]) addEventListener(event, arm);
document.addEventListener("visibilitychange", arm);
dial();

/** The worker may be stopped while the window is open: connecting starts it again. */
function dial() {
  port = chrome.runtime.connect({ name: APPROVAL_PORT });
  port.onMessage.addListener(show);
  onPortEnd(port, () => setTimeout(dial, REDIAL_MS));
  if (answer) port.postMessage(answer);
}

/** @param {Prompt} prompt */
function show(prompt) {
  if (shown) return; // a window has one prompt
  shown = prompt;
  const { client, origin, kind, text, choices } = prompt;
  element("origin").textContent = origin;
  element("text").textContent = text;
  element("client").textContent = client;
  element("kind").textContent = KINDS[kind] ?? kind;
  element("choices").replaceChildren(...choices.map(button));
  element("prompt").hidden = false;
  arm();
}

/** Let the buttons work once the window has had the focus for READY_MS, from now on. */
function arm() {
  clearTimeout(ready);
  enable(false);
  if (document.hasFocus() && !document.hidden && !answer) ready = setTimeout(() => enable(true), READY_MS);
}

/** @param {boolean} isEnabled */
function enable(isEnabled) {
  for (const each of element("choices").querySelectorAll("button")) each.disabled = !isEnabled;
}

/** @param {string} choice */
function button(choice) {
  const made = document.createElement("button");
  made.type = "button";
  made.disabled = true;
  made.dataset["choice"] = choice;
  made.textContent = LABELS[choice] ?? choice;
  made.addEventListener("click", ({ isTrusted }) => {
    if (isTrusted) choose(choice);
  });
  return made;
}

/** @param {string} choice */
function choose(choice) {
  if (!shown || answer) return;
  answer = { type: "answer", prompt: shown.prompt, choice };
  arm();
  try {
    port.postMessage(answer);
  } catch {
    // The worker was stopped just now: the answer follows on the next port.
  }
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
