"""Tools that no page offers: listed beside the pages', counted, recorded, given up."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from bridge.errors import CallError
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import CallRecord, FinishedCall, Record
from bridge.hub.client_session import ListForm, Session
from bridge.hub.page_call import Outcome, PageResult
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router, Terms
from bridge.hub.tool_result import Answer
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, DiscoveryFinished
from fake_transport import PlayedTransport, browser_hello, tab
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.protocol.wire import Code

DONE = b'{"content":[{"type":"text","text":"done"}]}'
NOTHING = Arguments(b"{}")
SESSION = Session("ours")


class Whistle(NoProvider):
    """A `Provider` with one tool, which waits until it may end."""

    names: Container[str] = ("whistle",)

    def __init__(self) -> None:
        self.ending: Answer | Exception = Answer(DONE, is_error=False)
        self.may_end = trio.Event()
        self.was_cancelled = False
        self.released: list[Session] = []

    def definitions(self, _era: Era, _form: ListForm) -> list[dict[str, Any]]:
        return [{"name": "whistle", "description": "Whistles.", "inputSchema": {"type": "object"}}]

    async def run(self, _recording: CallRecord, _caller: CallObserver) -> Answer:
        try:
            await self.may_end.wait()
        except trio.Cancelled:
            self.was_cancelled = True
            raise
        if isinstance(self.ending, Exception):
            raise self.ending
        return self.ending

    def release(self, session: Session) -> None:
        self.released.append(session)


@pytest.fixture
def whistle() -> Whistle:
    return Whistle()


@pytest.fixture
def records() -> list[Record]:
    return []


@pytest.fixture
async def router(whistle: Whistle, records: list[Record], nursery: trio.Nursery) -> Router:
    router = Router(PlayedTransport(), terms=Terms(rate_limiter=RateLimiter(2)), keep=records.append)
    router.set_provider(whistle)
    nursery.start_soon(router.run)
    return router


def ends(records: list[Record]) -> list[tuple[str, str]]:
    return [(record.name, record.outcome) for record in records if isinstance(record, FinishedCall)]


async def test_its_tools_stand_between_ours_and_the_pages(router: Router) -> None:
    with trio.fail_after(30):
        listed = msgspec.json.decode(await router.list_tools(SESSION, Era.STATELESS))
    assert [tool["name"] for tool in listed] == [
        "list_page_tools",
        "call_page_tool",
        "read_resource",
        "whistle",
    ]


async def test_a_call_is_among_those_that_run_until_it_has_its_answer(
    router: Router, whistle: Whistle, records: list[Record]
) -> None:
    outcomes: list[Outcome] = []
    router.begin(SESSION, "whistle", NOTHING, outcomes.append)
    await trio.testing.wait_all_tasks_blocked()
    assert [running.name for running in router.running_calls()] == ["whistle"]
    whistle.may_end.set()
    await trio.testing.wait_all_tasks_blocked()
    assert outcomes == [DONE]
    assert ends(records) == [("whistle", "ok")]
    assert router.running_calls() == []


async def test_who_gives_a_call_up_ends_it(router: Router, whistle: Whistle, records: list[Record]) -> None:
    outcomes: list[Outcome] = []
    pending = router.begin(SESSION, "whistle", NOTHING, outcomes.append)
    await trio.testing.wait_all_tasks_blocked()
    pending.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert whistle.was_cancelled
    assert (outcomes, ends(records)) == ([], [("whistle", "cancelled")])


@pytest.mark.parametrize(
    ("ending", "words", "outcome"),
    [
        (Answer(DONE, is_error=True), b"done", "tool_error"),
        (CallError(Code.NO_SUCH_TAB, "tab 7", handed=False), b"No such tab: tab 7.", "no_such_tab"),
        (CallError(Code.TIMED_OUT, handed=True, then="Whistle again."), b"Whistle again.", "timed_out"),
    ],
)
async def test_a_failure_is_told_and_recorded(
    router: Router,
    whistle: Whistle,
    records: list[Record],
    ending: Answer | Exception,
    words: bytes,
    outcome: str,
) -> None:
    whistle.ending = ending
    whistle.may_end.set()
    with trio.fail_after(30):
        assert words in await router.call(SESSION, "whistle", NOTHING)
    assert ends(records) == [("whistle", outcome)]


async def test_what_nobody_expected_stays_in_our_log(
    router: Router, whistle: Whistle, records: list[Record], caplog: pytest.LogCaptureFixture
) -> None:
    whistle.ending = RuntimeError("secret")
    whistle.may_end.set()
    with trio.fail_after(30), pytest.raises(RuntimeError):
        await router.call(SESSION, "whistle", NOTHING)
    assert ends(records) == [("whistle", "internal_error")]
    assert "calling whistle failed" in caplog.text


async def test_calls_are_counted_with_those_of_pages_tools(router: Router, whistle: Whistle) -> None:
    whistle.may_end.set()
    with trio.fail_after(30):
        answers = [await router.call(SESSION, "whistle", NOTHING) for _ in range(3)]
    assert answers[:2] == [DONE, DONE]
    assert b"Too many calls" in answers[2]


async def test_the_end_of_a_session_is_told(router: Router, whistle: Whistle) -> None:
    await router.release(SESSION)
    assert whistle.released == [SESSION]


class OwnTools(Whistle):
    """The browser's own, as far as their names are known."""

    names: Container[str] = ("navigate",)


