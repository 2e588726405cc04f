"""Check of a remote server: connects, reads its lists, and names each cause of a failure with its remedy.

`mcpb remote add` and `mcpb remote test` use it. It imports the mcp package when it connects.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
import trio

from bridge.config.remote_settings import RemoteSettings
from bridge.links.configured_remote import find_unauthorized_remedy, make_options
from bridge.links.remote_headers import RemoteHeaders
from bridge.links.remote_problem import Cause, RemoteProblem
from bridge.state.server_record import find_own_server
from native_host.protocol.untrusted_text import quote, single_line
from native_host.system.home_layout import HomeLayout
from native_host.system.program_name import format_command

_MAX_DETAIL_CHARS = 300
_MAX_NAME_CHARS = 100
_CHECK_TIMEOUTS = 3
"""Timeouts of a request that a whole check may take: a connection takes several requests."""
BAD_ENTRY: Literal["bad-entry"] = "bad-entry"
"""Cause of a finding that is not one of the connection: an entry of a list that cannot be offered."""
NO_TOOL: Literal["no-tool"] = "no-tool"
"""Cause of a finding: a key of the server's `[[remote]]` names no tool of the server."""

_REMEDIES = {
    Cause.NO_SUCH_HOST: "Check the name in its url, and that this machine's network (or VPN) knows it.",
    Cause.REFUSED: "Start the server, or correct the host and the port in its url.",
    Cause.TLS: (
        "Correct the host in its url. If the certificate is your own, add its issuer to the system's "
        "certificate store."
    ),
    Cause.NO_TLS: "If the server has no TLS, begin its url with http:, else correct the host and the port.",
    Cause.FORBIDDEN: "Use a token that has the permission for this server.",
    Cause.NOT_MCP: "Correct the path in its url: many servers speak MCP at /mcp, older ones at /sse.",
    Cause.TOO_SLOW: "Try again. If the server needs longer, raise timeout_s of this server.",
    Cause.TOO_LARGE: "Report it to those who run the server: its messages exceed the limit.",
    Cause.REDIRECT: "If you trust the address that it leads to, write that one as its url.",
    Cause.HEADERS: "Correct the file, the variable or the program that it names, or name another one.",
    Cause.BAD_LIST: "Report it to those who run the server: its lists cannot be read to their end.",
    Cause.CLOSED: "Try again, and look into the log of the server.",
}
_BAD_ENTRY_REMEDY = "Report it to those who run the server."


class RemoteFinding(msgspec.Struct, frozen=True):
    """A reason why a server, or one of its entries, cannot be used."""

    cause: str
    """A value of `Cause`, BAD_ENTRY or NO_TOOL."""
    detail: str
    """One line without secrets. It may quote the server."""
    remedy: str


class RemoteCheck(msgspec.Struct, frozen=True, rename="camel"):
    """Outcome of the check of one server."""

    name: str
    address: str
    findings: tuple[RemoteFinding, ...] = ()
    server: str = ""
    """Name and version that the server reports: untrusted, one line."""
    revision: str = ""
    """Revision of MCP; empty: not connected."""
    transport: str = ""
    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0

    @property
    def is_connected(self) -> bool:
        """True if the server speaks MCP, whatever its entries are."""
        return bool(self.revision)


async def check_server(
    settings: RemoteSettings, home: Path, environ: Mapping[str, str], *, is_configured: bool = True
) -> RemoteCheck:
    """Connect to a server and read its lists; never raises for what the server does.

    Args:
        settings: of the server.
        home: of mcpb.
        environ: environment variables.
        is_configured: False: the server is about to be added, so remedies name options of the command.
    """
    headers = RemoteHeaders(settings, environ)
    try:
        _reject_own_server(settings.url, home)
        return await _connect(settings, headers)
    except RemoteProblem as problem:
        detail = headers.mask(problem.detail)
        remedy = _find_remedy(settings, problem.cause, is_configured=is_configured)
        finding = RemoteFinding(problem.cause.value, detail, remedy)
        return RemoteCheck(name=settings.name, address=settings.address, findings=(finding,))


