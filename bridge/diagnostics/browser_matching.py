"""Matching of files, processes and connections of the same browser, and its role. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from bridge.diagnostics.browser_checks import LinkedHost, ObservedBrowser, UnlinkedHost
from bridge.diagnostics.proxy_checks import ObservedProxy
from bridge.state.pause_control import Target
from install.browsers import Kind
from install.checks.check_report import Report
from install.checks.existing_channel import Channel
from install.checks.manifest_lookup import TargetReport
from install.checks.running_browsers import RunningBrowser
from install.findings import (
    MCPB,
    NOTHING,
    Finding,
    FindingCode,
    Hop,
    Message,
    Part,
    Privacy,
    Value,
    public_value,
)
from native_host.existing_channel.published_socket import PublishedSocket

Host = TypeVar("Host", bound=LinkedHost)

NOT_THERE = FindingCode.EXTENSION_MISSING
Role = Literal["connected", "has the extension", "unused"]
"""Role of a browser: connected; it has the extension as far as known; or it is not used with mcpb."""


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """Observations before their evaluation."""

    files: Report
    shared: Sequence[Finding] = ()
    """Findings about shared parts: the environment, the sockets."""
    seen: Sequence[ObservedBrowser] = ()
    unlinked: Sequence[UnlinkedHost] = ()
    hosts: Mapping[int, int] = {}
    """Native hosts that run, of whatever mcpb: the browser's pid, and the host's."""
    channels: Sequence[Channel] = ()
    is_attached: bool = False
    only_directory: Path | None = None
    """The one in which its sockets are looked for by the configuration; None: wherever it puts them."""
    is_published: bool = False
    """True if the configuration publishes a socket."""
    published: Sequence[PublishedSocket] = ()
    paused: Sequence[Target] = ()
    """Sites that the user has paused, and connected clients."""
    proxies: Sequence[ObservedProxy] = ()
    """WebSocket proxies that the user has signed in to."""
    remote: Sequence[Mapping[str, Any]] = ()
    """Configured remote servers, as `remote_status.describe_remote` describes them."""
    current_copies: frozenset[Kind] = frozenset()
    """Kinds of browsers whose copies of the extension are all of this version."""
    details: Mapping[Hop, Part] = {}
    fixed: Sequence[Part] | None = None
    """Results of `--fix`; None without it."""
    is_partial: bool = False
    """Only the browsers of `files` were asked for."""
    called: Value = MCPB
    now: float = 0.0
    """Seconds since the epoch."""

    @property
    def wants_channels(self) -> bool:
        """Return whether the configuration or a running bridge uses the existing channel."""
        return self.is_attached or any(channel.holder for channel in self.channels)


class KnownBrowser(msgspec.Struct, frozen=True, kw_only=True):
    """A browser: what files say, and what is connected."""

    title: str
    role: Role
    target: TargetReport | None = None
    profiles: tuple[ObservedBrowser, ...] = ()
    unlinked: tuple[UnlinkedHost, ...] = ()
    pid: int = 0
    """Its process; 0 if it does not run."""

    @property
    def is_startable(self) -> bool:
        """It can start our host, as far as files tell."""
        return self.target is not None and self.target.is_startable

    @property
    def name(self) -> Part:
        """Title with its directory as a value."""
        if self.target:
            return self.target.name
        proxy = next((profile.proxy for profile in self.profiles), "")
        if not proxy:
            return public_value(self.title)
        values = {
            "browser": public_value(self.title.removesuffix(proxy)),
            "proxy": Value(proxy, Privacy.REMOTE),
        }
        return Message(template="{browser}{proxy}", values=values)


def browsers_of(looked: Observations) -> list[KnownBrowser]:
    """Return the browsers of the examination, in order, then connected ones without files."""
    targets = {target.title: target for target in looked.files.targets}
    seen = _by_title(looked.seen, looked)
    unlinked = _by_title(looked.unlinked, looked)
    pids = {
        target.title: running.pid
        for running in looked.files.running
        if (target := _target_of(running, looked.files.targets))
    }
    titles = targets if looked.is_partial else dict.fromkeys([*targets, *seen, *unlinked])
    return [
        KnownBrowser(
            title=title,
            role=_role_of(title, looked, seen.get(title, ()), unlinked.get(title, ())),
            target=targets.get(title),
            profiles=tuple(seen.get(title, ())),
            unlinked=tuple(unlinked.get(title, ())),
            pid=pids.get(title, 0),
        )
        for title in titles
    ]


def _role_of(
    title: str, looked: Observations, profiles: Iterable[ObservedBrowser], unlinked: Sequence[UnlinkedHost]
) -> Role:
    """Return the role; verdict, states and levels of findings follow from it."""
    connected = list(profiles)
    if any(profile.answered_ms is not None or profile.is_channel for profile in connected):
        return "connected"
    if connected or unlinked:
        return "has the extension"
    is_removed = any(target.is_removed for target in looked.files.targets if target.title == title)
    is_missing = any(item.code == NOT_THERE and item.where.text == title for item in looked.files.findings)
    return "unused" if is_removed or is_missing else "has the extension"


def _by_title(hosts: Iterable[Host], looked: Observations) -> dict[str, list[Host]]:
    """Under the titles that the examination has for their browsers."""
    found: dict[str, list[Host]] = {}
    for host in hosts:
        found.setdefault(_title_of(host, looked), []).append(host)
    return found


def _title_of(host: LinkedHost, looked: Observations) -> str:
    """By its process; a confined browser's host is started by another one: then by kind and brand."""
    if host.proxy:
        return host.title
    if title := name_of_process(host.browser_pid, looked.files).text:
        return title
    titles = [target.title for target in looked.files.targets if target.kind == host.kind]
    if len(titles) == 1 and not looked.is_partial:
        return titles[0]
    return next((title for title in titles if host.brand and host.brand in title), host.title)


def name_of_process(pid: int, files: Report) -> Part:
    """Return the name of the browser with this process; empty if the report has none."""
    targets = (_target_of(each, files.targets) for each in files.running if each.pid == pid)
    return next((target.name for target in targets if target), NOTHING)


def _target_of(running: RunningBrowser, targets: Sequence[TargetReport]) -> TargetReport | None:
    """Return the directory that a running browser reads, by its row and command line."""
    if running.user_data_dir is not None:
        own = f"{running.user_data_dir}/"
        return next((target for target in targets if target.manifest.startswith(own)), None)
    named = (target for target in targets if target.browser == running.browser.name)
    titled = (target for target in targets if running.browser.title in target.title.split(", "))
    return next(named, None) or next(titled, None)
