// Offers the tools through `document.modelContext`, be it the browser's or a polyfill's. Without one: no tools.
const registrations = {};
const context = document.modelContext;

window.removeTool = (name) => registrations[name]?.abort();
window.addTool = (name, tool = extraTool(name)) => {
  const { description, inputSchema, annotations } = tool;
  registrations[name] = new AbortController();
  const execute = (args, client) => runTool(tool, args, { signal: client?.signal });
  const definition = { name, description, inputSchema, execute, ...(annotations && { annotations }) };
  return context?.registerTool(definition, { signal: registrations[name].signal });
};
for (const [name, tool] of Object.entries(tools)) window.addTool(name, tool);
