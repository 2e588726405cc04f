"""Who hears what. Each test is a conversation: what the browser and the clients say, and who hears it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from native_host.ipc.send_queue import SendQueue
from native_host.protocol import wire
from native_host.protocol.wire import CHUNKED_BYTES, TO_BROWSER_BYTES, DropReason
from native_host.relay.coalescing import AnnouncementCoalescer
from native_host.relay.message_router import NATIVE, MessageRouter, RouterOptions
from native_host.relay.request_ids import OwnIdSuffixes


class Conversation:
    """A router, with everything that is said to the browser and to the clients kept as JSON."""

    def __init__(self, options: RouterOptions = NATIVE) -> None:
        hello = wire.HostHello(
            wire=1,
            instance="ab",
            version="0",
            pid=1,
            browser_pid=2,
            extension_origin="chrome-extension://x/",
            limits=wire.Limits(to_browser=1, from_browser=2, socket=3),
        )
        self.board = MessageRouter(hello, options)
        self.heard: dict[str, list[Any]] = {}
        self.dismissed: set[str] = set()
        self.now_s = 0.0

    def browser(self, **message: Any) -> None:
        self.browser_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def browser_raw(self, body: bytes) -> None:
        self._deliver(self.board.from_browser(body))

    def client(self, name: str, **message: Any) -> None:
        self.client_raw(name, json.dumps({"jsonrpc": "2.0", **message}).encode())

    def client_raw(self, name: str, body: bytes) -> None:
        self._deliver(self.board.from_client(name, body))

    def connect(self, name: str, *, wire_version: int = 1) -> None:
        self._deliver(self.board.on_connected(name))
        self.client(name, method="bridge/hello", params={"wire": wire_version, "version": "0", "pid": 7})

    def introduce(self, name: str, *, speaks_wire: bool = False) -> None:
        hello = wire.BridgeHello(wire=1, version="0", pid=0)
        self._deliver(self.board.introduce(name, hello, [], speaks_wire=speaks_wire))

    def disconnect(self, name: str) -> None:
        self._deliver(self.board.on_disconnected(name))

    def replay(self, name: str) -> None:
        self._deliver(self.board.replay(name))

    def expire(self, now_s: float) -> None:
        self.now_s = now_s
        self._deliver(self.board.expire(now_s))

    def to_browser(self) -> list[Any]:
        """What the browser has heard since it was last asked."""
        said = []
        while self.board.outbox:
            body, key, done = self.board.outbox.pop_next(self.now_s)
            self.board.on_written(key, done)
            said.append(json.loads(body))
        return said

    def to(self, name: str) -> list[Any]:
        """What a client has heard since it was last asked."""
        return self.heard.pop(name, [])

    def methods_to(self, name: str) -> list[str]:
        return [message.get("method", "answer") for message in self.to(name)]

    def _deliver(self, deliveries: list[Any]) -> None:
        for delivery in deliveries:
            assert delivery.connection not in self.dismissed
            self.heard.setdefault(delivery.connection, []).append(json.loads(b"".join(delivery.parts)))
            if delivery.is_last:
                self.dismissed.add(delivery.connection)


HELLO = {
    "wire": 1,
    "extension": {"id": "x", "version": "1"},
    "browser": {"brand": "Chromium"},
    "profile": {"id": "p"},
}


@pytest.fixture
def talk() -> Conversation:
    """A browser that has said hello and its tabs, and the clients ab-1 and ab-2."""
    talk = Conversation()
    talk.browser(method="browser/hello", params=HELLO)
    talk.browser(method="browser/tabs", params={"tabs": []})
    talk.connect("ab-1")
    talk.connect("ab-2")
    talk.to_browser()
    talk.heard.clear()
    return talk


def test_the_browser_hears_host_hello_first() -> None:
    assert Conversation().to_browser()[0]["method"] == "host/hello"


def test_a_client_hears_hello_and_then_everything_that_is_known() -> None:
    talk = Conversation()
    talk.browser(method="browser/hello", params=HELLO)
    talk.browser(method="browser/tabs", params={"tabs": []})
    talk.connect("ab-1")
    assert talk.methods_to("ab-1") == [
        "host/hello", "browser/hello", "browser/tabs", "host/replayed", "host/clients",
    ]  # fmt: skip


def test_a_client_that_comes_before_the_extension_s_tabs_hears_them_in_its_replay() -> None:
    talk = Conversation()
    talk.connect("ab-1")
    talk.browser(method="browser/hello", params=HELLO)
    assert talk.methods_to("ab-1") == ["host/hello", "host/clients"]
    talk.browser(method="browser/tabs", params={"tabs": []})
    talk.replay("ab-1")  # its second is over as well: it has heard everything already
    assert talk.methods_to("ab-1") == ["browser/hello", "browser/tabs", "host/replayed"]


def test_where_the_extension_is_silent_the_replay_says_so_and_announcements_follow_as_they_come() -> None:
    talk = Conversation()
    talk.connect("ab-1")
    talk.replay("ab-1")
    talk.browser(method="browser/hello", params=HELLO)
    talk.browser(method="browser/tabs", params={"tabs": []})
    assert talk.methods_to("ab-1") == [
        "host/hello", "host/clients", "host/replayed", "browser/hello", "browser/tabs",
    ]  # fmt: skip


def test_an_answer_reaches_its_asker_with_its_own_id_and_nobody_else(talk: Conversation) -> None:
    talk.client("ab-1", id=7, method="getTabs")
    talk.client("ab-2", id="7", method="getTabs")
    asked = talk.to_browser()
    assert [request["id"] for request in asked] == ["ab-1:1", "ab-2:1"]
    talk.browser(id="ab-2:1", result={"tabs": [2]})
    talk.browser(id="ab-1:1", result={"tabs": [1]})
    assert talk.to("ab-1") == [{"jsonrpc": "2.0", "id": 7, "result": {"tabs": [1]}}]
    assert talk.to("ab-2") == [{"jsonrpc": "2.0", "id": "7", "result": {"tabs": [2]}}]


def test_an_answer_that_nobody_waits_for_is_dropped(talk: Conversation) -> None:
    for made_up in ("ab-1:1", "ab-9:1", "zz-1:1", 7, None):
        talk.browser(id=made_up, result={})
    assert talk.heard == {}


def test_an_announcement_reaches_every_client(talk: Conversation) -> None:
    talk.browser(method="browser/tabRemoved", params={"tabId": 1})
    assert talk.methods_to("ab-1") == talk.methods_to("ab-2") == ["browser/tabRemoved"]


def test_what_is_for_one_asker_reaches_it_alone_under_its_own_id(talk: Conversation) -> None:
    talk.client("ab-1", id=7, method="browser/executeTool", params={})
    talk.browser(**{"method": "browser/progress", "for": "ab-1:1", "params": {"progress": 0.5}})
    assert talk.to("ab-1") == [
        {"jsonrpc": "2.0", "method": "browser/progress", "for": 7, "params": {"progress": 0.5}}
    ]
    assert talk.to("ab-2") == []


def test_of_the_reports_of_each_call_the_newest_is_enough_and_questions_and_events_are_all_heard(
    talk: Conversation,
) -> None:
    queue = SendQueue()
    waiting = AnnouncementCoalescer(queue, lambda: None)
    for raw_id in (7, 8):
        talk.client("ab-1", id=raw_id, method="browser/executeTool", params={})
    for progress in (1, 2, 3):
        for call in ("ab-1:1", "ab-1:2"):
            said = {"method": "browser/progress", "for": call, "params": {"progress": progress}}
            (report,) = talk.board.from_browser(json.dumps(said).encode())
            assert report.meta is not None
            waiting.put(report.parts, report.meta)
    heard = [json.loads(bytes(part)) for part in queue.next_parts()]
    assert [(report["for"], report["params"]["progress"]) for report in heard] == [(7, 3), (8, 3)]
    question = {"id": "ext:1", "method": "browser/elicitConfirmation", "for": "ab-1:1", "params": {}}
    event = {
        "method": "browser/cdpEvent",
        "for": "ab-1:1",
        "params": {"tabId": 1, "method": "Page.loadEventFired"},
    }
    for every in (question, event):
        (kept,) = talk.board.from_browser(json.dumps(every).encode())
        assert kept.meta is None


def test_a_question_goes_to_the_asker_and_its_answer_back_to_the_extension(talk: Conversation) -> None:
    talk.client("ab-1", id=7, method="browser/executeTool", params={})
    talk.to_browser()
    question = {
        "id": "ext:1",
        "method": "browser/elicitConfirmation",
        "for": "ab-1:1",
        "params": {"message": "?"},
    }
    talk.browser(**question)
    assert talk.to("ab-1")[0]["id"] == "ext:1"
    talk.client("ab-2", id="ext:1", result={"action": "accept"})
    assert talk.to_browser() == []
    talk.client("ab-1", id="ext:1", result={"action": "decline"})
    assert talk.to_browser() == [{"jsonrpc": "2.0", "id": "ext:1", "result": {"action": "decline"}}]


def test_calls_of_an_offer_reach_its_client_until_the_offer_ends(talk: Conversation) -> None:
    talk.client("ab-1", id=40, method="browser/offerTools", params={})
    talk.to_browser()
    params = {"name": "orders.search", "args": {}}
    for number in (1, 2):
        call = {"id": f"ext:{number}", "method": "browser/offeredCall", "for": "ab-1:1", "params": params}
        talk.browser(**call)
    assert [(call["id"], call["for"]) for call in talk.to("ab-1")] == [("ext:1", 40), ("ext:2", 40)]
    talk.client("ab-1", id="ext:1", result={"text": "2 orders"})
    assert talk.to_browser() == [{"jsonrpc": "2.0", "id": "ext:1", "result": {"text": "2 orders"}}]
    talk.client("ab-1", method="browser/cancel", params={"id": 40})
    talk.client("ab-1", id="ext:2", result={"text": "late"})
    cancel = {"jsonrpc": "2.0", "method": "browser/cancel", "params": {"id": "ab-1:1"}}
    assert talk.to_browser() == [cancel]


def test_a_question_for_an_asker_that_is_gone_is_answered_at_once(talk: Conversation) -> None:
    talk.browser(
        **{"id": "ext:1", "method": "browser/pageRequest", "for": "ab-1:1", "params": {"method": "x"}}
    )
    assert talk.to_browser()[0]["error"]["code"] == -32010


def test_a_client_that_leaves_has_its_calls_cancelled_and_its_questions_answered(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={})
    talk.to_browser()
    talk.browser(
        **{"id": "ext:1", "method": "browser/pageRequest", "for": "ab-1:1", "params": {"method": "x"}}
    )
    talk.disconnect("ab-1")
    said = talk.to_browser()
    assert {"jsonrpc": "2.0", "method": "browser/cancel", "params": {"id": "ab-1:1"}} in said
    assert [message["error"]["code"] for message in said if message.get("id") == "ext:1"] == [-32010]
    talk.heard.clear()
    talk.browser(id="ab-1:1", result={})
    assert talk.heard == {}


def test_a_cancel_carries_the_shared_id_and_the_late_answer_is_dropped(talk: Conversation) -> None:
    talk.client("ab-1", id="mine", method="browser/executeTool", params={})
    talk.to_browser()
    talk.client("ab-1", method="browser/cancel", params={"id": "mine"})
    assert talk.to_browser() == [{"jsonrpc": "2.0", "method": "browser/cancel", "params": {"id": "ab-1:1"}}]
    talk.browser(id="ab-1:1", result={})
    assert talk.to("ab-1") == []


def test_a_call_cancelled_before_it_was_written_never_reaches_the_browser(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": {}})
    talk.client("ab-1", method="browser/cancel", params={"id": 1})
    assert talk.to_browser() == []
    assert talk.board.waiting_bytes("ab-1") == 0


def test_a_cancel_of_another_client_s_call_does_nothing(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={})
    talk.to_browser()
    talk.client("ab-2", method="browser/cancel", params={"id": 1})
    assert talk.to_browser() == []


def test_every_client_and_the_browser_hear_who_is_connected(talk: Conversation) -> None:
    session = {"id": "s", "title": "notes", "client": {"name": "inspector", "version": "1"}}
    talk.client("ab-1", method="bridge/sessions", params={"sessions": [session]})
    clients = talk.to("ab-2")[0]["params"]["clients"]
    assert [client["sessions"] for client in clients] == [[session], []]
    assert talk.to_browser()[0]["params"]["clients"] == clients
    talk.disconnect("ab-1")
    assert [c["connection"] for c in talk.to("ab-2")[0]["params"]["clients"]] == ["ab-2"]


def test_of_the_lists_of_clients_that_wait_for_the_browser_only_the_newest_is_kept(
    talk: Conversation,
) -> None:
    for number in range(5000):
        session = {"id": str(number), "client": {"name": "x"}}
        talk.client("ab-1", method="bridge/sessions", params={"sessions": [session]})
    (only,) = talk.to_browser()
    assert only["params"]["clients"][0]["sessions"][0]["id"] == "4999"


@pytest.mark.parametrize("body", [b"{", b"[]", b"7", b"\xff", b'{"x":1}', b"[" * 100_000])
def test_a_client_that_sends_nonsense_is_told_so_and_goes_on(talk: Conversation, body: bytes) -> None:
    talk.client_raw("ab-1", body)
    answer = talk.to("ab-1")[0]
    assert (answer["id"], answer["error"]["code"] in {-32700, -32600}) == (None, True)
    talk.client("ab-1", id=1, method="getTabs")
    assert talk.to_browser()[0]["id"] == "ab-1:1"


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"\xff", b'{"method":"browser/tabs","params":{"tabs":7}}', b"{}"]
)
def test_nonsense_from_the_browser_is_dropped_and_the_next_message_is_heard(
    talk: Conversation, body: bytes
) -> None:
    talk.browser_raw(body)
    talk.browser(method="browser/tabs", params={"tabs": []})
    assert talk.methods_to("ab-1") == ["browser/tabs"]


@pytest.mark.parametrize("raw_id", ["null", "true", "{}", "[1]", '"' + "x" * 1024 + '"'])
def test_an_id_that_is_neither_string_nor_number_or_far_too_long_is_refused(
    talk: Conversation, raw_id: str
) -> None:
    talk.client_raw("ab-1", b'{"jsonrpc":"2.0","id":%b,"method":"getTabs"}' % raw_id.encode())
    assert talk.to("ab-1")[0]["error"]["code"] == -32600
    assert talk.to_browser() == []


def test_an_id_of_sixty_bits_comes_back_exactly(talk: Conversation) -> None:
    talk.client("ab-1", id=2**60 + 1, method="getTabs")
    talk.browser(id="ab-1:1", result={})
    assert talk.to("ab-1")[0]["id"] == 2**60 + 1


def test_an_id_in_flight_is_refused_and_the_first_call_is_not_harmed(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="getTabs")
    talk.client("ab-1", id=1, method="getTabs")
    assert talk.to("ab-1")[0]["error"]["code"] == -32600
    talk.browser(id="ab-1:1", result={})
    assert talk.to("ab-1")[0]["result"] == {}


def test_one_call_too_many_is_refused_with_the_time_to_wait(talk: Conversation) -> None:
    for number in range(257):
        talk.client("ab-1", id=number, method="getTabs")
    error = talk.to("ab-1")[0]["error"]
    assert (error["code"], error["data"]) == (-32015, {"handed": False, "retryAfterMs": 100})
    assert len(talk.to_browser()) == 256


@pytest.mark.parametrize("method", ["host/hello", "bridge/hello", "bridge/anything"])
def test_the_host_s_own_names_are_not_requests(talk: Conversation, method: str) -> None:
    talk.client("ab-1", id=1, method=method)
    assert talk.to("ab-1")[0]["error"]["code"] == -32601


def test_any_other_method_is_the_extension_s_to_judge(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="fly", params={"to": "moon"})
    assert talk.to_browser()[0]["method"] == "fly"


def test_unknown_notifications_are_dropped_and_counted(talk: Conversation) -> None:
    talk.client("ab-1", method="browser/tabs", params={"tabs": []})
    talk.browser(method="browser/unheardOf", params={})
    assert talk.to("ab-2") == []
    assert talk.board.dropped == {DropReason.CLIENT_NOTIFICATION: 1, DropReason.BROWSER_NOTIFICATION: 1}


def test_each_client_receives_the_counts_of_dropped_messages_when_clients_change(
    talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        talk.browser(method="browser/unheardOf", params={})
    talk.client("ab-1", method="bridge/sessions", params={"sessions": []})
    (told,) = [message for message in talk.to("ab-1") if message["method"] == "host/clients"]
    assert told["params"]["dropped"] == {"browser-notification": 3}
    assert len(caplog.records) == 1


def test_exits_of_earlier_hosts_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    talk = Conversation()
    exits = {"count": 2, "reason": "Native host has \x1b exited.", "at": 1.0}
    for label in ("", "Work"):
        profile = {"id": "0c5d6f0e", "label": label}
        talk.browser(method="browser/hello", params={**HELLO, "profile": profile, "exits": exits})
    (record,) = caplog.records
    assert record.args == (2, "Native host has exited.")


def test_a_request_of_the_extension_without_an_asker_is_refused(talk: Conversation) -> None:
    talk.browser(id="ext:1", method="browser/pageRequest", params={})
    assert talk.to_browser()[0]["error"]["code"] == -32601


def test_a_browser_that_asks_what_nobody_can_answer_and_does_not_read_cannot_make_the_host_grow(
    talk: Conversation,
) -> None:
    for number in range(20_000):
        talk.browser(id=f"ext:{number}", method="browser/pageRequest", params={})
        talk.browser(**{"id": f"ext:{number}", "method": "browser/pageRequest", "for": "ab-9:1"})
    assert len(talk.to_browser()) == 10_000
    assert talk.board.dropped[DropReason.UNREAD_REJECTION] == 30_000


def test_requests_of_the_extension_with_ids_that_are_too_long_or_too_many_are_rejected(
    talk: Conversation,
) -> None:
    talk.client("ab-1", id=7, method="browser/executeTool", params={})
    (call,) = talk.to_browser()
    invalid: list[Any] = ["x" * 2000, {}]
    for raw_id in invalid:
        talk.browser(**{"id": raw_id, "method": "browser/pageRequest", "for": call["id"]})
        (rejection,) = talk.to_browser()
        assert (rejection["id"], rejection["error"]["code"]) == (None, -32600)
    assert talk.board.dropped[DropReason.BROWSER_MESSAGE] == 2
    for number in range(1025):
        talk.browser(**{"id": f"ext:{number}", "method": "browser/pageRequest", "for": call["id"]})
    (rejection,) = talk.to_browser()
    assert (rejection["id"], rejection["error"]["code"]) == ("ext:1024", -32015)
    assert len(talk.to("ab-1")) == 1024


def test_a_call_over_the_browser_s_limit_travels_in_pieces(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": "x" * TO_BROWSER_BYTES})
    assert {message["method"] for message in talk.to_browser()} == {"host/chunk"}
    assert talk.board.waiting_bytes("ab-1") == 0


def test_a_call_over_the_limit_of_chunks_is_refused_with_size_and_limit(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": "x" * CHUNKED_BYTES})
    error = talk.to("ab-1")[0]["error"]
    assert (error["code"], error["data"]["handed"]) == (-32012, False)
    assert "67108864" in error["message"]
    talk.client("ab-1", id=1, method="getTabs")
    assert len(talk.to_browser()) == 1


def test_a_call_whose_pieces_the_browser_does_not_take_fails_as_not_handed_over(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": "x" * TO_BROWSER_BYTES})
    talk.board.outbox.pop_next(0)
    talk.expire(30)
    error = talk.to("ab-1")[0]["error"]
    assert (error["code"], error["data"]) == (-32011, {"handed": False})
    assert [message["method"] for message in talk.to_browser()] == ["host/chunkAbort"]


@pytest.mark.parametrize("pieces_taken", [1, 9])
def test_a_call_that_the_browser_cannot_put_together_fails_as_not_handed_over(
    talk: Conversation, pieces_taken: int
) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": "x" * TO_BROWSER_BYTES})
    for _ in range(pieces_taken):
        if talk.board.outbox:
            talk.board.outbox.pop_next(0)
    talk.browser(method="host/chunkAbort", params={"transfer": 1, "reason": "piece 1 came where 0 was due"})
    error = talk.to("ab-1")[0]["error"]
    assert (error["code"], error["data"]) == (-32012, {"handed": False})
    assert "piece 1 came where 0 was due" in error["message"]
    talk.browser(method="host/chunkAbort", params={"transfer": 1, "reason": "again"})
    assert talk.to("ab-1") == []


def test_what_a_client_has_waiting_for_the_browser_is_known(talk: Conversation) -> None:
    talk.client("ab-1", id=1, method="browser/executeTool", params={"args": "x" * 1000})
    assert talk.board.waiting_bytes("ab-1") > 1000
    talk.to_browser()
    assert talk.board.waiting_bytes("ab-1") == 0


def test_whoever_does_not_begin_with_hello_is_dismissed() -> None:
    talk = Conversation()
    talk._deliver(talk.board.on_connected("ab-1"))
    talk.client("ab-1", id=1, method="getTabs")
    assert talk.to("ab-1")[-1]["method"] == "host/error"
    assert talk.dismissed == {"ab-1"}


@pytest.mark.parametrize(("theirs", "command"), [(0, None), (2, "mcpb install-native-host")])
def test_a_bridge_of_another_wire_version_hears_both_versions_and_what_to_do(
    theirs: int, command: str | None
) -> None:
    """An older bridge is a process that has outlived an upgrade: its client has to be restarted."""
    talk = Conversation()
    talk.connect("ab-1", wire_version=theirs)
    error = talk.to("ab-1")[-1]["params"]
    assert (error["code"], error.get("command")) == (-32017, command)
    assert "restart" in error["message"]
    assert f"wire version {theirs}" in error["message"]
    assert "speaks 1" in error["message"]


@pytest.mark.parametrize(("theirs", "command"), [(0, "mcpb extension"), (2, "mcpb install-native-host")])
def test_an_extension_of_another_wire_version_is_named_to_everybody(theirs: int, command: str) -> None:
    talk = Conversation()
    talk.connect("ab-1")
    talk.browser(method="browser/hello", params={**HELLO, "wire": theirs})
    talk.connect("ab-2")
    for error in (talk.to_browser()[-1], talk.to("ab-1")[-1], talk.to("ab-2")[-1]):
        assert (error["method"], error["params"]["command"]) == ("host/error", command)
    assert talk.dismissed == {"ab-1", "ab-2"}


# ── Options: an extension of the WebSocket proxy, which may be foreign, as its clients may ──────────────────

PROXIED = RouterOptions(
    router_name="WebSocket proxy",
    update_command="",
    make_suffixes=OwnIdSuffixes,
    browser_in_flight=1024,
    chunk_above_bytes=CHUNKED_BYTES,
    sessions_bytes=1000,
    speaks_first=False,
    may_notify=lambda method: method.startswith("notifications/"),
)


@pytest.fixture
def proxied() -> Conversation:
    """A foreign extension with the foreign client conn-a, and conn-b that speaks the wire."""
    talk = Conversation(PROXIED)
    talk.introduce("conn-a")
    talk.introduce("conn-b", speaks_wire=True)
    talk.heard.clear()
    return talk


def test_a_foreign_extension_hears_requests_alone_with_the_client_s_own_ids(proxied: Conversation) -> None:
    proxied.client("conn-a", id=4, method="createTab", params={"url": "about:blank"})
    proxied.client("conn-b", id="4", method="getTabs")
    assert [(said["id"], said["method"]) for said in proxied.to_browser()] == [
        ("conn-a:4", "createTab"),
        ("conn-b:4", "getTabs"),
    ]
    proxied.browser(id="conn-a:4", result={"tabId": 42})
    assert proxied.to("conn-a") == [{"jsonrpc": "2.0", "id": 4, "result": {"tabId": 42}}]


def test_a_written_request_with_a_colon_in_its_id_frees_the_bytes_of_its_client(
    proxied: Conversation,
) -> None:
    proxied.client("conn-a", id="a:b", method="getTabs")
    assert proxied.board.all_waiting_bytes == proxied.board.waiting_bytes("conn-a") > 50
    assert proxied.to_browser()[0]["id"] == "conn-a:a:b"
    assert proxied.board.all_waiting_bytes == 0


def test_bytes_of_a_client_that_leaves_do_not_wait_any_more(proxied: Conversation) -> None:
    proxied.client("conn-a", id=1, method="getTabs")
    proxied.client("conn-b", id=1, method="getTabs")
    remaining = proxied.board.waiting_bytes("conn-b")
    proxied.disconnect("conn-a")
    assert proxied.board.all_waiting_bytes == remaining > 0


def test_an_extension_is_known_by_its_hello_and_then_hears_who_is_connected(proxied: Conversation) -> None:
    assert proxied.to_browser() == []
    proxied.browser(method="browser/hello", params=HELLO)
    assert proxied.board.is_browser_ours
    (clients,) = proxied.to_browser()
    assert [client["connection"] for client in clients["params"]["clients"]] == ["conn-a", "conn-b"]


def test_announcements_and_the_replay_go_to_clients_that_speak_the_wire_alone(proxied: Conversation) -> None:
    proxied.browser(method="browser/hello", params=HELLO)
    proxied.browser(method="browser/tabs", params={"tabs": []})
    assert proxied.methods_to("conn-b") == ["host/clients", "browser/hello", "browser/tabs", "host/replayed"]
    proxied.introduce("conn-c", speaks_wire=True)
    assert proxied.methods_to("conn-c") == ["browser/hello", "browser/tabs", "host/replayed", "host/clients"]
    assert proxied.to("conn-a") == []


def test_a_request_for_a_foreign_client_is_rejected_at_once_and_a_notification_is_dropped(
    proxied: Conversation,
) -> None:
    proxied.browser(method="browser/hello", params=HELLO)
    proxied.client("conn-a", id=7, method="browser/executeTool", params={})
    proxied.to_browser()
    proxied.browser(**{"method": "browser/progress", "for": "conn-a:7", "params": {"progress": 1}})
    question = {"id": "ext:1", "method": "browser/elicitConfirmation", "for": "conn-a:7", "params": {}}
    proxied.browser(**question)
    assert proxied.to("conn-a") == []
    (answer,) = proxied.to_browser()
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]) == (
        "ext:1", -32601, {"handed": False},
    )  # fmt: skip


def test_a_foreign_extension_s_notification_reaches_all_its_clients_unless_its_name_is_reserved(
    proxied: Conversation,
) -> None:
    proxied.browser(method="notifications/tab_changed", params={"n": 1})
    proxied.browser(method="status", params={})
    said = [{"jsonrpc": "2.0", "method": "notifications/tab_changed", "params": {"n": 1}}]
    assert (proxied.to("conn-a"), proxied.to("conn-b")) == (said, said)
    proxied.browser(method="browser/hello", params=HELLO)
    proxied.browser(method="notifications/tab_changed", params={"n": 2})
    assert proxied.board.dropped == {DropReason.BROWSER_NOTIFICATION: 2}


def test_a_foreign_extension_receives_no_cancel_and_ours_does(proxied: Conversation) -> None:
    for number in (1, 2):
        proxied.client("conn-a", id=number, method="getTabs")
    proxied.to_browser()
    proxied.client("conn-a", method="browser/cancel", params={"id": 1})
    assert proxied.to_browser() == []
    proxied.browser(method="browser/hello", params=HELLO)
    proxied.to_browser()
    proxied.disconnect("conn-a")
    cancel, clients = proxied.to_browser()
    assert (cancel["method"], cancel["params"]) == ("browser/cancel", {"id": "conn-a:2"})
    assert clients["method"] == "host/clients"


def test_a_client_that_disconnects_and_can_still_receive_gets_one_error_for_each_request(
    proxied: Conversation,
) -> None:
    proxied.client("conn-a", id=1, method="getTabs")
    proxied.to_browser()
    proxied.client("conn-a", id="2", method="getTabs")
    proxied._deliver(proxied.board.disconnect("conn-a"))
    errors = [(said["id"], said["error"]["code"], said["error"]["data"]) for said in proxied.to("conn-a")]
    assert errors == [(1, -32010, {"handed": True}), ("2", -32010, {"handed": False})]
    proxied.browser(id="conn-a:1", result={})
    assert proxied.to("conn-a") == []
    assert proxied.to_browser() == []


def test_the_end_of_the_extension_fails_each_request_once_and_says_which_may_have_run(
    proxied: Conversation,
) -> None:
    for number in (1, 2, 3):
        proxied.client("conn-a", id=number, method="getTabs")
    proxied.client("conn-b", id=1, method="getTabs")
    taken = [proxied.board.outbox.pop_next(0)[1] for _ in range(3)]
    assert taken == ["conn-a:1", "conn-a:2", "conn-a:3"]
    proxied.browser(id="conn-a:1", result={})
    proxied.heard.clear()
    proxied._deliver(proxied.board.on_browser_lost(unwritten={"conn-a:3"}))
    handed = {said["id"]: said["error"]["data"]["handed"] for said in proxied.to("conn-a")}
    assert handed == {2: True, 3: False}
    assert [said["error"]["data"]["handed"] for said in proxied.to("conn-b")] == [False]
    assert proxied.board.on_browser_lost() == []


def test_1024_requests_of_all_clients_are_in_flight_at_most(proxied: Conversation) -> None:
    for number in range(1024):
        name = f"conn-{number // 256}"
        if number % 256 == 0:
            proxied.introduce(name)
        proxied.client(name, id=number, method="getTabs")
    proxied.client("conn-a", id=1, method="getTabs")
    error = proxied.to("conn-a")[0]["error"]
    assert (error["code"], error["data"]) == (-32015, {"handed": False, "retryAfterMs": 100})


def test_an_extension_of_another_wire_version_is_rejected_under_the_proxy_s_name(
    proxied: Conversation,
) -> None:
    proxied.browser(method="browser/hello", params={**HELLO, "wire": 2})
    (said,) = proxied.to_browser()
    assert said["params"] == {"code": -32017, "message": said["params"]["message"]}
    assert "the WebSocket proxy 0 speaks 1" in said["params"]["message"]
    assert proxied.board.refusal is not None


def test_sessions_of_all_clients_that_are_too_long_together_are_dropped(proxied: Conversation) -> None:
    proxied.introduce("conn-c", speaks_wire=True)
    proxied.heard.clear()
    for connection, title in [("conn-b", "x" * 600), ("conn-c", "y" * 600), ("conn-b", "short")]:
        session = {"id": "s", "title": title, "client": {"name": "n"}}
        proxied.client(connection, method="bridge/sessions", params={"sessions": [session]})
    titles = [
        client["sessions"][0].get("title", "")
        for message in proxied.to("conn-c")
        for client in message["params"]["clients"]
        if client["connection"] == "conn-b"
    ]
    assert titles == ["x" * 600, "short"]
    assert proxied.board.dropped[DropReason.CLIENT_NOTIFICATION] == 1
