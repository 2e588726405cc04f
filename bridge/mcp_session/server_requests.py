"""Questions to a client that a server may ask: requests of ours, and their answers.

Only the handshake era has them. See `input_required.py` for what takes their place since 2026-07-28.
"""

from __future__ import annotations

import itertools
import logging

import msgspec
import trio

from bridge.errors import CallError
from bridge.mcp_session.client_messages import Answer
from bridge.mcp_session.client_writer import Client, notification, request
from bridge.mcp_session.elicitation import Asked
from native_host.protocol.wire import Code

_log = logging.getLogger(__name__)


class Asking:
    """The questions of one session that are open.

    Their ids are strings that are no numbers: those of the mcp package, which asks nothing else, are numbers.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[bytes, _Open] = {}
        """By id, as JSON."""

    async def ask(self, client: Client, asked: Asked) -> bytes:
        """What the asker gets of the client's answer. Cancelling this takes the question back.

        Raises:
            CallError: the client has none.
        """
        question = _Open(asked)
        raw_id = b'"question-%d"' % next(self._numbers)
        self._open[raw_id] = question
        client.write(request(raw_id, asked.method, asked.params))
        try:
            await question.answered.wait()
        except trio.Cancelled:
            given_up = {"requestId": msgspec.Raw(raw_id), "reason": "caller cancelled"}
            client.write(notification("notifications/cancelled", given_up))
            raise
        finally:
            del self._open[raw_id]
        if question.result is None:  # why is no business of the page
            raise CallError(Code.INTERNAL_ERROR, asked.failure, handed=True)
        return question.result

    def take(self, answer: Answer) -> bool:
        """Whether this answers one of our questions."""
        question = self._open.get(bytes(answer.id))
        if question is None:
            return False
        question.answer(answer)
        return True

    def fail(self, raw_id: bytes) -> None:
        """Something came under this id that is no answer: if it is a question of ours, there will be none."""
        if question := self._open.get(raw_id):
            _log.warning("the client's answer to a question is no message of MCP")
            question.answered.set()


class _Open:
    def __init__(self, asked: Asked) -> None:
        self.answered = trio.Event()
        self.result: bytes | None = None
        self._asked = asked

    def answer(self, answer: Answer) -> None:
        if self.answered.is_set():
            return
        try:
            if bytes(answer.result):
                self.result = self._asked.read(bytes(answer.result))
            else:
                _log.warning("the client did not answer a question: %s", answer.error)
        except msgspec.DecodeError as error:
            _log.warning("the client did not answer a question: %s", error)
        self.answered.set()
