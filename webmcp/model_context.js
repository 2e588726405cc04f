/**
 * The page's WebMCP context, and the registration of one tool there.
 *
 * Chromium 156 has `document.modelContext` only, and Chromium 150 has both. `registerTool` returns a promise in
 * Chromium 156 and in polyfills, and nothing in Chromium 150.
 * @typedef {{ name: string, title?: string, description: string, inputSchema: object, annotations: object }} Definition
 * @typedef {(args?: object, context?: { signal?: AbortSignal }) => Promise<string>} Execute
 * @typedef {{ definition: Definition, fingerprint: string, execute: Execute }} SelectedTool
 * @typedef {{ registerTool(tool: Definition & { execute: Execute }, options: { signal: AbortSignal }): unknown }} Context
 */

/** Find the context of this page. @returns {Context | null} null: this browser or page has no WebMCP */
export function findModelContext() {
  /** @type {any} */
  const { document, navigator } = globalThis;
  const context = document?.modelContext ?? navigator?.modelContext;
  return typeof context?.registerTool === "function" ? context : null;
}

/** Register a tool until the signal aborts.
 * @param {Context | null} context @param {Definition & { execute: Execute }} tool @param {AbortSignal} signal
 * @returns {Promise<string>} the browser's reason for rejecting it; empty if the tool is registered */
export async function registerTool(context, tool, signal) {
  try {
    await context?.registerTool(tool, { signal });
    return "";
  } catch (error) {
    return String(error);
  }
}
