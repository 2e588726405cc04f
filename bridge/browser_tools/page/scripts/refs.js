/** Elements by number: a number means one element for ever, and an element keeps its number while it lives. */

/**
 * What cannot be done: a word for programs, then a sentence for who asked.
 * @param {"stale" | "unfit" | "hidden" | "disabled"} kind
 * @param {string} sentence
 */
function failure(kind, sentence) {
  return new Error(`${kind}: ${sentence}`);
}

let nextRef = 1;
/** @type {WeakMap<Element, number>} */
const refs = new WeakMap();
/** @type {Map<number, WeakRef<Element>>} */
const elements = new Map();
/** @type {FinalizationRegistry<number>} */
const ended = new FinalizationRegistry((ref) => void elements.delete(ref));

/** @param {{next?: number}} given */
function begin({ next = 1 }) {
  nextRef = Math.max(nextRef, next);
  return { next: nextRef };
}

/** @param {Element} element */
function refOf(element) {
  let ref = refs.get(element);
  if (ref === undefined) {
    ref = nextRef++;
    refs.set(element, ref);
    elements.set(ref, new WeakRef(element));
    ended.register(element, ref);
  }
  return ref;
}

/** @param {number} ref */
function elementOf(ref) {
  const element = elements.get(ref)?.deref();
  if (!element || !isConnected(element))
    throw failure(
      "stale",
      "The element is not in the page any more: read_page and find give refs of what is there now.",
    );
  return element;
}

/** For DevTools: the element itself, or null. @param {{ref: number}} given */
function elementItself({ ref }) {
  const element = elements.get(ref)?.deref();
  return element && isConnected(element) ? element : null;
}

/** @param {Element} host @param {ShadowRoot} root */
function adopt(host, root) {
  closedRoots.set(host, root);
}

const MAX_HOSTS = 50;
const ASK_AGAIN_MS = 10_000;
const MAX_HOST_WALK = 100_000;

/** Elements that may have a closed shadow tree, without those reported a moment ago. */
function hostsWithoutRoot() {
  const hosts = [];
  const page = documentElementOf(document);
  /** @type {Element[]} */
  const waiting = page ? [page] : [];
  for (let seen = 0; waiting.length && seen < MAX_HOST_WALK && hosts.length < MAX_HOSTS; seen++) {
    const element = /** @type {Element} */ (waiting.pop());
    if (!shadowOf(element) && mayHaveClosedRoot(element) && isDue(element)) hosts.push(refOf(element));
    for (const child of shownChildren(element).reverse()) if (child instanceof Element) waiting.push(child);
  }
  return { hosts, next: nextRef };
}

/** When it was last asked for: most have none, and each costs DevTools two commands.
 * @type {WeakMap<Element, number>} */
const askedAt = new WeakMap();

/** @param {Element} element */
function isDue(element) {
  const now = performance.now();
  if (now - (askedAt.get(element) ?? -Infinity) < ASK_AGAIN_MS) return false;
  askedAt.set(element, now);
  return true;
}

/** A page can close a root of a plain element too: then nothing shown is in its light tree, and yet it has a size.
 * @param {Element} element */
function mayHaveClosedRoot(element) {
  const tag = tagOf(element);
  if (tag.includes("-")) return true;
  if (!PLAIN_HOSTS.has(tag) || childNodesOf(element).length) return false;
  return outerRectOf(element).height > 0;
}

const PLAIN_HOSTS = new Set("article aside blockquote div footer header main nav p section span".split(" "));
