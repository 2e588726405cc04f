/**
 * The status page, kept up to date: the server says that something has changed, and the page asks what there is now.
 * Without this script it shows the same and is reloaded.
 */

export {};

const SEARCH_MS = 150;
const SHOWN_MS = 1_500;
const SIGN_IN = "You are not signed in any more. Run in a terminal: mcpb status --web";
const SILENT = "mcpb serve does not answer. If it has ended, start it again: mcpb serve";

document.documentElement.classList.add("scripted");
document.addEventListener("click", ({ target }) => {
  const button = /** @type {Element} */ (target).closest("button");
  if (button?.dataset["copy"]) void copy(button);
});
const page = document.getElementById("now");
if (page) watch(page);

/** @param {HTMLElement} page */
function watch(page) {
  /** @type {EventSource | null} */
  let events = null;
  /** Answers that come late are not shown. */
  let asked = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;

  document.addEventListener("visibilitychange", listen);
  page.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, SEARCH_MS);
  });
  page.addEventListener("click", ({ target }) => {
    const button = /** @type {Element} */ (target).closest("button");
    if (button?.dataset["pause"]) void pause(button);
    if (button?.dataset["revoke"]) void revoke(button);
  });
  listen();

  /** Nobody is told of changes while nobody looks. */
  function listen() {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events || events.readyState === EventSource.CLOSED) {
      events = new EventSource("/page/events");
      events.addEventListener("changed", () => void refresh());
      events.addEventListener("error", () => void lost());
    }
  }

  /** The browser tries again by itself unless we were refused: then we ask why. */
  async function lost() {
    say(SILENT);
    if (events?.readyState === EventSource.CLOSED) await refresh();
  }

  async function refresh() {
    const number = ++asked;
    const answer = await ask(`/page/now?${new URLSearchParams({ q: searched() })}`);
    if (!answer || number !== asked) return;
    const text = await answer.text();
    if (number !== asked) return;
    const fresh = document.createElement("main");
    fresh.innerHTML = text;
    become(page, fresh);
    say("");
  }

  /** @param {HTMLButtonElement} button */
  async function pause({ dataset }) {
    await change("/page/pause", { [String(dataset["pause"])]: dataset["who"], paused: dataset["paused"] === "true" });
  }

  /** @param {HTMLButtonElement} button */
  async function revoke({ dataset }) {
    const words = String(dataset["words"]).split(",");
    await change("/page/revoke", { origin: dataset["revoke"], for: words, client: dataset["client"] });
  }

  /**
   * @param {string} url
   * @param {object} body
   */
  async function change(url, body) {
    const answer = await ask(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mcpb-Page": "1" },
      body: JSON.stringify(body),
    });
    if (!answer) return;
    const { errors } = await answer.json();
    await refresh();
    if (errors.length > 0) say(errors.join(" "));
  }
}

/**
 * The answer, if it is a good one; else the person is told.
 *
 * @param {string} url
 * @param {RequestInit} [request]
 */
async function ask(url, request) {
  try {
    const answer = await fetch(url, request);
    if (answer.ok) return answer;
    say(answer.status === 401 ? SIGN_IN : (await answer.json()).error.message);
  } catch {
    say(SILENT);
  }
  return null;
}

/** Tell the person what is wrong; nothing, when all is well. @param {string} trouble */
function say(trouble) {
  const place = /** @type {HTMLElement} */ (document.getElementById("trouble"));
  if (place.textContent !== trouble) place.textContent = trouble;
  place.hidden = !trouble;
  const state = /** @type {HTMLElement} */ (document.getElementById("state"));
  const word = trouble ? "Not up to date" : "Live";
  if (state.textContent !== word) state.textContent = word;
  state.className = trouble ? "bad" : "good";
  document.documentElement.classList.toggle("stale", trouble !== "");
}

/** @param {HTMLButtonElement} button */
async function copy(button) {
  try {
    await navigator.clipboard.writeText(String(button.dataset["copy"]));
  } catch {
    const text = button.parentElement?.querySelector("code");
    if (text) getSelection()?.selectAllChildren(text);
    return;
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), SHOWN_MS);
}

function searched() {
  return /** @type {HTMLInputElement | null} */ (document.getElementById("search"))?.value ?? "";
}

/**
 * Make an element what a fresh one is, changing no more than is another: the focus, what is selected and what
 * has been opened stay.
 *
 * @param {Element} old
 * @param {Element} fresh
 */
function become(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  /** @type {Node | null} */
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = counterpart(old, next, child);
    if (!same) {
      old.insertBefore(child, next);
      continue;
    }
    if (same === next) next = next.nextSibling;
    else old.insertBefore(same, next);
    if (same instanceof Element && child instanceof Element) become(same, child);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    old.removeChild(gone);
  }
}

/**
 * What a fresh child is now: the one with its id, or else the next one if it is of the same kind.
 *
 * @param {Element} old
 * @param {Node | null} next
 * @param {Node} child
 */
function counterpart(old, next, child) {
  const id = idOf(child);
  if (id) return [...old.children].find((each) => each.id === id) ?? null;
  return next && next.nodeName === child.nodeName && !idOf(next) ? next : null;
}

/** @param {Node} node */
function idOf(node) {
  return node instanceof Element ? node.id : "";
}
