/** Commands of clients: one function for each request of the wire. */

import { checkShown, checkUrl, mine, present, sessionsOf } from "./tab_access.js";
import { devtoolsCommands } from "./devtools_commands.js";
import { LoadError, navigation, whereabouts } from "./navigation.js";
import { readTools } from "./offers/offered_tool.js";
import { flag, integer, invalid, object, optionalText, text, texts } from "./params.js";
import { pause } from "./pauses.js";
import { closingOf } from "./session_ends.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Session } from "./wire.js"
 * @import { ApprovalPrompts } from "./approval_prompts.js"
 * @import { Request as PageRequest } from "./page_requests.js"
 * @import { Asked, Command, Way } from "./requests.js"
 * @import { DevTools } from "./devtools.js"
 * @import { Frames } from "./document_registry.js"
 * @import { Origins } from "./origin_policy.js"
 * @import { TabOwners } from "./tab_owners.js"
 * @import { Pauses } from "./pauses.js"
 * @import { SiteAccess } from "./host_permissions.js"
 * @import { SessionEnds } from "./session_ends.js"
 * @import { SessionTabs } from "./session_tabs.js"
 * @import { SiteApprovals } from "./site_approvals.js"
 * @import { SiteRules } from "./rules/site_rules.js"
 * @import { TabVisits } from "./tab_visits.js"
 * @import { Tabs } from "./tabs.js"
 * @typedef {{ tabs: Tabs, frames: Frames, owners: TabOwners, origins: Origins, pauses: Pauses,
 *   siteAccess: SiteAccess, siteRules: SiteRules, sessions: () => Session[], sessionTabs: SessionTabs,
 *   sessionEnds: SessionEnds, visits: TabVisits,
 *   devtools: DevTools | null, prompts: ApprovalPrompts, approvals: SiteApprovals }} Browser
 *   `devtools`: null where the browser has none
 */

const NAVIGATION_MS = 30_000;
/** For a page to be left that the browser asks first. */
const CLOSING_MS = 5_000;
/** For a window to come into another state. */
const RESTATING_MS = 1_000;
const LOOKING_MS = 20;
/** What may be asked of a page's MCP server. Its lists are announced. */
const SERVER_REQUESTS = new Set(["resources/read", "prompts/get", "completion/complete"]);
const WINDOW_STATES = new Set(["normal", "maximized", "minimized", "fullscreen"]);

/**
 * @param {Browser} browser
 * @returns {Record<string, Command>} by method
 */
export function commands(browser) {
  const { pauses, siteRules } = browser;
  const commands = { ...working(browser), ...devtoolsCommands(browser) };
  return {
    ...unlessPaused(pauses, commands),
    "browser/pause": async (params) => {
      pause(pauses, params);
      await siteRules.refresh(); // no request of a client's tab reaches the site from now on
      return {};
    },
  };
}

/**
 * The way of clients of this machine: their requests say all that they mean.
 *
 * @param {Record<string, Command>} commands
 * @returns {Way}
 */
export function localCommands(commands) {
  return { commands, prepare: (_link, _connection, _method, params) => params };
}

/**
 * The same commands, refused to a session that is paused.
 *
 * @param {Pauses} pauses
 * @param {Record<string, Command>} commands
 * @returns {Record<string, Command>}
 */
export function unlessPaused(pauses, commands) {
  const guarded = Object.entries(commands).map(([method, command]) => {
    /** @type {Command} */
    const guard = (params, asked) => {
      pauses.checkSession(optionalText(params, "session"));
      return command(params, asked);
    };
    return [method, guard];
  });
  return Object.fromEntries(guarded);
}

/**
 * What no pause forbids as such.
 *
 * @param {Browser} browser
 * @returns {Record<string, Command>}
 */
