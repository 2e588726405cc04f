/** The end of a session: its tabs are released, and closed as its client's settings say. */

import { existing } from "./tabs.js";

/**
 * @import { Handovers } from "./handovers.js"
 * @import { LeftTabs } from "./left_tabs.js"
 * @import { Closing, ReleasedTab, TabOwners } from "./tab_owners.js"
 * @import { SiteRules } from "./rules/site_rules.js"
 * @import { Tabs } from "./tabs.js"
 * @import { TabVisits } from "./tab_visits.js"
 */

/** For a page to say whether it has unsaved changes; one that does not answer keeps its tab. */
const PAGE_MS = 3_000;
/** @type {ReadonlySet<string>} */
const CLOSINGS = new Set(["never", "unused", "ask", "always"]);

/** @param {string} word of the wire @returns {Closing} what later versions may add closes nothing */
export function closingOf(word) {
  return CLOSINGS.has(word) ? /** @type {Closing} */ (word) : "never";
}

export class SessionEnds {
  /** Closing of tabs: one session after the other, so that the last tab of the browser is known. */
  #turn = Promise.resolve();

  /**
   * @param {{ tabs: Tabs, owners: TabOwners, handovers: Handovers, visits: TabVisits, left: LeftTabs,
   *   siteRules: SiteRules }} parts
   */
  constructor({ tabs, owners, handovers, visits, left, siteRules }) {
    this.tabs = tabs;
    this.owners = owners;
    this.handovers = handovers;
    this.visits = visits;
    this.left = left;
    this.siteRules = siteRules;
  }

  /**
   * End a session; its tabs are closed when this returns, as far as they are.
   *
   * @param {string} session
   * @param {Closing} [now] what its client wants at its end; without it, what it last wanted
   */
  async end(session, now) {
    const { closing, client } = this.owners.termsOf(session);
    const wanted = now ?? closing;
    const released = this.owners.release(session);
    void this.siteRules.refresh();
    const tabIds = released.map(({ tabId }) => tabId);
    this.left.add(tabIds, { client, asks: wanted === "ask" });
    this.#turn = this.#turn.then(() => this.#close(released, wanted)).catch((error) => console.error(error));
    await this.#turn;
    await Promise.all(tabIds.map((tabId) => this.tabs.refresh(tabId)));
  }

  /** @param {ReleasedTab[]} released @param {Closing} closing */
  async #close(released, closing) {
    if (closing !== "unused" && closing !== "always") return;
    const isUnused = (/** @type {ReleasedTab} */ { tabId }) => closing === "always" || !this.visits.has(tabId);
    const closable = await Promise.all(released.filter(isUnused).map(async (each) => ((await isIdle(each)) ? [each] : [])));
    for (const each of closable.flat()) {
      const tab = await existing(each.tabId);
      // The pages took their time to answer, and the user may have taken a tab meanwhile.
      if (!tab || isTaken(tab, each) || this.#isGiven(each.tabId) || !isUnused(each)) continue;
      if (await isLastTab(each.tabId)) continue;
      if (tab.active) this.visits.expectInstead(tab.windowId);
      await chrome.tabs.remove(each.tabId).catch(() => {}); // it is gone
    }
  }

  /** Return whether a tab belongs to a client again. @param {number} tabId */
  #isGiven(tabId) {
    return this.owners.ownerOf(tabId) !== null || this.handovers.has(tabId);
  }
}

/**
 * Return whether the user has moved a tab out of its group or pinned it, or it is audible.
 *
 * @param {chrome.tabs.Tab} tab
 * @param {ReleasedTab} released
 */
function isTaken(tab, { groupId }) {
  return Boolean(tab.audible) || tab.pinned || tab.groupId !== groupId;
}

/**
 * Return whether a tab is neither taken by the user nor at work: the user has not moved it out of its group, it plays
 * nothing and shows no live stream, and its page has no unsaved changes.
 *
 * @param {ReleasedTab} released
 */
async function isIdle(released) {
  const { tabId } = released;
  const tab = await existing(tabId);
  if (!tab || isTaken(tab, released)) return false;
  if (tab.discarded || tab.status === "unloaded") return true; // discarded or crashed
  const target = { tabId, allFrames: true };
  const asked = chrome.scripting.executeScript({ target, func: isAtWork, injectImmediately: true });
  // The browser lets no extension into its own pages, which have nothing to lose.
  const isWebPage = /^(https?|file):/.test(tab.url ?? "");
  const frames = asked.then((results) => results.map(({ result }) => result), () => [isWebPage]);
  return Promise.race([frames.then((atWork) => !atWork.includes(true)), pause(PAGE_MS)]);
}

/**
 * In each document of a tab: return whether it would ask before it is left, or has a media element with a live stream of
 * camera, microphone or call. No extension sees a stream without such an element. The browser itself asks only where it
 * closes the tab, in front of the user.
 */
function isAtWork() {
  const event = document.createEvent("BeforeUnloadEvent");
  event.initEvent("beforeunload", false, true);
  window.dispatchEvent(event);
  if (event.defaultPrevented || event.returnValue) return true;
  const media = /** @type {NodeListOf<HTMLMediaElement>} */ (document.querySelectorAll("video, audio"));
  return [...media].some(
    ({ srcObject }) =>
      srcObject instanceof MediaStream && srcObject.getTracks().some(({ readyState }) => readyState === "live"),
  );
}

/** Return whether no other tab is open: most browsers end with their last tab. @param {number} tabId */
export async function isLastTab(tabId) {
  const windows = await chrome.windows.getAll({ windowTypes: ["normal"], populate: true });
  return windows.every(({ tabs }) => tabs?.every(({ id }) => id === tabId));
}

/** @param {number} ms @returns {Promise<false>} */
function pause(ms) {
  return new Promise((resolve) => void setTimeout(() => resolve(false), ms));
}
