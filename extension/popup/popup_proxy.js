/** The WebSocket proxy in the popup: its address, the code that the user approves, and what is wrong. */

import { write } from "./rows.js";

/**
 * @import { PopupMessage, Report } from "../worker/popup_state.js"
 * @typedef {{ what: string, command: string, link: string }} Step what the user does next
 */

/**
 * What the user does next for the proxy; null: nothing.
 *
 * @param {Report["proxy"]} proxy
 * @returns {Step | null}
 */
export function nextStep({ code, failure }) {
  if (code?.isOfProxy) {
    const what = "Approve this browser: on the proxy's machine, run in a terminal:";
    return { what, command: `mcpb proxy approve ${code.userCode}`, link: "" };
  }
  if (code) return { what: `Approve this browser with the code ${code.userCode}:`, command: "", link: code.page };
  return failure && { what: failure.what, command: failure.command ?? "", link: failure.link ?? "" };
}

/** @param {Report["proxy"]} proxy @returns {string} its host, as a user reads it */
export function hostOf({ address }) {
  return URL.parse(address)?.host ?? address;
}

/** Send what the user enters. @param {(message: PopupMessage) => void} ask */
export function listenForProxy(ask) {
  element("proxy-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const isLeaving = element("proxy-button").dataset["leaves"] === "true";
    ask(isLeaving ? { type: "leave-proxy" } : { type: "choose-proxy", address: address().value });
  });
}

/** @param {Report["proxy"]} proxy */
export function showProxy(proxy) {
  const field = address();
  if (document.activeElement !== field && proxy.address) field.value = proxy.address;
  field.readOnly = proxy.isManaged || proxy.isWanted;
  field.disabled = proxy.isForbidden;
  const button = /** @type {HTMLButtonElement} */ (element("proxy-button"));
  button.disabled = proxy.isForbidden;
  button.dataset["leaves"] = String(proxy.isWanted);
  write(button, proxy.isWanted ? "Disconnect" : "Connect");
  write(element("proxy-state"), stateText(proxy));
  showStep(nextStep(proxy));
}

/** @param {Step | null} step */
function showStep(step) {
  element("proxy-step").hidden = step === null;
  write(element("proxy-what"), step?.what ?? "");
  element("proxy-run").hidden = !step?.command;
  write(element("proxy-command"), step?.command ?? "");
  const link = /** @type {HTMLAnchorElement} */ (element("proxy-link"));
  link.hidden = !step?.link;
  link.href = step?.link ?? "";
  write(link, step?.link ?? "");
}

/** @param {Report["proxy"]} proxy */
function stateText({ isForbidden, isConnected, isWanted, isManaged, userId, code }) {
  if (isForbidden) return "Your administrator does not allow this.";
  if (isConnected) return `Connected as ${userId}.`;
  if (code) return "Waiting for approval.";
  if (isWanted) return "Connecting…";
  return isManaged ? "Set by your administrator." : "";
}

/** The field with the address. */
function address() {
  return /** @type {HTMLInputElement} */ (element("proxy-address"));
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}
