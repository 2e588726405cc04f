/** Stored approvals of sites, as the clients report them; the popup lists and revokes them. Nothing is stored here. */

import { invalid } from "../params.js";

/** @import { SiteApproval } from "../wire.js" */

export class SiteApprovals {
  /** Lists of clients, the latest last. @type {Map<AbortSignal, { approvals: SiteApproval[], revoke: (approval: SiteApproval) => void }>} */
  #lists = new Map();

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  /** The latest list. @returns {SiteApproval[]} */
  get all() {
    return [...this.#lists.values()].at(-1)?.approvals ?? [];
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
    this.changed();
    return promise.finally(ended);
  }

  /** Revoke an approval, where the client that sent the list is still there. @param {SiteApproval} approval */
  revoke(approval) {
    [...this.#lists.values()].at(-1)?.revoke(approval);
  }
}
