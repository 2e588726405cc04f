/** Where an element is, and whether a click there would reach it. Everything in CSS pixels of this frame's viewport. */

const STABLE_MS = 2_000;
/** An animation that has just been started does not move in its first frame. */
const STILL_FRAMES = 2;
/** So far inside its edges a point is surely the element's. */
const INSET = 2;

/** @param {{ref: number, scroll?: boolean}} given */
async function placeOf({ ref, scroll = true }) {
  const element = elementOf(ref);
  let spot = spotOf(element);
  if (scroll) {
    if (!spot.inView || spot.cover) scrollToMiddle(element);
    spot = await whenStill(element);
  }
  elementOf(ref);
  const { box, point, cover } = spot;
  const role = kindOf(element);
  return {
    role,
    name: nameOf(element, role).text || contentOf(element, 60),
    x: point.x,
    y: point.y,
    width: box.width,
    height: box.height,
    viewport: { width: innerWidth, height: innerHeight },
    visible: spot.visible,
    covered: cover ? inWords(cover) : "",
    disabled: isDisabled(element),
    moving: spot.moving,
  };
}

/** @param {{ref: number}} given */
async function scrollToElement({ ref }) {
  scrollToMiddle(elementOf(ref));
  return placeOf({ ref });
}

/** @param {Element} element */
function scrollToMiddle(element) {
  scrollIntoView(boxed(element), { block: "center", inline: "center", behavior: "instant" });
}

/**
 * @typedef {object} Spot
 * @property {{x: number, y: number}} point where to click
 * @property {DOMRect} box
 * @property {boolean} visible it is drawn, and has a size
 * @property {boolean} inView the point is in the viewport
 * @property {Element | null} cover what is hit instead
 * @property {boolean} moving
 */

/** Its spot once it has stood in one place for some frames; a page that draws none is not waited for.
 * @param {Element} element @returns {Promise<Spot>} */
async function whenStill(element) {
  const until = performance.now() + STABLE_MS;
  let before = outerRectOf(boxed(element));
  let frames = isHiddenDocument(document) ? STILL_FRAMES : 0;
  while (frames < STILL_FRAMES && performance.now() < until) {
    await nextFrame();
    const now = outerRectOf(boxed(element));
    const isStill =
      now.x === before.x && now.y === before.y && now.width === before.width && now.height === before.height;
    frames = isStill ? frames + 1 : 0;
    before = now;
  }
  return { ...spotOf(element), moving: frames < STILL_FRAMES };
}

/** @param {Element} element @returns {Spot} */
function spotOf(element) {
  const target = boxed(element);
  const box = outerRectOf(target);
  const visible = box.width > 0 && box.height > 0 && isRendered(target);
  const points = visible ? pointsOf(target, box) : [];
  /** @type {Element | null} */
  let cover = null;
  for (const point of points) {
    const hit = elementAt(point.x, point.y);
    if (hit && reaches(element, hit)) return { point, box, visible, inView: true, cover: null, moving: false };
    cover ??= hit;
  }
  const point = points[0] ?? middleOf(box);
  return { point, box, visible, inView: points.length > 0, cover, moving: false };
}

/** The element, or what of it has a box: a link may be nothing but the picture in it.
 * @param {Element} element */
function boxed(element) {
  const waiting = [element];
  for (let seen = 0; waiting.length && seen < 200; seen++) {
    const candidate = /** @type {Element} */ (waiting.shift());
    const { width, height } = outerRectOf(candidate);
    if (width > 0 && height > 0) return candidate;
    for (const child of shownChildren(candidate)) if (child instanceof Element) waiting.push(child);
  }
  return element;
}

/** Points of what is in the viewport: middles first, then corners.
 * @param {Element} element @param {DOMRect} box */
function pointsOf(element, box) {
  const rects = [box, ...Array.from(rectsOf(element)).slice(0, 10)].map(inViewport).filter((rect) => rect !== null);
  return [...rects.map(middleOf), ...rects.flatMap(cornersOf)];
}

/** @param {DOMRect} rect */
function inViewport(rect) {
  const left = Math.max(0, rect.left);
  const top = Math.max(0, rect.top);
  const width = Math.min(innerWidth, rect.right) - left;
  const height = Math.min(innerHeight, rect.bottom) - top;
  return width > 0 && height > 0 ? new DOMRect(left, top, width, height) : null;
}

/** @param {DOMRect} rect */
function middleOf({ x, y, width, height }) {
  return { x: x + width / 2, y: y + height / 2 };
}

/** @param {DOMRect} rect */
function cornersOf({ left, right, top, bottom, width, height }) {
  const across = Math.min(INSET, width / 2);
  const down = Math.min(INSET, height / 2);
  return [
    { x: left + across, y: top + down },
    { x: right - across, y: top + down },
    { x: left + across, y: bottom - down },
    { x: right - across, y: bottom - down },
  ];
}

/** Whether a click on `hit` is one on the element.
 * @param {Element} element @param {Element} hit */
function reaches(element, hit) {
  if (holds(element, hit)) return true;
  const label = closest(hit, "label");
  if (label instanceof HTMLLabelElement && label.control === element) return true;
  if (element instanceof HTMLLabelElement && element.control && holds(element.control, hit)) return true;
  // It lets clicks through: those go to what it is a part of.
  return getComputedStyle(element).pointerEvents === "none" && holds(hit, element);
}

/** How many steps outwards what is acted on is looked for. */
const MAX_OUTWARDS = 10;

/** What is at a point: the control, if it is a part of one; and whether a click there is one on the element `ref`.
 * @param {{x: number, y: number, ref?: number}} given */
function hitAt({ x, y, ref: meant = 0 }) {
  const deepest = elementAt(x, y);
  if (!deepest) return { ref: 0, role: "", name: "", isFrame: false, opens: "", reached: false, next: nextRef };
  const element = actedOn(deepest);
  const isPage = element === bodyOf(document) || element === documentElementOf(document);
  const role = isPage ? "page" : kindOf(element);
  const name = isPage ? "" : nameOf(element, role).text || contentOf(element, 60);
  const reached = meant > 0 && reaches(elementOf(meant), deepest);
  const isFrame = role === "iframe";
  return { ref: refOf(element), role, name, isFrame, opens: opensOutside(element), reached, next: nextRef };
}

/** What a click opens that is no part of the page. @param {Element} element */
function opensOutside(element) {
  if (element instanceof HTMLSelectElement) return element.multiple || element.size > 1 ? "" : "list";
  if (!(element instanceof HTMLInputElement)) return "";
  return element.type === "file" ? "files" : element.type === "color" ? "colours" : "";
}

/** @param {Element} deepest */
function actedOn(deepest) {
  /** @type {Element | null} */
  let element = deepest;
  for (let steps = 0; element && steps < MAX_OUTWARDS; steps++) {
    if (isInteractive(element, roleOf(element), isPointedAt(element, getComputedStyle(element)))) return element;
    if (element instanceof HTMLLabelElement && element.control) return element.control;
    element = shownParent(element);
  }
  return deepest;
}
