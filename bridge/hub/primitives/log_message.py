"""Log messages of page servers (`notifications/message`): sanitized, marked, limited. Sans-IO."""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args

import msgspec

from bridge.hub.schemas.schema_limits import measure_extent
from bridge.hub.tool_definition import OWN_META
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, multi_line, single_line, truncate

MESSAGE = "notifications/message"
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""Severities of MCP (RFC 5424), the least severe first."""
MAX_DATA_CHARS = 4000
"""Characters of `data` as JSON; longer data becomes the beginning of its text."""
_MAX_LOGGER_CHARS = 100
_MAX_DEPTH = 32
_SEVERITY = {level: severity for severity, level in enumerate(get_args(LogLevel))}


class LogRecipient(Protocol):
    """An MCP client, or one of its requests, that receives log messages."""

    @property
    def level(self) -> LogLevel | None:
        """Least severe level that it wants; None: it wants nothing."""
        ...

    def write(self, message: LogMessage) -> bool:
        """Send a message; return False if the client is too far behind to take it. It does not raise."""
        ...


class _Message(msgspec.Struct):
    """Params of `notifications/message` as a page wrote them."""

    level: LogLevel
    data: msgspec.Raw
    logger: object = ""


_messages = msgspec.json.Decoder(_Message)


class LogMessage(msgspec.Struct, frozen=True):
    """A log message of a page."""

    level: LogLevel
    logger: str
    """The site, and the page's own name of the logger."""
    data: Any
    origin: str
    dropped: int = 0
    """Messages of the document that were dropped before this one."""

    @property
    def params(self) -> dict[str, Any]:
        """Params of the notification."""
        meta: dict[str, Any] = {f"{OWN_META}untrusted": True, f"{OWN_META}origin": self.origin}
        if self.dropped:
            meta[f"{OWN_META}dropped"] = self.dropped
        return {"level": self.level, "logger": self.logger, "data": self.data, "_meta": meta}


def read_message(params: bytes, origin: str) -> LogMessage | None:
    """Return the log message that a page of this origin has sent; None if it is not one of MCP."""
    try:
        found = _messages.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    site = "a page without an origin" if origin == "null" else single_line(origin, MAX_ORIGIN_CHARS)
    own = single_line(found.logger, _MAX_LOGGER_CHARS) if isinstance(found.logger, str) else ""
    return LogMessage(found.level, f"{site} {own}".rstrip(), _sanitize(bytes(found.data)), site)


def severity_of(level: LogLevel) -> int:
    """Return a number that grows with the severity."""
    return _SEVERITY[level]


def is_wanted(level: LogLevel, least: LogLevel | None) -> bool:
    """Return whether a message of this level is as severe as the least severe level that is wanted."""
    return least is not None and _SEVERITY[level] >= _SEVERITY[least]


def _sanitize(data: bytes) -> Any:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _shorten(data.decode(errors="replace"))
    if isinstance(value, str):
        return _shorten(value)
    text = data.decode()
    if len(text) > MAX_DATA_CHARS or measure_extent(value, _MAX_DEPTH).depth > _MAX_DEPTH:
        return _shorten(text)
    return _sanitize_texts(value)


def _shorten(text: str) -> str:
    return truncate(multi_line(text), MAX_DATA_CHARS)


def _sanitize_texts(value: Any) -> Any:
    match value:
        case str():
            return multi_line(value)
        case dict():
            return {multi_line(name): _sanitize_texts(member) for name, member in value.items()}
        case list():
            return [_sanitize_texts(item) for item in value]
        case _:
            return value
