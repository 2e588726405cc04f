/**
 * The native wire, as far as the extension speaks it: caps, error codes, shapes. docs/PROTOCOL.md says the same
 * in prose, native_host/protocol/wire.py in Python; all three change together.
 *
 * @typedef {{ jsonrpc: "2.0", id?: string | number, method?: string, params?: any, result?: any, error?: any,
 *   for?: string }} Message
 * @typedef {{ tabId: number, windowId: number, url: string, origin: string, title: string, status: string,
 *   active: boolean, focused: boolean, groupId: number | null, ordinal: number, owner: string | null,
 *   handedOver: boolean, lastAccessed: number, incognito: boolean, discarded: boolean, errorPage: boolean, documentId: string }} Tab
 *   `documentId`: of the main frame; empty where the browser names none (Firefox)
 * @typedef {{ name: string } & Record<string, unknown>} Tool an MCP Tool, as the page gave it
 * @typedef {{ tools: Tool[], prompts?: object[], resourceTemplates?: object[], resources?: object[] }} Lists of a frame,
 *   as the page gave them; an empty one but that of tools is absent
 * @typedef {"webmcp" | "mcp-b" | "polyfill"} Via who runs a tool
 * @typedef {{ id: string, title?: string, client: { name: string, version?: string } }} Session
 * @typedef {{ connection: string, pid: number, version: string, sessions: Session[] }} Client
 * @typedef {{ prompt: string, session: string, client: string, origin: string, kind: string, text: string,
 *   choices: string[] }} Prompt a question to the user: the parameters of `browser/ask`
 * @typedef {{ origin: string, for: string[], client?: string, until?: string }} SiteApproval
 */

import "../content/bounds.js";

export const WIRE_VERSION = 1;
export const HOST_NAME = "dev.mcpb.native_host";

const MIB = 1024 * 1024;
/** Of a body, from the browser to the host: the browser's own limit (measured: one byte more and it throws). */
export const FROM_BROWSER_BYTES = 64 * MIB;
/** Of nesting. Decoders on the way have limits of their own, and fail without a word. */
export const MAX_DEPTH = 200;
/** Of a tab's address and title: pages write megabytes into them. */
export const URL_BYTES = 8 * 1024;
export const TITLE_BYTES = 1024;
/** Bytes of the last error's text. */
export const TROUBLE_BYTES = 1024;

export const Code = Object.freeze({
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL_ERROR: -32603,
  NO_SUCH_TAB: -32001,
  TAB_NOT_CONTROLLABLE: -32009,
  GONE: -32010,
  TIMED_OUT: -32011,
  TOO_LARGE: -32012,
  NAVIGATED: -32013,
  NOT_ALLOWED: -32014,
  RATE_LIMITED: -32015,
  NOT_YOURS: -32016,
  WIRE_VERSION: -32017,
  NO_LONGER_OFFERED: -32018,
  PAUSED: -32019,
});

/** A failure that has a number on the wire. */
export class WireError extends Error {
  /**
   * @param {number} code one of `Code`
   * @param {string} message what happened and what to do next
   * @param {{ handed: boolean, site?: string }} data `handed`: whether the page may have got the call; `site`: of
   *   PAUSED, the paused pattern
   */
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }

  /** Whether the page may have got the call. */
  get handed() {
    return this.data.handed;
  }

  /** @returns {{ code: number, message: string, data: { handed: boolean, site?: string } }} */
  toWire() {
    return { code: this.code, message: this.message, data: this.data };
  }
}

/**
 * @param {string} method
 * @param {object} params
 * @returns {Message}
 */
export function notification(method, params) {
  return { jsonrpc: "2.0", method, params };
}

export const { cut, jsonBytes } = PageBounds;
