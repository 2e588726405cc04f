/** The service worker: wires the parts and the browser's events together. All state in it can be rebuilt. */

import { Audience } from "./audience.js";
import { APPROVAL_PORT, ApprovalPrompts } from "./approval_prompts.js";
import { SiteApprovals } from "./site_approvals.js";
import { CHUNK_SECONDS, ChunkError, Joiner } from "./chunking.js";
import { Calls } from "./requests.js";
import { Clients, connectionKey } from "./clients.js";
import { commands, localCommands } from "./commands.js";
import { CurrentTabs } from "./current_tabs.js";
import { DevTools } from "./devtools.js";
import { isFirefox } from "./firefox.js";
import { FRAME_PORT } from "./document.js";
import { Frames } from "./document_registry.js";
import { Handovers } from "./handovers.js";
import { injectIntoOpenTabs } from "./injection.js";
import { LastError } from "./last_error.js";
import { LeftTabs } from "./left_tabs.js";
import { NativePort, RETRY_ALARM } from "./native_host.js";
import { TabNumbers } from "./tab_numbers.js";
import { ALLOWED_ORIGINS, Origins } from "./origin_policy.js";
import { TabOwners, UNNAMED_ALARM } from "./tab_owners.js";
import { Pauses } from "./pauses.js";
import { POPUP_PORT, Popups } from "./popup_state.js";
import { proxiedCommands } from "./proxied_commands.js";
import { hello, LABEL_KEY } from "./profile.js";
import { Questions } from "./client_requests.js";
import { SessionEnds } from "./session_ends.js";
import { SessionTabs } from "./session_tabs.js";
import { SiteAccess } from "./host_permissions.js";
import { SiteRules } from "./rules/site_rules.js";
import { Status } from "./status.js";
import { Tabs } from "./tabs.js";
import { TabVisits } from "./tab_visits.js";
import { ToolbarIcon } from "./toolbar_icon.js";
import { restoreSession, Upgrade, UPGRADE_ALARM } from "./upgrade.js";
import { notification } from "./wire.js";
import { OpenedSites } from "./opened_sites.js";
import { PageToolUses } from "./page_tool_uses.js";
import { PROXY_ALARM, PROXY_POLICY, WebSocketProxy } from "./websocket_proxy.js";

/**
 * @import { Link } from "./audience.js"
 * @import { Way } from "./requests.js"
 */

/** What this extension supports beside its commands, for `capabilities.commands`. */
const SUPPORTED = ["documentId", "mcpb.download", "tabNumbers"];
/** Between a change and its display: calls often take a millisecond. */
const SHOWING_MS = 50;

const restored = restoreSession();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let showing;
const numbers = new TabNumbers();
const owners = new TabOwners();
const origins = new Origins();
const handovers = new Handovers();
const audience = new Audience((link) => {
  pauses.announceTo(link);
  uses.announceTo(link);
  frames.announceTo(link);
});
const pauses = new Pauses(audience, () => {
  frames.endForbiddenOffers();
  void siteRules.refresh();
  show();
});
const siteAccess = new SiteAccess(() => accessChanged());
const opened = new OpenedSites(() => frames.announceAgain());
const uses = new PageToolUses(audience, show);
const last = new LastError();
/** @type {SiteRules} */
const siteRules = new SiteRules(owners, pauses, show);
const visits = new TabVisits();
const left = new LeftTabs(owners, handovers, show);
const kept = [numbers, owners, origins, handovers, pauses, siteAccess, opened, uses, last, siteRules, visits, left];
const loaded = restored.then(() => Promise.all([...kept, icon].map((part) => part.load())));

const clients = new Clients(clientsChanged);
/** @type {WeakMap<Link, Joiner>} */
const joiners = new WeakMap();

const tabs = new Tabs(numbers, owners, handovers, audience, loaded);
const frames = new Frames(
  tabs,
  origins,
  pauses,
  siteAccess,
  { opened, uses },
  audience,
  {
    wanted: () => {
      native.nudge();
      proxy.nudge();
    },
    isHostMissing: () => native.resting && !proxy.isConnected,
    changed: show,
  },
);
const sessions = () => clients.sessions;
const sessionTabs = new SessionTabs(tabs, owners, visits, sessions);
const sessionEnds = new SessionEnds({ tabs, owners, handovers, visits, left, siteRules });
/** Pauses the users of DevTools when the user ends them in the browser's bar: they would attach again. */
const devtools = isFirefox
  ? null
  : new DevTools({
      changed: show,
      stopped: (session) => pauses.setSession(session, true),
    });
