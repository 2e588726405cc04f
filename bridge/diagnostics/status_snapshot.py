"""Snapshot of `mcpb status`: the chain from the host manifest to page tools, and its end. Sans-IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from bridge import __version__
from bridge.diagnostics.connection_problem import Problems, find_missing
from bridge.diagnostics.status_verdict import find_obstacle, list_notes, make_verdict
from bridge.hub.catalog_entries import CachedEntry, Entry
from bridge.hub.consent.page_tool_consent import PageToolConsent
from bridge.hub.primitives.page_documents import PageDocument
from bridge.hub.registry import Browser, Registry
from bridge.hub.router import Router
from bridge.hub.rules.pauses import Pauses
from bridge.hub.tool_search import search_entries
from bridge.state.audit_log import format_time
from bridge.state.pause_control import short_id, title_of
from install.browsers import Kind
from native_host.protocol import wire
from native_host.protocol.untrusted_text import (
    MAX_NOTICE_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_TITLE_CHARS,
    format_description,
    single_line,
)
from native_host.system.problem import Problem

_MAX_SCHEMA_BYTES = 16 * 1024
"""Bytes of a schema whose parameters are listed."""
_MAX_PARAMETERS, _MAX_VALUES, _MAX_RUNNING = 30, 12, 20


class _Schema(msgspec.Struct):
    properties: dict[str, Any] = {}
    required: list[Any] = []


class Rules(NamedTuple):
    """Content of config.toml."""

    digest: str
    """`bridge.config.loader.rules_digest`; empty when the file cannot be used."""
    problem: str
    """Reason why it is unusable; empty if it is valid."""
    pauses_problem: str = ""


class LocalState(NamedTuple):
    """State of this machine that no browser reports."""

    calls: Sequence[Mapping[str, Any]] = ()
    """The latest lines of the audit log about calls of clients."""
    channels: Sequence[Mapping[str, Any]] = ()
    """Sockets of the existing channel, each a `install.checks.existing_channel.Channel`."""
    published: Sequence[Mapping[str, Any]] = ()
    """Published sockets, each a `native_host.existing_channel.published_socket.PublishedSocket`."""
    servers: Sequence[Mapping[str, Any]] = ()
    """Running `mcpb serve`, each a `bridge.state.server_record.ServeRecord`."""
    sessions: Sequence[Mapping[str, Any]] = ()
    """Open named sessions, each a `native_host.ipc.named_sessions.Greeting`."""
    rules: Rules | None = None
    current_copies: Container[Kind] = ()
    """See `Observations.current_copies`."""
    page_requests: Sequence[Mapping[str, Any]] = ()
    """The latest lines of the audit log about requests of pages (`audit_reader.LatestCalls`)."""
    remote: Sequence[Mapping[str, Any]] = ()
    """Configured remote servers, as `remote_status.describe_remote` describes them."""


def make_status(router: Router, links: Problems, local: LocalState = LocalState()) -> dict[str, Any]:  # noqa: B008
    """Return everything for `--json`; `links` has the live hosts without a connection."""
    registry = router.registry
    held = {channel["holder"] for channel in local.channels}
    of_holders = {
        browser.host_hello.pid: browser
        for browser in registry.browsers()
        if browser.host_hello and browser.host_hello.pid in held
    }
    found: dict[str, Any] = {
        "version": __version__,
        "browserTools": router.count_browser_tools(),
        "browsers": [
            _describe_browser(browser, router)
            for browser in registry.browsers()
            if browser not in of_holders.values()
        ],
        "channels": [
            _describe_channel(channel, of_holders.get(channel["holder"]), registry.pauses)
            for channel in local.channels
        ],
        "published": list(local.published),
        "servers": [_describe_server(server, registry) for server in local.servers],
        "remote": list(local.remote),
        "namedSessions": list(local.sessions),
        "kept": list(_describe_cached(router)),
        "sites": list(_describe_sites(router)),
        "waiting": [
            browser.host for browser in registry.all_browsers() if browser.is_live and not browser.hello
        ],
        "calls": list(local.calls),
        "pageRequests": list(local.page_requests),
        "problems": [*_config_problems(local.rules), *(problem.text for problem in links.problems.values())],
        "otherRules": list(_other_rules(registry, local.rules)),
        "notes": list_notes(router, local.current_copies),
    }
    found["missing"] = "" if _has_tools(found) else find_missing(router, local.channels)
    found["obstacle"] = find_obstacle(found, _config_problem(local.rules))
    found["ready"] = not found["obstacle"]
    found["verdict"] = make_verdict(found)
    return found


def _has_tools(found: Mapping[str, Any]) -> bool:
    """Return whether a browser with mcpb's own extension is connected, and clients can use it."""
    own = [browser for browser in found["browsers"] if browser["live"] and not browser["isChannel"]]
    return bool(own) and bool(found["browserTools"] or any(browser["tabs"] for browser in own))


