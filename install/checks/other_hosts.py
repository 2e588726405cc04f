"""Native hosts of other products in the same directories, for information. It only reads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from install.browsers import Kind, Target
from install.findings import Finding, FindingCode, Part, path_value, public_value
from install.host_manifest import callers_in, program_named_in
from native_host.existing_channel.channel_messages import CLAUDE_CODE, CLAUDES
from native_host.protocol.untrusted_text import escape
from native_host.protocol.wire import HOST_NAME
from native_host.system.untrusted_files import entries, head, is_file

MOST = 100
LARGEST_BYTES = 64 * 1024
WRAPPER_GONE = FindingCode.CHANNEL_WRAPPER_GONE
_SCRIPT_SUFFIXES = {".js", ".cjs", ".mjs", ".py"}


class OtherHost(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Host of another program."""

    name: str
    manifest: str
    title: str
    program: str = ""
    """Program of the manifest; empty if it is invalid."""
    lacks: str = ""
    """Missing file: the program, or one that its script runs."""
    is_there: bool = False
    callers: tuple[str, ...] = ()


def find_other_hosts(targets: Sequence[Target]) -> list[OtherHost]:
    """Return the hosts of these directories, in order; an unreadable directory has none."""
    return [
        _read_host(path, target.kind, target.title)
        for target in targets
        for path in _list_manifests(target.directory)
    ]


def _list_manifests(directory: Path) -> list[Path]:
    found = [path for path in entries(directory) if path.suffix == ".json" and path.stem != HOST_NAME]
    return found[:MOST]


def _read_host(path: Path, kind: Kind, title: str) -> OtherHost:
    content = head(path, LARGEST_BYTES) or b""
    program = program_named_in(content, kind)
    lacks = _find_lacking(program) if program else None
    return OtherHost(
        name=escape(path.stem),
        manifest=escape(str(path)),
        title=title,
        program=escape(str(program or "")),
        lacks=escape(str(lacks or "")),
        is_there=program is not None and lacks is None,
        callers=tuple(escape(caller) for caller in callers_in(content, kind)),
    )


def _find_lacking(program: Path) -> Path | None:
    """Return the first file that cannot be run, of a program and the files that it runs."""
    runs = _run_by(program)
    for path in [program, *runs[:1]]:
        if not (is_file(path) and os.access(path, os.X_OK)):
            return path
    return next((path for path in runs[1:] if not is_file(path)), None)


def _run_by(script: Path) -> list[Path]:
    """Wrappers end with `exec PROGRAM …`: what that is, by its whole path, and the script that it is given.

    Claude Code's names the folder of one version, which its updater removes.
    """
    text = _read_text(script)
    if not text.startswith("#!"):
        return []
    for line in text.splitlines():
        words = _split_words(line)
        if words[:1] == ["exec"]:
            program, *rest = [*map(Path, words[1:]), Path()]
            scripts = [path for path in rest[:1] if path.suffix in _SCRIPT_SUFFIXES]
            return [path for path in [program, *scripts] if path.is_absolute()]
    return []


def _read_text(program: Path) -> str:
    return (head(program, LARGEST_BYTES) or b"").decode(errors="replace")


def _split_words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quote that is not closed: a text of several lines
        return []


def neighbour_findings(found: Sequence[OtherHost], browsers: Mapping[str, Part]) -> list[Finding]:
    """Return notes on the host that Anthropic's extension would start.

    `browsers` are the names of browsers by their titles. Codes: neighbour-order, channel-wrapper-gone.
    """
    names: dict[str, Part] = {each.title: public_value(each.title) for each in found}
    names |= browsers
    titles = dict.fromkeys(neighbour.title for neighbour in found)
    return [finding for title in titles for finding in _of_claude(title, names[title], found)]


def find_used_host(title: str, found: Sequence[OtherHost]) -> OtherHost | None:
    """Return the host that Claude in Chrome would start in this browser, or None."""
    return next((each for each in _find_claude_hosts(title, found) if each.is_there), None)


def _find_claude_hosts(title: str, found: Sequence[OtherHost]) -> list[OtherHost]:
    """Return the first manifest of each of its two names: the user's come before those for all users."""
    its = [each for each in found if each.title == title]
    hosts = [next((each for each in its if each.name == name), None) for name in CLAUDES]
    return [each for each in hosts if each]


def _of_claude(title: str, browser: Part, found: Sequence[OtherHost]) -> Iterator[Finding]:
    there = _find_claude_hosts(title, found)
    yield from (_gone_finding(each, browser) for each in there if each.lacks)
    if winner := find_used_host(title, found):
        yield _order_finding(browser, winner, there)


def _order_finding(browser: Part, winner: OtherHost, there: Sequence[OtherHost]) -> Finding:
    if len(there) == 1:
        template = (
            "In {browser} Anthropic's extension would start {winner}'s host, the only one that is registered"
        )
    else:
        because = ", because Claude Desktop's program is gone" if winner.name == CLAUDE_CODE else ""
        template = (
            "In {browser} Claude Desktop and Claude Code are both registered for Anthropic's extension, "
            f"which asks Claude Desktop first and uses one host: it would start {{winner}}'s{because}"
        )
    return Finding(
        code=FindingCode.NEIGHBOUR_ORDER,
        hop="browser",
        template=f"{template}. This does not concern mcpb",
        values={"browser": browser, "winner": public_value(CLAUDES[winner.name])},
        level="note",
        where=browser,
    )


def _gone_finding(host: OtherHost, browser: Part) -> Finding:
    through = "{program}, which starts " if host.lacks != host.program else ""
    template = (
        "{browser} cannot start {product}'s host for Anthropic's extension: {manifest} names "
        f"{through}{{missing}}, which is not an executable file. Start {{product}} to repair it"
    )
    values: dict[str, Part] = {
        "browser": browser,
        "product": public_value(CLAUDES[host.name]),
        "manifest": path_value(host.manifest),
        "program": path_value(host.program),
        "missing": path_value(host.lacks),
    }
    return Finding(
        code=WRAPPER_GONE, hop="browser", template=template, values=values, level="note", where=browser
    )
