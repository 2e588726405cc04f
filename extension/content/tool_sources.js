/**
 * All tools of this document, from its three sources, each name once: described and run by the page's MCP-B server
 * where it has the name, else by the browser (exceptions: `#findServer`). A polyfill is looked at only where there is
 * nothing else.
 *
 * @typedef {import("../worker/wire.js").Tool} Tool
 * @typedef {{ tools: Tool[], via: Record<string, import("../worker/wire.js").Via>, leftOut: number, serverInfo?: object,
 *   capabilities?: object }} Offer within the bounds of content/bounds.js; `leftOut`: how many tools are not in it
 */

const TAB_CHANNEL = "mcp-default";
/** Between two readings, when a page changes its tools in quick succession. */
const READING_PAUSE_MS = 100;

class ToolSources {
  /** @type {Map<string, Tool>} */
  #listedNatively = new Map();

  /**
   * @param {{ onOffer: (offer: Offer) => void } & Pick<TransportEvents, "onNotification" | "onQuestion">} events
   * @param {IframeCarrier} iframe to a server that answers the parent window alone
   * @param {AbortSignal} closed hear nothing more
   */
  constructor({ onOffer, ...said }, iframe, closed) {
    this.onOffer = onOffer;
    this.closed = closed;
    this.onNative = oneAtATime(() => this.#readAndOffer());
    this.native = new NativeTools(this.onNative, closed);
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
    const server = this.#findServer(name);
    if (server) {
      const execute = async () => resultOfMcp(await server.call(name, args, { signal, ...(onProgress && { onProgress }) }));
      return this.native.context ? execute() : this.native.forms.callPolyfilled(name, execute);
    }
    if (this.#listedNatively.has(name)) return this.native.call(name, args, { signal, onSubmit });
    const { polyfill } = this;
    if (polyfill?.tool(name)) {
      const execute = async () => answered(await polyfill.call(name, args, { signal }));
      return this.native.forms.callPolyfilled(name, execute);
    }
    throw new NotOfferedError(`The page does not offer ${name} any more.`);
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
    const server = this.servers.find((each) => each.tool(name));
    if (!server || !this.#listedNatively.has(name)) return server;
    if (server !== this.tabServer || !server.connected || this.native.isForm(name)) return undefined;
    return this.native.speaksJson || isRegisteredWithServer(server.tool(name)) ? server : undefined;
  }

  /**
   * @param {Carrier} carrier
   * @param {Pick<TransportEvents, "onNotification" | "onQuestion">} said by a server of its own accord
   * @returns {TabTransport}
   */
  #transport(carrier, said) {
    const onLate = () => void this.#readAndOffer();
    const onChange = oneAtATime(async () => {
      await transport.list();
      await this.#readAndOffer();
    });
    const transport = new TabTransport(carrier, { onChange, onLate, ...said }, this.closed);
    return transport;
  }

  /** The browser's list is read anew each time: it decides who runs what the others describe. */
  async #readAndOffer() {
    this.#listedNatively = new Map((await this.native.list()).map((tool) => [tool.name, tool]));
    this.#offer();
  }

  /** @param {string} name @returns {import("../worker/wire.js").Via} */
  #via(name) {
    if (this.#findServer(name)) return "mcp-b";
    return this.#listedNatively.has(name) ? "webmcp" : "polyfill";
  }

  /** Report the tools of all sources, each name once. */
  #offer() {
    const server = this.servers.find(({ connected }) => connected);
    const polyfilled = server ? [] : (this.polyfill?.tools ?? []);
    /** @type {Map<string, Tool>} */
    const tools = new Map();
    for (const found of [...this.servers.map(({ tools }) => tools), [...this.#listedNatively.values()], polyfilled]) {
      for (const tool of found) if (!tools.has(tool.name)) tools.set(tool.name, tool);
    }
    const { tools: fitting } = PageBounds.fitting([...tools.values()]);
    const [serverInfo, capabilities] = [PageBounds.label(server?.serverInfo), PageBounds.label(server?.capabilities)];
    this.onOffer({
      tools: fitting,
      via: Object.fromEntries(fitting.map(({ name }) => [name, this.#via(name)])),
      leftOut: tools.size - fitting.length,
      ...(serverInfo && { serverInfo }),
      ...(capabilities && { capabilities }),
    });
  }
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
