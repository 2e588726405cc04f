/**
 * Approval prompts: one small window at a time asks the user what a client may do. Prompts are answered once: the open
 * window and recent answers are in `chrome.storage.session`, since the browser may restart the worker meanwhile.
 * It decides nothing and stores no approval. Rules: docs/PROTOCOL.md, "browser/ask".
 */

import { invalid, text } from "./params.js";
import { onPortEnd } from "./port_end.js";
import { Code, WireError } from "./wire.js";

/**
 * @import { Prompt } from "./wire.js"
 * @typedef {{ prompt: Prompt, resolve: (choice: string) => void, reject: (error: WireError) => void }} Waiting
 * @typedef {{ prompt: Prompt, tabId: number, windowId: number }} OpenWindow
 * @typedef {{ prompt: Prompt, choice: string, at: number }} Given `choice`: empty when the user closed the window
 * @typedef {{ type: "answer", prompt: string, choice: string }} ApprovalMessage
 */

export const APPROVAL_PORT = "mcpb-approval";
export const BADGE_ONLY_KEY = "approvalBadgeOnly";
export const APPROVAL_PAGE = "approval/approval.html";

const KEY = "approvalPrompts";
const PROMPT_SECONDS = 120;
/** Prompts that may wait, the one in the window included. */
const MAX_WAITING = 16;
/** How long a window stays whose client's connection was lost with the last worker. */
const ORPHAN_MS = 15_000;
const MAX_TEXT = 4096;
const MAX_NAME = 200;
const CHOICES = new Set(["once", "session", "hour", "client", "always", "no"]);
const MEMBERS = ["prompt", "session", "client", "origin", "kind", "text", "choices"];
const WINDOW = { width: 480, height: 460 };

export class ApprovalPrompts {
  /** By id, in order; the first is shown. @type {Map<string, Waiting>} */
  #waiting = new Map();
  /** @type {OpenWindow | null} */
  #window = null;
  /** @type {Given[]} */
  #given = [];
  /** By tab. @type {Map<number, chrome.runtime.Port>} */
  #ports = new Map();
  /** Windows are opened and closed one after the other. @type {Promise<unknown>} */
  #turn = Promise.resolve();
  /** Until when a window of the last worker waits for its client to come back. */
  #orphanUntil = 0;
  #isBadgeOnly = false;
  /** The user wants to see the first prompt although there is only a badge. */
  #isWanted = false;