function working(browser) {
  const { tabs, frames, owners, siteRules } = browser;
  return {
    "browser/siteRules": (params, asked) => setSiteRules(siteRules, params, asked),
    "browser/ask": (params, { signal }) => browser.prompts.ask(params, signal),
    "browser/approvals": (params, { signal }) => browser.approvals.watch(params, signal),
    "browser/executeTool": (params, asked) => executeTool(frames, params, asked),
    "browser/mcp": (params, asked) => askServer(frames, params, asked),
    "browser/watchResource": (params, asked) => watchResource(frames, params, asked),
    "browser/offerTools": (params, asked) => offerTools(frames, params, asked),
    getTabs: async () => ({ tabs: await tabs.all() }),
    createTab: (params, asked) => createTab(browser, params, asked),
    activateTab: async (params, asked) => {
      const tab = await mine(browser, params, asked);
      browser.visits.expect(tab.tabId);
      await chrome.tabs.update(tab.tabId, { active: true });
      if (flag(params, "focusWindow")) await chrome.windows.update(tab.windowId, { focused: true });
      return { tab: await tabs.refresh(tab.tabId) };
    },
    closeTab: async (params, asked) => {
      const { tabId } = await mine(browser, params, asked);
      await close(browser, tabId);
      return {};
    },
    setOwner: async (params) => {
      const [tab, session] = [await present(browser, params), optionalText(params, "session")];
      if (session) await siteRules.use(tab.tabId, [session]);
      owners.give(tab.tabId, session || null);
      if (!session) siteRules.release(tab.tabId);
      return { tab: await tabs.refresh(tab.tabId) };
    },
    closeSession: async (params) => {
      const closing = optionalText(params, "closing");
      await browser.sessionEnds.end(text(params, "session"), closing ? closingOf(closing) : undefined);
      return {};
    },
    setWindowBounds: (params, asked) => setWindowBounds(browser, params, asked),
    browser_navigate: (params, asked) => navigate(browser, params, asked),
    goBack: (params, asked) => travel(browser, params, asked, -1),
    goForward: (params, asked) => travel(browser, params, asked, 1),
  };
}

/**
 * @param {Frames} frames
 * @param {any} params
 * @param {Asked} asked
 */
function executeTool(frames, params, asked) {
  const call = {
    ...documentAddress(params),
    toolName: text(params, "toolName"),
    args: params.args ?? {},
    wantsProgress: flag(params, "wantsProgress"),
  };
  return frames.execute(call, hearing(asked));
}

/**
 * Send a request to a page's own MCP server.
 *
 * @param {Frames} frames
 * @param {any} params
 * @param {Asked} asked
 */
function askServer(frames, params, asked) {
  const method = text(params, "method");
  if (!SERVER_REQUESTS.has(method)) throw invalid(`method is ${[...SERVER_REQUESTS].join(", ")}, not ${method}.`);
  const wantsProgress = flag(params, "wantsProgress");
  return frames.ask({ ...documentAddress(params), method, params: object(params, "params"), wantsProgress }, hearing(asked));
}

/**
 * @param {Frames} frames
 * @param {any} params
 * @param {Asked} asked
 */
function watchResource(frames, params, { connection, signal, notify }) {
  return frames.watch(
    { ...documentAddress(params), uri: text(params, "uri") },
    {
      connection,
      signal,
      onActive: () => notify("browser/watching", {}),
      onUpdated: (uri) => notify("browser/resourceUpdated", { uri }),
    },
  );
}

/**
 * @param {Frames} frames
 * @param {any} params
 * @param {Asked} asked
 */
function offerTools(frames, params, { connection, signal, notify, ask }) {
  const offer = { server: text(params, "server"), ...readTools(params.tools) };
  return frames.offerTools(
    { ...documentAddress(params), ...offer },
    {
      connection,
      signal,
      onState: (state) => notify("browser/offered", state),
      call: (name, args, cancelled) => ask("browser/offeredCall", { name, args }, cancelled, false),
    },
  );
}

/** @param {any} params */
function documentAddress(params) {
  const [tabId, frameId] = [integer(params, "tabId"), integer(params, "frameId")];
  return { tabId, frameId, documentId: text(params, "documentId") };
}

