/**
 * Debugger sessions of tabs. A tab is attached when the first client needs it, once for all clients, and detached some
 * seconds after the last one is done. Behavior of the browser was measured in Chromium 150.
 */

import { Attachment } from "./devtools_tab.js";
import { DOWNLOAD, Downloads } from "./downloads.js";
import { invalid } from "./params.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Asking, Subscription } from "./devtools_tab.js"
 */

export class DevTools {
  /** @type {Map<number, Attachment>} */
  #attachments = new Map();
  /** An earlier worker's attachments outlive it, and keep their tabs awake. */
  #tidied = letGoOfAll();

  /**
   * @param {{ changed: () => void, stopped: (session: string) => void }} events `changed`: `sessions` has changed;
   *   `stopped`: the user has ended the debugger of this session
   */
  constructor({ changed, stopped }) {
    this.changed = changed;
    this.stopped = stopped;
    this.downloads = new Downloads(({ tabId, callers }, state) =>
      this.#attachments.get(tabId)?.notify(callers, DOWNLOAD, state),
    );
    chrome.debugger.onEvent.addListener(({ tabId, sessionId }, method, params) =>
      this.#onEvent(Number(tabId), sessionId ?? "", method, params ?? {}),
    );
    chrome.debugger.onDetach.addListener(({ tabId }, reason) => this.#detached(Number(tabId), reason));
  }

  /** @param {number} tabId @param {string} sessionId @param {string} method @param {any} params */
  #onEvent(tabId, sessionId, method, params) {
    const attachment = this.#attachments.get(tabId);
    if (attachment && method === "Page.downloadWillBegin") this.downloads.onBegin(starterOf(attachment), params);
    attachment?.onEvent(sessionId, method, params);
  }

  /**
   * A page has opened a tab.
   *
   * @param {number} tabId
   * @param {number} sourceTabId the page's
   * @param {string} url for which it was opened
   */
  onTabOpened(tabId, sourceTabId, url) {
    const attachment = this.#attachments.get(sourceTabId);
    if (attachment) this.downloads.onTabOpened(starterOf(attachment), tabId, url);
  }

  /** A tab shows another page. @param {number} tabId */
  onCommitted(tabId) {
    this.downloads.onCommitted(tabId);
  }

  /** Those that have used what is attached to. */
  get sessions() {
    return [...new Set([...this.#attachments.values()].flatMap(({ sessions }) => [...sessions]))];
  }

  /** Tabs that are attached to. */
  get tabs() {
    return this.#attachments.keys();
  }

  /**
   * Run a command.
   *
   * @param {number} tabId
   * @param {Asking} asking
   * @param {AbortSignal} signal the request is cancelled
   * @returns {Promise<object>} its own result
   * @throws {import("./wire.js").WireError} the browser refuses it, or the page is gone before it answered
   */
  async send(tabId, asking, signal) {
    return (await this.attach(tabId, asking.session)).send(asking, signal);
  }

  /**
   * The attachment of a tab, if it is in force: then a command can be sent without a wait.
   *
   * @param {number} tabId
   */
  attachmentOf(tabId) {
    const attachment = this.#attachments.get(tabId);
    return attachment?.isReady ? attachment : undefined;
  }

  /**
   * Pass events on until the request is cancelled or the tab is detached.
   *
   * @param {number} tabId
   * @param {Subscription} subscription
   * @param {AbortSignal} signal
   * @throws {import("./wire.js").WireError} the subscription may hear no more, or the tab cannot be attached to
   */
  async subscribe(tabId, subscription, signal) {
    await (await this.attach(tabId, subscription.session)).subscribe(subscription, signal);
  }

  /**
   * One step through a tab's history.
   *
   * @param {number} tabId
   * @param {-1 | 1} by
   * @param {{ session: string, signal: AbortSignal }} asker
   * @returns {Promise<boolean>} false: the tab cannot be attached to
   * @throws {import("./wire.js").WireError} there is nothing on that side
   */
  async step(tabId, by, { session, signal }) {
    const attachment = await this.attach(tabId, session).catch(() => null);
    if (!attachment) return false;
    const ask = (/** @type {string} */ method, /** @type {Record<string, unknown>} */ params) =>
      attachment.send({ session, sessionId: "", method, params }, signal);
    const { entries, currentIndex } = /** @type {any} */ (await ask("Page.getNavigationHistory", {}));
    const entry = entries[currentIndex + by];
    if (!entry) throw invalid("The tab's history ends here.");
    try {
      await ask("Page.navigateToHistoryEntry", { entryId: entry.id });
    } catch (error) {
      // A page of the browser detaches the debugger, and so comes before the result.
      if (!(error instanceof WireError) || error.code !== Code.NAVIGATED) throw error;
    }
    return true;
  }

  /**
   * The address of what a session of a tab shows; empty: it is the tab itself, or not known.
   *
   * @param {number} tabId
   * @param {string} sessionId
   */
  urlOf(tabId, sessionId) {
    return this.#attachments.get(tabId)?.urlOf(sessionId) ?? "";
  }

  /** Prepare to close a tab: the user is not asked whether to leave its page. @param {number} tabId */
  leave(tabId) {
    this.#attachments.get(tabId)?.leave();
  }

  /** Detach from tabs at once. @param {(tabId: number) => boolean} isMeant */
  release(isMeant) {
    for (const tabId of [...this.#attachments.keys()].filter(isMeant)) {
      void chrome.debugger.detach({ tabId }).catch(() => {}); // it went by itself
      this.#forget(tabId);
    }
  }

  /**
   * Attach to a tab, unless that was done.
   *
   * @param {number} tabId
   * @param {string} session for which
   * @throws {import("./wire.js").WireError} the tab cannot be attached to
   */
  async attach(tabId, session) {
    await this.#tidied;
    const attachment = this.#attachments.get(tabId) ?? new Attachment(tabId, () => this.#forget(tabId));
    this.#attachments.set(tabId, attachment);
    try {
      await attachment.begun;
    } catch (error) {
      this.#forget(tabId);
      const reason = error instanceof Error ? error.message : error;
      const text = `Tab ${tabId} cannot be controlled: ${reason}`;
      throw new WireError(Code.TAB_NOT_CONTROLLABLE, text, { handed: false });
    }
    if (session) attachment.sessions.add(session);
    this.changed();
    return attachment;
  }

  /** @param {number} tabId @param {string} reason */
  #detached(tabId, reason) {
    const sessions = this.#attachments.get(tabId)?.sessions ?? [];
    this.#forget(tabId);
    if (reason === "canceled_by_user") for (const session of sessions) this.stopped(session);
  }

  /** @param {number} tabId */
  #forget(tabId) {
    this.#attachments.get(tabId)?.ended();
    if (this.#attachments.delete(tabId)) this.changed();
  }
}

/**
 * The tab of a download that begins now, and the callers that may have caused it: a later one learns nothing of it.
 *
 * @param {Attachment} attachment
 */
function starterOf({ tabId, callers }) {
  return { tabId, callers: new Set(callers) };
}

/** Detach from all tabs that an earlier worker was attached to. */
async function letGoOfAll() {
  const targets = await chrome.debugger.getTargets();
  const tabIds = targets.flatMap(({ attached, tabId }) => (attached && tabId !== undefined ? [tabId] : []));
  await Promise.allSettled(tabIds.map((tabId) => chrome.debugger.detach({ tabId }))); // others' refuse
}
