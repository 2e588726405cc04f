"""`mcpb pause`: pauses or resumes a site or an MCP client."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import click

from bridge.cli.status import wait_clients_named
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.hub.client_session import Session
    from bridge.state.pause_control import Target

T = TypeVar("T")


@click.command()
@click.argument("target", required=False)
@click.option("--resume", is_flag=True, help="Resume TARGET; asks at the terminal.")
def pause(target: str | None, *, resume: bool) -> None:
    """Pause a site or an MCP client in all browsers; without TARGET list what is paused.

    A site is a host (bank.example: all of its origins; *.bank.example: its subdomains too) or an origin
    (https://bank.example). A client is named as `mcpb status` shows it: its title or the beginning of its
    session's id.
    """
    if target is None:
        if resume:
            raise click.UsageError("Say what to resume; `mcpb pause` lists what is paused.")
        _list_paused()
        return
    if resume and _is_at_terminal():
        found = _at_hub(partial(_find_pause_target, target, is_to_resume=True))
        if not click.confirm(for_terminal(f"Resume {found}?", on=sys.stderr), err=True):
            return
    done, failed = _at_hub(partial(_set_paused, target, paused=not resume))
    click.echo(for_terminal("\n".join(done)))
    if failed:
        click.echo(for_terminal("\n".join(failed), on=sys.stderr), err=True)
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
    """
    from bridge.app import new_session, run_with_hub
    from bridge.state.pause_control import TargetError

    async def run_at_hub(hub: Hub, _session: Session) -> T | TargetError:
        await wait_clients_named(hub)
        try:
            return await job(hub)
        except TargetError as error:
            return error  # a nursery would wrap it

    outcome = run_with_hub(new_session(), run_at_hub)
    if isinstance(outcome, TargetError):
        raise click.ClickException(for_terminal(str(outcome), on=sys.stderr))
    return outcome


async def _find_pause_target(text: str, hub: Hub, *, is_to_resume: bool) -> Target:
    from bridge.state.pause_control import check_paused, find_target, live_browsers

    registry = hub.router.registry
    found = find_target(text, live_browsers(registry), registry.pauses)
    if is_to_resume:
        check_paused(registry, found)
    return found


async def _set_paused(text: str, hub: Hub, *, paused: bool) -> tuple[list[str], list[str]]:
    """Pause or resume; return the lines of what was done and of what failed."""
    from bridge.state.pause_control import affected_tabs, browser_name, live_browsers, tab_line
    from bridge.state.pause_control import change_pause as pause_in

    target = await _find_pause_target(text, hub, is_to_resume=not paused)
    browsers = live_browsers(hub.router.registry)
    answers, problem = await pause_in(hub.pauses, browsers, target, paused=paused)
    goes = "paused" if paused else "resumed"
    done = [f"{answer.browser}: {target} is {goes}." for answer in answers if not answer.error]
    failed = [f"{each.browser}: {target} is not {goes}: {each.error}" for each in answers if each.error]
    if not browsers:
        done = [f"{target} is {goes}. No browser is connected now; it applies as soon as one connects."]
    elif paused:
        tabs = [(browser_name(each), tab) for each in browsers for tab in affected_tabs(each, target)]
        lines = [f"  {browser}: {tab_line(tab)}" for browser, tab in tabs]
        done += ["Open tabs that it affects:", *lines] if lines else ["No open tab is affected."]
    return done, [*failed, problem] if problem else failed


def _list_paused() -> None:
    from bridge.state.pause_control import paused_targets

    async def read_paused(hub: Hub) -> list[str]:
        return list(map(str, paused_targets(hub.router.registry)))

    found = _at_hub(read_paused)
    click.echo(for_terminal("\n".join(found)) or "Nothing is paused.")