/** What a running request may say to its client. @param {Asked} asked */
function hearing({ id, signal, notify, ask }) {
  return {
    id,
    signal,
    onProgress: (/** @type {object} */ progress) => notify("browser/progress", progress),
    onQuestion: (/** @type {PageRequest} */ { method, params }, /** @type {AbortSignal} */ cancelled) =>
      ask(method, params, cancelled),
  };
}

/**
 * @param {SiteRules} siteRules
 * @param {any} params
 * @param {Asked} asked
 */
async function setSiteRules(siteRules, params, { connection }) {
  if (!Array.isArray(params.sessions)) throw invalid("sessions must be a list.");
  const rules = params.sessions.map((/** @type {any} */ each) => ({
    session: text(each, "session"),
    deny: patterns(each, "deny"),
    allow: each.allow === undefined ? null : patterns(each, "allow"),
  }));
  await siteRules.setRules(connection, rules);
  return {};
}

/** @param {any} params @param {string} name */
function patterns(params, name) {
  return (params[name] ?? []).length === 0 ? [] : texts(params, name);
}

/**
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function createTab(browser, params, asked) {
  const [given, session] = [optionalText(params, "url"), optionalText(params, "session")];
  const sessions = sessionsOf(browser, params, asked);
  const url = given && checkUrl(browser, given, sessions);
  const wanted = {
    ...{ url, active: flag(params, "active"), title: optionalText(params, "title") },
    ...{ closing: closingOf(optionalText(params, "closing")), groupKey: optionalText(params, "groupKey") },
  };
  return refusedWith(browser.siteRules.whileOpening(sessions, url, () => browser.sessionTabs.open(session, wanted)));
}

/**
 * Close a tab. While the debugger is attached, the user is not asked whether to leave the page.
 *
 * @param {Browser} browser
 * @param {number} tabId
 */
async function close({ devtools }, tabId) {
  devtools?.leave(tabId);
  const closed = chrome.tabs.remove(tabId).then(() => true);
  if (await Promise.race([closed, pauseFor(CLOSING_MS)])) return;
  const what = `Tab ${tabId} is still open: its page asks the user whether to leave it.`;
  throw new WireError(Code.TIMED_OUT, what, { handed: true });
}

/**
 * The size or state of a tab's window, as the browser then has it.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function setWindowBounds(browser, params, asked) {
  const { windowId } = await mine(browser, params, asked);
  const [width, height] = [size(params, "width"), size(params, "height")];
  const isSized = width !== undefined || height !== undefined;
  const state = optionalText(params, "state") || (isSized ? "normal" : "");
  if (!WINDOW_STATES.has(state)) throw invalid(`Give a width, a height or a state: ${[...WINDOW_STATES].join(", ")}.`);
  if (isSized && state !== "normal") throw invalid(`A window that is ${state} has no width or height of its own.`);
  const before = await refusedWith(chrome.windows.get(windowId));
  const change = before.state === state ? undefined : state; // said once more, it would bring the window to the front
  const bounds = /** @type {chrome.windows.UpdateInfo} */ ({ width, height, state: change });
  await refusedWith(chrome.windows.update(windowId, bounds));
  const window = await changedWindow(windowId, state);
  return { windowId, width: window.width, height: window.height, state: window.state };
}

/**
 * A window once it is in that state, or as it is after a while: many a system changes it after the browser has said so.
 *
 * @param {number} windowId
 * @param {string} state
 */
async function changedWindow(windowId, state) {
  const until = Date.now() + RESTATING_MS;
  for (;;) {
    const window = await refusedWith(chrome.windows.get(windowId));
    if (window.state === state || Date.now() > until) return window;
    await pauseFor(LOOKING_MS);
  }
}

/**
 * @param {any} params
 * @param {string} name
 */
function size(params, name) {
  if (params[name] == null) return undefined;
  const pixels = integer(params, name);
  if (pixels < 1) throw invalid(`${name} must be at least 1, not ${pixels}.`);
  return pixels;
}

