"""First broken link of the chain, from the registration to a tool of a page, and its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from bridge.config.settings import ChannelSettings
from bridge.hub.registry import Registry
from bridge.hub.router import Router
from native_host.system.home_layout import mcpb_home
from native_host.system.problem import Problem

DOCTOR = "mcpb doctor"
EXTENSION = "mcpb extension"
_DEMO = "mcpb demo --serve"
_NO_BROWSER = Problem(
    "No browser is connected. Start one that has the extension; one that was running when mcpb was "
    "registered connects within a minute, or at once when the extension's popup is opened. "
    f"Without the extension, run: {EXTENSION}. To find out what is wrong, run: {DOCTOR}",
    EXTENSION,
    DOCTOR,
)
_ONLY_A_CHANNEL = Problem(
    "Only the extension of Claude in Chrome is connected, which offers no page tools: they need "
    f"mcpb's own extension. To add it, run: {EXTENSION}",
    EXTENSION,
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
    registration: Callable[[], str] = lambda: "",
    channel: Callable[[], str] = lambda: "",
) -> str:
    """Return the first missing connection with the command that repairs it; empty if pages offer tools.

    Args:
        registry: connected browsers.
        links: live hosts without a connection.
        registration: checks the host manifests. It is called last: it takes about 10 ms of a bridge.
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
            f"Reload it on the browser's extensions page. If that does not help, run: {DOCTOR}",
            DOCTOR,
        )
    return Problem.combine(registration() or _NO_BROWSER, channel())


def _find_missing(router: Router, channels: Sequence[Mapping[str, Any]]) -> str:
    """Return the missing connection of a reader, which uses no holder; each channel describes itself."""
    if any(channel["holder"] for channel in channels) and not router.registry.all_browsers():
        return _ONLY_A_CHANNEL
    missing = router.connection_problem()
    return missing.first_line() if channels and isinstance(missing, Problem) else missing


def diagnose_connection(
    registry: Registry,
    links: Problems,
    settings: ChannelSettings,
    holder_problem: Callable[[Callable[[], str]], str] | None,
) -> str:
    """Return the connection problem of a running bridge: `find_connection_problem`.

    Args:
        registry: connected browsers.
        links: live native hosts that are not linked.
        settings: whether and where the existing channel is used.
        holder_problem: returns why holders of the existing channel serve no browser; it takes a function that
            looks for stopped hosts. None if the channel is not used.
    """
    channel = (
        partial(holder_problem, partial(_find_stopped_host, settings))
        if holder_problem
        else partial(_hint_at_channel, settings)
    )
    return find_connection_problem(registry, links, find_registration_problem, channel)


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


def find_registration_problem() -> str:
    """Return why no browser can start the native host, and the remedy; empty if a browser can."""
    # The checks take a tenth of a bridge's start to import, and most bridges never need them.
    from install.browsers import TableError  # noqa: PLC0415
    from install.checks.check_report import first_fault  # noqa: PLC0415
    from install.machine import this_machine  # noqa: PLC0415

    try:
        fault = first_fault(this_machine(), mcpb_home())
    except TableError as error:
        return error.problem
    if fault is None:
        return ""
    text = f"No browser can start the native host: {fault.text}."
    return Problem(f"{text} Run: {fault.command_line}", fault.command_line) if fault.command else text
