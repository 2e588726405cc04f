/**
 * Registry of the documents whose content scripts are connected, one for each frame: announces their tools and routes
 * calls to them.
 *
 * A frame is announced as a whole, once its tools are known and when one of them has changed.
 */

import { ALL_BYTES, AnnouncementQuota, TAB_BYTES } from "./announcement_quota.js";
import { failure, Frame, refusal } from "./document.js";
import { Iframes } from "./iframe_servers.js";
import { noAccess } from "./host_permissions.js";
import { OfferedNames } from "./offers/offered_names.js";
import { onPortEnd } from "./port_end.js";
import { Code, cut, notification, WireError } from "./wire.js";

/**
 * @typedef {{ tabId: number, frameId: number, documentId: string }} FrameAddress
 * @import { Watcher } from "./resource_watches.js"
 * @import { GivenOffer, Offerer } from "./offers/tool_offers.js"
 * @import { Asked, Executed, FrameMessage, Offer, PageNotificationMessage } from "./document.js"
 * @import { Audience, Link } from "./audience.js"
 * @import { OpenedSites } from "./opened_sites.js"
 * @import { PageToolUses } from "./page_tool_uses.js"
 * @import { Origins } from "./origin_policy.js"
 * @import { Pauses } from "./pauses.js"
 * @import { SiteAccess } from "./host_permissions.js"
 * @import { Tabs } from "./tabs.js"
 */

/** Why an offered tool is left out. */
const PAGE_HAS_NAME = "The page has a tool of this name.";
/** Why a document gets none. */
const WITHOUT_ORIGIN = "The document is sandboxed and has no origin: tools cannot be offered to it.";
/** Of a name, in the popup. */
const SHOWN_BYTES = 256;

/** What a frame announces for which there is no room. @type {Offer} */
const CROWDED_OUT = Object.freeze({
  tools: [],
  via: {},
  notice:
    "What this frame offers is left out: the lists of a tab's frames may hold " +
    `${TAB_BYTES / 1024} KiB together, and those of all tabs ${ALL_BYTES / 1024} KiB; ` +
    `each entry takes at least ${PageBounds.ENTRY_BYTES / 1024} KiB.`,
});

