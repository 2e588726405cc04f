/**
 * `declarativeNetRequest` rules that keep client tabs away from sites. Pure: from what is known to a list of rules.
 *
 * A rule that blocks a site names the tabs that it spares, not those that it holds for: the first request of a tab
 * that a page has just opened comes before any event that names that tab (measured in Chromium 150). So a tab is
 * held back until it is known to be the user's own.
 */

import { addressExpression, intersection } from "./origin_patterns.js";

/**
 * @typedef {{ deny: string[], allow: string[] | null }} Limits of one session; `allow`: null: all sites
 * @typedef {{ sessions: Map<string, Limits>, clientTabs: Map<number, Set<string>>, userTabs: Iterable<number>,
 *   opening: Set<string>, hosts: Map<string, Set<string>>, paused: Map<string, Set<number>> }} Situation
 *   `clientTabs`: tab → the sessions that use it; `opening`: sessions for which a tab is being opened;
 *   `hosts`: session → hosts that its tabs have shown; `paused`: paused pattern → the client tabs that show it
 * @typedef {chrome.declarativeNetRequest.Rule} Rule
 * @typedef {chrome.declarativeNetRequest.RuleCondition} Condition
 */

/** Requests without a tab, as those of service workers. */
const NO_TAB = -1;
/** What has no origin is this too: sandboxed documents that are left, shared workers from `data:` addresses. */
const THIRD_PARTY = /** @type {any} */ ("thirdParty");
const BLOCK_OTHERS = 1;
const ALLOW_LISTED = 2;
const BLOCK_SITE = 3;
const BLOCK = { type: /** @type {any} */ ("block") };
const ALLOW = { type: /** @type {any} */ ("allow") };
/** An element `object` or `embed` shows documents too. */
const DOCUMENTS = /** @type {any} */ (["main_frame", "sub_frame", "object"]);

/**
 * Return the rules for a situation; none before a session uses a tab.
 *
 * @param {Situation} situation
 * @returns {Rule[]}
 */
export function networkRules(situation) {
  const using = usingSessions(situation);
  const ofTabs = using.size === 0 ? [] : [...siteDrafts(situation, using), ...listDrafts(situation, using)];
  const drafts = [...ofTabs, ...workerDrafts(situation, new Set([...using, ...situation.hosts.keys()]))];
  return drafts.map((draft, index) => ({ ...draft, id: index + 1 }));
}

/** @param {Situation} situation @returns {Set<string>} sessions that use a tab, or are about to */
export function usingSessions({ clientTabs, opening }) {
  return new Set([...opening, ...[...clientTabs.values()].flatMap((sessions) => [...sessions])]);
}

/**
 * Denied and paused sites: every kind of request.
 *
 * @param {Situation} situation
 * @param {Set<string>} using
 */
function siteDrafts({ clientTabs, userTabs, sessions, hosts, paused }, using) {
  const denied = [...using].flatMap((session) => sessions.get(session)?.deny ?? []);
  const patterns = [...denied, ...paused.keys()].filter(unique);
  return patterns.flatMap((pattern) => {
    const isFor = (/** @type {string} */ session) => paused.has(pattern) || sessions.get(session)?.deny.includes(pattern);
    const spared = [...clientTabs]
      .filter(([tabId, users]) => paused.get(pattern)?.has(tabId) || ![...users].some(isFor))
      .map(([tabId]) => tabId);
    const initiatorDomains = [...using].filter(isFor).flatMap((session) => [...(hosts.get(session) ?? [])]).filter(unique);
    return [
      ...block(pattern, { excludedTabIds: [NO_TAB, ...userTabs, ...spared].filter(unique) }),
      ...otherPagesDrafts(pattern, [...(paused.get(pattern) ?? [])].filter((id) => clientTabs.has(id)), initiatorDomains),
    ];
  });
}

/**
 * A tab that shows a paused site goes on for its user, but pages of other sites in client tabs that have a handle of
 * its window do not lead it on.
 *
 * @param {string} pattern
 * @param {number[]} tabIds that show it
 * @param {string[]} initiatorDomains of client tabs
 */
