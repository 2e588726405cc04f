/**
 * OAuth metadata and requests: which authorization server issues tokens for a WebSocket proxy, and where.
 * Rules: RFC 9728 (protected resource), RFC 8414 (authorization server), RFC 8628 (device authorization).
 */

import { EXTENSION_PATH, isSafe } from "./proxy_address.js";

/**
 * @typedef {{ issuer: string, deviceUrl: string, tokenUrl: string, clientId: string, resource: string,
 *   scope: string }} TokenService
 * @typedef {{ ok: boolean, status: number, body: Record<string, any> }} Answer
 */

const REQUEST_MS = 15_000;
const RESOURCE_PATH = "/.well-known/oauth-protected-resource";
/** RFC 8414, and what providers of OpenID Connect have in its place. */
const SERVER_PATHS = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];
/** HTTP status of a proxy that does not know the name in the address. */
const MISDIRECTED = 421;
/** HTTP statuses of a proxy that has as many connections as it takes. */
const BUSY = new Set([429, 503]);
const SCOPE = "mcpb:extension";
const OFFLINE = "offline_access";
const CLIENT_ID = "mcpb-extension";

/** A request that failed; `reason` is one of websocket_proxy.js's failures. */
export class SignInError extends Error {
  /** @param {string} reason @param {string} [detail] in words of the server */
  constructor(reason, detail = "") {
    super(detail || reason);
    this.reason = reason;
    this.detail = detail;
  }
}

/**
 * Find the authorization server of a proxy, which may be elsewhere.
 *
 * @param {string} proxy its origin
 * @returns {Promise<TokenService>}
 * @throws {SignInError}
 */
export async function findTokenService(proxy) {
  const resource = await request(`${proxy}${RESOURCE_PATH}`);
  if (resource.status === MISDIRECTED) throw new SignInError("unknown-name");
  if (resource.ok && !isSameHost(resource.body["resource"], proxy)) throw new SignInError("other-address");
  const issuer = String((resource.ok && resource.body["authorization_servers"]?.[0]) || proxy);
  if (!isSafe(issuer, proxy)) throw new SignInError("no-device-authorization");
  const server = await findServer(issuer);
  const { device_authorization_endpoint: deviceUrl, token_endpoint: tokenUrl } = server;
  if (!isSafe(deviceUrl, proxy) || !isSafe(tokenUrl, proxy)) throw new SignInError("no-device-authorization");
  const scopes = Array.isArray(server["scopes_supported"]) ? server["scopes_supported"] : [];
  return {
    ...{ issuer, deviceUrl, tokenUrl },
    clientId: String(resource.body["mcpb_client_id"] ?? CLIENT_ID),
    resource: String(resource.body["resource"] ?? proxy),
    scope: scopes.includes(OFFLINE) ? `${SCOPE} ${OFFLINE}` : SCOPE,
  };
}

/**
 * @param {string} issuer
 * @returns {Promise<Record<string, any>>} its metadata
 */
async function findServer(issuer) {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, "");
  for (const known of SERVER_PATHS) {
    // OpenID Connect appends its path to the issuer, RFC 8414 puts its own before the issuer's path.
    for (const url of new Set([`${origin}${known}${path}`, `${origin}${path}${known}`])) {
      const { ok, body } = await request(url);
      if (ok && body["issuer"] === issuer) return body;
    }
  }
  throw new SignInError("no-device-authorization");
}

/**
 * Post a form, or fetch a document where no form is given.
 *
 * @param {string} url
 * @param {Record<string, string>} [form]
 * @returns {Promise<Answer>} `body` is empty if it is not a JSON object
 * @throws {SignInError} there is no response, or one that says that the server is at fault
 */
export async function request(url, form) {
  const signal = AbortSignal.timeout(REQUEST_MS);
  const post = form && { method: "POST", body: new URLSearchParams(form) };
  try {
    const response = await fetch(url, { ...post, signal, cache: "no-store", credentials: "omit", redirect: "error" });
    if (response.status >= 500) throw new SignInError("unreachable");
    const body = await response.json().catch(() => ({}));
    return { ok: response.ok, status: response.status, body: isObject(body) ? body : {} };
  } catch (error) {
    // The text of the browser says nothing more, and a form has tokens.
    throw error instanceof SignInError ? error : new SignInError("unreachable");
  }
}

/**
 * Why a proxy opens no WebSocket.
 *
 * @param {string} proxy its origin
 * @returns {Promise<"too-many" | "refused" | "unreachable">}
 */
export async function probe(proxy) {
  const url = `${proxy}${EXTENSION_PATH}`;
  const signal = AbortSignal.timeout(REQUEST_MS);
  try {
    const { status } = await fetch(url, { signal, cache: "no-store", credentials: "omit", redirect: "manual" });
    return BUSY.has(status) ? "too-many" : "refused";
  } catch {
    return "unreachable";
  }
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} resource @param {string} proxy */
function isSameHost(resource, proxy) {
  return typeof resource === "string" && URL.parse(resource)?.host === new URL(proxy).host;
}
