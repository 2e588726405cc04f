"""Audit events of calls and of tool registrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from bridge.errors import CallError, NotOfferedError, UnknownToolError
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.client_session import Session
from bridge.hub.tool_result import Answer
from native_host.protocol.wire import Code


class Site(msgspec.Struct, frozen=True):
    """Location of an event: browser profile, origin, tab and frame."""

    profile: str = ""
    browser: str = ""
    """The user's label for the profile, else the browser's brand."""
    origin: str = ""
    tab_id: int | None = None
    ordinal: int = 0
    """The tab's number within its domain, as public names have it."""


NOWHERE = Site()
CallKind = Literal[
    "tool", "resource", "subscription", "prompt", "completion", "sampling", "roots", "elicitation", "offered"
]
"""What a call was for. `sampling`, `roots` and `elicitation` are requests of a page to the client.
`offered` is a page's call of a remote server's tool: the page's origin is its client."""


class FinishedCall(msgspec.Struct, frozen=True):
    """Record of a finished call of a tool, or request for a resource or prompt, with any outcome."""

    session: Session
    name: str
    """Of the tool or prompt, or the URI, as the client wrote it."""
    outcome: str
    """`ok`, `tool_error` (the page said so), `cancelled`, `unknown_tool`, `not_offered`, or a code's name."""
    duration_s: float
    site: Site = NOWHERE
    """Empty where the call never got as far as a site."""
    own_name: str = ""
    detail: str = ""
    handed: bool = True
    """True if the page may have received the call."""
    arguments: Arguments = NOTHING
    """For those who asked for them: they may be anything, passwords included."""
    batch: str = ""
    """Id that a call of several steps shares with its steps."""
    step: int = 0
    """Number of the step within its batch, counted from 1; 0: the call itself."""
    action: str = ""
    """Action of the tool that the call chose: `left_click`."""
    kind: CallKind = "tool"
    origins: tuple[str, ...] = ()
    """Further sites whose content the call reported or acted on."""


class ToolRegistration(msgspec.Struct, frozen=True):
    """Record of a frame that announced its tools."""

    site: Site
    tools: tuple[str, ...]


class ToolRedefinition(msgspec.Struct, frozen=True):
    """Record of a page that changed the definition of a tool under the same name."""

    site: Site
    tool: str
    before: str
    after: str


class CallRecord(msgspec.Struct):
    """Record of a call that runs: the fields of its audit event that are known so far."""

    session: Session
    name: str
    arguments: Arguments
    began: float
    """Start of the call, on the clock that `ended` gets."""
    site: Site = NOWHERE
    own_name: str = ""
    batch: str = ""
    step: int = 0
    action: str = ""
    kind: CallKind = "tool"
    keep_step: AuditSink = lambda _: None
    touched: dict[str, None] = msgspec.field(default_factory=dict)
    """Origins whose content was reported or acted on, in the order in which they came."""

    def finish(self, how: Answer | Exception | None, now: float) -> FinishedCall:
        """Return the audit event of the finished call; None stands for a cancelled call."""
        detail, handed = "", True
        match how:
            case Answer():
                word = "tool_error" if how.is_error else "ok"
            case CallError():
                word, detail, handed = _format_outcome(how.code), how.audit_detail, how.handed
            case UnknownToolError():
                word, handed = "unknown_tool", False
            case NotOfferedError():
                word, handed = "not_offered", False
            case None:
                word = "cancelled"
            case _:
                word = "internal_error"
        return FinishedCall(
            session=self.session,
            name=self.name,
            outcome=word,
            duration_s=now - self.began,
            site=self.site,
            own_name=self.own_name,
            detail=detail,
            handed=handed,
            arguments=self.arguments,
            batch=self.batch,
            step=self.step,
            action=self.action,
            kind=self.kind,
            origins=self._further_origins() if self.touched else (),
        )

    def _further_origins(self) -> tuple[str, ...]:
        return tuple(origin for origin in self.touched if origin != self.site.origin)


def _format_outcome(code: int) -> str:
    try:
        return Code(code).name.lower()
    except ValueError:
        return f"error {code}"


Record = FinishedCall | ToolRegistration | ToolRedefinition
AuditSink = Callable[[Record], None]
"""Takes audit events. It neither waits nor raises."""


def to_each(*keeps: AuditSink) -> AuditSink:
    """Return a sink that passes each event to several sinks."""

    def keep_in_each(record: Record) -> None:
        for each in keeps:
            each(record)

    return keep_in_each
