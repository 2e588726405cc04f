/** What clients may ask of the browser: one function for each request of the wire that is built. */

import { checkMethod } from "./devtools.js";
import { navigation, whereabouts } from "./navigation.js";
import { flag, integer, invalid, object, optionalText, text, texts } from "./params.js";
import { existing } from "./tabs.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Session, Tab } from "./wire.js"
 * @import { Asked, Command } from "./calls.js"
 * @import { CdpEvent } from "./devtools_tab.js"
 * @import { DevTools } from "./devtools.js"
 * @import { Frames } from "./frames.js"
 * @import { Origins } from "./origins.js"
 * @import { Owners } from "./owners.js"
 * @import { Pauses } from "./pauses.js"
 * @import { Tabs } from "./tabs.js"
 * @typedef {{ tabs: Tabs, frames: Frames, owners: Owners, origins: Origins, pauses: Pauses,
 *   sessions: () => Session[], devtools: DevTools | null }} Browser `devtools`: null where the browser has none
 */

const NAVIGATION_MS = 30_000;
/** What a page that has crashed can still be told. */
const REVIVING = new Set(["Page.navigate", "Page.reload"]);
const LONGEST_TITLE = 60;

/**
 * @param {Browser} browser
 * @returns {Record<string, Command>} by method
 */
export function commands(browser) {
  const { pauses } = browser;
  const commands = { ...working(browser), ...debugging(browser) };
  return { ...unlessPaused(pauses, commands), "browser/pause": (params) => pause(pauses, params) };
}

/**
 * The same commands, refused to a session that is paused.
 *
 * @param {Pauses} pauses
 * @param {Record<string, Command>} commands
 * @returns {Record<string, Command>}
 */
