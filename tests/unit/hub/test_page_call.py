"""Calls that are begun without waiting for them: what is done at once, what later, and how they end."""

import json
from typing import get_args

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError, UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Record
from bridge.hub.client_session import Session
from bridge.hub.page_call import Outcome, PageResult
from bridge.hub.policy import Policy, PolicyRules, ResultRule
from bridge.hub.router import Router, Terms
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLost
from fake_transport import CART, PlayedTransport, one_page, tab, tools
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.wire import Code

GET_CART = "website_tool_shop_example_tab1_getCart"
ANY = "website_tool_shop_example_getCart"
NOTHING = Arguments(b"{}")
EXECUTED = b'{"success":true,"payload":%b}' % json.dumps(CART).encode()


@pytest.fixture
def transport() -> PlayedTransport:
    transport = PlayedTransport()
    transport.answer = None
    return transport


@pytest.fixture
def records() -> list[Record]:
    return []


@pytest.fixture
async def router(transport: PlayedTransport, records: list[Record]) -> Router:
    """It does not run: so nothing here waits."""
    router = Router(transport, keep=records.append)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))
    records.clear()
    return router


def words(records: list[Record]) -> list[str]:
    return [record.outcome for record in records if isinstance(record, FinishedCall)]


async def test_a_call_is_sent_before_begin_returns_and_ends_with_its_answer(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    outcomes: list[Outcome] = []
    router.begin(Session("ours"), GET_CART, NOTHING, outcomes.append)
    (asked,) = transport.asked
    assert (outcomes, records) == ([], [])
    asked.on_done(EXECUTED)
    assert outcomes == [PageResult(json.dumps(CART).encode(), "https://shop.example")]
    assert words(records) == ["ok"]


@pytest.mark.parametrize("rule", get_args(ResultRule))
async def test_a_result_that_does_not_fit_is_marked_or_rejected_as_the_policy_says(
    transport: PlayedTransport, records: list[Record], rule: ResultRule
) -> None:
    router = Router(transport, keep=records.append, terms=Terms(policy=Policy(PolicyRules(results=rule))))
    definition = {"name": "getCart", "outputSchema": {"type": "object", "required": ["total"]}}
    announced = msgspec.structs.replace(tools(1), tools=[msgspec.Raw(msgspec.json.encode(definition))])
    transport.happen(DiscoveryFinished())
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), announced)
    outcomes: list[Outcome] = []
    for structured in ({"total": 1}, {"sum": 1}):
        router.begin(Session("ours"), GET_CART, NOTHING, outcomes.append)
        payload = {"content": [], "structuredContent": structured}
        transport.asked[-1].on_done(msgspec.json.encode({"success": True, "payload": payload}))
    fits, other = outcomes
    assert isinstance(fits, PageResult)
    assert not fits.is_mismatch
    if rule == "reject":
        assert isinstance(other, bytes)
        assert b'"isError":true' in other
        assert b"total: required" in other
    else:
        assert isinstance(other, PageResult)
        assert other.is_mismatch == (rule == "warn")
    assert words(records) == ["ok", "not_allowed" if rule == "reject" else "ok"]


