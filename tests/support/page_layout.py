"""Layout of a page in a browser: text that is cut, elements that overlap, in each color scheme."""

from __future__ import annotations

import json
from typing import Any

from demo.chromium import Page

SCHEMES = ("dark", "light")
MEASURE = """((scrolled) => {
    const isSeen = (each) => each.checkVisibility({ visibilityProperty: true });
    const seen = [...document.querySelectorAll("body *")].filter(isSeen);
    const hasText = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const boxes = seen.filter((each) => hasText(each) || each.matches("button, input, select, textarea"));
    const name = (each) => `${each.localName}#${each.id} ${each.innerText}`;
    const box = (each) => each.getBoundingClientRect();
    const isWithin = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right
        && inner.top >= outer.top && inner.bottom <= outer.bottom;
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    // Text that wraps has one rectangle on each line.
    const doMeet = (one, other) => [...one.getClientRects()].some((a) =>
        [...other.getClientRects()].some((b) => meet(a, b)));
    const cut = seen.filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0
        || each.scrollHeight > each.clientHeight + 1 && each.clientHeight > 0 && !each.matches(scrolled));
    const isScrolled = (each) => each.closest(scrolled) !== null;
    const outside = boxes.filter((each) => !isScrolled(each) && !isWithin(box(each), box(document.body)));
    const overlapping = boxes.flatMap((one, index) => boxes.slice(index + 1)
        .filter((other) => !one.contains(other) && !other.contains(one) && doMeet(one, other))
        .map((other) => `${name(one)} / ${name(other)}`));
    const { scrollWidth, scrollHeight } = document.documentElement;
    return { size: [innerWidth, innerHeight], page: [scrollWidth, scrollHeight], cut: cut.map(name),
        outside: outside.map(name), overlapping };
})"""


async def choose_scheme(page: Page, scheme: str) -> None:
    """Let the page be shown as if the user prefers this color scheme."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    await page.send("Emulation.setEmulatedMedia", {"features": features})
    await page.wait_until(f"matchMedia('(prefers-color-scheme: {scheme})').matches")


async def measure_layout(page: Page, scrolled: str) -> dict[str, Any]:
    """Return sizes, and the elements that are cut, outside of the body, or overlap.

    `scrolled` selects the element that scrolls its content.
    """
    measured: dict[str, Any] = await page.evaluate(f"{MEASURE}({json.dumps(scrolled)})")
    return measured
