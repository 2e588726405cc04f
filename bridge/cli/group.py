"""The `mcpb` command: text and exit codes. What it starts is imported when it is started."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing, suppress
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bridge import __version__
from native_host.platform_check import refuse_windows
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.app import Hub
    from bridge.config.settings import ChannelSettings
    from bridge.hub.client_session import Session
    from bridge.state.pause_control import Target
    from install.browsers import Kind
    from native_host.protocol.wire import Progress

_ELSEWHERE = {
    "allow": ("bridge.cli.allow:allow", "List, grant or revoke approvals of sites."),
    "audit": ("bridge.cli.audit:audit", "Show which tools were called."),
    "doctor": ("bridge.diagnostics.observation:doctor", "Find out what is wrong, and what mends it."),
    "install-native-host": (
        "install.cli:install_native_host",
        "Register the native host with browsers.",
    ),
    "serve": ("bridge.cli.serve:serve", "Speak MCP over HTTP (for clients that want a URL)."),
    "uninstall-native-host": ("install.cli:uninstall_native_host", "Undo install-native-host."),
}
"""Commands of other files: where, and the line that `mcpb --help` shows without importing them."""

_SPEAKING_OF_REGISTRATION = {"install-native-host", "uninstall-native-host", "doctor"}
"""They show what is wrong with the registration, or change it: it is not mended before."""

_HELP_CHARS = 90
"""For the first sentence about a command in `mcpb --help`."""
_RECENT_CALLS = 5
"""In `mcpb status`."""
_MAX_PROGRESS = 200
"""Characters of a progress message of `mcpb call`."""
_WATCH_S = 0.5
_CLIENTS_S = 1.0

T = TypeVar("T")


class _Commands(click.Group):
    """Commands by name, those from elsewhere imported when they are called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing:  # a shell completes a line
            return super().resolve_command(ctx, args)
        refuse_windows()  # before a command is imported: some could not be
        _open_descriptors()
        self._refuse_unknown(ctx, args[0])
        found = super().resolve_command(ctx, args)
        _mend_registration(found[0], args)
        return found

    def _refuse_unknown(self, ctx: click.Context, name: str) -> None:
        """Click would look for close names among the commands of this file alone."""
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return
        close = [command for command in known if command.startswith(name)] or get_close_matches(name, known)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        ctx.fail(f"No such command {name!r}.{hint}")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _ELSEWHERE[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._help(ctx, name)) for name in self.list_commands(ctx)])

    def _help(self, ctx: click.Context, name: str) -> str:
        if name in _ELSEWHERE:
            return _ELSEWHERE[name][1]
        command = super().get_command(ctx, name)
        return command.get_short_help_str(_HELP_CHARS) if command else ""


def _mend_registration(command: str | None, args: Iterable[str]) -> None:
    if command in _SPEAKING_OF_REGISTRATION or {"-h", "--help"}.intersection(args):
        return
    from install.wrapper_repair import mend

    if mended := mend():
        click.echo(mended, err=True)


