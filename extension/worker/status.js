/**
 * Status that the user sees in the toolbar and the popup: not connected, connected, paused or in use.
 *
 * A tab is in use while a client's request for it runs, or while the debugger is attached to it for a client, which the
 * browser shows in a bar of its own.
 */

/**
 * @import { Calls } from "./requests.js"
 * @import { Clients } from "./clients.js"
 * @import { DevTools } from "./devtools.js"
 * @import { NativePort } from "./native_host.js"
 * @import { WebSocketProxy } from "./websocket_proxy.js"
 * @import { Pauses } from "./pauses.js"
 * @import { Tabs } from "./tabs.js"
 * @typedef {"off" | "connected" | "paused" | "active"} State
 */

export class Status {
  /**
   * @param {{ native: NativePort, proxy: WebSocketProxy, tabs: Tabs, pauses: Pauses, calls: Calls, devtools: DevTools | null,
   *   clients: Clients }} parts
   */
  constructor({ native, proxy, tabs, pauses, calls, devtools, clients }) {
    this.native = native;
    this.proxy = proxy;
    this.tabs = tabs;
    this.pauses = pauses;
    this.calls = calls;
    this.devtools = devtools;
    this.clients = clients;
  }

  /** State of all tabs that have none of their own. @returns {"off" | "connected" | "paused"} */
  get everywhere() {
    if (!this.native.host && !this.proxy.isConnected) return "off";
    const { sessions } = this.clients;
    const arePaused = sessions.length > 0 && sessions.every(({ id }) => this.pauses.hasSession(id));
    return arePaused ? "paused" : "connected";
  }

  /** States of the tabs that differ from all others. @returns {Map<number, State>} */
  get ofTabs() {
    /** @type {Map<number, State>} */
    const states = new Map();
    if (this.everywhere !== "connected") return states;
    for (const tabId of this.#activeTabs) states.set(tabId, "active");
    if (this.pauses.all.sites.length === 0) return states;
    for (const { tabId, origin } of this.tabs.known) if (this.pauses.patternOf(origin)) states.set(tabId, "paused");
    return states;
  }

  /** Return the state of a tab. @param {number} tabId */
  of(tabId) {
    return this.ofTabs.get(tabId) ?? this.everywhere;
  }

  /** Sessions that use tabs now. @returns {string[]} */
  get activeSessions() {
    const calling = [...this.calls.running].map(({ session }) => session).filter(Boolean);
    return [...new Set([...calling, ...(this.devtools?.sessions ?? [])])];
  }

  /** Tabs that clients use now. @returns {Set<number>} */
  get #activeTabs() {
    const called = [...this.calls.running].map(({ tabId }) => tabId).filter((tabId) => tabId !== undefined);
    return new Set([...called, ...(this.devtools?.tabs ?? [])]);
  }
}
