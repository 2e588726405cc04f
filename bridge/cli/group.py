"""The `mcpb` command group. Each command imports its modules when it runs."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import click

from bridge import __version__
from native_host.platform_check import refuse_windows

_COMMANDS = {
    "allow": ("bridge.cli.allow:allow", "List, grant or revoke approvals of sites."),
    "audit": ("bridge.cli.audit:audit", "Show past calls."),
    "bridge": ("bridge.cli.bridge:bridge", "Serve MCP on stdin and stdout, for one client."),
    "call": ("bridge.cli.tools:call", "Call the tool NAME with KEY=VALUE arguments."),
    "demo": ("bridge.cli.demo:demo", "Run the demo in a temporary browser profile."),
    "doctor": ("bridge.cli.doctor:doctor", "Check the chain from browsers to MCP clients."),
    "extension": ("bridge.cli.extension:extension", "Copy the extension and print how to load it."),
    "install-native-host": ("install.cli:install_native_host", "Register the native host with browsers."),
    "pause": ("bridge.cli.pause:pause", "Pause a site or client in all browsers, or list pauses."),
    "prompt": ("bridge.cli.prompts:prompt", "Print the messages of the prompt NAME."),
    "prompts": ("bridge.cli.prompts:prompts", "List the prompts that MCP clients may get."),
    "proxy": ("bridge.cli.proxy:proxy", "Connect browsers and MCP clients on different machines."),
    "read": ("bridge.cli.resources:read", "Read the resource URI, to stdout or a file."),
    "remote": ("bridge.cli.remote:remote", "Add, list, remove or test remote MCP servers."),
    "resources": ("bridge.cli.resources:resources", "List the resources that MCP clients may read."),
    "serve": ("bridge.cli.serve:serve", "Serve MCP over HTTP, for clients with a URL."),
    "session": ("bridge.cli.sessions:session", "List or end the sessions of `mcpb call --session NAME`."),
    "skill": ("bridge.cli.skill:skill", "Print or install SKILL.md, for an agent with a shell."),
    "status": ("bridge.cli.status:status", "Show connections, calls and problems."),
    "tools": ("bridge.cli.tools:tools", "List the tools that MCP clients may call."),
    "uninstall-native-host": (
        "install.cli:uninstall_native_host",
        "Remove the registration of the native host.",
    ),
    "webmcp": ("bridge.cli.webmcp:webmcp", "Copy the module for pages with an MCP server's tools."),
}
"""Module of each command, and the line that `mcpb --help` shows without importing it."""

_SPEAKING_OF_REGISTRATION = {"install-native-host", "uninstall-native-host", "doctor"}
"""Commands that report or change the registration: no automatic repair precedes them."""


class _Commands(click.Group):
    """Commands by name, imported when they are called."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; a full disk or a missing file descriptor is reported in one line."""
        try:
            return super().main(*args, **extra)
        except (OSError, BaseExceptionGroup) as error:
            from native_host.system.exhaustion import describe_exhaustion, find_exhaustion

            if (exhausted := find_exhaustion(error)) is None:
                raise
            click.echo(f"Error: {describe_exhaustion(exhausted)}", err=True)
            _discard_output()
            sys.exit(1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing:  # a shell completes a line
            return super().resolve_command(ctx, args)
        refuse_windows()  # before a command is imported: some could not be
        _open_descriptors()
        _reject_relative_home()
        self._refuse_unknown(ctx, args[0])
        found = super().resolve_command(ctx, args)
        _mend_registration(found[0], args)
        _warn_of_foreign_home(found[0])
        return found

    def _refuse_unknown(self, ctx: click.Context, name: str) -> None:
        """Fail with the close names of an unknown command."""
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return
        from difflib import get_close_matches  # only an unknown command needs it

        close = [command for command in known if command.startswith(name)] or get_close_matches(name, known)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        ctx.fail(f"No such command {name!r}.{hint}")

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from native_host.system.program_name import command_path

        super().format_help_text(ctx, formatter)
        # Unwrapped, and with the whole path: clients that a desktop starts have another PATH.
        command = f"claude mcp add --scope user browser -- {command_path()} bridge --name browser"
        formatter.write(f"\n  {command}\n")

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


def _mend_registration(command: str | None, args: Iterable[str]) -> None:
    if command in _SPEAKING_OF_REGISTRATION or {"-h", "--help"}.intersection(args):
        return
    from install.wrapper_repair import repair_wrapper

    if mended := repair_wrapper():
        click.echo(mended, err=True)


def _reject_relative_home() -> None:
    """Fail if each directory would have another home: host and bridge would not find each other."""
    from native_host.system.home_layout import relative_home

    if home := relative_home():
        raise click.UsageError(f"MCPB_HOME is {home!r}, a relative path: set it to an absolute one")


def _warn_of_foreign_home(command: str | None) -> None:
    """Log that HOME of another user is ignored. Commands of the registration reject or report it."""
    from native_host.system.home_layout import foreign_home, user_home  # Windows has no password database

    if command in _SPEAKING_OF_REGISTRATION or not (home := foreign_home()):
        return
    import logging

    logging.getLogger(__name__).warning("ignored HOME %s of another user, used %s", home, user_home())


def _open_descriptors() -> None:
    """See that 0 to 2 are taken: else the log or the store would get one, and in it what is written there."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest one that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _discard_output() -> None:
    """Discard what stdout does not take, or Python would report it again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if not is_given or ctx.resilient_parsing:
        return
    if ctx.params.get("as_json"):
        click.echo(format_json({"version": __version__, "python": sys.executable}))
    else:
        click.echo(f"mcpb {__version__}, MCP bridge for browsers (not the MCP Bundles tool)")
    ctx.exit()


@click.group("mcpb", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.option("--json", "as_json", is_flag=True, is_eager=True, help="With --version: as JSON.")
def main(*, as_json: bool) -> None:
    """Connect the browser that you already use to MCP clients.

    Give a client the command `mcpb bridge`; for instance:
    """
    if as_json:
        from native_host.system.program_name import format_command

        command = format_command("status --json")
        raise click.UsageError(f"--json needs --version, or goes behind a command: {command}")


def _use_proxy(_ctx: click.Context, _option: click.Parameter, url: str | None) -> None:
    """Let this process and those that it starts use one proxy."""
    if url is None:
        return
    from bridge.links.browsers.proxy_address import ProxyAddressError, read_address

    try:
        os.environ["MCPB_PROXY_URL"] = read_address(url).url
    except ProxyAddressError as error:
        raise click.BadParameter(str(error)) from None


proxy_option = click.option(
    "--proxy",
    metavar="URL",
    expose_value=False,
    callback=_use_proxy,
    help="Use browsers at this WebSocket proxy, and at no other one.",
)
existing_channel_option = click.option(
    "--existing-channel", is_flag=True, help="Also use the tools of Claude in Chrome."
)


def format_json(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2)
