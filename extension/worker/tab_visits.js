/**
 * Visits of the user to tabs: which tabs the user has looked at. Kept in `chrome.storage.session`.
 *
 * The browser reports which tab a window shows, not who chose it. A tab counts as visited when its window shows it and
 * neither a client, nor a page in a client's tab, nor the end of such a tab has brought that about.
 */

const KEY = "visited";
/** Between what this extension does to tabs and the browser's event about it. */
const EVENT_MS = 1_000;

export class TabVisits {
  /** @type {Set<number>} */
  #visited = new Set();
  /** Changes before `load`: an event that starts the worker comes before what is kept. @type {Map<number, boolean> | null} */
  #early = new Map();
  /** What each window shows, and what it showed before. @type {Map<number, number[]>} */
  #shown = new Map();
  /** Tab that a client shows → until when an event about it is the client's. @type {Map<number, number>} */
  #expected = new Map();
  /** Window that showed a client's tab which was closed → the same. @type {Map<number, number>} */
  #closed = new Map();

  constructor() {
    this.learned = this.#learnShown();
  }

  /** Learn which tab each window shows. */
  async #learnShown() {
    for (const { id, windowId } of await chrome.tabs.query({ active: true }))
      if (id !== undefined && !this.#shown.has(windowId)) this.#show(id, windowId);
  }

  /** Read the visits that an earlier worker has kept. */
  async load() {
    const stored = /** @type {number[]} */ ((await chrome.storage.session.get(KEY))[KEY] ?? []);
    const early = this.#early ?? new Map();
    this.#early = null;
    this.#visited = new Set(stored);
    for (const [tabId, isVisited] of early) this.#set(tabId, isVisited);
  }

  /** @param {number} tabId */
  has(tabId) {
    return this.#visited.has(tabId);
  }

  /**
   * The tab that a window showed before a new one.
   *
   * @param {number} windowId
   * @param {number} tabId the new one
   */
  before(windowId, tabId) {
    return this.#shown.get(windowId)?.find((id) => id !== tabId);
  }

  /** A client has a tab shown now: that is no visit. @param {number} tabId */
  expect(tabId) {
    this.#expected.set(tabId, Date.now() + EVENT_MS);
  }

  /** Another tab of its window is shown now. @param {number} tabId @param {number} windowId */
  activated(tabId, windowId) {
    this.#show(tabId, windowId);
    const isOfClient = isRecent(this.#expected.get(tabId)) || isRecent(this.#closed.get(windowId));
    this.#closed.delete(windowId);
    if (!isOfClient) this.#set(tabId, true);
  }

  /** Another window has the focus now. @param {number} windowId */
  async focused(windowId) {
    const now = Date.now();
    await this.learned;
    const [tabId] = this.#shown.get(windowId) ?? [];
    if (tabId !== undefined && !isRecent(this.#expected.get(tabId), now)) this.#set(tabId, true);
  }

  /** The user has opened a tab from one that they had looked at, perhaps to read it later. @param {number} tabId */
  openedByUser(tabId) {
    this.#set(tabId, true);
  }

  /**
   * A tab of a client was opened, perhaps in front: that is no visit.
   *
   * @param {number} tabId
   * @param {{ isShown: boolean }} how
   */
  opened(tabId, { isShown }) {
    if (isShown) this.expect(tabId);
    this.#set(tabId, false);
  }

  /**
   * A tab was closed.
   *
   * @param {number} tabId
   * @param {{ windowId: number, isOfClient: boolean }} about
   */
  removed(tabId, { windowId, isOfClient }) {
    const isShown = this.#shown.get(windowId)?.[0] === tabId;
    if (isShown && isOfClient && !this.has(tabId)) this.expectInstead(windowId);
    this.#set(tabId, false);
    this.#expected.delete(tabId);
  }

  /** The browser will show another tab of a window, in place of one that a client had. @param {number} windowId */
  expectInstead(windowId) {
    this.#closed.set(windowId, Date.now() + EVENT_MS);
  }

  /**
   * The browser has given a tab another id.
   *
   * @param {number} from
   * @param {number} to
   */
  rename(from, to) {
    this.#set(to, this.has(from));
    this.#set(from, false);
  }

  /** @param {number} tabId @param {number} windowId */
  #show(tabId, windowId) {
    const [before] = this.#shown.get(windowId) ?? [];
    this.#shown.set(windowId, before === undefined ? [tabId] : [tabId, before]);
  }

  /** @param {number} tabId @param {boolean} isVisited */
  #set(tabId, isVisited) {
    this.#early?.set(tabId, isVisited);
    if (this.has(tabId) === isVisited) return;
    if (isVisited) this.#visited.add(tabId);
    else this.#visited.delete(tabId);
    if (this.#early) return;
    void chrome.storage.session.set({ [KEY]: [...this.#visited] });
  }
}

/** @param {number | undefined} until @param {number} [now] */
function isRecent(until, now = Date.now()) {
  return until !== undefined && now < until;
}
