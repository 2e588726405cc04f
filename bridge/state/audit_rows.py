"""Rows of the audit log: the cells of a table for users. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from native_host.protocol.untrusted_text import single_line

LIMITS = (14, 20, 32, 48, 20, 9)
_MAX_TEXT = 200


def format_row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Local time, client, tool, where, outcome, duration, detail."""
    client = line.get("client")
    return (
        _local_time(str(line["at"])),
        _clean_text(client, "name") if isinstance(client, Mapping) else "",
        _format_tool(line),
        _format_site(line),
        _clean_text(line, "outcome") or _clean_text(line, "event"),
        _format_duration(line.get("ms")),
        _format_detail(line),
    )


def _clean_text(of: Mapping[str, Any], key: str) -> str:
    return single_line(str(of.get(key, "")), _MAX_TEXT)  # The file is untrusted.


def _format_tool(line: Mapping[str, Any]) -> str:
    name = _clean_text(line, "tool") or _clean_text(line, "name")
    tool = " ".join(filter(None, [_clean_text(line, "kind"), name, _clean_text(line, "action")]))
    return f"{_clean_text(line, 'batch')}.{_clean_text(line, 'step')} {tool}" if line.get("step") else tool


def _local_time(at: str) -> str:
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return single_line(at, LIMITS[0])


def _format_site(line: Mapping[str, Any]) -> str:
    tab = f" tab {_clean_text(line, 'tab')}" if line.get("tab") else ""
    return f"{_clean_text(line, 'origin')}{tab}"


def _format_duration(ms: Any) -> str:
    return f"{ms:.0f} ms" if isinstance(ms, float | int) and ms < 1e9 else ""


def _format_detail(line: Mapping[str, Any]) -> str:
    if line.get("leftOut"):
        whose = "this site" if line.get("origin") else "further sites"
        what = "changed definitions" if line.get("event") == "redefined" else "lists"
        return f"{_clean_text(line, 'leftOut')} more {what} of {whose} were left out"
    if line.get("event") == "redefined":
        return f"its definition changed: {_clean_text(line, 'before')} -> {_clean_text(line, 'after')}"
    if line.get("event") == "registered":
        names = line.get("tools")
        shown = single_line(", ".join(map(str, names)), _MAX_TEXT) if isinstance(names, list) else ""
        return f"{_clean_text(line, 'count')} tools: {shown}" if shown else "no tools"
    may_have_run = line.get("handed") is True and line.get("outcome") not in ("ok", "tool_error")
    parts = [_clean_text(line, "detail"), "it may have run" if may_have_run else "", _count_further(line)]
    return "; ".join(filter(None, parts))


def _count_further(line: Mapping[str, Any]) -> str:
    origins, more = line.get("origins"), line.get("moreOrigins")
    if not isinstance(origins, list) or not origins:
        return ""
    shown = single_line(", ".join(map(str, origins)), _MAX_TEXT)
    return f"also {shown} and {single_line(str(more), 10)} more" if more else f"also {shown}"
