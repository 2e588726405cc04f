/**
 * Allow-list of the DevTools commands that clients may send, with rules for their parameters, and of the events that
 * they may subscribe to.
 *
 * It contains only what mcpb's own bridge uses. `tab_access.js` decides about tabs, sessions and sites.
 */

import { invalid } from "./params.js";

/**
 * @typedef {Record<string, any>} Params
 * @typedef {(params: Params) => void} Rule throws a WireError when the parameters are rejected
 */

/** Bits of `modifiers`. */
const [CONTROL, META, SHIFT] = [2, 4, 8];
/** Editing commands that change neither the clipboard's reader nor the page's address. */
const EDITING = new Set(["selectAll", "copy", "cut", "undo", "redo"]);
/** The parameters of a key event. `nativeVirtualKeyCode` is left out: it would name a key in a second way. */
const KEY_PARAMS = new Set(
  "type key code windowsVirtualKeyCode location modifiers text unmodifiedText commands autoRepeat isKeypad".split(" "),
);
const V_KEY = 86;
const INSERT_KEY = 45;

/** @type {ReadonlyMap<string, Rule>} by method */
export const ALLOWED_COMMANDS = new Map([
  ...unrestricted(
    ["DOM", "describeNode getBoxModel getFrameOwner resolveNode scrollIntoViewIfNeeded"],
    ["Input", "insertText setInterceptDrags"],
    ["Log", "enable disable"],
    ["Network", "enable disable getResponseBody"],
    ["Page", "captureScreenshot getFrameTree getLayoutMetrics handleJavaScriptDialog printToPDF"],
    ["Page", "setInterceptFileChooserDialog stopLoading"],
    ["Runtime", "callFunctionOn disable enable evaluate getProperties releaseObjectGroup terminateExecution"],
  ),
  ["Input.dispatchDragEvent", checkDragEvent],
  ["Input.dispatchKeyEvent", checkKeyEvent],
  ["Input.dispatchMouseEvent", checkMouseEvent],
  ["Page.createIsolatedWorld", checkIsolatedWorld],
]);

/** Without `Network.…ExtraInfo`, which carry cookies. @type {ReadonlySet<string>} */
export const ALLOWED_EVENTS = new Set(
  methods(
    ["Input", "dragIntercepted"],
    ["Inspector", "targetCrashed"],
    ["Log", "entryAdded"],
    ["Network", "loadingFailed loadingFinished requestServedFromCache requestWillBeSent responseReceived"],
    ["Network", "webSocketClosed webSocketCreated webSocketFrameError webSocketHandshakeResponseReceived"],
    ["Page", "documentOpened downloadWillBegin fileChooserOpened frameAttached frameDetached frameNavigated"],
    ["Page", "frameStartedNavigating frameStoppedLoading javascriptDialogClosed javascriptDialogOpening"],
    ["Page", "loadEventFired navigatedWithinDocument"],
    ["Runtime", "consoleAPICalled exceptionRevoked exceptionThrown executionContextCreated executionContextsCleared"],
    ["Target", "attachedToTarget detachedFromTarget"],
    ["mcpb", "download eventDropped subscribed"],
  ),
);

/**
 * @param {string} method
 * @param {Params} params
 * @throws {import("./wire.js").WireError} no client may send it
 */
export function checkCommand(method, params) {
  const check = ALLOWED_COMMANDS.get(method);
  if (!check) throw invalid(`${method} is not on the extension's list of allowed DevTools commands.`);
  check(params);
}

/**
 * @param {Iterable<string>} events
 * @throws {import("./wire.js").WireError} no client may subscribe to one of them
 */
export function checkEvents(events) {
  for (const event of events)
    if (!ALLOWED_EVENTS.has(event)) throw invalid(`${event} is not on the extension's list of allowed DevTools events.`);
}

/**
 * The parameters of an event without cookies: that of a WebSocket's handshake has all headers as they were sent.
 *
 * @param {string} method
 * @param {Params} params
 */
export function withoutCookies(method, params) {
  if (method !== "Network.webSocketHandshakeResponseReceived") return params;
  const { status, statusText, headers } = params.response;
  const kept = Object.entries(headers).filter(([name]) => name.toLowerCase() !== "set-cookie");
  return { ...params, response: { status, statusText, headers: Object.fromEntries(kept) } };
}

/**
 * @param {...[domain: string, commands: string]} groups
 * @returns {[string, Rule][]}
 */
function unrestricted(...groups) {
  return methods(...groups).map((method) => [method, () => {}]);
}

/** @param {...[domain: string, names: string]} groups */
function methods(...groups) {
  return groups.flatMap(([domain, names]) => names.split(" ").map((name) => `${domain}.${name}`));
}

/** A drop can name files of the machine, as `DOM.setFileInputFiles` does. @type {Rule} */
function checkDragEvent({ data }) {
  if (data?.files !== undefined) throw invalid("Input.dispatchDragEvent cannot carry files: use file_upload.");
}

/** The clipboard belongs to the user. @type {Rule} */
function checkKeyEvent(params) {
  const unknown = Object.keys(params).find((name) => !KEY_PARAMS.has(name));
  if (unknown) throw invalid(`Input.dispatchKeyEvent with ${unknown} is not allowed.`);
  const commands = params.commands ?? [];
  if (!Array.isArray(commands) || !commands.every((command) => EDITING.has(command)))
    throw invalid(`Input.dispatchKeyEvent allows these editing commands: ${[...EDITING].join(", ")}.`);
  if (isPaste(params)) throw invalid("Paste keys are not allowed: they insert the user's clipboard. Use Input.insertText.");
}

/** @param {Params} params */
function isPaste({ key, code, windowsVirtualKeyCode: number, modifiers = 0 }) {
  const isKey = (/** @type {string} */ name, /** @type {string} */ physical, /** @type {number} */ virtual) =>
    String(key).toLowerCase() === name || code === physical || number === virtual;
  if (isKey("v", "KeyV", V_KEY)) return (modifiers & (CONTROL | META)) !== 0;
  if (isKey("insert", "Insert", INSERT_KEY)) return (modifiers & SHIFT) !== 0;
  return String(key).toLowerCase() === "paste" || code === "Paste";
}

/** On Linux the middle button pastes what the user has selected anywhere. @type {Rule} */
function checkMouseEvent({ button }) {
  if (button === "middle") throw invalid("The middle mouse button is not allowed: it pastes on Linux.");
}

/** @type {Rule} */
function checkIsolatedWorld(params) {
  // The protocol spells it so.
  if (params.grantUniveralAccess) throw invalid("Page.createIsolatedWorld cannot grant access to other origins.");
}