async def test_the_answer_goes_out_before_it_is_written_down(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    written: list[int] = []
    router.begin(Session("ours"), GET_CART, NOTHING, lambda _: written.append(len(records)))
    transport.asked[0].on_done(EXECUTED)
    assert (written, len(records)) == ([0], 1)


async def test_who_gives_a_call_up_hears_no_more_of_it(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    outcomes: list[Outcome] = []
    pending = router.begin(Session("ours"), GET_CART, NOTHING, outcomes.append)
    pending.cancel()
    pending.cancel()
    assert transport.given_up == transport.asked
    assert (outcomes, words(records)) == ([], ["cancelled"])


async def test_once_it_has_ended_giving_it_up_does_nothing(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    pending = router.begin(Session("ours"), GET_CART, NOTHING, lambda _: None)
    transport.asked[0].on_done(EXECUTED)
    pending.cancel()
    assert (transport.given_up, words(records)) == ([], ["ok"])


async def test_a_call_that_went_on_to_another_tab_is_given_up_there(
    router: Router, transport: PlayedTransport
) -> None:
    tabs = wire.Tabs(tabs=[tab(1, last_accessed=2), tab(2, ordinal=2, last_accessed=1)])
    transport.announce("h1", tabs, tools(1, "getCart"), tools(2, "getCart", document_id="d2"))
    pending = router.begin(Session("ours"), ANY, NOTHING, lambda _: None)
    transport.asked[0].on_done(CallError(Code.NO_SUCH_TAB, handed=False))
    assert [asked.tab.tab_id for asked in transport.asked] == [1, 2]
    pending.cancel()
    assert transport.given_up == transport.asked[1:]


async def test_one_answer_may_begin_the_next_call(router: Router, transport: PlayedTransport) -> None:
    session, outcomes = Session("ours"), list[Outcome]()
    transport.answer = {"success": True, "payload": CART}

    def again(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if len(outcomes) < 3:
            router.begin(session, GET_CART, NOTHING, again)

    router.begin(session, GET_CART, NOTHING, again)
    assert len(outcomes) == 3


async def test_what_has_to_be_waited_for_is_waited_for_once_the_router_runs(
    router: Router, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    outcomes: list[Outcome] = []
    router.begin(Session("ours"), "website_tool_nobody_example_tab1_x", NOTHING, outcomes.append)
    await trio.testing.wait_all_tasks_blocked()
    assert outcomes == []
    nursery.start_soon(router.run)
    await trio.testing.wait_all_tasks_blocked()
    (outcome,) = outcomes
    assert isinstance(outcome, UnknownToolError)


async def test_while_it_waits_a_call_can_be_given_up(
    router: Router, transport: PlayedTransport, records: list[Record], nursery: trio.Nursery
) -> None:
    nursery.start_soon(router.run)
    outcomes: list[Outcome] = []
    pending = router.begin(Session("ours"), "website_tool_nobody_example_tab1_x", NOTHING, outcomes.append)
    pending.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert (outcomes, words(records)) == ([], ["cancelled"])


async def test_when_the_router_ends_what_waits_is_recorded_as_cancelled(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    transport.happen(HostDiscovered("h2", 2.0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        transport.on_look = nursery.cancel_scope.cancel
        router.begin(Session("ours"), "website_tool_nobody_example_tab1_x", NOTHING, lambda _: None)
    assert words(records) == ["cancelled"]


async def test_what_would_wait_for_a_router_that_has_ended_is_recorded_as_cancelled(
    router: Router, transport: PlayedTransport, records: list[Record]
) -> None:
    """The links end after it, and tell of every call that was open."""
    outcomes: list[Outcome] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        await trio.testing.wait_all_tasks_blocked()
        router.begin(Session("ours"), ANY, NOTHING, outcomes.append)
        nursery.cancel_scope.cancel()
    transport.happen(HostLost("h1"))
    transport.asked[0].on_done(CallError(Code.GONE, handed=False))
    assert (outcomes, words(records)) == ([], ["cancelled"])
    router.begin(Session("ours"), "list_page_tools", NOTHING, outcomes.append)
    assert (outcomes, words(records), router.running_calls()) == ([], ["cancelled"] * 2, [])


async def test_a_call_that_was_refused_at_once_is_given_up_where_it_went_then(
    router: Router, transport: PlayedTransport
) -> None:
    tabs = wire.Tabs(tabs=[tab(1, last_accessed=2), tab(2, ordinal=2, last_accessed=1)])
    transport.announce("h1", tabs, tools(1, "getCart"), tools(2, "getCart", document_id="d2"))
    refusal = CallError(Code.NO_SUCH_TAB, handed=False)
    transport.on_request = lambda asked: refusal if asked.tab.tab_id == 1 else None
    pending = router.begin(Session("ours"), ANY, NOTHING, lambda _: None)
    pending.cancel()
    assert [asked.tab.tab_id for asked in transport.given_up] == [2]


async def test_a_call_that_is_given_up_when_its_browser_has_just_come_back_is_not_sent(
    router: Router, transport: PlayedTransport, records: list[Record], nursery: trio.Nursery
) -> None:
    nursery.start_soon(router.run)
    transport.happen(HostLost("h1"))
    pending = router.begin(Session("ours"), GET_CART, NOTHING, lambda _: None)
    await trio.testing.wait_all_tasks_blocked()
    transport.connect("h2", *one_page("getCart"), started_at=2.0)
    pending.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert (transport.asked, words(records)) == ([], ["cancelled"])


async def test_a_call_that_no_other_tab_can_take_ends_with_what_refused_it(
    router: Router, transport: PlayedTransport, records: list[Record], nursery: trio.Nursery
) -> None:
    nursery.start_soon(router.run)
    outcomes: list[Outcome] = []
    router.begin(Session("ours"), ANY, NOTHING, outcomes.append)
    transport.announce("h1", wire.TabRemoved(tab_id=1))
    transport.asked[0].on_done(CallError(Code.NO_SUCH_TAB, handed=False))
    await trio.testing.wait_all_tasks_blocked()
    (outcome,) = outcomes
    assert isinstance(outcome, bytes)
    assert words(records) == ["no_such_tab"]


# ── Arguments ───────────────────────────────────────────────────────────────────────────────────────────────

AS_WRITTEN = b'{ "n":1180591620717411303424, "x":1.0,"x":2e0 }'


def sent(transport: PlayedTransport) -> bytes:
    (asked,) = transport.asked
    assert isinstance(asked.params, wire.ExecuteTool)
    return bytes(asked.params.args)


async def test_the_page_gets_the_arguments_as_the_client_wrote_them(
    router: Router, transport: PlayedTransport
) -> None:
    router.begin(Session("ours"), GET_CART, Arguments(AS_WRITTEN), lambda _: None)
    assert sent(transport) == AS_WRITTEN


async def test_so_does_a_page_whose_tool_is_called_by_name(
    router: Router, transport: PlayedTransport
) -> None:
    asked = b'{"name":"%b","arguments":%b}' % (GET_CART.encode(), AS_WRITTEN)
    router.begin(Session("ours"), "call_page_tool", Arguments(asked), lambda _: None)
    assert sent(transport) == AS_WRITTEN


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b'{"n":1e999}', id="infinite"),
        pytest.param(b'{"n":"\\ud800"}', id="half a character"),
        pytest.param(b'{"n":%b}' % (b"9" * 5000), id="endless"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"n":"\xff"}', id="no UTF-8"),
        pytest.param(b'{"n":' * 5000 + b"1" + b"}" * 5000, id="deep"),
    ],
)
async def test_arguments_that_nobody_can_read_are_refused_and_recorded(
    router: Router, transport: PlayedTransport, records: list[Record], raw: bytes
) -> None:
    outcomes: list[Outcome] = []
    router.begin(Session("ours"), GET_CART, Arguments(raw), outcomes.append)
    (outcome,) = outcomes
    assert isinstance(outcome, bytes)
    assert b"Invalid arguments" in outcome
    assert (transport.asked, words(records)) == ([], ["invalid_params"])


# ── Our own two tools ───────────────────────────────────────────────────────────────────────────────────────


async def test_listing_page_tools_is_a_call(
    router: Router, records: list[Record], nursery: trio.Nursery
) -> None:
    nursery.start_soon(router.run)
    await router.call(Session("ours"), "list_page_tools", NOTHING)
    await router.call(Session("ours"), "list_page_tools", Arguments.of({"query": ["hunter2"]}))
    found = [(each.name, each.outcome, each.detail) for each in records if isinstance(each, FinishedCall)]
    assert found == [("list_page_tools", "ok", ""), ("list_page_tools", "invalid_params", "query: type")]


async def test_a_page_tool_that_is_called_by_name_is_one_call(
    router: Router, transport: PlayedTransport, records: list[Record], nursery: trio.Nursery
) -> None:
    nursery.start_soon(router.run)
    transport.answer = {"success": True, "payload": {"content": []}}
    for arguments in ({"name": ANY}, {"name": ANY, "arguments": "hunter2"}, {"name": "hunter2"}):
        await router.call(Session("ours"), "call_page_tool", Arguments.of(arguments))
    found = [
        (each.name, each.own_name, each.outcome, each.detail)
        for each in records
        if isinstance(each, FinishedCall)
    ]
    assert found == [
        ("call_page_tool", "getCart", "ok", ""),
        ("call_page_tool", "", "invalid_params", "arguments: type"),
        ("call_page_tool", "", "unknown_tool", ""),
    ]


@pytest.mark.parametrize("name", ["list_page_tools", "call_page_tool"])
async def test_our_own_tools_count_against_the_rate_limit_once(nursery: trio.Nursery, name: str) -> None:
    transport = PlayedTransport()
    records: list[Record] = []
    router = Router(transport, terms=Terms(rate_limiter=RateLimiter(2)), keep=records.append)
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))
    arguments = Arguments.of({"name": ANY} if name == "call_page_tool" else {})
    for _ in range(3):
        await router.call(Session("ours"), name, arguments)
    assert words(records)[2] == "rate_limited"
    assert "rate_limited" not in words(records)[:2]
