/** Validation of what a content script sends: a frame's four lists and labels. */

import { decodable, TooDeepError } from "./json_safety.js";
import { MAX_DEPTH } from "./wire.js";

/** @import { Lists, Tool, Via } from "./wire.js" */

/** Around an entry: the message, its params, the list. */
const ENTRY_DEPTH = MAX_DEPTH - 3;
/** Around a label: the message, its params. */
const LABEL_DEPTH = MAX_DEPTH - 2;

/** The member that names an entry, and what a user calls such entries. */
const LISTS = Object.freeze({
  tools: { key: "name", words: "tools" },
  prompts: { key: "name", words: "prompts" },
  resourceTemplates: { key: "uriTemplate", words: "resource templates" },
  resources: { key: "uri", words: "resources" },
});

/**
 * Leave out what cannot be offered, and say so: entries without a name, second ones of a name, what is nested too
 * deeply, and what exceeds `FRAME_OFFER_BYTES`. Entries that stay are not touched.
 *
 * @param {Record<string, unknown>} given the lists, by kind
 * @param {Record<string, unknown>} via by tool name
 * @param {unknown} leftOut how many the content script has left out already, for their size, by kind
 * @returns {{ lists: Lists, room: number, via: Map<string, Via>, notice: string }} `room`: bytes that the lists take
 */
export function fitOffer(given, via, leftOut) {
  const readableOnes = Object.fromEntries(
    Object.entries(LISTS).map(([kind, { key }]) => [kind, readableEntries(given[kind], key)]),
  );
  const { lists, room } = PageBounds.fitOffer(readableOnes);
  const omitted = PageBounds.KINDS.map((kind) => {
    const total = lengthOf(given[kind]) + numberIn(leftOut, kind);
    return { kind, total, left: total - (lists[kind]?.length ?? 0) };
  });
  return { lists, room, via: viaOf(lists.tools, via), notice: noticeFor(omitted) };
}

/**
 * @param {unknown} given
 * @param {string} key the member that names an entry
 */
function readableEntries(given, key) {
  /** @type {Map<unknown, object>} */
  const named = new Map();
  for (const entry of Array.isArray(given) ? given : []) {
    const name = nameIn(entry, key);
    const found = name === "" || named.has(name) ? undefined : readable(entry, ENTRY_DEPTH);
    if (found) named.set(name, found);
  }
  return [...named.values()];
}

/** @param {unknown} list */
function lengthOf(list) {
  return Array.isArray(list) ? list.length : 0;
}

/** @param {unknown} counts @param {string} kind */
function numberIn(counts, kind) {
  const count = typeof counts === "object" && counts !== null ? /** @type {any} */ (counts)[kind] : 0;
  return Number.isSafeInteger(count) ? Number(count) : 0;
}

/** serverInfo or capabilities; undefined where it is too long or nested too deeply. @param {unknown} given */
export function fitLabel(given) {
  const label = PageBounds.label(given);
  return label && readable(label, LABEL_DEPTH);
}

/** @param {unknown} entry @param {string} key @returns {string} empty: it has no name */
function nameIn(entry, key) {
  if (typeof entry !== "object" || entry === null) return "";
  const name = /** @type {Record<string, unknown>} */ (entry)[key];
  return typeof name === "string" ? name : "";
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

/** @param {{ kind: keyof typeof LISTS, total: number, left: number }[]} omitted */
function noticeFor(omitted) {
  const parts = omitted.filter(({ left }) => left > 0);
  if (parts.length === 0) return "";
  const counts = parts.map(({ kind, total, left }) => `${left} of this page's ${total} ${LISTS[kind].words}`);
  const isOne = parts.length === 1 && parts[0]?.left === 1;
  return (
    `${counts.join(", ")} ${isOne ? "is" : "are"} left out: a page's lists may hold ` +
    `${PageBounds.FRAME_OFFER_BYTES / 1024} KiB together, of which each entry takes at least ` +
    `${PageBounds.ENTRY_BYTES / 1024} KiB, and each entry needs a name of its own and a readable description.`
  );
}
