"""Report of `mcpb doctor`: findings of files and of the running chain, browser by browser. Sans-IO.

Its shape is that of `--json` and is stable: docs/TROUBLESHOOTING.md describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from bridge import __version__
from bridge.diagnostics.browser_checks import ObservedBrowser, findings_of, paused_finding, unlinked_finding
from bridge.diagnostics.browser_matching import (
    NOT_THERE,
    KnownBrowser,
    Observations,
    browsers_of,
    name_of_process,
)
from bridge.diagnostics.proxy_checks import proxy_findings
from bridge.diagnostics.remote_status import find_remote_obstacle, summarize_remote
from install.checks.existing_channel import Channel, channel_findings, missing_channel
from install.checks.other_hosts import WRAPPER_GONE, OtherHost
from install.findings import (
    NOTHING,
    Finding,
    FindingCode,
    Hop,
    Level,
    Message,
    Part,
    Privacy,
    Show,
    Value,
    mcpb_command,
    path_value,
    public_value,
    show_all,
)
from native_host.existing_channel.published_socket import PublishedSocket
from native_host.protocol.untrusted_text import escape
from native_host.system.problem import Problem

State = Literal["ok", "note", "warning", "fault"]
HOPS: tuple[Hop, ...] = get_args(Hop)
_WORST_FIRST: tuple[Level, ...] = get_args(Level)
_LIMITS = {
    FindingCode.EXTENSION_OLD,
    FindingCode.HOST_OUTDATED,
    FindingCode.PAUSED,
    FindingCode.PAUSES_INVALID,
}
"""Warnings with which not everything works."""
_NO_BROWSER = "no browser is connected. Start one that has the extension."
_FOR_THE_PERSON = {FindingCode.MANIFEST_MISSING, FindingCode.USER_DATA_DIR}
"""Commands that the user has to decide on: `--fix` registers no browser."""


class HopReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A link of the chain that was looked at."""

    hop: Hop
    state: State
    text: str = ""


class BrowserReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A browser, from its manifest to its pages' tools."""

    title: str
    """`Finding.where` has it, too."""
    name: str = ""
    """Row of the table of browsers; empty for a directory that was named by hand, and if unknown."""
    state: Literal["works", "broken", "idle"]
    """idle: not connected, and as far as is known nothing is wrong with it."""
    hops: tuple[HopReport, ...] = ()
    seen: tuple[ObservedBrowser, ...] = ()


class FindingReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Rendered finding."""

    code: FindingCode
    hop: Hop
    text: str
    command: str = ""
    """Fixes it; empty if no command does."""
    level: Level = "fault"
    where: str = ""
    """Title of a browser; else the finding concerns all browsers."""
    is_safe: bool = False
    """True if `--fix` fixes it."""


class OfferReport(msgspec.Struct, frozen=True):
    """What pages of an origin have of a remote server."""

    origin: str
    pages: int
    tools: int
    problem: str


class RemoteReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A remote server, as running clients have it: see `remote_status.describe_remote`."""

    name: str
    address: str
    state: str
    clients: int
    ready_clients: int
    server: str
    revision: str
    transport: str
    tools: int
    resources: int
    templates: int
    prompts: int
    left_out: int
    synced_at: str
    offers: tuple[OfferReport, ...]
    cause: str
    error: str


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything."""

    version: str = __version__
    healthy: bool
    verdict: str
    is_fixing: bool = False
    """`--fix` was asked for."""
    fixed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    fix: str = ""
    """Command that applies all safe fixes; empty without one."""
    hops: tuple[HopReport, ...] = ()
    browsers: tuple[BrowserReport, ...] = ()
    findings: tuple[FindingReport, ...] = ()
    """Faults first, those of browsers without the extension after the others; then in the order of the hops,
    of one hop what a browser stumbles over first."""
    channels: tuple[Channel, ...] = ()
    """Sockets of Claude in Chrome's hosts, and hosts without one."""
    published: tuple[PublishedSocket, ...] = ()
    neighbours: tuple[OtherHost, ...] = ()
    """Native hosts of other products: for information."""
    remote: tuple[RemoteReport, ...] = ()


