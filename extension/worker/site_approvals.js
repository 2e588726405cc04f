/** Stored approvals of sites, as the clients report them; the popup lists and revokes them. Nothing is stored here. */

import { invalid } from "./params.js";

/** @import { SiteApproval } from "./wire.js" */

/** Time in which a client sends its list again. */
const REVOKING_MS = 5_000;

export class SiteApprovals {
  /** Lists of clients, the latest last. @type {Map<AbortSignal, { approvals: SiteApproval[], revoke: (approval: SiteApproval) => void }>} */
  #lists = new Map();
  /** The list while a client revokes one of its approvals: until it sends the next one. @type {SiteApproval[]} */
  #revoking = [];

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  /** The latest list. @returns {SiteApproval[]} */
  get all() {
    return [...this.#lists.values()].at(-1)?.approvals ?? this.#revoking;
  }

  /**
   * Keep a client's list until the client withdraws it, or the user revokes an approval.
   *
   * @param {any} params of `browser/approvals`
   * @param {AbortSignal} signal
   * @returns {Promise<SiteApproval>} the approval that the user revoked
   */
  async watch({ approvals }, signal) {
    if (!Array.isArray(approvals)) throw invalid("approvals must be a list.");
    /** @type {PromiseWithResolvers<SiteApproval>} */
    const { promise, resolve } = Promise.withResolvers();
    const ended = () => {
      this.#lists.delete(signal);
      this.changed();
    };
    signal.addEventListener("abort", ended);
    this.#lists.set(signal, { approvals, revoke: resolve });
    this.#revoking = [];
    this.changed();
    return promise.finally(ended);
  }

  /** Revoke an approval, where the client that sent the list is still there. @param {SiteApproval} approval */
  revoke(approval) {
    const latest = [...this.#lists.values()].at(-1);
    if (!latest) return;
    this.#revoking = latest.approvals;
    latest.revoke(approval);
    setTimeout(() => this.#giveUp(), REVOKING_MS);
  }

  /** The client has not sent its list again: show none. */
  #giveUp() {
    this.#revoking = [];
    this.changed();
  }
}
