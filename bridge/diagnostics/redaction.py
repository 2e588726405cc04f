"""Redaction of a doctor report: shows each value as its privacy class allows. Pure.

It never searches text: a value of a private class is replaced wherever a report has it. Codes, hops, levels
and states stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bridge.diagnostics.browser_checks import ObservedBrowser, classify_reason
from bridge.diagnostics.browser_matching import Observations
from bridge.diagnostics.report import BrowserReport, DoctorReport, RemoteReport, make_report
from install.checks.existing_channel import Channel, describe_use, make_channel_command
from install.checks.other_hosts import OtherHost
from install.findings import Part, Privacy, Show, Value, foreign_value, path_value, public_value
from native_host.protocol.untrusted_text import escape

_SYSTEM_DIRECTORIES = re.compile(
    r"/(usr|bin|etc|opt|lib|snap|app|run/user|proc|dev|var/lib|Library|Applications)(/|$)"
    r"|~/(\.mcpb|\.config|\.mozilla|\.local|\.cache|\.var/app|snap|Library)(/|$)"
    r"|\$MCPB_HOME(/|$)|~$"
)
"""Directories with names that the system, a browser or mcpb chose."""

_NUMBERED = {
    Privacy.PATH: "folder",
    Privacy.ORIGIN: "site",
    Privacy.TITLE: "title",
    Privacy.PROFILE: "profile",
    Privacy.REMOTE: "server",
    Privacy.PROGRAM: "program",
}
_UNNUMBERED = {Privacy.USER: "<user>", Privacy.HOST_NAME: "<machine>", Privacy.FOREIGN_TEXT: "<words>"}


def make_redacted_report(looked: Observations, homes: Mapping[str, str]) -> DoctorReport:
    """Return the report with placeholders for private values; `homes` are directories with their names."""
    show = Redactor(homes, find_named_directories(looked)).show_value
    diagnosis = make_report(looked, show)
    names = {target.title: target.name for target in looked.files.targets}
    return msgspec.structs.replace(
        diagnosis,
        browsers=tuple(_redact_browser(browser, show) for browser in diagnosis.browsers),
        channels=tuple(
            _redact_channel(channel, show, is_attached=looked.is_attached) for channel in diagnosis.channels
        ),
        published=tuple(
            msgspec.structs.replace(each, path=show(path_value(each.path))) for each in diagnosis.published
        ),
        neighbours=tuple(
            _redact_neighbour(each, number, names.get(each.title, public_value(each.title)), show)
            for number, each in enumerate(diagnosis.neighbours, 1)
        ),
        remote=tuple(_redact_remote(server, show) for server in diagnosis.remote),
    )


def find_named_directories(looked: Observations) -> list[str]:
    """Return the directories and programs that a user named, not mcpb or a browser."""
    by_hand = [target for target in looked.files.targets if not target.browser]
    paths = [Path(target.manifest).parent for target in by_hand]
    paths += [path.parent for path in paths if path.name == "NativeMessagingHosts"]
    paths += [
        Path(target.program) for target in looked.files.targets if target.program and not target.is_ours
    ]
    paths += [path for each in looked.files.running for path in (each.user_data_dir, each.profile) if path]
    return [str(path) for path in paths]


class Redactor:
    """Placeholders of one report: equal values have equal placeholders."""

    def __init__(self, homes: Mapping[str, str], directories: Sequence[str] = ()) -> None:
        """Paths below one of the `directories` keep the part that follows it."""
        self._homes = {path: homes[path] for path in sorted(homes, key=len, reverse=True) if path.strip("/")}
        self._directories = sorted({path for path in directories if path.strip("/")}, key=len, reverse=True)
        self._numbers: dict[Privacy, dict[str, str]] = {privacy: {} for privacy in _NUMBERED}

    def show_value(self, value: Value) -> str:
        """Return the text of a public value, the placeholder of another."""
        if value.privacy is Privacy.PUBLIC or not value.text:
            return value.text
        if value.privacy is Privacy.PATH:
            return self._show_path(value.text)
        if value.privacy in _NUMBERED:
            return self._number_of(value.text, value.privacy)
        return _UNNUMBERED[value.privacy]

    def _show_path(self, path: str) -> str:
        shown = self._below_home(path)
        if _SYSTEM_DIRECTORIES.match(shown):
            return shown
        for directory in self._directories:
            if _is_below(path, directory):
                return self._number_of(directory, Privacy.PATH) + path.removeprefix(directory)
        return self._number_of(path, Privacy.PATH)

    def _below_home(self, path: str) -> str:
        for home, name in self._homes.items():
            if _is_below(path, home):
                return name + path.removeprefix(home)
        return path

    def _number_of(self, text: str, privacy: Privacy) -> str:
        numbers = self._numbers[privacy]
        return numbers.setdefault(escape(text), f"<{_NUMBERED[privacy]} {len(numbers) + 1}>")


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


# ── Parts of a report without findings ──────────────────────────────────────────────────────────────────────


def _redact_browser(browser: BrowserReport, show: Show) -> BrowserReport:
    return msgspec.structs.replace(browser, seen=tuple(_redact_profile(seen, show) for seen in browser.seen))


def _redact_profile(seen: ObservedBrowser, show: Show) -> ObservedBrowser:
    trouble = seen.trouble
    return msgspec.structs.replace(
        seen,
        host=show(Value(seen.host, Privacy.REMOTE)) if seen.proxy else seen.host,
        proxy=show(Value(seen.proxy, Privacy.REMOTE)) if seen.proxy else "",
        label=show(Value(seen.label, Privacy.PROFILE)),
        tabs=tuple(
            msgspec.structs.replace(
                tab,
                origin=show(Value(tab.origin, Privacy.ORIGIN)),
                title=show(Value(tab.title, Privacy.TITLE)),
            )
            for tab in seen.tabs
        ),
        silence=show(foreign_value(seen.silence)),
        forbidden=show(foreign_value(seen.forbidden)),
        trouble=trouble and msgspec.structs.replace(trouble, reason=show(classify_reason(trouble.reason))),
    )


def _redact_channel(channel: Channel, show: Show, *, is_attached: bool) -> Channel:
    """Remove the programs of its clients too."""
    command = make_channel_command(channel)
    return msgspec.structs.replace(
        channel,
        use=describe_use(channel, is_attached=is_attached).render(show),
        path=show(path_value(channel.path)),
        program=show(path_value(channel.program)),
        user_data_dir=show(path_value(channel.user_data_dir)),
        clients=tuple(msgspec.structs.replace(client, program="") for client in channel.clients),
        mend=command.render(show) if command else "",
    )


def _redact_neighbour(host: OtherHost, number: int, browser: Part, show: Show) -> OtherHost:
    """Keep only the browser: other installed products are private."""
    return OtherHost(name=f"<host {number}>", manifest="", title=browser.render(show), is_there=host.is_there)


def _redact_remote(server: RemoteReport, show: Show) -> RemoteReport:
    return msgspec.structs.replace(
        server,
        name=show(Value(server.name, Privacy.REMOTE)),
        address=show(foreign_value(server.address)),
        server=show(foreign_value(server.server)),
        error=show(foreign_value(server.error)),
        offers=tuple(
            msgspec.structs.replace(
                offer,
                origin=show(Value(offer.origin, Privacy.ORIGIN)),
                problem=show(foreign_value(offer.problem)),
            )
            for offer in server.offers
        ),
    )
