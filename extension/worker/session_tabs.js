/** The tabs of sessions: opened for one, or by a page in one of its tabs; in the session's group, and so in its window. */

import { existing } from "./tabs.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Closing, TabOwners } from "./tab_owners.js"
 * @import { TabVisits } from "./tab_visits.js"
 * @import { Session } from "./wire.js"
 * @import { Tabs } from "./tabs.js"
 */

const LONGEST_TITLE = 60;

export class SessionTabs {
  /** A session's first tab makes its group; the next one must find it. */
  #inTurn = turns();

  /**
   * @param {Tabs} tabs
   * @param {TabOwners} owners
   * @param {TabVisits} visits
   * @param {() => Session[]} sessions those that are there
   */
  constructor(tabs, owners, visits, sessions) {
    this.tabs = tabs;
    this.owners = owners;
    this.visits = visits;
    this.sessions = sessions;
  }

  /**
   * Open a tab; it is in its group when this returns.
   *
   * @param {string} session empty: the tab is unowned and in no group
   * @param {{ url: string, active: boolean, title: string, closing: Closing, groupKey: string }} wanted `url`: empty: the
   *   browser's new tab; `title`: of the group, if it has to be made; `closing`, `groupKey`: see `Terms`
   */
  open(session, { url, active, title, closing, groupKey }) {
    return this.#inTurn(groupKey || session, async () => {
      const terms = { closing, client: this.#nameOf(session, title), groupKey };
      if (session) this.owners.setTerms(session, terms);
      const groupId = session ? await this.#groupOf(session) : null;
      const windowId = groupId === null ? undefined : (await chrome.tabGroups.get(groupId)).windowId;
      const created = await openTab({ url: url || undefined, active, windowId });
      const tabId = Number(created.id);
      if (session) {
        this.visits.opened(tabId, { isShown: created.active });
        this.owners.give(tabId, session);
        this.owners.setTerms(session, terms); // again: the session may have ended meanwhile
        await this.#join(tabId, session);
      }
      const tab = await this.tabs.refresh(tabId);
      return {
        tabId,
        windowId: tab?.windowId ?? created.windowId,
        groupId: tab?.groupId ?? null,
        url: created.pendingUrl || created.url || url,
      };
    });
  }

  /**
   * A page has opened a tab. What a session's page opens is the session's; from a tab that was handed over nothing is
   * inherited, since the user handed over that one only. Where the page was in the background, so is what it opened: the
   * user is looking at something else.
   *
   * @param {number} tabId
   * @param {number} sourceTabId the page's
   */
  async opened(tabId, sourceTabId) {
    await this.tabs.loaded;
    const session = this.owners.ownerOf(sourceTabId);
    if (session === null || !(await existing(tabId))) return;
    if (this.visits.has(sourceTabId)) this.visits.openedByUser(tabId);
    else this.visits.opened(tabId, { isShown: true });
    await this.#keepBehind(tabId, sourceTabId);
    this.owners.give(tabId, session);
    await this.#inTurn(this.owners.termsOf(session).groupKey || session, () => this.#join(tabId, session));
    await this.tabs.refresh(tabId);
  }

  /**
   * The browser activates each tab that a page opens, also for a hidden page. Activate the previous tab again.
   *
   * @param {number} tabId
   * @param {number} sourceTabId the page's
   */
  async #keepBehind(tabId, sourceTabId) {
    const opened = await existing(tabId);
    if (!opened?.active) return;
    const before = this.visits.before(opened.windowId, tabId);
    if (before === undefined || before === sourceTabId) return;
    this.visits.expect(before);
    await chrome.tabs.update(before, { active: true }).catch(() => {}); // The user has closed it, or drags tabs.
  }

  /**
   * The session's tab group, unless the user has dissolved it.
   *
   * @param {string} session
   */
  async #groupOf(session) {
    const groupId = this.owners.groupOf(session);
    if (groupId === undefined) return null;
    const [tab] = await chrome.tabs.query({ groupId });
    return tab ? groupId : null;
  }

  /**
   * @param {number} tabId
   * @param {string} session
   */
  async #join(tabId, session) {
    try {
      await this.#group(tabId, session);
    } catch (error) {
      console.warn(error); // a popup window has no groups, and the user may be dragging tabs: continue without a group
    }
  }

  /**
   * @param {number} tabId
   * @param {string} session
   */
  async #group(tabId, session) {
    const known = await this.#groupOf(session);
    if (known !== null) {
      await chrome.tabs.group({ tabIds: tabId, groupId: known });
      return this.owners.setGroup(tabId, session, known);
    }
    const { windowId } = await chrome.tabs.get(tabId);
    const groupId = await chrome.tabs.group({ tabIds: tabId, createProperties: { windowId } });
    this.owners.setGroup(tabId, session, groupId);
    await chrome.tabGroups.update(groupId, { title: this.#nameOf(session).slice(0, LONGEST_TITLE) });
  }

  /**
   * What the user knows a session by.
   *
   * @param {string} session
   * @param {string} [title] as its client gives it now
   */
  #nameOf(session, title) {
    const about = this.sessions().find(({ id }) => id === session);
    return title || this.owners.termsOf(session).client || about?.title || about?.client.name || "mcpb";
  }
}

/** @param {{ url: string | undefined, active: boolean, windowId: number | undefined }} where */
async function openTab({ url, active, windowId }) {
  const here = windowId ?? (await ordinaryWindow());
  if (here !== undefined) return chrome.tabs.create({ url, active, windowId: here });
  const window = await chrome.windows.create({ url, focused: active, incognito: false });
  const tab = window?.tabs?.[0];
  if (!tab) throw new WireError(Code.INTERNAL_ERROR, "The browser did not open a window.", { handed: false });
  return tab;
}

/** The window that last had the focus, if it is not incognito: nothing is offered of what is open there. */
async function ordinaryWindow() {
  const all = await chrome.windows.getAll({ windowTypes: ["normal"] });
  const windows = all.filter(({ incognito }) => !incognito);
  if (windows.length === 0) return undefined;
  const last = await chrome.windows.getLastFocused();
  return (windows.find(({ id }) => id === last.id) ?? windows[0])?.id;
}

/**
 * What is done in its turn begins when all that came before it under that key has ended.
 *
 * @returns {<T>(key: string, act: () => Promise<T>) => Promise<T>}
 */
function turns() {
  /** @type {Map<string, Promise<unknown>>} */
  const last = new Map();
  return (key, act) => {
    const turn = (last.get(key) ?? Promise.resolve()).then(act, act);
    last.set(key, turn);
    const ended = () => last.get(key) === turn && last.delete(key);
    turn.then(ended, ended);
    return turn;
  };
}
