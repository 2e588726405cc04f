"""What `mcpb status` shows: the chain from the host manifest to a page's tool, and where it ends. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import msgspec

from bridge import __version__
from bridge.cli.columns import Columns
from bridge.cli.status_output import put_there_by_us, where_and_who, whose_and_used
from bridge.hub.catalog import Catalog
from bridge.hub.catalog_entries import CachedEntry, Entry
from bridge.hub.registry import Browser, Registry
from bridge.hub.router import Router
from bridge.hub.rules.pauses import Pauses
from bridge.hub.tool_search import search
from bridge.state import audit_rows
from bridge.state.audit_log import moment
from bridge.state.pause_control import short_id, title_of
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    format_description,
    single_line,
)

_MAX_SCHEMA_BYTES = 16 * 1024
"""Of a longer one the parameters are not told."""
_MAX_PARAMETERS, _MAX_VALUES, _MAX_RUNNING = 30, 12, 20

EXTENSION = "mcpb extension"
DOCTOR = "mcpb doctor"

_NO_BROWSER = (
    "No browser is connected. Start one that has the extension; one that was running when mcpb was "
    "registered connects within a minute, or at once when the extension's popup is opened. "
    f"Without the extension, run: {EXTENSION}. To find out what is wrong, run: {DOCTOR}"
)

_ONLY_A_CHANNEL = (
    "Only another product's extension is connected, and no tools of pages come through that: they need "
    f"mcpb's own extension. To add it, run: {EXTENSION}"
)


class _Schema(msgspec.Struct):
    properties: dict[str, Any] = {}
    required: list[Any] = []


class Problem(Protocol):
    """Why a live host is not linked, or a directory not looked into."""

    @property
    def text(self) -> str:
        """A sentence."""
        ...


class Rules(NamedTuple):
    """What config.toml says now."""

    digest: str
    """`bridge.config.loader.rules_digest`; empty when the file cannot be used."""
    problem: str
    """Why it cannot be used; empty when it can."""
    pauses_problem: str = ""
    """The same of pauses.json."""


class Problems(Protocol):
    """What went wrong with hosts that live: `NativeLinks` has it."""

    @property
    def problems(self) -> Mapping[str, Problem]:
        """By host or directory."""
        ...


def status(
    router: Router,
    links: Problems,
    calls: Sequence[Mapping[str, Any]] = (),
    channels: Sequence[Mapping[str, Any]] = (),
    published: Sequence[Mapping[str, Any]] = (),
    servers: Sequence[Mapping[str, Any]] = (),
    rules: Rules | None = None,
) -> dict[str, Any]:
    """Everything, for `--json`.

    Args:
        router: what is connected.
        links: what of it is not, though it lives.
        calls: the latest lines of the audit log.
        channels: another product's, each a `install.checks.existing_channel.Channel`. The process of ours
        that
            holds one is no browser.
        published: sockets of ours among its own, each a
        `native_host.existing_channel.published_socket.Standing`.
        servers: the `mcpb serve` that run, each a `bridge.state.server_record.ServeRecord`.
        rules: those of config.toml.
    """
    registry = router.registry
    held = {channel["holder"] for channel in channels}
    of_holders = {
        browser.host_hello.pid: browser
        for browser in registry.browsers()
        if browser.host_hello and browser.host_hello.pid in held
    }
    return {
        "version": __version__,
        "browsers": [
            _browser(browser, registry, router.catalog)
            for browser in registry.browsers()
            if browser not in of_holders.values()
        ],
        "channels": [
            _channel(channel, of_holders.get(channel["holder"]), registry.pauses) for channel in channels
        ],
        "published": list(published),
        "servers": [{key: server[key] for key in ("pid", "url", "auth")} for server in servers],
        "kept": list(_kept(router.catalog)),
        "waiting": [browser.host for browser in registry.links() if browser.is_live and not browser.hello],
        "calls": list(calls),
        "problems": [*_config_problems(rules), *(problem.text for problem in links.problems.values())],
        "otherRules": list(_other_rules(registry, rules)),
        "missing": _missing(router, channels),
    }


def _config_problems(rules: Rules | None) -> Iterator[str]:
    if rules and rules.pauses_problem:
        yield rules.pauses_problem
    if rules and rules.problem:
        yield f"{rules.problem}. Clients that run keep the rules that they had; new ones do not start"


def _other_rules(registry: Registry, rules: Rules | None) -> Iterator[dict[str, Any]]:
    """The processes that apply other rules than config.toml has, each once."""
    if rules is None or not rules.digest:
        return
    clients = {client.pid: client for browser in registry.browsers() for client in browser.clients}
    for pid, client in sorted(clients.items()):
        if client.sessions and client.rules != rules.digest:
            titles = ", ".join(map(title_of, client.sessions[:_MAX_RUNNING]))
            why = "its environment sets others, or it has not read the file yet"
            if not client.rules:
                why = f"it is mcpb {single_line(client.version, 20)}, which does not tell its rules"
            text = f"{titles} (pid {pid}) runs with other rules than config.toml: {why}. Restart it"
            yield {"pid": pid, "text": text}


def tools(catalog: Catalog, query: str, most: int) -> tuple[dict[str, dict[str, Any]], int]:
    """The tools that may be called and fit a query (empty: all): at most so many in full, by their public
    names, and how many there are."""
    entries = catalog.entries()
    fitting = list(chain.from_iterable(search(entries, query))) if query.strip() else entries
    return {entry.name: _tool(entry) for entry in fitting[:most]}, len(fitting)


def running(router: Router, now: float, time: float) -> list[dict[str, Any]]:
    """The calls of this process that are on their way, the oldest first, as lines of the audit log have them.

    `now` is of the router's clock, `time` the same moment in seconds since the epoch.
    """
    return [
        {
            "at": moment(time - (now - call.began)),
            "event": "running",
            "client": {"name": call.session.client.name},
            "origin": call.site.origin,
            "tab": call.site.ordinal,
            "name": call.name,
            "tool": call.own_name,
        }
        for call in router.running()[:_MAX_RUNNING]
    ]


def whats_missing(
    registry: Registry,
    links: Problems,
    registration: Callable[[], str] = lambda: "",
    channel: Callable[[], str] = lambda: "",
) -> str:
    """The first missing link of the chain and the command that mends it; empty when pages offer tools.

    Args:
        registry: what is connected.
        links: what of it is not, though it lives.
        registration: looks what is wrong with the host manifests, if anything is. It is asked last: looking
            takes about 10 ms of a bridge.
        channel: says what to know of another product's channel, where anything is; it has a line of its own.
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
        return f"{connected}Open a page that does; `mcpb demo --serve` serves one."
    if texts := [problem.text for problem in links.problems.values()]:
        return texts[0]
    if any(browser.is_live for browser in registry.links()):
        return (
            "A native host is running, but the extension behind it has not introduced itself. "
            f"Reload it on the browser's extensions page. If that does not help, run: {DOCTOR}"
        )
    return "\n".join(filter(None, [registration() or _NO_BROWSER, channel()]))


