"""Console log of a tab: messages and exceptions from DevTools events, the latest ones. Sans-IO."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from bridge import origins
from bridge.browser_tools.page.frame_origins import FrameOrigins
from native_host.protocol import wire
from native_host.protocol.untrusted_text import truncate

MAX_MESSAGES = 1000
MAX_CHARS = 1024 * 1024
"""Characters of all texts of a tab."""
MAX_TEXT = 4000
"""Characters of a message."""
MAX_ARGUMENT = 2000
MAX_FRAMES = 5
MAX_CONTEXTS = 1000

EVENTS = (
    "Runtime.executionContextCreated",
    "Runtime.executionContextsCleared",
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Runtime.exceptionRevoked",
    "Log.entryAdded",
    "Page.frameAttached",
    "Page.frameNavigated",
)
_LEVELS = {
    "error": "error",
    "assert": "error",
    "warning": "warning",
    "info": "info",
    "debug": "debug",
    "verbose": "debug",
}
"""Console level by DevTools level; all others are `log`."""
_SILENT = ("clear", "endGroup", "profile", "profileEnd")
_PLACES = re.compile(r"%([sdifoOc%])")


class _Shape(msgspec.Struct, rename="camel"):
    """Members of an event that are read."""


class _Property(_Shape):
    name: str
    type: str = ""
    value: str | None = None


class _Entry(_Shape):
    value: _Preview
    key: _Preview | None = None


class _Preview(_Shape):
    type: str = ""
    subtype: str = ""
    description: str = ""
    overflow: bool = False
    properties: list[_Property] = []
    entries: list[_Entry] = []


class _Value(_Shape):
    """A RemoteObject."""

    type: str
    subtype: str = ""
    value: Any = None
    unserializable_value: str = ""
    description: str = ""
    preview: _Preview | None = None


class _Frame(_Shape):
    url: str = ""
    function_name: str = ""
    line_number: int = 0
    column_number: int = 0


class _Stack(_Shape):
    call_frames: list[_Frame] = []


class _ConsoleCall(_Shape):
    type: str
    args: list[_Value]
    timestamp: float
    execution_context_id: int = 0
    stack_trace: _Stack | None = None


class _Details(_Shape):
    exception_id: int
    text: str
    url: str = ""
    line_number: int = 0
    column_number: int = 0
    execution_context_id: int = 0
    stack_trace: _Stack | None = None
    exception: _Value | None = None


class _ExceptionThrown(_Shape):
    timestamp: float
    exception_details: _Details


class _ExceptionRevoked(_Shape):
    exception_id: int


class _LogEntry(_Shape):
    source: str
    level: str
    text: str
    timestamp: float
    url: str = ""
    line_number: int | None = None
    stack_trace: _Stack | None = None


class _LogEntryAdded(_Shape):
    entry: _LogEntry


class _Context(_Shape):
    id: int
    origin: str = ""
    aux_data: dict[str, Any] = {}


class _ContextCreated(_Shape):
    context: _Context


class _NavigatedFrame(_Shape):
    id: str
    url: str
    parent_id: str = ""


class _FrameAttachment(_Shape):
    frame_id: str
    parent_frame_id: str


class _FrameNavigation(_Shape):
    frame: _NavigatedFrame


@dataclass
class Entry:
    """A message, and how often it came in a row."""

    level: str
    text: str
    at: float
    """Milliseconds since 1970, of the newest."""
    place: str = ""
    """`<url>:<line>:<column>`, counted from 1; empty: unknown."""
    stack: list[str] = field(default_factory=list)
    possible_origins: tuple[str, ...] = (origins.OPAQUE,)
    """Origins of the documents that it may belong to."""
    count: int = 1
    exception: int = 0
    """By which a rejection is taken back that was handled later."""

    def is_again(self, other: Entry) -> bool:
        """Return whether the other entry repeats this one."""
        return (self.text, self.level, self.place, self.possible_origins) == (
            other.text,
            other.level,
            other.place,
            other.possible_origins,
        )

    @property
    def time(self) -> str:
        """As people read it, in UTC."""
        return datetime.fromtimestamp(self.at / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]


class Console:
    """The newest messages of one tab."""

    def __init__(self, url: str) -> None:
        """`url`: where the tab is."""
        self.dropped = 0
        self.frames = FrameOrigins()
        self._host = origins.get_host(url)
        self._entries: deque[Entry] = deque()
        self._chars = 0
        self._contexts: dict[tuple[str, int], tuple[str, bool]] = {}
        """By DevTools' session and id: its origin, and whether it is the page's own."""

    def on_event(self, event: wire.CdpEvent) -> None:
        """Something has happened. Times are the browser's."""
        params = bytes(event.params or b"{}")
        try:
            self._handle_event(event.method, params, event.session_id)
        except msgspec.DecodeError:
            self._handle_event(event.method, _made_text(params), event.session_id)

    def _handle_event(self, method: str, params: bytes, session: str) -> None:
        match method:
            case "Runtime.consoleAPICalled":
                self._add_call(msgspec.json.decode(params, type=_ConsoleCall), session)
            case "Runtime.exceptionThrown":
                self._add_exception(msgspec.json.decode(params, type=_ExceptionThrown), session)
            case "Log.entryAdded":
                self._add_log_entry(msgspec.json.decode(params, type=_LogEntryAdded).entry, session)
            case "Runtime.exceptionRevoked":
                self._revoke_exception(msgspec.json.decode(params, type=_ExceptionRevoked).exception_id)
            case "Runtime.executionContextCreated":
                self._add_context(msgspec.json.decode(params, type=_ContextCreated).context, session)
            case "Runtime.executionContextsCleared":
                self._contexts = {key: known for key, known in self._contexts.items() if key[0] != session}
            case "Page.frameAttached":
                attached = msgspec.json.decode(params, type=_FrameAttachment)
                self.frames.handle_attachment(attached.frame_id, attached.parent_frame_id, session)
            case "Page.frameNavigated":
                self._handle_navigation(msgspec.json.decode(params, type=_FrameNavigation).frame, session)

    def find_latest(
        self, limit: int, *, only_errors: bool = False, fits: Callable[[Entry], bool] = lambda _: True
    ) -> tuple[list[Entry], int]:
        """Return the latest matching entries in order of time, and the number of all matches.

        Processes of a page report independently: a later entry may have arrived first.
        """
        wanted = [
            entry for entry in self._entries if fits(entry) and (entry.level == "error" or not only_errors)
        ]
        return sorted(wanted, key=lambda entry: entry.at)[-limit:], len(wanted)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._chars = self.dropped = 0

    # ── What events say ─────────────────────────────────────────────────────────────────────────────────────

    def _add_call(self, called: _ConsoleCall, session: str) -> None:
        origin, is_own = self._contexts.get((session, called.execution_context_id), ("", True))
        if not is_own or called.type in _SILENT:
            return
        text = format_values(called.args)
        if called.type == "assert":
            text = f"Assertion failed: {text}"
        stack = called.stack_trace or _Stack()
        level = _LEVELS.get(called.type, "log")
        has_stack = level in ("error", "warning") or called.type == "trace"
        self._add_entry(
            Entry(
                level,
                text,
                called.timestamp,
                _format_place(stack.call_frames),
                _format_stack(stack) if has_stack else [],
                (origin or origins.OPAQUE,),
            )
        )

    def _add_exception(self, thrown: _ExceptionThrown, session: str) -> None:
        details = thrown.exception_details
        origin, is_own = self._contexts.get((session, details.execution_context_id), ("", True))
        if not is_own:
            return
        said = _format_value(details.exception) if details.exception else ""
        stack = details.stack_trace or _Stack()
        place = _format_place(stack.call_frames) or _format_place(
            [_Frame(details.url, "", details.line_number, details.column_number)]
        )
        text = f"{details.text} {said}".strip()
        is_told = bool(details.exception and details.exception.subtype == "error")
        self._add_entry(
            Entry(
                "error",
                text,
                thrown.timestamp,
                place,
                [] if is_told else _format_stack(stack),  # an error's own text has it
                (origin or origins.OPAQUE,),
                exception=details.exception_id,
            )
        )

    def _add_log_entry(self, entry: _LogEntry, session: str) -> None:
        if entry.source == "worker":
            return  # it has a session of its own, which says the same
        place = _format_place([_Frame(entry.url, "", entry.line_number or 0, 0)]) if entry.url else ""
        whose = self.frames.of_session(session)  # the address is that of a resource
        self._add_entry(Entry(_LEVELS.get(entry.level, "log"), entry.text, entry.timestamp, place, [], whose))

    def _revoke_exception(self, exception: int) -> None:
        """Remove a rejection that was handled later."""
        for entry in self._entries:
            if entry.exception == exception:
                self._chars -= len(entry.text)
                self._entries.remove(entry)
                return

    def _add_context(self, context: _Context, session: str) -> None:
        is_default = context.aux_data.get("isDefault", True) is not False
        is_own = is_default and not origins.is_of_browser(context.origin)
        if len(self._contexts) < MAX_CONTEXTS:
            self._contexts[session, context.id] = origins.get_origin(context.origin), is_own

    def _handle_navigation(self, frame: _NavigatedFrame, session: str) -> None:
        self.frames.handle_navigation(frame.id, frame.parent_id, frame.url, session)
        if frame.parent_id or session:
            return
        host = origins.get_host(frame.url)
        if host != self._host:
            self._host = host
            self.clear()

    def _add_entry(self, entry: Entry) -> None:
        entry.text = truncate(entry.text, MAX_TEXT)
        if self._entries and (last := self._entries[-1]).is_again(entry):
            last.count += 1
            last.at = entry.at
            last.exception = 0
            return
        self._entries.append(entry)
        self._chars += len(entry.text)
        while len(self._entries) > MAX_MESSAGES or self._chars > MAX_CHARS:
            self._chars -= len(self._entries.popleft().text)
            self.dropped += 1


