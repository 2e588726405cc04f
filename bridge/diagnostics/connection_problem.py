"""First broken link of the chain, from the registration to a tool of a page, and its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from bridge.hub.registry import Registry
from bridge.hub.router import Router

DOCTOR = "mcpb doctor"
EXTENSION = "mcpb extension"
_NO_BROWSER = (
    "No browser is connected. Start one that has the extension; one that was running when mcpb was "
    "registered connects within a minute, or at once when the extension's popup is opened. "
    f"Without the extension, run: {EXTENSION}. To find out what is wrong, run: {DOCTOR}"
)
_ONLY_A_CHANNEL = (
    "Only another product's extension is connected, and no tools of pages come through that: they need "
    f"mcpb's own extension. To add it, run: {EXTENSION}"
)


class Problem(Protocol):
    """Why a live host is not linked, or a directory not looked into."""

    @property
    def text(self) -> str:
        """A sentence."""
        ...


class Problems(Protocol):
    """What went wrong with hosts that live: `NativeLinks` has it."""

    @property
    def problems(self) -> Mapping[str, Problem]:
        """By host or directory."""
        ...


def whats_missing(
    registry: Registry,
    links: Problems,
    registration: Callable[[], str] = lambda: "",
    channel: Callable[[], str] = lambda: "",
) -> str:
    """The first missing link of the chain and the command that mends it; empty when pages offer tools.

    Args:
        registry: what is connected.
        links: what of it is not, though it lives.
        registration: looks what is wrong with the host manifests, if anything is. It is asked last: looking
            takes about 10 ms of a bridge.
        channel: says what to know of another product's channel, where anything is; it has a line of its own.
    """
    if any(True for _ in registry.offers()):
        return ""
    browsers = registry.browsers()
    if browsers and all(browser.is_channel for browser in browsers):
        return _ONLY_A_CHANNEL
    if browsers:
        count = len(browsers)
        connected = f"{count} browser{'s' if count > 1 else ''} connected, but no open page offers a tool. "
        if any(browser.hello and not browser.hello.sites_allowed for browser in browsers):
            return (
                f"{connected}The extension is kept out of some or all sites: let it in with the button in "
                "its popup, then reload the pages that are open."
            )
        return f"{connected}Open a page that does; `mcpb demo --serve` serves one."
    if texts := [problem.text for problem in links.problems.values()]:
        return texts[0]
    if any(browser.is_live for browser in registry.links()):
        return (
            "A native host is running, but the extension behind it has not introduced itself. "
            f"Reload it on the browser's extensions page. If that does not help, run: {DOCTOR}"
        )
    return "\n".join(filter(None, [registration() or _NO_BROWSER, channel()]))


def _missing(router: Router, channels: Sequence[Mapping[str, Any]]) -> str:
    """Who only looks is not linked to the holder of a channel; and each channel says itself what helps."""
    if any(channel["holder"] for channel in channels) and not router.registry.links():
        return _ONLY_A_CHANNEL
    missing = router.whats_missing()
    return missing.partition("\n")[0] if channels else missing
