"""The one gate before a tool: what is paused, what the policy says, whose tab it is, what the person allows.

`judge` decides at once and asks nobody; `admit` asks the person what has to be asked.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import trio

from bridge import origins
from bridge.errors import CallError
from bridge.hub.consent.user_prompts import Kind, client_name, shown_client
from bridge.hub.registry import Browser
from bridge.state.site_approvals import STORED_CHOICES, ApprovalsError
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, quote
from native_host.protocol.wire import Code

if TYPE_CHECKING:
    from bridge.browser_tools.session.call_context import Turn

LOOK_NO_FURTHER = "Do not look for another way; ask them what they want instead."

ACTS = {
    "navigate": "open",
    "computer": "look at, click and type on",
    "read_page": "read",
    "find": "read",
    "get_page_text": "read",
    "form_input": "fill in forms on",
    "upload_image": "upload a picture to",
    "file_upload": "upload files to",
    "gif_creator": "record",
    "read_console_messages": "read the console of",
    "read_network_requests": "read the network requests of",
    "javascript_tool": "run JavaScript on",
}
"""What a tool does with a site, as the person is told."""
_ELSE = "act on"
_READS = {"computer": "look at"}
"""The same of a tool's calls that only read, where that is less."""
LOOK = "tabs_context_mcp lists your tabs."

_log = logging.getLogger(__name__)


@dataclass
class Allowed:
    """What the person has allowed to a session, for as long as it lasts."""

    sites: set[tuple[str, str]] = field(default_factory=set)
    """Origins in canonical form, each with what was approved: `read` or `act`."""
    once: list[set[tuple[str, str]]] = field(default_factory=list)
    """The same for single calls: those of each call that runs."""
    tabs: set[tuple[str, int, int]] = field(default_factory=set)
    """By profile, browser process and tab."""
    asking: trio.Lock = field(default_factory=trio.Lock)
    """One question at a time: several calls may want the same."""


class Wish(NamedTuple):
    """A call is to touch a site: the one that a tab shows, or one that is to be opened."""

    browser: Browser
    origin: str
    """As the browser has it; empty: there is nothing in the tab."""
    tab: wire.Tab | None = None
    leaves: bool = False
    """What the tab shows is only left, not looked at."""


class Verdict(NamedTuple):
    """Whether a call may go on, and by which rule."""

    decision: Literal["yes", "no", "ask"]
    rule: str
    """In words for a person."""
    code: Code = Code.NOT_ALLOWED
    then: str = ""
    """What can be done about a no."""


class _Doubt(NamedTuple):
    """What a person has to be asked, and what else would help."""

    question: str
    choices: tuple[str, ...]
    allow: Callable[[str], Awaitable[None]]
    """Lets a choice hold that is not `no`."""
    origin: str
    host: str
    """Native host of the browser that is concerned."""
    subject: str
    instead: str


# ── What is decided ─────────────────────────────────────────────────────────────────────────────────────────


def judge(turn: Turn, wish: Wish) -> Verdict:
    """Whether this call may do what it wishes, as things are now."""
    return _forbidden(turn, wish) or _of_tab(turn, wish) or _of_site(turn, wish)


def judge_tool(turn: Turn) -> Verdict:
    """Whether the tool may be called at all, wherever."""
    tool = turn.tool
    try:
        turn.around.registry.pauses.check(turn.session)
    except CallError as paused:
        return Verdict("no", paused.detail, Code.PAUSED)
    if refusal := turn.around.policy.provided_refusal(tool.name, None, is_read_only=tool.reads_only):
        return Verdict("no", refusal)
    return Verdict("yes", f"no rule forbids {tool.name}")


