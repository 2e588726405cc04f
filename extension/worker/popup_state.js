/** State for the open popup, and the requests of its user. */

import { isTooLarge } from "./host_connection.js";
import { canonical, isOrigin } from "./site_patterns.js";

/**
 * @import { ApprovalPrompts } from "./approval_prompts.js"
 * @import { Client, SiteApproval, Tab } from "./wire.js"
 * @import { SiteApprovals } from "./site_approvals.js"
 * @import { DevTools } from "./devtools.js"
 * @import { Frames } from "./document_registry.js"
 * @import { Handovers } from "./handovers.js"
 * @import { LeftByClient, LeftTabs } from "./left_tabs.js"
 * @import { NativePort, Trouble } from "./native_host.js"
 * @import { TabOwners } from "./tab_owners.js"
 * @import { PageToolUses } from "./page_tool_uses.js"
 * @import { Pauses } from "./pauses.js"
 * @import { SiteRules } from "./rules/site_rules.js"
 * @import { Tabs } from "./tabs.js"
 * @typedef {{ connected: boolean, resting: boolean, attempts: number, trouble: Trouble | null,
 *   host: { version: string, pid: number } | null, clients: Client[], pausedSessions: string[],
 *   controlling: string[], sites: Site[], prompts: number, approvals: SiteApproval[], owner: string | null,
 *   handedOver: boolean, blocked: Blocked | null, left: LeftByClient[],
 *   offers: ReturnType<Frames["ofTab"]> }} Report
 *   `controlling`: sessions that have DevTools attached to tabs; `sites`: those of this tab, then the others that are
 *   paused; `owner`: what the client is called that opened this tab, empty if it says nothing; null: none did;
 *   `blocked`: the page that site rules kept this tab from; `left`: tabs of ended sessions
 * @typedef {{ origin: string, rule: string, clients: string[] }} Blocked
 * @typedef {{ origin: string, paused: boolean }} Site `origin`: a pattern, where one pauses it
 * @typedef {{ type: "watch", tabId: number }} Watch first: about which tab to report
 * @typedef {{ type: "pause-site", origin: string, paused: boolean }} PauseSite
 * @typedef {{ type: "page-tools", origin: string, use: string }} UsePageTools `use` empty: as configured
 * @typedef {{ type: "pause-session", session: string, paused: boolean }} PauseSession
 * @typedef {{ type: "hand-over", handedOver: boolean }} HandOver the tab that is watched
 * @typedef {{ type: "release" }} Release the tab that is watched: no client's, and under no site rules
 * @typedef {{ type: "show-prompt" }} ShowPrompt
 * @typedef {{ type: "revoke", approval: SiteApproval }} Revoke
 * @typedef {{ type: "close-left" | "keep-left", client: string }} EndLeft
 * @typedef {Watch | PauseSite | UsePageTools | PauseSession | HandOver | Release | ShowPrompt | Revoke
 *   | EndLeft} PopupMessage
 */

export const POPUP_PORT = "mcpb-popup";

export class Popups {
  /** @type {Map<chrome.runtime.Port, number>} port → the tab it was opened over */
  #open = new Map();

  /**
   * @param {{ native: NativePort, tabs: Tabs, frames: Frames, owners: TabOwners, pauses: Pauses, siteRules: SiteRules,
   *   uses: PageToolUses, handovers: Handovers, devtools: DevTools | null, left: LeftTabs, prompts: ApprovalPrompts,
   *   approvals: SiteApprovals, clients: () => Client[], loaded: Promise<unknown> }} parts `loaded`: what is kept is known
   */
  constructor({ native, tabs, frames, owners, pauses, siteRules, uses, handovers, devtools, clients, loaded, ...more }) {
    this.left = more.left;
    this.prompts = more.prompts;
    this.approvals = more.approvals;
    this.native = native;
    this.tabs = tabs;
    this.frames = frames;
    this.owners = owners;
    this.pauses = pauses;
    this.siteRules = siteRules;
    this.uses = uses;
    this.handovers = handovers;
    this.devtools = devtools;
    this.clients = clients;
    this.loaded = loaded;
  }

  /** @param {chrome.runtime.Port} port */
  accept(port) {
    if (!port.sender?.url?.startsWith(chrome.runtime.getURL(""))) return port.disconnect();
    this.#open.set(port, chrome.tabs.TAB_ID_NONE);
    port.onDisconnect.addListener(() => this.#open.delete(port));
    port.onMessage.addListener((message) => void this.#received(port, message));
  }

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
    void this.native.connect(); // The user waits: do not wait for the next attempt.
    await this.tabs.refresh(tabId); // Without a host, it has not been read yet.
    this.tell();
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
    return {
      connected: host !== null,
      resting,
      attempts: last.inARow,
      trouble,
      host: host && { version: host.version, pid: host.pid },
      clients: this.clients(),
      pausedSessions: this.pauses.all.sessions,
      controlling: this.devtools?.sessions ?? [],
      sites: this.#sites(this.tabs.get(tabId), offers),
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
    const session = this.clients()
      .flatMap(({ sessions }) => sessions)
      .find((each) => each.id === id);
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
    const shown = here.map((origin) => this.pauses.patternOf(origin) || canonical(origin));
    return [...new Set([...shown, ...paused])].map((origin) => ({ origin, paused: paused.has(origin) }));
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
