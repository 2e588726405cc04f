// Resources of a page: texts, a picture, several contents, a template, and subscriptions. `window.requests` has what the
// server was asked about resources, in order. `?parent`: over the iframe transport; `?subscribe=no`: nothing is declared.
const query = new URLSearchParams(location.search);
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
window.requests = [];
let apples = Number(query.get("apples") ?? 2);

const contents = new Map([
  ["cart://1", () => [{ uri: "cart://1", mimeType: "application/json", text: JSON.stringify({ apples }) }]],
  ["photo://1", () => [{ uri: "photo://1", mimeType: "image/png", blob: PNG }]],
  [
    "cart://all",
    () => [
      { uri: "cart://1", text: "one" },
      { uri: "photo://1", mimeType: "image/png", blob: PNG },
    ],
  ],
]);
const listed = [
  { uri: "cart://1", name: "Cart", title: "Your cart", description: "All in it", mimeType: "application/json" },
  { uri: "photo://1", name: "Photo", mimeType: "image/png", size: 70 },
  { uri: "cart://all", name: "Everything" },
];
const unknown = (uri) => ({ error: { code: -32002, message: `Resource not found: ${uri}`, data: { uri } } });

const offered = new Map(query.has("no-tools") ? [] : [["echo", tools.echo]]);
window.startAgain = () => (window.server = startServer(offered, {
  parent: query.has("parent"),
  capabilities: { resources: { listChanged: true, subscribe: query.get("subscribe") !== "no" } },
  more: {
    // Two pages: the second has the last entry.
    "resources/list": ({ cursor }) =>
      cursor ? { result: { resources: listed.slice(2) } } : { result: { resources: listed.slice(0, 2), nextCursor: "2" } },
    "resources/templates/list": () => ({
      result: { resourceTemplates: [{ uriTemplate: "order://{id}", name: "Order", mimeType: "text/plain" }] },
    }),
    "resources/read": async ({ uri }) => {
      requests.push(`read ${uri}`);
      if (uri === "cart://never") return new Promise(() => {});
      if (uri.startsWith("order://")) return { result: { contents: [{ uri, text: `order ${uri.slice(8)}` }] } };
      return contents.has(uri) ? { result: { contents: contents.get(uri)() } } : unknown(uri);
    },
    "resources/subscribe": ({ uri }) => {
      requests.push(`subscribe ${uri}`);
      return contents.has(uri) ? { result: {} } : unknown(uri);
    },
    "resources/unsubscribe": ({ uri }) => (requests.push(`unsubscribe ${uri}`), { result: {} }),
  },
}));
startAgain();
window.addApple = (uri = "cart://1") => (apples++, server.notify("notifications/resources/updated", { uri }));
window.addResource = (uri) => {
  contents.set(uri, () => [{ uri, text: uri }]);
  listed.push({ uri, name: uri });
  server.notify("notifications/resources/list_changed");
};
// Tests do not reach into an iframe of another origin: they post what it is to run.
addEventListener("message", ({ data }) => data?.run && (0, eval)(data.run));
