"""Existing channel in the text output of `mcpb status` and `mcpb doctor`. Sans-IO."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from bridge.cli.columns import Columns
from bridge.diagnostics.remote_status import format_offers, format_remote
from bridge.state import audit_rows
from bridge.state.pause_control import short_id
from native_host.existing_channel.channel_messages import BRAND
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS
from native_host.system.program_name import format_command


def whose_and_used(channel: Mapping[str, Any]) -> str:
    """Format a channel's product, the browser that started it, and its use. `channel` is a JSON `Channel`."""
    profile = f" with {channel['userDataDir']}" if channel["userDataDir"] else ""
    by = f", started by {channel['browser']} (pid {channel['browserPid']}){profile}"
    return f"{channel['title']}{by if channel['browser'] else ''}: {channel['use']}"


def where_and_who(channel: Mapping[str, Any]) -> str:
    """Its socket, its program and who is connected, as far as the system says; empty for one without any."""
    return ", ".join(_format_facts(channel))


def put_there_by_us(socket: Mapping[str, Any]) -> str:
    """Format a socket that mcpb published. `socket` is a `published_channel.Standing` in JSON."""
    by = "left by a killed mcpb serve; the next one removes it"
    if not socket["isLeft"]:
        by = f"mcpb serve, pid {socket['pid']}"
    return f"Socket for programs made for {BRAND}: {socket['path']} ({by})"


def _format_facts(channel: Mapping[str, Any]) -> Iterator[str]:
    if channel["path"]:
        yield channel["path"]
    if channel["program"] and not channel["isTheirs"]:
        yield f"program {channel['program']}"
    if channel["connections"]:
        count = channel["connections"]
        clients = [_format_client(client, channel["holder"]) for client in channel["clients"]]
        yield f"{count} connection{'' if count == 1 else 's'}{f': {_join_names(clients)}' if clients else ''}"


def _format_client(client: Mapping[str, Any], holder: int) -> str:
    name = "mcpb" if client["pid"] == holder else PurePath(client["program"]).name or "a program"
    return f"{name} (pid {client['pid']})"


def _join_names(names: list[str]) -> str:
    return " and ".join(names)


def as_text(found: Mapping[str, Any], width: int = 0, *, is_detailed: bool = False) -> Iterator[str]:
    """Yield the status as text, line by line; `width` is the terminal's, 0 without a terminal."""
    yield found["verdict"]
    yield from _problem_lines(found)
    if is_detailed:
        yield f"mcpb {found['version']}, {found['browserTools']} browser tools"
    for browser in found["browsers"]:
        yield ""
        yield from _browser_lines(browser, width, is_detailed=is_detailed)
    for channel in found["channels"]:
        yield ""
        yield from _channel_lines(channel, width)
    if found["published"]:
        yield ""
        yield from map(put_there_by_us, found["published"])
    if found["servers"]:
        yield ""
        yield from map(_server_line, found["servers"])
    if found["remote"]:
        yield ""
        yield f"Remote servers (to check one: {format_command('remote test NAME')})"
        yield from Columns([32, 12], width, "  ").format_lines(
            (server["name"], server["state"], format_remote(server)) for server in found["remote"]
        )
    if found["namedSessions"]:
        yield ""
        yield f"Sessions of mcpb call (to end one: {format_command('session end NAME')})"
        yield from format_sessions(found["namedSessions"], width, "  ")
    yield from _site_lines(found, width)
    for heading, key in (
        (f"Recent calls (more: {format_command('audit')})", "calls"),
        ("Requests of pages and servers", "pageRequests"),
    ):
        if found[key]:
            yield ""
            yield heading
            yield from Columns(audit_rows.LIMITS, width, "  ").format_lines(
                map(audit_rows.format_row, found[key])
            )