def _open_descriptors() -> None:
    """See that 0 to 2 are taken: else the log or the store would get one, and in it what is written there."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest one that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


@click.group("mcpb", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, message="mcpb %(version)s, MCP bridge for browsers (not the MCP Bundles tool)"
)
def main() -> None:
    """The browser you already use, for every MCP client.

    Give a client the command `mcpb bridge`; for instance: claude mcp add browser -- mcpb bridge
    """


_existing_channel = click.option(
    "--existing-channel", is_flag=True, help="Also use Claude in Chrome, where its own host runs."
)


@main.command()
@_existing_channel
def bridge(*, existing_channel: bool) -> None:
    """Speak MCP on stdin and stdout (for MCP clients)."""
    if closed := [name for name in ("stdin", "stdout") if getattr(sys, name) is None]:
        click.echo(f"mcpb bridge ends: there is no client, as its {' and '.join(closed)} is closed", err=True)
        return
    gc.disable()  # imports leave nothing to collect, and looking for it takes a twentieth of the start
    from bridge.app import serve_stdio

    gc.freeze()  # what was imported stays: no later collection has to walk through it
    gc.enable()
    if sys.stdin.isatty():
        click.echo(
            "mcpb bridge waits for an MCP client on stdin. For people: mcpb tools, mcpb call", err=True
        )
    serve_stdio(existing_channel=existing_channel)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For scripts; with --watch one line for each change.")
@click.option("--watch", "-w", "is_watching", is_flag=True, help="Show each change until Ctrl-C.")
@click.option("--web", "is_web", is_flag=True, help="Open the status page of `mcpb serve` in a browser.")
@click.option("--no-open", "is_link_shown", is_flag=True, help="With --web: only print the link to it.")
def status(*, as_json: bool, is_watching: bool, is_web: bool, is_link_shown: bool) -> None:
    """Show what is connected, what is called, and what is missing."""
    if is_web or is_link_shown:
        if as_json or is_watching or not is_web:
            raise click.UsageError("--no-open goes with --web, and --web with nothing else.")
        _show_web_page(opens=not is_link_shown)
        return
    import trio

    from bridge.app import configuration_to_look, new_session, run_with_hub
    from bridge.config.loader import rules_digest
    from bridge.diagnostics.status_snapshot import Rules
    from bridge.diagnostics.status_snapshot import status as read_status

    config, _ = configuration_to_look()

    async def watch(hub: Hub, _session: Session) -> BrokenPipeError | None:
        last: Any = None
        await _hear_of_clients(hub)
        while True:
            current, problem = configuration_to_look()
            rules = Rules("" if problem else rules_digest(current), problem, hub.pauses.problem)
            channels = _channels(config.existing_channel)
            found = read_status(
                hub.router, hub.links, _recent_calls(), channels, _published(), _servers(), rules
            )
            if (now := (found, get_terminal_size())) != last:
                try:
                    _show_status(found, as_json=as_json, is_watching=is_watching)
                except BrokenPipeError as error:
                    return error
                last = now
            if not is_watching:
                return None
            await trio.sleep(_WATCH_S)

    if error := run_with_hub(new_session(), watch, config=config):
        raise error  # the reader has gone: click ends quietly, where a nursery's group would be a traceback


def _show_web_page(*, opens: bool) -> None:
    from bridge.app import configuration
    from bridge.cli.status_page import show_page
    from native_host.system.home_layout import mcpb_home

    show_page(mcpb_home() / "state", configuration().http, opens=opens)


def _recent_calls() -> list[dict[str, Any]]:
    from bridge.state.audit_reader import Filter, recent
    from native_host.system.home_layout import mcpb_home

    with suppress(OSError):  # `mcpb audit` says what is wrong with it
        return recent(mcpb_home() / "state", _RECENT_CALLS, Filter())
    return []


def _channels(settings: ChannelSettings) -> list[dict[str, Any]]:
    """Another product's."""
    import msgspec

    from install.browsers import TableError
    from install.checks.existing_channel import channels_here
    from install.machine import this_machine
    from native_host.system.home_layout import mcpb_home

    with suppress(TableError):  # `mcpb doctor` says what is wrong with it
        found = channels_here(this_machine(), mcpb_home(), settings.only_directory, settings.attach)
        return [msgspec.to_builtins(channel) for channel in found]
    return []


def _published() -> list[dict[str, Any]]:
    """Sockets of ours among that product's."""
    import msgspec

    from native_host.existing_channel.published_socket import standing
    from native_host.system.home_layout import mcpb_home

    return [msgspec.to_builtins(each) for each in standing(mcpb_home() / "state")]


def _servers() -> list[dict[str, Any]]:
    """The `mcpb serve` that run, the latest first."""
    import msgspec

    from bridge.state.server_record import all_running
    from native_host.system.home_layout import mcpb_home

    return [msgspec.to_builtins(record) for record in all_running(mcpb_home() / "state")]


def _show_status(found: dict[str, Any], *, as_json: bool, is_watching: bool) -> None:
    from bridge.diagnostics.status_snapshot import as_text

    if as_json:
        click.echo(for_terminal(json.dumps(found, ensure_ascii=False) if is_watching else _pretty(found)))
        return
    if not sys.stdout.isatty():
        click.echo("\n".join([*as_text(found), ""] if is_watching else as_text(found)))
        return
    size = get_terminal_size()
    lines = [for_terminal(line) for line in as_text(found, size.columns)]
    if is_watching:
        click.clear()
        lines = _first_lines(lines, size.lines - 1)
    click.echo("\n".join(lines))


def _first_lines(lines: list[str], count: int) -> list[str]:
    if len(lines) <= count:
        return lines
    return [*lines[: count - 1], f"… {len(lines) - count + 1} more lines: mcpb status"]


