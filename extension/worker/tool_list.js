/** Validation of what a content script sends: a frame's tools and labels, and questions of a page. */

import { decodable, TooDeepError } from "./json_safety.js";
import { invalid } from "./params.js";
import { MAX_DEPTH } from "./wire.js";

/** @import { Tool, Via } from "./wire.js" */

/** Around a tool: the message, its params, the list. */
const TOOL_DEPTH = MAX_DEPTH - 3;
/** Around a label: the message, its params. */
const LABEL_DEPTH = MAX_DEPTH - 2;

/**
 * Leave out what cannot be offered, and say so: entries without a name, second ones of a name, what is nested too
 * deeply, and what exceeds `FRAME_TOOLS_BYTES`. Tools that stay are not touched.
 *
 * @param {unknown[]} given
 * @param {Record<string, unknown>} via by tool name
 * @param {unknown} leftOut how many the content script has left out already, for their size
 * @returns {{ tools: Tool[], room: number, via: Map<string, Via>, notice: string }} `room`: bytes that the tools take
 */
export function fitTools(given, via, leftOut = 0) {
  /** @type {Map<string, Tool>} */
  const named = new Map();
  for (const entry of given) {
    const tool = /** @type {Tool | undefined} */ (hasName(entry) ? readable(entry, TOOL_DEPTH) : undefined);
    if (tool && !named.has(tool.name)) named.set(tool.name, tool);
  }
  const { tools, room } = PageBounds.fitting([...named.values()]);
  const total = given.length + (Number.isSafeInteger(leftOut) ? Number(leftOut) : 0);
  return { tools, room, via: viaOf(tools, via), notice: noticeFor(total, tools.length) };
}

/** serverInfo or capabilities; undefined where it is too long or nested too deeply. @param {unknown} given */
export function fitLabel(given) {
  const label = PageBounds.label(given);
  return label && readable(label, LABEL_DEPTH);
}

/**
 * A page's question.
 *
 * @param {{ message: unknown, requestedSchema?: unknown }} asked
 * @throws {WireError} it cannot be asked; the text is for the page
 */
export function fitQuestion(asked) {
  const question = PageBounds.question(asked);
  const readableOne = question && /** @type {typeof question | undefined} */ (readable(question, LABEL_DEPTH));
  if (readableOne) return readableOne;
  throw invalid(PageBounds.QUESTION_RULE);
}

/** @param {unknown} entry @returns {entry is { name: string }} */
function hasName(entry) {
  if (typeof entry !== "object" || entry === null) return false;
  const { name } = /** @type {{ name?: unknown }} */ (entry);
  return typeof name === "string" && name !== "";
}

/**
 * @param {object} value
 * @param {number} levels
 * @returns {object | undefined}
 */
function readable(value, levels) {
  try {
    return decodable(value, levels);
  } catch (error) {
    if (error instanceof TooDeepError) return undefined;
    throw error;
  }
}

/**
 * @param {Tool[]} tools
 * @param {Record<string, unknown>} via
 * @returns {Map<string, Via>}
 */
function viaOf(tools, via) {
  /** @type {Map<string, Via>} */
  const known = new Map();
  for (const { name } of tools) {
    const source = Object.hasOwn(via, name) ? via[name] : undefined;
    if (source === "webmcp" || source === "mcp-b" || source === "polyfill") known.set(name, source);
  }
  return known;
}

/**
 * @param {number} given
 * @param {number} kept
 */
function noticeFor(given, kept) {
  if (given === kept) return "";
  const left = given - kept;
  return (
    `${left} of this page's ${given} tools ${left === 1 ? "is" : "are"} left out: a page's list may hold ` +
    `${PageBounds.FRAME_TOOLS_BYTES / 1024} KiB, of which each tool takes at least ` +
    `${PageBounds.TOOL_BYTES / 1024} KiB, and each tool needs a name of its own and a readable description.`
  );
}
