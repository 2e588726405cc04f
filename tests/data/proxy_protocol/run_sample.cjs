// Runs one of the specification's two JavaScript samples, with what the samples themselves leave out.
// Prints every message that arrives.
const { readFileSync } = require("node:fs");
const { runInThisContext } = require("node:vm");

const [sample, address] = process.argv.slice(2);
const token = process.env.MCPB_TEST_TOKEN;

/** The built-in one at the proxy of the test. */
class SampleSocket extends WebSocket {
  constructor(url) {
    super(url.replace("wss://proxy.example.com", address));
    this.addEventListener("message", (event) => process.stdout.write(`received ${event.data}\n`));
    this.addEventListener("close", () => process.exit());
  }
}

/** Answers of the browser. */
const commands = {
  createTab: ({ url }) => ({ tabId: 42, url }),
  activateTab: () => undefined,
  closeTab: () => {
    throw new Error("No such tab");
  },
};

Object.assign(globalThis, {
  WebSocket: SampleSocket,
  token,
  getStoredToken: () => token,
  send: (message) => globalThis.ws.send(JSON.stringify({ jsonrpc: "2.0", ...message })),
  onMessage: (handle) => globalThis.ws.addEventListener("message", (event) => handle(JSON.parse(event.data))),
  handleCommand: async (method, params) => (commands[method] ?? (() => ({ method, params })))(params),
});
runInThisContext(readFileSync(sample, "utf8"), { filename: sample });
