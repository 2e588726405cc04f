/** What the popup is told, for as long as it is open, and what it may ask. */

/**
 * @import { Client } from "./wire.js"
 * @import { Frames } from "./frames.js"
 * @import { NativePort, Trouble } from "./native_port.js"
 * @typedef {{ connected: boolean, resting: boolean, attempts: number, trouble: Trouble | null,
 *   host: { version: string, pid: number } | null, clients: Client[], offers: ReturnType<Frames["ofTab"]> }} Report
 */

export const POPUP_PORT = "mcpb-popup";

export class Popups {
  /** @type {Map<chrome.runtime.Port, number>} port → the tab it was opened over */
  #open = new Map();

  /** @param {{ native: NativePort, frames: Frames, clients: () => Client[] }} parts */
  constructor({ native, frames, clients }) {
    this.native = native;
    this.frames = frames;
    this.clients = clients;
  }

  /** @param {chrome.runtime.Port} port */
  accept(port) {
    if (!port.sender?.url?.startsWith(chrome.runtime.getURL(""))) return port.disconnect();
    port.onDisconnect.addListener(() => this.#open.delete(port));
    port.onMessage.addListener(({ tabId }) => {
      this.#open.set(port, tabId);
      this.native.nudge();
      this.tell();
    });
  }

  tell() {
    for (const [port, tabId] of this.#open) port.postMessage(this.#report(tabId));
  }

  /** @param {number} tabId @returns {Report} */
  #report(tabId) {
    const { host, resting, attempts, trouble } = this.native;
    return {
      connected: host !== null,
      resting,
      attempts,
      trouble,
      host: host && { version: host.version, pid: host.pid },
      clients: this.clients(),
      offers: this.frames.ofTab(tabId),
    };
  }
}