class _Judgement(NamedTuple):
    browsers: list[KnownBrowser]
    findings: list[Finding]
    """In the order of the report."""
    threats: list[Finding]
    """Those that will keep a connected browser from connecting again."""

    @property
    def faults(self) -> list[Finding]:
        """Return the faults, the one to fix first in front."""
        return [finding for finding in self.findings if finding.level == "fault"]

    @property
    def limits(self) -> list[Finding]:
        """Return the warnings that the user has to act on although browsers work."""
        working = {browser.title for browser in self.browsers if browser.role == "connected"}
        return [
            finding
            for finding in self.findings
            if finding.code in _LIMITS and finding.where.text in {"", *working}
        ]

    @property
    def waiting(self) -> list[Part]:
        """Return the browsers that only have to be started."""
        return [finding.where for finding in self.findings if finding.code == FindingCode.NOT_RUNNING]


def explain_disconnection(looked: Observations) -> Problem:
    """Return why no browser is connected, and the command that helps: the verdict of a report without one."""
    judged = _judge(looked)
    if judged.waiting and not judged.faults:
        return Problem(_waiting_message(judged.waiting).text)
    known = judged.faults or [finding for finding in judged.findings if finding.command]
    if not known:
        doctor = mcpb_command("doctor").text
        return Problem(f"{_capitalize(_NO_BROWSER)} To find out more, run: {doctor}", doctor)
    text = _capitalize(_end_sentence("{fault}", fault=_blame_browser(known[0])).text)
    command = known[0].command_line
    return Problem(f"{text} Run: {command}" if command else text, command)


def _judge(looked: Observations) -> _Judgement:
    browsers = browsers_of(looked)
    files = [_as_wanted(item, looked) for item in looked.files.findings if not _is_refuted(item, browsers)]
    judged = _set_levels(files, looked.shared, browsers, has_other=looked.wants_channels)
    others = _of_others(looked, browsers)
    paused = map(paused_finding, looked.paused)
    remote = _remote_findings(looked.remote)
    proxies = proxy_findings(looked.proxies, is_fault=not any(each.role == "connected" for each in browsers))
    live = _live_findings(browsers, judged, looked)
    findings = [*looked.shared, *judged, *live, *paused, *others, *proxies, *remote]
    findings.sort(key=_order_browsers(browsers))
    return _Judgement(browsers, findings, _find_threats(files, judged, browsers))


def make_report(looked: Observations, show: Show = show_all) -> DoctorReport:
    """Return the report of all observations; `show` renders its values."""
    judged = _judge(looked)
    browsers, findings = judged.browsers, judged.findings
    used = [channel for channel in looked.channels if looked.wants_channels and channel.is_usable]
    servers = "" if find_remote_obstacle(looked.remote) else summarize_remote(looked.remote)
    is_fixing = looked.fixed is not None
    diagnosis = DoctorReport(
        healthy=not judged.faults,
        verdict=_make_verdict(judged, used, servers).render(show),
        is_fixing=is_fixing,
        fixed=tuple(done.render(show) for done in looked.fixed or ()),
        left=tuple(_remaining_faults(browsers, findings, looked.called, show)) if is_fixing else (),
        fix=_fix_command(findings, looked.called, show),
        hops=tuple(_shared_hops(looked.details, findings, browsers, show)),
        browsers=tuple(_report_browser(browser, findings, show) for browser in browsers),
        findings=tuple(_render_finding(finding, looked.called, show) for finding in findings),
        channels=tuple(looked.channels),
        published=tuple(looked.published),
        neighbours=looked.files.neighbours,
        remote=tuple(msgspec.convert(server, RemoteReport) for server in looked.remote),
    )
    return msgspec.convert(_make_printable(msgspec.to_builtins(diagnosis)), DoctorReport)


