"""Discovery of native hosts, and connections to them over real sockets."""

import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
import trio

from bridge.errors import CallError
from bridge.hub.operation import Operation
from bridge.hub.registry import Registry
from bridge.hub.server_request import FORMS, ServerRequest
from bridge.hub.transport import CallObserver, DiscoveryFinished, Event, HostLost, OnRequest, TabAddress
from bridge.links.browsers import host_connection, native_hosts
from bridge.links.browsers.native_hosts import HostDirectory, NativeLinks
from fake_host import PlayedHost
from fake_transport import host_hello, one_page, tools
from native_host.ipc import endpoint
from native_host.ipc.endpoint import Endpoint, Record
from native_host.protocol import jsonrpc, wire
from native_host.protocol.wire import Code
from native_host.system.private_files import PrivateFileError
from wire_peers import until

SOON_S = 30


class Links(NativeLinks):
    """With a registry that hears it."""

    def __init__(self, directory: Path) -> None:
        super().__init__([directory])
        self.directory = directory
        self.registry = Registry()
        self.set_listener(self._keep)

    def _keep(self, event: Event) -> None:
        self.registry.on_event(event, trio.current_time())

    @property
    def offered(self) -> list[str]:
        return [offer.tool.name for offer in self.registry.offers()]

    async def execute(self, host: PlayedHost, timeout_s: float = SOON_S, **more: Any) -> bytes:
        params = wire.ExecuteTool(
            tab_id=1, frame_id=0, document_id="d1", tool_name="getCart", args=msgspec.Raw(b"{}")
        )
        return await self.request(
            TabAddress(host.instance, 1), "browser/executeTool", params, timeout_s, **more
        )


@pytest.fixture
async def links(short_tmp: Path, nursery: trio.Nursery) -> Links:
    links = Links(short_tmp / "run")
    nursery.start_soon(links.run)
    return links


@pytest.fixture
async def host(links: Links) -> AsyncIterator[PlayedHost]:
    async with PlayedHost.in_directory(links.directory) as host:
        with trio.fail_after(SOON_S):
            await host.welcome(*one_page("getCart"))
            await until(lambda: links.offered == ["getCart"])
        yield host


async def failure(links: Links, host: PlayedHost, into: list[CallError], **more: Any) -> None:
    with pytest.raises(CallError) as caught:
        await links.execute(host, **more)
    into.append(caught.value)


async def test_a_host_that_appears_is_linked_and_one_that_vanishes_is_forgotten(links: Links) -> None:
    with trio.fail_after(SOON_S):
        async with PlayedHost.in_directory(links.directory) as host:
            await host.welcome(*one_page("getCart"))
            await until(lambda: links.offered == ["getCart"])
        await until(lambda: links.registry.next_expiry() < float("inf"))


async def test_the_first_thing_said_is_the_bridges_hello_and_then_its_sessions(links: Links) -> None:
    links.set_sessions([wire.Session(id="s1", title="T", client=wire.ClientInfo(name="c"))])
    with trio.fail_after(SOON_S):
        async with PlayedHost.in_directory(links.directory) as host:
            await host.accept()
            hello = await host.next_message()
            sessions = await host.next_message()
            links.set_sessions([])
            assert (await host.next_message())["params"] == {"sessions": []}
    assert hello["method"] == "bridge/hello"
    assert hello["params"]["wire"] == wire.WIRE_VERSION
    assert sessions["params"] == {"sessions": [{"id": "s1", "title": "T", "client": {"name": "c"}}]}


async def test_a_list_from_an_extension_that_knows_another_source_of_tools_is_taken(
    links: Links, host: PlayedHost
) -> None:
    announced = tools(1, "addToCart")
    announced.via = {"addToCart": "a later standard"}
    with trio.fail_after(SOON_S):
        await host.announce(announced)
        await until(lambda: links.offered == ["addToCart"])


async def test_each_answer_reaches_the_request_that_asked_for_it(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    answers: dict[str, bytes] = {}

    async def ask(name: str) -> None:
        answers[name] = await links.execute(host)

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask, "first")
        first = await host.heard("browser/executeTool")
        nursery.start_soon(ask, "second")
        second = await host.heard("browser/executeTool")
        await host.answer(second, "for the second")
        await host.answer(first, "for the first")
        await until(lambda: len(answers) == 2)
    assert answers == {"first": b'"for the first"', "second": b'"for the second"'}


