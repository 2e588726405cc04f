/**
 * Toolbar icon: the state of the connection or of the tab, and a badge for what waits for the user.
 *
 * The browser removes a tab's own icon when the tab navigates, but keeps it when the worker stops: the list of such
 * tabs is in `chrome.storage.session`.
 */

/**
 * @import { ApprovalPrompts } from "./approval_prompts.js"
 * @import { LeftTabs } from "./left_tabs.js"
 * @import { State, Status } from "./status.js"
 */

const KEY = "toolbarTabs";
const SIZES = [16, 32];
const TITLES = { off: "mcpb: not connected", connected: "mcpb: connected", paused: "mcpb: paused" };
const WAITING = "mcpb: an agent waits for your approval";
const LEFT = "mcpb: agents left tabs open";
const ATTENTION = "!";
const ATTENTION_COLOR = "#b3261e";
const WAITING_COLOR = "#2458c5";

export class ToolbarIcon {
  /** Tabs that have an icon of their own; `null`: drawn by an earlier worker. @type {Map<number, State | null>} */
  #tabs = new Map();
  /** What all other tabs show; empty: not known yet. */
  #everywhere = "";
  /** Title and badge, as JSON. */
  #labels = "";

  /**
   * @param {Status} status
   * @param {ApprovalPrompts} prompts
   * @param {LeftTabs} left
   */
  constructor(status, prompts, left) {
    this.status = status;
    this.prompts = prompts;
    this.left = left;
  }

  /** Read which tabs have an icon of their own. */
  async load() {
    const stored = /** @type {number[]} */ ((await chrome.storage.session.get(KEY))[KEY] ?? []);
    this.#tabs = new Map(stored.map((tabId) => [tabId, null]));
  }

  /** Show the present state. What is shown already costs nothing. */
  draw() {
    const { everywhere, ofTabs } = this.status;
    if (everywhere !== this.#everywhere) setIcon(everywhere, {});
    this.#everywhere = everywhere;
    for (const tabId of new Set([...this.#tabs.keys(), ...ofTabs.keys()])) {
      this.#drawTab(tabId, ofTabs.get(tabId) ?? everywhere);
    }
    const isBroken = everywhere === "off" && this.status.native.trouble !== null;
    this.#label(TITLES[everywhere], isBroken ? ATTENTION : "");
  }

  /** The browser has removed a tab's own icon, or the tab. @param {number} tabId */
  forget(tabId) {
    if (this.#tabs.delete(tabId)) this.#save();
  }

  /** @param {number} tabId @param {State} state */
  #drawTab(tabId, state) {
    if (this.#tabs.get(tabId) === state) return;
    const isNew = !this.#tabs.has(tabId);
    this.#tabs.set(tabId, state);
    if (isNew) this.#save();
    setIcon(state, { tabId });
  }

  /**
   * Set title and badge. Prompts that wait come first, then tabs about which the user is asked.
   *
   * @param {string} title
   * @param {string} badge
   */
  #label(title, badge) {
    const [waiting, count] = this.prompts.count > 0 ? [WAITING, this.prompts.count] : [LEFT, this.left.asking];
    const labels = count > 0 ? [waiting, String(count)] : [title, badge];
    if (JSON.stringify(labels) === this.#labels) return;
    this.#labels = JSON.stringify(labels);
    void chrome.action.setTitle({ title: String(labels[0]) });
    void chrome.action.setBadgeBackgroundColor({ color: count > 0 ? WAITING_COLOR : ATTENTION_COLOR });
    void chrome.action.setBadgeText({ text: String(labels[1]) });
  }

  /** Keep the list for a later worker. */
  #save() {
    void chrome.storage.session.set({ [KEY]: [...this.#tabs.keys()] });
  }
}

/**
 * @param {State} state
 * @param {{ tabId?: number }} where
 */
function setIcon(state, where) {
  const path = Object.fromEntries(SIZES.map((size) => [size, `/icons/${state}-${size}.png`]));
  // The tab may have just been closed. Chromium 150 reports that as an error of the extension even if the promise of
  // this call is handled.
  chrome.action.setIcon({ path, ...where }, () => void chrome.runtime.lastError);
}