def _forbidden(turn: Turn, wish: Wish) -> Verdict | None:
    """By what is paused, and by the policy."""
    policy, tool = turn.around.policy, turn.tool
    touched = [] if wish.leaves or not wish.origin else [wish.origin]
    if touched == [origins.OPAQUE] and (rule := _site_rule(turn)):
        return Verdict("no", f"{rule}, and the site of that page cannot be determined")
    try:
        turn.around.registry.pauses.check(turn.session, *touched)
    except CallError as paused:
        return Verdict("no", paused.detail, Code.PAUSED)
    for origin in touched:
        refusal = policy.origin_refusal(origin) or policy.provided_refusal(
            tool.name, origin, is_read_only=tool.reads_only
        )
        if refusal:
            return Verdict("no", refusal)
    return None


def _site_rule(turn: Turn) -> str:
    """Return what forbids pages whose site is not known; empty if nothing does."""
    if turn.around.policy.has_rules_about_sites:
        return "config.toml has rules about sites"
    return "a site is paused" if turn.around.registry.pauses.sites else ""


def _of_tab(turn: Turn, wish: Wish) -> Verdict | None:
    """By whose it is; None: it may be used."""
    tab, session = wish.tab, turn.session
    if tab is None or tab.owner == session.id or (tab.owner is None and tab.handed_over):
        return None
    if tab.owner is not None:
        return Verdict("no", f"tab {tab.tab_id} is another client's", Code.NOT_YOURS, LOOK)
    match turn.around.settings.tabs:
        case "any":
            return None
        case "ask" if _key(wish.browser, tab) in _allowed(turn).tabs:
            return None
        case "ask":
            return Verdict("ask", 'browser.tabs is "ask", and the tab is the user\'s own')
    detail = f"tab {tab.tab_id} is the user's own"
    then = (
        "They can hand it over in the extension's popup, or set browser.tabs in config.toml; "
        "or open the page in a tab of yours with navigate."
    )
    return Verdict("no", detail, Code.NOT_YOURS, then)


def _of_site(turn: Turn, wish: Wish) -> Verdict:
    if turn.around.settings.sites == "any":
        return Verdict("yes", 'browser.sites is "any", and no rule forbids it')
    if wish.leaves or not wish.origin:
        return Verdict("yes", "no site is touched")
    site, kind = origins.canonicalize(wish.origin), kind_of(turn)
    for word in dict.fromkeys((kind, "act")):
        if (site, word) in turn.once:
            return Verdict("yes", f"the user allowed {site} for this call")
        if (site, word) in _allowed(turn).sites:
            return Verdict("yes", f"the user allowed {site} for this session")
    approvals = turn.around.approvals
    try:
        if approvals.has(site, kind, client_name(turn.session)):
            turn.around.sites_changed()  # the file may have changed since the last call
            return Verdict("yes", f"the user allowed {site} ({approvals.path.name})")
    except ApprovalsError as error:
        return Verdict("no", str(error), then="Tell the user what is wrong with that file.")
    return Verdict("ask", f'browser.sites is "ask", and {origins.format_origin(site)} was not allowed yet')


# ── What is asked ───────────────────────────────────────────────────────────────────────────────────────────


async def admit(turn: Turn, wish: Wish) -> None:
    """Let the call go on, if need be after the person was asked.

    Raises:
        CallError: it may not, and why.
        ToolError: nobody answered.
    """
    verdict = judge(turn, wish)
    if verdict.decision == "ask":
        with turn.unhurried():
            async with _allowed(turn).asking:
                verdict = judge(turn, wish)  # another call may have asked the same
                if verdict.decision == "ask":
                    await _ask(turn, _doubt(turn, wish), verdict)
                    verdict = judge(turn, wish)
    if verdict.decision != "yes":
        raise CallError(verdict.code, verdict.rule, handed=False, then=verdict.then)