def _render_finding(finding: Finding, called: Value, show: Show) -> FindingReport:
    return FindingReport(
        code=finding.code,
        hop=finding.hop,
        text=finding.render(show),
        command=finding.command.render(show, called) if finding.command else "",
        level=finding.level,
        where=finding.where.render(show),
        is_safe=finding.is_safe,
    )


def _make_printable(value: Any) -> Any:
    match value:
        case str():
            return escape(value)
        case dict():
            return {key: _make_printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_make_printable(item) for item in value]
        case _:
            return value


# ── What counts ─────────────────────────────────────────────────────────────────────────────────────────────


def _is_refuted(finding: Finding, browsers: Sequence[KnownBrowser]) -> bool:
    """Return whether a connection disproves a finding: a temporarily loaded extension leaves no trace."""
    with_hosts = {browser.title for browser in browsers if browser.profiles or browser.unlinked}
    return finding.code == NOT_THERE and finding.where.text in with_hosts


def _as_wanted(finding: Finding, looked: Observations) -> Finding:
    """Return a finding at the level that the configuration and connections through proxies give it."""
    if looked.wants_channels and finding.code == WRAPPER_GONE:
        return msgspec.structs.replace(finding, level="warning")
    if finding.code == FindingCode.BROWSER_CONFINED and any(each.proxy for each in looked.seen):
        return msgspec.structs.replace(finding, level="note")  # its user has found the other way
    return finding


def _set_levels(
    files: Sequence[Finding],
    shared: Sequence[Finding],
    browsers: Sequence[KnownBrowser],
    *,
    has_other: bool = False,
) -> list[Finding]:
    """Set the levels: a finding is a fault if it keeps a browser with the extension from connecting.

    While no browser has the extension, and the existing channel is unused, each browser may be the intended
    one.
    """
    roles = {browser.title: browser.role for browser in browsers}
    has_any = has_other or any(role != "unused" for role in roles.values())
    # What concerns all browsers is as bad as it is for the one that still has to connect.
    all_of_them = "has the extension" if "has the extension" in roles.values() or not has_any else "connected"
    stopped = {finding.where.text for finding in (*files, *shared) if finding.level == "fault"}
    is_all_stopped = not stopped <= roles.keys()

    def level_of(finding: Finding) -> Level:
        role = roles.get(finding.where.text, all_of_them)
        if finding.level == "fault" and (role == "connected" or (role == "unused" and has_any)):
            return "warning"
        if finding.code == NOT_THERE and not (has_any or is_all_stopped or finding.where.text in stopped):
            return "fault"
        return finding.level

    return [msgspec.structs.replace(finding, level=level_of(finding)) for finding in files]


def _find_threats(
    files: Sequence[Finding], judged: Sequence[Finding], browsers: Sequence[KnownBrowser]
) -> list[Finding]:
    """Return findings that will keep a connected browser from connecting again."""
    unused = {browser.title for browser in browsers if browser.role == "unused"}
    return [
        after
        for before, after in zip(files, judged, strict=True)
        if before.level == "fault" != after.level and after.where.text not in unused
    ]


def _live_findings(
    browsers: Sequence[KnownBrowser], judged: Sequence[Finding], looked: Observations
) -> Iterator[Finding]:
    """Yield findings of the running chain, and of its absence."""
    is_any_connected = any(browser.role == "connected" for browser in browsers)
    stopped = {finding.where.text for finding in judged if finding.level == "fault"}
    for browser in browsers:
        for profile in browser.profiles:
            is_current = profile.kind in looked.current_copies
            findings = findings_of(profile, browser.name, looked.now, is_copied=is_current)
            yield from _add_profile(findings, profile if len(browser.profiles) > 1 else None)
        yield from (unlinked_finding(host, browser.name) for host in browser.unlinked)
        is_silent = not (browser.profiles or browser.unlinked) and browser.title not in stopped
        if browser.role == "has the extension" and browser.is_startable and is_silent:
            yield from _not_connected(browser, looked.hosts.get(browser.pid, 0), is_any_connected)


