/**
 * Headers of requests: those of the page's owner, whose values no error has, and those of MCP 2026-07-28.
 * @typedef {{ headers?: Record<string, string>,
 *   getHeaders?: () => Promise<Record<string, string>> | Record<string, string> }} HeaderOptions
 * @typedef {{ path: string[], header: string }[]} ParameterHeaders
 */

/** Values of headers, which a server may quote. @type {Set<string>} */
const sent = new Set();

/** Return a server's text without values of headers. @param {string} text */
export const mask = (text) => [...sent].reduce((masked, value) => masked.replaceAll(value, "•••"), text);

/** Read the headers of one request; `getHeaders` overrides `headers`. @param {HeaderOptions} options */
export async function readHeaders({ headers, getHeaders }) {
  try {
    const latest = new Headers(await getHeaders?.());
    const merged = new Headers(headers);
    latest.forEach((value, name) => merged.set(name, value));
    if (sent.size > 99) sent.clear(); // tokens that are replaced again and again
    for (const value of merged.values()) [value, ...value.split(" ")].forEach((part) => part.length > 7 && sent.add(part));
    return merged;
  } catch {
    throw new Error("headers or getHeaders() failed, or contain a name or value that HTTP does not allow.");
  }
}

/** Make the headers that repeat parts of a request of MCP 2026-07-28.
 * @param {string} method @param {Record<string, any>} params @param {ParameterHeaders} repeated */
export function repeatInHeaders(method, params, repeated) {
  /** @type {Record<string, string>} */
  const headers = { "Mcp-Method": method, ...(method === "tools/call" && { "Mcp-Name": encodeValue(params["name"]) }) };
  for (const { path, header } of repeated) {
    const value = path.reduce((parent, name) => parent?.[name], params["arguments"]);
    if (["string", "number", "boolean"].includes(typeof value)) headers[`Mcp-Param-${header}`] = encodeValue(`${value}`);
  }
  return headers;
}

/** Find the arguments that are repeated in headers: `x-mcp-header` in a tool's schema.
 * @param {any} schema @param {string[]} path @returns {ParameterHeaders}
 * @throws {Error} such a member is invalid, and MCP 2026-07-28 forbids to use the tool */
export function findParameterHeaders(schema, path = []) {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, property]) => {
    const header = property?.["x-mcp-header"];
    const below = findParameterHeaders(property, [...path, name]);
    if (header === undefined) return below;
    const isValid = /^[\w!#$%&'*+.^`|~-]+$/.test(header) && ["string", "integer", "boolean"].includes(property.type);
    if (isValid) return [{ path: [...path, name], header }, ...below];
    throw new Error(`its argument ${name} has an invalid x-mcp-header`);
  });
}

/** Encode a text that a header could not carry unchanged. @param {string} value */
function encodeValue(value) {
  if (/^[ -~]*$/.test(value) && value === value.trim() && !/^=\?base64\?.*\?=$/.test(value)) return value;
  return `=?base64?${btoa(Array.from(new TextEncoder().encode(value), (byte) => String.fromCharCode(byte)).join(""))}?=`;
}