export class Frames {
  /** @type {Map<string, Frame>} by tab and frame */
  #frames = new Map();
  #room = new AnnouncementQuota();
  #offeredNames = new OfferedNames();
  #iframes = new Iframes(
    (tabId, documentId) => this.#ofDocument(tabId, documentId),
    (tabId, frameId) => this.#frames.get(`${tabId}:${frameId}`),
  );

  /**
   * @param {Tabs} tabs
   * @param {Origins} origins
   * @param {Pauses} pauses
   * @param {SiteAccess} siteAccess
   * @param {{ opened: OpenedSites, uses: PageToolUses }} consent
   * @param {Audience} audience
   * @param {{ wanted: () => void, isHostMissing: () => boolean, changed: () => void }} host `wanted`: a host would be
   *   used now; `changed`: what `ofTab` returns has changed
   */
  constructor(tabs, origins, pauses, siteAccess, consent, audience, host) {
    this.tabs = tabs;
    tabs.reportedOrigin = (tabId, documentId) => this.#ofDocument(tabId, documentId)?.origin ?? "";
    this.origins = origins;
    this.pauses = pauses;
    this.siteAccess = siteAccess;
    this.consent = consent;
    this.audience = audience;
    this.host = host;
  }

  /** A content script has dialled. @param {chrome.runtime.Port} port */
  accept(port) {
    const tabId = port.sender?.tab?.id;
    if (!port.sender || tabId === undefined) return port.disconnect();
    const frame = new Frame(port, tabId, port.sender, () => this.host.changed());
    this.#replace(frame);
    port.onMessage.addListener((message) => this.#received(frame, message));
    onPortEnd(port, () => this.#left(frame));
    this.host.wanted();
    this.#tellStatus(frame);
    if (frame.frameId === 0 && frame.url.startsWith("about:")) void this.tabs.refresh(tabId);
  }

  /** Send all frames to a new connection. @param {Link} link */
  announceTo(link) {
    this.announceAgain(); // what was announced earlier may no longer be allowed
    for (const frame of this.#frames.values()) {
      if (frame.announced !== "") link.post(this.#registration(frame, "browser/registerTools"));
    }
  }

  /** What may be announced has changed: say what is new, take back what is no longer allowed. */
  announceAgain() {
    for (const frame of this.#frames.values()) this.#announce(frame);
  }

  /** The browser lets us into other sites than before. */
  accessChanged() {
    for (const frame of this.#frames.values()) {
      if (this.#withoutAccess(frame)) frame.abandonCalls(noAccess(frame.origin, { handed: true }));
    }
    this.endForbiddenOffers();
    this.announceAgain();
  }

  /** End the offers of tools to documents that no client may use any more. */
  endForbiddenOffers() {
    for (const frame of this.#frames.values()) {
      try {
        this.#checkSites(frame);
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        frame.offers.endAll(error);
      }
    }
  }

  /** Whether the host is missing has changed. */
  tellStatus() {
    for (const frame of this.#frames.values()) this.#tellStatus(frame);
  }

  /** Ask every content script to dial: a worker that has just started knows none of them. */
  async summon() {
    for (const { id } of await chrome.tabs.query({ discarded: false })) {
      if (id !== undefined) chrome.tabs.sendMessage(id, { type: "dial" }).catch(ignoreSilence);
    }
  }

  /** What a tab offers, for the popup. @param {number} tabId */
  ofTab(tabId) {
    return [...this.#frames.values()]
      .filter((frame) => frame.tabId === tabId && frame.offer)
      .map(({ origin, tools, via, offer, offers, crowdedOut }) => ({
        origin: cut(origin, SHOWN_BYTES),
        notice: shownOffer({ crowdedOut, offer })?.notice ?? "",
        allowed: this.origins.allow(origin),
        use: this.consent.uses.of(origin),
        tools: crowdedOut ? [] : tools.map(({ name }) => ({ name: cut(name, SHOWN_BYTES), via: via.get(name) })),
        remote: offers.shown.map(({ server, tools: count }) => ({ server: cut(server, SHOWN_BYTES), tools: count })),
      }));
  }

  /**
   * Run a page's tool, in the document it was listed by.
   *
   * @param {{ tabId: number, frameId: number, documentId: string, toolName: string, args: any,
   *   wantsProgress: boolean }} call
   * @param {Asked} asked
   * @returns {Promise<Executed>}
   * @throws {WireError}
   */
  execute(call, asked) {
    const frame = this.#usable(call);
    if (!frame.hasTool(call.toolName)) {
      const what = `The page does not offer ${call.toolName} any more. List the tools again.`;
      throw refusal(Code.NO_LONGER_OFFERED, what);
    }
    return frame.execute(call, asked);
  }

  /**
   * Send a request to the page server of a document.
   *
   * @param {FrameAddress & { method: string, params: any, wantsProgress: boolean }} request
   * @param {Asked} asked
   * @returns {Promise<Executed>}
   * @throws {WireError}
   */
  ask(request, asked) {
    return this.#usable(request).ask(request, asked);
  }

  /**
   * Watch a resource of a document's page server.
   *
   * @param {FrameAddress & { uri: string }} watched
   * @param {Watcher} watcher
   * @returns {Promise<{}>} at the end of the watch
   * @throws {WireError}
   */
  watch(watched, watcher) {
    return this.#usable(watched).watches.watch(watched.uri, watcher);
  }

  /**
   * Offer tools to a document.
   *
   * @param {FrameAddress & GivenOffer} offered
   * @param {Offerer} offerer
   * @returns {Promise<{}>} at the end of the offer
   * @throws {WireError}
   */
  offerTools({ server, tools, leftOut, ...address }, offerer) {
    const frame = this.#present(address);
    if (frame.origin === "null") throw refusal(Code.NO_LONGER_OFFERED, WITHOUT_ORIGIN);
    const taken = new Set(this.#framesOfPage(frame).flatMap((each) => each.tools.map(({ name }) => name)));
    const [known, free] = [tools.filter(({ name }) => taken.has(name)), tools.filter(({ name }) => !taken.has(name))];
    const left = [...leftOut, ...known.map(({ name }) => ({ name, why: PAGE_HAS_NAME }))];
    const ended = frame.offers.offer({ server, tools: free, leftOut: left }, offerer);
    this.#offeredNames.add(frame, free);
    return ended;
  }

  /** Frames of the same origin in the tab, which see each other's tools. @param {Frame} frame */
  #framesOfPage({ tabId, origin }) {
    return [...this.#frames.values()].filter((each) => each.tabId === tabId && each.origin === origin);
  }

  /**
   * The document that a request names, if a client may use its tools now.
   *
   * @param {FrameAddress} address
   * @returns {Frame}
   */
  #usable(address) {
    const frame = this.#present(address);
    for (const site of this.#sites(frame)) {
      if (this.consent.uses.of(site) === "off") {
        throw refusal(Code.NOT_ALLOWED, `The user has turned off the page tools of ${site} in the popup.`);
      }
    }
    return frame;
  }

  /**
   * The document that a request names, if a client may use it now.
   *
   * @param {FrameAddress} address
   * @returns {Frame}
   */
  #present({ tabId, frameId, documentId }) {
    if (!this.tabs.get(tabId)) throw refusal(Code.NO_SUCH_TAB, `There is no tab ${tabId} any more.`);
    const frame = this.#frames.get(`${tabId}:${frameId}`);
    if (frame?.documentId !== documentId) {
      throw refusal(Code.NAVIGATED, "The page that offered this tool is not there any more. List the tools again.");
    }
    this.#checkSites(frame);
    return frame;
  }

  /** @param {Frame} frame @throws {WireError} no client may use it now */
  #checkSites(frame) {
    if (!this.origins.allow(frame.origin)) {
      throw refusal(Code.NOT_ALLOWED, `The extension's list of allowed origins does not name ${frame.origin}.`);
    }
    for (const site of this.#sites(frame)) this.siteAccess.check(site);
    for (const site of this.#sites(frame)) this.pauses.checkSite(site);
  }

  /**
   * @param {number} tabId
   * @param {string} documentId
   */
  #ofDocument(tabId, documentId) {
    return [...this.#frames.values()].find((frame) => frame.tabId === tabId && frame.documentId === documentId);
  }

  /** @param {Frame} frame */
  #replace(frame) {
    const before = this.#frames.get(frame.key);
    this.#frames.set(frame.key, frame);
    if (!before) return;
    if (before.documentId === frame.documentId) frame.announced = before.announced;
    before.abandonCalls();
    before.offers.endAll();
    this.#iframes.left(before);
    before.port.disconnect();
  }

  /**
   * Whose pause is a frame's as well: its own site's, that of the address where the sandbox has taken its origin away,
   * and that of its tab.
   *
   * @param {Frame} frame
   */
  #sites({ origin, url, tabId }) {
    const own = origin === "null" ? (URL.parse(url)?.origin ?? "") : origin;
    return [own, this.tabs.get(tabId)?.origin ?? ""];
  }

  /** @param {Frame} frame */
  #withoutAccess(frame) {
    return !this.#sites(frame).every((site) => this.siteAccess.has(site));
  }

  /** @param {Frame} frame */
  #left(frame) {
    frame.abandonCalls();
    frame.offers.endAll();
    this.#iframes.left(frame);
    if (this.#frames.get(frame.key) !== frame) return;
    this.#frames.delete(frame.key);
    if (this.#framesOfPage(frame).length === 0) this.#offeredNames.forget(frame);
    this.#withdraw(frame);
  }

  /**
   * @param {Frame} frame
   * @param {FrameMessage} message
   */
  #received(frame, message) {
    switch (message?.type) {
      case "register-tools":
      case "tools-updated":
        frame.list(message, (name) => this.#offeredNames.has(frame, name));
        this.host.wanted();
        return void this.#announceWithTab(frame);
      case "tool-result":
        return frame.settle(message);
      case "tool-submitted":
        return frame.markSubmitted(message);
      case "tool-progress":
        return frame.progress(message);
      case "resource-watched":
        return frame.watches.activated(message.uri);
      case "resource-rejected":
        return frame.watches.rejected(message.uri, failure(message.error));
      case "resource-updated":
        return frame.watches.updated(String(message.uri), message.watched);
      case "resource-unwatched":
        return frame.watches.ended(message.uri);
      case "tools-offered":
        return frame.offers.registered(message);
      case "tools-rejected":
        return frame.offers.rejected(message, failure(message.error));
      case "offered-call":
        return void frame.offers.call(message);
      case "offered-call-cancelled":
        return frame.offers.cancel(message);
      case "page-notification":
        return this.#notify(frame, message);
      case "page-question":
        return void frame.question(message);
      case "page-question-cancelled":
        return frame.cancelQuestion(message);
      case "find-parent":
        return void this.#iframes.introduce(frame);
      case "child-frame":
        return this.#iframes.match(frame, message.nonce);
      case "to-server":
        return this.#iframes.toServer(frame, message.payload);
      case "from-child":
        return this.#iframes.fromServer(frame, message.nonce, message.payload);
      case "frame-visible":
        return this.host.wanted();
    }
  }

  /** A client hears of a tab, as it is now, before it hears of its tools. @param {Frame} frame */
  async #announceWithTab(frame) {
    const tab = await this.tabs.refresh(frame.tabId);
    // A tab that a client opened says nothing about its user.
    if (frame.frameId === 0 && tab?.owner === null && !tab.incognito) this.consent.opened.add(frame.origin);
    if (this.#frames.get(frame.key) === frame) this.#announce(frame);
    this.host.changed();
  }

  /** @param {Frame} frame */
  #announce(frame) {
    if (!frame.offer) return;
    if (!this.origins.allow(frame.origin) || this.#withoutAccess(frame)) return this.#withdraw(frame);
    const before = this.#room.release(frame.key);
    frame.crowdedOut = !this.#room.take(frame.key, frame.tabId, frame.bytes);
    this.#say(frame);
    if (frame.crowdedOut || frame.bytes < before) this.#admit(before);
  }

  /** Announce a frame's offer in place of its last one, unless they are equal. @param {Frame} frame */
  #say(frame) {
    const said = JSON.stringify({ ...shownOffer(frame), ...this.#consentOf(frame) });
    if (said === frame.announced) return;
    const method = frame.announced === "" ? "browser/registerTools" : "browser/updateTools";
    try {
      this.audience.post(this.#registration(frame, method));
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      console.error(error); // its offer is bounded so that this does not happen; if it does, others go on
      return this.#withdraw(frame);
    }
    frame.announced = said;
  }

  /** @param {Frame} frame @param {string} method */
  #registration(frame, method) {
    const facts = { origin: frame.origin, ...this.#labels(frame), ...this.#consentOf(frame) };
    return notification(method, { ...frame.address, ...facts, ...shownOffer(frame) });
  }

  /** Of a frame in another site's page: why its tools may be listed. @param {Frame} frame */
  #consentOf({ frameId, tabId, origin, delegated }) {
    if (frameId === 0 || origin === this.tabs.get(tabId)?.origin) return {};
    return {
      ...(this.consent.opened.has(origin) && { opened: true }),
      ...(delegated && { delegated }),
    };
  }

  /** Room has become free: announce what had none before. @param {number} bytes */
  #admit(bytes) {
    if (bytes === 0) return;
    for (const frame of this.#frames.values()) {
      if (frame.crowdedOut && this.#room.fits(frame.tabId, frame.bytes)) this.#announce(frame);
    }
  }

  /** The tab's own address and title are fresher than those its document had when it dialled. @param {Frame} frame */
  #labels(frame) {
    const tab = frame.frameId === 0 ? this.tabs.get(frame.tabId) : undefined;
    const fresh = tab && tab.origin === frame.origin;
    return { url: fresh ? tab.url : frame.url, title: fresh ? tab.title : "" };
  }

  /** @param {Frame} frame */
  #withdraw(frame) {
    const freed = this.#room.release(frame.key);
    frame.crowdedOut = false;
    if (frame.announced !== "") this.audience.post(notification("browser/unregister", frame.address));
    frame.announced = "";
    this.#admit(freed);
  }

  /**
   * @param {Frame} frame
   * @param {PageNotificationMessage} message
   */
  #notify(frame, { method, params, dropped }) {
    if (!PageBounds.NOTIFICATIONS.includes(method)) return;
    const message = { method, params: params ?? {} };
    frame.pace.addDropped(dropped);
    if (frame.announced === "" || !frame.pace.allows(message)) return;
    const counted = { ...frame.address, ...message, ...frame.pace.takeDropped() };
    this.audience.post(notification("browser/pageNotification", counted));
  }

  /** @param {Frame} frame */
  #tellStatus(frame) {
    frame.post({ type: "host-status", missing: this.host.isHostMissing() });
  }
}

/** What a frame announces. @param {Pick<Frame, "crowdedOut" | "offer">} frame */
function shownOffer({ crowdedOut, offer }) {
  return crowdedOut ? CROWDED_OUT : offer;
}

/** A tab without our content script (the browser's own pages) does not answer. */
function ignoreSilence() {}
