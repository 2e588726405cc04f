"""A line of the audit log as people read it: the cells of a table's row. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from native_host.protocol.untrusted_text import single_line

LIMITS = (14, 20, 32, 48, 20, 9)
"""Widths of the columns before the last."""
_MAX_TEXT = 200


def row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Local time, client, tool, where, outcome, duration, detail."""
    client = line.get("client")
    return (
        _local_time(str(line["at"])),
        _text(client, "name") if isinstance(client, Mapping) else "",
        _tool(line),
        _where(line),
        _text(line, "outcome") or _text(line, "event"),
        _duration(line.get("ms")),
        _detail(line),
    )


def _text(of: Mapping[str, Any], key: str) -> str:
    return single_line(str(of.get(key, "")), _MAX_TEXT)  # whoever may write to the file has written it


def _tool(line: Mapping[str, Any]) -> str:
    tool = " ".join(filter(None, [_text(line, "tool") or _text(line, "name"), _text(line, "action")]))
    return f"{_text(line, 'batch')}.{_text(line, 'step')} {tool}" if line.get("step") else tool


def _local_time(at: str) -> str:
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return single_line(at, LIMITS[0])


def _where(line: Mapping[str, Any]) -> str:
    tab = f" tab {_text(line, 'tab')}" if line.get("tab") else ""
    return f"{_text(line, 'origin')}{tab}"


def _duration(ms: Any) -> str:
    return f"{ms:.0f} ms" if isinstance(ms, float | int) and ms < 1e9 else ""


def _detail(line: Mapping[str, Any]) -> str:
    if line.get("leftOut"):
        whose = "this site" if line.get("origin") else "further sites"
        what = "changed definitions" if line.get("event") == "redefined" else "lists"
        return f"{_text(line, 'leftOut')} more {what} of {whose} were left out"
    if line.get("event") == "redefined":
        return f"its definition changed: {_text(line, 'before')} -> {_text(line, 'after')}"
    if line.get("event") == "registered":
        names = line.get("tools")
        shown = single_line(", ".join(map(str, names)), _MAX_TEXT) if isinstance(names, list) else ""
        return f"{_text(line, 'count')} tools: {shown}" if shown else "no tools"
    may_have_run = line.get("handed") is True and line.get("outcome") not in ("ok", "tool-error")
    parts = [_text(line, "detail"), "it may have run" if may_have_run else "", _further(line)]
    return "; ".join(filter(None, parts))


def _further(line: Mapping[str, Any]) -> str:
    origins, more = line.get("origins"), line.get("moreOrigins")
    if not isinstance(origins, list) or not origins:
        return ""
    shown = single_line(", ".join(map(str, origins)), _MAX_TEXT)
    return f"also {shown} and {single_line(str(more), 10)} more" if more else f"also {shown}"
