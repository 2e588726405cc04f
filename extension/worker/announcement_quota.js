/**
 * Limit for all announced tool lists together: the host keeps the newest list of each frame for clients that connect
 * later and must be able to send all of them (docs/PROTOCOL.md, "Flow"). A second limit keeps one tab from using it up.
 */

const MIB = 1024 * 1024;
export const TAB_BYTES = 4 * MIB;
export const ALL_BYTES = 32 * MIB;

export class AnnouncementQuota {
  /** @type {Map<string, { tabId: number, bytes: number }>} by frame */
  #taken = new Map();
  /** @type {Map<number, number>} bytes by tab */
  #tabs = new Map();
  #all = 0;

  /**
   * Take room in place of what the frame had; where there is too little, it has none then.
   *
   * @param {string} frame
   * @param {number} tabId
   * @param {number} bytes
   * @returns {boolean} whether there is room
   */
  take(frame, tabId, bytes) {
    this.release(frame);
    if (!this.fits(tabId, bytes)) return false;
    this.#taken.set(frame, { tabId, bytes });
    this.#add(tabId, bytes);
    return true;
  }

  /** Whether a frame of a tab that has none yet would get it. @param {number} tabId @param {number} bytes */
  fits(tabId, bytes) {
    return this.#all + bytes <= ALL_BYTES && this.#inTab(tabId) + bytes <= TAB_BYTES;
  }

  /** Give a frame's room back. @param {string} frame @returns {number} bytes that it had */
  release(frame) {
    const taken = this.#taken.get(frame);
    if (!taken) return 0;
    this.#taken.delete(frame);
    this.#add(taken.tabId, -taken.bytes);
    return taken.bytes;
  }

  /** @param {number} tabId */
  #inTab(tabId) {
    return this.#tabs.get(tabId) ?? 0;
  }

  /** @param {number} tabId @param {number} bytes */
  #add(tabId, bytes) {
    this.#all += bytes;
    const inTab = this.#inTab(tabId) + bytes;
    if (inTab === 0) this.#tabs.delete(tabId);
    else this.#tabs.set(tabId, inTab);
  }
}
