"""Pauses by command: the site or client to pause, the affected tabs, and the response of each browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import trio

from bridge import origins
from bridge.errors import CallError
from bridge.hub.registry import Browser, Registry
from bridge.hub.rules.pauses import Pauses, PauseTarget
from bridge.hub.rules.site_patterns import is_local, matches_pattern, read_pattern
from bridge.state.pause_sync import PauseSync
from bridge.state.pauses_file import PausesFileError
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, single_line
from native_host.protocol.wire import Code, PauseChange
from native_host.system.program_name import format_command

_MIN_ID = 4
"""Characters of a session's id that are enough to name it."""
_MAX_TITLE = 80
_OF_SITES = frozenset(".:/*[")
"""Characters that a site is written with, and the word for a client is not."""


class TargetError(Exception):
    """It is not clear who or what is meant; the text says what to write."""


class TargetSyntaxError(TargetError):
    """The text can name neither a site nor a client."""


@dataclass(frozen=True)
class Target:
    """A site or a session."""

    site: str = ""
    """A pattern: `bridge.hub.rules.site_patterns`."""
    session: str = ""
    title: str = field(default="", compare=False)
    """Title of the session's client; empty if it is unknown."""

    def __str__(self) -> str:
        """Return the name for messages."""
        if self.site:
            return single_line(self.site, MAX_ORIGIN_CHARS)
        return f"{self.title or 'a client'} (session {short_id(self.session)})"


@dataclass(frozen=True)
class Answer:
    """Response of one browser to a pause."""

    browser: str
    error: str = ""
    """Reason for which the browser did not pause; empty if it did."""


def find_target(text: str, browsers: Sequence[Browser], pauses: Pauses | None = None) -> Target:
    """Find the target that a text names: a URL, a host, or a client's title, name or session id prefix.

    Raises:
        TargetSyntaxError: it is written like a site, and cannot be one.
        TargetError: nothing, or more than one thing.
    """
    choices = _sessions_called(text.strip(), browsers, pauses or Pauses())
    try:
        choices += _find_site(text.strip())
    except origins.OriginError as error:
        if not choices:
            raise TargetSyntaxError(f"No client is called {text!r}, and it is no site: {error}.") from None
    match choices:
        case [only]:
            return only
        case []:
            raise TargetError(
                f"No client is called {text!r}. Write a client as `{format_command('status')}` shows it, a "
                "site as bank.example or https://bank.example, a host without a dot as intranet/."
            )
    names = ", ".join(f"{choice} is {_is_exact(choice)}" for choice in choices)
    raise TargetError(f"{text!r} may mean several; write one of them unmistakably: {names}")


def live_browsers(registry: Registry) -> list[Browser]:
    """Return the connected browsers that support pauses; Claude in Chrome does not."""
    return [browser for browser in registry.browsers() if browser.is_live and not browser.is_channel]


async def change_pause(
    sync: PauseSync, browsers: Sequence[Browser], target: Target, *, paused: bool
) -> tuple[list[Answer], str]:
    """Pause or resume in all these browsers at once, and for those that connect later.

    Returns:
        What each browser answered, in their order; and why it could not be stored, or empty.
    """
    change = sync.add_change(PauseTarget(target.site, target.session), paused=paused)
    answers: dict[str, Answer] = {}

    async def ask_browser(browser: Browser) -> None:
        answers[browser.host] = await _send_change(sync, browser, change)

    async with trio.open_nursery() as nursery:
        for browser in browsers:
            nursery.start_soon(ask_browser, browser)
    try:
        await sync.store()
    except PausesFileError as error:
        return [answers[browser.host] for browser in browsers], str(error)
    return [answers[browser.host] for browser in browsers], ""


def paused_targets(registry: Registry) -> list[Target]:
    """Return the paused targets, sites first."""
    titles = dict(_find_sessions(registry.browsers()))
    pauses = registry.pauses
    sites = [Target(site=site) for site in pauses.sites]
    return [*sites, *(Target(session=id_, title=titles.get(id_, "")) for id_ in sorted(pauses.sessions))]