def as_text(found: Mapping[str, Any], width: int = 0) -> Iterator[str]:
    """The same for people, line by line; `width` is the terminal's, 0 where there is none."""
    yield f"mcpb {found['version']}"
    for browser in found["browsers"]:
        yield ""
        yield from _browser_lines(browser, width)
    for channel in found["channels"]:
        yield ""
        yield from _channel_lines(channel, width)
    if found["published"]:
        yield ""
        yield from map(put_there_by_us, found["published"])
    if found["servers"]:
        yield ""
        yield from map(_server_line, found["servers"])
    if found["kept"]:
        yield ""
        yield "Tools without a tab (a call opens one)"
        yield from (f"  {tool['name']} · {tool['origin']}" for tool in found["kept"])
    if found["calls"]:
        yield ""
        yield "Recent calls (more: mcpb audit)"
        yield from Columns(audit_rows.LIMITS, width, "  ").lines(map(audit_rows.row, found["calls"]))
    yield from _problem_lines(found)


def _problem_lines(found: Mapping[str, Any]) -> Iterator[str]:
    for problem in (*(other["text"] for other in found["otherRules"]), *found["problems"]):
        yield f"problem: {problem}"
    if found["missing"]:
        yield ""
        yield from found["missing"].splitlines()
        if DOCTOR not in found["missing"]:
            yield f"To look at each link of the chain, run: {DOCTOR}"


