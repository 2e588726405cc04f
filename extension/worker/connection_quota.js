/** Quota of each client connection, over all documents. */

export class ConnectionQuota {
  /** By connection. @type {Map<string, number>} */
  #taken = new Map();

  /** @param {number} limit */
  constructor(limit) {
    this.limit = limit;
  }

  /** Return whether a connection has taken its whole quota. @param {string} connection */
  isFull(connection) {
    return (this.#taken.get(connection) ?? 0) >= this.limit;
  }

  /** @param {string} connection */
  take(connection) {
    this.#taken.set(connection, (this.#taken.get(connection) ?? 0) + 1);
  }

  /** @param {string} connection that has taken something */
  release(connection) {
    const left = (this.#taken.get(connection) ?? 0) - 1;
    if (left > 0) this.#taken.set(connection, left);
    else this.#taken.delete(connection);
  }
}