def check_paused(registry: Registry, target: Target) -> None:
    """Let a user resume only what is paused.

    Raises:
        TargetError: it is not paused; the text lists what is.
    """
    paused = paused_targets(registry)
    if target not in paused:
        listed = ", ".join(map(str, paused))
        raise TargetError(
            f"{target} is not paused. {f'Paused: {listed}' if listed else 'Nothing is paused'}."
        )


def affected_tabs(browser: Browser, target: Target) -> list[wire.Tab]:
    """Return the open tabs that a pause affects, except those of incognito windows."""
    return [tab for tab in browser.tabs.values() if not tab.incognito and _is_affected(tab, target)]


def tab_line(tab: wire.Tab) -> str:
    """Format a tab for the terminal."""
    origin = single_line(tab.origin, MAX_ORIGIN_CHARS)
    return f"{origin} · tab {tab.ordinal} “{single_line(tab.title, _MAX_TITLE)}”"


def _is_affected(tab: wire.Tab, target: Target) -> bool:
    return matches_pattern(target.site, tab.origin) if target.site else tab.owner == target.session


def browser_name(browser: Browser) -> str:
    """Format a browser's display name, for instance `Chromium 156 “Work”`."""
    if browser.hello is None:
        return f"host {browser.host}"
    about, label = browser.hello.browser, single_line(browser.hello.profile.label, _MAX_TITLE)
    return single_line(f"{about.brand} {about.version}", _MAX_TITLE) + (f" “{label}”" if label else "")


def title_of(session: wire.Session) -> str:
    """Return a client's display name."""
    return single_line(session.title or session.client.name or session.id, _MAX_TITLE)


def short_id(session_id: str) -> str:
    """Enough of a session's id to name it; without an ellipsis, for it is to be copied."""
    return single_line(session_id[:8], 8)


async def _send_change(sync: PauseSync, browser: Browser, change: PauseChange) -> Answer:
    try:
        await sync.send_change(browser, change)
    except CallError as error:
        if error.code == Code.METHOD_NOT_FOUND:
            return Answer(
                browser_name(browser),
                f"its extension is too old for that. Run: {format_command('extension')}, and reload it",
            )
        return Answer(browser_name(browser), single_line(error.detail, 300) or "it went away")
    return Answer(browser_name(browser))


def _find_sessions(browsers: Sequence[Browser]) -> Iterator[tuple[str, str]]:
    """Return the titles of the connected sessions, by id."""
    for browser in browsers:
        for client in browser.clients:
            yield from ((session.id, title_of(session)) for session in client.sessions)


def _sessions_called(text: str, browsers: Sequence[Browser], pauses: Pauses) -> list[Target]:
    titles = {**dict.fromkeys(sorted(pauses.sessions), ""), **dict(_find_sessions(browsers))}
    names = {
        session.id: {session.title, session.client.name, title_of(session)}
        for browser in browsers
        for client in browser.clients
        for session in client.sessions
    }
    return [
        Target(session=id_, title=title)
        for id_, title in titles.items()
        if text
        and (text.casefold() in {name.casefold() for name in names.get(id_, ())} or _matches_id(id_, text))
    ]


def _matches_id(session_id: str, text: str) -> bool:
    return session_id == text or (len(text) >= _MIN_ID and session_id.startswith(text))


def _is_exact(choice: Target) -> str:
    return choice.site or choice.session


# ── Sites ───────────────────────────────────────────────────────────────────────────────────────────────────


def _find_site(text: str) -> list[Target]:
    """Return the site that a URL or a host names, in a list; an empty list for a word, which names a client.

    Raises:
        OriginError: it cannot be, or it is not sure which one.
    """
    is_site = not _OF_SITES.isdisjoint(text) or is_local(text.lower())
    return [Target(site=read_pattern(text))] if is_site else []