/**
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function navigate(browser, params, asked) {
  const sessions = sessionsOf(browser, params, asked);
  const { tabId } = await mine(browser, params, asked);
  const url = checkUrl(browser, text(params, "url"), sessions);
  const waitUntil = optionalText(params, "waitUntil") || "load";
  if (waitUntil !== "load" && waitUntil !== "commit") throw invalid(`waitUntil is load or commit, not ${waitUntil}.`);
  const timeoutMs = params.timeoutMs == null ? NAVIGATION_MS : integer(params, "timeoutMs");
  const start = () => refusedWith(browser.siteRules.sendAway(tabId, () => chrome.tabs.update(tabId, { url })));
  const patience = { quietMs: quietTime(params), timeoutMs, signal: asked.signal };
  const loaded = await unlessBlocked(browser, sessions, navigation(tabId, url, start, { waitUntil, ...patience }));
  return arrival(browser, tabId, sessions, loaded);
}

/** @param {any} params @returns {number | undefined} */
function quietTime(params) {
  return params.quietMs == null ? undefined : integer(params, "quietMs");
}

/**
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 * @param {-1 | 1} by
 */
async function travel(browser, params, asked, by) {
  const sessions = sessionsOf(browser, params, asked);
  const { tabId } = await mine(browser, params, asked);
  const { signal } = asked;
  const asker = { session: optionalText(params, "session"), signal };
  const start = () => refusedWith(browser.siteRules.sendAway(tabId, () => step(browser, tabId, by, asker)));
  const patience = { quietMs: quietTime(params), timeoutMs: NAVIGATION_MS, signal };
  const navigated = navigation(tabId, "", start, { waitUntil: "load", ...patience });
  return arrival(browser, tabId, sessions, await unlessBlocked(browser, sessions, navigated));
}

/**
 * The browser's own Back and Forward skip pages without a user gesture. So they are used only where nothing else
 * works: in Firefox, and on pages without access.
 *
 * @param {Browser} browser
 * @param {number} tabId
 * @param {-1 | 1} by
 * @param {{ session: string, signal: AbortSignal }} asker
 */
async function step({ devtools }, tabId, by, asker) {
  if (await devtools?.step(tabId, by, asker)) return;
  await (by < 0 ? chrome.tabs.goBack(tabId) : chrome.tabs.goForward(tabId));
}

/**
 * The same, with the rule that kept the tab from a page, if one did.
 *
 * @param {Browser} browser
 * @param {string[]} sessions
 * @param {Promise<string | null>} navigated
 * @returns {Promise<string | null>}
 * @throws {WireError}
 */
async function unlessBlocked({ siteRules }, sessions, navigated) {
  try {
    return await navigated;
  } catch (error) {
    const origin = error instanceof LoadError ? URL.parse(error.url)?.origin : "";
    if (origin) siteRules.check(sessions, origin);
    throw error;
  }
}

/**
 * Where a tab has come to. Redirects and its history lead where no client may send it: there it stays, but what is
 * there is not reported.
 *
 * @param {Browser} browser
 * @param {number} tabId
 * @param {string[]} sessions
 * @param {string | null} loaded the document that is known to have loaded
 */
async function arrival(browser, tabId, sessions, loaded) {
  const here = await whereabouts(tabId);
  try {
    if (URL.canParse(here.url)) checkShown(browser, here.url, sessions);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    const what = `The tab was led on to another site. ${error.message}`;
    throw new WireError(error.code, what, { ...error.data, handed: true });
  }
  return { ...here, loading: here.loading && here.documentId !== loaded };
}

/** @param {number} ms @returns {Promise<void>} */
function pauseFor(ms) {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

/**
 * What the browser refuses at once is the asker's mistake, in the browser's words.
 *
 * @template T
 * @param {Promise<T>} done
 * @returns {Promise<T>}
 */
async function refusedWith(done) {
  try {
    return await done;
  } catch (error) {
    if (error instanceof WireError) throw error;
    throw invalid(`The browser refused: ${error instanceof Error ? error.message : error}`);
  }
}