@main.command()
@click.argument("target", required=False)
@click.option("--resume", is_flag=True, help="Resume it; asks on a terminal.")
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
    """Return whether a user can be asked, who has to be unless the configuration lets any program resume.

    Raises:
        ClickException: nobody can be asked.
    """
    from bridge.app import configuration

    if sys.stdin.isatty() and sys.stderr.isatty():
        return True
    if configuration().browser.resume == "any":
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

    async def run(hub: Hub, _session: Session) -> T | TargetError:
        await _hear_of_clients(hub)
        try:
            return await job(hub)
        except TargetError as error:
            return error  # a nursery would wrap it

    outcome = run_with_hub(new_session(), run)
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
    from bridge.state.pause_control import affected_tabs, called, live_browsers, tab_line
    from bridge.state.pause_control import pause as pause_in

    target = await _find_pause_target(text, hub, is_to_resume=not paused)
    browsers = live_browsers(hub.router.registry)
    answers, problem = await pause_in(hub.pauses, browsers, target, paused=paused)
    goes = "paused" if paused else "resumed"
    done = [f"{answer.browser}: {target} is {goes}." for answer in answers if not answer.error]
    failed = [f"{each.browser}: {target} is not {goes}: {each.error}" for each in answers if each.error]
    if not browsers:
        done = [f"{target} is {goes}. No browser is connected now; one that connects is told."]
    elif paused:
        tabs = [(called(each), tab) for each in browsers for tab in affected_tabs(each, target)]
        lines = [f"  {browser}: {tab_line(tab)}" for browser, tab in tabs]
        done += ["Open tabs that it affects:", *lines] if lines else ["No open tab is affected."]
    return done, [*failed, problem] if problem else failed


def _list_paused() -> None:
    from bridge.state.pause_control import paused_targets

    async def read(hub: Hub) -> list[str]:
        return list(map(str, paused_targets(hub.router.registry)))

    found = _at_hub(read)
    click.echo(for_terminal("\n".join(found)) or "Nothing is paused.")


async def _hear_of_clients(hub: Hub) -> None:
    """Until each host has said who is connected to it, which it does after its replay: we are among them."""
    import trio

    from bridge.state.pause_control import live_browsers

    await hub.router.news.wait_until(
        lambda: all(browser.clients for browser in live_browsers(hub.router.registry)),
        until=trio.current_time() + _CLIENTS_S,
    )


@main.command()
@click.option("--json", "as_json", is_flag=True, help="The tools as MCP sees them.")
@click.option("--forget", metavar="ORIGIN", help="Instead forget the tools that were kept of a site.")
@_existing_channel
def tools(*, as_json: bool, forget: str | None, existing_channel: bool) -> None:
    """List the tools that MCP clients may call."""
    if forget is not None:
        _forget(forget)
        return
    from bridge.app import new_session, run_with_hub

    async def read(hub: Hub, session: Session) -> tuple[list[dict[str, Any]], str]:
        return await hub.router.tools(session), hub.router.whats_missing()

    found, missing = run_with_hub(new_session(), read, existing_channel=existing_channel)
    if as_json:
        click.echo(for_terminal(_pretty({"tools": found})))
        return
    for tool in found:
        click.echo(f"{click.style(tool['name'], bold=True)}{for_terminal(_parameters(tool))}")
        click.echo(f"    {for_terminal(_first_line(tool['description']))}")
    if missing:
        click.echo(f"\n{for_terminal(missing, on=sys.stderr)}", err=True)


def _forget(origin: str) -> None:
    from bridge.state.tool_cache import SqliteToolStore, StoreError
    from native_host.system.home_layout import mcpb_home

    with closing(SqliteToolStore(mcpb_home() / "state")) as store:
        try:
            count = store.forget(origin)
        except StoreError as error:
            raise click.ClickException(for_terminal(str(error), on=sys.stderr)) from None
    tools = f"{count} tool{'' if count == 1 else 's'}"
    click.echo(for_terminal(f"Forgot {tools} of {origin}." if count else f"Nothing was kept of {origin}."))
    if count:
        click.echo("A page of it that is open may let its tools be kept again.")


@main.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="All arguments as one JSON object.")
@click.option("--json", "as_json", is_flag=True, help="The whole result as JSON.")
@_existing_channel
def call(
    name: str, arguments: tuple[str, ...], args_json: str | None, *, as_json: bool, existing_channel: bool
) -> None:
    """Call the tool NAME, with KEY=VALUE for each argument.

    Numbers, lists and the like are JSON: quantity=2, sizes='["S", "M"]'.

    Each call is a session of its own, and tabs that it opens are nobody's afterwards. Several steps go into
    one call of browser_batch:

    \b
    mcpb call browser_batch actions='[{"name": "navigate", "input": {…}}, …]'
    """
    from bridge.app import new_session, run_with_hub
    from bridge.errors import UnknownToolError
    from bridge.hub.argument_validation import Arguments
    from bridge.hub.transport import Caller

    given = _read_object(args_json)
    pairs = [_read_pair(pair) for pair in arguments]

    async def run(hub: Hub, session: Session) -> bytes | str:
        listed = {tool["name"]: tool for tool in await hub.router.tools(session)}
        schemas = _argument_schemas(listed.get(name))
        given.update((key, _value(text, schemas.get(key))) for key, text in pairs)
        try:
            return await hub.router.call(session, name, Arguments.of(given), Caller(_show_progress))
        except UnknownToolError:
            return _not_offered(name, listed, hub.router.whats_missing())

    answer = run_with_hub(new_session("call"), run, existing_channel=existing_channel)
    if isinstance(answer, str):
        raise click.ClickException(for_terminal(answer, on=sys.stderr))
    result = json.loads(answer)
    click.echo(for_terminal(_pretty(result) if as_json else _as_text(result)))
    if isinstance(result, dict) and result.get("isError") is True:
        sys.exit(1)


