"""What `mcpb pause` does: which site or client is meant, and what each browser says to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

import trio

from bridge.errors import CallError
from bridge.hub import origins
from bridge.hub.describing import MAX_ORIGIN, cleaned
from bridge.hub.registry import Browser, Registry
from bridge.hub.transport import TabAddress, TabTransport
from native_host import wire
from native_host.wire import Code

ANSWER_S = 5.0
_MIN_ID = 4
"""Characters of a session's id that are enough to name it."""
_MAX_TITLE = 80


class TargetError(Exception):
    """It is not clear who or what is meant; the text says what to write."""


@dataclass(frozen=True)
class Target:
    """A site or a session."""

    site: str = ""
    """An origin."""
    session: str = ""
    title: str = field(default="", compare=False)
    """Of the session, where it is known."""

    def __str__(self) -> str:
        """As people are told of it."""
        if self.site:
            return cleaned(self.site, MAX_ORIGIN)
        return f"{self.title or 'a client'} (session {short_id(self.session)})"


@dataclass(frozen=True)
class Answer:
    """What a browser said."""

    browser: str
    error: str = ""
    """Why it did not do it; empty when it did."""


def find_target(text: str, browsers: Sequence[Browser]) -> Target:
    """What a person means: a URL or host, or a client by title, name or the beginning of its session's id.

    Raises:
        TargetError: nothing, or more than one thing.
    """
    choices, why = _sessions_called(text.strip(), browsers), ""
    try:
        choices += _site(text.strip())
    except origins.OriginError as error:
        why = f": {error}"
    match choices:
        case [only]:
            return only
        case []:
            raise TargetError(
                f"No client is called {text!r}, and it is no site{why}. "
                "Write a site as https://bank.example, and a client as `mcpb status` shows it."
            )
    names = ", ".join(f"{choice} is {_unmistakable(choice)}" for choice in choices)
    raise TargetError(f"{text!r} may mean several; write one of them unmistakably: {names}")


def live_browsers(registry: Registry) -> list[Browser]:
    """Those that can be asked now; another product's extension pauses nothing for us."""
    return [browser for browser in registry.browsers() if browser.is_live and not browser.is_channel]


async def pause(
    transport: TabTransport, browsers: Sequence[Browser], target: Target, *, paused: bool
) -> list[Answer]:
    """Pause or resume in all these browsers at once; what each said, in their order."""
    params = wire.Pause(site=target.site, session=target.session, paused=paused)
    answers: dict[str, Answer] = {}

    async def ask(browser: Browser) -> None:
        answers[browser.host] = await _ask(transport, browser, params)

    async with trio.open_nursery() as nursery:
        for browser in browsers:
            nursery.start_soon(ask, browser)
    return [answers[browser.host] for browser in browsers]


def paused_in(browser: Browser) -> list[Target]:
    """What is paused there, sites first."""
    titles = dict(_sessions([browser]))
    sites = [Target(site=site) for site in browser.paused.sites]
    return [*sites, *(Target(session=id_, title=titles.get(id_, "")) for id_ in browser.paused.sessions)]


def called(browser: Browser) -> str:
    """A browser as people know it, for instance `Chromium 156 “Work”`."""
    if browser.hello is None:
        return f"host {browser.host}"
    about, label = browser.hello.browser, cleaned(browser.hello.profile.label, _MAX_TITLE)
    return cleaned(f"{about.brand} {about.version}", _MAX_TITLE) + (f" “{label}”" if label else "")


def title_of(session: wire.Session) -> str:
    """What a client is called."""
    return cleaned(session.title or session.client.name or session.id, _MAX_TITLE)


def short_id(session_id: str) -> str:
    """Enough of a session's id to name it; without an ellipsis, for it is to be copied."""
    return cleaned(session_id[:8], 8)


async def _ask(transport: TabTransport, browser: Browser, params: wire.Pause) -> Answer:
    try:
        await transport.request(TabAddress(browser.host), "browser/pause", params, ANSWER_S)
    except CallError as error:
        if error.code == Code.METHOD_NOT_FOUND:
            return Answer(
                called(browser), "its extension is too old for that. Run: mcpb extension, and reload it"
            )
        return Answer(called(browser), cleaned(error.detail, 300) or "it went away")
    return Answer(called(browser))


def _sessions(browsers: Sequence[Browser]) -> Iterator[tuple[str, str]]:
    """The sessions that are connected or paused, by id, with their titles as far as known."""
    for browser in browsers:
        yield from ((id_, "") for id_ in browser.paused.sessions)
    for browser in browsers:
        for client in browser.clients:
            yield from ((session.id, title_of(session)) for session in client.sessions)


def _sessions_called(text: str, browsers: Sequence[Browser]) -> list[Target]:
    titles = dict(_sessions(browsers))
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
        and (text.casefold() in {name.casefold() for name in names.get(id_, ())} or _begins(id_, text))
    ]


def _begins(session_id: str, text: str) -> bool:
    return session_id == text or (len(text) >= _MIN_ID and session_id.startswith(text))


def _unmistakable(choice: Target) -> str:
    return choice.site or choice.session


# ── Sites ───────────────────────────────────────────────────────────────────────────────────────────────────


def _site(text: str) -> list[Target]:
    """The site that a URL or a host names; a bare word or number is none.

    Raises:
        OriginError: it cannot be, or it is not sure which one.
    """
    if "://" not in text:
        host = origins.read(f"https://{text}").host
        is_local = _is_local(host.strip("[]"))
        if not is_local and not ("." in text and "." in host) and "[" not in host:
            return []
        text = f"{'http' if is_local else 'https'}://{text}"
    return [Target(site=str(origins.read(text)))]


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