def _of_others(looked: Observations, browsers: Sequence[KnownBrowser]) -> Iterator[Finding]:
    """Yield findings about the extension of Claude in Chrome."""
    roles = {browser.role for browser in browsers}
    works = "connected" in roles or any(channel.is_usable for channel in looked.channels)
    is_all = not (works or "has the extension" in roles)
    for channel in looked.channels:
        where = name_of_process(channel.browser_pid, looked.files)
        level = _channel_level(channel, looked, works=works)
        for finding in channel_findings(channel):
            yield msgspec.structs.replace(finding, level=level, where=where)
    is_none_there = all(channel.is_left for channel in looked.channels)
    if looked.is_attached and is_none_there and not (works or looked.is_partial):
        yield missing_channel("fault" if is_all else "warning", looked.only_directory)


def _channel_level(channel: Channel, looked: Observations, *, works: bool) -> Level:
    """Return the level of a finding about a channel: a fault only if it is to be used."""
    if channel.is_left or channel.is_usable:
        return "note"
    if looked.wants_channels:
        return "warning" if works else "fault"
    return "warning" if looked.is_published and channel.path else "note"


def _not_connected(browser: KnownBrowser, host_elsewhere: int, is_any_connected: bool) -> Iterator[Finding]:
    values = {"browser": browser.name}
    if host_elsewhere:
        yield Finding(
            code=FindingCode.CONNECTED_ELSEWHERE,
            hop="host",
            template="{browser} runs a native host (process {pid}) outside the directories of this mcpb: "
            "another installation started it, or it had another MCPB_HOME. Use that installation, or restart "
            "the browser, which then starts the host of this one",
            values={**values, "pid": public_value(host_elsewhere)},
            where=browser.name,
        )
    elif browser.pid:
        template = (
            "{browser} runs and can start the native host, but is not connected. Open the popup of the "
            "extension: it connects at once, or shows the reason. Without that it may take a minute"
        )
        code = FindingCode.NOT_CONNECTED
        yield Finding(code=code, hop="host", template=template, values=values, where=browser.name)
    elif not is_any_connected:
        yield Finding(
            code=FindingCode.NOT_RUNNING,
            hop="browser",
            template="{browser} does not run; start it",
            values=values,
            where=browser.name,
            level="warning",
        )


def _add_profile(findings: Iterable[Finding], profile: ObservedBrowser | None) -> Iterator[Finding]:
    """Add the profile to findings of a browser with several connected profiles."""
    for finding in findings:
        if profile is None:
            yield finding
            continue
        label, host = Value(profile.label, Privacy.PROFILE), public_value(profile.host)
        prefix, connected = ("profile “{connected}”", label) if profile.label else ("host {connected}", host)
        yield msgspec.structs.replace(
            finding,
            template=f"{prefix}: {finding.template}",
            values={**finding.values, "connected": connected},
        )