def _made_text(params: bytes) -> bytes:
    """Without the halves of characters that JavaScript has in its strings and no other decoder takes."""
    return json.dumps(json.loads(params), ensure_ascii=False).encode(errors="replace")


def _format_place(frames: list[_Frame]) -> str:
    if not frames:
        return ""
    frame = frames[0]
    return (
        f"{truncate(frame.url, 300)}:{frame.line_number + 1}:{frame.column_number + 1}" if frame.url else ""
    )


def _format_stack(stack: _Stack) -> list[str]:
    named = [frame for frame in stack.call_frames if frame.url or frame.function_name]
    return [
        f"{truncate(frame.function_name, 100) or '(anonymous)'} {_format_place([frame])}".rstrip()
        for frame in named[:MAX_FRAMES]
    ]


# ── Values ──────────────────────────────────────────────────────────────────────────────────────────────────


def format_values(values: list[_Value]) -> str:
    """Return the text of a console message; `%s` and similar are replaced as in browsers."""
    if len(values) > 1 and isinstance(values[0].value, str) and "%" in values[0].value:
        rest = values[1:]
        begin = _PLACES.sub(lambda place: _fill_placeholder(place[1], rest), values[0].value[:MAX_ARGUMENT])
        return " ".join([begin, *map(_format_value, rest)])
    return " ".join(map(_format_value, values))