def _server_line(server: Mapping[str, Any]) -> str:
    admitted = 'every program of your user (auth = "same-user")' if server["auth"] == "same-user" else ""
    return f"mcpb serve  {server['url']} · pid {server['pid']} · admits {admitted or 'clients with a token'}"


def _browser_lines(browser: Mapping[str, Any], width: int) -> Iterator[str]:
    label = f" “{browser['label']}”" if browser["label"] else ""
    gone = "" if browser["live"] else " (went away just now)"
    yield f"{browser['brand']} {browser['version']}".rstrip() + f"{label}{gone}"
    extension = "another product's extension" if browser["isChannel"] else f"extension {browser['extension']}"
    yield f"  profile {browser['profile']}, {extension}, host {browser['host']}"
    tabs = [(f"{tab['origin']} · tab {tab['tab']}", _tab_words(tab)) for tab in browser["tabs"]]
    for tab, line in zip(browser["tabs"], Columns([MAX_ORIGIN_CHARS], width, "  ").lines(tabs), strict=True):
        yield line
        yield from (f"    {name}" for name in tab["tools"])
        yield from (f"    note: {notice}" for notice in tab["notices"])
    yield "  clients:" if browser["sessions"] else "  clients: none"
    yield from _client_lines(browser["sessions"], width)
    if browser["pausedSites"]:
        yield f"  paused: {', '.join(browser['pausedSites'])}"


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
    yield from Columns([60, 12, 16], width, "    ").lines(clients)


def _tab_words(tab: Mapping[str, Any]) -> str:
    """Its title, and what stands out about it."""
    owner = f"of {tab['owner']['title']}" if tab["owner"] else ""
    marks = {"Active": tab["active"], owner: owner, "handed over": tab["handedOver"], "paused": tab["paused"]}
    return " • ".join([f"“{tab['title']}”", *(mark for mark, is_so in marks.items() if is_so)])


def _missing(router: Router, channels: Sequence[Mapping[str, Any]]) -> str:
    """Who only looks is not linked to the holder of a channel; and each channel says itself what helps."""
    if any(channel["holder"] for channel in channels) and not router.registry.links():
        return _ONLY_A_CHANNEL
    missing = router.whats_missing()
    return missing.partition("\n")[0] if channels else missing


def _browser(browser: Browser, registry: Registry, catalog: Catalog) -> dict[str, Any]:
    hello = browser.hello
    assert hello is not None, "only browsers that have introduced themselves are listed"
    sessions = list(_sessions(browser, registry.pauses))
    return {
        "brand": single_line(hello.browser.brand, MAX_TITLE_CHARS),
        "version": single_line(hello.browser.version, MAX_TITLE_CHARS),
        "platform": hello.browser.platform,
        "profile": hello.profile.id,
        "label": single_line(hello.profile.label, MAX_TITLE_CHARS),
        "extension": hello.extension.version,
        "isChannel": browser.is_channel,
        "host": browser.host,
        "pid": browser.pid,
        "live": browser.is_live,
        "clients": [session["title"] for session in sessions],
        "sessions": sessions,
        "pausedSites": [single_line(site, MAX_ORIGIN_CHARS) for site in registry.pauses.sites],
        "tabs": list(_tabs(browser, registry, catalog)),
    }


def _channel(channel: Mapping[str, Any], browser: Browser | None, pauses: Pauses) -> dict[str, Any]:
    """With its MCP clients, where the process that holds it is linked."""
    return {**channel, "sessions": list(_sessions(browser, pauses)) if browser else []}


def _sessions(browser: Browser, pauses: Pauses) -> Iterator[dict[str, Any]]:
    """The MCP clients. A command that only looks, as this one, names no session and is not one of them."""
    for client in browser.clients:
        for session in client.sessions:
            yield {
                "id": session.id,
                "title": title_of(session),
                "version": single_line(session.client.version, 20),
                "pid": client.pid,
                "paused": session.id in pauses.sessions,
            }


