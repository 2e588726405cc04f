/**
 * Script of the status page: requests the new content after each change that the server announces.
 * Without this script the page shows the same content and is reloaded.
 */

export {};

const SEARCH_MS = 150;
const SHOWN_MS = 1_500;
const SIGN_IN = "You are no longer signed in. Run in a terminal: mcpb status --web";
const SILENT = "mcpb serve does not respond. If it has ended, start it again: mcpb serve";

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
  /** Number of the latest request: responses to earlier ones are not shown. */
  let requests = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  document.addEventListener("visibilitychange", listen);
  page.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, SEARCH_MS);
  });
  page.addEventListener("click", ({ target }) => {
    const button = /** @type {Element} */ (target).closest("button");
    if (button?.dataset["pause"]) void pause(button);
    if (button?.dataset["revoke"]) void revoke(button);
  });
  listen();

  /** Receive events while the page is visible. */
  function listen() {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events || events.readyState === EventSource.CLOSED) {
      events = new EventSource("/page/events");
      events.addEventListener("changed", () => void refresh());
      events.addEventListener("error", () => void showLoss());
    }
  }

  /** Show the loss of the server. The browser reconnects by itself unless it was rejected; then find the reason. */
  async function showLoss() {
    showProblem(SILENT);
    if (events?.readyState === EventSource.CLOSED) await refresh();
  }

  async function refresh() {
    const number = ++requests;
    const response = await send(`/page/now?${new URLSearchParams({ q: searchText() })}`);
    if (!response || number !== requests) return;
    const text = await response.text();
    if (number !== requests) return;
    const fresh = document.createElement("main");
    fresh.innerHTML = text;
    update(page, fresh);
    showProblem("");
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
    const response = await send(url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mcpb-Page": "1" },
      body: JSON.stringify(body),
    });
    if (!response) return;
    const { errors } = await response.json();
    await refresh();
    if (errors.length > 0) showProblem(errors.join(" "));
  }
}

/**
 * Send a request. Return its response if it succeeded; otherwise show the reason and return null.
 *
 * @param {string} url
 * @param {RequestInit} [request]
 */
async function send(url, request) {
  try {
    const response = await fetch(url, request);
    if (response.ok) return response;
    showProblem(response.status === 401 ? SIGN_IN : (await response.json()).error.message);
  } catch {
    showProblem(SILENT);
  }
  return null;
}

/** Show a problem; an empty text hides it. @param {string} problem */
function showProblem(problem) {
  const place = /** @type {HTMLElement} */ (document.getElementById("trouble"));
  if (place.textContent !== problem) place.textContent = problem;
  place.hidden = !problem;
  const state = /** @type {HTMLElement} */ (document.getElementById("state"));
  const word = problem ? "Not up to date" : "Live";
  if (state.textContent !== word) state.textContent = word;
  state.className = problem ? "bad" : "good";
  document.documentElement.classList.toggle("stale", problem !== "");
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

function searchText() {
  return /** @type {HTMLInputElement | null} */ (document.getElementById("search"))?.value ?? "";
}

/**
 * Make an element equal to a fresh one with as few changes as possible, so that focus, selection and open
 * details stay.
 *
 * @param {Element} old
 * @param {Element} fresh
 */
function update(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  /** @type {Node | null} */
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = findCurrent(old, next, child);
    if (!same) {
      old.insertBefore(child, next);
      continue;
    }
    if (same === next) next = next.nextSibling;
    else old.insertBefore(same, next);
    if (same instanceof Element && child instanceof Element) update(same, child);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    old.removeChild(gone);
  }
}

/**
 * Find the current node of a fresh child: the one with its id, or else the next one if it has the same name.
 *
 * @param {Element} old
 * @param {Node | null} next
 * @param {Node} child
 */
function findCurrent(old, next, child) {
  const id = idOf(child);
  if (id) return [...old.children].find((each) => each.id === id) ?? null;
  return next && next.nodeName === child.nodeName && !idOf(next) ? next : null;
}

/** @param {Node} node */
function idOf(node) {
  return node instanceof Element ? node.id : "";
}
