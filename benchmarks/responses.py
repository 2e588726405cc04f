"""responses.h in Python: HTTP/1.1 as a client reads it. Of server-sent events, the message is given."""

from __future__ import annotations

import re

_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)


class RefusedError(Exception):
    """The status is an error; the text is the response."""


def take_response(read: bytearray) -> bytes | None:
    """Take the body of a complete response out of what was read; None if it is incomplete.

    Raises:
        RefusedError: it says so.
    """
    head, found, _ = read.partition(_HEAD_END)
    if not found:
        return None
    if head.split(b" ", 2)[1][:1] != b"2":
        raise RefusedError(read[:1024].decode(errors="replace"))
    begin = len(head) + len(_HEAD_END)
    if length := _LENGTH.search(head):
        return _taken(read, begin, begin + int(length[1]))
    return _take_chunks(read, begin, is_stream=False)


def take_events(read: bytearray) -> bytes | None:
    """Return the message of the next event of a stream after its head; empty if it has none."""
    return _take_chunks(read, 0, is_stream=True)


def message_of(body: bytes) -> bytes:
    """Return the data of the last event with data; a body without events is returned as it is."""
    if body[:1] in (b"{", b"["):
        return body
    return next((data.strip() for data in reversed(_DATA.findall(body)) if data.strip()), b"")


def _taken(read: bytearray, begin: int, end: int) -> bytes | None:
    if len(read) < end:
        return None
    body = bytes(read[begin:end])
    del read[:end]
    return message_of(body)


def _take_chunks(read: bytearray, at: int, *, is_stream: bool) -> bytes | None:
    """See `walk_chunks`."""
    body = bytearray()
    while (line_end := read.find(_LINE_END, at)) >= 0:
        size = int(read[at:line_end], 16)
        begin = line_end + len(_LINE_END)
        at = begin + size + len(_LINE_END)
        if at > len(read):
            return None
        chunk = read[begin : begin + size]
        body += chunk
        if chunk.endswith(_EVENT_ENDS) if is_stream else size == 0:
            del read[:at]
            return message_of(bytes(body))
    return None
