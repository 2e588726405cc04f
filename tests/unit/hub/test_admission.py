"""What may not be called is refused before anything is sent, and the refusal names what refused it."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio

from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Record, ToolRegistration
from bridge.hub.client_session import Session
from bridge.hub.meta_tools import TOOLS
from bridge.hub.page_call import Outcome
from bridge.hub.policy import Policy, PolicyRules, ToolRule
from bridge.hub.router import Router, Terms
from bridge.hub.tool_definition import mark_of
from bridge.hub.transport import DiscoveryFinished
from fake_transport import CART, PlayedTransport, one_page, tab, tools
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter

GET_CART = "website_tool_shop_example_tab1_getCart"
ORIGIN = "https://shop.example"

Open = Callable[[Terms], Router]


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
def records() -> list[Record]:
    return []


@pytest.fixture
def hub(transport: PlayedTransport, records: list[Record], nursery: trio.Nursery) -> Open:
    """A router under given terms, with one page."""

    def open_router(terms: Terms) -> Router:
        router = Router(transport, terms=terms, keep=records.append)
        nursery.start_soon(router.run)
        transport.happen(DiscoveryFinished())
        transport.connect("h1", wire.Tabs(tabs=[tab(1)]), page())
        return router

    return open_router


def page(**definition: Any) -> wire.FrameTools:
    announced = tools(1)
    announced.tools.append(msgspec.Raw(msgspec.json.encode({"name": "getCart", **definition})))
    return announced


def under(**rules: Any) -> Terms:
    return Terms(policy=Policy(PolicyRules(**rules)))


async def refusal(router: Router, arguments: dict[str, Any] | None = None) -> str:
    result = json.loads(await router.call(Session("ours"), GET_CART, Arguments.of(arguments or {})))
    assert result["isError"] is True
    text = str(result["content"][0]["text"])
    assert "Nothing was run." in text
    return text


async def listed(router: Router) -> list[str]:
    return [tool["name"] for tool in await router.list_tools_decoded(Session("ours"))][len(TOOLS) :]


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({"deny": ["https://*.example"]}, 'policy.deny has "https://*.example"'),
        ({"allow": ["https://other.example"]}, "policy.allow does not name https://shop.example"),
        ({"read_only": True}, "policy.read_only is on"),
        ({"tools": [ToolRule(name="get*", allow=False)]}, "policy.tools[0]"),
    ],
)
async def test_a_tool_that_the_policy_forbids_is_not_listed_and_its_call_names_the_rule(
    hub: Open, transport: PlayedTransport, records: list[Record], rules: dict[str, Any], names: str
) -> None:
    router = hub(under(**rules))
    assert await listed(router) == []
    assert names in router.connection_problem()
    assert names in await refusal(router)
    assert transport.asked == []
    (called,) = [record for record in records if isinstance(record, FinishedCall)]
    assert called.outcome == "not_allowed"
    assert names in called.detail


async def test_in_read_only_mode_a_tool_that_its_page_marks_so_is_called(
    hub: Open, transport: PlayedTransport
) -> None:
    router = hub(under(read_only=True))
    transport.announce("h1", page(annotations={"readOnlyHint": True}))
    assert json.loads(await router.call(Session("ours"), GET_CART, Arguments.of({}))) == CART


async def test_the_person_s_own_description_stands_in_place_of_the_page_s(hub: Open) -> None:
    router = hub(under(tools=[ToolRule(name="getCart", description="Ask me before you use it.")]))
    (tool,) = (await router.list_tools_decoded(Session("ours")))[len(TOOLS) :]
    assert tool["description"] == f"{mark_of('https://shop.example')} [tab 1] Ask me before you use it."


PAUSED_CLIENT = "The user paused you. Nothing was run. Ask the user; they can resume you in the mcpb popup."
PAUSED_SITE = (
    f"The user paused {ORIGIN}. Nothing was run. Ask the user; they can resume it in the mcpb popup."
)


@pytest.mark.parametrize(
    ("paused", "told"),
    [
        (wire.Paused(sites=[ORIGIN]), PAUSED_SITE),
        (wire.Paused(sites=["*.example"]), PAUSED_SITE),
        (wire.Paused(sessions=["ours"]), PAUSED_CLIENT),
    ],
)
async def test_what_a_person_has_paused_is_refused_and_goes_on_when_it_is_resumed(
    hub: Open, transport: PlayedTransport, paused: wire.Paused, told: str
) -> None:
    router = hub(Terms())
    transport.announce("h1", paused)
    assert await refusal(router) == told
    transport.announce("h1", wire.Paused())
    assert json.loads(await router.call(Session("ours"), GET_CART, Arguments.of({}))) == CART


async def test_another_site_and_another_client_are_not_paused(hub: Open, transport: PlayedTransport) -> None:
    router = hub(Terms())
    transport.announce("h1", wire.Paused(sites=["https://bank.example"], sessions=["theirs"]))
    assert json.loads(await router.call(Session("ours"), GET_CART, Arguments.of({}))) == CART


async def test_arguments_that_do_not_fit_are_refused_by_field_and_never_sent(
    hub: Open, transport: PlayedTransport, records: list[Record]
) -> None:
    router = hub(Terms())
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    transport.announce("h1", page(inputSchema=schema))
    assert "count" in await refusal(router, {"count": "two"})
    assert transport.asked == []
    called = records[-1]
    assert isinstance(called, FinishedCall)
    assert (called.outcome, called.handed) == ("invalid_params", False)
    assert "count" in called.detail


async def test_a_client_that_calls_too_often_is_told_the_limit_and_how_long_to_wait(
    hub: Open, transport: PlayedTransport, records: list[Record], autojump_clock: trio.abc.Clock
) -> None:
    router = hub(Terms(rate_limiter=RateLimiter(2)))
    session = Session("ours")
    for _ in range(2):
        assert json.loads(await router.call(session, GET_CART, Arguments.of({}))) == CART
    text = json.loads(await router.call(session, GET_CART, Arguments.of({})))["content"][0]["text"]
    assert "calls_per_minute allows 2 to each client; wait 30.0 s" in text
    assert json.loads(await router.call(Session("theirs"), GET_CART, Arguments.of({}))) == CART
    await trio.sleep(30)
    assert json.loads(await router.call(session, GET_CART, Arguments.of({}))) == CART
    outcomes = [record.outcome for record in records if isinstance(record, FinishedCall)]
    assert outcomes == ["ok", "ok", "rate_limited", "ok", "ok"]


async def test_more_tools_than_a_client_can_take_are_reached_by_search_alone(
    hub: Open, transport: PlayedTransport
) -> None:
    router = hub(Terms(max_listed=5))
    transport.announce("h1", tools(1, "a", "b"))
    assert len(await listed(router)) == 2
    transport.announce("h1", tools(1, "a", "b", "getCart"))
    assert await listed(router) == []
    session = Session("ours")
    found = json.loads(await router.call(session, "list_page_tools", Arguments.of({"query": "cart"})))
    assert GET_CART in found["content"][0]["text"]
    arguments = {"name": GET_CART, "arguments": {}}
    assert json.loads(await router.call(session, "call_page_tool", Arguments.of(arguments))) == CART


async def test_a_frame_of_an_allowed_site_inside_a_denied_page_is_denied_with_it(
    hub: Open, transport: PlayedTransport
) -> None:
    router = hub(under(deny=["https://evil.example"]))
    transport.announce("h1", wire.TabChanged(tab=tab(1, "https://evil.example")))
    assert await listed(router) == []
    transport.announce("h1", wire.TabChanged(tab=tab(1)))
    assert await listed(router) == [GET_CART]


async def test_a_dot_behind_the_host_does_not_lead_around_a_pause(
    hub: Open, transport: PlayedTransport
) -> None:
    router = hub(Terms())
    dotted = f"{ORIGIN}."
    transport.announce("h1", wire.Paused(sites=[ORIGIN]), wire.TabChanged(tab=tab(1, dotted)))
    transport.announce("h1", tools(1, "getCart", origin=dotted))
    (name,) = await listed(router)
    result = json.loads(await router.call(Session("ours"), name, Arguments.of({})))
    assert result["content"][0]["text"] == PAUSED_SITE


async def test_a_paused_page_is_paused_with_all_its_frames(hub: Open, transport: PlayedTransport) -> None:
    router = hub(Terms())
    around = wire.TabChanged(tab=tab(1, "https://portal.example"))
    transport.announce("h1", around, wire.Paused(sites=["https://portal.example"]))
    assert (await refusal(router)).startswith("The user paused https://portal.example.")


# ── What is written down ────────────────────────────────────────────────────────────────────────────────────


async def test_a_call_is_recorded_with_who_where_what_and_what_came_of_it(
    hub: Open, transport: PlayedTransport, records: list[Record]
) -> None:
    router = hub(Terms())
    transport.answer = {"success": True, "payload": {"content": [], "isError": True}}
    session = Session("ours")
    await router.call(session, GET_CART, Arguments.of({"pin": 1234}))
    called = records[-1]
    assert isinstance(called, FinishedCall)
    assert (called.session, called.name, called.own_name) == (session, GET_CART, "getCart")
    assert (called.site.origin, called.site.ordinal, called.site.browser) == (ORIGIN, 1, "Chromium")
    assert (called.outcome, called.arguments.value) == ("tool_error", {"pin": 1234})


async def test_a_call_that_was_given_up_is_recorded_as_cancelled(
    hub: Open, transport: PlayedTransport, records: list[Record]
) -> None:
    router = hub(Terms())
    transport.answer = None
    outcomes: list[Outcome] = []
    pending = router.begin(Session("ours"), GET_CART, Arguments.of({}), outcomes.append)
    pending.cancel()
    pending.cancel()
    called = records[-1]
    assert isinstance(called, FinishedCall)
    assert called.outcome == "cancelled"
    assert (outcomes, len(records), len(transport.given_up)) == ([], 2, 1)


async def test_a_call_that_fails_by_our_own_fault_is_recorded_as_well(
    hub: Open, transport: PlayedTransport, records: list[Record]
) -> None:
    router = hub(Terms())
    transport.answer = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await router.call(Session("ours"), GET_CART, Arguments.of({}))
    called = records[-1]
    assert isinstance(called, FinishedCall)
    assert called.outcome == "internal_error"


async def test_a_list_of_tools_is_recorded_when_its_names_are_others(
    hub: Open, transport: PlayedTransport, records: list[Record]
) -> None:
    hub(Terms())
    transport.announce("h1", page(description="new words"), tools(1, "getCart", "checkout"))
    registered = [record.tools for record in records if isinstance(record, ToolRegistration)]
    assert registered == [("getCart",), ("getCart", "checkout")]


async def test_nothing_is_recorded_of_incognito_tabs(
    transport: PlayedTransport, records: list[Record]
) -> None:
    Router(transport, keep=records.append)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart", incognito=True))
    assert records == []


# ── Rules that change ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_rule_that_comes_later_counts_for_lists_and_calls(
    hub: Open, transport: PlayedTransport
) -> None:
    terms = Terms()
    router = hub(terms)
    assert await listed(router) == [GET_CART]
    terms.policy.set_rules(PolicyRules(deny=(ORIGIN,)))
    router.set_terms(terms)
    assert await listed(router) == []
    assert f'policy.deny has "{ORIGIN}"' in await refusal(router)
    terms.policy.set_rules(PolicyRules())
    router.set_terms(terms)
    assert await listed(router) == [GET_CART]


async def test_a_call_that_runs_on_a_site_that_is_denied_now_is_cancelled(
    hub: Open, transport: PlayedTransport
) -> None:
    terms = Terms()
    router = hub(terms)
    transport.answer = None
    outcomes: list[Outcome] = []
    router.begin(Session("ours"), GET_CART, Arguments.of({}), outcomes.append)
    router.set_terms(terms)
    assert outcomes == []
    terms.policy.set_rules(PolicyRules(deny=(ORIGIN,)))
    router.set_terms(terms)
    (outcome,) = outcomes
    assert isinstance(outcome, bytes)
    text = json.loads(outcome)["content"][0]["text"]
    assert f'policy.deny has "{ORIGIN}"' in text
    assert "It may have run" in text
    assert transport.given_up == transport.asked[-1:]
