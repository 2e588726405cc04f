// Relay on Node's ws: one extension, one client, request ids mapped, as short programs of others do.
// It prints its port. Arguments: the certificate and the key of a server with TLS.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { WebSocketServer } from "ws";

const [cert, key] = process.argv.slice(2);
const server = cert && key ? createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }) : createServer();
const sockets = new WebSocketServer({ server, maxPayload: 64 * 1024 * 1024 });
const connectionId = `conn-${randomUUID()}`;
const ends = new Map();
// Ids of the client, by those that the extension sees.
const waiting = new Map();

sockets.on("connection", (end, request) => {
  ends.set(request.url, end);
  end.on("message", request.url === "/mcp" ? forward : respond);
});

function forward(data) {
  const message = JSON.parse(data);
  const shared = `${connectionId}:${message.id}`;
  waiting.set(shared, message.id);
  message.id = shared;
  ends.get("/extension").send(JSON.stringify(message));
}

function respond(data) {
  const message = JSON.parse(data);
  const shared = message.id;
  message.id = waiting.get(shared);
  waiting.delete(shared);
  ends.get("/mcp").send(JSON.stringify(message));
}

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
