"""First broken link of the chain, from the registration to a tool of a page, and its remedy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from bridge.config.settings import ChannelSettings
from bridge.hub.registry import Registry
from bridge.hub.router import Router
from native_host.system.home_layout import mcpb_home
from native_host.system.problem import Problem
from native_host.system.program_name import format_command

_DOCTOR = format_command("doctor")
_EXTENSION = format_command("extension")
_DEMO = format_command("demo --serve")
_NO_BROWSER = Problem(f"No browser is connected. To find out why, run: {_DOCTOR}", _DOCTOR)
_EXAMINATION_S = 1.0
"""Seconds for which the result of an examination holds; one takes some 20 ms."""
_ONLY_A_CHANNEL = Problem(
    "Only the extension of Claude in Chrome is connected, which offers no page tools: they need "
    f"mcpb's own extension. To add it, run: {_EXTENSION}",
    _EXTENSION,
)


class LinkProblem(Protocol):
    """Reason why a live host is not connected, or a directory not scanned."""

    @property
    def text(self) -> str:
        """A sentence."""
        ...


class Problems(Protocol):
    """Problems of live hosts: `NativeLinks` has them."""

    @property
    def problems(self) -> Mapping[str, LinkProblem]:
        """By host or directory."""
        ...


def find_connection_problem(
    registry: Registry,
    links: Problems,
    files: Callable[[], str] = lambda: "",
    channel: Callable[[], str] = lambda: "",
) -> str:
    """Return the first missing connection with the command that repairs it; empty if pages offer tools.

    Args:
        registry: connected browsers.
        links: live hosts without a connection.
        files: explains it by files and processes. It is called last: it takes some 20 ms.
        channel: describes the existing channel, on a line of its own.
    """
    if any(True for _ in registry.offers()):
        return ""
    browsers = registry.browsers()
    if browsers and all(browser.is_channel for browser in browsers):
        return _ONLY_A_CHANNEL
    if browsers:
        count = len(browsers)
        connected = f"{count} browser{'s' if count > 1 else ''} connected, but no open page offers a tool. "
        if any(browser.hello and not browser.hello.sites_allowed for browser in browsers):
            return (
                f"{connected}The extension is kept out of some or all sites: let it in with the button in "
                "its popup, then reload the pages that are open."
            )
        return Problem(f"{connected}Open a page that does; `{_DEMO}` serves one.", _DEMO)
    if texts := [problem.text for problem in links.problems.values()]:
        return texts[0]
    if any(browser.is_live for browser in registry.all_browsers()):
        return Problem(
            "A native host is running, but the extension behind it has not introduced itself. "
            f"Reload it on the browser's extensions page. If that does not help, run: {_DOCTOR}",
            _DOCTOR,
        )
    return Problem.combine(files() or _NO_BROWSER, channel())


def find_missing(router: Router, channels: Sequence[Mapping[str, Any]]) -> str:
    """Return the missing connection of a reader, which uses no holder; each channel describes itself."""
    if any(channel["holder"] for channel in channels) and not router.registry.all_browsers():
        return _ONLY_A_CHANNEL
    missing = router.connection_problem()
    return missing.first_line() if channels and isinstance(missing, Problem) else missing


class ConnectionDiagnosis:
    """Connection problems of a running bridge. Files and processes are examined at most once per second."""

    def __init__(
        self,
        links: Problems,
        settings: ChannelSettings,
        holder_problem: Callable[[Callable[[], str]], str] | None,
    ) -> None:
        """Diagnose the links of a bridge.

        Args:
            links: live native hosts that are not linked.
            settings: whether and where the existing channel is used.
            holder_problem: returns why holders of the existing channel serve no browser; it takes a function
                that looks for stopped hosts. None if the channel is not used.
        """
        self._links = links
        self._explain_channel = (
            partial(holder_problem, partial(_find_stopped_host, settings))
            if holder_problem
            else partial(_hint_at_channel, settings)
        )
        self._explained = ""
        self._expires_at = 0.0

    def find_problem(self, registry: Registry) -> str:
        """Return the connection problem: `find_connection_problem`."""
        return find_connection_problem(registry, self._links, self._explain_files, self._explain_channel)

    def _explain_files(self) -> str:
        now = time.monotonic()
        if now >= self._expires_at:
            self._explained = explain_files()
            self._expires_at = now + _EXAMINATION_S
        return self._explained


def _hint_at_channel(settings: ChannelSettings) -> str:
    from install.checks.existing_channel import USE_CHANNEL, describe_channel  # noqa: PLC0415

    return Problem(describe_channel(settings.only_directory), USE_CHANNEL)


def _find_stopped_host(settings: ChannelSettings) -> str:
    from install.browsers import TableError  # noqa: PLC0415
    from install.checks.existing_channel import stopped_host  # noqa: PLC0415
    from install.machine import this_machine  # noqa: PLC0415

    with suppress(TableError):  # `mcpb doctor` says what is wrong with it
        return stopped_host(this_machine(), mcpb_home(), settings.only_directory)
    return ""


def explain_files() -> str:
    """Return why no browser is connected, according to files and processes, and the remedy."""
    # The checks take a tenth of a bridge's start to import, and most bridges never need them.
    from bridge.diagnostics.browser_matching import Observations  # noqa: PLC0415
    from bridge.diagnostics.report import explain_disconnection  # noqa: PLC0415
    from install.browsers import TableError  # noqa: PLC0415
    from install.checks.check_report import examine  # noqa: PLC0415
    from install.checks.running_browsers import hosts_started_by  # noqa: PLC0415
    from install.machine import this_machine  # noqa: PLC0415

    machine = this_machine()
    try:
        files = examine(machine, mcpb_home())
    except TableError as error:
        return error.problem
    started = hosts_started_by(machine, [browser.pid for browser in files.running])
    hosts = {browser: host for host, browser in started.items()}
    return explain_disconnection(Observations(files=files, hosts=hosts))
