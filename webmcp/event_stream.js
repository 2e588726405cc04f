/**
 * JSON-RPC messages in the body of a response: JSON, or server-sent events, with a limit for one message.
 *
 * Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
 * @typedef {{ id?: unknown, method?: unknown, params?: Record<string, unknown>, result?: unknown, error?: any }} Message
 */

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Return whether the body is an event stream. @param {Response} response */
export function isEventStream(response) {
  return /^text\/event-stream\b/i.test(response.headers.get("Content-Type") ?? "");
}

/** Yield what each event has, or the whole body of another type; `eventId` is for resumption. @param {Response} response */
export async function* readMessages(response) {
  let event = { data: "", eventId: "", retryMs: 0 };
  for await (const line of isEventStream(response) ? readLines(response) : []) {
    const [, field, value = ""] = /^([^:]*)(?:: ?([^]*))?$/.exec(line) ?? [];
    if (line === "") {
      yield { ...event, messages: parseMessages(event.data) };
      event = { data: "", eventId: "", retryMs: 0 };
    } else if (field === "data") event.data = limit(event.data + (event.data && "\n") + value);
    else if (field === "id") event.eventId = value;
    else if (field === "retry") event.retryMs = parseInt(value, 10) || 0;
  }
  let text = "";
  for await (const piece of isEventStream(response) ? [] : readPieces(response)) text = limit(text + piece);
  if (text) yield { eventId: "", retryMs: 0, messages: parseMessages(text) };
}

/** @param {string} json a message or a batch; empty in an event that has only an id @returns {Message[]} */
function parseMessages(json) {
  try {
    return [json && JSON.parse(json)].flat().filter((message) => message && typeof message === "object");
  } catch {
    throw new Error("The server sent a message that is not JSON.");
  }
}

/** Yield lines without their ends. Each piece is searched once, however long a line is. @param {Response} response */
async function* readLines(response) {
  let line = "";
  for await (const piece of readPieces(response)) {
    const [first = "", ...others] = piece.split("\n");
    line = limit(line + first);
    for (const next of others) {
      yield line.replace(/\r$/, "");
      line = next;
    }
  }
}

/** Yield the text of a body; to leave the loop ends the response soon. @param {Response} response */
async function* readPieces(response) {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  try {
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
      yield decoder.decode(read.value, { stream: true });
    }
  } finally {
    // At once, this would close a connection that can be used again when the server ends its response.
    setTimeout(() => reader?.cancel().catch(() => {}), 100);
  }
}

/** @param {string} text each character is at least one byte */
function limit(text) {
  if (text.length > MAX_MESSAGE_BYTES) throw new Error(`The server sent a message of over ${MAX_MESSAGE_BYTES} bytes.`);
  return text;
}
