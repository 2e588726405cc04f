"""Checks of connected browsers: from the native host to page tools. Sans-IO.

`install.checks` finds faults that prevent a connection; `report.py` combines both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bridge import __version__
from bridge.hub.catalog import Catalog
from bridge.hub.registry import Browser, Registry
from bridge.origins import get_host, get_web_origin
from bridge.state.pause_control import Target, short_id
from install.browsers import Kind
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Level,
    Message,
    Part,
    Privacy,
    Value,
    foreign_value,
    mcpb_command,
    public_value,
)
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, MAX_TITLE_CHARS, single_line

PING_S = 3.0
"""For one round trip to the extension: a worker that was stopped needs 0.5 s to start."""
_MAX_NAMED = 3
_MAX_REASON = 200

_CLOSED_TO_EXTENSIONS = frozenset({
    # Chromium's stores, and those of browsers made from it
    "chromewebstore.google.com", "chrome.google.com", "microsoftedge.microsoft.com", "addons.opera.com",
    # Firefox: the preference extensions.webextensions.restrictedDomains
    "accounts-static.cdn.mozilla.net", "accounts.firefox.com", "addons.cdn.mozilla.net", "addons.mozilla.org",
    "api.accounts.firefox.com", "content.cdn.mozilla.net", "discovery.addons.mozilla.org",
    "oauth.accounts.firefox.com", "profile.accounts.firefox.com", "support.mozilla.org",
    "sync.services.mozilla.com",
})  # fmt: skip
_BROWSER_MESSAGES = frozenset({
    "Specified native messaging host not found.",
    "Access to the specified native messaging host is forbidden.",
    "Error when communicating with the native messaging host.",
    "Failed to start native messaging host.",
    "Native host has exited.",
    f"No such native application {wire.HOST_NAME}", "An unexpected error occurred",
    "The native host has ended.",
})  # fmt: skip
"""Messages of Chromium, of Firefox, and of the extension if the browser gives none."""


class SeenTab(msgspec.Struct, frozen=True, rename="camel"):
    """A tab that clients may know of."""

    origin: str
    title: str
    tools: int
    is_silent: bool
    """A page that an extension can be in, and ours is not."""


class LinkedHost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A native host that lives, and whose it is."""

    host: str
    host_pid: int
    host_version: str
    browser_pid: int
    caller: str
    """The extension, as the browser named it to the host: an origin or an add-on id."""
    brand: str = ""
    """The browser's own name; empty where its extension has not introduced itself."""
    browser_version: str = ""
    proxy: str = ""
    """Address of the WebSocket proxy in place of a native host; empty: a native host."""

    @property
    def kind(self) -> Kind:
        """Kind of the browser, by how it names extensions."""
        is_firefox = self.caller and not self.caller.startswith("chrome-extension://")
        return "firefox" if is_firefox else "chromium"

    @property
    def title(self) -> str:
        """Name for users, with the proxy."""
        return f"{self.program_title} at {self.proxy}" if self.proxy else self.program_title

    @property
    def program_title(self) -> str:
        """Name for users, of the program alone."""
        called = f"{self.brand} {self.browser_version.partition('.')[0]}".strip()
        return called or ("Firefox" if self.kind == "firefox" else "a Chromium browser")


class UnlinkedHost(LinkedHost, frozen=True, kw_only=True):
    """It cannot be spoken with."""

    reason: str
    is_final: bool = False
    command: Command | None = None
    """Fixes it, if the host or mcpb names one."""


class ObservedBrowser(LinkedHost, frozen=True, kw_only=True, rename="camel"):
    """A native host that is linked, and what it and the extension behind it have said.

    Without a brand nothing below is known.
    """

    label: str = ""
    extension_version: str = ""
    answered_ms: float | None = None
    """A round trip to the extension; None when there was none."""
    silence: str = ""
    tabs: tuple[SeenTab, ...] = ()
    sites_allowed: bool = True
    forbidden: str = ""
    """A rule of config.toml that forbids what pages offer, where it forbids all of it."""
    trouble: wire.Trouble | None = None
    is_channel: bool = False
    """True for the extension of Claude in Chrome, which has its own tools and no page tools."""

    @property
    def tools(self) -> int:
        """That clients may call in it."""
        return sum(tab.tools for tab in self.tabs)


Answer = float | str
"""Seconds to the extension and back, or what came instead."""


def observe_browsers(
    registry: Registry, catalog: Catalog, answers: Mapping[str, Answer]
) -> list[ObservedBrowser]:
    """All that is linked now, oldest host first. `answers` are the extensions', by host."""
    shown = {browser.host for browser in registry.browsers()}
    linked = [browser for browser in registry.all_browsers() if browser.is_live]
    return [
        _observe_browser(browser, catalog, answers.get(browser.host, ""))
        for browser in linked
        if browser.host in shown or not browser.is_known
    ]


