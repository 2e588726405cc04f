"""What `mcpb status` shows: the chain from the host manifest to a page's tool, and where it ends. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from bridge import __version__
from bridge.hub.catalog import Catalog
from bridge.hub.describing import MAX_NOTICE, MAX_ORIGIN, MAX_TITLE, cleaned
from bridge.hub.registry import Browser, Registry
from bridge.hub.routing import Router
from native_host import wire

INSTALL = "mcpb install-native-host"
EXTENSION = "mcpb extension"


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


def status(router: Router, links: Problems) -> dict[str, Any]:
    """Everything, for `--json`."""
    registry = router.registry
    return {
        "version": __version__,
        "browsers": [_browser(browser, registry, router.catalog) for browser in registry.browsers()],
        "waiting": [browser.host for browser in registry.links() if browser.is_live and not browser.hello],
        "problems": [problem.text for problem in links.problems.values()],
        "missing": router.whats_missing(),
    }


def whats_missing(registry: Registry, links: Problems, registration: str = "") -> str:
    """The first missing link of the chain and the command that mends it; empty when pages offer tools.

    `registration` says what is wrong with the host manifests, or nothing.
    """
    if any(True for _ in registry.offers()):
        return ""
    if browsers := registry.browsers():
        count = len(browsers)
        return (
            f"{count} browser{'s' if count > 1 else ''} connected, but no open page offers a tool. "
            "Open a page that does; `mcpb demo` shows one."
        )
    if texts := [problem.text for problem in links.problems.values()]:
        return texts[0]
    if any(browser.is_live for browser in registry.links()):
        return (
            "A native host is running, but the extension behind it has not introduced itself. "
            f"Reload it on the browser's extensions page; if that does not help: {EXTENSION}"
        )
    if registration:
        return registration
    return (
        "No browser is connected. Start one that has the extension; one that was running when mcpb was "
        "registered connects within a minute, or at once when the extension's popup is opened. "
        f"Without the extension, run: {EXTENSION}. A browser that is started with --user-data-dir needs: "
        f"{INSTALL} --user-data-dir DIR"
    )


def as_text(found: Mapping[str, Any]) -> Iterator[str]:
    """The same for people, line by line."""
    yield f"mcpb {found['version']}"
    for browser in found["browsers"]:
        yield ""
        label = f" “{browser['label']}”" if browser["label"] else ""
        gone = "" if browser["live"] else " (went away just now)"
        yield f"{browser['brand']} {browser['version']}{label}{gone}"
        yield f"  profile {browser['profile']}, extension {browser['extension']}, host {browser['host']}"
        for tab in browser["tabs"]:
            active = " • Active" if tab["active"] else ""
            yield f"  {tab['origin']} · tab {tab['tab']} “{tab['title']}”{active}"
            yield from (f"    {name}" for name in tab["tools"])
            yield from (f"    note: {notice}" for notice in tab["notices"])
        clients = ", ".join(browser["clients"])
        yield f"  clients: {clients or 'none'}"
    for problem in found["problems"]:
        yield f"problem: {problem}"
    if found["missing"]:
        yield ""
        yield found["missing"]


def _browser(browser: Browser, registry: Registry, catalog: Catalog) -> dict[str, Any]:
    hello = browser.hello
    assert hello is not None, "only browsers that have introduced themselves are listed"
    return {
        "brand": hello.browser.brand,
        "version": hello.browser.version,
        "platform": hello.browser.platform,
        "profile": hello.profile.id,
        "label": hello.profile.label,
        "extension": hello.extension.version,
        "host": browser.host,
        "pid": browser.pid,
        "live": browser.is_live,
        "clients": [_client_title(session) for client in browser.clients for session in client.sessions],
        "tabs": list(_tabs(browser, registry, catalog)),
    }


def _client_title(session: wire.Session) -> str:
    return cleaned(session.title or session.client.name or session.id, 80)


def _tabs(browser: Browser, registry: Registry, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """The tabs whose pages offer something, or say what was left out."""
    tools: dict[int, list[str]] = defaultdict(list)
    notices: dict[int, list[str]] = defaultdict(list)
    for entry in catalog.live():
        if entry.offer.browser is browser:
            tools[entry.offer.tab_id].append(entry.name)
    for its_browser, tab, frame in registry.frames():
        if its_browser is browser and frame.announced.notice:
            notices[tab.tab_id].append(cleaned(frame.announced.notice, MAX_NOTICE))
    for tab in sorted(browser.tabs.values(), key=lambda tab: (tab.origin, tab.ordinal)):
        if tab.tab_id in tools or tab.tab_id in notices:
            yield {
                "origin": cleaned(tab.origin, MAX_ORIGIN),
                "tab": tab.ordinal,
                "title": cleaned(tab.title, MAX_TITLE),
                "active": tab.active and tab.focused,
                "tools": tools[tab.tab_id],
                "notices": notices[tab.tab_id],
            }
