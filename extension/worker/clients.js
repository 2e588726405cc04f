/** Clients of all connections, as native host and proxy last named them. */

/**
 * @import { Client, Session } from "./wire.js"
 * @import { Link } from "./audience.js"
 */

/** The connection of a client, distinct on all ways. @param {Link} link @param {string} connection as the wire has it */
export function connectionKey({ name }, connection) {
  return `${name}/${connection}`;
}

/** The client's connection that a request id names. @param {string} id */
export function connectionOf(id) {
  return id.slice(0, id.indexOf(":"));
}

export class Clients {
  /** @type {Map<Link, Client[]>} */
  #named = new Map();

  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
  }

  /** Those of all connections; `connection` is a `connectionKey`. @returns {Client[]} */
  get all() {
    return [...this.#named].flatMap(([link, clients]) =>
      clients.map((client) => ({ ...client, connection: connectionKey(link, client.connection) })),
    );
  }

  /** Sessions of all clients. @returns {Session[]} */
  get sessions() {
    return this.all.flatMap(({ sessions }) => sessions);
  }

  /** These clients, and no others, are on a connection now. @param {Link} link @param {Client[]} clients */
  set(link, clients) {
    if (link.ended.aborted) return;
    this.#named.set(link, clients);
    this.changed();
  }

  /** A connection has ended. @param {Link} link */
  end(link) {
    this.#named.delete(link);
    this.changed();
  }
}
