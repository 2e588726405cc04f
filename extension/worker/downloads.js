/**
 * Downloads of attached tabs, from their beginning to their end, for the callers that have used the tab by the beginning.
 * A download that the user begins in another tab is not among them.
 *
 * `chrome.downloads` knows the file and not the tab, DevTools the tab and not the file. DevTools report a download just
 * before `chrome.downloads` does, under the same address (measured in Chromium 150, 1 to 50 ms). A link with a new tab
 * downloads there, before DevTools are attached: then the address that the tab was opened for is compared.
 */

import { URL_BYTES, cut } from "./wire.js";

/**
 * @typedef {{ tabId: number, callers: Set<string> }} Starter the attached tab, and the callers that have used it
 * @typedef {{ starter: Starter, guid: string, url: string, until: number }} Beginning
 * @typedef {{ guid: string, name: string, url: string, path: string, state: string, danger: string, error: string,
 *   isPaused: boolean, receivedBytes: number, totalBytes: number }} DownloadState params of the event `mcpb.download`:
 *   `guid`: what DevTools call the download, else a name of its own; `path`: of the file, empty until it is chosen;
 *   `totalBytes`: -1: unknown
 */

export const DOWNLOAD = "mcpb.download";
/** For `chrome.downloads` to report what DevTools have reported. */
const MATCH_MS = 5_000;
/** For a page in a new tab to turn out as a download: its server may take its time. */
const NEW_TAB_MS = 30_000;
/** Beginnings that wait; a page can make any number. */
const MAX_WAITING = 100;
/** Downloads whose end is waited for. */
const MAX_FOLLOWED = 1_000;
/** Bytes are reported so often, and so many times: they are of use while a client waits. */
const PROGRESS_MS = 1_000;
const PROGRESS_COUNT = 12;

export class Downloads {
  /** @type {Beginning[]} by DevTools */
  #beginnings = [];
  /** Of tabs that a page has opened and that show no page yet. @type {(Beginning & { openedTabId: number })[]} */
  #openings = [];
  /** By number of `chrome.downloads`. @type {Map<number, Beginning>} */
  #followed = new Map();

  /** @param {(starter: Starter, state: DownloadState) => void} notify */
  constructor(notify) {
    this.notify = notify;
    chrome.downloads.onCreated.addListener((item) => this.#created(item));
    chrome.downloads.onChanged.addListener(({ id }) => void this.#changed(id));
  }

  /** DevTools report a download. @param {Starter} starter @param {{ guid: string, url: string }} about */
  onBegin(starter, { guid, url }) {
    this.#beginnings = withOneMore(this.#beginnings, { starter, guid, url, until: Date.now() + MATCH_MS });
  }

  /**
   * A page has opened a tab at an address.
   *
   * @param {Starter} starter that page's tab
   * @param {number} openedTabId
   * @param {string} url
   */
  onTabOpened(starter, openedTabId, url) {
    const guid = crypto.randomUUID();
    this.#openings = withOneMore(this.#openings, { starter, openedTabId, guid, url, until: Date.now() + NEW_TAB_MS });
  }

  /** A tab shows a page: its address was no download. @param {number} tabId */
  onCommitted(tabId) {
    this.#openings = this.#openings.filter(({ openedTabId }) => openedTabId !== tabId);
  }

  /** @param {chrome.downloads.DownloadItem} item */
  #created(item) {
    const beginning = take(this.#beginnings, item.finalUrl) ?? take(this.#openings, item.url);
    if (!beginning || this.#followed.size >= MAX_FOLLOWED) return;
    this.#followed.set(item.id, beginning);
    this.#report(item);
    void this.#reportProgress(item.id);
  }

  /** @param {number} id @returns {Promise<boolean>} whether the download goes on */
  async #changed(id) {
    if (!this.#followed.has(id)) return false;
    const [item] = await chrome.downloads.search({ id });
    if (item) this.#report(item);
    return this.#followed.has(id);
  }

  /** @param {number} id */
  async #reportProgress(id) {
    for (let count = 0; count < PROGRESS_COUNT; count++) {
      await new Promise((resolve) => void setTimeout(resolve, PROGRESS_MS));
      if (!(await this.#changed(id))) return;
    }
  }

  /** @param {chrome.downloads.DownloadItem} item */
  #report(item) {
    const followed = this.#followed.get(item.id);
    if (!followed) return;
    if (item.state !== "in_progress") this.#followed.delete(item.id);
    this.notify(followed.starter, {
      guid: followed.guid,
      name: cut(item.filename.split(/[\\/]/).at(-1) ?? "", URL_BYTES),
      url: cut(item.finalUrl, URL_BYTES),
      path: cut(item.filename, URL_BYTES),
      state: item.state,
      danger: item.danger,
      error: item.error ?? "",
      isPaused: item.paused,
      receivedBytes: item.bytesReceived,
      totalBytes: item.totalBytes,
    });
  }
}

/**
 * @template {Beginning} T
 * @param {T[]} waiting
 * @param {T} beginning
 */
function withOneMore(waiting, beginning) {
  return [...waiting.filter(({ until }) => until > Date.now()), beginning].slice(-MAX_WAITING);
}

/** Take the first that waits for this address. @param {Beginning[]} waiting @param {string} url */
function take(waiting, url) {
  const place = waiting.findIndex((beginning) => beginning.url === url && beginning.until > Date.now());
  return place < 0 ? undefined : waiting.splice(place, 1)[0];
}