def _site_lines(found: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield what sites offer, also without a tab."""
    if found["sites"]:
        yield ""
        yield "What sites offer"
        yield from Columns([MAX_ORIGIN_CHARS], width, "  ").format_lines(
            (site["origin"], format_offers(site)) for site in found["sites"]
        )
    if found["kept"]:
        yield ""
        yield "Tools without a tab (a call opens one)"
        yield from (f"  {tool['name']} · {tool['origin']}" for tool in found["kept"])


def _problem_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems and notes that the verdict does not have, and where details are."""
    for problem in (*(other["text"] for other in found["otherRules"]), *found["problems"]):
        if problem != found["obstacle"]:
            yield f"problem: {problem}"
    for note in found["notes"]:
        yield f"note: {' → '.join(filter(None, [note['text'], note['command']]))}"
    yield from (line for line in found["missing"].splitlines() if line not in found["verdict"])
    if not found["ready"]:
        yield f"Details: {format_command('doctor')}"


def _server_line(server: Mapping[str, Any]) -> str:
    needs = 'no token needed (auth = "same-user")' if server["auth"] == "same-user" else "needs a token"
    count = server["clients"]
    clients = "" if count is None else f" · {count} client{'' if count == 1 else 's'}"
    exposed = " · other machines can reach it, and nothing is encrypted" if server["exposed"] else ""
    return f"mcpb serve  {server['url']} · pid {server['pid']}{clients} · {needs}{exposed}"


def format_sessions(sessions: Iterable[Mapping[str, Any]], width: int, indent: str = "") -> Iterator[str]:
    """Format named sessions, each a `Greeting` in JSON: name, use and process."""
    rows = ((session["name"], _format_use(session), f"pid {session['pid']}") for session in sessions)
    yield from Columns([32, 80], width, indent).format_lines(rows)


def _format_use(session: Mapping[str, Any]) -> str:
    if not session["answers"]:
        command = format_command(f"session end {session['name']}")
        return f"does not answer; to stop it: {command}"
    if session["usedAt"] is None:
        return "a call runs"
    used, ends = (time.strftime("%H:%M", time.localtime(session[key])) for key in ("usedAt", "endsAt"))
    return f"last used at {used}, ends at {ends} unless it is used"


def _browser_lines(browser: Mapping[str, Any], width: int, *, is_detailed: bool) -> Iterator[str]:
    label = f" “{browser['label']}”" if browser["label"] else ""
    gone = "" if browser["live"] else " (went away just now)"
    at = f" at the WebSocket proxy {browser['proxy']}" if browser["proxy"] else ""
    yield f"{browser['brand']} {browser['version']}".rstrip() + f"{label}{at}{gone}"
    if browser["isChannel"] or is_detailed:
        yield from _detail_lines(browser, is_detailed=is_detailed)
    tabs = [(f"{tab['origin']} · tab {tab['tab']}", _tab_words(tab)) for tab in browser["tabs"]]
    for tab, line in zip(
        browser["tabs"], Columns([MAX_ORIGIN_CHARS], width, "  ").format_lines(tabs), strict=True
    ):
        yield line
        yield from (f"    {name}" for name in tab["tools"])
        yield from (f"    note: {notice}" for notice in tab["notices"])
        if is_detailed:
            yield from map(_format_page_server, tab["servers"])
    yield "  clients:" if browser["sessions"] else "  clients: none"
    yield from _client_lines(browser["sessions"], width)
    if browser["pausedSites"]:
        yield f"  paused: {', '.join(browser['pausedSites'])}"


def _detail_lines(browser: Mapping[str, Any], *, is_detailed: bool) -> Iterator[str]:
    extension = "Claude in Chrome" if browser["isChannel"] else f"extension {browser['extension']}"
    if not is_detailed:
        yield f"  {extension}"
        return
    yield f"  profile {browser['profile']}, {extension}"
    yield f"  {_format_host(browser)}"
    yield f"  can: {', '.join(browser['capabilities']) or 'nothing'}"
    if trouble := browser["trouble"]:
        count = trouble["attempts"]
        yield f"  last failed connection: {trouble['at']} ({count} in a row): {trouble['reason']}"
    if browser["dropped"]:
        counts = (f"{why} {count}" for why, count in sorted(browser["dropped"].items()))
        yield f"  dropped messages: {', '.join(counts)}"


def _format_host(browser: Mapping[str, Any]) -> str:
    if browser["proxy"]:
        return f"WebSocket proxy {browser['hostVersion']} ({browser['host']})"
    return f"native host {browser['hostVersion']} ({browser['host']}), started by process {browser['pid']}"


def _format_page_server(server: Mapping[str, Any]) -> str:
    capabilities = ", ".join(server["capabilities"]) or "no capabilities"
    return f"    page server {server['name']} {server['version']}".rstrip() + f": {capabilities}"


def _channel_lines(channel: Mapping[str, Any], width: int) -> Iterator[str]:
    yield whose_and_used(channel)
    if facts := where_and_who(channel):
        yield f"  {facts}"
    if channel["sessions"]:
        yield "  clients:"
        yield from _client_lines(channel["sessions"], width)


def _client_lines(sessions: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    clients = [
        (
            f"{session['title']} {session['version']}".rstrip(),
            f"pid {session['pid']}",
            f"session {short_id(session['id'])}",
            "paused" if session["paused"] else "",
        )
        for session in sessions
    ]
    for session, line in zip(
        sessions, Columns([60, 12, 16], width, "    ").format_lines(clients), strict=True
    ):
        yield line
        yield from (f"      subscribed to {uri}" for uri in session["subscriptions"])


def _tab_words(tab: Mapping[str, Any]) -> str:
    """Its title, and what stands out about it."""
    owner = f"of {tab['owner']['title']}" if tab["owner"] else ""
    marks = {"Active": tab["active"], owner: owner, "handed over": tab["handedOver"], "paused": tab["paused"]}
    return " • ".join([f"“{tab['title']}”", *(mark for mark, is_so in marks.items() if is_so)])