function unlessPaused(pauses, commands) {
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
 * @param {Pauses} pauses
 * @param {any} params
 */
function pause(pauses, params) {
  const [site, session] = [optionalText(params, "site"), optionalText(params, "session")];
  if (Boolean(site) === Boolean(session)) throw invalid("Name either a site or a session.");
  if (params.paused === undefined) throw invalid("paused is missing: true to pause, false to resume.");
  if (site) pauses.setSite(site, flag(params, "paused"));
  else pauses.setSession(session, flag(params, "paused"));
  return {};
}

/**
 * What no pause forbids as such.
 *
 * @param {Browser} browser
 * @returns {Record<string, Command>}
 */
function working(browser) {
  const { tabs, frames, owners } = browser;
  const inTurn = turns();
  return {
    "browser/executeTool": (params, asked) => executeTool(frames, params, asked),
    getTabs: async () => ({ tabs: await tabs.all() }),
    // A session's first tab makes its group; the next one must find it.
    createTab: (params) => inTurn(optionalText(params, "session"), () => createTab(browser, params)),
    activateTab: async (params) => {
      const tab = await mine(browser, params);
      await chrome.tabs.update(tab.tabId, { active: true });
      if (flag(params, "focusWindow")) await chrome.windows.update(tab.windowId, { focused: true });
      return { tab: await tabs.refresh(tab.tabId) };
    },
    closeTab: async (params) => {
      const tab = await mine(browser, params);
      await chrome.tabs.remove(tab.tabId);
      return {};
    },
    setOwner: async (params) => {
      const tab = await present(browser, params);
      owners.give(tab.tabId, optionalText(params, "session") || null);
      return { tab: await tabs.refresh(tab.tabId) };
    },
    closeSession: async (params) => {
      const released = owners.release(text(params, "session"));
      if (flag(params, "closeTabs")) await Promise.all(released.map(closeIfOpen));
      else await Promise.all(released.map((tabId) => tabs.refresh(tabId)));
      return {};
    },
    browser_navigate: (params, asked) => navigate(browser, params, asked),
    goBack: (params, asked) => travel(browser, params, asked, (tabId) => chrome.tabs.goBack(tabId)),
    goForward: (params, asked) => travel(browser, params, asked, (tabId) => chrome.tabs.goForward(tabId)),
  };
}

/**
 * @param {Browser} browser
 * @returns {Record<string, Command>}
 */
function debugging(browser) {
  const { devtools } = browser;
  if (!devtools) return {};
  return {
    forwardCDPCommand: (params, asked) => forward(browser, devtools, params, asked),
    subscribeCDP: (params, asked) => subscribe(browser, devtools, params, asked),
  };
}

/**
 * @param {Frames} frames
 * @param {any} params
 * @param {Asked} asked
 */
function executeTool(frames, params, { id, signal, notify, ask }) {
  const call = {
    tabId: integer(params, "tabId"),
    frameId: integer(params, "frameId"),
    documentId: text(params, "documentId"),
    toolName: text(params, "toolName"),
    args: params.args ?? {},
    wantsProgress: flag(params, "wantsProgress"),
  };
  return frames.execute(call, {
    id,
    signal,
    onProgress: (progress) => notify("browser/progress", progress),
    onQuestion: (question) => ask("browser/elicitConfirmation", question),
  });
}

/**
 * @param {Browser} browser
 * @param {any} params
 */
async function createTab(browser, params) {
  const url = optionalText(params, "url");
  const session = optionalText(params, "session");
  const active = flag(params, "active");
  if (url) checkUrl(browser, url);
  const groupId = session ? await groupOf(browser.owners, session) : null;
  const windowId = groupId === null ? undefined : (await chrome.tabGroups.get(groupId)).windowId;
  const created = await refusedWith(openTab({ url: url || undefined, active, windowId }));
  const tabId = Number(created.id);
  if (session) {
    browser.owners.give(tabId, session);
    await putInGroup(browser, tabId, session, groupId, optionalText(params, "title"));
  }
  const tab = await browser.tabs.refresh(tabId);
  return {
    tabId,
    windowId: created.windowId,
    groupId: tab?.groupId ?? null,
    url: created.pendingUrl || created.url || url,
  };
}

/** @param {{ url: string | undefined, active: boolean, windowId: number | undefined }} where */
async function openTab({ url, active, windowId }) {
  const here = windowId ?? (await ordinaryWindow());
  if (here !== undefined) return chrome.tabs.create({ url, active, windowId: here });
  const window = await chrome.windows.create({ url, focused: active, incognito: false });
  const tab = window?.tabs?.[0];
  if (!tab) throw new WireError(Code.INTERNAL_ERROR, "The browser did not open a window.", { handed: false });
  return tab;
}

/** The window that last had the focus, if it is not incognito: nothing is offered of what is open there. */
async function ordinaryWindow() {
  const all = await chrome.windows.getAll({ windowTypes: ["normal"] });
  const windows = all.filter(({ incognito }) => !incognito);
  if (windows.length === 0) return undefined;
  const last = await chrome.windows.getLastFocused();
  return (windows.find(({ id }) => id === last.id) ?? windows[0])?.id;
}

/**
 * The session's tab group, if the person has not dissolved it.
 *
 * @param {Owners} owners
 * @param {string} session
 */
async function groupOf(owners, session) {
  const groupId = owners.groupOf(session);
  if (groupId === undefined) return null;
  const [tab] = await chrome.tabs.query({ groupId });
  return tab ? groupId : null;
}

/**
 * @param {Browser} browser
 * @param {number} tabId
 * @param {string} session
 * @param {number | null} known
 * @param {string} title
 */
async function putInGroup({ owners, sessions }, tabId, session, known, title) {
  if (known !== null) return void (await chrome.tabs.group({ tabIds: tabId, groupId: known }));
  const { windowId } = await chrome.tabs.get(tabId);
  const groupId = await chrome.tabs.group({ tabIds: tabId, createProperties: { windowId } });
  owners.setGroup(session, groupId);
  const about = sessions().find(({ id }) => id === session);
  const shown = title || about?.title || about?.client.name || "mcpb";
  await chrome.tabGroups.update(groupId, { title: shown.slice(0, LONGEST_TITLE) });
}

/**
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 */
async function navigate(browser, params, { signal }) {
  const url = text(params, "url");
  const { tabId } = await mine(browser, params);
  checkUrl(browser, url);
  const waitUntil = optionalText(params, "waitUntil") || "load";
  if (waitUntil !== "load" && waitUntil !== "commit") throw invalid(`waitUntil is load or commit, not ${waitUntil}.`);
  const timeoutMs = params.timeoutMs == null ? NAVIGATION_MS : integer(params, "timeoutMs");
  const start = () => refusedWith(chrome.tabs.update(tabId, { url }));
  await navigation(tabId, new URL(url).href, start, { waitUntil, timeoutMs, signal });
  return arrival(browser, tabId);
}

/**
 * @param {Browser} browser
 * @param {any} params
 * @param {Asked} asked
 * @param {(tabId: number) => Promise<void>} go
 */
async function travel(browser, params, { signal }, go) {
  const { tabId } = await mine(browser, params);
  await navigation(tabId, "", () => refusedWith(go(tabId)), { waitUntil: "load", timeoutMs: NAVIGATION_MS, signal });
  return arrival(browser, tabId);
}

/**
 * @param {Browser} browser
 * @param {DevTools} devtools
 * @param {any} params
 * @param {Asked} asked
 */
async function forward(browser, devtools, params, { signal }) {
  const [method, sessionId] = [text(params, "method"), optionalText(params, "sessionId")];
  const asking = { method, sessionId, params: object(params, "params") };
  checkMethod(method);
  if (method === "Page.navigate") checkUrl(browser, text(asking.params, "url"));
  const { tabId, status } = await loaded(browser, params, signal);
  if (status === "unloaded" && !REVIVING.has(method)) throw crashed(tabId);
  checkShown(browser, devtools.urlOf(tabId, sessionId));
  try {
    return await devtools.send(tabId, asking, signal);
  } catch (error) {
    if (error instanceof WireError && !(await existing(tabId))) throw noSuchTab(tabId, error);
    throw error;
  }
}

/**
 * @param {Browser} browser
 * @param {DevTools} devtools
 * @param {any} params
 * @param {Asked} asked
 */
async function subscribe(browser, devtools, params, { signal, notify }) {
  const session = optionalText(params, "session");
  const events = new Set(texts(params, "events"));
  const { tabId } = await loaded(browser, params, signal);
  const tell = (/** @type {CdpEvent} */ event) => {
    browser.pauses.checkSession(session);
    const tab = browser.tabs.get(tabId);
    if (tab) checkOwner(tab, session);
    checkShown(browser, tab?.url ?? "");
    if (mayShow(browser, devtools.urlOf(tabId, event.sessionId))) notify("browser/cdpEvent", event);
  };
  await devtools.subscribe(tabId, { events, tell }, signal);
  return {};
}

/**
 * The tab that a request names, if its session may command what it shows. One that the browser has discarded is loaded
 * first.
 *
 * @param {Browser} browser
 * @param {any} params
 * @param {AbortSignal} signal
 */
async function loaded(browser, params, signal) {
  const tab = await mine(browser, params);
  checkShown(browser, tab.url);
  if (!tab.discarded) return tab;
  const { tabId } = tab;
  const reload = () => chrome.tabs.reload(tabId);
  await navigation(tabId, "", reload, { waitUntil: "load", timeoutMs: NAVIGATION_MS, signal });
  const now = await present(browser, params);
  checkShown(browser, now.url);
  return now;
}

/** @param {number} tabId */
function crashed(tabId) {
  const what = `The page of tab ${tabId} has crashed. Load it again with browser_navigate.`;
  return new WireError(Code.INTERNAL_ERROR, what, { handed: false });
}

/**
 * Where a tab has come to. Redirects and its history lead where no client may send it: there it stays, but what is
 * there is not told.
 *
 * @param {Browser} browser
 * @param {number} tabId
 */
async function arrival(browser, tabId) {
  const here = await whereabouts(tabId);
  try {
    if (URL.canParse(here.url)) checkUrl(browser, here.url);
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw new WireError(error.code, `The tab was led on to another site. ${error.message}`, { handed: true });
  }
  return here;
}

/**
 * The tab that a request names, if it exists.
 *
 * @param {Browser} browser
 * @param {any} params
 */
async function present({ tabs }, params) {
  const tabId = integer(params, "tabId");
  const tab = await tabs.refresh(tabId);
  if (!tab) throw noSuchTab(tabId, { handed: false });
  return tab;
}

/**
 * @param {number} tabId
 * @param {{ handed: boolean }} reach
 */
function noSuchTab(tabId, { handed }) {
  return new WireError(Code.NO_SUCH_TAB, `There is no tab ${tabId}. getTabs lists those there are.`, { handed });
}

/**
 * The tab that a request names, if its session may command it. A request without a session may command any.
 *
 * @param {Browser} browser
 * @param {any} params
 */
async function mine(browser, params) {
  const tab = await present(browser, params);
  checkOwner(tab, optionalText(params, "session"));
  return tab;
}

/**
 * @param {Tab} tab
 * @param {string} session empty: it may command any tab
 */
function checkOwner(tab, session) {
  if (!session || tab.owner === session || (tab.owner === null && tab.handedOver)) return;
  const whose = tab.owner === null ? "was not handed over to this session" : "belongs to another session";
  throw new WireError(Code.NOT_YOURS, `Tab ${tab.tabId} ${whose}. Open a tab of your own with createTab.`, {
    handed: false,
  });
}

/**
 * @param {Browser} browser
 * @param {string} url
 */
function checkUrl({ origins, pauses }, url) {
  const parsed = URL.parse(url);
  if (!parsed) throw invalid(`${url} is not a complete URL; write it with its scheme, as https://example.com/.`);
  pauses.checkSite(parsed.origin);
  if (parsed.href === "about:blank" || origins.allow(parsed.origin)) return;
  throw new WireError(Code.NOT_ALLOWED, `The extension's list of allowed origins does not name ${parsed.origin}.`, {
    handed: false,
  });
}

/**
 * A page, or a frame, is asked of: may it be? Of what has no address yet nothing is known.
 *
 * @param {Browser} browser
 * @param {string} url
 */
function checkShown(browser, url) {
  if (url) checkUrl(browser, url);
}

/** @param {Browser} browser @param {string} url */
function mayShow(browser, url) {
  try {
    checkShown(browser, url);
    return true;
  } catch {
    return false;
  }
}

/**
 * What is done in its turn begins when all that came before it under that key has ended.
 *
 * @returns {<T>(key: string, act: () => Promise<T>) => Promise<T>}
 */
function turns() {
  /** @type {Map<string, Promise<unknown>>} */
  const last = new Map();
  return (key, act) => {
    const turn = (last.get(key) ?? Promise.resolve()).then(act, act);
    last.set(key, turn);
    const ended = () => last.get(key) === turn && last.delete(key);
    turn.then(ended, ended);
    return turn;
  };
}

/** @param {number} tabId */
async function closeIfOpen(tabId) {
  if (await existing(tabId)) await chrome.tabs.remove(tabId);
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
