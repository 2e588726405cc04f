"""Permissions of a tool call: pauses, policy, tab ownership, and the user's approvals.

`judge` decides at once, without a prompt; `admit` asks the user where the rules want it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import trio

from bridge import origins
from bridge.browser_tools.session.client_prompts import ClientPrompts
from bridge.browser_tools.session.session_state import SessionState
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.session.tool_services import ToolServices
from bridge.browser_tools.tool import Tool
from bridge.errors import CallError
from bridge.hub.consent.user_prompts import Kind, client_name, shown_client
from bridge.hub.registry import Browser
from bridge.hub.rules.root_sites import RootSites
from bridge.state.site_approvals import STORED_CHOICES, ApprovalsError
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, quote
from native_host.protocol.wire import Code

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
_ELSE = "act on"
_READS = {"computer": "look at"}
LOOK = "tabs_context lists your tabs."

_log = logging.getLogger(__name__)


@dataclass
class SessionGrants:
    """Approvals of the user that hold for one session."""

    sites: set[tuple[str, str]] = field(default_factory=set)
    """Origins in canonical form, each with what was approved: `read` or `act`."""
    once: list[set[tuple[str, str]]] = field(default_factory=list)
    """The approvals of each running call, which hold for that call alone."""
    tabs: set[tuple[str, int, int]] = field(default_factory=set)
    prompting: trio.Lock = field(default_factory=trio.Lock)
    """One prompt at a time: several calls may need the same approval."""


@dataclass
class KnownRoots:
    """Roots that a session's client listed last; with `browser.roots = "strict"` all calls need them."""

    roots: RootSites | None = None
    """None: it has not listed any yet."""


class AccessRequest(NamedTuple):
    """The site that a call needs: the one that a tab shows, or one that it opens."""

    browser: Browser
    origin: str
    """As the browser reports it; empty: the tab is blank."""
    tab: wire.Tab | None = None
    leaves: bool = False
    """The call leaves what the tab shows, without a look at it."""


class Decision(NamedTuple):
    """Outcome of a check, with the rule that decided."""

    outcome: Literal["yes", "no", "ask"]
    rule: str
    code: Code = Code.NOT_ALLOWED
    then: str = ""


class ApprovalPrompt(NamedTuple):
    """A question to the user, and the alternative to it."""

    question: str
    choices: tuple[str, ...]
    allow: Callable[[str], Awaitable[None]]
    """Record a choice other than `no`."""
    origin: str
    host: str
    subject: str
    instead: str


