/** State for the open popup, and the requests of its user. */

import { isTooLarge } from "./host_connection.js";
import { onPortEnd } from "./port_end.js";
import { canonical, isOrigin } from "./site_patterns.js";

/**
 * @import { ApprovalPrompts } from "./approval_prompts.js"
 * @import { Client, SiteApproval, Tab } from "./wire.js"
 * @import { Clients } from "./clients.js"
 * @import { SiteApprovals } from "./site_approvals.js"
 * @import { Frames } from "./document_registry.js"
 * @import { Handovers } from "./handovers.js"
 * @import { LeftByClient, LeftTabs } from "./left_tabs.js"
 * @import { NativePort, Trouble } from "./native_host.js"
 * @import { ProxyReport, WebSocketProxy } from "./websocket_proxy.js"
 * @import { TabOwners } from "./tab_owners.js"
 * @import { PageToolUses } from "./page_tool_uses.js"
 * @import { Pauses } from "./pauses.js"
 * @import { SiteAccess } from "./host_permissions.js"
 * @import { SiteRules } from "./rules/site_rules.js"
 * @import { State, Status } from "./status.js"
 * @import { Tabs } from "./tabs.js"
 * @typedef {{ state: State, resting: boolean, attempts: number, trouble: Trouble | null,
 *   host: { version: string, pid: number, command: string } | null, proxy: ProxyReport, clients: Client[], pausedSessions: string[],
 *   activeSessions: string[], page: PageUse, site: string, sites: Site[], prompts: number, approvals: SiteApproval[],
 *   owner: string | null, handedOver: boolean, blocked: Blocked | null, left: LeftByClient[],
 *   offers: ReturnType<Frames["ofTab"]> }} Report
 *   `state`: of this tab; `command` of the host: what to type for `mcpb`; `site`: its own, empty if it has none; `sites`:
 *   those of this tab, then the others that are paused; `owner`: what the client is called that opened this tab, empty if
 *   it says nothing; null: none did; `blocked`: the page that site rules kept this tab from; `left`: tabs of ended
 *   sessions
 * @typedef {"usable" | "incognito" | "kept out" | "of the browser"} PageUse whether clients can use this tab's page, or
 *   why not; "kept out": the user has withdrawn access to the site
 * @typedef {{ origin: string, rule: string, clients: string[] }} Blocked
 * @typedef {{ origin: string, paused: boolean }} Site `origin`: a pattern, where one pauses it
 * @typedef {{ type: "watch", tabId: number }} Watch first: about which tab to report
 * @typedef {{ type: "pause-site", origin: string, paused: boolean }} PauseSite
 * @typedef {{ type: "page-tools", origin: string, use: string }} UsePageTools `use` empty: as configured
 * @typedef {{ type: "pause-session", session: string, paused: boolean }} PauseSession
 * @typedef {{ type: "hand-over", handedOver: boolean }} HandOver the tab that is watched
 * @typedef {{ type: "release" }} Release the tab that is watched: no client's, and under no site rules
 * @typedef {{ type: "show-prompt" }} ShowPrompt
 * @typedef {{ type: "connect", isUrgent: boolean }} Connect try to connect to the native host; `isUrgent`: the user has
 *   asked for it
 * @typedef {{ type: "revoke", approval: SiteApproval }} Revoke
 * @typedef {{ type: "close-left" | "keep-left", client: string }} EndLeft
 * @typedef {{ type: "choose-proxy", address: string }} ChooseProxy connect to a WebSocket proxy
 * @typedef {{ type: "leave-proxy" }} LeaveProxy
 * @typedef {Watch | PauseSite | UsePageTools | PauseSession | HandOver | Release | ShowPrompt | Connect | Revoke
 *   | EndLeft | ChooseProxy | LeaveProxy} PopupMessage
 */

export const POPUP_PORT = "mcpb-popup";
/** Stores of extensions: the browser lets no extension into them. */
const STORE = /^https:\/\/(chromewebstore\.google\.com\/|chrome\.google\.com\/webstore|addons\.mozilla\.org\/)/;

export class Popups {
  /** @type {Map<chrome.runtime.Port, number>} port → the tab it was opened over */
  #open = new Map();

  /**
   * @param {{ native: NativePort, proxy: WebSocketProxy, status: Status, tabs: Tabs, frames: Frames, owners: TabOwners, pauses: Pauses,
   *   siteAccess: SiteAccess, siteRules: SiteRules, uses: PageToolUses, handovers: Handovers, left: LeftTabs, prompts: ApprovalPrompts,
   *   approvals: SiteApprovals, clients: Clients, loaded: Promise<unknown> }} parts `loaded`: what is kept is known
   */
  constructor({ native, proxy, status, tabs, frames, owners, pauses, uses, handovers, clients, loaded, ...consent }) {
    this.left = consent.left;
    this.prompts = consent.prompts;
    this.approvals = consent.approvals;
    this.siteAccess = consent.siteAccess;
    this.siteRules = consent.siteRules;
    this.native = native;
    this.proxy = proxy;
    this.status = status;
    this.tabs = tabs;
    this.frames = frames;
    this.owners = owners;
    this.pauses = pauses;
    this.uses = uses;
    this.handovers = handovers;
    this.clients = clients;
    this.loaded = loaded;
  }

