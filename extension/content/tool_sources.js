/**
 * What this document offers. All its tools, from its three sources, each name once: described and run by the page's
 * MCP-B server where it has the name, else by the browser (exceptions: `#findServer`). A polyfill is looked at only
 * where there is nothing else. Tools that clients offer to it are not its own. Its prompts, resource templates and
 * resources, which page servers alone have.
 *
 * @typedef {import("../worker/wire.js").Tool} Tool
 * @typedef {{ tools: Tool[], prompts?: object[], resourceTemplates?: object[], resources?: object[],
 *   via: Record<string, import("../worker/wire.js").Via>, leftOut: Record<ListKind, number>, serverInfo?: object,
 *   capabilities?: object }} Offer within the bounds of content/bounds.js; `leftOut`: how many entries are not in it
 * @typedef {{ method: "resources/read" | "prompts/get" | "completion/complete", params: any }} ServerRequest
 */

const TAB_CHANNEL = "mcp-default";
/**
 * @typedef {Pick<TransportEvents, "onUpdated" | "onNotification" | "onQuestion"> & {
 *   onStopped: (server: TabTransport) => void }} Said what passes through; `onStopped`: none of this server's resources
 *   is watched any more
 */
/** Between two readings, when a page changes its tools in quick succession. */
const READING_PAUSE_MS = 100;

class ToolSources {
  /** @type {Map<string, Tool>} */
  #listedNatively = new Map();

