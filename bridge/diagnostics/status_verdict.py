"""Verdict of `mcpb status`: whether clients can work, and what the user should know or do. Sans-IO.

The notes are findings of `mcpb doctor` that need neither a round trip to a browser nor a look at files.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from bridge.diagnostics.browser_checks import findings_of, observe_browsers, paused_finding
from bridge.diagnostics.remote_status import find_remote_obstacle, summarize_remote
from bridge.hub.router import Router
from bridge.state.pause_control import paused_targets
from install.browsers import Kind
from install.findings import Finding, public_value
from native_host.protocol.untrusted_text import MAX_NOTICE_CHARS, MAX_TITLE_CHARS, single_line
from native_host.system.problem import Problem


def list_notes(router: Router, current_copies: Container[Kind]) -> list[dict[str, str]]:
    """Return what limits connected browsers: pauses, other versions, tabs to reload, withdrawn access.

    `current_copies` is `Observations.current_copies`.
    """
    return [
        {
            "code": finding.code.value,
            "text": single_line(finding.text, MAX_NOTICE_CHARS),
            "command": finding.command_line,
        }
        for finding in _find_limits(router, current_copies)
    ]


def _find_limits(router: Router, current_copies: Container[Kind]) -> Iterator[Finding]:
    registry = router.registry
    observed = observe_browsers(registry, router.catalog, {})
    for browser in observed:
        if browser.brand:
            name, is_current = public_value(browser.title), browser.kind in current_copies
            findings = findings_of(browser, name, is_copied=is_current)
            yield from (finding for finding in findings if finding.level != "note")
    if observed:
        targets = [target for target in paused_targets(registry) if target.site or target.title]
        yield from map(paused_finding, targets)


def make_verdict(found: Mapping[str, Any]) -> str:
    """Return the verdict on a status, whose other members are complete."""
    if obstacle := found["obstacle"]:
        return Problem.compose("Not ready: {}", obstacle)
    remote = summarize_remote(found["remote"])
    if obstacle := _find_browser_obstacle(found):
        return Problem.compose("Ready: {}. Browser not ready: {}", remote, obstacle)
    own = [browser for browser in found["browsers"] if browser["live"]]
    names = [_format_name(browser) for browser in own] or ["Claude in Chrome"]
    state = "on" if found["browserTools"] else "off"
    parts = [_join_names(names), f"browser tools {state}", _count_page_tools(own), remote]
    return f"Ready: {', '.join(filter(None, parts))}."


def find_obstacle(found: Mapping[str, Any], config_problem: str) -> str:
    """Return the reason why clients that start now cannot work; empty without one.

    A remote server suffices, if a running client is connected to it: this command connects to none.
    """
    if config_problem:
        return config_problem
    in_browser = _find_browser_obstacle(found)
    if not in_browser or any(server["state"] == "ready" for server in found["remote"]):
        return ""
    if remote := find_remote_obstacle(found["remote"]):
        return Problem.compose("{}. Browser not ready: {}", remote, in_browser)
    return in_browser


def _find_browser_obstacle(found: Mapping[str, Any]) -> str:
    """Return the reason why clients have no tools of a browser; empty if they have some."""
    own = [browser for browser in found["browsers"] if browser["live"]]
    if not own and not any(channel["holder"] for channel in found["channels"]):
        missing = found["missing"]
        first = missing.first_line() if isinstance(missing, Problem) else missing.partition("\n")[0]
        return first or "the browser went away just now."
    if found["browserTools"] or any(tab["tools"] for browser in own for tab in browser["tabs"]):
        return ""
    return "the browser tools are switched off in config.toml, and no open page offers a tool."


def _format_name(browser: Mapping[str, Any]) -> str:
    version = browser["version"].partition(".")[0]
    return single_line(f"{browser['brand']} {version}", MAX_TITLE_CHARS).strip()


def _count_page_tools(browsers: list[Mapping[str, Any]]) -> str:
    counts = [len(tab["tools"]) for browser in browsers for tab in browser["tabs"] if tab["tools"]]
    if not counts:
        return "no page tools open"
    tabs = "" if len(counts) == 1 else f" in {len(counts)} tabs"
    return f"{sum(counts)} page tool{'' if sum(counts) == 1 else 's'}{tabs}"


def _join_names(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