def _tabs(browser: Browser, registry: Registry, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """The tabs that offer something, say what was left out, or are a session's or handed over."""
    tools: dict[int, list[str]] = defaultdict(list)
    notices: dict[int, list[str]] = defaultdict(list)
    forbidden: dict[int, list[str]] = defaultdict(list)
    for entry in catalog.live():
        if entry.offer.browser is browser:
            where = forbidden if entry.refusal else tools
            where[entry.offer.tab_id].append(entry.refusal or entry.name)
    for tab_id, refusals in forbidden.items():
        count = f"{len(refusals)} tool{'s are' if len(refusals) > 1 else ' is'} not offered"
        notices[tab_id].append(f"{count}, by config.toml: {refusals[0]}")
    for its_browser, tab, frame in registry.frames():
        if its_browser is browser and frame.announced.notice:
            notices[tab.tab_id].append(single_line(frame.announced.notice, MAX_NOTICE_CHARS))
    titles = {session.id: title_of(session) for client in browser.clients for session in client.sessions}
    for tab in sorted(browser.tabs.values(), key=lambda tab: (tab.origin, tab.ordinal)):
        is_somebodys = not tab.incognito and (tab.owner is not None or tab.handed_over)
        if is_somebodys or tab.tab_id in tools or tab.tab_id in notices:
            yield {
                "origin": single_line(tab.origin, MAX_ORIGIN_CHARS),
                "tab": tab.ordinal,
                "tabId": tab.tab_id,
                "title": single_line(tab.title, MAX_TITLE_CHARS),
                "active": tab.active and tab.focused,
                "owner": _owner(tab.owner, titles),
                "handedOver": tab.handed_over,
                "paused": bool(pattern := registry.pauses.pattern_of(tab.origin)),
                "pausedBy": pattern,
                "tools": tools[tab.tab_id],
                "notices": notices[tab.tab_id],
            }


def _kept(catalog: Catalog) -> Iterator[dict[str, str]]:
    for entry in catalog.entries():
        if isinstance(entry, CachedEntry):
            origin = single_line(entry.origin, MAX_ORIGIN_CHARS)
            yield {"name": entry.name, "origin": origin, "profile": entry.profile}


def _tool(entry: Entry) -> dict[str, Any]:
    return {
        "tool": single_line(entry.own_name, MAX_TITLE_CHARS),
        "title": single_line(entry.title, MAX_TITLE_CHARS),
        "description": format_description(entry.page_words),
        "origin": single_line(entry.origin, MAX_ORIGIN_CHARS),
        "readOnly": entry.tool.is_read_only,
        "parameters": list(_parameters(entry.input_schema)),
    }


def _parameters(schema: bytes) -> Iterator[dict[str, Any]]:
    """Those that the schema names at its top. Pages write schemas: they may be of any shape and length."""
    if len(schema) > _MAX_SCHEMA_BYTES:
        return
    try:
        found = msgspec.json.decode(schema, type=_Schema)
    except (msgspec.DecodeError, RecursionError):
        return
    for name, given in islice(found.properties.items(), _MAX_PARAMETERS):
        parameter = given if isinstance(given, dict) else {}
        yield {
            "name": single_line(name, MAX_TITLE_CHARS),
            "type": single_line(_type(parameter), MAX_TITLE_CHARS),
            "required": name in found.required,
            "description": single_line(str(parameter.get("description") or ""), MAX_NOTICE_CHARS),
        }


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"enum": [*values]}:
            return " | ".join(str(value) for value in values[:_MAX_VALUES])
        case {"type": [*types]}:
            return " | ".join(str(each) for each in types[:_MAX_VALUES])
        case {"type": str(one)}:
            return one
    return ""


def _owner(session_id: str | None, titles: Mapping[str, str]) -> dict[str, str] | None:
    if session_id is None:
        return None
    return {"session": session_id, "title": titles.get(session_id) or f"session {short_id(session_id)}"}