  /** @param {chrome.runtime.Port} port */
  accept(port) {
    if (!port.sender?.url?.startsWith(chrome.runtime.getURL(""))) return port.disconnect();
    this.#open.set(port, chrome.tabs.TAB_ID_NONE);
    onPortEnd(port, () => this.#open.delete(port));
    port.onMessage.addListener((message) => void this.#received(port, message));
  }

  /** Whether a popup is open. */
  get isOpen() {
    return this.#open.size > 0;
  }

  /** Report the present state to each open popup. */
  tell() {
    for (const [port, tabId] of this.#open) say(port, this.#report(tabId));
  }

  /**
   * @param {chrome.runtime.Port} port
   * @param {PopupMessage} message
   */
  async #received(port, message) {
    await this.loaded;
    if (!this.#open.has(port)) return; // closed meanwhile
    switch (message.type) {
      case "watch":
        return this.#watch(port, message.tabId);
      case "pause-site":
        return this.pauses.setSite(message.origin, message.paused);
      case "page-tools":
        return this.uses.set(message.origin, message.use);
      case "pause-session":
        return this.pauses.setSession(message.session, message.paused);
      case "show-prompt":
        return this.prompts.show();
      case "connect":
        return this.#connect(message.isUrgent);
      case "choose-proxy":
        return this.proxy.choose(message.address);
      case "leave-proxy":
        return this.proxy.disconnect();
      case "revoke":
        return this.approvals.revoke(message.approval);
      case "close-left":
        return this.left.close(message.client);
      case "keep-left":
        return this.left.keep(message.client);
      case "hand-over":
        return this.#handOver(Number(this.#open.get(port)), message.handedOver);
      case "release":
        return this.#release(Number(this.#open.get(port)));
    }
  }

  /**
   * @param {chrome.runtime.Port} port
   * @param {number} tabId
   */
  async #watch(port, tabId) {
    this.#open.set(port, tabId);
    this.#connect(true); // The user waits: do not wait for the next attempt.
    await this.tabs.refresh(tabId); // Without a host, it has not been read yet.
    this.tell();
  }

  /** @param {boolean} isUrgent */
  #connect(isUrgent) {
    if (!isUrgent) return this.native.nudge();
    void this.native.connect();
    void this.proxy.connect();
  }

  /**
   * @param {number} tabId
   * @param {boolean} handedOver
   */
  async #handOver(tabId, handedOver) {
    this.handovers.set(tabId, handedOver);
    await this.tabs.refresh(tabId);
    this.tell();
  }

  /** @param {number} tabId */
  async #release(tabId) {
    this.owners.give(tabId, null);
    this.siteRules.release(tabId);
    await this.#handOver(tabId, false);
  }

  /** @param {number} tabId @returns {Report} */
  #report(tabId) {
    const { host, resting, trouble, last } = this.native;
    const offers = this.frames.ofTab(tabId);
    const tab = this.tabs.get(tabId);
    return {
      state: this.status.of(tabId),
      resting,
      attempts: last.inARow,
      trouble,
      host: host && { version: host.version, pid: host.pid, command: host.command },
      proxy: this.proxy.report,
      clients: this.clients.all,
      pausedSessions: this.pauses.all.sessions,
      activeSessions: this.status.activeSessions,
      page: this.#pageUse(tab, offers.length > 0),
      site: isOrigin(tab?.origin ?? "") ? this.#patternOf(String(tab?.origin)) : "",
      sites: this.#sites(tab, offers),
      prompts: this.prompts.count,
      approvals: this.approvals.all,
      owner: this.#owner(tabId),
      handedOver: this.handovers.has(tabId),
      blocked: this.#blocked(tabId),
      left: this.left.byClient,
      offers,
    };
  }

  /** @param {number} tabId */
  #owner(tabId) {
    const id = this.tabs.get(tabId)?.owner ?? null;
    return id === null ? null : this.#nameOf(id);
  }

  /** @param {string} id of a session @returns {string} what its client is called */
  #nameOf(id) {
    const session = this.clients.sessions.find((each) => each.id === id);
    return session?.title || session?.client.name || "";
  }

  /** @param {number} tabId @returns {Blocked | null} */
  #blocked(tabId) {
    const blocked = this.siteRules.blockedIn(tabId);
    if (!blocked) return null;
    const { origin, rule, sessions } = blocked;
    return { origin, rule, clients: sessions.map((id) => this.#nameOf(id) || "a client") };
  }

  /**
   * @param {Tab | undefined} tab
   * @param {Report["offers"]} offers
   * @returns {Site[]}
   */
  #sites(tab, offers) {
    const here = [tab?.origin ?? "", ...offers.map(({ origin }) => origin)].filter(isOrigin);
    const paused = new Set(this.pauses.all.sites);
    const shown = here.map((origin) => this.#patternOf(origin));
    return [...new Set([...shown, ...paused])].map((origin) => ({ origin, paused: paused.has(origin) }));
  }

  /** Return what a click on "Pause" pauses, or the pattern that pauses it. @param {string} origin */
  #patternOf(origin) {
    return this.pauses.patternOf(origin) || canonical(origin);
  }

  /**
   * @param {Tab | undefined} tab undefined: it is gone, or shows a page of this extension
   * @param {boolean} isKnown a content script runs there, as in files if the user allows it
   * @returns {PageUse}
   */
  #pageUse(tab, isKnown) {
    if (!tab) return "of the browser";
    if (tab.incognito) return "incognito";
    const isOfWeb = (/^https?:/.test(tab.url) && !STORE.test(tab.url)) || tab.url === "about:blank";
    if (!isOfWeb && !isKnown) return "of the browser";
    return this.siteAccess.has(tab.url) ? "usable" : "kept out";
  }
}

/**
 * Show a report. Whatever is wrong with a popup, what was asked elsewhere goes on.
 *
 * @param {chrome.runtime.Port} port
 * @param {Report} report
 */
function say(port, report) {
  try {
    port.postMessage(report);
  } catch (error) {
    if (isTooLarge(error) && report.offers.length > 0) return say(port, { ...report, offers: [] });
    // The popup is closed: its onDisconnect follows.
  }
}
