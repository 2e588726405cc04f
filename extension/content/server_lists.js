/**
 * The four lists of the page servers on a channel: tools, prompts, resource templates and resources. Each is merged
 * from all servers there, and the first to define a key keeps it.
 *
 * @typedef {"tools" | "prompts" | "resourceTemplates" | "resources"} ListKind
 * @typedef {{ kind: ListKind, method: string, key: string, capability: "tools" | "prompts" | "resources",
 *   changed: string }} ListRequest `key`: the member that names an entry; `changed`: the notification of a change
 */

/** @type {readonly ListRequest[]} */
const LIST_REQUESTS = Object.freeze([
  {
    kind: "tools",
    method: "tools/list",
    key: "name",
    capability: "tools",
    changed: "notifications/tools/list_changed",
  },
  {
    kind: "prompts",
    method: "prompts/list",
    key: "name",
    capability: "prompts",
    changed: "notifications/prompts/list_changed",
  },
  {
    kind: "resourceTemplates",
    method: "resources/templates/list",
    key: "uriTemplate",
    capability: "resources",
    changed: "notifications/resources/list_changed",
  },
  {
    kind: "resources",
    method: "resources/list",
    key: "uri",
    capability: "resources",
    changed: "notifications/resources/list_changed",
  },
]);
/** @type {readonly ListKind[]} */
const OTHER_KINDS = Object.freeze(["prompts", "resourceTemplates", "resources"]);
/** Pages of one list that are followed. */
const LONGEST_LIST = 100;
/** How long another server on the channel may take to answer after one server has. */
const OTHERS_MS = 100;

class ServerList {
  /** Requests of the newest reading: answers to it may come from several servers. @type {Set<string>} */
  #reading = new Set();
  /** What the newest reading brings in. @type {Map<string, any>} */
  #incoming = new Map();
  /** Cursors of further pages: each server that has more has its own. @type {Set<string>} */
  #cursors = new Set();
  /** How many servers have answered the newest reading. */
  #answers = 0;
  /** @type {Map<string, any>} */
  #entries = new Map();

  /** @param {ListRequest} request */
  constructor(request) {
    this.request = request;
  }

  /** As read last. @returns {any[]} */
  get entries() {
    return [...this.#entries.values()];
  }

  /** @param {string} key @returns {any} the entry of this name or URI, as read last */
  entry(key) {
    return this.#entries.get(key);
  }

  /** Forget the entries: no server offers any. */
  clear() {
    this.#entries = new Map();
  }

  /**
   * Read the list of all servers anew.
   *
   * @param {number} servers on the channel
   * @param {(id: string, method: string, params: object) => Promise<any>} ask the servers; settles with the first answer
   */
  async read(servers, ask) {
    this.#incoming = new Map();
    this.#cursors = new Set();
    this.#answers = 0;
    this.#reading.clear();
    await this.#readPage(ask, {});
    if (this.#answers < servers) await new Promise((resolve) => setTimeout(resolve, OTHERS_MS));
    let pages = 1;
    for (const cursor of this.#cursors) {
      if (pages >= LONGEST_LIST) break;
      pages += 1;
      await this.#readPage(ask, { cursor }); // may add a cursor, which this loop visits too
    }
    this.#entries = this.#incoming; // late answers still go into it
  }

  /** @param {(id: string, method: string, params: object) => Promise<any>} ask @param {object} params */
  #readPage(ask, params) {
    const id = PageBounds.randomUuid();
    this.#reading.add(id);
    return ask(id, this.request.method, params);
  }

  /**
   * Take one server's answer to a request of the newest reading.
   *
   * @param {string} id of the request
   * @param {any} result undefined: it was an error
   * @returns {boolean} whether it was such an answer
   */
  take(id, result) {
    if (!this.#reading.has(id)) return false;
    this.#answers += 1;
    const { kind, key } = this.request;
    const entries = Array.isArray(result?.[kind]) ? result[kind] : [];
    for (const entry of entries.map(plain)) {
      const name = entry?.[key];
      if (typeof name === "string" && !this.#incoming.has(name)) this.#incoming.set(name, entry);
    }
    if (typeof result?.nextCursor === "string") this.#cursors.add(result.nextCursor);
    return true;
  }
}