def _remote_findings(servers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield a warning for each server that clients cannot use, or that has entries left out."""
    for server in servers:
        if server["state"] in {"unreachable", "failed"}:
            code = FindingCode.REMOTE_UNREACHABLE
            template = "the remote server {name} is {state} ({cause}): clients do not have its tools"
        elif server["leftOut"]:
            code = FindingCode.REMOTE_LEFT_OUT
            template = "of the remote server {name}, {count} cannot be offered to clients"
        else:
            continue
        name = Value(server["name"], Privacy.REMOTE)
        count = f"{server['leftOut']} {'entry' if server['leftOut'] == 1 else 'entries'}"
        yield Finding(
            code=code,
            hop="remote",
            level="warning",
            template=template,
            values={
                "name": name,
                "state": public_value(server["state"]),
                "cause": public_value(server["cause"]),
                "count": public_value(count),
            },
            command=mcpb_command("remote", "test", name),
        )


def _order_browsers(browsers: Sequence[KnownBrowser]) -> Callable[[Finding], tuple[int, int, int]]:
    later = {
        browser.title: 1 if browser.is_startable else 2 for browser in browsers if browser.role == "unused"
    }
    return lambda finding: (
        _WORST_FIRST.index(finding.level),
        later.get(finding.where.text, 0),
        HOPS.index(finding.hop),
    )


# ── What is put right ───────────────────────────────────────────────────────────────────────────────────────


def _fix_command(findings: Sequence[Finding], called: Value, show: Show) -> str:
    is_wanted = any(finding.is_safe and finding.level != "note" for finding in findings)
    return mcpb_command("doctor", "--fix").render(show, called) if is_wanted else ""


def _remaining_faults(
    browsers: Sequence[KnownBrowser], findings: Sequence[Finding], called: Value, show: Show
) -> Iterator[str]:
    unused = {browser.title for browser in browsers if browser.role == "unused"}
    for finding in findings:
        is_only_unused = finding.level != "fault" and finding.where.text in unused
        if finding.command and finding.level != "note" and not is_only_unused:
            why = " (you decide which browsers start mcpb)" if finding.code in _FOR_THE_PERSON else ""
            command = finding.command.render(show, called)
            yield f"Not fixed{why}: {_blame_browser(finding).render(show)}; run {command}"


# ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────


def _report_browser(browser: KnownBrowser, findings: Sequence[Finding], show: Show) -> BrowserReport:
    its = [finding for finding in findings if finding.where.text == browser.title]
    return BrowserReport(
        title=browser.name.render(show),
        name=browser.target.browser if browser.target else "",
        state=_browser_state(browser, its),
        hops=tuple(_report_hops(_browser_details(browser), its, show)),
        seen=browser.profiles,
    )


def _browser_state(browser: KnownBrowser, its: Sequence[Finding]) -> Literal["works", "broken", "idle"]:
    if browser.role == "connected":
        return "works"
    if any(finding.level == "fault" for finding in its):
        return "broken"
    target = browser.target
    return "idle" if target is None or target.is_startable or target.is_removed else "broken"


def _browser_details(browser: KnownBrowser) -> dict[Hop, Part]:
    """Return facts about each hop that was reached."""
    found: dict[Hop, Part] = {}
    profiles = browser.profiles
    if browser.target and browser.target.is_startable:
        found["manifest"] = path_value(browser.target.manifest)
    if browser.pid or profiles:
        found["browser"] = public_value(", ".join(each.program_title for each in profiles) or "runs")
    if profiles:
        if hosts := [f"mcpb {seen.host_version}, pid {seen.host_pid}" for seen in profiles if not seen.proxy]:
            found["host"] = public_value(", ".join(hosts))
        if versions := [f"mcpb {seen.host_version}" for seen in profiles if seen.proxy]:
            found["proxy"] = public_value(", ".join(versions))
    if known := [seen for seen in profiles if seen.brand]:
        found["extension"] = public_value(", ".join(map(_describe_extension, known)))
    if known := [seen for seen in known if not seen.is_channel]:
        times = [f"answers in {seen.answered_ms:g} ms" for seen in known if seen.answered_ms is not None]
        found["worker"] = public_value(", ".join(times))
        found["page"] = public_value(_format_count(sum(seen.tools for seen in known), "tool"))
    return found


def _describe_extension(seen: ObservedBrowser) -> str:
    return f"{seen.brand}, not of mcpb" if seen.is_channel else f"version {seen.extension_version}"


def _shared_hops(
    details: Mapping[Hop, Part], findings: Sequence[Finding], browsers: Sequence[KnownBrowser], show: Show
) -> Iterator[HopReport]:
    titles = {browser.title for browser in browsers}
    return _report_hops(details, [finding for finding in findings if finding.where.text not in titles], show)


def _report_hops(details: Mapping[Hop, Part], findings: Sequence[Finding], show: Show) -> Iterator[HopReport]:
    for hop in HOPS:
        levels = {finding.level for finding in findings if finding.hop == hop}
        if levels or hop in details:
            worst: State = next((level for level in _WORST_FIRST if level in levels), "ok")
            yield HopReport(hop=hop, state=worst, text=details.get(hop, NOTHING).render(show))


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# ── In one sentence ─────────────────────────────────────────────────────────────────────────────────────────


def _make_verdict(judged: _Judgement, channels: Sequence[Channel], servers: str) -> Message:
    """Summarize the report; `channels` are usable and to be used, `servers` counts remote servers."""
    browsers, faults = judged.browsers, judged.faults
    working = [browser for browser in browsers if browser.role == "connected"]
    waiting = _waiting_message(judged.waiting)
    if not (working or channels or servers or faults):
        return Message(template="Nothing is wrong, but {waiting}", values={"waiting": waiting})
    if not (working or channels or servers):
        return _end_sentence("Broken: {fault}", fault=_blame_browser(faults[0]))
    connections: list[Part] = [*map(_connected_message, working), *map(public_value, filter(None, [servers]))]
    parts = [
        (what, _join_messages(names, separator))
        for what, names, separator in (
            ("Connected", connections, ", "),
            ("Existing channel", [public_value(channel.title) for channel in channels], " and "),
        )
        if names
    ]
    template = " ".join(f"{what}: {{connected_{number}}}." for number, (what, _) in enumerate(parts))
    connected = {f"connected_{number}": names for number, (_, names) in enumerate(parts)}
    if worst := [*faults, *(judged.threats if working else ()), *judged.limits]:
        return _end_sentence(f"{template} But {{fault}}", **connected, fault=_blame_browser(worst[0]))
    if not (working or channels):
        return Message(template=f"{template} But {{waiting}}", values={**connected, "waiting": waiting})
    left = [
        browser.name
        for browser in browsers
        if browser.role == "unused" and browser.target and not browser.target.is_removed
        if not browser.is_startable
    ]
    unused = " Not {unused}, where the extension is not seen either." if left else ""
    values = {**connected, "unused": _join_messages(left, " nor ")}
    return Message(template=f"It works. {template}{unused}", values=values)


def _waiting_message(browsers: Sequence[Part]) -> Message:
    if not browsers:
        return Message(template=_NO_BROWSER)
    end = "is not running. Start it." if len(browsers) == 1 else "are not running. Start one."
    values = {"browsers": _join_messages(browsers, " and ")}
    return Message(template=f"{{browsers}} {end}", values=values)


def _connected_message(browser: KnownBrowser) -> Message:
    tools = _format_count(sum(seen.tools for seen in browser.profiles), "tool")
    is_channel = all(seen.is_channel for seen in browser.profiles)
    about = "the extension of Claude in Chrome" if is_channel else tools
    return Message(template=f"{{browser}} ({about})", values={"browser": browser.name})


def _join_messages(parts: Sequence[Part], separator: str) -> Message:
    values = {f"part_{number}": part for number, part in enumerate(parts)}
    return Message(template=separator.join(f"{{{name}}}" for name in values), values=values)


def _blame_browser(finding: Finding) -> Message:
    """Return the finding after the name of its browser, unless its message has that name."""
    sentence = msgspec.structs.replace(finding, template=finding.template.removesuffix("."))
    if finding.where == NOTHING or finding.where in finding.values.values():
        return sentence
    return Message(template="{where}: {finding}", values={"where": finding.where, "finding": sentence})


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def _end_sentence(template: str, **values: Part) -> Message:
    return Message(template=f"{template}.", values=values)
