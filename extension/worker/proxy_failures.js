/** Failures of a connection to a WebSocket proxy: each has a sentence for the user and a next step. */

import { ABNORMAL_CLOSURE } from "./websocket_connection.js";

/**
 * @typedef {{ what: string, command?: string, link?: string }} Failure `command`: what fixes it, on the proxy's machine;
 *   `link`: an address to open
 * @typedef {(proxy: string, detail: string) => Failure} Describe `proxy`: its origin; `detail`: in words of the server
 */

/** Of the proxy, for its operator. */
const STATUS = "mcpb proxy status";
const CLOCK = "Compare the clocks of both machines.";
const SIGN_IN = "Disconnect, then connect again to sign in.";
const CONFIGURATION = "Its operator has to correct the configuration.";

/** By close code. @type {ReadonlyMap<number, string>} */
const CODES = new Map([
  [1001, "going-away"],
  [1009, "too-large"],
  [1013, "too-many"],
  [4001, "replaced"],
]);
/** What the proxy's close reason begins with when it states which check failed. */
const INVALID_TOKEN = "Invalid token: ";
const TOKEN_EXPIRED = "Token expired";

/** By reason: those of this extension, then those that the proxy states for a token. @type {Record<string, Describe>} */
const WORDS = {
  "bad-address": () => ({
    what: "This is no address of a proxy. Write it as https://proxy.example:8765; http only for this machine.",
  }),
  forbidden: () => ({ what: "Your administrator does not allow WebSocket proxies." }),
  unreachable: (proxy) => ({
    what: `${proxy} does not answer, or its certificate is not trusted. Open it in a tab to see which.`,
    link: proxy,
  }),
  refused: (proxy) => ({ what: `${proxy} answers, but opens no connection for this extension. ${CONFIGURATION}` }),
  "other-address": (proxy) => ({ what: `The server at ${proxy} says that it has another address. Check the address.` }),
  "unknown-name": (proxy) => ({
    what: `${proxy} does not know this name. Add it to allowed_hosts below [proxy] in its config.toml.`,
  }),
  "no-device-authorization": (proxy) => ({
    what: `${proxy} names no server at which a device can sign in. Check the address, or ask its operator.`,
  }),
  rejected: (_, detail) => ({ what: `The sign-in was rejected: ${detail || "no reason given"}. Try again.` }),
  "code-denied": () => ({ what: "The code was denied. Connect again for a new one." }),
  "code-expired": () => ({ what: "The code was not approved in time. Connect again for a new one." }),
  "signed-out": () => ({ what: "The sign-in has ended. Connect again to sign in." }),
  "going-away": () => ({ what: "The proxy was stopped. Connecting again." }),
  lost: () => ({ what: "The connection to the proxy was lost. Connecting again." }),
  "too-large": () => ({ what: "A message was larger than the proxy takes. Connecting again." }),
  "too-many": () => ({
    what: "The proxy has as many connections as it takes. Close other browsers or clients there.",
    command: STATUS,
  }),
  replaced: () => ({
    what: "Another connection of this browser profile has replaced this one. Close the copy of the profile.",
  }),
  "wire-version": (_, detail) => ({ what: `The proxy and this extension have different versions. ${detail}` }),
  complaint: (_, detail) => ({ what: detail }),
  closed: (_, detail) => ({
    what: `The proxy has ended the connection: ${detail || "no reason given"}.`,
    command: STATUS,
  }),
  storage: () => ({ what: "The extension cannot read its storage; its error page says why." }),

  expired: () => ({ what: `The proxy says that a new token has expired. ${CLOCK}` }),
  "not-yet-valid": () => ({ what: `The proxy says that the token is not valid yet. ${CLOCK}` }),
  malformed: () => ({ what: `The proxy cannot read the token. ${CONFIGURATION}`, command: STATUS }),
  missing: () => ({ what: `The proxy has received no token. ${SIGN_IN}` }),
  signature: () => ({ what: `The signature of the token is wrong for the proxy. ${SIGN_IN}`, command: STATUS }),
  "unknown-key": () => ({ what: `The proxy does not know the key of the token. ${SIGN_IN}`, command: STATUS }),
  algorithm: () => ({
    what: `The proxy does not accept the algorithm of the token. ${CONFIGURATION}`,
    command: STATUS,
  }),
  issuer: () => ({ what: `The proxy does not trust the issuer of the token. ${CONFIGURATION}`, command: STATUS }),
  audience: () => ({ what: `The token is for another service than this proxy. ${CONFIGURATION}`, command: STATUS }),
  "connection-url": (proxy) => ({ what: `The token is for another address than ${proxy}. Check the address.` }),
  scope: () => ({ what: `The token does not allow to connect a browser. ${SIGN_IN}` }),
  user: () => ({ what: `The token names no user. ${CONFIGURATION}`, command: STATUS }),
  "another-user": () => ({ what: "The new token belongs to another user. Disconnect, then connect again." }),
  revoked: () => ({ what: `Access was revoked at the proxy. ${SIGN_IN}` }),
};

/**
 * Why a socket has ended on which the proxy had answered.
 *
 * @param {number} code
 * @param {string} reason
 * @returns {{ reason: string, detail: string, isToken: boolean }} `isToken`: another token may help
 */
export function readClose(code, reason) {
  if (reason.startsWith(INVALID_TOKEN)) return { reason: reason.slice(INVALID_TOKEN.length), detail: "", isToken: true };
  if (reason.startsWith(TOKEN_EXPIRED)) return { reason: "expired", detail: "", isToken: true };
  const known = CODES.get(code);
  if (known) return { reason: known, detail: "", isToken: false };
  if (code === ABNORMAL_CLOSURE) return { reason: "lost", detail: "", isToken: false };
  return { reason: "closed", detail: `${code} ${reason}`.trim(), isToken: false };
}

/**
 * @param {string} reason
 * @param {string} proxy its origin
 * @param {string} [detail]
 * @returns {Failure}
 */
export function describeFailure(reason, proxy, detail = "") {
  const describe = Object.hasOwn(WORDS, reason) ? WORDS[reason] : undefined;
  if (describe) return describe(proxy, detail);
  return { what: `The proxy has rejected the token: ${reason}. ${SIGN_IN}`, command: STATUS };
}