const prompts = new ApprovalPrompts(show);
const approvals = new SiteApprovals(show);
const browser = {
  ...{ tabs, frames, owners, origins, pauses, siteAccess, siteRules, sessions, sessionTabs, devtools },
  ...{ sessionEnds, visits, prompts, approvals },
};
const built = commands(browser);
const questions = new Questions();
const currentTabs = new CurrentTabs();
const local = localCommands(built);
const proxied = proxiedCommands(browser, built, clients, currentTabs);
const calls = new Calls({ native: local, proxy: proxied }, questions, show);

/** @type {NativePort} */
const native = new NativePort(
  {
    hello: () => ownHello(local),
    opened: (link) => void tabs.announceAll(link),
    greeted,
    received,
    ended: (link) => {
      clients.end(link);
      void upgrade.check();
    },
    changed: () => {
      show();
      if (native.resting) frames.tellStatus();
    },
  },
  last,
);
const proxy = new WebSocketProxy({
  hello: () => ownHello(proxied),
  opened: (link) => void tabs.announceAll(link),
  greeted,
  received,
  left: clientLeft,
  ended: (link) => {
    for (const { connection } of clients.of(link)) clientLeft(link, connection);
    clients.end(link);
    frames.tellStatus();
  },
  changed: show,
});
const proxyLoaded = loaded.then(() => proxy.load());
const status = new Status({ native, proxy, tabs, pauses, calls, devtools, clients });
const icon = new ToolbarIcon(status, prompts, left);
const popups = new Popups({
  ...{ native, proxy, status, tabs, frames, owners, pauses, siteAccess, siteRules, uses, handovers },
  ...{ left, prompts, approvals, clients, loaded: proxyLoaded },
});
const upgrade = new Upgrade(() => calls.running.size > 0 || popups.isOpen);

/** Show the user what has changed, soon and once for all changes until then. */
function show() {
  showing ??= setTimeout(() => {
    showing = undefined;
    popups.tell();
    icon.draw();
  }, SHOWING_MS);
}

/** What this extension says first. @param {Way} way that it is said on */
async function ownHello(way) {
  await loaded;
  return hello([...Object.keys(way.commands), ...SUPPORTED], siteAccess.isEverywhere, last);
}

/** A native host or a proxy is there: content scripts connect. */
function greeted() {
  frames.tellStatus();
  void frames.summon();
}

/**
 * A client of a proxy has gone, and with it the session that it is itself.
 *
 * @param {Link} link
 * @param {string} connection
 */
function clientLeft(link, connection) {
  calls.abandon(link, connection);
  currentTabs.forget(connectionKey(link, connection));
  // A proxy may name anything, also a session of a native client.
  if (!clients.isOfAnother(link, connection, connection)) void sessionEnds.end(connection);
}

/**
 * @param {Link} link
 * @param {any} message
 * @returns {void}
 */
function received(link, message) {
  const { id, method, params } = message ?? {};
  if (method === "host/chunk") return join(link, params);
  if (method === "host/chunkAbort") return joinerOf(link).abandon(params?.transfer);
  if (method === "host/clients") return clients.set(link, params?.clients);
  if (method === "browser/cancel") return calls.cancel(link, params?.id);
  if (typeof method === "string" && id !== undefined) return void calls.serve(link, message);
  if (method === undefined) questions.answered(link, message ?? {});
}

/**
 * @param {Link} link
 * @param {any} chunk
 */
function join(link, chunk) {
  const joiner = joinerOf(link);
  const abort = (/** @type {string} */ reason) =>
    link.post(notification("host/chunkAbort", { transfer: chunk.transfer, reason }));
  try {
    const body = joiner.feed(chunk);
    if (body !== undefined) return received(link, body);
  } catch (error) {
    if (!(error instanceof ChunkError)) throw error;
    return abort(error.message);
  }
  if (chunk.seq > 0) return;
  setTimeout(() => {
    if (!joiner.holds(chunk.transfer)) return;
    joiner.abandon(chunk.transfer);
    abort(`not complete after ${CHUNK_SECONDS} s`);
  }, CHUNK_SECONDS * 1000);
}

/** @param {Link} link */
function joinerOf(link) {
  const joiner = joiners.get(link) ?? new Joiner();
  joiners.set(link, joiner);
  return joiner;
}

/** Clients have come or gone, or have other sessions. */
function clientsChanged() {
  owners.named(new Set(sessions().map(({ id }) => id)));
  siteRules.setClients(clients.all);
  show();
}

