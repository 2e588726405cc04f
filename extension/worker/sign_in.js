/**
 * Sign-in at a WebSocket proxy's authorization server: device authorization, access tokens and their renewal. Tokens
 * leave this module only towards that server and, as the access token, in the response to `authenticate`.
 *
 * They are in `chrome.storage.local`, accessible to trusted contexts only. A browser without such an access level has
 * them in `chrome.storage.session`, which content scripts never see, and signs in again after its restart.
 * Rules: RFC 8628; RFC 6749, "Refreshing an Access Token".
 */

import { findTokenService, request, SignInError } from "./oauth_metadata.js";
import { isSafe } from "./proxy_address.js";

/**
 * @import { TokenService } from "./oauth_metadata.js"
 * @typedef {{ deviceCode: string, userCode: string, page: string, intervalMs: number, expiresAt: number }} Pending
 *   `page`: where the user approves it; `expiresAt`: ms since the epoch
 * @typedef {{ access: string, refresh: string, expiresAt: number }} Tokens
 * @typedef {{ proxy: string, service: TokenService | null, pending: Pending | null, tokens: Tokens | null }} Stored
 *   `proxy`: its origin
 * @typedef {{ userCode: string, page: string, isOfProxy: boolean }} Code for the user; `isOfProxy`: the proxy itself
 *   issues tokens, and it is approved on its machine
 */

const KEY = "proxySignIn";
const INTERVAL_S = 5;
/** Of the interval that a server may ask for: a timer of more than 24 days would end at once. */
const [SHORTEST_MS, LONGEST_MS] = [200, 60_000];
const SLOWER_MS = 5_000;
/** Of the address of a page that the popup shows. */
const MAX_PAGE = 500;
const LIFETIME_S = 3600;
/** An access token that ends sooner is renewed before it is used. */
const LEFT_MS = 60_000;
/** Pauses before a refresh whose response was lost is requested again. The server repeats its response for 30 s. */
const AGAIN_MS = [1_000, 3_000];
/** Users copy it into a command. */
const USER_CODE = /^[\w-]{1,40}$/;
const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

const isProtected = chrome.storage.local.setAccessLevel !== undefined;
const area = isProtected ? chrome.storage.local : chrome.storage.session;

export class SignIn {
  /** @type {Stored | null} */
  #stored = null;
  /** @type {Promise<void> | null} */
  #refreshing = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** Number of the latest sign-in: an earlier one comes to nothing. */
  #turn = 0;

  /**
   * @param {{ changed: () => void, signedIn: () => void, failed: (error: SignInError) => void }} events `changed`: the
   *   code for the user; `failed`: the device authorization
   */
  constructor(events) {
    this.events = events;
  }

