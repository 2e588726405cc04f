"""Log messages to one client: from its level on, and only while it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bridge.hub.primitives.log_message import LogMessage, LogRecipient
from bridge.mcp_session.client_writer import UNREAD_BYTES
from bridge.mcp_session.log_messages import RequestLog, SessionLog
from native_host.protocol.framing import Part

MESSAGE = LogMessage("info", "https://shop.example cart", {"items": 2}, "https://shop.example")


class Client:
    """It does not read as long as `waiting_bytes` are unread."""

    waiting_bytes = 0

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, *parts: Part) -> None:
        self.lines.append(json.loads(b"".join(parts)))

    def answer(self, *parts: Part, error: int = 0) -> None:
        raise NotImplementedError

    def forgo(self) -> None:
        raise NotImplementedError

    async def wait_room(self, limit: int = 0) -> None:
        raise NotImplementedError


class Listening:
    """What listens now."""

    def __init__(self) -> None:
        self.recipients: list[LogRecipient] = []

    def listen(self, recipient: LogRecipient) -> Callable[[], None]:
        self.recipients.append(recipient)
        return lambda: self.recipients.remove(recipient)


def test_a_session_listens_once_it_has_a_level_and_until_it_ends() -> None:
    listening = Listening()
    log = SessionLog(Client(), listening.listen)
    assert listening.recipients == []
    log.set_level("warning")
    log.set_level("debug")
    assert listening.recipients == [log]
    assert log.level == "debug"
    log.end()
    assert listening.recipients == []


def test_a_client_that_does_not_read_is_sent_nothing() -> None:
    client = Client()
    log = RequestLog(client, "debug")
    client.waiting_bytes = UNREAD_BYTES + 1
    assert not log.write(MESSAGE)
    client.waiting_bytes = UNREAD_BYTES
    assert log.write(MESSAGE)
    assert client.lines == [{"jsonrpc": "2.0", "method": "notifications/message", "params": MESSAGE.params}]
