/** What scrolls around a point, and how far it is. */

const SCROLL_STILL_FRAMES = 4;
const SCROLL_MS = 2_000;
const MAX_SCROLLERS = 20;

/** What scrolls around a point, the innermost first, or these refs once they stand still.
 * @param {{x?: number, y?: number, refs?: number[]}} given */
async function scrollersAt({ x = 0, y = 0, refs: known = [] }) {
  const found = known.length ? known.map((ref) => elementItself({ ref })) : scrollersAround(elementAt(x, y));
  const there = found.filter((element) => element !== null);
  if (known.length) await whenScrolled(there);
  return { scrollers: there.map(howFar), next: nextRef };
}

/** @param {Element | null} innermost */
function scrollersAround(innermost) {
  /** @type {Element[]} */
  const found = [];
  for (let element = innermost; element && found.length < MAX_SCROLLERS; element = shownParent(element)) {
    if (canScroll(element)) found.push(element);
  }
  const page = scrollerOf(document);
  return page && !found.includes(page) ? [...found, page] : found;
}

/** @param {Element} element */
function canScroll(element) {
  if (element === scrollerOf(document)) return true;
  const { overflowX, overflowY } = getComputedStyle(element);
  const has = (/** @type {string} */ overflow) => overflow === "auto" || overflow === "scroll";
  return (
    (has(overflowY) && scrollHeightOf(element) > clientHeightOf(element)) ||
    (has(overflowX) && scrollWidthOf(element) > clientWidthOf(element))
  );
}

/** @param {Element} element */
function howFar(element) {
  const isPage = element === scrollerOf(document);
  const role = kindOf(element);
  return {
    ref: refOf(element),
    isPage,
    role: isPage ? "page" : role,
    name: isPage ? "" : nameOf(element, role).text,
    left: scrollLeftOf(element),
    top: scrollTopOf(element),
    maxLeft: scrollWidthOf(element) - clientWidthOf(element),
    maxTop: scrollHeightOf(element) - clientHeightOf(element),
  };
}

/** A wheel's way is animated: it is over when nothing has moved for some frames.
 * @param {Element[]} elements */
async function whenScrolled(elements) {
  const until = performance.now() + SCROLL_MS;
  const places = () => elements.map((element) => `${scrollLeftOf(element)} ${scrollTopOf(element)}`).join();
  let before = places();
  for (let still = 0; still < SCROLL_STILL_FRAMES && performance.now() < until; still++) {
    await nextFrame();
    const now = places();
    if (now !== before) still = 0;
    before = now;
  }
}