def _fill_placeholder(kind: str, rest: list[_Value]) -> str:
    if kind == "%":
        return "%"
    if not rest:
        return f"%{kind}"
    value = rest.pop(0)
    return "" if kind == "c" else _format_value(value)  # %c: how it looks


def _format_value(value: _Value) -> str:
    """Return a value as the console shows it."""
    if isinstance(value.value, str):
        return truncate(value.value, MAX_ARGUMENT)
    if value.type == "undefined":
        return "undefined"
    if value.preview and value.subtype not in ("error", "node", "regexp", "date"):
        return truncate(_format_preview(value.preview), MAX_ARGUMENT)
    if value.unserializable_value or value.description:
        return truncate(value.unserializable_value or value.description, MAX_ARGUMENT)
    return msgspec.json.encode(value.value).decode()


def _format_preview(preview: _Preview) -> str:
    more = ["…"] if preview.overflow else []
    if preview.entries:
        return f"{preview.description} {{{', '.join([*map(_format_entry, preview.entries), *more])}}}"
    if preview.subtype in ("array", "typedarray"):
        items = [_property_value(each) for each in preview.properties if each.name.isdigit()]
        return f"[{', '.join([*items, *more])}]"
    if preview.type == "function" or (preview.subtype and not preview.properties):
        return preview.description
    members = [f"{each.name}: {_property_value(each)}" for each in preview.properties]
    named = "" if preview.description == "Object" else f"{preview.description} "
    return f"{named}{{{', '.join([*members, *more])}}}"


def _format_entry(entry: _Entry) -> str:
    value = _format_short(entry.value)
    return f"{_format_short(entry.key)} => {value}" if entry.key else value


def _format_short(preview: _Preview) -> str:
    return (
        f'"{preview.description}"'
        if preview.type == "string"
        else preview.description or _format_preview(preview)
    )


def _property_value(each: _Property) -> str:
    if each.type == "string":
        return f'"{each.value or ""}"'
    if each.type == "function":
        return "ƒ"
    return each.value or each.type
