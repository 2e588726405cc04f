/** Conversion of what a tool returned to a CallToolResult. */

/** @param {unknown} value */
function isCallToolResult(value) {
  if (typeof value !== "object" || value === null) return false;
  const { content } = /** @type {{ content?: unknown }} */ (value);
  return Array.isArray(content) && content.every((block) => typeof block?.type === "string");
}

/**
 * A page server's answer: passed on as it is, or wrapped in text where it is no CallToolResult.
 *
 * @param {unknown} value
 */
function resultOfMcp(value) {
  return isCallToolResult(value)
    ? value
    : textResult(typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined"));
}

/**
 * The answer of `modelContext.executeTool`: always a text, which may hold a CallToolResult.
 *
 * @param {unknown} value
 */
function resultOfWebMcp(value) {
  if (typeof value !== "string") return resultOfMcp(value);
  const parsed = parsedOrNull(value);
  return isCallToolResult(parsed) ? parsed : textResult(value);
}

/** @param {string} json */
function parsedOrNull(json) {
  if (!json.startsWith("{")) return null;
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

/** @param {string} text */
function textResult(text) {
  return { content: [{ type: "text", text }] };
}
