/** Clients of all connections, as native host and proxy last named them. A proxy may name anything. */

/**
 * @import { Client, Session } from "./wire.js"
 * @import { Link } from "./audience.js"
 */

/** The connection of a client, distinct on all ways. @param {Link} link @param {string} connection as the wire has it */
export function connectionKey({ name }, connection) {
  return `${name}/${connection}`;
}

/** The client's connection that a request id names; empty: none. @param {string} id */
export function connectionOf(id) {
  const end = id.indexOf(":");
  return end < 0 ? "" : id.slice(0, end);
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

  /** Those of one connection, as it has named them. @param {Link} link @returns {Client[]} */
  of(link) {
    return this.#named.get(link) ?? [];
  }

  /** Sessions of one client, as it has named them. @param {Link} link @param {string} connection of the client */
  sessionsOf(link, connection) {
    return this.of(link).flatMap((client) => (client.connection === connection ? client.sessions : []));
  }

  /**
   * Return whether a session is the client's own.
   *
   * @param {Link} link
   * @param {string} connection of the client
   * @param {string} session
   */
  isOf(link, connection, session) {
    if (this.isOfAnother(link, connection, session)) return false;
    if (session === connection) return true;
    return this.sessionsOf(link, connection).some(({ id }) => id === session);
  }

  /**
   * Return whether a session is that of another client: one that is reached on another way, or that is its own session.
   * Two clients of one way may have the same session, since a client that connects again keeps its own.
   *
   * @param {Link} link
   * @param {string} connection
   * @param {string} session
   */
  isOfAnother(link, connection, session) {
    const others = [...this.#named].filter(([other]) => other.name !== link.name).flatMap(([, clients]) => clients);
    const isAnother = (/** @type {Client} */ client) => client.connection === session && session !== connection;
    return others.some((client) => hasSession(client, session)) || this.of(link).some(isAnother);
  }

  /** These clients, and no others, are on a connection now. @param {Link} link @param {unknown} clients */
  set(link, clients) {
    if (link.ended.aborted) return;
    this.#named.set(link, Array.isArray(clients) ? clients.filter(isClient) : []);
    this.changed();
  }

  /** A connection has ended. @param {Link} link */
  end(link) {
    this.#named.delete(link);
    this.changed();
  }
}

/** Return whether it is as the wire has a client. @param {any} client */
function isClient(client) {
  return typeof client?.connection === "string" && Array.isArray(client.sessions) && client.sessions.every(isSession);
}

/** @param {any} session */
function isSession(session) {
  return [session?.id, session?.title ?? "", session?.client?.name].every((text) => typeof text === "string");
}

/** @param {Client} client @param {string} session */
function hasSession({ sessions }, session) {
  return sessions.some(({ id }) => id === session);
}
