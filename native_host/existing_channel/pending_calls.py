"""Pending calls on a channel that broadcasts every response. Sans-IO.

Newer extensions name the call in its response. With older ones only one call runs at a time, and only while
no other client uses the channel: a response could belong to another client, or ours could reach it. The first
response shows the kind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Answers(Enum):
    """Says whether an extension names the call in its response."""

    UNKNOWN = 1
    NAMED = 2
    UNNAMED = 3


class OtherClients(Enum):
    """Other clients of the channel."""

    NONE = 1
    LATELY = 2
    """A client used the channel a short while ago; its responses may still come."""
    NOW = 3


@dataclass(eq=False)
class Call:
    """A call of mcpb: `raw_id` is its id on the wire, `use_id` its name on the channel.

    One without `raw_id` is a probe: no client waits for it, and its response only shows the kind.
    """

    raw_id: bytes
    use_id: str
    tool: str
    body: bytes
    is_cancelled: bool = False
    """No client waits for its response, which may still come."""

    @property
    def is_awaited(self) -> bool:
        """Return whether a client waits for its response."""
        return bool(self.raw_id) and not self.is_cancelled


class Refusal(NamedTuple):
    """Call that fails, and the reason."""

    call: Call
    why: str
    was_sent: bool = False


@dataclass
class Step:
    """Consequences of an event."""

    send: list[Call] = field(default_factory=list)
    refuse: list[Refusal] = field(default_factory=list)
    answered: Call | None = None


_OTHERS = {
    OtherClients.NOW: "another program is connected to this channel (`mcpb status` says which)",
    OtherClients.LATELY: "another program was connected to this channel a moment ago",
}
_MIXED = "{others}, and {what}, so that its answers and yours could be taken for each other. {then}"
_UNNAMED = "this version of its extension does not say which call it answers"
_UNKNOWN = "it is not known yet whether its extension says which call it answers"
_UPDATE = "or bring the extension up to date: versions after 1.0.36 say it"
_THEN = {
    (OtherClients.NOW, Answers.UNKNOWN): (
        "Let that program do something in the browser while this client runs, or close it; then call again"
    ),
    (OtherClients.NOW, Answers.UNNAMED): f"Close that program, {_UPDATE}",
    (OtherClients.LATELY, Answers.UNNAMED): f"Wait three minutes, {_UPDATE}",
}
_STUCK = (
    "a call of {tool} before this one was given up and has not been answered yet. This version of the other "
    "product's extension does not say which call it answers, so that nothing else can be asked until then. "
    "Wait; if that does not help, reload that extension"
)
_LOST = f"an answer came that may have been another program's: {_UNNAMED}"


class Calls:
    """All calls of one connection."""

    def __init__(self, other_clients: Callable[[], OtherClients], probe: Callable[[], Call]) -> None:
        """Begin without calls.

        Args:
            other_clients: returns whether other clients use the channel.
            probe: makes a call that does nothing.
        """
        self.answers = Answers.UNKNOWN
        self._other_clients = other_clients
        self._probe = probe
        self._sent: dict[str, Call] = {}
        self._waiting: deque[Call] = deque()

    @property
    def is_owed_an_answer(self) -> bool:
        """Return whether a response may come that a later process could take for its own."""
        return self.answers is not Answers.NAMED and bool(self._sent)

    def begin(self, call: Call) -> Step:
        """Begin a call."""
        if self.answers is Answers.NAMED:
            return Step(send=[self._send(call)])
        if stuck := self._describe_stuck():
            return Step(refuse=[Refusal(call, stuck)])
        self._waiting.append(call)
        return self._continue(Step())

    def cancel(self, raw_id: bytes) -> Step:
        """Cancel a call; its late response is dropped."""
        for call in self._waiting:
            if call.raw_id == raw_id:
                self._waiting.remove(call)
                return Step()
        for call in self._sent.values():
            if call.raw_id == raw_id:
                return self._cancel_sent(call)
        return Step()

    def on_response(self, use_id: str | None) -> Step:
        """Handle a response with the name of its call; it may belong to another client."""
        if use_id is not None:
            return self._on_named_response(use_id)
        if self.answers is Answers.NAMED:
            return Step()  # ours would have a name
        self.answers = Answers.UNNAMED
        call = next(iter(self._sent.values()), None)
        if call is None:
            return Step()
        del self._sent[call.use_id]
        if self._other_clients() is OtherClients.NONE:
            return self._continue(Step(answered=call if call.is_awaited else None))
        return self._continue(Step(refuse=[Refusal(call, _LOST, was_sent=True)] if call.is_awaited else []))

    def find_call(self, use_id: str) -> Call | None:
        """Return a running call by its name, or the only running call if the name is empty."""
        if not use_id and len(self._sent) == 1 and self._other_clients() is OtherClients.NONE:
            return next(iter(self._sent.values()))
        return self._sent.get(use_id)

    def end(self) -> tuple[list[Call], list[Call]]:
        """End all calls; return those that were sent, and those that were not."""
        sent = [call for call in self._sent.values() if call.is_awaited]
        waiting = list(self._waiting)
        self._sent.clear()
        self._waiting.clear()
        return sent, waiting

    def _on_named_response(self, use_id: str) -> Step:
        call = self._sent.pop(use_id, None)
        step = Step(answered=call if call and call.is_awaited else None)
        if self.answers is not Answers.NAMED:
            self.answers = Answers.NAMED
            step.send = [self._send(each) for each in self._waiting]
            self._waiting.clear()
        return step

    def _cancel_sent(self, call: Call) -> Step:
        if self.answers is Answers.NAMED:
            del self._sent[call.use_id]
            return Step()
        call.is_cancelled = True
        return self._continue(Step())

    def _continue(self, step: Step) -> Step:
        """Send the next call if none runs."""
        if stuck := self._describe_stuck():
            self._refuse_waiting(step, stuck)
        elif self._waiting and not self._sent:
            self._send_next(step)
        return step

    def _send_next(self, step: Step) -> None:
        other_clients = self._other_clients()
        if other_clients is OtherClients.NONE:
            step.send.append(self._send(self._waiting.popleft()))
        elif other_clients is OtherClients.LATELY and self.answers is Answers.UNKNOWN:
            step.send.append(self._send(self._probe()))
        else:
            what = _UNNAMED if self.answers is Answers.UNNAMED else _UNKNOWN
            others, then = _OTHERS[other_clients], _THEN[other_clients, self.answers]
            self._refuse_waiting(step, _MIXED.format(others=others, what=what, then=then))

    def _refuse_waiting(self, step: Step, why: str) -> None:
        step.refuse += [Refusal(call, why) for call in self._waiting]
        self._waiting.clear()

    def _describe_stuck(self) -> str:
        under_way = next(iter(self._sent.values()), None)
        return _STUCK.format(tool=under_way.tool) if under_way and under_way.is_cancelled else ""

    def _send(self, call: Call) -> Call:
        self._sent[call.use_id] = call
        return call