  /**
   * @param {{ onOffer: (offer: Offer) => void } & Said} events
   * @param {IframeCarrier} iframe to a server that answers the parent window alone
   * @param {(message: import("../worker/document.js").FrameMessage) => boolean} send to the worker; false: it is gone
   * @param {AbortSignal} closed hear nothing more
   */
  constructor({ onOffer, ...said }, iframe, send, closed) {
    this.onOffer = onOffer;
    this.closed = closed;
    this.onNative = oneAtATime(() => this.#readAndOffer());
    this.native = new NativeTools(this.onNative, closed);
    this.offered = new OfferedTools(this.native.context, {
      send,
      isOfServer: (name) => this.servers.some((server) => server.entry("tools", name)),
      onRejected: this.onNative,
    });
    this.tabServer = this.#transport(new WindowCarrier(TAB_CHANNEL), said);
    this.servers = [this.tabServer, this.#transport(iframe, said)];
    this.polyfill = this.native.context ? null : this.#transport(new PolyfillCarrier(), said);
  }

  /** Read what is there; what comes later ends in `onOffer` as well. */
  start() {
    this.onNative();
  }

  /** Look for servers that were there before us. */
  check() {
    for (const server of this.servers) server.check();
  }

  /** The page has called `document.open()`: its servers hear nothing any more. */
  reopened() {
    for (const server of this.servers) server.stopped();
  }

  /**
   * Run a tool where it is to be run.
   *
   * @param {string} name
   * @param {object} args
   * @param {{ signal: AbortSignal, onSubmit: () => void, onProgress?: (progress: McpProgress) => void }} asked
   *   `onSubmit`: the tool is a form, and the page is about to receive it
   * @returns {Promise<unknown>} a CallToolResult
   * @throws {Error} the tool's or the page's
   */
  async call(name, args, { signal, onSubmit, onProgress }) {
    if (this.offered.hides(name, this.offered.time)) throw new NotOfferedError(`${name} is not a tool of the page.`);
    const server = this.#findServer(name);
    if (server) {
      const execute = async () => resultOfMcp(await server.call(name, args, { signal, ...(onProgress && { onProgress }) }));
      return this.native.context ? execute() : this.native.forms.callPolyfilled(name, execute);
    }
    if (this.#listedNatively.has(name)) return this.native.call(name, args, { signal, onSubmit });
    const { polyfill } = this;
    if (polyfill?.entry("tools", name)) {
      const execute = async () => answered(await polyfill.call(name, args, { signal }));
      return this.native.forms.callPolyfilled(name, execute);
    }
    throw new NotOfferedError(`The page does not offer ${name} any more.`);
  }

  /**
   * Send a request about a resource or a prompt to the server that has it.
   *
   * @param {ServerRequest} request
   * @param {Asking} asking
   * @returns {Promise<any>} the server's result
   * @throws {Error} as `TabTransport.ask`; NotOfferedError: no server here has such things
   */
  ask({ method, params }, asking) {
    return this.#serverOf(method, params).ask(method, params, asking);
  }

  /** @param {string} uri @returns {TabTransport} what reports its changes; raises as `ask` */
  serverOfResource(uri) {
    return this.#serverOf("resources/read", { uri });
  }

  /**
   * @param {ServerRequest["method"]} method
   * @param {any} params
   * @returns {TabTransport} the one that lists it; else one that may have it unlisted
   */
  #serverOf(method, params) {
    const [capability, kind, key] = subjectOf(method, params);
    const able = this.servers.filter((server) => server.declares(capability));
    const server = able.find((each) => each.entry(kind, key)) ?? able[0];
    if (server) return server;
    throw new NotOfferedError(`The page has no MCP server that declares ${capability}.`);
  }

  /**
   * The page server that runs a tool. Of those that the browser lists too it runs all that it can: it passes on what
   * the page throws and structured results, and the browser does not. Forms need the browser, and no message to a
   * server in an iframe is hidden from the parent's page. A server may also relay a tool that the page has registered
   * with the browser, with the arguments as JSON, which not every browser takes.
   *
   * @param {string} name
   * @returns {TabTransport | undefined}
   */
  #findServer(name) {
    const server = this.offered.knows(name) ? undefined : this.servers.find((each) => each.entry("tools", name));
    if (!server || !this.#listedNatively.has(name)) return server;
    if (server !== this.tabServer || !server.connected || this.native.isForm(name)) return undefined;
    return this.native.speaksJson || isRegisteredWithServer(server.entry("tools", name)) ? server : undefined;
  }

  /**
   * @param {Carrier} carrier
   * @param {Said} said by a server of its own accord
   * @returns {TabTransport}
   */
  #transport(carrier, said) {
    let isNew = false;
    const readTools = oneAtATime(async () => {
      const readsOthers = isNew;
      isNew = false;
      await transport.list("tools");
      await this.#readAndOffer();
      if (readsOthers) for (const kind of OTHER_KINDS) onChange(kind);
    });
    /** @type {Map<ListKind, () => void>} */
    const readings = new Map([["tools", readTools]]);
    for (const kind of OTHER_KINDS) {
      const read = oneAtATime(async () => (await transport.list(kind), this.#offer()));
      readings.set(kind, read);
    }
    const onChange = (/** @type {ListKind} */ kind) => readings.get(kind)?.();
    const onReady = () => {
      isNew = true;
      readTools();
    };
    const onLate = () => void this.#readAndOffer();
    const onStopped = () => said.onStopped(transport);
    const transport = new TabTransport(carrier, { ...said, onReady, onChange, onLate, onStopped }, this.closed);
    return transport;
  }

  /** The browser's list is read anew each time: it decides who runs what the others describe. */
  async #readAndOffer() {
    const { time } = this.offered;
    const tools = (await this.native.list()).filter(({ name }) => !this.offered.hides(name, time));
    this.#listedNatively = new Map(tools.map((tool) => [tool.name, tool]));
    this.#offer();
  }

  /** @param {string} name @returns {import("../worker/wire.js").Via} */
  #via(name) {
    if (this.#findServer(name)) return "mcp-b";
    return this.#listedNatively.has(name) ? "webmcp" : "polyfill";
  }

  /** Report the tools of all sources, each name once, and what else the page servers have. */
  #offer() {
    const server = this.servers.find(({ connected }) => connected);
    const polyfilled = server ? [] : (this.polyfill?.entries("tools") ?? []);
    const listed = {
      tools: firstOfEach("name", [
        ...this.servers.map((each) => each.entries("tools").filter(({ name }) => !this.offered.knows(name))),
        [...this.#listedNatively.values()],
        polyfilled,
      ]),
      ...Object.fromEntries(LIST_REQUESTS.slice(1).map(({ kind, key }) => [kind, this.#ofServers(kind, key)])),
    };
    const { lists, leftOut } = PageBounds.fitOffer(listed);
    const [serverInfo, capabilities] = [PageBounds.label(server?.serverInfo), PageBounds.label(server?.capabilities)];
    this.onOffer({
      ...lists,
      via: Object.fromEntries(lists.tools.map(({ name }) => [name, this.#via(name)])),
      leftOut,
      ...(serverInfo && { serverInfo }),
      ...(capabilities && { capabilities }),
    });
  }

  /** @param {ListKind} kind @param {string} key */
  #ofServers(kind, key) {
    const lists = this.servers.map((each) => each.entries(kind));
    return firstOfEach(key, lists);
  }
}

/**
 * Merge lists; the first to define a key keeps it.
 *
 * @param {string} key a member
 * @param {any[][]} lists
 * @returns {any[]}
 */
function firstOfEach(key, lists) {
  const found = new Map();
  for (const entry of lists.flat()) if (!found.has(entry[key])) found.set(entry[key], entry);
  return [...found.values()];
}

/**
 * What a request is about: the capability that a server needs for it, the list that names it, and its name there.
 *
 * @param {ServerRequest["method"]} method
 * @param {any} params
 * @returns {[string, ListKind, string]}
 */
function subjectOf(method, params) {
  if (method === "resources/read") return ["resources", "resources", params?.uri];
  if (method === "prompts/get") return ["prompts", "prompts", params?.name];
  const { uri, name } = params?.ref ?? {};
  return uri === undefined ? ["completions", "prompts", name] : ["completions", "resourceTemplates", uri];
}

/**
 * Whether a tool that the browser lists too is registered with the page's server, which relays it to no browser. The
 * browser tells a server that relays its tools of no outputSchema, and of a title for each, be it empty.
 *
 * @param {Tool | undefined} tool as the server describes it
 */
function isRegisteredWithServer(tool) {
  return tool?.outputSchema !== undefined || tool?.title === undefined;
}

/**
 * Something that is done at once when it is asked for, and once more after a pause if it was asked for meanwhile.
 *
 * @param {() => Promise<void>} act
 * @param {number} pauseMs
 * @returns {() => void}
 */
function oneAtATime(act, pauseMs = READING_PAUSE_MS) {
  let running = false;
  let stale = false;
  return async () => {
    stale = true;
    if (running) return;
    running = true;
    while (stale) {
      stale = false;
      await act().catch((error) => console.debug("mcpb:", error));
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    running = false;
  };
}
