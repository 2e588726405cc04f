"""Questions to the person behind a client that a server may ask: requests of ours, and their answers.

Only the handshake era has them. See `parking.py` for what takes their place since 2026-07-28.
"""

from __future__ import annotations

import itertools
import logging

import msgspec
import trio

from bridge import questions
from bridge.errors import CallError
from bridge.incoming import Answer, ElicitResult
from bridge.outgoing import Client, notification, request
from native_host import wire
from native_host.wire import Code

_log = logging.getLogger(__name__)


class Asking:
    """The questions of one session that are open.

    Their ids are strings that are no numbers: those of the mcp package, which asks nothing else, are numbers.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[bytes, _Question] = {}
        """By id, as JSON."""

    async def ask(self, client: Client, asked: wire.ElicitConfirmation) -> bytes:
        """An MCP ElicitResult as JSON. Cancelling this takes the question back.

        Raises:
            CallError: the form may not be shown, or the client failed to ask.
        """
        found = questions.read(asked)
        question = _Question()
        raw_id = b'"question-%d"' % next(self._numbers)
        self._open[raw_id] = question
        params = {"mode": "form", "message": found.message, "requestedSchema": found.form}
        client.write(request(raw_id, "elicitation/create", params))
        try:
            await question.answered.wait()
        except trio.Cancelled:
            given_up = {"requestId": msgspec.Raw(raw_id), "reason": "caller cancelled"}
            client.write(notification("notifications/cancelled", given_up))
            raise
        finally:
            del self._open[raw_id]
        if question.result is None:
            text = "the MCP client failed to ask the person"  # why is no business of the page
            raise CallError(Code.INTERNAL_ERROR, text, handed=True)
        return questions.answer(question.result.action, question.result.content)

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
            _log.warning("the client's answer to a page's question is no message of MCP")
            question.answered.set()


class _Question:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.result: ElicitResult | None = None

    def answer(self, answer: Answer) -> None:
        if self.answered.is_set():
            return
        try:
            if bytes(answer.result):
                self.result = msgspec.json.decode(answer.result, type=ElicitResult)
            else:
                _log.warning("the client did not answer a page's question: %s", answer.error)
        except msgspec.DecodeError as error:
            _log.warning("the client did not answer a page's question: %s", error)
        self.answered.set()