  /** Read what an earlier worker has stored, and go on with its device authorization. */
  async load() {
    this.#stored = /** @type {Stored | undefined} */ ((await area.get(KEY))[KEY]) ?? null;
    if (this.#stored?.pending) this.#pollLater(0);
  }

  /** What the user approves; null: nothing waits. @returns {Code | null} */
  get code() {
    const { pending, service, proxy } = this.#stored ?? {};
    if (!pending || !service) return null;
    return { userCode: pending.userCode, page: pending.page, isOfProxy: new URL(service.issuer).origin === proxy };
  }

  /** Return whether there is a token for a proxy, or a way to get one. @param {string} proxy */
  has(proxy) {
    return this.#stored?.proxy === proxy && this.#stored.tokens !== null;
  }

  /** Return whether a device authorization for a proxy is under way. @param {string} proxy */
  isPending(proxy) {
    return this.#stored?.proxy === proxy && this.#stored.pending !== null;
  }

  /**
   * Ask for a code that the user approves, and wait for that in the background.
   *
   * @param {string} proxy its origin
   * @param {string} name of this browser, for the user who approves it
   * @throws {SignInError}
   */
  async begin(proxy, name) {
    const turn = await this.forget();
    const service = await findTokenService(proxy);
    const { clientId, scope, resource } = service;
    const form = { client_id: clientId, client_name: name, scope, resource };
    const { ok, body } = await request(service.deviceUrl, form);
    if (turn !== this.#turn) return;
    if (!ok || !USER_CODE.test(body["user_code"])) throw rejected(body);
    const pending = {
      deviceCode: String(body["device_code"]),
      userCode: String(body["user_code"]),
      page: pageOf(body["verification_uri_complete"] ?? body["verification_uri"], proxy),
      intervalMs: intervalOf((Number(body["interval"]) || INTERVAL_S) * 1000),
      expiresAt: Date.now() + (Number(body["expires_in"]) || LIFETIME_S) * 1000,
    };
    await this.#store({ proxy, service, pending, tokens: null });
    this.events.changed();
    this.#pollLater(pending.intervalMs);
  }

  /** Forget tokens and codes. @returns {Promise<number>} the turn that begins with it */
  async forget() {
    clearTimeout(this.#timer);
    const turn = (this.#turn += 1);
    this.#stored = null;
    await area.remove(KEY);
    this.events.changed();
    return turn;
  }

  /**
   * An access token that is valid for a while.
   *
   * @param {string} [used] a token that is not good enough: another one is wanted
   * @returns {Promise<string>}
   * @throws {SignInError} `signed-out`: the user has to sign in again; otherwise try later
   */
  async token(used = "") {
    const tokens = this.#tokens();
    if (tokens.access !== used && tokens.expiresAt - Date.now() > LEFT_MS) return tokens.access;
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    await this.#refreshing;
    return this.#tokens().access;
  }

  /** @returns {Tokens} @throws {SignInError} */
  #tokens() {
    if (!this.#stored?.tokens) throw new SignInError("signed-out");
    return this.#stored.tokens;
  }

  /** A response may get lost: the same refresh token is sent until there is one. */
  async #refresh() {
    for (const pauseMs of [...AGAIN_MS, 0]) {
      try {
        return await this.#refreshOnce();
      } catch (error) {
        if (!(error instanceof SignInError) || error.reason !== "unreachable" || pauseMs === 0) throw error;
        await new Promise((resolve) => void setTimeout(resolve, pauseMs));
      }
    }
  }

  /** Exchange the refresh token. */
  async #refreshOnce() {
    const { refresh } = this.#tokens();
    const before = this.#stored;
    if (!refresh || !before?.service) return this.#signOut();
    const { tokenUrl, clientId, resource } = before.service;
    const form = { grant_type: "refresh_token", refresh_token: refresh, client_id: clientId, resource };
    const { ok, body } = await request(tokenUrl, form);
    if (this.#stored !== before) throw new SignInError("signed-out"); // the user has disconnected meanwhile
    if (ok) return this.#store({ ...before, tokens: readTokens(body, refresh) });
    if (body["error"] === "invalid_grant") return this.#signOut();
    throw rejected(body);
  }

  /** The tokens are worth nothing any more. @returns {Promise<never>} */
  async #signOut() {
    await this.forget();
    throw new SignInError("signed-out");
  }

  /** @param {number} ms */
  #pollLater(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#poll(), ms);
  }

  /** Ask whether the user has approved the code. */
  async #poll() {
    const before = this.#stored;
    if (!before?.pending || !before.service) return;
    const { service, pending } = before;
    try {
      if (Date.now() > pending.expiresAt) throw new SignInError("code-expired");
      const form = { grant_type: DEVICE_GRANT, device_code: pending.deviceCode, client_id: service.clientId };
      const { ok, body } = await request(service.tokenUrl, form);
      if (this.#stored !== before) return; // another sign-in has begun
      if (ok) return await this.#signedIn(before, body);
      await this.#waitOn(before, pending, String(body["error"]), body);
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      await this.#pollFailed(before, pending, error);
    }
  }

  /** @param {Stored} before @param {Record<string, any>} body */
  async #signedIn(before, body) {
    await this.#store({ ...before, pending: null, tokens: readTokens(body, "") });
    this.events.changed();
    this.events.signedIn();
  }

  /**
   * @param {Stored} before
   * @param {Pending} pending
   * @param {string} error of RFC 8628
   * @param {Record<string, any>} body
   */
  async #waitOn(before, pending, error, body) {
    if (error === "access_denied") throw new SignInError("code-denied");
    if (error === "expired_token" || error === "invalid_grant") throw new SignInError("code-expired");
    if (error !== "authorization_pending" && error !== "slow_down") throw rejected(body);
    const intervalMs = intervalOf(pending.intervalMs + (error === "slow_down" ? SLOWER_MS : 0));
    // Also keeps the worker awake: the browser stops one that calls none of its functions for 30 s.
    await this.#store({ ...before, pending: { ...pending, intervalMs } });
    this.#pollLater(intervalMs);
  }

  /** @param {Stored} before @param {Pending} pending @param {SignInError} error */
  async #pollFailed(before, pending, error) {
    if (this.#stored !== before) return;
    if (error.reason === "unreachable") return this.#pollLater(pending.intervalMs * 2);
    await this.forget();
    this.events.failed(error);
  }

  /** @param {Stored} stored */
  async #store(stored) {
    this.#stored = stored;
    if (isProtected) await chrome.storage.local.setAccessLevel?.({ accessLevel: "TRUSTED_CONTEXTS" });
    await area.set({ [KEY]: stored });
  }
}

/**
 * @param {Record<string, any>} body of a token response
 * @param {string} refresh that stays in use if the response has none
 * @returns {Tokens}
 */
function readTokens(body, refresh) {
  const { access_token: access, refresh_token: next, expires_in: seconds } = body;
  if (typeof access !== "string" || access === "") throw new SignInError("rejected");
  const expiresAt = Date.now() + (Number(seconds) || LIFETIME_S) * 1000;
  return { access, refresh: typeof next === "string" ? next : refresh, expiresAt };
}

/** @param {number} ms that a server asks for @returns {number} */
function intervalOf(ms) {
  return Math.min(Math.max(ms, SHORTEST_MS), LONGEST_MS);
}

/**
 * The page on which a user enters the code, as the browser writes its address: what stands before an @ is no host.
 *
 * @param {unknown} given
 * @param {string} proxy its origin
 * @returns {string} empty: users are not led there
 */
function pageOf(given, proxy) {
  const url = isSafe(given, proxy) ? new URL(String(given)) : null;
  return url && !url.username && !url.password && url.href.length <= MAX_PAGE ? url.href : "";
}

/** @param {Record<string, any>} body with an error of OAuth */
function rejected(body) {
  const { error, error_description: description } = body;
  return new SignInError("rejected", String(description ?? error ?? "").slice(0, 200));
}
