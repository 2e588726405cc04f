/** Tools of a `browser/offerTools`: those that the page gets, with the members that it gets, and those left out. */

import { invalid, object, optionalText, text } from "../params.js";

/**
 * @typedef {{ name: string, description: string, title?: string, inputSchema?: object, annotations?: object
 *   }} OfferedTool
 * @typedef {{ name: string, why: string }} LeftOutTool
 */

const TWICE = "The offer has this name twice.";
const TOO_MUCH =
  `An offer holds at most ${PageBounds.FRAME_OFFER_BYTES / 1024} KiB of tools, ` +
  `of which each takes at least ${PageBounds.ENTRY_BYTES / 1024} KiB.`;

/**
 * @param {unknown} given
 * @returns {{ tools: OfferedTool[], leftOut: LeftOutTool[] }}
 */
export function readTools(given) {
  if (!Array.isArray(given)) throw invalid("tools must be a list.");
  /** @type {Map<string, OfferedTool>} */
  const named = new Map();
  /** @type {LeftOutTool[]} */
  const leftOut = [];
  for (const each of given) {
    const tool = readTool(each);
    if (named.has(tool.name)) leftOut.push({ name: tool.name, why: TWICE });
    else named.set(tool.name, tool);
  }
  const tools = /** @type {OfferedTool[]} */ (PageBounds.fitOffer({ tools: [...named.values()] }).lists.tools);
  const fit = new Set(tools);
  for (const tool of named.values()) if (!fit.has(tool)) leftOut.push({ name: tool.name, why: TOO_MUCH });
  return { tools, leftOut };
}

/** @param {unknown} given @returns {OfferedTool} */
function readTool(given) {
  if (!PageBounds.isObject(given)) throw invalid("Each of tools must be an object.");
  const title = optionalText(given, "title");
  return {
    name: text(given, "name"),
    description: text(given, "description"),
    ...(title && { title }),
    ...(given.inputSchema !== undefined && { inputSchema: object(given, "inputSchema") }),
    ...(given.annotations !== undefined && { annotations: object(given, "annotations") }),
  };
}