def _reject_own_server(url: str, home: Path) -> None:
    if find_own_server(HomeLayout(home).state.path, url):
        raise RemoteProblem(Cause.SELF, "this is the address of mcpb serve itself")


async def _connect(settings: RemoteSettings, headers: RemoteHeaders) -> RemoteCheck:
    # It takes half a second: only a server that is checked needs it.
    from bridge.links.remote_mcp import open_remote  # noqa: PLC0415

    limit_s = _CHECK_TIMEOUTS * settings.timeout_s
    tools: list[str] = []
    options = msgspec.structs.replace(
        make_options(settings, headers, is_quiet=True),
        on_sync=lambda listed: tools.extend(tool["name"] for tool in listed),
    )
    try:
        with trio.fail_after(limit_s):
            async with open_remote(options) as server:
                state, lists = server.state, server.lists
    except trio.TooSlowError:
        raise RemoteProblem(Cause.TOO_SLOW, f"its lists were not there after {limit_s:g} s") from None
    left_out = [
        RemoteFinding(BAD_ENTRY, single_line(headers.mask(reason), _MAX_DETAIL_CHARS), _BAD_ENTRY_REMEDY)
        for reason in lists.left_out
    ]
    return RemoteCheck(
        name=settings.name,
        address=settings.address,
        findings=(*left_out, *_find_unused_names(settings, headers, tools)),
        server=headers.mask(f"{state.server_name} {state.server_version}".strip()),
        revision=state.revision,
        transport=state.transport,
        tools=len(lists.tools),
        resources=len(lists.resources),
        templates=len(lists.templates),
        prompts=len(lists.prompts),
    )


def _find_unused_names(
    settings: RemoteSettings, headers: RemoteHeaders, tools: Sequence[str]
) -> Iterator[RemoteFinding]:
    """Yield a finding for each glob or name that stands for no tool."""
    shown = single_line(headers.mask(", ".join(dict.fromkeys(tools))), _MAX_DETAIL_CHARS) or "none"
    for key in ("allow", "deny", "rename", "describe"):
        for name in getattr(settings, key):
            is_glob = key in {"allow", "deny"}
            if name not in tools and not (is_glob and any(fnmatchcase(tool, name) for tool in tools)):
                detail = f"{key}: {quote(name, _MAX_NAME_CHARS)} matches no tool of the server"
                yield RemoteFinding(
                    NO_TOOL, detail, f"Write the server's own name of a tool. It has: {shown}"
                )


def _find_remedy(settings: RemoteSettings, cause: Cause, *, is_configured: bool) -> str:
    command = shlex.join([settings.command, *settings.args])
    match cause:
        case Cause.COMMAND:
            return f"See what it reports in a terminal: {command}"
        case Cause.NOT_MCP if settings.command:
            return f"Use a program that speaks MCP on stdin and stdout. To see what it writes, run: {command}"
        case Cause.UNAUTHORIZED if is_configured:
            return find_unauthorized_remedy(settings)
        case Cause.UNAUTHORIZED:
            return _find_token_remedy(settings)
        case Cause.SELF if is_configured:
            return f"Remove it: {format_command(f'remote remove {settings.name}')}"
        case Cause.SELF:
            return "Use another server: clients of mcpb have its own tools already."
    return _REMEDIES[cause]


def _find_token_remedy(settings: RemoteSettings) -> str:
    """Return the remedy for a server that is being added."""
    if settings.token_sources:
        sources = " and ".join(settings.token_sources)
        return f"The server rejects the token of {sources}: renew or correct it."
    login = format_command(f"remote login {settings.name}")
    return (
        "If you have a token, add --bearer-file FILE, --bearer-env VARIABLE or --header-command COMMAND. "
        f"To sign in with your browser instead, add --no-check, and then run: {login}"
    )
