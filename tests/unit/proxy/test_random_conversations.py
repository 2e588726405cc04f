"""Random conversations of two users: each request has one outcome, and `handed` is right."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_conversation import ProxyConversation

USERS = ("alice", "bob")
IDS = (1, "1", "1~2", 0)


class Model:
    """Two users, each with two extensions and two clients, and everything that is known of their requests."""

    def __init__(self) -> None:
        self.proxy = ProxyConversation()
        self.extensions = [self.proxy.extension(user) for user in USERS for _ in range(2)]
        self.clients = [self.proxy.client(user) for user in USERS for _ in range(2)]
        self.asked = 0
        self.open: list[dict[int, int]] = [{} for _ in self.clients]
        """By client: number of each open request by the position of its id."""
        self.owner: dict[int, int] = {}
        self.taken: set[int] = set()
        """Numbers of the requests that have left an outbox."""
        self.unwritten: list[dict[str, int]] = [{} for _ in self.extensions]
        self.answerable: list[list[tuple[str, int]]] = [[] for _ in self.extensions]
        self.outcomes: dict[int, list[Any]] = {}

    def request(self, client: int, raw_id: int) -> None:
        """Send a request whose params contain its number and the user."""
        if self.clients[client].peer.is_closed:
            return
        self.asked += 1
        number, is_in_flight = self.asked, raw_id in self.open[client]
        talker = self.clients[client]
        is_connected = bool(talker.peer.connection_id)
        self.owner[number] = client
        user = talker.peer.user_id
        talker.say(id=IDS[raw_id], method="x", params={"number": number, "user": user})
        if is_connected and not is_in_flight:
            self.open[client][raw_id] = number
        else:
            (rejection,) = talker.received()
            assert rejection["error"]["code"] == (-32600 if is_connected else -32000)
            assert rejection["error"]["data"]["handed"] is False

    def take(self, extension: int, *, is_written: bool) -> None:
        """Take the next message out of an outbox, and write it or not."""
        talker = self.extensions[extension]
        if not talker.peer.outbox:
            return
        body, key, size = talker.take()
        message = json.loads(body)
        if is_written:
            talker.peer.on_written(key, size)
        if message.get("method") != "x":
            return
        assert message["params"]["user"] == talker.peer.user_id
        number = message["params"]["number"]
        assert number not in self.taken
        self.taken.add(number)
        if is_written:
            self.answerable[extension].append((message["id"], number))
        else:
            self.unwritten[extension][key] = number

    def answer(self, extension: int, *, twice: bool) -> None:
        """Answer the oldest request, perhaps twice; every other extension answers it as well."""
        if not self.answerable[extension]:
            return
        raw_id, number = self.answerable[extension].pop(0)
        for other, talker in enumerate(self.extensions):
            result = {"number": number if other == extension else -1}
            for _ in range(1 + twice):
                if other != extension:
                    talker.say(id=raw_id, result=result)
        for _ in range(1 + twice):
            self.extensions[extension].say(id=raw_id, result={"number": number})
        self.collect()

    def connect(self, client: int, extension: int) -> None:
        talker = self.clients[client]
        if talker.peer.is_closed or self.extensions[extension].peer.is_closed:
            return
        answer, *_ = talker.ask("c", "connect", extension_id=self.extensions[extension].peer.extension_id)
        is_own = talker.peer.user_id == self.extensions[extension].peer.user_id
        if not is_own:
            assert answer["error"]["code"] in {-32000, -32001}

    def disconnect(self, client: int) -> None:
        self.clients[client].say(id="d", method="disconnect")
        self.collect()

    def cancel(self, client: int, raw_id: int) -> None:
        self.clients[client].say(method="browser/cancel", params={"id": IDS[raw_id]})
        self.open[client].pop(raw_id, None)

    def close_client(self, client: int) -> None:
        self.clients[client].peer.on_closed()
        self.open[client].clear()

    def close_extension(self, extension: int) -> None:
        lost = self.unwritten[extension]
        self.taken -= set(lost.values())  # no byte of these was written
        self.extensions[extension].peer.on_closed(self.proxy.now_s, unwritten=lost.keys())
        self.answerable[extension].clear()
        self.collect()
        assert self.extensions[extension].peer.peer_count == 0
        self.extensions[extension] = self.proxy.extension(USERS[extension // 2])
        self.unwritten[extension] = {}

    def collect(self) -> None:
        """Check what clients have received: each outcome is that of an open request of theirs."""
        for client, talker in enumerate(self.clients):
            for message in talker.received():
                if "id" in message and message["id"] in IDS:
                    self._check_outcome(client, message)

    def _check_outcome(self, client: int, message: Any) -> None:
        raw_id = next(
            n for n, own in enumerate(IDS) if own == message["id"] and type(own) is type(message["id"])
        )
        number = self.open[client].pop(raw_id)
        if "result" in message:
            assert message["result"]["number"] == number
        else:
            assert message["error"]["code"] == -32010
            assert message["error"]["data"]["handed"] is (number in self.taken)

    def finish(self) -> None:
        """Close every extension: each request that is still open has its outcome."""
        for extension in range(len(self.extensions)):
            self.close_extension(extension)
        assert not any(self.open)


FOUR = st.integers(0, 3)
POSITION = st.integers(0, len(IDS) - 1)
REQUEST = st.tuples(st.just("request"), FOUR, POSITION)
WRITE = st.tuples(st.sampled_from(["write", "write", "take"]), FOUR)
CANCEL = st.tuples(st.just("cancel"), FOUR, POSITION)
ANSWER = st.tuples(st.just("answer"), FOUR, st.booleans())
CONNECT = st.tuples(st.just("connect"), FOUR, FOUR)
END = st.tuples(st.sampled_from(["disconnect", "close_client", "close_extension"]), FOUR)
STEPS = st.lists(
    st.one_of(REQUEST, REQUEST, WRITE, WRITE, CANCEL, ANSWER, ANSWER, CONNECT, END), min_size=30, max_size=90
)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_each_request_of_a_random_conversation_has_one_outcome(steps: list[Any]) -> None:
    model = Model()
    for client in range(4):
        model.connect(client, client // 2 * 2)
    for name, *arguments in steps:
        match name, arguments:
            case "write" | "take", [extension]:
                model.take(extension, is_written=name == "write")
            case "answer", [extension, twice]:
                model.answer(extension, twice=twice)
            case _:
                getattr(model, name)(*arguments)
    model.collect()
    model.finish()
