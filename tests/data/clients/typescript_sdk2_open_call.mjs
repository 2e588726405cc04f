// MCP client for `make clients` on the TypeScript SDK 2.x: cancels a call, and goes with another one open.
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
const [[firstName, firstArguments], [slowName, slowArguments]] = JSON.parse(process.env.CALLS);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const client = new Client({ name: "typescript-sdk-2", version: "1" });
const errors = [];
client.onerror = (error) => errors.push(String(error));
await client.connect(transports[kind]());
await client.callTool({ name: firstName, arguments: firstArguments });
const slow = { name: slowName, arguments: slowArguments };
const abort = new AbortController();
const cancelled = client.callTool(slow, { signal: abort.signal }).catch(() => {});
await sleep(500);
abort.abort();
await cancelled;
await sleep(1000); // an answer would arrive now
await client.listTools();
const seen = [...errors]; // the transports report their own end as well
void client.callTool(slow).catch(() => {});
await sleep(500);
await client.close();
await sleep(1000);
const late = errors.filter((error) => error.includes("unknown message ID"));
console.log(JSON.stringify({ errors: [...seen, ...late] }));
process.exit(0);
