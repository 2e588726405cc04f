"""`update_plan`: a client's plan for the user to approve; `permissions_check`: decisions without a prompt."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from bridge import origins
from bridge.browser_tools.session import tab_access
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.permissions import AccessRequest, Decision
from bridge.browser_tools.session.tab_access import TabRef
from bridge.browser_tools.tool import Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools.navigate import address_to_open, complete_address
from bridge.errors import paused_sentence
from bridge.hub.consent.approval_prompts import NoAnswerError
from bridge.hub.consent.user_prompts import shown_client
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

MAX_DOMAINS = 20
MAX_STEPS = 20
MAX_STEP = 300
"""Characters of one."""
_LEAVING = ("navigate", "tabs_close_mcp")
"""Tools for which the current page does not matter."""


# ── update_plan ─────────────────────────────────────────────────────────────────────────────────────────────


class UpdatePlan(ToolInput):
    """Input of `update_plan`."""

    domains: Annotated[list[str], Meta(description="Sites, such as shop.example.")]
    approach: Annotated[list[str], Meta(description="A few short steps.")]


class PlanOutput(ToolOutput, kw_only=True):
    """The user's answer."""

    answer: Literal["approved", "declined", "cancelled"]
    sites: list[str]
    is_remembered: bool


async def update_plan(given: UpdatePlan, context: CallContext) -> ToolResult:
    """Ask; what is approved counts for this session, or always."""
    sites = _parse_sites(given.domains)
    for site in sites:
        if refusal := context.services.policy.origin_refusal(site):
            raise ToolError(f"{site} cannot be part of a plan: {refusal}. The user was not asked.")
        if decision := context.permissions.judge_roots(site):
            text = (
                f"{site} cannot be part of a plan: {decision.rule}. The user was not asked. {decision.then}"
            )
            raise ToolError(text)
    if not context.prompts.supports_approval():
        raise ToolError(f"This client cannot ask the user. {_suggest_alternative(context)}")
    question = _make_question(context, sites, given.approach)
    try:
        choice = await context.prompts.ask_approval(
            question, ("session", "always", "no"), ", ".join(sites), "act"
        )
    except NoAnswerError:
        return _not_approved(sites, is_declined=False)
    if choice == "no":
        return _not_approved(sites, is_declined=True)
    trouble = await context.permissions.approve(sites, "act", choice)
    is_remembered = choice == "always" and not trouble
    lasting = "always" if is_remembered else "for this session"
    but = f" It could not be remembered beyond that: {trouble}." if trouble else ""
    message = f"The user approved the plan, and {', '.join(sites)} {lasting}.{but} Go on."
    return ToolResult(
        PlanOutput(message=message, answer="approved", sites=sites, is_remembered=is_remembered)
    )


def _parse_sites(domains: list[str]) -> list[str]:
    """Return the origins of the domains, each once.

    Raises:
        ToolError: a domain is invalid.
    """
    if not 0 < len(domains) <= MAX_DOMAINS:
        raise ToolError(
            f"A plan names 1 to {MAX_DOMAINS} domains, not {len(domains)}. The user was not asked."
        )
    found: dict[str, None] = {}
    for domain in domains:
        try:
            found[str(origins.parse_origin(complete_address(domain)))] = None
        except (origins.OriginError, ToolError) as error:
            shown = single_line(domain, 100)
            text = f"“{shown}” is no site: {error}. Write shop.example. The user was not asked."
            raise ToolError(text) from None
    return list(found)


def _make_question(context: CallContext, sites: list[str], approach: list[str]) -> str:
    if not 0 < len(approach) <= MAX_STEPS:
        raise ToolError(f"A plan has 1 to {MAX_STEPS} steps, not {len(approach)}. The user was not asked.")
    steps = [f"{number}. {single_line(step, MAX_STEP)}" for number, step in enumerate(approach, 1)]
    return "\n".join(
        [f"{shown_client(context.session)} plans to work on {', '.join(sites)}:", *steps, "May it?"]
    )


def _suggest_alternative(context: CallContext) -> str:
    ask = "Tell them your plan in the conversation, and ask there."
    if context.services.settings.sites == "any":
        return f"{ask} No site needs their approval here."
    can = 'they can set browser.sites = "any" in config.toml'
    return f"{ask} Sites need their approval here: {can}."


