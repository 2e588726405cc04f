// Prompts of a page: with arguments, with an embedded resource and a picture, in both roles, and completion of arguments
// and of a template's variable. `window.requests` has what the server was asked. `?parent`: over the iframe transport.
const query = new URLSearchParams(location.search);
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
window.requests = [];
const user = (content) => ({ role: "user", content });
const assistant = (content) => ({ role: "assistant", content });
const words = (text) => ({ type: "text", text });
const places = Array.from({ length: 150 }, (_, number) => `place ${number}`);

const prompts = new Map([
  [
    "check-out",
    {
      description: "Pays what is in the cart",
      arguments: [
        { name: "place", description: "Where it goes", required: true },
        { name: "note", description: "For the shop" },
      ],
      get: ({ place, note }) => ({
        description: "How to pay",
        messages: [
          user(words(`Send it to ${place}${note === undefined ? "" : ` with ${note}`}.`)),
          assistant(words("Which card?")),
          user({ type: "resource", resource: { uri: "cart://1", mimeType: "text/plain", text: "two apples" } }),
          user({ type: "image", data: PNG, mimeType: "image/png" }),
        ],
      }),
    },
  ],
  ["empty", { get: () => ({ messages: [] }) }],
  ["never", { get: () => new Promise(() => {}) }],
  ["rejects", { get: () => Promise.reject(new Error("out of paper")) }],
]);

const list = () => [...prompts].map(([name, { get, ...prompt }]) => ({ name, ...prompt }));
const get = async ({ name, arguments: given = {} }) => {
  requests.push(`get ${name} ${JSON.stringify(given)}`);
  if (!prompts.has(name)) return { error: { code: -32602, message: `Prompt ${name} not found` } };
  try {
    return { result: await prompts.get(name).get(given) };
  } catch (error) {
    return { error: { code: -32603, message: error.message } };
  }
};
const complete = ({ ref, argument, context }) => {
  requests.push(`complete ${ref.name ?? ref.uri} ${argument.name} ${JSON.stringify(context?.arguments ?? {})}`);
  const values = places.filter((place) => place.startsWith(argument.value));
  return { result: { completion: { values } } };
};

window.server = startServer(new Map([["echo", tools.echo]]), {
  parent: query.has("parent"),
  capabilities: { prompts: { listChanged: true }, resources: {}, ...(query.has("dumb") ? {} : { completions: {} }) },
  more: {
    "prompts/list": () => ({ result: { prompts: list() } }),
    "prompts/get": get,
    "completion/complete": complete,
    "resources/list": () => ({ result: { resources: [] } }),
    "resources/templates/list": () => ({ result: { resourceTemplates: [{ uriTemplate: "shop://{place}", name: "Shop" }] } }),
  },
});
window.addPrompt = (name) => {
  prompts.set(name, { get: () => ({ messages: [user(words(name))] }) });
  server.notify("notifications/prompts/list_changed");
};
