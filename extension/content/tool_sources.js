/**
 * All tools of this document, from its three sources, each name once: described by the page's MCP-B server where it
 * has the name, run natively whenever the browser lists it, else by the server. A polyfill is looked at only where
 * there is nothing else.
 *
 * @typedef {import("../worker/wire.js").Tool} Tool
 * @typedef {{ tools: Tool[], via: Record<string, import("../worker/wire.js").Via>, leftOut: number, serverInfo?: object,
 *   capabilities?: object }} Offer within the bounds of content/bounds.js; `leftOut`: how many tools are not in it
 */

const TAB_CHANNEL = "mcp-default";
/** Between two readings, when a page changes its tools in quick succession. */
const READING_PAUSE_MS = 100;

class ToolSources {
  /** @type {Tool[]} */
  #listedNatively = [];

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
    this.servers = [new WindowCarrier(TAB_CHANNEL), iframe].map((carrier) => this.#transport(carrier, said));
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
    if (has(this.#listedNatively, name)) return this.native.call(name, args, { signal, onSubmit });
    const server = this.servers.find(({ tools }) => has(tools, name));
    if (server) return resultOfMcp(await server.call(name, args, { signal, ...(onProgress && { onProgress }) }));
    if (this.polyfill && has(this.polyfill.tools, name))
      return answered(await this.polyfill.call(name, args, { signal }));
    throw new NotOfferedError(`The page does not offer ${name} any more.`);
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
    this.#listedNatively = await this.native.list();
    this.#offer();
  }

  #offer() {
    const server = this.servers.find(({ connected }) => connected);
    const polyfilled = server ? [] : (this.polyfill?.tools ?? []);
    /** @type {Map<string, Tool>} */
    const tools = new Map();
    /** @type {Map<string, import("../worker/wire.js").Via>} */
    const via = new Map();
    for (const [source, found] of /** @type {const} */ ([
      ["mcp-b", this.servers.flatMap(({ tools }) => tools)],
      ["webmcp", this.#listedNatively],
      ["polyfill", polyfilled],
    ])) {
      for (const tool of found) {
        if (!tools.has(tool.name)) tools.set(tool.name, tool);
        if (!via.has(tool.name) || source === "webmcp") via.set(tool.name, source);
      }
    }
    const { tools: fitting } = PageBounds.fitting([...tools.values()]);
    const names = new Set(fitting.map(({ name }) => name));
    const [serverInfo, capabilities] = [PageBounds.label(server?.serverInfo), PageBounds.label(server?.capabilities)];
    this.onOffer({
      tools: fitting,
      via: Object.fromEntries([...via].filter(([name]) => names.has(name))),
      leftOut: tools.size - fitting.length,
      ...(serverInfo && { serverInfo }),
      ...(capabilities && { capabilities }),
    });
  }
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

/** @param {Tool[]} tools @param {string} name */
function has(tools, name) {
  return tools.some((tool) => tool.name === name);
}