/** The user has given or withdrawn access to sites: what may not be used ends now. */
function accessChanged() {
  frames.accessChanged();
  devtools?.release((tabId) => !siteAccess.has(tabs.get(tabId)?.url ?? ""));
  greetAgain();
  void injectIntoOpenTabs();
  show();
}

/** What this extension says first has changed. */
function greetAgain() {
  void native.greetAgain();
  void proxy.greetAgain();
}

/** The user or the administrator has changed the list of allowed origins. */
function originsChanged() {
  frames.endForbiddenOffers();
  frames.announceAgain();
}

/** End the sessions that no client has named for a minute. */
async function endUnnamed() {
  await loaded;
  await Promise.all(owners.expired(Date.now()).map((session) => sessionEnds.end(session)));
}

chrome.runtime.onConnect.addListener((port) => {
  if (port.name === FRAME_PORT) return frames.accept(port);
  if (port.name === POPUP_PORT) return popups.accept(port);
  if (port.name === APPROVAL_PORT) return prompts.accept(port);
  port.disconnect();
});
chrome.runtime.onInstalled.addListener(({ reason }) => {
  void injectIntoOpenTabs();
  if (reason === "install" || reason === "update") native.expect();
});
chrome.runtime.onStartup.addListener(() => {}); // The listener makes the browser start the worker.
chrome.alarms.onAlarm.addListener(({ name }) => {
  if (name === RETRY_ALARM) native.nudge();
  if (name === PROXY_ALARM) proxy.nudge();
  if (name === UNNAMED_ALARM) void endUnnamed();
  if (name === UPGRADE_ALARM) void upgrade.check();
});
// Allowed origins and pauses are kept there. Content scripts count as in a page's hands. Firefox has no such level.
void chrome.storage.local.setAccessLevel?.({ accessLevel: "TRUSTED_CONTEXTS" });
chrome.storage.onChanged.addListener((changes, area) => {
  if (LABEL_KEY in changes) greetAgain();
  if (area === "managed" && PROXY_POLICY.some((key) => key in changes)) void proxy.settingsChanged();
  if (area !== "session" && ALLOWED_ORIGINS in changes) void origins.load().then(() => originsChanged());
});

chrome.tabs.onCreated.addListener((tab) => void tabs.refresh(tab.id ?? chrome.tabs.TAB_ID_NONE));
chrome.tabs.onUpdated.addListener((tabId) => void tabs.refresh(tabId).then(show));
chrome.tabs.onAttached.addListener((tabId) => void tabs.refresh(tabId));
chrome.tabs.onActivated.addListener(({ tabId, windowId }) => {
  visits.activated(tabId, windowId);
  void tabs.activated(tabId, windowId);
});
chrome.tabs.onRemoved.addListener((tabId, { windowId }) => {
  icon.forget(tabId);
  visits.removed(tabId, { windowId, isOfClient: owners.ownerOf(tabId) !== null });
  currentTabs.removed(tabId);
  void loaded.then(() => left.removed(tabId));
  void tabs.removed(tabId).then(() => siteRules.removed(tabId));
});
chrome.tabs.onReplaced.addListener((added, removed) => {
  void loaded.then(() => {
    visits.rename(removed, added);
    currentTabs.rename(removed, added);
    left.rename(removed, added);
  });
  void tabs.replaced(added, removed).then(() => siteRules.replaced(added, removed));
});
chrome.webNavigation.onCreatedNavigationTarget.addListener(({ tabId, sourceTabId, url }) => {
  devtools?.onTabOpened(tabId, sourceTabId, url);
  void siteRules.opened(tabId, sourceTabId);
  void sessionTabs.opened(tabId, sourceTabId);
});
chrome.webNavigation.onBeforeNavigate.addListener((navigation) => void siteRules.began(navigation));
chrome.webNavigation.onCommitted.addListener((navigation) => void siteRules.committed(navigation));
chrome.webNavigation.onCommitted.addListener(({ tabId, frameId }) => {
  if (frameId !== 0) return;
  devtools?.onCommitted(tabId);
  icon.forget(tabId);
  void tabs.refresh(tabId).then(show);
});
chrome.webNavigation.onErrorOccurred.addListener((navigation) => void siteRules.failed(navigation));
chrome.windows.onFocusChanged.addListener((windowId) => {
  void visits.focused(windowId);
  void tabs.focused(windowId);
});

void loaded.then(() => upgrade.start());
show();
void native.connect();
void proxyLoaded.then(() => proxy.connect());
