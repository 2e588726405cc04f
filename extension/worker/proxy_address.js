/** Address of a WebSocket proxy: what a user may enter, and what is reached there. Plain text only on this machine. */

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
/** Of the endpoint for extensions. */
export const EXTENSION_PATH = "/extension";
/** What users paste with an address. */
const PATHS = new Set(["/", EXTENSION_PATH, "/mcp"]);

/**
 * The origin that an address names, such as `https://proxy.example:8765`.
 *
 * @param {string} address with or without a scheme
 * @returns {string} empty: it is no address, or the token would cross the network in plain text
 */
export function readAddress(address) {
  const given = address.trim();
  const url = URL.parse(/^[a-z]+:\/\//i.test(given) ? given : `https://${given}`);
  if (!url || url.username || url.password || url.search || url.hash || !PATHS.has(url.pathname)) return "";
  const isSchemeless = !given.includes("://");
  const isPlain = /^(http|ws):$/.test(url.protocol) || (isSchemeless && isLoopback(url));
  if (!isPlain && !/^(https|wss):$/.test(url.protocol)) return "";
  if (isPlain && !isLoopback(url)) return "";
  return new URL(`${isPlain ? "http" : "https"}://${isSchemeless ? hostOf(given) : url.host}`).origin;
}

/**
 * Return whether a token of a proxy may be sent there: encrypted, or on this machine if the proxy is there, too.
 *
 * @param {unknown} address that the proxy, or its authorization server, names
 * @param {string} proxy its origin
 */
export function isSafe(address, proxy) {
  const url = typeof address === "string" ? URL.parse(address) : null;
  return url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url) && isLoopback(new URL(proxy)));
}

/** @param {string} origin of a proxy @returns {string} where extensions connect to it */
export function socketUrl(origin) {
  return origin && `${origin.replace(/^http/, "ws")}${EXTENSION_PATH}`;
}

/** The browser leaves out the default port of the scheme that it was given. @param {string} given */
function hostOf(given) {
  return given.split("/")[0] ?? "";
}

/** @param {URL} url */
function isLoopback({ hostname }) {
  return LOOPBACK.test(hostname);
}
