/**
 * Mouse, keyboard and screenshots for clients without tools of their own: `click`, `hover`, `type`, `screenshot`.
 * Each is a few DevTools commands of the client, which are allowed or rejected like those that it sends itself.
 * Rules: docs/PROXY_PROTOCOL.md.
 */

import { flag, integer, invalid, optionalText, text } from "./params.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Command } from "./requests.js"
 * @typedef {{ x: number, y: number }} Point in CSS pixels of the viewport
 * @typedef {(method: string, params: object) => Promise<any>} Send a DevTools command to the tab of the request
 */

/** Bits of `buttons`. devtools_allowlist.js rejects the middle one. @type {Record<string, number>} */
const BUTTONS = { left: 1, right: 2, middle: 4 };
const MOST_CLICKS = 3;
/** @type {Record<string, string>} */
const FORMATS = { png: "image/png", jpeg: "image/jpeg", webp: "image/webp" };
const ENTER = { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13 };

/**
 * @param {Command} forward `forwardCDPCommand`
 * @returns {Record<string, Command>} by method
 */
export function interaction(forward) {
  return {
    click: withTab(forward, click),
    hover: withTab(forward, hover),
    type: withTab(forward, type),
    screenshot: withTab(forward, screenshot),
  };
}

/**
 * @param {Command} forward
 * @param {(send: Send, params: any) => Promise<object>} act
 * @returns {Command}
 */
function withTab(forward, act) {
  return (params, asked) => {
    const { tabId, session } = params;
    return act(async (method, command) => forward({ tabId, session, method, params: command }, asked), params);
  };
}

/** @param {Send} send @param {any} params */
async function click(send, params) {
  const button = optionalText(params, "button") || "left";
  const clicks = params.clickCount == null ? 1 : integer(params, "clickCount");
  if (!Object.hasOwn(BUTTONS, button)) throw invalid(`button is ${Object.keys(BUTTONS).join(", ")}, not ${button}.`);
  if (clicks < 1 || clicks > MOST_CLICKS) throw invalid(`clickCount is 1 to ${MOST_CLICKS}, not ${clicks}.`);
  const point = await pointOf(send, params);
  await mouse(send, { ...point, type: "mouseMoved" });
  for (let clickCount = 1; clickCount <= clicks; clickCount += 1) {
    const press = { ...point, button, clickCount };
    await mouse(send, { ...press, type: "mousePressed", buttons: BUTTONS[button] });
    await mouse(send, { ...press, type: "mouseReleased" });
  }
  return {};
}

/** @param {Send} send @param {any} params */
async function hover(send, params) {
  await mouse(send, { ...(await pointOf(send, params)), type: "mouseMoved" });
  return {};
}

/** @param {Send} send @param {any} params */
async function type(send, params) {
  const [selector, submits] = [optionalText(params, "selector"), flag(params, "submit")];
  if (typeof params.text !== "string") throw invalid("text must be a text.");
  if (selector) await evaluate(send, FOCUS, selector);
  if (params.text) await send("Input.insertText", { text: params.text });
  if (!submits) return {};
  await send("Input.dispatchKeyEvent", { type: "keyDown", text: "\r", ...ENTER });
  await send("Input.dispatchKeyEvent", { type: "keyUp", ...ENTER });
  return {};
}

/** Pixels of the picture are CSS pixels, as those of `click`. @param {Send} send @param {any} params */
async function screenshot(send, params) {
  const format = optionalText(params, "format") || "png";
  if (!Object.hasOwn(FORMATS, format)) throw invalid(`format is ${Object.keys(FORMATS).join(", ")}, not ${format}.`);
  const quality = params.quality == null ? {} : { quality: integer(params, "quality") };
  const isWhole = flag(params, "fullPage");
  const { cssContentSize, cssVisualViewport, visualViewport } = await send("Page.getLayoutMetrics", {});
  const { pageX, pageY, clientWidth, clientHeight } = cssVisualViewport;
  const [x, y] = isWhole ? [0, 0] : [pageX, pageY];
  const [width, height] = isWhole ? [cssContentSize.width, cssContentSize.height] : [clientWidth, clientHeight];
  const clip = { x, y, width, height, scale: clientWidth / visualViewport.clientWidth };
  const { data } = await send("Page.captureScreenshot", { format, ...quality, clip, captureBeyondViewport: isWhole });
  return { data, mimeType: FORMATS[format], width: Math.round(width), height: Math.round(height) };
}

/** @param {Send} send @param {object} params */
function mouse(send, params) {
  return send("Input.dispatchMouseEvent", params);
}

/**
 * Where a request points to: its coordinates, or the middle of the element that its selector finds.
 *
 * @param {Send} send
 * @param {any} params
 * @returns {Promise<Point>}
 */
async function pointOf(send, params) {
  if (optionalText(params, "selector")) return evaluate(send, MIDDLE, text(params, "selector"));
  const { x, y } = params;
  if (Number.isFinite(x) && Number.isFinite(y)) return { x, y };
  throw invalid("Give a selector, or the numbers x and y.");
}

/** Scrolls it into view. A page may make nonsense of it, but only for clicks into itself. */
const MIDDLE = `(element) => {
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const { left, top, width, height } = element.getClientRects()[0] ?? {};
  return width === undefined ? null : { x: left + width / 2, y: top + height / 2 };
}`;
const FOCUS = `(element) => { element.focus(); return {}; }`;

/**
 * Run a function on the first element that a selector finds.
 *
 * @param {Send} send
 * @param {string} source of the function, which returns an object, or null if the element is not displayed
 * @param {string} selector
 * @returns {Promise<any>}
 */
async function evaluate(send, source, selector) {
  const expression = `(() => {
    const element = document.querySelector(${JSON.stringify(selector)});
    return element && (${source})(element);
  })()`;
  const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true });
  if (exceptionDetails) throw invalid(`${selector} is not a CSS selector.`);
  const found = result?.value;
  if (found) return found;
  const what = `${selector} finds no element that is displayed in the page. Look at the page again.`;
  throw new WireError(Code.INTERNAL_ERROR, what, { handed: true });
}