function otherPagesDrafts(pattern, tabIds, initiatorDomains) {
  if (tabIds.length === 0 || initiatorDomains.length === 0) return [];
  const own = pattern.replace(/^(https?:\/\/)?(\*\.)?/, "").replace(/:\d+$/, "");
  const drafts = block(pattern, { tabIds, initiatorDomains, excludedInitiatorDomains: [own] });
  const resourceTypes = /** @type {any} */ (["main_frame"]);
  return drafts.map((draft) => ({ ...draft, condition: { ...draft.condition, resourceTypes } }));
}

/**
 * Drafts for requests without a tab. Workers, and what a page sends when it closes, outlast the tab, so these rules
 * hold until the session ends.
 *
 * @param {Situation} situation
 * @param {Set<string>} ids of sessions that use a tab, or have used one
 */
function workerDrafts({ sessions, hosts, paused }, ids) {
  const patterns = [...ids].flatMap((session) => [...(sessions.get(session)?.deny ?? []), ...paused.keys()]);
  return patterns.filter(unique).flatMap((pattern) => {
    const isFor = (/** @type {string} */ session) => paused.has(pattern) || sessions.get(session)?.deny.includes(pattern);
    const initiatorDomains = [...ids].filter(isFor).flatMap((session) => [...(hosts.get(session) ?? [])]).filter(unique);
    return [
      ...(initiatorDomains.length > 0 ? block(pattern, { tabIds: [NO_TAB], initiatorDomains }) : []),
      ...block(pattern, { tabIds: [NO_TAB], domainType: THIRD_PARTY }),
    ];
  });
}

/**
 * Every kind of request to what a pattern fits.
 *
 * @param {string} pattern
 * @param {Condition} where
 */
function block(pattern, where) {
  const regexFilter = addressExpression(pattern);
  const resourceTypes = Object.values(chrome.declarativeNetRequest.ResourceType);
  return regexFilter ? [{ priority: BLOCK_SITE, action: BLOCK, condition: { ...where, regexFilter, resourceTypes } }] : [];
}

/**
 * What is not on a list of allowed sites: documents only, so that an allowed page keeps what it loads from elsewhere.
 *
 * @param {Situation} situation
 * @param {Set<string>} using
 */
function listDrafts({ clientTabs, userTabs, sessions, opening, hosts }, using) {
  const listOf = (/** @type {Iterable<string>} */ users) =>
    commonList([...users].map((user) => sessions.get(user)?.allow ?? null));
  /** @type {Map<string, number[]>} list, as JSON → the tabs that it holds for */
  const groups = new Map();
  for (const [tabId, users] of clientTabs) {
    const list = listOf(users);
    if (list) groups.set(JSON.stringify(list), [...(groups.get(JSON.stringify(list)) ?? []), tabId]);
  }
  const drafts = [...groups].flatMap(([list, tabIds]) => documentDrafts(JSON.parse(list), { tabIds }));
  const limited = [...using].filter((session) => sessions.get(session)?.allow);
  const common = listOf(limited);
  if (!common) return drafts;
  const excludedTabIds = [NO_TAB, ...userTabs, ...clientTabs.keys()].filter(unique);
  if (limited.some((session) => opening.has(session))) return [...drafts, ...documentDrafts(common, { excludedTabIds })];
  // Tabs that the user opens from other sites are not delayed.
  const initiatorDomains = limited.flatMap((session) => [...(hosts.get(session) ?? [])]).filter(unique);
  if (initiatorDomains.length === 0) return drafts;
  return [...drafts, ...documentDrafts(common, { excludedTabIds, initiatorDomains })];
}

/**
 * @param {string[]} list
 * @param {Condition} where
 */
function documentDrafts(list, where) {
  const condition = { ...where, resourceTypes: DOCUMENTS };
  const allowed = list.map(addressExpression).filter(Boolean);
  return [
    { priority: BLOCK_OTHERS, action: BLOCK, condition },
    ...allowed.map((regexFilter) => ({ priority: ALLOW_LISTED, action: ALLOW, condition: { ...condition, regexFilter } })),
  ];
}

/**
 * Return what all lists allow; null if there is no list.
 *
 * @param {(string[] | null)[]} lists
 */
export function commonList(lists) {
  const limiting = /** @type {string[][]} */ (lists.filter((list) => list !== null));
  return limiting.length === 0 ? null : limiting.reduce(intersection);
}

/** @type {(value: unknown, index: number, all: unknown[]) => boolean} */
const unique = (value, index, all) => all.indexOf(value) === index;
