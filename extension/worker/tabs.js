/** Tabs of this profile in the form of the wire, and their announcement. */

import { cut, notification, TITLE_BYTES, URL_BYTES } from "./wire.js";

/**
 * @import { Tab } from "./wire.js"
 * @import { Audience, Link } from "./audience.js"
 * @import { Handovers } from "./handovers.js"
 * @import { TabNumbers } from "./tab_numbers.js"
 * @import { TabOwners } from "./tab_owners.js"
 */

/** @type {number} */
const NO_WINDOW = chrome.windows.WINDOW_ID_NONE;

export class Tabs {
  /** @type {Map<number, Tab>} */
  #known = new Map();
  /** The window that last had the focus: people leave the browser to talk to their client. */
  #focusedWindow = NO_WINDOW;
  /** Lists that are being read. Changes are announced only without one. */
  #reading = 0;
  /** Tabs that changed while a list was read: it may show them as they were before. @type {Set<number>} */
  #meanwhile = new Set();
  /**
   * Ids of removed tabs. A description that was read before the removal may arrive after it and would stay for good.
   * The browser uses no id again while it runs.
   *
   * @type {Set<number>}
   */
  #gone = new Set();

  /** Origin of a tab's document as the browser reports it. @type {(tabId: number, documentId: string) => string} */
  reportedOrigin = () => "";

  /**
   * @param {TabNumbers} numbers
   * @param {TabOwners} owners
   * @param {Handovers} handovers
   * @param {Audience} audience
   * @param {Promise<unknown>} loaded all of them
   */
  constructor(numbers, owners, handovers, audience, loaded) {
    this.numbers = numbers;
    this.owners = owners;
    this.handovers = handovers;
    this.audience = audience;
    this.loaded = loaded;
  }

  /** @param {number} tabId @returns {Tab | undefined} as last announced */
  get(tabId) {
    return this.#known.get(tabId);
  }

  /** All tabs, as last announced. */
  get known() {
    return this.#known.values();
  }

