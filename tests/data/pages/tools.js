// The tools that every test page offers, whatever it offers them through. `run(args, {signal, progress})` returns a
// CallToolResult or throws. The page says how to `offer` a tool and how to take it back.
const text = (words) => ({ content: [{ type: "text", text: words }] });
const object = (properties = {}, required = []) => ({ type: "object", properties, required });

window.cancelled = 0; // calls of `slow` that were given up
window.runs = 0; // calls of any tool that began
window.finishSlow = () => {}; // lets the newest call of `slow` end

const tools = {
  echo: {
    description: "Says the text again",
    inputSchema: object({ text: { type: "string" } }, ["text"]),
    annotations: { readOnlyHint: true },
    run: ({ text: words }) => text(`echo: ${words}`),
  },
  boom: {
    description: "Throws",
    inputSchema: object(),
    run: () => {
      throw new Error("boom from the page");
    },
  },
  slow: {
    description: "Ends only when it is cancelled or told to",
    inputSchema: object(),
    run: (_, { signal, progress = () => {} }) =>
      new Promise((resolve, reject) => {
        window.finishSlow = () => resolve(text("slow: done"));
        signal?.addEventListener("abort", () => {
          window.cancelled += 1;
          reject(new Error("cancelled"));
        });
        progress({ progress: 1, total: 2, message: "half way" });
      }),
  },
  big: {
    description: "Answers with n bytes",
    inputSchema: object({ n: { type: "integer" } }, ["n"]),
    run: ({ n }) => text("x".repeat(n)),
  },
  size: {
    description: "Says how long the text is that it was given",
    inputSchema: object({ text: { type: "string" } }, ["text"]),
    run: ({ text: words }) => text(String(words.length)),
  },
  whoami: {
    description: "Says where it runs",
    inputSchema: object(),
    run: () => text(JSON.stringify({ path: location.pathname + location.search, top: window === window.parent })),
  },
};

/** A tool made up on the spot, for pages that gain and lose tools. */
const extraTool = (name) => ({
  description: `Extra tool ${name}`,
  inputSchema: object(),
  run: () => text(`extra: ${name}`),
});

function runTool(tool, args, context) {
  window.runs += 1;
  return tool.run(args, context);
}
