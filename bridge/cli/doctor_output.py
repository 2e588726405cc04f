"""The report of `mcpb doctor` for people, line by line. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import msgspec

from bridge.cli.status_output import put_there_by_us, where_and_who, whose_and_used
from bridge.diagnostics.remote_status import format_remote
from bridge.diagnostics.report import BrowserReport, DoctorReport, FindingReport, HopReport, RemoteReport
from install.checks.other_hosts import OtherHost
from install.findings import Level

_MARKS: dict[Level, str] = {"note": "·", "warning": "!", "fault": "✗"}
_OK = "✓"
_NOTHING = "nothing: no file of mcpb needs a fix, or can be fixed"
_TEXT_AT = 17
_MIN_TEXT = 30
"""Columns of the text, however narrow the terminal is."""


def as_text(diagnosis: DoctorReport, width: int = 0) -> Iterator[str]:
    """Yield the verdict, then the findings that all browsers share, then each browser, hop by hop.

    `width` is the terminal's; 0 allows lines of any length.
    """
    yield from _wrap_text("", f"mcpb {diagnosis.version}: {diagnosis.verdict}", 0, width)
    if diagnosis.is_fixing:
        yield from ("", "Fixed")
        yield from (f"  {_OK} {text}" for text in diagnosis.fixed)
        if not diagnosis.fixed:
            yield f"  {_MARKS['note']} {_NOTHING}"
        for text in diagnosis.left:
            yield from _wrap_text(f"  {_MARKS['warning']} ", text, 4, width)
    titles = {browser.title for browser in diagnosis.browsers}
    shared = [finding for finding in diagnosis.findings if finding.where not in titles]
    yield from ("", "This machine")
    yield from _hop_lines(diagnosis.hops, shared, width)
    for browser in diagnosis.browsers:
        yield from ("", _format_heading(browser))
        its = [finding for finding in diagnosis.findings if finding.where == browser.title]
        yield from _hop_lines(browser.hops, its, width)
    if diagnosis.channels or diagnosis.published:
        yield from ("", "Channels of other products", *_channel_lines(diagnosis, width))
    if diagnosis.neighbours:
        yield ""
        yield "Native hosts of other products"
        yield from dict.fromkeys(f"  · {one.name}{_describe_host(one)}" for one in diagnosis.neighbours)
    if diagnosis.remote:
        yield ""
        yield "Remote servers"
        for server in diagnosis.remote:
            yield from _remote_lines(server, width)
    if diagnosis.fix and not diagnosis.is_fixing:
        yield from ("", f"To fix mcpb's own files, run: {diagnosis.fix}")


def _channel_lines(diagnosis: DoctorReport, width: int) -> Iterator[str]:
    for channel in map(msgspec.to_builtins, diagnosis.channels):
        yield from _wrap_text("  · ", whose_and_used(channel), 4, width)
        if facts := where_and_who(channel):
            yield from _wrap_text("    ", facts, 4, width)
    for socket in map(msgspec.to_builtins, diagnosis.published):
        yield from _wrap_text("  · ", put_there_by_us(socket), 4, width)


def _remote_lines(server: RemoteReport, width: int) -> Iterator[str]:
    mark = _OK if server.state == "ready" else _MARKS["note"]
    facts = [server.state, server.address, format_remote(msgspec.to_builtins(server))]
    head = _format_head(mark, f"{server.name} ")
    yield from _wrap_text(head, " · ".join(filter(None, facts)), _TEXT_AT, width)


def _describe_host(host: OtherHost) -> str:
    return "" if host.is_there else " (its program is gone)"


def _format_heading(browser: BrowserReport) -> str:
    called = f"{browser.title} (--browser {browser.name})" if browser.name else browser.title
    return f"{called}, not connected" if browser.state == "idle" else called


def _hop_lines(hops: Sequence[HopReport], findings: Sequence[FindingReport], width: int) -> Iterator[str]:
    for hop in hops:
        label: str = hop.hop
        its = [finding for finding in findings if finding.hop == hop.hop]
        if hop.text and hop.state != "fault":
            yield from _wrap_text(_format_head(_OK, label), hop.text, _TEXT_AT, width)
            label = ""
        for finding in its:
            head = _format_head(_MARKS[finding.level], label)
            yield from _wrap_text(head, f"{_capitalize(finding.text)} [{finding.code}]", _TEXT_AT, width)
            if finding.command:
                yield f"{' ' * _TEXT_AT}→ {finding.command}"
            label = ""


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _format_head(mark: str, label: str) -> str:
    return f"  {mark} {label}".ljust(_TEXT_AT)


def _wrap_text(head: str, text: str, indent: int, width: int) -> list[str]:
    """Wrap a text; paths and commands stay whole, for copying."""
    if not width:
        return [head + text]
    return textwrap.wrap(
        text,
        max(width, indent + _MIN_TEXT),
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
