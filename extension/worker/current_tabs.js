/**
 * Current tab of each connection without sessions: the tab that a request means which names none. `createTab` and
 * `selectTab` set it. Who may use a tab is decided elsewhere (tab_access.js).
 */

import { invalid } from "./params.js";

/** Methods whose `tabId` such a connection may omit. */
const IN_CURRENT_TAB = new Set(
  "activateTab browser_navigate click closeTab forwardCDPCommand goBack goForward hover screenshot type".split(" "),
);

export class CurrentTabs {
  /** By connection. @type {Map<string, number>} */
  #tabs = new Map();

  /** @param {string} connection @param {number} tabId */
  set(connection, tabId) {
    this.#tabs.set(connection, tabId);
  }

  /** A connection has ended. @param {string} connection */
  forget(connection) {
    this.#tabs.delete(connection);
  }

  /** A tab is closed. @param {number} tabId */
  removed(tabId) {
    for (const [connection, current] of this.#tabs) if (current === tabId) this.#tabs.delete(connection);
  }

  /** The browser has given a tab another id. @param {number} from @param {number} to */
  rename(from, to) {
    for (const [connection, current] of this.#tabs) if (current === from) this.#tabs.set(connection, to);
  }

  /**
   * The parameters of a request, with the tab that it means.
   *
   * @param {string} connection
   * @param {string} method
   * @param {any} params
   * @returns {any}
   * @throws {import("./wire.js").WireError} it names no tab, and the connection has no current one
   */
  fill(connection, method, params) {
    if (!IN_CURRENT_TAB.has(method) || params.tabId != null) return params;
    const tabId = this.#tabs.get(connection);
    if (tabId === undefined) throw invalid("There is no current tab. Open one: createTab. Or choose one: selectTab.");
    return { ...params, tabId };
  }
}
