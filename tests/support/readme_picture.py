"""`make picture`: the picture in README.md, made by `gif_creator` of an agent on the site of the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from tool_browser import Tools, open_browsing

PICTURE = Path(__file__).parents[2] / "docs/agent.gif"
MAX_BYTES = 1_500_000
"""It is in the repository."""


def main() -> None:
    """Make it anew."""
    with open_browsing() as browsing, browsing.client("picture") as tools:
        tools.open_site("search.html")
        tools.done("gif_creator", action="start_recording")
        act(tools, browsing.site.url)
        tools.done("gif_creator", action="stop_recording")
        exported = tools.done("gif_creator", action="export", options={"quality": 12})
        (link,) = exported.links
        picture = tools.read_resource(link.uri)
    if len(picture) > MAX_BYTES:
        sys.exit(f"it has {len(picture)} bytes, and {MAX_BYTES} are the limit")
    PICTURE.write_bytes(picture)
    print(f"docs/{PICTURE.name}: {len(picture)} bytes. {exported.text}")  # noqa: T201


def act(tools: Tools, site: str) -> None:
    """Find a book, fill in a form, drag something."""
    click(tools, '"Words"')
    tools.done("computer", action="type", text="brandt")
    tools.done("computer", action="key", text="Enter")
    click(tools, 'link "The Night Ferry"')
    click(tools, 'button "Reserve"')
    tools.done("navigate", url=f"{site}/membership-1.html")
    for words, value in (
        ('"Name"', "Ada Byron"),
        ('"Email"', "ada@example.org"),
        ('"Birthday"', "1815-12-10"),
    ):
        tools.done("form_input", ref=tools.ref_of(words), value=value)
    click(tools, 'button "Next"')
    tools.done("navigate", url=f"{site}/drag.html")
    drag(tools, "#novel", "#basket")
    drag(tools, "#atlas", "#basket")


def click(tools: Tools, words: str) -> None:
    """On what has these words in its line of `read_page`."""
    tools.done("computer", action="left_click", ref=tools.ref_of(words))


def drag(tools: Tools, start: str, end: str) -> None:
    """The middle of one element to the middle of another."""
    tab: int = tools.done("tabs_context").structured["selectedTabId"]
    corners = [
        tools.look(tab).evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
            f"(document.querySelector('{each}').getBoundingClientRect())"
        )
        for each in (start, end)
    ]
    tools.done("computer", action="left_click_drag", start_coordinate=corners[0], coordinate=corners[1])


if __name__ == "__main__":
    main()