@dataclass(frozen=True)
class Permissions:
    """Decisions about one call of a tool."""

    services: ToolServices
    prompts: ClientPrompts
    state: SessionState
    tool: Tool[Any, Any]
    approved_once: set[tuple[str, str]]
    """Origins that the user approved for this one call, each with `read` or `act`."""

    @property
    def grants(self) -> SessionGrants:
        """Return the user's approvals for the session."""
        return self.state.state_of(SessionGrants)

    def decide(self, request: AccessRequest) -> Decision:
        """Decide whether this call may touch the site, by the present rules."""
        return self._find_rule(request) or self._of_tab(request) or self._of_site(request)

    def may_use_tab(self, place: TabRef) -> bool:
        """Return whether the owner of a tab lets this session use it, perhaps after a prompt to the user."""
        decision = self._of_tab(AccessRequest(place.browser, "", place.tab))
        return decision is None or decision.outcome == "ask"

    def judge_tool(self) -> Decision:
        """Decide whether the tool may be called at all."""
        tool = self.tool
        try:
            self.services.registry.pauses.check(self.prompts.session)
        except CallError as paused:
            return Decision("no", paused.detail, Code.PAUSED)
        if refusal := self.services.policy.provided_refusal(tool.name, None, is_read_only=tool.is_read_only):
            return Decision("no", refusal)
        return Decision("yes", f"no rule forbids {tool.name}")

    def _find_rule(self, request: AccessRequest) -> Decision | None:
        """Apply pauses and the policy; None: they do not forbid it."""
        policy, tool = self.services.policy, self.tool
        touched = [] if request.leaves or not request.origin else [request.origin]
        if touched == [origins.OPAQUE] and (rule := self._site_rule()):
            return Decision("no", f"{rule}, and the site of that page cannot be determined")
        try:
            self.services.registry.pauses.check(self.prompts.session, *touched)
        except CallError as paused:
            return Decision("no", paused.detail, Code.PAUSED)
        for origin in touched:
            refusal = policy.origin_refusal(origin) or policy.provided_refusal(
                tool.name, origin, is_read_only=tool.is_read_only
            )
            if refusal:
                return Decision("no", refusal)
            if decision := self.judge_roots(origin):
                return decision
        return None

    def judge_roots(self, origin: str) -> Decision | None:
        """Decide by the client's roots; None: they do not forbid the site."""
        if self.services.settings.roots != "strict":
            return None
        roots = self.state.state_of(KnownRoots).roots
        if roots is None:
            rule = 'browser.roots is "strict", and the client has not listed its roots'
            return Decision("no", rule, then="Call again: the client is then asked for its roots.")
        if roots.includes(origin):
            return None
        site = origins.format_origin(origin)
        rule = f'browser.roots is "strict", and {site} is not one of the client\'s roots'
        then = "Work on a site of the roots, or ask the user: they can add a root in the client."
        return Decision("no", rule, then=f"{roots.format_roots()} {then}")

    def _site_rule(self) -> str:
        """Return what forbids pages whose site is not known; empty if nothing does."""
        if self.services.policy.has_rules_about_sites:
            return "config.toml has rules about sites"
        if self.services.settings.roots == "strict":
            return 'browser.roots is "strict"'
        return "a site is paused" if self.services.registry.pauses.sites else ""

    def _of_tab(self, request: AccessRequest) -> Decision | None:
        """Decide by the owner of the tab; None: it may be used."""
        tab, session = request.tab, self.prompts.session
        if tab is None or tab.owner == session.id or (tab.owner is None and tab.handed_over):
            return None
        number = request.browser.number_of(tab)
        if tab.owner is not None:
            return Decision("no", f"tab {number} belongs to another client", Code.NOT_YOURS, LOOK)
        match self.services.settings.tabs:
            case "any":
                return None
            case "ask" if _tab_key(request.browser, tab) in self.grants.tabs:
                return None
            case "ask":
                return Decision("ask", 'browser.tabs is "ask", and the tab is the user\'s own')
        detail = f"tab {number} is the user's own"
        then = (
            "They can hand it over in the extension's popup, or set browser.tabs in config.toml; "
            "or open the page in a tab of yours with navigate."
        )
        return Decision("no", detail, Code.NOT_YOURS, then)

    def _of_site(self, request: AccessRequest) -> Decision:
        if self.services.settings.sites == "any":
            return Decision("yes", 'browser.sites is "any", and no rule forbids it')
        if request.leaves or not request.origin:
            return Decision("yes", "no site is touched")
        site, kind = origins.canonicalize(request.origin), self.kind
        for word in dict.fromkeys((kind, "act")):
            if (site, word) in self.approved_once:
                return Decision("yes", f"the user allowed {site} for this call")
            if (site, word) in self.grants.sites:
                return Decision("yes", f"the user allowed {site} for this session")
        approvals = self.services.approvals
        try:
            if approvals.has(site, kind, client_name(self.prompts.session)):
                self.services.sites_changed()  # the file may have changed since the last call
                return Decision("yes", f"the user allowed {site} ({approvals.path.name})")
        except ApprovalsError as error:
            return Decision("no", str(error), then="Tell the user what is wrong with that file.")
        return Decision(
            "ask", f'browser.sites is "ask", and {origins.format_origin(site)} was not allowed yet'
        )

    async def admit(self, request: AccessRequest) -> None:
        """Let the call touch the site, after a prompt to the user where the rules want one.

        Raises:
            CallError: a rule or the user forbids it, or there was no choice; return it to the client.
        """
        decision = self.decide(request)
        if decision.outcome == "ask":
            with self.prompts.pause_clock():
                async with self.grants.prompting:
                    decision = self.decide(request)  # another call may have asked the same
                    if decision.outcome == "ask":
                        await self._prompt_user(self._approval_prompt(request), decision)
                        decision = self.decide(request)
        if decision.outcome != "yes":
            raise CallError(decision.code, decision.rule, handed=False, then=decision.then)

    async def _prompt_user(self, prompt: ApprovalPrompt, decision: Decision) -> None:
        if not self.prompts.supports_approval(prompt.host):
            detail = f"{decision.rule}, and this client cannot ask the user"
            raise CallError(Code.NOT_ALLOWED, detail, handed=False, then=prompt.instead)
        choice = await self.prompts.ask_approval(
            prompt.question, prompt.choices, prompt.origin, self.kind, prompt.host
        )
        if choice == "no":
            detail = f"the user was asked about {prompt.subject} and said no"
            raise CallError(Code.NOT_ALLOWED, detail, handed=False, then=LOOK_NO_FURTHER)
        await prompt.allow(choice)

    async def approve(self, sites: list[str], kind: Kind, choice: str) -> str:
        """Let the user's choice hold; return why it could not be stored, or nothing.

        What cannot be stored holds for this session.
        """
        sites = [origins.canonicalize(site) for site in sites]
        if choice == "once":
            self.approved_once.update((site, kind) for site in sites)
            self.services.sites_changed()
            return ""
        trouble = ""
        if choice in STORED_CHOICES:
            grant = self.services.approvals.grant_choice
            try:
                await trio.to_thread.run_sync(grant, sites, kind, choice, client_name(self.prompts.session))
            except ApprovalsError as error:
                _log.warning("an approval holds for this session only: %s", error)
                trouble = str(error)
            else:
                self.services.sites_changed()
                return ""
        self.grants.sites.update((site, kind) for site in sites)
        self.services.sites_changed()
        return trouble

    @property
    def kind(self) -> Kind:
        """Kind of approval that the call needs; `act` includes `read`."""
        return "read" if self.tool.is_read_only else "act"

    def _approval_prompt(self, request: AccessRequest) -> ApprovalPrompt:
        reads = _READS if self.tool.is_read_only else {}
        verb = reads.get(self.tool.name) or ACTS.get(self.tool.name, _ELSE)
        act = f"{verb} {origins.format_origin(request.origin)}"
        if request.tab is not None and self._of_tab(request) is not None:
            return self._tab_prompt(request, request.tab, act)
        host, site = request.browser.host, origins.get_web_origin(request.origin)
        has_window = self.services.prompts.has_window(host)
        # A form in the client has asked for a whole session, and to act, ever since.
        kind: Kind = self.kind if has_window else "act"

        async def store_approval(choice: str) -> None:
            await self.approve([request.origin], kind, choice)

        choices = ("once", "hour", "client", "always", "no") if has_window else ("session", "always", "no")
        unstored = ("once", "session", "no") if has_window else ("session", "no")
        question = f"{shown_client(self.prompts.session)} wants to {act}."
        return ApprovalPrompt(
            question if has_window else f"{question} May it act on this site?",
            choices if site else unstored,
            store_approval,
            site or origins.format_origin(request.origin),
            host,
            origins.format_origin(request.origin),
            "Ask the user: they can approve this site, or update the extension, which then asks them.",
        )

    def _tab_prompt(self, request: AccessRequest, tab: wire.Tab, act: str) -> ApprovalPrompt:
        client, title = shown_client(self.prompts.session), quote(tab.title, MAX_TITLE_CHARS)

        async def store_grant(choice: str) -> None:
            self.grants.tabs.add(_tab_key(request.browser, tab))
            if request.origin:
                await self.approve([request.origin], "act", choice)

        return ApprovalPrompt(
            f"{client} wants to {act}, in a tab of yours that calls itself {title}. May it use that tab?",
            ("session", "no"),
            store_grant,
            origins.format_origin(request.origin) or "an empty tab",
            request.browser.host,
            f"tab {request.browser.number_of(tab)}",
            "The user can hand the tab over in the extension's popup; or open the page in a tab of yours.",
        )


def _tab_key(browser: Browser, tab: wire.Tab) -> tuple[str, int, int]:
    return browser.profile, browser.pid, tab.tab_id