async def _ask(turn: Turn, doubt: _Doubt, verdict: Verdict) -> None:
    if not turn.around.prompts.can_ask(turn.caller, doubt.host):
        detail = f"{verdict.rule}, and this client cannot ask the user"
        raise CallError(Code.NOT_ALLOWED, detail, handed=False, then=doubt.instead)
    choice = await turn.prompt(doubt.question, doubt.choices, doubt.origin, kind_of(turn), doubt.host)
    if choice == "no":
        detail = f"the user was asked about {doubt.subject} and said no"
        raise CallError(Code.NOT_ALLOWED, detail, handed=False, then=LOOK_NO_FURTHER)
    await doubt.allow(choice)


async def approve(turn: Turn, sites: list[str], kind: Kind, choice: str) -> str:
    """Let the user's choice hold; return why it could not be stored, or nothing.

    What cannot be stored holds for this session.
    """
    sites = [origins.canonicalize(site) for site in sites]
    if choice == "once":
        turn.once.update((site, kind) for site in sites)
        turn.around.sites_changed()
        return ""
    trouble = ""
    if choice in STORED_CHOICES:
        grant = turn.around.approvals.grant_choice
        try:
            await trio.to_thread.run_sync(grant, sites, kind, choice, client_name(turn.session))
        except ApprovalsError as error:
            _log.warning("an approval holds for this session only: %s", error)
            trouble = str(error)
        else:
            turn.around.sites_changed()
            return ""
    _allowed(turn).sites.update((site, kind) for site in sites)
    turn.around.sites_changed()
    return trouble


def kind_of(turn: Turn) -> Kind:
    """Return what the call needs an approval for; `act` includes `read`."""
    return "read" if turn.tool.reads_only else "act"


def who(turn: Turn) -> str:
    """Return the client's name, as the user knows it."""
    return shown_client(turn.session)


def _doubt(turn: Turn, wish: Wish) -> _Doubt:
    reads = _READS if turn.tool.reads_only else {}
    act = (
        f"{reads.get(turn.tool.name) or ACTS.get(turn.tool.name, _ELSE)} {origins.format_origin(wish.origin)}"
    )
    if wish.tab is not None and _of_tab(turn, wish) is not None:
        return _about_tab(turn, wish, wish.tab, act)
    host, site = wish.browser.host, origins.get_web_origin(wish.origin)
    has_window = turn.around.prompts.has_window(host)
    # A form in the client has asked for a whole session, and to act, ever since.
    kind: Kind = kind_of(turn) if has_window else "act"

    async def allow(choice: str) -> None:
        await approve(turn, [wish.origin], kind, choice)

    choices = ("once", "hour", "client", "always", "no") if has_window else ("session", "always", "no")
    unstored = ("once", "session", "no") if has_window else ("session", "no")
    return _Doubt(
        f"{who(turn)} wants to {act}."
        if has_window
        else f"{who(turn)} wants to {act}. May it act on this site?",
        choices if site else unstored,
        allow,
        site or origins.format_origin(wish.origin),
        host,
        origins.format_origin(wish.origin),
        "Ask the user: they can approve this site, or update the extension, which then asks them.",
    )


def _about_tab(turn: Turn, wish: Wish, tab: wire.Tab, act: str) -> _Doubt:
    title = quote(tab.title, MAX_TITLE_CHARS)

    async def allow(choice: str) -> None:
        _allowed(turn).tabs.add(_key(wish.browser, tab))
        if wish.origin:
            await approve(turn, [wish.origin], "act", choice)

    return _Doubt(
        f"{who(turn)} wants to {act}, in a tab of yours that calls itself {title}. May it use that tab?",
        ("session", "no"),
        allow,
        origins.format_origin(wish.origin) or "an empty tab",
        wish.browser.host,
        f"tab {tab.tab_id}",
        "The user can hand the tab over in the extension's popup; or open the page in a tab of yours.",
    )


def _allowed(turn: Turn) -> Allowed:
    return turn.kept.of(Allowed)


def _key(browser: Browser, tab: wire.Tab) -> tuple[str, int, int]:
    return browser.profile, browser.pid, tab.tab_id