def _describe_server(server: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """Describe a running `mcpb serve`; browsers report its clients, whose number is None without one."""
    browsers = registry.browsers()
    clients = [
        client for browser in browsers[:1] for client in browser.clients if client.pid == server["pid"]
    ]
    count = sum(len(client.sessions) for client in clients) if browsers else None
    known = {key: server[key] for key in ("pid", "url", "auth")}
    return {**known, "exposed": server["is_exposed"], "clients": count}


def _config_problems(rules: Rules | None) -> Iterator[str]:
    if rules and rules.pauses_problem:
        yield rules.pauses_problem
    if problem := _config_problem(rules):
        yield problem


def _config_problem(rules: Rules | None) -> str:
    if rules is None or not rules.problem:
        return ""
    effect = "Clients that run keep the rules that they had; new ones do not start"
    return Problem.compose("{}. {}", rules.problem, effect)


def _other_rules(registry: Registry, rules: Rules | None) -> Iterator[dict[str, Any]]:
    """Yield the processes whose rules differ from config.toml, each once."""
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


def find_tools(router: Router, query: str, most: int) -> tuple[dict[str, dict[str, Any]], int]:
    """Return at most `most` callable tools that match a query, by public name, and their total."""
    entries = [entry for entry in router.catalog.all_entries() if not router.consent.refusal(entry)]
    fitting = list(chain.from_iterable(search_entries(entries, query))) if query.strip() else entries
    return {entry.name: _describe_tool(entry) for entry in fitting[:most]}, len(fitting)


def running_calls(router: Router, now: float, time: float) -> list[dict[str, Any]]:
    """Return the running calls of this process, the oldest first, as lines of the audit log.

    `now` is of the router's clock, `time` the same moment in seconds since the epoch.
    """
    return [
        {
            "at": format_time(time - (now - call.began)),
            "event": "running",
            "client": {"name": call.session.client.name},
            "origin": call.site.origin,
            "tab": call.site.ordinal,
            "name": call.name,
            "tool": call.own_name,
        }
        for call in router.running_calls()[:_MAX_RUNNING]
    ]


def _describe_browser(browser: Browser, router: Router) -> dict[str, Any]:
    hello, registry = browser.hello, router.registry
    assert hello is not None, "only browsers that have introduced themselves are listed"
    sessions = list(_describe_sessions(browser, registry.pauses))
    return {
        "brand": single_line(hello.browser.brand, MAX_TITLE_CHARS),
        "version": single_line(hello.browser.version, MAX_TITLE_CHARS),
        "platform": hello.browser.platform,
        "profile": hello.profile.id,
        "label": single_line(hello.profile.label, MAX_TITLE_CHARS),
        "extension": hello.extension.version,
        "isChannel": browser.is_channel,
        "capabilities": sorted(single_line(name, MAX_TITLE_CHARS) for name in hello.capabilities.commands),
        "host": browser.host,
        "proxy": browser.proxy,
        "hostVersion": single_line(browser.host_hello.version, MAX_TITLE_CHARS) if browser.host_hello else "",
        "dropped": dict(browser.dropped),
        "trouble": _describe_trouble(hello.trouble),
        "exits": _describe_exits(hello.exits),
        "pid": browser.pid,
        "live": browser.is_live,
        "clients": [session["title"] for session in sessions],
        "sessions": sessions,
        "pausedSites": [single_line(site, MAX_ORIGIN_CHARS) for site in registry.pauses.sites],
        "tabs": list(_describe_tabs(browser, router)),
    }


def _describe_trouble(trouble: wire.Trouble | None) -> dict[str, Any] | None:
    """Describe the last failed or ended connection of the extension."""
    if trouble is None:
        return None
    reason = single_line(trouble.reason, MAX_NOTICE_CHARS)
    return {"attempts": trouble.attempts, "reason": reason, "at": format_time(trouble.at / 1000)}


def _describe_exits(exits: wire.HostExits | None) -> dict[str, Any] | None:
    """Describe how often the native host of a browser has exited."""
    if exits is None:
        return None
    reason = single_line(exits.reason, MAX_NOTICE_CHARS)
    return {"count": exits.count, "reason": reason, "at": format_time(exits.at / 1000)}


def _describe_page_server(frame: wire.FrameTools) -> Iterator[dict[str, Any]]:
    """Yield the MCP server of a page frame as it describes itself, if it does."""
    about = frame.server_info
    if about is not None:
        yield {
            "name": single_line(str(about.get("name", "")), MAX_TITLE_CHARS),
            "version": single_line(str(about.get("version", "")), MAX_TITLE_CHARS),
            "capabilities": [
                single_line(name, MAX_TITLE_CHARS) for name in islice(frame.capabilities or {}, 20)
            ],
        }


def _describe_channel(channel: Mapping[str, Any], browser: Browser | None, pauses: Pauses) -> dict[str, Any]:
    """With its MCP clients, where the process that holds it is linked."""
    return {**channel, "sessions": list(_describe_sessions(browser, pauses)) if browser else []}


def _describe_sessions(browser: Browser, pauses: Pauses) -> Iterator[dict[str, Any]]:
    """Yield the MCP clients. A command that only reads names no session."""
    for client in browser.clients:
        for session in client.sessions:
            yield {
                "id": session.id,
                "title": title_of(session),
                "version": single_line(session.client.version, 20),
                "pid": client.pid,
                "paused": session.id in pauses.sessions,
                "subscriptions": [single_line(uri, MAX_ORIGIN_CHARS) for uri in session.subscriptions],
            }


class Offers(msgspec.Struct):
    """Number of entries of each kind that clients may use."""

    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0

    def add(self, document: PageDocument, consent: PageToolConsent) -> None:
        """Count the resources, templates and prompts of a document."""
        if document.refusal or consent.is_off(document):
            return
        if consent.uses("resources"):
            self.resources += len(document.frame.resources)
            self.templates += len(document.frame.templates)
        if consent.uses("prompts"):
            self.prompts += len(document.frame.prompts)


def _describe_sites(router: Router) -> Iterator[dict[str, Any]]:
    """Yield what each site offers in all its tabs and frames, by origin."""
    offers: dict[str, Offers] = defaultdict(Offers)
    for entry in router.catalog.live_entries():
        offers[entry.origin].tools += not _explain_refusal(entry, router)
    for document in router.documents.documents():
        offers[document.origin].add(document, router.consent)
    for origin, offer in sorted(offers.items()):
        if offer != Offers():
            yield {"origin": single_line(origin, MAX_ORIGIN_CHARS), **msgspec.to_builtins(offer)}


def _describe_tabs(browser: Browser, router: Router) -> Iterator[dict[str, Any]]:
    """Yield the tabs that offer anything, have notices, are owned or handed over."""
    registry, catalog = router.registry, router.catalog
    find_tools: dict[int, list[str]] = defaultdict(list)
    notices: dict[int, list[str]] = defaultdict(list)
    forbidden: dict[int, list[str]] = defaultdict(list)
    for entry in catalog.live_entries():
        if entry.offer.browser is browser:
            refusal = _explain_refusal(entry, router)
            where = forbidden if refusal else find_tools
            where[entry.offer.tab_id].append(refusal or entry.name)
    for tab_id, refusals in forbidden.items():
        count = f"{len(refusals)} tool{'s are' if len(refusals) > 1 else ' is'} not offered"
        notices[tab_id].append(f"{count}{refusals[0]}")
    for its_browser, tab, frame in registry.frames():
        if its_browser is browser and frame.announced.notice:
            notices[tab.tab_id].append(single_line(frame.announced.notice, MAX_NOTICE_CHARS))
    servers: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for its_browser, tab, frame in registry.frames():
        if its_browser is browser:
            servers[tab.tab_id] += _describe_page_server(frame.announced)
    offers = _count_offers(browser, router)
    titles = {session.id: title_of(session) for client in browser.clients for session in client.sessions}
    for tab in sorted(browser.tabs.values(), key=lambda tab: (tab.origin, tab.ordinal)):
        is_somebodys = not tab.incognito and (tab.owner is not None or tab.handed_over)
        offer = offers[tab.tab_id]
        if is_somebodys or offer != Offers() or tab.tab_id in find_tools or tab.tab_id in notices:
            yield {
                "origin": single_line(tab.origin, MAX_ORIGIN_CHARS),
                "tab": tab.ordinal,
                "tabId": tab.tab_id,
                "title": single_line(tab.title, MAX_TITLE_CHARS),
                "active": tab.active and tab.focused,
                "owner": _describe_owner(tab.owner, titles),
                "handedOver": tab.handed_over,
                "paused": bool(pattern := registry.pauses.pattern_of(tab.origin)),
                "pausedBy": pattern,
                "tools": find_tools[tab.tab_id],
                "resources": offer.resources,
                "templates": offer.templates,
                "prompts": offer.prompts,
                "notices": notices[tab.tab_id],
                "servers": servers[tab.tab_id],
            }


def _count_offers(browser: Browser, router: Router) -> defaultdict[int, Offers]:
    """Return what the tabs of a browser offer beside tools, by the browser's id of the tab."""
    offers = defaultdict[int, Offers](Offers)
    for document in router.documents.documents():
        if document.browser is browser:
            offers[document.tab.tab_id].add(document, router.consent)
    return offers


def _explain_refusal(entry: Entry, router: Router) -> str:
    """Return which rule or value forbids a tool, behind the mark that introduces it; empty if none does."""
    if entry.refusal:
        return f", by config.toml: {entry.refusal}"
    refusal = router.consent.refusal(entry)
    return f": {refusal}" if refusal else ""


def _describe_cached(router: Router) -> Iterator[dict[str, str]]:
    for entry in router.catalog.all_entries():
        if isinstance(entry, CachedEntry) and not router.consent.refusal(entry):
            origin = single_line(entry.origin, MAX_ORIGIN_CHARS)
            yield {"name": entry.name, "origin": origin, "profile": entry.profile}


def _describe_tool(entry: Entry) -> dict[str, Any]:
    return {
        "tool": single_line(entry.own_name, MAX_TITLE_CHARS),
        "title": single_line(entry.title, MAX_TITLE_CHARS),
        "description": format_description(entry.page_words),
        "origin": single_line(entry.origin, MAX_ORIGIN_CHARS),
        "readOnly": entry.tool.is_read_only,
        "parameters": list(_describe_parameters(entry.input_schema)),
    }


def _describe_parameters(schema: bytes) -> Iterator[dict[str, Any]]:
    """Yield the parameters at the top of the schema, which a page may have written in any shape."""
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
            "type": single_line(_type_of(parameter), MAX_TITLE_CHARS),
            "required": name in found.required,
            "description": single_line(str(parameter.get("description") or ""), MAX_NOTICE_CHARS),
        }


def _type_of(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"enum": [*values]}:
            return " | ".join(str(value) for value in values[:_MAX_VALUES])
        case {"type": [*types]}:
            return " | ".join(str(each) for each in types[:_MAX_VALUES])
        case {"type": str(one)}:
            return one
    return ""


def _describe_owner(session_id: str | None, titles: Mapping[str, str]) -> dict[str, str] | None:
    if session_id is None:
        return None
    return {"session": session_id, "title": titles.get(session_id) or f"session {short_id(session_id)}"}