@main.command()
@click.option("--serve", "is_serving", is_flag=True, help="Only serve its page, for your own browser.")
@click.pass_context
def demo(ctx: click.Context, *, is_serving: bool) -> None:
    """Show the whole chain at work, in a throw-away browser profile."""
    if is_serving:
        from demo.serve import main as serve

        ctx.exit(serve())
    from demo.run import main as run_demo

    ctx.exit(run_demo())


_LOAD_IN_CHROMIUM = """\
To load it: open chrome://extensions, switch on “Developer mode”, choose “Load unpacked” and that
folder."""
_LOAD_IN_FIREFOX = """\
To load it: open about:debugging#/runtime/this-firefox, choose “Load Temporary Add-on…” and the file
manifest.json in that folder.
Firefox forgets a temporary add-on when it is closed: load it again after each start. One that stays has to
be signed by Mozilla, except in Firefox ESR, Developer Edition and Nightly: there set
xpinstall.signatures.required to false in about:config, run `mcpb extension --firefox --zip mcpb.xpi`, and
open that file with the browser."""


@main.command()
@click.option("--firefox", "is_firefox", is_flag=True, help="The extension for Firefox and its forks.")
@click.option(
    "--zip",
    "zip_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead write it as a zip: for a store, or for Firefox as an .xpi.",
)
@click.pass_context
def extension(ctx: click.Context, *, is_firefox: bool, zip_file: Path | None) -> None:
    """Copy the browser extension to where it can stay, and say how to load it."""
    from install.extension_files import UnpackedError, pack, unpack
    from install.wrapper_repair import registered_interpreter
    from native_host.system.home_layout import mcpb_home

    kind: Kind = "firefox" if is_firefox else "chromium"
    try:
        if zip_file is not None:
            pack(zip_file, kind)
            click.echo(f"The extension is in {zip_file}")
            return
        target = unpack(mcpb_home(), kind)
    except UnpackedError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"The extension is in {target}\n{_LOAD_IN_FIREFOX if is_firefox else _LOAD_IN_CHROMIUM}")
    if not registered_interpreter():
        called = ctx.find_root().info_name  # where another `mcpb` comes first, it is mcpb-bridge
        click.echo(f"Then run: {called} install-native-host")


def _read_object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise click.UsageError(f"--args is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise click.UsageError('--args must be a JSON object, for instance \'{"item": "tea"}\'')
    return found


def _read_pair(pair: str) -> tuple[str, str]:
    key, equals, text = pair.partition("=")
    if not equals:
        raise click.UsageError(f"{pair!r} is not KEY=VALUE")
    return key, text


def _value(text: str, schema: Any) -> Any:
    """JSON where it is JSON, else the text; always the text where the tool wants one."""
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _argument_schemas(tool: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The schema of each argument, as far as the tool says."""
    properties = tool["inputSchema"].get("properties") if tool else None
    return properties if isinstance(properties, dict) else {}


def _parameters(tool: Mapping[str, Any]) -> str:
    """What a tool takes, for instance ` item= [quantity=]`."""
    required = tool["inputSchema"].get("required")
    needed = required if isinstance(required, list) else []
    names = ((" ".join(name.split()), name in needed) for name in _argument_schemas(tool))
    return "".join(f" {name}=" if is_needed else f" [{name}=]" for name, is_needed in names)


def _show_progress(progress: Progress) -> None:
    """Write the message to stderr: where the user is asked, and what pages report."""
    from native_host.protocol.untrusted_text import single_line

    if message := single_line(progress.message, _MAX_PROGRESS):
        # The call goes on when the reader of stderr has gone.
        with suppress(OSError):
            click.echo(message, err=True)


def _not_offered(name: str, listed: Iterable[str], missing: str) -> str:
    """A name that nobody offers: the names that are close to it, or why there are none at all."""
    names = list(listed)
    close = [known for known in names if known.endswith(f"_{name}")] or get_close_matches(name, names)
    hint = f"Close to it: {', '.join(close)}. " if close else ""
    return f"No page offers {name!r}. {missing or hint + 'To see what there is, run: mcpb tools'}"


def _as_text(result: Any) -> str:
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return _pretty(result)
    return "\n".join(_block_text(block) for block in content)


def _block_text(block: Any) -> str:
    if isinstance(block, dict) and block.get("type") == "text":
        return str(block.get("text", ""))
    return _pretty(block)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
