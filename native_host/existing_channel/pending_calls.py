"""Calls over a channel that answers everybody at once, and which answer is whose. Sans-IO.

Newer extensions name the call in its answer. Older ones do not: then one call is under way at a time, and
only while nobody else uses the channel, because what is heard could be another's answer, and ours would be
taken for theirs. Which kind it is, the first answer tells.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Answers(Enum):
    """How an extension answers."""

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
    """A call of ours: `raw_id` is its id on our wire, `use_id` its name on the channel.

    One without `raw_id` is a probe: nobody has asked for it, and its answer only shows how answers are.
    """

    raw_id: bytes
    use_id: str
    tool: str
    body: bytes
    is_given_up: bool = False
    """Nobody waits for its answer any more, which may still come."""

    @property
    def is_awaited(self) -> bool:
        """Somebody waits for its answer."""
        return bool(self.raw_id) and not self.is_given_up


class Refusal(NamedTuple):
    """A call that is not sent, or not any more, and why."""

    call: Call
    why: str
    was_sent: bool = False


@dataclass
class Step:
    """What follows from what happened."""

    send: list[Call] = field(default_factory=list)
    refuse: list[Refusal] = field(default_factory=list)
    answered: Call | None = None
    """Whose answer it was that came."""


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
        """
        Args:
            company: returns whether other clients use the channel.
            probe: makes a call that does nothing.
        """
        self.answers = Answers.UNKNOWN
        self._other_clients = other_clients
        self._probe = probe
        self._sent: dict[str, Call] = {}
        """By name; without names it is one at most."""
        self._waiting: deque[Call] = deque()

    @property
    def is_owed_an_answer(self) -> bool:
        """One may come that nobody else could know to be nobody's."""
        return self.answers is not Answers.NAMED and bool(self._sent)

    def begin(self, call: Call) -> Step:
        """A call is to be made."""
        if self.answers is Answers.NAMED:
            return Step(send=[self._send(call)])
        if stuck := self._stuck():
            return Step(refuse=[Refusal(call, stuck)])
        self._waiting.append(call)
        return self._next(Step())

    def give_up(self, raw_id: bytes) -> Step:
        """Nobody waits for this call any more; its late answer is nobody's."""
        for call in self._waiting:
            if call.raw_id == raw_id:
                self._waiting.remove(call)
                return Step()
        for call in self._sent.values():
            if call.raw_id == raw_id:
                return self._give_up_sent(call)
        return Step()

    def heard(self, use_id: str | None) -> Step:
        """An answer is here, and what it names; it may be another program's."""
        if use_id is not None:
            return self._heard_named(use_id)
        if self.answers is Answers.NAMED:
            return Step()  # ours would have a name
        self.answers = Answers.UNNAMED
        call = next(iter(self._sent.values()), None)
        if call is None:
            return Step()
        del self._sent[call.use_id]
        if self._other_clients() is OtherClients.NONE:
            return self._next(Step(answered=call if call.is_awaited else None))
        return self._next(Step(refuse=[Refusal(call, _LOST, was_sent=True)] if call.is_awaited else []))

    def named(self, use_id: str) -> Call | None:
        """The call under way that something is about: by its name, or the only one where that is empty."""
        if not use_id and len(self._sent) == 1 and self._other_clients() is OtherClients.NONE:
            return next(iter(self._sent.values()))
        return self._sent.get(use_id)

    def end(self) -> tuple[list[Call], list[Call]]:
        """No answer will come any more: who still waits for one, sent and not sent."""
        sent = [call for call in self._sent.values() if call.is_awaited]
        waiting = list(self._waiting)
        self._sent.clear()
        self._waiting.clear()
        return sent, waiting

    def _heard_named(self, use_id: str) -> Step:
        call = self._sent.pop(use_id, None)
        step = Step(answered=call if call and call.is_awaited else None)
        if self.answers is not Answers.NAMED:
            self.answers = Answers.NAMED
            step.send = [self._send(each) for each in self._waiting]
            self._waiting.clear()
        return step

    def _give_up_sent(self, call: Call) -> Step:
        if self.answers is Answers.NAMED:
            del self._sent[call.use_id]
            return Step()
        call.is_given_up = True
        return self._next(Step())

    def _next(self, step: Step) -> Step:
        """Without names: the next call, when none is under way."""
        if stuck := self._stuck():
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

    def _stuck(self) -> str:
        under_way = next(iter(self._sent.values()), None)
        return _STUCK.format(tool=under_way.tool) if under_way and under_way.is_given_up else ""

    def _send(self, call: Call) -> Call:
        self._sent[call.use_id] = call
        return call
