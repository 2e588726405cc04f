/**
 * Conversion of a CallToolResult to the text that WebMCP's `execute` returns.
 *
 * bridge/links/remote_content.py converts in the same way; both are tested with tests/data/content_to_text.json.
 */

/** Convert the content blocks, joined by line feeds, or `structuredContent` if there is no block.
 * @param {{ content?: unknown, structuredContent?: unknown }} result @returns {string} */
export function toText({ content, structuredContent }) {
  if (Array.isArray(content) && content.length) return content.map(blockToText).join("\n");
  return structuredContent === undefined ? "" : JSON.stringify(structuredContent);
}

/** Convert a block; one of an unknown type or shape becomes compact JSON. @param {any} block @returns {string} */
function blockToText(block) {
  const { type, text, data, mimeType, uri, resource } = block ?? {};
  let converted;
  if (type === "text") converted = text;
  if (type === "image" || type === "audio") converted = makeDataUrl(mimeType, data);
  if (type === "resource_link") converted = uri;
  if (type === "resource") converted = resource?.text ?? makeDataUrl(resource?.mimeType, resource?.blob);
  return typeof converted === "string" ? converted : JSON.stringify(block);
}

/** @param {unknown} mimeType @param {unknown} base64 */
function makeDataUrl(mimeType, base64) {
  if (typeof base64 !== "string") return undefined;
  return `data:${typeof mimeType === "string" ? mimeType : "application/octet-stream"};base64,${base64}`;
}