  /** @param {() => void} changed called when another number of prompts waits */
  constructor(changed) {
    this.changed = changed;
    chrome.tabs.onRemoved.addListener((tabId) => void this.#tabClosed(tabId));
    chrome.storage.onChanged.addListener((changes) => {
      if (BADGE_ONLY_KEY in changes) this.#isBadgeOnly = changes[BADGE_ONLY_KEY]?.newValue === true;
    });
    this.loaded = this.#load();
  }

  /** Read the open window, the recent answers and the user's setting. */
  async #load() {
    const [session, local] = await Promise.all([
      chrome.storage.session.get(KEY),
      chrome.storage.local.get(BADGE_ONLY_KEY),
    ]);
    const stored = /** @type {{ window?: OpenWindow | null, given?: Given[] }} */ (session[KEY] ?? {});
    this.#window ??= stored.window ?? null;
    this.#given = stored.given ?? [];
    this.#isBadgeOnly = local[BADGE_ONLY_KEY] === true;
    if (this.#window) {
      this.#orphanUntil = Date.now() + ORPHAN_MS;
      setTimeout(() => void this.#advance(), ORPHAN_MS);
    }
    this.changed();
  }

  /** Number of prompts that wait. */
  get count() {
    return this.#waiting.size;
  }

  /**
   * Ask the user.
   *
   * @param {any} params of `browser/ask`
   * @param {AbortSignal} signal the client waits no longer
   * @returns {Promise<{ choice: string }>}
   * @throws {WireError} the user closed the window, did not answer in time, or too many prompts wait
   */
  async ask(params, signal) {
    const prompt = readPrompt(params);
    await this.loaded;
    const given = this.#given.find((each) => isSame(each.prompt, prompt));
    if (given) return { choice: given.choice || dismissed() };
    if (signal.aborted) throw withdrawn();
    if (this.#waiting.has(prompt.prompt)) throw invalid("This prompt is open already.");
    if (this.#waiting.size >= MAX_WAITING) throw tooMany();
    /** @type {PromiseWithResolvers<string>} */
    const { promise, resolve, reject } = Promise.withResolvers();
    const timer = setTimeout(() => reject(late()), PROMPT_SECONDS * 1000);
    signal.addEventListener("abort", () => reject(withdrawn()));
    this.#waiting.set(prompt.prompt, { prompt, resolve, reject });
    this.#orphanUntil = 0; // the client is back, or another one waits
    void this.#advance();
    try {
      return { choice: await promise };
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(prompt.prompt);
      void this.#advance();
    }
  }

  /** Open the window although the user has chosen a badge only. */
  show() {
    this.#isWanted = true;
    void this.#advance();
  }

  /** @param {chrome.runtime.Port} port */
  accept(port) {
    const { url, tab } = port.sender ?? {};
    if (tab?.id === undefined || url !== chrome.runtime.getURL(APPROVAL_PAGE)) return port.disconnect();
    const tabId = tab.id;
    this.#ports.set(tabId, port);
    onPortEnd(port, () => this.#ports.get(tabId) === port && this.#ports.delete(tabId));
    port.onMessage.addListener((message) => void this.#answered(tabId, message));
    void this.#welcome(tabId);
  }

  /**
   * Show a prompt in the window that was opened for it. Another tab with this page, which a client or a restored
   * session has opened, is closed.
   *
   * @param {number} tabId
   */
  async #welcome(tabId) {
    await this.loaded;
    await this.#turn;
    if (this.#window?.tabId === tabId) return this.#tellPage();
    await chrome.tabs.remove(tabId).catch(() => {}); // closed meanwhile
  }

  /** Send the open window its prompt. */
  #tellPage() {
    if (!this.#window) return;
    const { tabId, prompt } = this.#window;
    this.#ports.get(tabId)?.postMessage(prompt);
  }

  /**
   * @param {number} tabId
   * @param {ApprovalMessage} message
   */
  async #answered(tabId, message) {
    await this.loaded;
    const open = this.#window;
    if (message?.type !== "answer" || open?.tabId !== tabId || open.prompt.prompt !== message.prompt) return;
    if (!open.prompt.choices.includes(message.choice)) return;
    this.#give(open.prompt, message.choice);
  }

  /** @param {number} tabId */
  async #tabClosed(tabId) {
    await this.loaded;
    this.#ports.delete(tabId);
    if (this.#window?.tabId !== tabId) return;
    const { prompt } = this.#window;
    this.#window = null;
    this.#give(prompt, "");
  }

  /**
   * Take the user's answer: the first one counts.
   *
   * @param {Prompt} prompt
   * @param {string} choice empty: the window was closed
   */
  #give(prompt, choice) {
    if (this.#given.some((each) => isSame(each.prompt, prompt))) return;
    const since = Date.now() - PROMPT_SECONDS * 1000;
    const recent = this.#given.filter(({ at }) => at > since).slice(1 - MAX_WAITING);
    this.#given = [...recent, { prompt, choice, at: Date.now() }];
    this.#save();
    const waiting = this.#waiting.get(prompt.prompt);
    if (choice) waiting?.resolve(choice);
    else waiting?.reject(closed());
    if (!waiting) void this.#advance();
  }

  /** Let the window show the first prompt that waits, and no other. */
  #advance() {
    this.changed();
    this.#turn = this.#turn.then(() => this.#openOrClose()).catch((error) => console.error(error));
    return this.#turn;
  }

  /** Make the window show the first prompt, or close it. */
  async #openOrClose() {
    const [first] = this.#waiting.values();
    if (!first) this.#isWanted = false;
    if (this.#window && !this.#belongs(this.#window, first)) await this.#close(this.#window);
    if (!first || this.#window || (this.#isBadgeOnly && !this.#isWanted)) return;
    await this.#open(first);
  }

  /**
   * Whether a window stays open: its prompt is the first one, or its client may still come back for it.
   *
   * @param {OpenWindow} open
   * @param {Waiting | undefined} first
   */
  #belongs({ prompt }, first) {
    if (this.#given.some((each) => isSame(each.prompt, prompt))) return false;
    if (this.#waiting.has(prompt.prompt)) return prompt.prompt === first?.prompt.prompt;
    return !first && Date.now() + 1 < this.#orphanUntil;
  }

  /** @param {OpenWindow} open */
  async #close({ tabId }) {
    this.#window = null; // before it is gone: the user has not closed it
    this.#save();
    await chrome.tabs.remove(tabId).catch(() => {}); // the user has just closed it
  }

  /** @param {Waiting} first */
  async #open({ prompt, reject }) {
    try {
      const url = chrome.runtime.getURL(APPROVAL_PAGE);
      const window = await chrome.windows.create({ url, type: "popup", focused: true, ...WINDOW });
      const tabId = window?.tabs?.[0]?.id;
      if (window?.id === undefined || tabId === undefined) throw new Error("the browser opened no window");
      this.#window = { prompt, tabId, windowId: window.id };
    } catch (error) {
      console.error(error);
      return reject(cannotOpen());
    }
    this.#save();
    this.#tellPage();
  }

  /** Keep the open window and the recent answers for a later worker. */
  #save() {
    void chrome.storage.session.set({ [KEY]: { window: this.#window, given: this.#given } });
  }
}

/**
 * The prompt that a request describes, its texts sanitized.
 *
 * @param {any} params
 * @returns {Prompt}
 */
function readPrompt(params) {
  const choices = Array.isArray(params.choices) ? params.choices.filter((/** @type {any} */ it) => CHOICES.has(it)) : [];
  if (choices.length === 0) throw invalid("choices must name at least one choice that this extension knows.");
  return {
    prompt: text(params, "prompt"),
    session: text(params, "session"),
    client: sanitize(text(params, "client"), MAX_NAME),
    origin: sanitize(text(params, "origin"), MAX_TEXT),
    kind: sanitize(text(params, "kind"), MAX_NAME),
    text: text(params, "text")
      .split("\n")
      .map((line) => sanitize(line, MAX_TEXT))
      .join("\n")
      .slice(0, MAX_TEXT),
    choices,
  };
}

/**
 * One line without control, format and bidirectional characters.
 *
 * @param {string} line
 * @param {number} length
 */
function sanitize(line, length) {
  return line.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, " ").slice(0, length);
}

/**
 * @param {Prompt} one
 * @param {Prompt} other
 */
function isSame(one, other) {
  return JSON.stringify(one, MEMBERS) === JSON.stringify(other, MEMBERS); // the storage sorts members
}

/** @returns {never} */
function dismissed() {
  throw closed();
}

/** The user has closed the window. */
function closed() {
  return notRun(Code.NOT_ALLOWED, "The user closed the window without an answer.");
}

/** The user has not answered in time. */
function late() {
  return notRun(Code.TIMED_OUT, `The user did not answer within ${PROMPT_SECONDS} s.`);
}

/** The client has gone, or cancelled its request. */
function withdrawn() {
  return notRun(Code.GONE, "The client waits for the answer no longer.");
}

/** The limit of waiting prompts is reached. */
function tooMany() {
  return notRun(Code.RATE_LIMITED, `${MAX_WAITING} prompts wait for the user already.`);
}

/** The browser has not opened the window. */
function cannotOpen() {
  return notRun(Code.NOT_ALLOWED, "The browser did not open a window to ask the user.");
}

/**
 * @param {number} code
 * @param {string} message
 */
function notRun(code, message) {
  return new WireError(code, message, { handed: false });
}