async def test_after_a_page_has_notified_of_something_its_tools_are_still_offered(
    links: Links, host: PlayedHost
) -> None:
    said = wire.PageNotification(tab_id=1, frame_id=0, document_id="d1", method="notifications/message")
    with trio.fail_after(SOON_S):
        await host.announce(said, tools(1, "later", frame_id=1, document_id="d2"))
        await until(lambda: "later" in links.offered)
    assert links.offered == ["getCart", "later"]


async def test_an_answer_that_nobody_waits_for_is_dropped(links: Links, host: PlayedHost) -> None:
    with trio.fail_after(SOON_S):
        await host.answer({"id": 4711}, "late")
        await host.announce(*one_page("later"))
        await until(lambda: links.offered == ["later"])


async def test_an_error_keeps_its_code_and_whether_the_page_may_have_got_it(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    failures: list[CallError] = []
    with trio.fail_after(SOON_S):
        for handed in (True, False):
            nursery.start_soon(failure, links, host, failures)
            request = await host.heard("browser/executeTool")
            raw_id = msgspec.json.encode(request["id"])
            await host.say_raw(jsonrpc.failure(raw_id, Code.NAVIGATED, "gone", handed=handed))
            await until(lambda: len(failures) == (1 if handed else 2))  # noqa: B023
    assert [(error.code, error.detail, error.handed) for error in failures] == [
        (Code.NAVIGATED, "gone", True),
        (Code.NAVIGATED, "gone", False),
    ]


async def test_an_error_that_does_not_say_whether_it_was_handed_may_have_run(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    failures: list[CallError] = []
    with trio.fail_after(SOON_S):
        nursery.start_soon(failure, links, host, failures)
        request = await host.heard("browser/executeTool")
        await host.say_raw(b'{"id":%d,"error":{"code":-32603,"message":"?"}}' % request["id"])
        await until(lambda: bool(failures))
    assert failures[0].handed


async def test_when_the_host_goes_its_waiting_calls_fail_at_once(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    failures: list[CallError] = []
    with trio.fail_after(SOON_S):
        nursery.start_soon(failure, links, host, failures)
        await host.heard("browser/executeTool")
        await trio.aclose_forcefully(host.stream)
        await until(lambda: bool(failures))
    assert (failures[0].code, failures[0].handed) == (Code.GONE, True)


async def test_a_call_to_a_host_that_is_gone_was_not_handed(links: Links) -> None:
    with pytest.raises(CallError) as caught:
        await links.request(TabAddress("00000000", 1), "getTabs", wire.Asked(), SOON_S)
    assert (caught.value.code, caught.value.handed) == (Code.GONE, False)


async def test_a_call_that_is_given_up_is_cancelled_at_the_browser(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    scope = trio.CancelScope()

    async def ask() -> None:
        with scope:
            await links.execute(host)

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        request = await host.heard("browser/executeTool")
        scope.cancel()
        cancel = await host.heard("browser/cancel")
    assert cancel["params"] == {"id": request["id"]}


async def test_a_call_that_takes_too_long_fails_and_is_cancelled(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    failures: list[CallError] = []

    async def ask() -> None:
        await failure(links, host, failures, timeout_s=0.05)

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        await host.heard("browser/executeTool")
        await host.heard("browser/cancel")
        await until(lambda: bool(failures))
    assert (failures[0].code, failures[0].handed) == (Code.TIMED_OUT, True)


async def test_progress_reaches_the_asker_and_starts_its_time_anew(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    heard: list[wire.Progress] = []
    answers: list[bytes] = []

    async def ask() -> None:
        answers.append(await links.execute(host, 1.5, observer=CallObserver(on_progress=heard.append)))

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        request = await host.heard("browser/executeTool")
        for done in range(4):
            with trio.move_on_after(0.5):
                await trio.sleep_forever()
            progress = b'{"method":"browser/progress","for":%d,"params":{"progress":%d}}'
            await host.say_raw(progress % (request["id"], done))
        await host.answer(request, "done")
        await until(lambda: bool(answers))
    assert [progress.progress for progress in heard] == [0, 1, 2, 3]


async def test_the_events_of_a_subscription_reach_its_asker_in_order_until_it_is_answered(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    heard: dict[str, list[str]] = {"first": [], "second": []}
    answers: list[bytes] = []

    async def subscribe(name: str) -> None:
        params = wire.SubscribeCdp(tab_id=1, events=["Page.loadEventFired"])
        caller = CallObserver(on_event=lambda event: heard[name].append(event.method))
        tab = TabAddress(host.instance, 1)
        answers.append(await links.request(tab, "subscribeCDP", params, math.inf, caller))

    async def say_event(request: dict[str, Any], method: str) -> None:
        said = {"method": "browser/cdpEvent", "for": request["id"], "params": {"tabId": 1, "method": method}}
        await host.say_raw(msgspec.json.encode(said))

    with trio.fail_after(SOON_S):
        nursery.start_soon(subscribe, "first")
        first = await host.heard("subscribeCDP")
        nursery.start_soon(subscribe, "second")
        second = await host.heard("subscribeCDP")
        await say_event(second, "A.b")
        await say_event(second, "A.c")
        await host.answer(second, {})
        await say_event(second, "A.late")
        await host.answer(first, {})
        await until(lambda: len(answers) == 2)
    assert heard == {"first": [], "second": ["A.b", "A.c"]}


async def test_arguments_above_the_cap_fail_their_own_call_and_name_size_and_cap(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    args = msgspec.Raw(msgspec.json.encode("x" * wire.CHUNKED_BYTES))
    params = wire.ExecuteTool(tab_id=1, frame_id=0, document_id="d1", tool_name="getCart", args=args)
    with pytest.raises(CallError) as caught:
        await links.request(TabAddress(host.instance, 1), "browser/executeTool", params, SOON_S)
    assert (caught.value.code, caught.value.handed) == (Code.TOO_LARGE, False)
    assert str(wire.CHUNKED_BYTES) in caught.value.detail
    answers: list[bytes] = []

    async def ask() -> None:
        answers.append(await links.execute(host))

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        await host.answer(await host.heard("browser/executeTool"), "fine")
        await until(lambda: answers == [b'"fine"'])


# ── More than the host takes ────────────────────────────────────────────────────────────────────────────────


class Asker:
    """Asks without waiting."""

    def __init__(self, links: Links, host: PlayedHost) -> None:
        self._links = links
        self._host = host
        self.told: list[bytes | CallError] = []

    def ask(self, timeout_s: float = SOON_S) -> Operation:
        at = TabAddress(self._host.instance)
        return self._links.send(at, "getTabs", wire.Asked(), timeout_s, self.told.append)

    def failures(self) -> list[tuple[int, bool]]:
        return [(error.code, error.handed) for error in self.told if isinstance(error, CallError)]


@pytest.fixture
def asker(links: Links, host: PlayedHost, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setattr(wire, "CLIENT_IN_FLIGHT", 2)
    monkeypatch.setattr(host_connection, "MAX_WAITING", 2)
    return Asker(links, host)


async def test_what_has_no_room_in_flight_waits_for_its_turn(host: PlayedHost, asker: Asker) -> None:
    with trio.fail_after(SOON_S):
        for _ in range(4):
            asker.ask()
        asked = [await host.heard("getTabs"), await host.heard("getTabs")]
        for number in range(4):
            await host.answer(asked[number], number)
            if len(asked) < 4:
                asked.append(await host.heard("getTabs"))
        await until(lambda: len(asker.told) == 4)
    assert asker.told == [b"0", b"1", b"2", b"3"]


async def test_more_than_may_wait_is_refused_and_was_not_handed(asker: Asker) -> None:
    for _ in range(5):
        asker.ask()
    assert asker.failures() == [(Code.RATE_LIMITED, False)]


async def test_what_is_given_up_while_it_waits_is_never_sent(host: PlayedHost, asker: Asker) -> None:
    with trio.fail_after(SOON_S):
        pending = [asker.ask() for _ in range(4)]
        pending[2].cancel()
        first = await host.heard("getTabs")
        await host.heard("getTabs")
        await host.answer(first, "done")
        last = await host.heard("getTabs")
    assert last["id"] == first["id"] + 3
    assert asker.told == [b'"done"']


async def test_what_is_given_up_before_the_host_has_taken_any_of_it_is_never_sent(
    links: Links, host: PlayedHost
) -> None:
    """A long call, of which the host reads nothing yet, is before it."""

    def ask(size: int) -> Operation:
        args = msgspec.Raw(b'"%b"' % (b"x" * size))
        call = wire.ExecuteTool(tab_id=1, frame_id=0, document_id="d1", tool_name="getCart", args=args)
        at = TabAddress(host.instance, 1)
        return links.send(at, "browser/executeTool", call, SOON_S, lambda _: None)

    pending = [ask(size) for size in (8 * 1024 * 1024, 1, 2)]
    pending[1].cancel()
    with trio.fail_after(SOON_S):
        await host.heard("bridge/sessions")
        heard = [await host.next_message(), await host.next_message()]
    assert [message["method"] for message in heard] == ["browser/executeTool"] * 2
    assert heard[1]["params"]["args"] == "xx"


async def test_what_is_given_up_makes_room_for_what_waits(host: PlayedHost, asker: Asker) -> None:
    with trio.fail_after(SOON_S):
        pending = [asker.ask() for _ in range(3)]
        first = await host.heard("getTabs")
        await host.heard("getTabs")
        pending[0].cancel()
        assert (await host.heard("browser/cancel"))["params"] == {"id": first["id"]}
        assert (await host.heard("getTabs"))["id"] == first["id"] + 2


async def test_what_is_asked_when_room_has_just_come_waits_behind_what_waits_longer(
    links: Links, host: PlayedHost, asker: Asker
) -> None:
    def again(_: bytes | CallError) -> None:
        asker.ask()

    with trio.fail_after(SOON_S):
        links.send(TabAddress(host.instance), "getTabs", wire.Asked(), SOON_S, again)
        for _ in range(2):
            asker.ask()
        first = await host.heard("getTabs")
        await host.heard("getTabs")
        await host.answer(first, "done")
        third = await host.heard("getTabs")
        await host.answer(third, "done")
        assert third["id"] == first["id"] + 2
        assert (await host.heard("getTabs"))["id"] == first["id"] + 3


async def test_what_waits_for_too_long_was_not_handed(host: PlayedHost, asker: Asker) -> None:
    with trio.fail_after(SOON_S):
        asker.ask()
        asker.ask()
        asker.ask(timeout_s=0.05)
        await until(lambda: bool(asker.told))
    assert asker.failures() == [(Code.TIMED_OUT, False)]


async def test_what_ends_with_its_host_ends_after_the_host_is_known_to_be_lost(
    links: Links, host: PlayedHost, asker: Asker
) -> None:
    """Else who asks once more would ask the same host."""
    happened: list[object] = []
    links.set_listener(lambda event: happened.append(type(event)))
    with trio.fail_after(SOON_S):
        links.send(TabAddress(host.instance), "getTabs", wire.Asked(), SOON_S, happened.append)
        await host.heard("getTabs")
        await trio.aclose_forcefully(host.stream)
        await until(lambda: len(happened) == 2)
    assert happened[0] is HostLost
    assert isinstance(happened[1], CallError)


async def test_who_is_told_that_the_host_has_gone_may_give_up_what_else_was_asked(
    links: Links, host: PlayedHost, asker: Asker
) -> None:
    at, told = TabAddress(host.instance), list[bytes | CallError]()

    def give_all_up(answer: bytes | CallError) -> None:
        told.append(answer)
        for pending in others:
            pending.cancel()

    with trio.fail_after(SOON_S):
        links.send(at, "getTabs", wire.Asked(), SOON_S, give_all_up)
        others = [asker.ask() for _ in range(3)]
        await host.heard("getTabs")
        await trio.aclose_forcefully(host.stream)
        await until(lambda: bool(told))
    assert [type(answer) for answer in told] == [CallError]
    assert asker.failures() == [(Code.GONE, False)] * 2  # those that waited; the third was given up


async def test_a_question_that_the_bridge_does_not_know_is_answered_with_method_not_found(
    links: Links, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        await host.say_raw(b'{"id":"ext:1","method":"browser/whatever","for":1,"params":{}}')
        answer = await host.next_message()
        while "error" not in answer:
            answer = await host.next_message()
    assert (answer["id"], answer["error"]["code"]) == ("ext:1", Code.METHOD_NOT_FOUND)


async def ask_nobody(links: Links, host: PlayedHost, **more: Any) -> None:
    """A call whose outcome is not the test's subject."""
    with contextlib.suppress(CallError):
        await links.execute(host, **more)


async def test_a_question_of_a_page_reaches_whoever_waits_for_its_call(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    async def confirm(asked: ServerRequest) -> bytes:
        assert isinstance(asked, wire.ElicitConfirmation)
        return msgspec.json.encode({"action": "accept", "content": {"heard": asked.message}})

    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(ask_nobody, links, host, observer=CallObserver(on_request=confirm, support=FORMS))
        )
        call = await host.heard("browser/executeTool")
        for number in (1, 2):
            await host.ask(call, f"ext:{number}", message=f"Buy {number}?")
            answer = await host.answer_to(f"ext:{number}")
            assert answer["result"] == {"action": "accept", "content": {"heard": f"Buy {number}?"}}


async def no_form(_asked: ServerRequest) -> bytes:
    raise CallError(Code.INVALID_PARAMS, "no such form", handed=False)


async def broken(_asked: ServerRequest) -> bytes:
    raise RuntimeError("the secret in the traceback")


@pytest.mark.parametrize(
    ("on_request", "params", "code", "words"),
    [
        (no_form, {"message": "Buy?"}, Code.INVALID_PARAMS, "no such form"),
        (no_form, {"message": 7}, Code.INVALID_PARAMS, "the request cannot be read: message: expected str"),
        (no_form, {}, Code.INVALID_PARAMS, "message is missing"),
        (broken, {"message": "Buy?"}, Code.INTERNAL_ERROR, "the request could not be sent"),
    ],
    ids=["refused", "malformed", "empty", "broken"],
)
async def test_a_page_learns_why_its_question_has_no_answer(
    links: Links,
    host: PlayedHost,
    nursery: trio.Nursery,
    on_request: OnRequest,
    params: dict[str, Any],
    code: Code,
    words: str,
) -> None:
    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(ask_nobody, links, host, observer=CallObserver(on_request=on_request, support=FORMS))
        )
        call = await host.heard("browser/executeTool")
        await host.ask(call, "ext:1", **params)
        error = (await host.answer_to("ext:1"))["error"]
        await host.answer(call, "the link goes on")
    assert (error["code"], error["data"]["handed"]) == (code, on_request is broken)
    assert words in error["message"]
    assert "secret" not in error["message"]


async def test_an_answer_above_the_cap_is_told_to_the_page_as_such(
    links: Links, host: PlayedHost, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(_asked: ServerRequest) -> bytes:
        return msgspec.json.encode({"action": "accept", "content": {"words": "x" * 1000}})

    monkeypatch.setattr(wire, "CHUNKED_BYTES", 1000)
    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(ask_nobody, links, host, observer=CallObserver(on_request=talk, support=FORMS))
        )
        await host.ask(await host.heard("browser/executeTool"), "ext:1", message="Buy?")
        error = (await host.answer_to("ext:1"))["error"]
    assert (error["code"], error["data"]) == (Code.TOO_LARGE, {"handed": True})


async def test_a_question_about_a_call_that_nobody_waits_for_is_refused(
    links: Links, host: PlayedHost
) -> None:
    with trio.fail_after(SOON_S):
        await host.ask({"id": 4711}, "ext:1", message="Buy?")
        error = (await host.answer_to("ext:1"))["error"]
    assert (error["code"], error["message"]) == (Code.GONE, "the call of this request has ended")


async def test_a_call_has_at_most_four_open_requests(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    may_answer = trio.Event()

    async def think(_asked: ServerRequest) -> bytes:
        await may_answer.wait()
        return b'{"action":"decline"}'

    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(ask_nobody, links, host, observer=CallObserver(on_request=think, support=FORMS))
        )
        call = await host.heard("browser/executeTool")
        for number in (1, 2, 3, 4, 5):
            await host.ask(call, f"ext:{number}", message="Buy?")
        error = (await host.answer_to("ext:5"))["error"]
        may_answer.set()
        answers = [await host.next_message() for _ in range(4)]
        assert {answer["id"] for answer in answers} == {"ext:1", "ext:2", "ext:3", "ext:4"}
        assert all(answer["result"] == {"action": "decline"} for answer in answers)
    assert (error["code"], error["data"]) == (Code.RATE_LIMITED, {"handed": False})


async def test_a_request_that_the_page_cancels_is_withdrawn_and_answered_as_gone(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    begun, ended = trio.Event(), trio.Event()

    async def think(_asked: ServerRequest) -> NoReturn:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(ask_nobody, links, host, observer=CallObserver(on_request=think, support=FORMS))
        )
        call = await host.heard("browser/executeTool")
        await host.ask(call, "ext:1", message="Buy?")
        await begun.wait()
        for number in (2, 1):
            cancelled = {"method": "browser/cancelled", "for": call["id"], "params": {"id": f"ext:{number}"}}
            await host.say_raw(msgspec.json.encode({"jsonrpc": "2.0", **cancelled}))
        await ended.wait()
        error = (await host.answer_to("ext:1"))["error"]
    assert (error["code"], error["message"]) == (Code.GONE, "the page has cancelled it")


@pytest.mark.parametrize(
    ("method", "params", "capability"),
    [
        ("browser/elicitConfirmation", {"message": "Buy?"}, "elicitation"),
        (
            "browser/elicitConfirmation",
            {"message": "Pay", "mode": "url", "url": "https://pay.example"},
            "elicitation.url",
        ),
        ("browser/pageRequest", {"method": "sampling/createMessage"}, "sampling"),
        ("browser/pageRequest", {"method": "roots/list"}, "roots"),
    ],
)
async def test_a_page_learns_which_capability_its_client_lacks(
    links: Links,
    host: PlayedHost,
    nursery: trio.Nursery,
    method: str,
    params: dict[str, Any],
    capability: str,
) -> None:
    with trio.fail_after(SOON_S):
        nursery.start_soon(partial(ask_nobody, links, host))
        call = await host.heard("browser/executeTool")
        request = {"id": "ext:1", "for": call["id"], "method": method, "params": params}
        await host.say_raw(msgspec.json.encode({"jsonrpc": "2.0", **request}))
        error = (await host.answer_to("ext:1"))["error"]
    assert error["code"] == Code.METHOD_NOT_FOUND
    assert error["data"] == {"handed": False, "capability": capability}


@pytest.mark.parametrize("end", ["answered", "cancelled"])
async def test_when_its_call_ends_an_open_question_is_taken_back(
    links: Links, host: PlayedHost, nursery: trio.Nursery, end: str
) -> None:
    begun, ended = trio.Event(), trio.Event()
    scope = trio.CancelScope()

    async def think(_asked: ServerRequest) -> NoReturn:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def ask() -> None:
        with scope:
            await links.execute(host, observer=CallObserver(on_request=think, support=FORMS))

    with trio.fail_after(SOON_S):
        nursery.start_soon(ask)
        call = await host.heard("browser/executeTool")
        await host.ask(call, "ext:1", message="Buy?")
        await begun.wait()
        if end == "cancelled":
            scope.cancel()
        else:
            await host.answer(call, "done")
        await ended.wait()
        error = (await host.answer_to("ext:1"))["error"]
    assert (error["code"], error["message"]) == (Code.GONE, "the call that asked has ended")


async def test_when_the_host_goes_an_open_question_is_taken_back(
    links: Links, host: PlayedHost, nursery: trio.Nursery
) -> None:
    begun, ended = trio.Event(), trio.Event()

    async def think(_asked: ServerRequest) -> NoReturn:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    failures: list[CallError] = []
    with trio.fail_after(SOON_S):
        nursery.start_soon(
            partial(failure, links, host, failures, observer=CallObserver(on_request=think, support=FORMS))
        )
        await host.ask(await host.heard("browser/executeTool"), "ext:1", message="Buy?")
        await begun.wait()
        await trio.aclose_forcefully(host.stream)
        await ended.wait()
        await until(lambda: bool(failures))
    assert (failures[0].code, failures[0].handed) == (Code.GONE, True)


@pytest.mark.parametrize(
    "dropped",
    [
        b'{"method":"browser/somethingNew","params":{}}',
        b'{"method":"browser/tabs","params":{"tabs":"none"}}',
        b'{"method":"browser/updateTools","params":[]}',
    ],
)
async def test_a_notification_that_cannot_be_used_is_dropped_by_itself(
    links: Links, host: PlayedHost, dropped: bytes
) -> None:
    with trio.fail_after(SOON_S):
        await host.say_raw(dropped)
        await host.announce(*one_page("later"))
        await until(lambda: links.offered == ["later"])


@pytest.mark.parametrize(
    "garbage",
    [b"not json", b'"\xff"', b"[" * 100_000, b'{"id":1}'],
    ids=["no JSON", "no UTF-8", "too deep", "no message"],
)
async def test_a_host_that_sends_garbage_is_closed_and_the_others_go_on(
    links: Links, host: PlayedHost, garbage: bytes
) -> None:
    async with PlayedHost.in_directory(links.directory, browser_pid=200) as bad:
        with trio.fail_after(SOON_S):
            await bad.welcome(*one_page("bad"), profile="p2")
            await until(lambda: sorted(links.offered) == ["bad", "getCart"])
            await bad.say_raw(garbage)
            await until(lambda: bad.instance in links.problems)
            with pytest.raises(EOFError):
                await bad.heard("nothing")
            await host.announce(*one_page("later"))
            await until(lambda: "later" in links.offered)


async def test_a_host_that_does_not_begin_with_its_hello_is_closed(links: Links) -> None:
    async with PlayedHost.in_directory(links.directory) as host:
        with trio.fail_after(SOON_S):
            await host.accept()
            await host.announce(*one_page("getCart"))
            await until(lambda: host.instance in links.problems)
    assert links.offered == []


@pytest.mark.parametrize(
    ("spoken", "commands", "remedy"),
    [
        (0, ("mcpb install-native-host",), "reload the extension"),
        (
            2,
            (),
            "restart the MCP client; if an mcpb command reports this, update mcpb with install/install.sh",
        ),
    ],
)
async def test_another_wire_version_is_remembered_and_says_what_to_run(
    links: Links, spoken: int, commands: tuple[str, ...], remedy: str
) -> None:
    async with PlayedHost.in_directory(links.directory) as host:
        with trio.fail_after(SOON_S):
            await host.accept()
            hello = host_hello(host.instance)
            hello.wire = spoken
            await host.say("host/hello", hello)
            await until(lambda: host.instance in links.problems)
        problem = links.problems[host.instance]
    assert f"native host 0.2.0 speaks wire version {spoken}, this bridge 0.2.0 speaks 1: " in problem.text
    assert getattr(problem.text, "commands", ()) == commands
    assert remedy in problem.text
    assert problem.retry_at == float("inf")


async def test_why_a_host_refused_is_remembered_with_its_command(links: Links) -> None:
    async with PlayedHost.in_directory(links.directory) as host:
        with trio.fail_after(SOON_S):
            await host.accept()
            error = wire.HostError(code=Code.GONE, message="It cannot be.", command="mcpb doctor")
            await host.say("host/error", error)
            await until(lambda: host.instance in links.problems)
        assert links.problems[host.instance].text == "It cannot be. Run: mcpb doctor"


async def test_a_host_that_broke_off_is_linked_again(links: Links, host: PlayedHost) -> None:
    with trio.fail_after(SOON_S):
        await trio.aclose_forcefully(host.stream)
        await host.welcome(*one_page("getCart", "checkout"))
        await until(lambda: links.offered == ["getCart", "checkout"])


async def test_a_directory_that_others_can_write_to_is_not_used(short_tmp: Path) -> None:
    directory = short_tmp / "run"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    links = Links(directory)
    looked: list[Event] = []
    links.set_listener(looked.append)
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(links.run)
            await until(lambda: DiscoveryFinished() in looked)
            nursery.cancel_scope.cancel()
    assert "chmod 700" in links.problems[str(directory)].text


async def test_a_tab_that_is_disconnected_is_forgotten_here_alone(links: Links, host: PlayedHost) -> None:
    links.disconnect(TabAddress(host.instance, 1))
    assert links.offered == []


# ── A directory of hosts is read again when something in it has changed, a ──────────────────────────────────


@pytest.fixture
def run(short_tmp: Path) -> Path:
    return short_tmp / "run"


@pytest.fixture
def host_host(run: Path) -> Iterator[Endpoint]:
    host_host = appear(run)
    yield host_host
    host_host.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each reading of a directory. Changes count as settled at once."""
    reads: list[Path] = []
    live_hosts = endpoint.live_hosts

    def read(path: Path) -> list[Record]:
        reads.append(path)
        return live_hosts(path)

    monkeypatch.setattr(endpoint, "live_hosts", read)
    monkeypatch.setattr(native_hosts, "SETTLED_S", 0.0)
    return reads


def appear(run: Path) -> Endpoint:
    host_host = endpoint.open_endpoint(run)
    record = Record(
        instance=host_host.instance,
        pid=os.getpid(),
        browser_pid=100,
        extension_origin="",
        version="0.2.0",
        started_at=time.time(),
    )
    host_host.publish(record)
    return host_host


def found(hosts: HostDirectory, *linked: str) -> set[str]:
    return {record.instance for record in hosts.live_hosts(linked)}


def test_a_directory_as_it_was_is_not_read_again(run: Path, host_host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    assert found(hosts) == {host_host.instance}
    assert found(hosts, host_host.instance) == found(hosts, host_host.instance) == {host_host.instance}
    assert reads == [run]


def test_a_host_that_comes_is_found(run: Path, host_host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    found(hosts)
    pass_a_tick(run)
    newcomer = appear(run)
    assert found(hosts, host_host.instance) == {host_host.instance, newcomer.instance}
    newcomer.close()
    pass_a_tick(run)
    assert found(hosts, host_host.instance, newcomer.instance) == {host_host.instance}


def test_a_host_that_is_not_linked_may_have_died_and_left_its_files(
    run: Path, host_host: Endpoint, reads: list[Path]
) -> None:
    hosts = HostDirectory(run)
    assert found(hosts, host_host.instance) == {host_host.instance}
    os.close(host_host._lock)
    host_host._lock = os.open(os.devnull, os.O_RDONLY)
    assert found(hosts, host_host.instance) == {host_host.instance}
    assert found(hosts) == set()


def test_right_after_a_change_another_one_may_come_unseen(
    run: Path, host_host: Endpoint, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_hosts, "SETTLED_S", 3600.0)
    hosts = HostDirectory(run)
    assert found(hosts, host_host.instance) == found(hosts, host_host.instance)
    assert reads == [run, run]


def test_rights_that_become_too_wide_are_seen(run: Path, host_host: Endpoint, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    found(hosts)
    pass_a_tick(run)
    run.chmod(0o755)
    with pytest.raises(PrivateFileError, match="chmod 700"):
        found(hosts, host_host.instance)
    run.chmod(0o700)
    assert found(hosts, host_host.instance) == {host_host.instance}


def test_a_directory_that_is_not_there_yet_is_looked_for(run: Path, reads: list[Path]) -> None:
    hosts = HostDirectory(run)
    assert found(hosts) == set()
    host_host = appear(run)
    assert found(hosts) == {host_host.instance}
    host_host.close()


def pass_a_tick(run: Path) -> None:
    """Until a change of the directory gets another time than the last one."""
    before = run.stat().st_ctime_ns
    while run.stat().st_ctime_ns == before:
        (run / "tick").touch()
        (run / "tick").unlink()