async def test_who_looks_for_pages_tools_is_led_to_the_browser_s_own(nursery: trio.Nursery) -> None:
    transport = PlayedTransport()
    router = Router(transport, lambda _: "Run: mcpb demo --serve")
    router.set_provider(OwnTools())
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    with trio.fail_after(30):
        alone = await router.call(SESSION, "list_page_tools", NOTHING)
        transport.connect("h1", wire.Tabs(tabs=[tab(1)]))
        connected = await router.call(SESSION, "list_page_tools", NOTHING)
        named = await router.call(SESSION, "call_page_tool", Arguments.of({"name": "navigate"}))
    assert b"mcpb demo" in alone
    assert b"No page offers a tool right now.\\nUse the browser's own: navigate" in connected
    assert b"navigate is not a tool of a page: call it by itself" in named


async def test_where_only_another_product_s_extension_is_connected_it_is_said_what_page_tools_need(
    nursery: trio.Nursery,
) -> None:
    transport = PlayedTransport()
    router = Router(transport, lambda _: "They need mcpb's own extension.")
    router.set_provider(OwnTools())
    nursery.start_soon(router.run)
    transport.happen(DiscoveryFinished())
    theirs = wire.Capabilities(tools=[msgspec.Raw(b'{"name":"navigate"}')])
    hello = msgspec.structs.replace(browser_hello(), capabilities=theirs)
    with trio.fail_after(30):
        transport.connect("h1", hello, wire.Tabs(tabs=[]))
        said = await router.call(SESSION, "list_page_tools", NOTHING)
    assert b"right now.\\nThey need mcpb's own extension.\\nUse the browser's own: navigate" in said


class Changing(NoProvider):
    """A provider whose tools change."""

    def __init__(self, *tools: str) -> None:
        self.set_tools(*tools)

    def set_tools(self, *tools: str) -> None:
        self._tools = self.names = self.version = tools

    def definitions(self, _era: Era, _form: ListForm) -> list[dict[str, Any]]:
        return [{"name": name, "inputSchema": {"type": "object"}} for name in self._tools]

    def prompts(self) -> dict[str, bytes]:
        return {name: b'{"name":"%b"}' % name.encode() for name in self._tools}

    async def run(self, record: CallRecord, _observer: CallObserver) -> Answer:
        return Answer(DONE, is_error=False, origin=f"remote:{record.name}")


async def names_of(router: Router) -> list[str]:
    return [tool["name"] for tool in await router.list_tools_decoded(SESSION)]


async def test_lists_have_the_tools_of_all_providers_and_follow_their_changes(router: Router) -> None:
    changing = Changing("first")
    router.add_provider(changing)
    told: list[str] = []

    async def tell(kind: str) -> None:
        told.append(kind)

    async with trio.open_nursery() as nursery:
        await nursery.start(router.notify_changes, tell, SESSION)
        assert {"whistle", "first"} <= {*await names_of(router)}
        changing.set_tools("second")
        router.changes.notify()
        with trio.fail_after(30):
            while "tools" not in told:
                await trio.testing.wait_all_tasks_blocked()
                router.changes.notify()
        assert {"whistle", "second"} <= {*await names_of(router)}
        assert "first" not in await names_of(router)
        nursery.cancel_scope.cancel()


async def test_of_two_providers_with_one_name_the_first_has_it(router: Router, whistle: Whistle) -> None:
    router.add_provider(Changing("whistle"))
    whistle.may_end.set()
    with trio.fail_after(30):
        assert await router.call(SESSION, "whistle", NOTHING) == DONE


async def test_a_result_that_a_provider_passes_on_carries_its_origin(router: Router) -> None:
    router.add_provider(Changing("orders"))
    outcomes: list[Outcome] = []
    router.begin(SESSION, "orders", NOTHING, outcomes.append)
    await trio.testing.wait_all_tasks_blocked()
    assert outcomes == [PageResult(DONE, "remote:orders")]
