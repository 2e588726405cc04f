/**
 * Commands of clients at a WebSocket proxy, which need not be on this machine: whose session a request belongs to, which
 * tab it means, and what is left to clients of this machine. Rules: docs/PROXY_PROTOCOL.md.
 */

import { unlessPaused } from "./commands.js";
import { interaction } from "./interaction.js";
import { flag, integer, invalid, optionalText } from "./params.js";
import { mine } from "./tab_access.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Browser } from "./commands.js"
 * @import { Clients } from "./clients.js"
 * @import { CurrentTabs } from "./current_tabs.js"
 * @import { Link } from "./audience.js"
 * @import { Pauses } from "./pauses.js"
 * @import { Command, Way } from "./requests.js"
 * @import { Session } from "./wire.js"
 */

/** Methods that are not about a session's tabs: the session of their parameters is what it is. */
const WITHOUT_SESSION = new Set(["browser/approvals", "browser/ask", "browser/pause", "browser/siteRules"]);
/** Patterns of a client's site rules, each counted once. The browser takes at most 1000 such rules, of all clients. */
const MAX_PATTERNS = 1000;
/** Sites that are paused when a client may still pause another one. */
const MAX_PAUSED_SITES = 256;

/**
 * @param {Browser} browser
 * @param {Record<string, Command>} commands of clients of this machine, by method
 * @param {Clients} clients
 * @param {CurrentTabs} currentTabs
 * @returns {Way}
 */
export function proxiedCommands(browser, commands, clients, currentTabs) {
  const { setOwner: _, ...shared } = commands; // with it a client could take any tab
  const { createTab, activateTab, forwardCDPCommand } = shared;
  /** @type {Record<string, Command>} */
  const own = {
    selectTab: async (params, asked) => {
      const { tabId } = await mine(browser, { ...params, tabId: await chosenTab(browser, params) }, asked);
      currentTabs.set(asked.connection, tabId);
      if (flag(params, "activate")) return activateTab?.({ ...params, tabId }, asked) ?? {};
      return { tab: browser.tabs.get(tabId) };
    },
    createTab: async (params, asked) => {
      const created = /** @type {any} */ (await createTab?.(params, asked));
      currentTabs.set(asked.connection, created.tabId);
      return created;
    },
    ...(forwardCDPCommand && interaction(forwardCDPCommand)),
  };
  /** @type {Command} */
  const pause = (params, asked) => {
    if (!flag(params, "paused")) throw rejection(Code.NOT_ALLOWED, "Only the user resumes, in the popup.");
    const isFull = optionalText(params, "site") && browser.pauses.all.sites.length >= MAX_PAUSED_SITES;
    if (isFull) throw rejection(Code.RATE_LIMITED, `${MAX_PAUSED_SITES} sites are paused. The user pauses more.`);
    return commands["browser/pause"]?.(params, asked) ?? {};
  };
  return {
    commands: { ...shared, ...unlessPaused(browser.pauses, own), "browser/pause": pause },
    prepare: (link, connection, method, params) =>
      prepare({ clients, currentTabs, pauses: browser.pauses }, link, connection, method, params),
  };
}

/**
 * The parameters of a request with its session and tab.
 *
 * @param {{ clients: Clients, currentTabs: CurrentTabs, pauses: Pauses }} parts
 * @param {Link} link
 * @param {{ id: string, key: string }} connection
 * @param {string} method
 * @param {any} params
 * @returns {any}
 * @throws {WireError} the session is not the connection's, or there is no current tab
 */
function prepare({ clients, currentTabs, pauses }, link, { id, key }, method, params) {
  if (!id) throw rejection(Code.INVALID_REQUEST, "The proxy has not named the client's connection.");
  if (method === "browser/siteRules") checkRules(params.sessions, (session) => clients.isOfAnother(link, id, session));
  const named = optionalText(params, "session");
  const session = named || (WITHOUT_SESSION.has(method) ? "" : id);
  if (session && !clients.isOf(link, id, session)) throw notYours();
  if (WITHOUT_SESSION.has(method)) return params;
  if (!named && method !== "browser/offerTools") checkPauses(pauses, clients.sessionsOf(link, id));
  return currentTabs.fill(key, method, { ...params, session });
}

/**
 * @param {any} sessions of `browser/siteRules`
 * @param {(session: string) => boolean} isOfAnother
 * @throws {WireError} a session belongs to another client, or there are too many patterns
 */
function checkRules(sessions, isOfAnother) {
  const ruled = Array.isArray(sessions) ? sessions : [];
  for (const each of ruled) if (isOfAnother(String(each?.session))) throw notYours();
  const patterns = new Set(ruled.flatMap((each) => [each?.deny ?? [], each?.allow ?? []].flat()));
  const isTooMany = patterns.size > MAX_PATTERNS;
  if (isTooMany) throw invalid(`There are ${patterns.size} patterns; at most ${MAX_PATTERNS} are taken.`);
}

/**
 * A client that leaves out the session is paused when all of its sessions are.
 *
 * @param {Pauses} pauses
 * @param {Session[]} own sessions of the client
 */
function checkPauses(pauses, own) {
  const [first] = own;
  if (first && own.every(({ id }) => pauses.hasSession(id))) pauses.checkSession(first.id);
}

/**
 * The tab that `selectTab` names: by its id, or by its place in `getTabs`.
 *
 * @param {Browser} browser
 * @param {any} params
 */
async function chosenTab({ tabs }, params) {
  if (params.tabId != null) return integer(params, "tabId");
  const [index, all] = [integer(params, "tabIndex"), await tabs.all()];
  const tab = all[index];
  if (!tab) throw invalid(`tabIndex is 0 to ${all.length - 1}, as in the list of getTabs, not ${index}.`);
  return tab.tabId;
}

/** A client has named a session of another one. */
function notYours() {
  return rejection(Code.NOT_YOURS, "The session belongs to another connection. Leave it out, or name it first.");
}

/** @param {number} code @param {string} message */
function rejection(code, message) {
  return new WireError(code, message, { handed: false });
}
