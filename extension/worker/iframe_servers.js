/**
 * Page servers in iframes, which answer only their parent window, and the parent frames that relay for them. This file
 * matches the two and passes on their messages; content/iframe_transport.js describes the handshake.
 */

import { isFirefox } from "./firefox.js";

/**
 * @import { Frame } from "./document.js"
 * @typedef {{ nonce: string, child: Frame, parent: Frame, hosted: boolean }} Hosting `hosted`: the parent has named the
 *   nonce, so that it knows the child's window
 */

/** Of parents that are remembered: some pages come back from the back/forward cache. */
const REMEMBERED = 512;

export class Iframes {
  /** By nonce, one for each child. @type {Map<string, Hosting>} */
  #hostings = new Map();
  /** Of documents, for their lives. The browser forgets it of iframes in its back/forward cache (seen in Chromium 150).
   * @type {Map<string, string>} document id → its parent's */
  #parents = new Map();

  /**
   * @param {(tabId: number, documentId: string) => Frame | undefined} dialled a document, if it has dialled
   * @param {(tabId: number, frameId: number) => Frame | undefined} inFrame the document in a frame, if it has dialled
   */
  constructor(dialled, inFrame) {
    this.dialled = dialled;
    this.inFrame = inFrame;
  }

  /**
   * A frame has been asked by its parent who it is. The browser says who that parent is; one that has not dialled asks
   * again when it has.
   *
   * @param {Frame} child
   */
  async introduce(child) {
    const parent = await this.#parentOf(child);
    if (!parent || this.dialled(child.tabId, child.documentId) !== child) return;
    const known = this.#of(child);
    const hosting = known?.parent === parent ? known : this.#begin(child, parent);
    if (hosting.hosted) child.post({ type: "frame-hosted", hosted: true });
    else child.post({ type: "frame-nonce", nonce: hosting.nonce });
  }

  /**
   * A frame has received a nonce from the window of one of its iframes.
   *
   * @param {Frame} parent
   * @param {string} nonce
   */
  match(parent, nonce) {
    const hosting = this.#hostings.get(nonce);
    if (hosting?.parent !== parent || hosting.hosted) return;
    hosting.hosted = true;
    hosting.child.post({ type: "frame-hosted", hosted: true });
  }

  /** Pass on what a frame says to its server. @param {Frame} child @param {any} payload */
  toServer(child, payload) {
    const hosting = this.#of(child);
    if (!hosting?.hosted) return;
    hosting.parent.post({ type: "to-child", nonce: hosting.nonce, origin: child.origin, payload });
  }

  /**
   * Pass on what a server says to its frame.
   *
   * @param {Frame} parent
   * @param {string} nonce
   * @param {any} payload
   */
  fromServer(parent, nonce, payload) {
    const hosting = this.#hostings.get(nonce);
    if (hosting?.parent === parent && hosting.hosted) hosting.child.post({ type: "from-server", payload });
  }

  /** A document is gone, as a child and as a parent. @param {Frame} frame */
  left(frame) {
    this.#forget(this.#of(frame));
    for (const hosting of this.#hostings.values()) {
      if (hosting.parent !== frame) continue;
      this.#forget(hosting);
      hosting.child.post({ type: "frame-hosted", hosted: false });
    }
  }

  /**
   * @param {Frame} child
   * @param {Frame} parent
   */
  #begin(child, parent) {
    this.#forget(this.#of(child));
    const hosting = { nonce: crypto.randomUUID(), child, parent, hosted: false };
    this.#hostings.set(hosting.nonce, hosting);
    return hosting;
  }

  /** @param {Frame} child */
  #of(child) {
    return [...this.#hostings.values()].find((hosting) => hosting.child === child);
  }

  /** @param {Hosting | undefined} hosting */
  #forget(hosting) {
    if (hosting) this.#hostings.delete(hosting.nonce);
  }

  /** @param {Frame} child @returns {Promise<Frame | undefined>} undefined: it has not dialled */
  async #parentOf({ tabId, frameId, documentId }) {
    const details = await chrome.webNavigation.getFrame({ tabId, frameId });
    if (isFirefox) return details ? this.inFrame(tabId, details.parentFrameId) : undefined; // it names no documents
    if (details?.documentId === documentId) this.#remember(documentId, details.parentDocumentId);
    const parent = this.#parents.get(documentId);
    return parent === undefined ? undefined : this.dialled(tabId, parent);
  }

  /**
   * @param {string} documentId
   * @param {string | undefined} parent its document
   */
  #remember(documentId, parent) {
    if (parent === undefined) return;
    this.#parents.delete(documentId);
    this.#parents.set(documentId, parent);
    const [oldest] = this.#parents.keys();
    if (oldest !== undefined && this.#parents.size > REMEMBERED) this.#parents.delete(oldest);
  }
}