def findings_of(
    browser: ObservedBrowser, where: Part, now: float = 0.0, *, is_copied: bool = False
) -> Iterator[Finding]:
    """Find faults between this browser and the tools of its pages.

    `where` is the browser's name in the report, `now` is in seconds since the epoch. `is_copied`: all
    copies of the extension are of this version.
    """
    found = [] if browser.proxy else [*_host_findings(browser)]
    if not browser.is_channel:
        found += [*_extension_findings(browser, now, is_copied=is_copied), *_page_findings(browser)]
    for finding in found:
        yield msgspec.structs.replace(finding, where=where)


def unlinked_finding(host: UnlinkedHost, where: Part) -> Finding:
    """Return the finding about a live host without a connection."""
    reason = foreign_value(host.reason)
    if host.is_final:
        return Finding(
            code=FindingCode.WIRE_VERSION,
            hop="socket",
            template="{reason}",
            values={"reason": public_value(host.reason)},
            command=host.command,
            where=where,
        )
    return Finding(
        code=FindingCode.HOST_NOT_LINKED,
        hop="socket",
        template="the native host {host} (process {host_pid}, started by {browser}, process {browser_pid}) "
        "runs, but mcpb cannot connect to it: {reason}. Reload the extension on {page}: the browser ends "
        "this host and starts another",
        values={
            "host": public_value(host.host),
            "host_pid": public_value(host.host_pid),
            "browser": where,
            "browser_pid": public_value(host.browser_pid),
            "reason": reason,
            "page": _extensions_page(host),
        },
        where=where,
    )


# ── What is there ───────────────────────────────────────────────────────────────────────────────────────────


def _observe_browser(browser: Browser, catalog: Catalog, answer: Answer) -> ObservedBrowser:
    host, hello = browser.host_hello, browser.hello
    assert host is not None, "a live browser's host has said hello"
    seen = ObservedBrowser(
        host=browser.host,
        host_pid=host.pid,
        host_version=single_line(host.version, MAX_TITLE_CHARS),
        browser_pid=host.browser_pid,
        caller=single_line(host.extension_origin, MAX_ORIGIN_CHARS),
        proxy=browser.proxy,
    )
    if hello is None:
        return seen
    refusals = [entry.refusal for entry in catalog.live_entries() if entry.offer.browser is browser]
    return msgspec.structs.replace(
        seen,
        brand=single_line(hello.browser.brand, MAX_TITLE_CHARS),
        browser_version=single_line(hello.browser.version, MAX_TITLE_CHARS),
        label=single_line(hello.profile.label, MAX_TITLE_CHARS),
        extension_version=single_line(hello.extension.version, MAX_TITLE_CHARS),
        answered_ms=round(answer * 1000, 1) if isinstance(answer, float) else None,
        silence=answer if isinstance(answer, str) else "",
        tabs=tuple(_tab_findings(browser, catalog)),
        sites_allowed=hello.sites_allowed,
        forbidden=refusals[0] if refusals and all(refusals) else "",
        trouble=_clean_trouble(hello.trouble) if hello.trouble else None,
        is_channel=browser.is_channel,
    )


def _clean_trouble(trouble: wire.Trouble) -> wire.Trouble:
    return msgspec.structs.replace(trouble, reason=single_line(trouble.reason, wire.TROUBLE_BYTES))


def _tab_findings(browser: Browser, catalog: Catalog) -> Iterator[SeenTab]:
    callable_in = [
        entry.offer.tab_id
        for entry in catalog.live_entries()
        if entry.offer.browser is browser and not entry.refusal
    ]
    for tab in browser.tabs.values():
        if not tab.incognito:
            yield SeenTab(
                origin=single_line(tab.origin, MAX_ORIGIN_CHARS),
                title=single_line(tab.title, MAX_TITLE_CHARS),
                tools=callable_in.count(tab.tab_id),
                is_silent=is_without_script(browser, tab),
            )


def is_without_script(browser: Browser, tab: wire.Tab) -> bool:
    """Return whether a tab shows a page in which a content script could be, and none has announced itself."""
    is_page = get_web_origin(tab.url) and get_host(tab.url) not in _CLOSED_TO_EXTENSIONS
    is_settled = tab.status != "loading" and not (tab.discarded or tab.error_page)
    return bool(is_page) and is_settled and browser.find_frame(tab.tab_id, 0) is None


# ── What is wrong with it ───────────────────────────────────────────────────────────────────────────────────


def _host_findings(browser: ObservedBrowser) -> Iterator[Finding]:
    if browser.host_version != __version__:
        template = (
            f"the native host was started by mcpb {{version}}, this is mcpb {__version__}. Reload the "
            "extension on {page}: the browser then starts the new one"
        )
        yield Finding(
            code=FindingCode.HOST_OUTDATED,
            hop="host",
            level="warning",
            template=template,
            values={"version": public_value(browser.host_version), "page": _extensions_page(browser)},
        )


def _extension_findings(browser: ObservedBrowser, now: float, *, is_copied: bool) -> Iterator[Finding]:
    page = _extensions_page(browser)
    if not browser.brand:
        template = "the native host runs, but the extension behind it sends no hello. Reload it on {page}"
        yield Finding(
            code=FindingCode.EXTENSION_SILENT, hop="extension", template=template, values={"page": page}
        )
        return
    if browser.silence:
        template = "the extension does not answer: {reason}. Reload it on {page}"
        values = {"reason": foreign_value(browser.silence), "page": page}
        yield Finding(code=FindingCode.EXTENSION_NO_ANSWER, hop="worker", template=template, values=values)
    if not browser.sites_allowed:
        yield _kept_out(browser)
    if browser.extension_version != __version__:
        yield _other_version(browser, is_copied=is_copied)
    if browser.trouble:
        yield _trouble_finding(browser.trouble, now)


