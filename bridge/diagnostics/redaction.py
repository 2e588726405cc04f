"""What of a report may be shown in public: no site, no title, no person, no folder that somebody named. Pure.

Only what is said in words is changed; codes, hops, levels and states are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bridge.diagnostics.browser_checks import SeenBrowser
from bridge.diagnostics.browser_matching import Looked
from bridge.diagnostics.report import BrowserReport, Diagnosis, HopReport
from install.checks.existing_channel import Channel
from install.checks.other_hosts import Neighbour
from install.findings import Finding
from native_host.protocol.untrusted_text import escape

_URL = re.compile(r"\b(?:https?|wss?|file)://[^\s\"'“”<>)]+")
_PATH = re.compile(r"(?<![\w.$~<>/:#-])~?/[^\s\"'“”<>(),;:`]*[^\s\"'“”<>(),;:`.]")
_OF_EVERYBODY = re.compile(
    r"/(usr|bin|etc|opt|lib|snap|app|run/user|proc|dev|var/lib|Library|Applications)(/|$)"
    r"|~/(\.mcpb|\.config|\.mozilla|\.local|\.cache|\.var/app|snap|Library)(/|$)"
)
"""Folders whose names say nothing of whom they belong to."""

_WORDS_OF_OTHERS: Mapping[str, tuple[str, str]] = {
    "config-invalid": (r".+", "config.toml cannot be used. (What it says is left out.)"),
    "browsers-table": (r".+", "browsers.toml cannot be used. (What it says is left out.)"),
    "approvals-invalid": (r".+", "approvals.json cannot be used. (What it says is left out.)"),
    "shortcuts-invalid": (r".+", "shortcuts.toml cannot be used. (What it says is left out.)"),
    "environment-shared": (r"(?<=Beside it: ).+", "<packages>"),
    "package-taken": (r"(?<=is that of ).+(?= as well)", "<package>"),
    "host-exits": (r"(?<=Its last words: ).+", "<words>"),
    "host-silent": (r"(?<=Its last words: ).+", "<words>"),
    "host-prints": (r"(?<=what is no message: ).+|(?<=does not end it: ).+", "<words>"),
    "host-not-ours": (r"(?<=it says ).+", "<words>"),
    "host-refuses": (r"(?<=refuses: ).+", "<words>"),
    "extension-folder-gone": (r"(?<=was loaded from ).+(?=, which is gone)", "<folder>"),
}
"""Of a finding's text, by its code: what is not mcpb's, and what is shown instead."""
_PROFILE = r"(?<=, profile ).+(?=: the extension )"
"""What the examination says of an extension begins with the person's name for its profile."""

_OWN_WORDS = frozenset({
    "browser", "chrome", "chromium", "command", "extension", "fault", "firefox", "home", "host", "it",
    "machine", "manifest", "mcp", "mcpb", "native", "page", "profile", "python", "root", "socket", "tool",
    "user", "work", "works", "wrapper",
})  # fmt: skip
"""A machine that is called like one of these is known by what stands before it alone."""


class Private(msgspec.Struct, frozen=True, kw_only=True):
    """What only this person and machine have."""

    paths: Mapping[str, str] = {}
    """And what is shown in their place."""
    user: str = ""
    machine: str = ""
    """With or without its domain."""


def without_sites(browsers: Sequence[SeenBrowser]) -> list[SeenBrowser]:
    """The same browsers; profiles, tabs and rules are told apart by a number only."""
    return [_anonymous(browser, number) for number, browser in enumerate(browsers, 1)]


def _anonymous(browser: SeenBrowser, number: int) -> SeenBrowser:
    sites = list(dict.fromkeys(tab.origin for tab in browser.tabs))
    return msgspec.structs.replace(
        browser,
        label=f"<profile {number}>" if browser.label else "",
        tabs=tuple(
            msgspec.structs.replace(tab, origin=f"<site {sites.index(tab.origin) + 1}>", title=f"<title {n}>")
            for n, tab in enumerate(browser.tabs, 1)
        ),
        forbidden="<rule>" if browser.forbidden else "",
    )


def named_folders(looked: Looked) -> list[str]:
    """Folders and programs that somebody named, not mcpb or a browser."""
    by_hand = [target for target in looked.files.targets if not target.browser]
    paths = [Path(target.manifest).parent for target in by_hand]
    paths += [path.parent for path in paths if path.name == "NativeMessagingHosts"]
    paths += [
        Path(target.program) for target in looked.files.targets if target.program and not target.is_ours
    ]
    paths += [path for each in looked.files.running for path in (each.user_data_dir, each.profile) if path]
    return [str(path) for path in paths]


def redacted(diagnosis: Diagnosis, private: Private, folders: Sequence[str] = ()) -> Diagnosis:
    """The report without URLs, names of folders, and what is `private`.

    Each folder has a number, which is its own in the whole report.
    """
    veil = _Veil(private, folders)
    return msgspec.structs.replace(
        diagnosis,
        verdict=veil.over(_verdict(diagnosis)),
        fixed=tuple(map(veil.over, diagnosis.fixed)),
        left=tuple(map(veil.over, _left(diagnosis))),
        fix=veil.over(diagnosis.fix),
        hops=_hops(diagnosis.hops, veil),
        browsers=tuple(_browser(browser, veil) for browser in diagnosis.browsers),
        findings=tuple(_finding(finding, veil) for finding in diagnosis.findings),
        channels=tuple(_channel(channel, veil) for channel in diagnosis.channels),
        published=tuple(
            msgspec.structs.replace(each, path=veil.over(each.path)) for each in diagnosis.published
        ),
        neighbours=tuple(_unnamed(one, number, veil) for number, one in enumerate(diagnosis.neighbours, 1)),
    )


