"""`mcpb pause`: pauses or resumes a site or an MCP client."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bridge.cli.group import format_json
from bridge.cli.status import wait_clients_named
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.hub.client_session import Session
    from bridge.state.pause_control import Answer, Target
    from native_host.protocol import wire

T = TypeVar("T")


@dataclass(frozen=True)
class _Change:
    """A pause or its end, and the response of each browser with the open tabs that a pause affects."""

    target: Target
    paused: bool
    """The user's wish: True pauses, False resumes."""
    was_paused: bool
    answers: list[tuple[Answer, list[wire.Tab]]]
    problem: str
    """Reason why it is not stored for browsers that connect later, or empty."""

    @property
    def is_made(self) -> bool:
        """Return whether it holds: it is stored, or a connected browser has made it."""
        return not self.problem or any(not answer.error for answer, _ in self.answers)

    def as_json(self) -> dict[str, Any]:
        """Return the document of `--json`."""
        return {
            "target": asdict(self.target),
            "paused": self.paused if self.is_made else self.was_paused,
            "browsers": [
                {
                    "browser": answer.browser,
                    "error": answer.error,
                    "tabs": [{"origin": tab.origin, "tab": tab.ordinal, "title": tab.title} for tab in tabs],
                }
                for answer, tabs in self.answers
            ],
            "problem": self.problem,
        }


@click.command()
@click.argument("target", required=False)
@click.option("--resume", is_flag=True, help="Resume TARGET; asks at the terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/TROUBLESHOOTING.md).")
def pause(target: str | None, *, resume: bool, as_json: bool) -> None:
    """Pause a site or an MCP client in all browsers; without TARGET list what is paused.

    A site is a host (bank.example: all of its origins; *.bank.example: its subdomains too) or an origin
    (https://bank.example). A client is named as `mcpb status` shows it: its title or the beginning of its
    session's id.
    """
    if target is None:
        if resume:
            from native_host.system.program_name import format_command

            raise click.UsageError(f"Name what to resume; `{format_command('pause')}` lists what is paused.")
        paused, problem = _at_hub(_list_paused)
        if as_json:
            listed = format_json({"paused": list(map(asdict, paused)), "problem": problem})
        else:
            listed = "\n".join(map(str, paused)) or ("" if problem else "Nothing is paused.")
        _print_outcome(listed, problem)
        return
    if not target.strip():
        raise click.BadParameter("name a site or a client.", param_hint="TARGET")
    if resume and _is_at_terminal():
        found = _at_hub(partial(_find_pause_target, target, is_to_resume=True))
        if not click.confirm(for_terminal(f"Resume {found}?", on=sys.stderr), err=True):
            return
    change = _at_hub(partial(_set_paused, target, paused=not resume))
    done = format_json(change.as_json()) if as_json else "\n".join(_change_lines(change))
    _print_outcome(done, "\n".join(_failure_lines(change)))


def _print_outcome(text: str, failure: str) -> None:
    """Print what was done or found, and end with 1 if something failed."""
    if text:
        click.echo(for_terminal(text))
    if failure:
        click.echo(for_terminal(failure, on=sys.stderr), err=True)
        sys.exit(1)


def _is_at_terminal() -> bool:
    """Return whether a user at a terminal can confirm.

    Raises:
        ClickException: a confirmation is required, and there is no terminal.
    """
    from bridge.app import load_configuration

    if sys.stdin.isatty() and sys.stderr.isatty():
        return True
    if load_configuration().browser.resume == "any":
        return False
    raise click.ClickException(
        "stdin or stderr is not a terminal: resume in the mcpb popup, or run this command in a terminal."
    )


def _at_hub(job: Callable[[Hub], Awaitable[T]]) -> T:
    """Run a job of `mcpb pause` once all clients are known.

    Raises:
        ClickException: the job cannot tell what is meant.
        BadParameter: what the user wrote can be no target.
    """
    from bridge.app import new_session, run_with_hub
    from bridge.state.pause_control import TargetError, TargetSyntaxError

    async def run_at_hub(hub: Hub, _session: Session) -> T | TargetError:
        await wait_clients_named(hub)
        try:
            return await job(hub)
        except TargetError as error:
            return error  # a nursery would wrap it

    outcome = run_with_hub(new_session(), run_at_hub, reports_pauses=True)
    if isinstance(outcome, TargetSyntaxError):
        raise click.BadParameter(for_terminal(str(outcome), on=sys.stderr), param_hint="TARGET")
    if isinstance(outcome, TargetError):
        raise click.ClickException(for_terminal(str(outcome), on=sys.stderr))
    return outcome


async def _find_pause_target(text: str, hub: Hub, *, is_to_resume: bool) -> Target:
    from bridge.state.pause_control import TargetError, check_paused, find_target, live_browsers

    registry = hub.router.registry
    found = find_target(text, live_browsers(registry), registry.pauses)
    if is_to_resume:
        try:
            check_paused(registry, found)
        except TargetError as error:
            # A file that cannot be read does not show that nothing is paused.
            raise TargetError(hub.pauses.problem or str(error)) from None
    return found


async def _set_paused(text: str, hub: Hub, *, paused: bool) -> _Change:
    """Pause or resume in all browsers."""
    from bridge.state.pause_control import affected_tabs, change_pause, live_browsers, paused_targets

    target = await _find_pause_target(text, hub, is_to_resume=not paused)
    browsers = live_browsers(hub.router.registry)
    was_paused = target in paused_targets(hub.router.registry)
    answers, problem = await change_pause(hub.pauses, browsers, target, paused=paused)
    tabs = [affected_tabs(browser, target) if paused else [] for browser in browsers]
    return _Change(target, paused, was_paused, list(zip(answers, tabs, strict=True)), problem)


def _change_lines(change: _Change) -> Iterator[str]:
    from bridge.state.pause_control import tab_line

    goes = "paused" if change.paused else "resumed"
    if not change.is_made:
        return
    if not change.answers:
        yield f"{change.target} is {goes}. No browser is connected now; it applies as soon as one connects."
        return
    for answer, _ in change.answers:
        if not answer.error:
            yield f"{answer.browser}: {change.target} is {goes}."
    if change.paused:
        lines = [f"  {answer.browser}: {tab_line(tab)}" for answer, tabs in change.answers for tab in tabs]
        yield from ["Open tabs that it affects:", *lines] if lines else ["No open tab is affected."]


def _failure_lines(change: _Change) -> Iterator[str]:
    goes = "paused" if change.paused else "resumed"
    for answer, _ in change.answers:
        if answer.error:
            yield f"{answer.browser}: {change.target} is not {goes}: {answer.error}"
    if change.problem:
        where = " in browsers that connect later" if change.is_made else ""
        yield f"{change.target} is not {goes}{where}: {change.problem}"


async def _list_paused(hub: Hub) -> tuple[list[Target], str]:
    """Return what is paused, and the reason for which pauses may be missing, or empty."""
    from bridge.state.pause_control import paused_targets

    return paused_targets(hub.router.registry), hub.pauses.problem
