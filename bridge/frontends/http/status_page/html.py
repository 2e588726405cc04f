"""HTML of the status page: problems, calls, browsers, tabs, tools, clients, approvals.

Most of its text comes from pages and clients. `status_snapshot.py` sanitizes it, and `element` escapes every
string that is not an Html. Sans-IO. A Jinja2 template of the page has 202 lines and needs about 165 lines of
Python: it would save 130 of 500 lines, which is less than a dependency is worth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

import msgspec

from bridge.diagnostics.remote_status import format_remote, summarize_remote
from bridge.state import audit_rows
from bridge.state.pause_control import short_id
from bridge.state.site_approvals import SiteApproval
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, MAX_TITLE_CHARS, single_line
from native_host.system.problem import Problem
from native_host.system.program_name import command_path, format_command

SIGN_IN = format_command("status --web")
RELOAD_S = 10
"""Seconds between reloads without JavaScript."""
_STYLE, _SCRIPT = "/page/page.css", "/page/page.js"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%23316dca'/%3E"
    "%3Cpath d='M4 11V5l4 4 4-4v6' fill='none' stroke='white' stroke-width='1.6'/%3E%3C/svg%3E"
)
_TRANSPORTS = {
    "streamable": "Streamable HTTP",
    "stateless": "Streamable HTTP",
    "sse": "HTTP with SSE",
    "channel": "Claude in Chrome's socket",
}
_OTHER_KINDS = ("resource", "template", "prompt")
"""What a page may offer beside tools."""
_KINDS = {"ok": "good", "tool_error": "poor", "cancelled": "quiet", "running": "live"}


@dataclass(frozen=True)
class PageContent:
    """Everything that the page shows."""

    status: Mapping[str, Any]
    """Result of `status_snapshot.make_status`."""
    running: Sequence[Mapping[str, Any]]
    """Result of `status_snapshot.running_calls`."""
    tools: Mapping[str, Mapping[str, Any]]
    """Result of `status_snapshot.find_tools`: the tools to show, by public name."""
    tool_count: int
    """Number of tools that match `query`."""
    query: str = ""
    transports: Mapping[str, str] = field(default_factory=dict)
    approvals: Sequence[SiteApproval] = ()


def status_page(content: PageContent) -> Html:
    """Return the whole page."""
    return _format_page(
        "mcpb",
        make_element("a", "Skip to the calls", href="#calls", class_="skip"),
        make_element(
            "header",
            make_element("h1", "mcpb"),
            make_element("p", "", id="state", role="status"),
            make_element("span", content.status["version"], class_="version"),
        ),
        make_element(
            "noscript",
            make_element("p", f"Without JavaScript this page has no buttons. It reloads every {RELOAD_S} s."),
        ),
        make_element("p", "", id="trouble", role="alert", hidden=True),
        make_element("main", format_content(content), id="now"),
        is_live=True,
    )


def sign_in_page(why: str) -> Html:
    """Return the page for users who are not signed in: how to sign in."""
    return _format_page(
        "mcpb: sign in",
        make_element(
            "main",
            make_element("h1", "mcpb"),
            make_element("p", why),
            make_element("p", "To see what your browsers and MCP clients do, run in a terminal:"),
            make_element("p", _format_command(SIGN_IN)),
            make_element("p", "It opens this page with a link that works once, within two minutes."),
            make_element(
                "p",
                "Signed in just now? ",
                make_element("a", "Open the status page", href="/"),
                class_="hint",
            ),
            class_="alone",
        ),
    )


def format_content(content: PageContent) -> Html:
    """Return the part of the page that changes."""
    found = content.status
    return join_markup(
        _format_problems(found),
        make_element("p", summary, id="summary") if (summary := _format_summary(found)) else None,
        make_element(
            "div",
            make_element(
                "div",
                _format_calls(content),
                _format_page_requests(content.status),
                _format_tools(content),
                class_="main",
            ),
            make_element(
                "div",
                _format_clients(content),
                _format_remote(found),
                _format_sites(found),
                _paused_sites(found),
                _format_approvals(content),
                class_="side",
            ),
            class_="columns",
        ),
    )


def _format_page(title: str, *body: Html, is_live: bool = False) -> Html:
    return make_document(
        make_element(
            "head",
            make_element("meta", charset="utf-8"),
            make_element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            make_element("meta", name="color-scheme", content="light dark"),
            make_element("title", title),
            make_element("link", rel="icon", href=_ICON),
            make_element("link", rel="stylesheet", href=_STYLE),
            make_element("script", src=_SCRIPT, type="module"),
            make_element("noscript", make_element("meta", http_equiv="refresh", content=RELOAD_S))
            if is_live
            else None,
        ),
        make_element("body", *body),
        lang="en",
    )


# ── Problems ────────────────────────────────────────────────────────────────────────────────────────────────


def _format_problems(found: Mapping[str, Any]) -> Html | None:
    notes = [_make_problem(note["text"], note["command"]) for note in found["notes"]]
    others = [other["text"] for other in found["otherRules"]]
    texts = [_label_missing(found), *found["problems"], *others, *notes]
    shown = [_format_problem(text) for text in dict.fromkeys(texts) if text]
    if not shown:
        return None
    return _make_section("attention", "To do next", [make_element("p", text) for text in shown])


def _label_missing(found: Mapping[str, Any]) -> str:
    """Return what is missing; where clients work without a browser, it only concerns one."""
    missing: str = found["missing"]
    if not missing or found["browsers"] or not found["ready"]:
        return missing
    return Problem.compose("Browser not ready: {}", missing)


def _make_problem(text: str, command: str) -> str:
    return Problem(f"{text}: {command}", command) if command else text


def _format_problem(text: str) -> Html:
    """Add a copy button to each command of a problem."""
    if not isinstance(text, Problem):
        return make_element("span", text)
    pieces = [_format_command(piece) if is_command else piece for piece, is_command in text.pieces()]
    return make_element("span", pieces)


def _format_command(command: str) -> Html:
    copy = _make_button("Copy", f"Copy {command}", data_copy=command)
    return make_element("span", make_element("code", command), " ", copy, class_="command")


def _format_summary(found: Mapping[str, Any]) -> str:
    """Count what clients have, through browsers and from remote servers; empty without either."""
    browsers, remote = found["browsers"], summarize_remote(found["remote"])
    if not browsers:
        return f"{_format_count(0, 'browser')} · {remote}" if remote else ""
    others = sum(browser["isChannel"] for browser in browsers)
    tabs = [tab for browser in browsers for tab in browser["tabs"]]
    clients = {session["id"] for browser in browsers for session in browser["sessions"]}
    return " · ".join(
        [
            _format_count(len(browsers) - others, "browser"),
            *([_format_count(others, "Claude in Chrome extension")] if others else []),
            _format_count(sum(bool(tab["tools"]) for tab in tabs), "tab with tools", "tabs with tools"),
            _format_count(sum(len(tab["tools"]) for tab in tabs), "tool"),
            _format_count(len(clients), "client"),
            *([remote] if remote else []),
        ]
    )


# ── Calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def _format_calls(content: PageContent) -> Html:
    calls = [_format_call(line) for line in reversed(content.status["calls"])]
    running = make_element("ul", map(_format_call, content.running), id="running", aria_label="Running now")
    empty = make_element("p", "No calls yet. Each one appears here when it ends.", class_="empty")
    # The list exists even if empty: screen readers announce only additions to an existing list.
    attributes = {"role": "log", "aria_live": "polite", "aria_label": "Calls, the latest first"}
    listed = make_element("div", make_element("ol", calls), tabindex=0, **attributes)
    log = _format_command(format_command("audit"))
    more = make_element("p", "More: ", log, class_="hint") if calls else None
    return _make_section("calls", "Calls", [running if content.running else None, listed, more or empty])


def _format_call(line: Mapping[str, Any], kind: str = "call") -> Html:
    when, client, tool, where, outcome, duration, detail = audit_rows.format_row(line)
    around = [make_element("span", text) for text in (client, where, detail) if text]
    return make_element(
        "li",
        make_element("time", when.partition(" ")[2] or when, title=when),
        make_element("strong", tool),
        make_element("span", outcome.replace("_", " "), class_=f"outcome {_KINDS.get(outcome, 'bad')}"),
        make_element("span", duration, class_="duration"),
        make_element("p", around, class_="around"),
        id=f"{kind}-{hashlib.blake2b(msgspec.json.encode(line), digest_size=8).hexdigest()}",
        class_="call",
    )


def _format_page_requests(found: Mapping[str, Any]) -> Html | None:
    """Return what pages have asked of models and clients."""
    if not found["pageRequests"]:
        return None
    requests = [_format_call(line, "request") for line in reversed(found["pageRequests"])]
    return _make_section("requests", "Requests of pages and servers", [make_element("ol", requests)])


def _format_remote(found: Mapping[str, Any]) -> Html | None:
    """Return the remote servers with their states, what they offer and their last errors."""
    if not found["remote"]:
        return None
    servers = [
        make_element(
            "li",
            make_element("strong", server["name"]),
            " ",
            make_element(
                "span", server["state"], class_=f"outcome {'good' if server['state'] == 'ready' else 'bad'}"
            ),
            make_element("p", format_remote(server), class_="around"),
        )
        for server in found["remote"]
    ]
    return _make_section("remote", "Remote servers", [make_element("ul", servers)])


# ── Browsers, tabs, tools ───────────────────────────────────────────────────────────────────────────────────


def _format_tools(content: PageContent) -> Html:
    search = make_element(
        "input",
        type="search",
        id="search",
        value=content.query,
        placeholder="Search tools and sites",
        aria_label="Search tools and sites",
        autocomplete="off",
        spellcheck="false",
        class_="needs-script",
    )
    browsers = [_format_browser(browser, content) for browser in content.status["browsers"]]
    cached = _cached_tools(content)
    left_out = content.tool_count - len(content.tools)
    notes: list[str] = []
    if content.query and not content.tools:
        notes.append("No tool matches. Try fewer or other words.")
    elif not content.status["browsers"]:
        notes.append("No browser is connected.")
    if left_out:
        notes.append(f"{_format_count(left_out, 'more tool')}: use the search to find them.")
    return _make_section(
        "tools",
        "Tools",
        [search, browsers, cached, [make_element("p", note, class_="empty") for note in notes]],
    )


def _format_browser(browser: Mapping[str, Any], content: PageContent) -> Html:
    label = f" “{browser['label']}”" if browser["label"] else ""
    gone = "" if browser["live"] else " (disconnected just now)"
    extension = f"profile {short_id(browser['profile'])} · extension {browser['extension']}"
    if browser["isChannel"]:
        extension = "Claude in Chrome"
    place = f"WebSocket proxy {browser['proxy']}" if browser["proxy"] else f"pid {browser['pid']}"
    is_empty = not (content.query or browser["isChannel"])
    tabs = [_format_tab(browser, tab, content) for tab in browser["tabs"] if _is_shown(tab, content)]
    return make_element(
        "section",
        make_element("h3", f"{browser['brand']} {browser['version']}{label}{gone}"),
        make_element("p", f"{extension} · {place}", class_="facts"),
        tabs or (make_element("p", "No open page offers a tool.", class_="empty") if is_empty else None),
        id=f"browser-{browser['host']}",
        class_="browser",
    )


def _is_shown(tab: Mapping[str, Any], content: PageContent) -> bool:
    """Return whether the page lists a tab. A search hides tabs without a matching tool."""
    has_shown = any(name in content.tools for name in tab["tools"])
    return has_shown or (not tab["tools"] and not content.query)


def _format_tab(browser: Mapping[str, Any], tab: Mapping[str, Any], content: PageContent) -> Html:
    owner = f"of {tab['owner']['title']}" if tab["owner"] else ""
    marks = {"Active": tab["active"], owner: owner, "handed over": tab["handedOver"], "paused": tab["paused"]}
    badges = [make_element("span", mark, class_="badge") for mark, is_so in marks.items() if is_so]
    return make_element(
        "article",
        make_element(
            "div",
            make_element("h4", tab["title"] or tab["origin"], " ", badges),
            make_element(
                "p",
                " · ".join([tab["origin"], f"tab {tab['tab']}", *_list_offers(tab, *_OTHER_KINDS)]),
                class_="facts",
            ),
            _pause_button(
                "site",
                tab["pausedBy"] or tab["origin"],
                tab["pausedBy"] or tab["origin"],
                is_paused=tab["paused"],
            ),
            class_="head",
        ),
        [
            _format_tool(name, content.tools[name], tab["origin"])
            for name in tab["tools"]
            if name in content.tools
        ],
        [make_element("p", notice, class_="notice") for notice in tab["notices"]],
        id=f"tab-{browser['host']}-{tab['tabId']}",
        class_="tab",
    )


def _list_offers(offers: Mapping[str, Any], *kinds: str) -> list[str]:
    """Return the counts of what a tab or a site offers, without zeros."""
    return [_format_count(count, kind) for kind in kinds if (count := offers[f"{kind}s"])]


def _cached_tools(content: PageContent) -> Html | None:
    cached = [tool for tool in content.status["kept"] if tool["name"] in content.tools]
    if not cached:
        return None
    return make_element(
        "section",
        make_element("h3", "Without a tab"),
        make_element("p", "Cached tools of pages that are closed. A call opens the page.", class_="facts"),
        [_format_tool(tool["name"], content.tools[tool["name"]], "") for tool in cached],
        id="kept",
        class_="browser",
    )


def _format_tool(name: str, tool: Mapping[str, Any], around: str) -> Html:
    """Return a tool. `around` is the origin that is shown above it."""
    first_line = tool["description"].partition("\n")[0]
    marks = [make_element("span", "read only", class_="badge")] if tool["readOnly"] else []
    place = make_element("p", f"In a frame of {tool['origin']}", class_="facts") if around else None
    return make_element(
        "details",
        make_element(
            "summary", make_element("strong", tool["tool"]), " ", make_element("span", first_line), marks
        ),
        make_element(
            "div",
            make_element("p", tool["title"], class_="title") if tool["title"] else None,
            make_element("p", tool["description"] or "The page does not describe it.", class_="says"),
            place if tool["origin"] != around else None,
            _format_parameters(tool["parameters"]),
            make_element("p", "Called by ", _format_command(name), class_="hint"),
            class_="body",
        ),
        id=f"tool-{name}",
    )


def _format_parameters(parameters: list[Mapping[str, Any]]) -> Html | None:
    if not parameters:
        return None
    return make_element("dl", [_format_parameter(each) for each in parameters], aria_label="Parameters")


def _format_parameter(parameter: Mapping[str, Any]) -> Iterator[Html]:
    needed = make_element("span", "required", class_="badge") if parameter["required"] else None
    kind = make_element("span", parameter["type"], class_="type") if parameter["type"] else None
    yield make_element("dt", make_element("code", parameter["name"]), " ", kind, " ", needed)
    yield make_element("dd", parameter["description"])


# ── Clients, pauses, approvals ──────────────────────────────────────────────────────────────────────────────


def _format_clients(content: PageContent) -> Html:
    sessions: dict[str, dict[str, Any]] = {}
    for browser in content.status["browsers"]:
        for session in browser["sessions"]:
            known = sessions.setdefault(session["id"], {**session})
            known["paused"] = known["paused"] or session["paused"]
    if not sessions:
        return _make_section("clients", "MCP clients", [_how_to_connect()])
    listed = [_format_client(session, content.transports) for session in sessions.values()]
    return _make_section("clients", "MCP clients", [make_element("ul", listed)])


def _how_to_connect() -> Html:
    """Return how a client is added; through this server with a command that prints the access token."""
    mcpb = command_path()
    add = f"claude mcp add --scope user browser -- {mcpb} bridge --name browser"
    return make_element(
        "div",
        make_element("p", "No client is connected to a browser. To add one, for instance Claude Code, run:"),
        make_element("p", _format_command(add)),
        make_element("p", "or, through this server, the command that this prints:"),
        make_element("p", _format_command(f"{mcpb} serve --print-config claude-code")),
        class_="empty",
    )


def _format_client(session: Mapping[str, Any], transports: Mapping[str, str]) -> Html:
    over = _TRANSPORTS.get(transports.get(session["id"], ""), "stdio")
    version = f"version {session['version']}" if session["version"] else ""
    facts = [version, f"over {over}", f"pid {session['pid']}", f"session {short_id(session['id'])}"]
    badge = make_element("span", "paused", class_="badge") if session["paused"] else None
    return make_element(
        "li",
        make_element("h3", session["title"], " ", badge),
        make_element("p", " · ".join(filter(None, facts)), class_="facts"),
        [make_element("p", f"Subscribed to {uri}", class_="facts") for uri in session["subscriptions"]],
        _pause_button("session", session["id"], session["title"], is_paused=session["paused"]),
        id=f"client-{session['id']}",
        class_="head",
    )


def _format_sites(found: Mapping[str, Any]) -> Html | None:
    """Return the number of entries of each kind that each site offers."""
    if not found["sites"]:
        return None
    listed = [
        make_element(
            "li",
            make_element("h3", site["origin"]),
            make_element("p", " · ".join(_list_offers(site, "tool", *_OTHER_KINDS)), class_="facts"),
            id=f"offers-{site['origin']}",
        )
        for site in found["sites"]
    ]
    return _make_section("sites", "What sites offer", [make_element("ul", listed)])


def _paused_sites(found: Mapping[str, Any]) -> Html | None:
    """Return the paused sites, also those without an open tab."""
    sites = dict.fromkeys(site for browser in found["browsers"] for site in browser["pausedSites"])
    if not sites:
        return None
    listed = [
        make_element(
            "li",
            make_element("h3", site),
            _pause_button("site", site, site, is_paused=True),
            class_="head",
            id=f"site-{site}",
        )
        for site in sites
    ]
    return _make_section("paused", "Paused sites", [make_element("ul", listed)])


def _format_approvals(content: PageContent) -> Html | None:
    if not content.approvals:
        return None
    return _make_section(
        "approvals", "Approved sites", [make_element("ul", map(_format_approval, content.approvals))]
    )


def _format_approval(each: SiteApproval) -> Html:
    origin, approval = each
    words, client = ",".join(approval.granted_actions), approval.only_client
    facts = [
        single_line(", ".join(approval.granted_actions), MAX_ORIGIN_CHARS),
        f"for {single_line(approval.audience, MAX_TITLE_CHARS)}",
        f"until {approval.until}" if approval.until else "",
    ]
    revoke = {"data_revoke": origin, "data_words": words, "data_client": client}
    return make_element(
        "li",
        make_element("h3", origin),
        make_element("p", " · ".join(filter(None, facts)), class_="facts"),
        _make_button("Revoke", f"Revoke {words} for {origin}", **revoke),
        class_="head",
        id=f"approval-{origin}-{words}-{client}",
    )


def _pause_button(kind: str, who: str, called: str, *, is_paused: bool) -> Html:
    word = "Resume" if is_paused else "Pause"
    return _make_button(
        word, f"{word} {called}", data_pause=kind, data_who=who, data_paused=str(not is_paused).lower()
    )


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _make_button(text: str, label: str, **attributes: str) -> Html:
    return make_element("button", text, type="button", aria_label=label, class_="needs-script", **attributes)


def _make_section(id_: str, title: str, content: list[Any]) -> Html:
    heading = make_element("h2", title, id=f"{id_}-title")
    return make_element("section", heading, content, id=id_, aria_labelledby=f"{id_}-title", tabindex="-1")


def _format_count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


_VOID = {"br", "input", "link", "meta"}


class Html(str):
    """Markup that `element` returns. The result of `+` or `%` on it is text again."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""Text, markup, None, or several of these."""
Attribute = str | int | bool | None
"""Value of an attribute. True writes the name alone; False and None omit it."""


def make_element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element, for instance `element("p", "Hello", class_="big", aria_live="polite")`.

    In attribute names `_` stands for `-`; a final one is dropped.
    """
    start = f"<{name}{''.join(_format_attribute(*pair) for pair in attributes.items())}>"
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{''.join(map(_escape_child, children))}</{name}>")


def join_markup(*children: Child) -> Html:
    """Return several children as one piece of markup."""
    return Html("".join(map(_escape_child, children)))


def make_document(*children: Child, **attributes: Attribute) -> Html:
    """Return a whole document. The attributes belong to its root element."""
    return Html(f"<!doctype html>\n{make_element('html', *children, **attributes)}")


def _escape_child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(child)
    return "".join(map(_escape_child, child))


def _format_attribute(name: str, value: Attribute) -> str:
    attribute = name.removesuffix("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {attribute}" if value is True else f' {attribute}="{escape(str(value))}"'
