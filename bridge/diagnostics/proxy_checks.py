"""Checks of the WebSocket proxies that the user has signed in to: one finding for each cause. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bridge.links.browsers.proxy_problem import ProxyProblem
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Part,
    Privacy,
    Value,
    foreign_value,
    mcpb_command,
    public_value,
)


class ObservedProxy(NamedTuple):
    """A proxy, and what keeps it or browsers there from being used."""

    url: str
    problems: tuple[ProxyProblem, ...]


def proxy_findings(proxies: Iterable[ObservedProxy], *, is_fault: bool) -> Iterator[Finding]:
    """Yield the findings; `is_fault`: no other browser works."""
    for proxy in proxies:
        for problem in proxy.problems:
            yield _make_finding(proxy.url, problem, is_fault=is_fault)


def _make_finding(url: str, problem: ProxyProblem, *, is_fault: bool) -> Finding:
    name = Value(url, Privacy.REMOTE)
    commands = {"login": mcpb_command("proxy", "login", name), "extension": mcpb_command("extension")}
    named = [key for key in commands if f"{{{key}}}" in problem.remedy]
    values: dict[str, Part] = {
        "proxy": name,
        "what": public_value(problem.what_in_general),
        "detail": foreign_value(f" ({problem.detail})" if problem.detail else ""),
    }
    command: Command | None = commands[named[0]] if named else None
    # The report prints the command in a line of its own.
    remedy = problem.remedy.format_map(dict.fromkeys(commands, "run the command"))
    return Finding(
        code=FindingCode(f"proxy-{problem.cause}"),
        hop="proxy",
        template="the WebSocket proxy {proxy}: {what}{detail}. " + remedy,
        values=values,
        command=command,
        level="fault" if is_fault else "warning",
    )