# ── The parts of a report ───────────────────────────────────────────────────────────────────────────────────


def _verdict(diagnosis: Diagnosis) -> str:
    return _without_words(diagnosis.verdict, diagnosis.findings)


def _left(diagnosis: Diagnosis) -> Iterator[str]:
    return (_without_words(text, diagnosis.findings) for text in diagnosis.left)


def _without_words(text: str, findings: Sequence[Finding]) -> str:
    """A sentence that may have a finding's text in it."""
    for finding in findings:
        said = finding.text.removesuffix(".")
        text = text.replace(said, _own_words(finding).removesuffix("."))
    return text


def _own_words(finding: Finding) -> str:
    text = finding.text
    if finding.code in _WORDS_OF_OTHERS:
        text = re.sub(*_WORDS_OF_OTHERS[finding.code], text)
    return re.sub(_PROFILE, "<profile>", text) if finding.hop == "extension" else text


def _finding(finding: Finding, veil: _Veil) -> Finding:
    return msgspec.structs.replace(
        finding,
        text=veil.over(_own_words(finding)),
        command=veil.over(finding.command),
        where=veil.over(finding.where),
    )


def _browser(browser: BrowserReport, veil: _Veil) -> BrowserReport:
    return msgspec.structs.replace(
        browser,
        title=veil.over(browser.title),
        hops=_hops(browser.hops, veil),
        seen=tuple(_seen(seen, veil) for seen in browser.seen),
    )


def _hops(hops: Sequence[HopReport], veil: _Veil) -> tuple[HopReport, ...]:
    return tuple(msgspec.structs.replace(hop, text=veil.over(hop.text)) for hop in hops)


def _seen(seen: SeenBrowser, veil: _Veil) -> SeenBrowser:
    trouble = seen.trouble
    return msgspec.structs.replace(
        seen,
        silence=veil.over(seen.silence),
        trouble=trouble and msgspec.structs.replace(trouble, reason=veil.over(trouble.reason)),
    )


def _channel(channel: Channel, veil: _Veil) -> Channel:
    """Whose programs use it is told nobody."""
    return msgspec.structs.replace(
        channel,
        use=veil.over(channel.use),
        path=veil.over(channel.path),
        program=veil.over(channel.program),
        user_data_dir=veil.over(channel.user_data_dir),
        clients=tuple(msgspec.structs.replace(client, program="") for client in channel.clients),
        fault=veil.over(channel.fault),
        mend=veil.over(channel.mend),
    )


def _unnamed(neighbour: Neighbour, number: int, veil: _Veil) -> Neighbour:
    """Which other products somebody has is told nobody."""
    title = veil.over(neighbour.title)
    name = f"<host {number}>"
    return msgspec.structs.replace(
        neighbour, name=name, title=title, manifest="", program="", lacks="", callers=()
    )


# ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Veil:
    """Shows the same in place of the same, in a whole report."""

    def __init__(self, private: Private, folders: Sequence[str]) -> None:
        paths = {escape(path): shown for path, shown in private.paths.items() if _is_path(path)}
        self._numbers: dict[str, str] = {}
        self._folders = sorted({escape(path) for path in folders if _is_path(path)}, key=len, reverse=True)
        self._homes = [(_beginning(path), paths[path]) for path in sorted(paths, key=len, reverse=True)]
        self._names = [*_user(private.user), *_machine(private.machine)]

    def over(self, text: str) -> str:
        text = _URL.sub("<address>", text)
        for folder in self._folders:
            if not _OF_EVERYBODY.match(self._below_home(folder)):
                text = self._without(folder, text)
        text = self._below_home(text)
        text = _PATH.sub(lambda found: self._shown(found[0]), text)
        for pattern, stand_in in self._names:
            text = pattern.sub(stand_in, text)
        return text

    def _without(self, folder: str, text: str) -> str:
        for spelt in (folder, folder.replace("'", """'"'"'""")):  # the second as shlex.quote has it
            text = _beginning(spelt).sub(lambda _: self._number(folder), text)
        return text

    def _below_home(self, text: str) -> str:
        for pattern, stand_in in self._homes:
            text = pattern.sub(stand_in, text)
        return text

    def _shown(self, path: str) -> str:
        return path if _OF_EVERYBODY.match(path) else self._number(path)

    def _number(self, folder: str) -> str:
        return self._numbers.setdefault(folder, f"<folder {len(self._numbers) + 1}>")


def _is_path(text: str) -> bool:
    return text.startswith("/") and text != "/"


def _beginning(path: str) -> re.Pattern[str]:
    """The path itself, or the beginning of a longer one."""
    return re.compile(re.escape(path) + r"(?![\w.-])")


_Rule = tuple[re.Pattern[str], str]


def _user(name: str) -> Iterator[_Rule]:
    """Whole parts of paths are dealt with as paths: elsewhere a user may be called like any word of ours."""
    if name:
        yield re.compile(rf"(?<![\w.-]){re.escape(name)}(?=@)"), "<user>"


def _machine(name: str) -> Iterator[_Rule]:
    short, _, domain = name.partition(".")
    if domain:
        yield re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE), "<machine>"
    if short:
        before = "(?<=@)" if short.lower() in _OWN_WORDS else r"(?<![\w./-])"
        yield re.compile(rf"{before}{re.escape(short)}(?![\w/-])", re.IGNORECASE), "<machine>"