def _not_approved(sites: list[str], *, is_declined: bool) -> ToolResult:
    if is_declined:
        message = "The user declined the plan. Do not carry it out; ask them what they want instead."
        return ToolResult(PlanOutput(message=message, answer="declined", sites=sites, is_remembered=False))
    message = "The user put the question away without an answer. Do not carry the plan out yet; ask them."
    return ToolResult(PlanOutput(message=message, answer="cancelled", sites=sites, is_remembered=False))


# ── permissions_check ───────────────────────────────────────────────────────────────────────────────────────


class CheckPermissions(ToolInput, forbid_unknown_fields=False):
    """Input of `permissions_check`."""

    tool: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    tab_id: int | UnsetType = field(name="tabId", default=UNSET)


class Permission(ToolOutput, kw_only=True):
    """Expected decision."""

    allowed: Literal["yes", "no", "ask"]
    """`ask`: the user would be asked first."""
    rule: str
    tool: str
    subject: str
    """The site or tab that it is about; empty: none."""


async def permissions_check(given: CheckPermissions, context: CallContext) -> ToolResult:
    """Return the expected decision without prompting the user."""
    name = "" if given.tool is UNSET else given.tool
    asked = replace(context, tool=context.services.tools[_check_name(name, context)]) if name else context
    decisions = [("", asked.permissions.judge_tool())]
    decisions += [
        (subject, asked.permissions.decide(request)) for subject, request in _access_requests(given, asked)
    ]
    order = ("no", "ask", "yes")
    subject, decision = min(reversed(decisions), key=lambda each: order.index(each[1].outcome))
    allowed, rule = _explain_decision(decision, context)
    return ToolResult(
        Permission(
            message=f"{_SAID[allowed]}{f' ({subject})' if subject else ''}: {rule}.",
            allowed=allowed,
            rule=rule,
            tool=name,
            subject=subject,
        )
    )


_SAID = {"yes": "Allowed", "no": "Not allowed", "ask": "The user would be asked first"}


def _explain_decision(decision: Decision, context: CallContext) -> tuple[Literal["yes", "no", "ask"], str]:
    if decision.outcome == "ask" and not context.prompts.supports_approval():
        return "no", f"{decision.rule}, and this client cannot ask the user"
    then = f"; {decision.then.rstrip('.')}" if decision.then else ""
    rule = paused_sentence(decision.rule).rstrip(".") if decision.code is Code.PAUSED else decision.rule
    return decision.outcome, f"{rule}{then}"


def _check_name(name: str, context: CallContext) -> str:
    tools = context.services.tools
    if name in tools:
        return name
    near = difflib.get_close_matches(name, tools, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(tools)}"
    raise ToolError(f"There is no browser tool {single_line(name, 60)}; {hint}")


def _access_requests(given: CheckPermissions, context: CallContext) -> Iterator[tuple[str, AccessRequest]]:
    if given.url is not UNSET:
        url = address_to_open(given.url)
        yield (
            origins.get_origin(url) or url,
            AccessRequest(context.current_browser(), origins.get_origin(url)),
        )
    place = _current_place(context) if given.url is UNSET else None
    if given.tab_id is not UNSET:
        place = context.find_tab(given.tab_id)
    if place is not None:
        number = context.show_tab(place) if given.tab_id is UNSET else given.tab_id
        origin = origins.get_tab_origin(place.tab)
        leaves = context.tool.name in _LEAVING
        yield (
            f"tab {number} at {origin or 'an empty page'}",
            AccessRequest(place.browser, origin, place.tab, leaves),
        )


def _current_place(context: CallContext) -> TabRef | None:
    for browser in tab_access.live_browsers(context.services.registry):
        tab = None if context.state.tab_id is None else browser.tabs.get(context.state.tab_id)
        if tab is not None and not tab.incognito:
            return TabRef(browser, tab)
    return None


TOOLS = (
    Tool(
        name="update_plan",
        title="Ask for approval of a plan",
        description=(
            "Shows the user your plan and its sites, and waits for their approval, which lasts "
            "for this session."
        ),
        search_hint="plan approval of user",
        input_type=UpdatePlan,
        output_type=PlanOutput,
        run=update_plan,
    ),
    Tool(
        name="permissions_check",
        title="What would be allowed",
        description=(
            "Says whether a tool may be used at an address or in a tab, or whether the user would "
            "be asked first."
        ),
        search_hint="permission allowed site",
        input_type=CheckPermissions,
        output_type=Permission,
        run=permissions_check,
        is_read_only=True,
        is_for_paused=True,
    ),
)