  /** All tabs, read anew. @returns {Promise<Tab[]>} */
  async all() {
    await this.loaded;
    const [tabs, focused] = await Promise.all([chrome.tabs.query({}), lastFocusedWindow()]);
    // The focus of an extension window does not show which page the user sees.
    if (!tabs.some((tab) => tab.windowId === focused && isOwnPage(tab))) this.#focusedWindow = focused;
    const others = tabs.filter((tab) => tab.id !== chrome.tabs.TAB_ID_NONE && !isOwnPage(tab));
    for (const tab of others) this.#numberOf(tab); // in the order of the browser's windows
    return Promise.all(others.map(async (tab) => this.#describe(tab, await mainFrame(tab.id))));
  }

  /** Announce all tabs, and admit a connection with them. @param {Link} [link] */
  async announceAll(link) {
    this.#reading += 1;
    const tabs = await this.all().finally(() => (this.#reading -= 1));
    this.#known = new Map(tabs.map((tab) => [tab.tabId, tab]));
    const message = notification("browser/tabs", { tabs });
    this.audience.post(message);
    if (link) this.audience.admit(link, message);
    if (this.#reading > 0) return;
    const changed = [...this.#meanwhile];
    this.#meanwhile.clear();
    await Promise.all(changed.map(async (tabId) => (await this.refresh(tabId)) ?? this.#forget(tabId)));
  }

  /**
   * Read a tab anew, and announce it if it has changed.
   *
   * @param {number} tabId
   * @returns {Promise<Tab | undefined>} undefined: there is no such tab
   */
  async refresh(tabId) {
    await this.loaded;
    const { tab: read, frame } = await readTab(tabId);
    if (!read || this.#gone.has(tabId)) return undefined;
    if (isOwnPage(read)) {
      if (this.#known.has(tabId)) this.#forget(tabId);
      return undefined;
    }
    if (this.#reading > 0) this.#meanwhile.add(tabId);
    const tab = this.#describe(read, frame);
    const changed = JSON.stringify(tab) !== JSON.stringify(this.#known.get(tabId));
    this.#known.set(tabId, tab);
    if (changed) this.#announce("browser/tabChanged", { tab });
    return tab;
  }

  /** Another tab of its window is shown now. @param {number} tabId @param {number} windowId */
  async activated(tabId, windowId) {
    const before = [...this.#known.values()].filter((tab) => tab.windowId === windowId && tab.active);
    await Promise.all([...before.map((tab) => tab.tabId), tabId].map((id) => this.refresh(id)));
  }

  /** Another window has the focus now. @param {number} windowId */
  async focused(windowId) {
    if (windowId === NO_WINDOW || windowId === this.#focusedWindow) return;
    if (!this.audience.isEmpty) await this.announceAll();
  }

  /** @param {number} tabId */
  async removed(tabId) {
    this.#gone.add(tabId);
    await this.loaded;
    this.#forget(tabId);
  }

  /** A tab is gone, or shows a page that clients do not see. @param {number} tabId */
  #forget(tabId) {
    if (this.#reading > 0) this.#meanwhile.add(tabId);
    this.numbers.forget(tabId);
    this.owners.give(tabId, null);
    this.handovers.set(tabId, false);
    if (this.#known.delete(tabId)) this.#announce("browser/tabRemoved", { tabId });
  }

  /** A tab goes on under another id. @param {number} added @param {number} removed */
  async replaced(added, removed) {
    await this.loaded;
    this.numbers.rename(removed, added);
    this.owners.rename(removed, added);
    this.handovers.rename(removed, added);
    await this.removed(removed);
    await this.refresh(added);
  }

  /** @param {chrome.tabs.Tab} tab */
  #numberOf(tab) {
    const tabId = tab.id ?? chrome.tabs.TAB_ID_NONE;
    return this.numbers.of(tab, this.owners.ownerOf(tabId) !== null || this.handovers.has(tabId));
  }

  /**
   * Of its address; an empty page has its opener's.
   *
   * @param {number} tabId
   * @param {string} url
   * @param {string} documentId
   */
  #originOf(tabId, url, documentId) {
    const origin = URL.parse(url)?.origin ?? "";
    return origin === "null" ? this.reportedOrigin(tabId, documentId) || origin : origin;
  }

  /** @param {string} method @param {object} params */
  #announce(method, params) {
    if (this.#reading === 0) this.audience.post(notification(method, params));
  }

  /**
   * @param {chrome.tabs.Tab} tab
   * @param {chrome.webNavigation.GetFrameResultDetails | null} frame its main frame
   * @returns {Tab}
   */
  #describe(tab, frame) {
    const tabId = tab.id ?? chrome.tabs.TAB_ID_NONE;
    const documentId = frame?.documentId ?? ""; // Firefox names none
    const url = tab.url ?? "";
    return {
      tabId,
      windowId: tab.windowId,
      url: cut(url, URL_BYTES),
      origin: this.#originOf(tabId, url, documentId),
      title: cut(tab.title ?? "", TITLE_BYTES),
      status: tab.status ?? "",
      active: tab.active,
      focused: tab.windowId === this.#focusedWindow,
      groupId: tab.groupId === chrome.tabGroups.TAB_GROUP_ID_NONE ? null : tab.groupId,
      ordinal: this.#numberOf(tab),
      owner: this.owners.ownerOf(tabId),
      handedOver: this.handovers.has(tabId),
      lastAccessed: tab.lastAccessed ?? 0,
      incognito: tab.incognito,
      discarded: tab.discarded,
      errorPage: frame?.errorOccurred ?? false, // a download or an aborted load leaves the page: no error
      documentId,
    };
  }
}

/**
 * Return whether a tab shows a page of this extension, or is on its way to one. Clients neither see nor control those:
 * the approval window is one of them.
 *
 * @param {chrome.tabs.Tab} tab
 */
function isOwnPage({ url, pendingUrl }) {
  const own = chrome.runtime.getURL("");
  return (url || pendingUrl || "").startsWith(own);
}

/**
 * @param {number} tabId
 * @returns {Promise<chrome.tabs.Tab | null>}
 */
export async function existing(tabId) {
  try {
    return await chrome.tabs.get(tabId);
  } catch {
    return null; // the only way this fails: no tab with that id
  }
}

/**
 * A tab and its main frame as they are together: between two reads the tab may go to another document, whose address
 * would be taken for that of the first. Addresses that differ for another reason (`view-source:`) stay as they are.
 *
 * @param {number} tabId
 */
async function readTab(tabId) {
  /** @type {[string | undefined, string | undefined] | null} the document and the address of the read before */
  let before = null;
  for (;;) {
    const frame = await mainFrame(tabId);
    // The tab last: it may be removed during the first read, and would be known for good.
    const tab = await existing(tabId);
    const isSame = before?.[0] === frame?.documentId && before?.[1] === tab?.url;
    if (!tab || tab.url === frame?.url || (before && isSame)) return { tab, frame };
    before = [frame?.documentId, tab.url];
  }
}

/** @param {number} [tabId] @returns {Promise<chrome.webNavigation.GetFrameResultDetails | null>} */
async function mainFrame(tabId) {
  if (tabId === undefined || tabId === chrome.tabs.TAB_ID_NONE) return null;
  try {
    return await chrome.webNavigation.getFrame({ tabId, frameId: 0 });
  } catch {
    return null; // the only way this fails: no tab with that id
  }
}

/** The window that last had the focus. */
async function lastFocusedWindow() {
  try {
    return (await chrome.windows.getLastFocused()).id ?? NO_WINDOW;
  } catch {
    return NO_WINDOW; // no window is open
  }
}
