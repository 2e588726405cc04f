// MCP client for `make clients`: the calls of CALLS, made by the TypeScript SDK 2.x; prints tools and results as JSON.
//
//     node program.mjs stdio COMMAND… | http URL | sse URL
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [kind, ...server] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${process.env.ACCESS_TOKEN}` } };
const transports = {
  stdio: () => new StdioClientTransport({ command: server[0], args: server.slice(1), env: process.env }),
  http: () => new StreamableHTTPClientTransport(new URL(server[0]), { requestInit }),
  sse: () => new SSEClientTransport(new URL(server[0]), { requestInit }),
};
const client = new Client({ name: "typescript-sdk-2", version: "1" });
const errors = [];
client.onerror = (error) => errors.push(String(error));
await client.connect(transports[kind]());
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(process.env.CALLS)) {
  results.push((await client.callTool({ name, arguments: args })).content);
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), results, errors }));