def _kept_out(browser: ObservedBrowser) -> Finding:
    """Return a warning if other sites offer tools: a user may have restricted the extension on purpose."""
    template = (
        "the browser keeps the extension out of some or all sites, and mcpb does not find their tools. Give "
        "access with the button in its popup, then reload the open pages"
    )
    level: Level = "warning" if browser.tools else "fault"
    return Finding(code=FindingCode.SITES_NOT_ALLOWED, hop="extension", level=level, template=template)


def _other_version(browser: ObservedBrowser, *, is_copied: bool) -> Finding:
    """Return the finding about an extension of another version; a copy of this version needs no command."""
    update = mcpb_command("extension", *["--firefox"] * (browser.kind == "firefox"))
    steps = "Reload the extension on {page}" if is_copied else "Run the command, then reload it on {page}"
    return Finding(
        code=FindingCode.EXTENSION_OLD,
        hop="extension",
        level="warning",
        template=f"the extension is version {{version}}, this is mcpb {__version__}. {steps}",
        values={"version": public_value(browser.extension_version), "page": _extensions_page(browser)},
        command=None if is_copied else update,
    )


def paused_finding(target: Target) -> Finding:
    """Return the finding about a site or a client that the user has paused."""
    name = Value(str(target), Privacy.ORIGIN if target.site else Privacy.TITLE)
    argument = name if target.site else public_value(short_id(target.session))
    return Finding(
        code=FindingCode.PAUSED,
        hop="extension",
        level="warning",
        template="the user paused {target}: calls are rejected. Resume it in the popup, or run the command",
        values={"target": name},
        command=mcpb_command("pause", argument, "--resume"),
    )


def _trouble_finding(trouble: wire.Trouble, now: float) -> Finding:
    times = "once" if trouble.attempts == 1 else f"{trouble.attempts} times in a row"
    reason = single_line(trouble.reason, _MAX_REASON)
    template = "it is connected now. Earlier ({time}) the connection failed, {times}. "
    template += "The browser's reason: {reason}" if reason else "The browser gave no reason"
    values: dict[str, Part] = {
        "time": public_value(_format_ago(now - trouble.at / 1000)),
        "times": public_value(times),
    }
    return Finding(
        code=FindingCode.EXTENSION_REPORTED,
        hop="extension",
        level="note",
        template=template,
        values={**values, "reason": classify_reason(reason)},
    )


def classify_reason(reason: str) -> Value:
    """Classify an error of the extension's connection: fixed messages of browsers are public."""
    return public_value(reason) if reason in _BROWSER_MESSAGES else foreign_value(reason)


def _format_ago(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "less than a minute ago"


def _page_findings(browser: ObservedBrowser) -> Iterator[Finding]:
    silent = [tab for tab in browser.tabs if tab.is_silent]
    if silent and browser.sites_allowed:
        template = (
            f"the extension is not in {{tabs}}. Reload {'it' if len(silent) == 1 else 'them'}: "
            "a tab that is older than the extension may need that once"
        )
        yield Finding(
            code=FindingCode.TAB_NEEDS_RELOAD,
            hop="page",
            level="warning",
            template=template,
            values={"tabs": _list_tabs(silent)},
        )
    if browser.forbidden:
        yield Finding(
            code=FindingCode.TOOLS_FORBIDDEN,
            hop="page",
            level="warning",
            template="pages offer tools, but config.toml does not allow them: {rule}",
            values={"rule": foreign_value(browser.forbidden)},
        )
    elif browser.brand and not browser.tools:
        template = "no open page offers a tool. Open a page that does; `{command}` serves one"
        yield Finding(
            code=FindingCode.PAGE_OFFERS_NOTHING,
            hop="page",
            level="note",
            template=template,
            values={"command": mcpb_command("demo", "--serve")},
        )


def _list_tabs(tabs: Sequence[SeenTab]) -> Part:
    values: dict[str, Part] = {}
    for number, tab in enumerate(tabs[:_MAX_NAMED]):
        values[f"title_{number}"] = Value(tab.title, Privacy.TITLE)
        values[f"origin_{number}"] = Value(tab.origin, Privacy.ORIGIN)
    names = [f"“{{title_{number}}}” ({{origin_{number}}})" for number in range(len(tabs[:_MAX_NAMED]))]
    more = len(tabs) - len(names)
    kind = "tab" if len(tabs) == 1 else "tabs"
    template = f"{len(tabs)} {kind}: {', '.join(names)}{f' and {more} more' if more else ''}"
    return Message(template=template, values=values)


def _extensions_page(browser: LinkedHost) -> Value:
    return public_value(
        "about:debugging#/runtime/this-firefox" if browser.kind == "firefox" else "chrome://extensions"
    )
