"""The report of `mcpb doctor`: what files tell and what a running chain tells, browser by browser.

Its shape is that of `--json` and is stable: docs/TROUBLESHOOTING.md describes it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from bridge import __version__
from bridge.diagnostics.browser_checks import SeenBrowser, findings_of, unlinked
from bridge.diagnostics.browser_matching import NOT_THERE, KnownBrowser, Looked, browsers_of, title_of_process
from install.checks.existing_channel import Channel, channel_findings, missing_channel
from install.checks.other_hosts import WRAPPER_GONE, Neighbour
from install.findings import Finding, Hop, Level
from native_host.existing_channel.published_socket import PublishedSocket
from native_host.protocol.untrusted_text import escape

State = Literal["ok", "note", "warning", "fault"]
HOPS: tuple[Hop, ...] = get_args(Hop)
_WORST_FIRST: tuple[Level, ...] = get_args(Level)
_OURS = re.compile(r"^mcpb(?= )|(?<=command -v )mcpb(?=\))")
"""Our own name where a command starts it; sudo, which has a PATH of its own, is told where it is."""
_FOR_THE_PERSON = {"manifest-missing", "user-data-dir"}
"""Whether a browser starts mcpb is not for `--fix` to decide."""


class HopReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A link of the chain that was looked at."""

    hop: Hop
    state: State
    text: str = ""
    """What is there, where that is known."""


class BrowserReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A browser, from its manifest to its pages' tools."""

    title: str
    """`Finding.where` has it, too."""
    name: str = ""
    """The row of the table of browsers; empty for a folder that was named by hand, and where nobody knows."""
    state: Literal["works", "broken", "idle"]
    """idle: not connected, and as far as is known nothing is wrong with it."""
    hops: tuple[HopReport, ...] = ()
    seen: tuple[SeenBrowser, ...] = ()
    """Its profiles that are connected."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything."""

    version: str = __version__
    healthy: bool
    """No finding is a fault."""
    verdict: str
    is_fixing: bool = False
    """`--fix` was asked for."""
    fixed: tuple[str, ...] = ()
    """What it did."""
    left: tuple[str, ...] = ()
    """What it could not put right, and what does."""
    fix: str = ""
    """What puts right all that is safe; empty where nothing is."""
    hops: tuple[HopReport, ...] = ()
    """What all browsers share."""
    browsers: tuple[BrowserReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Faults first, those of browsers without the extension after the others; then in the order of the hops,
    of one hop what a browser stumbles over first."""
    channels: tuple[Channel, ...] = ()
    """Sockets of another product's hosts, and hosts that have none any more."""
    published: tuple[PublishedSocket, ...] = ()
    """Sockets of ours among that product's."""
    neighbours: tuple[Neighbour, ...] = ()
    """Native hosts of other products: for information."""


def diagnose(looked: Looked) -> Diagnosis:
    """The report: what of all that was found counts, and for whom."""
    browsers = browsers_of(looked)
    files = [_as_wanted(item, looked) for item in looked.files.findings if not _is_refuted(item, browsers)]
    used = [channel for channel in looked.channels if looked.wants_channels and channel.is_usable]
    judged = _judged(files, looked.shared, browsers, has_other=looked.wants_channels)
    others = _of_others(looked, browsers)
    findings = [*looked.shared, *judged, *_live(browsers, judged, looked), *others]
    findings = sorted((_called(finding, looked.called) for finding in findings), key=_order(browsers))
    reports = tuple(_report(browser, findings) for browser in browsers)
    is_fixing = looked.fixed is not None
    diagnosis = Diagnosis(
        healthy=all(finding.level != "fault" for finding in findings),
        verdict=_verdict(browsers, used, findings, _threats(files, judged, browsers)),
        is_fixing=is_fixing,
        fixed=tuple(looked.fixed or ()),
        left=tuple(_left(browsers, findings)) if is_fixing else (),
        fix=_fix(findings, looked.called),
        hops=tuple(_shared_hops(looked.details, findings, browsers)),
        browsers=reports,
        findings=tuple(findings),
        channels=tuple(looked.channels),
        published=tuple(looked.published),
        neighbours=looked.files.neighbours,
    )
    return msgspec.convert(_printable(msgspec.to_builtins(diagnosis)), Diagnosis)


def _printable(value: Any) -> Any:
    match value:
        case str():
            return escape(value)
        case dict():
            return {key: _printable(item) for key, item in value.items()}
        case list() | tuple():
            return [_printable(item) for item in value]
        case _:
            return value


# ── What counts ─────────────────────────────────────────────────────────────────────────────────────────────


def _is_refuted(finding: Finding, browsers: Sequence[KnownBrowser]) -> bool:
    """An extension that was loaded for the moment leaves no trace in the profile, and yet it is there."""
    with_hosts = {browser.title for browser in browsers if browser.profiles or browser.unlinked}
    return finding.code == NOT_THERE and finding.where in with_hosts


def _as_wanted(finding: Finding, looked: Looked) -> Finding:
    """That another product's host cannot be started concerns us where its channel is to be used."""
    if looked.wants_channels and finding.code == WRAPPER_GONE:
        return msgspec.structs.replace(finding, level="warning")
    return finding


def _judged(
    files: Sequence[Finding],
    shared: Sequence[Finding],
    browsers: Sequence[KnownBrowser],
    *,
    has_other: bool = False,
) -> list[Finding]:
    """What files tell is a fault where it keeps somebody from connecting who has the extension.

    While nobody has it, nor means to use another product's, each browser may be the one that is meant.
    """
    roles = {browser.title: browser.role for browser in browsers}
    has_any = has_other or any(role != "unused" for role in roles.values())
    # What concerns all browsers is as bad as it is for the one that still has to connect.
    all_of_them = "has the extension" if "has the extension" in roles.values() or not has_any else "connected"
    stopped = {finding.where for finding in (*files, *shared) if finding.level == "fault"}
    is_all_stopped = not stopped <= roles.keys()

    def level(finding: Finding) -> Level:
        role = roles.get(finding.where, all_of_them)
        if finding.level == "fault" and (role == "connected" or (role == "unused" and has_any)):
            return "warning"
        if finding.code == NOT_THERE and not (has_any or is_all_stopped or finding.where in stopped):
            return "fault"
        return finding.level

    return [msgspec.structs.replace(finding, level=level(finding)) for finding in files]


def _threats(
    files: Sequence[Finding], judged: Sequence[Finding], browsers: Sequence[KnownBrowser]
) -> list[Finding]:
    """What will keep a browser from connecting again that is connected now."""
    unused = {browser.title for browser in browsers if browser.role == "unused"}
    return [
        after
        for before, after in zip(files, judged, strict=True)
        if before.level == "fault" != after.level and after.where not in unused
    ]


def _live(browsers: Sequence[KnownBrowser], judged: Sequence[Finding], looked: Looked) -> Iterator[Finding]:
    """What a running chain tells, and that there is none."""
    is_any_connected = any(browser.role == "connected" for browser in browsers)
    stopped = {finding.where for finding in judged if finding.level == "fault"}
    for browser in browsers:
        for profile in browser.profiles:
            findings = findings_of(profile, browser.title, looked.now)
            yield from _named(findings, profile if len(browser.profiles) > 1 else None)
        yield from (unlinked(host, browser.title) for host in browser.unlinked)
        is_silent = not (browser.profiles or browser.unlinked) and browser.title not in stopped
        if browser.role == "has the extension" and browser.is_startable and is_silent:
            yield from _not_connected(browser, looked.hosts.get(browser.pid, 0), is_any_connected)


def _of_others(looked: Looked, browsers: Sequence[KnownBrowser]) -> Iterator[Finding]:
    """Of another product's extension, which may be all that somebody means to use."""
    roles = {browser.role for browser in browsers}
    works = "connected" in roles or any(channel.is_usable for channel in looked.channels)
    is_all = not (works or "has the extension" in roles)
    for channel in looked.channels:
        where = title_of_process(channel.browser_pid, looked.files)
        level = _weight(channel, looked, works=works)
        for finding in channel_findings(channel):
            yield msgspec.structs.replace(finding, level=level, where=where)
    is_none_there = all(channel.is_left for channel in looked.channels)
    if looked.is_attached and is_none_there and not (works or looked.is_partial):
        yield missing_channel("fault" if is_all else "warning", looked.only_directory)


def _weight(channel: Channel, looked: Looked, *, works: bool) -> Level:
    """What is another product's is for information, unless somebody wants to use it and cannot."""
    if channel.is_left or channel.is_usable:
        return "note"
    if looked.wants_channels:
        return "warning" if works else "fault"
    return "warning" if looked.is_published and channel.path else "note"


def _not_connected(browser: KnownBrowser, host_elsewhere: int, is_any_connected: bool) -> Iterator[Finding]:
    title = browser.title
    if host_elsewhere:
        text = (
            f"{title} runs a native host (process {host_elsewhere}) that is not to be found where this mcpb "
            "looks: another installation started it, or it had another MCPB_HOME. Use that one; or restart "
            "the browser, which then starts this one's"
        )
        yield Finding(code="connected-elsewhere", hop="host", text=text, where=title)
    elif browser.pid:
        text = (
            f"{title} runs and can start the native host, and yet is not connected. Open the popup of "
            "the extension: it connects at once, or says why not. Without that it may take a minute"
        )
        yield Finding(code="not-connected", hop="host", text=text, where=title)
    elif not is_any_connected:
        text = f"{title} does not run; start it"
        yield Finding(code="not-running", hop="browser", text=text, where=title, level="warning")


def _named(findings: Iterable[Finding], profile: SeenBrowser | None) -> Iterator[Finding]:
    for finding in findings:
        if profile is None:
            yield finding
        else:
            called = f"profile “{profile.label}”" if profile.label else f"host {profile.host}"
            yield msgspec.structs.replace(finding, text=f"{called}: {finding.text}")


def _called(finding: Finding, called: str) -> Finding:
    """A terminal may know this mcpb by another name."""
    return msgspec.structs.replace(finding, command=_OURS.sub(lambda _: called, finding.command))


def _order(browsers: Sequence[KnownBrowser]) -> Callable[[Finding], tuple[int, int, int]]:
    later = {
        browser.title: 1 if browser.is_startable else 2 for browser in browsers if browser.role == "unused"
    }
    return lambda finding: (
        _WORST_FIRST.index(finding.level),
        later.get(finding.where, 0),
        HOPS.index(finding.hop),
    )


# ── What is put right ───────────────────────────────────────────────────────────────────────────────────────


def _fix(findings: Sequence[Finding], called: str) -> str:
    is_wanted = any(finding.is_safe and finding.level != "note" for finding in findings)
    return f"{called} doctor --fix" if is_wanted else ""


def _left(browsers: Sequence[KnownBrowser], findings: Sequence[Finding]) -> Iterator[str]:
    unused = {browser.title for browser in browsers if browser.role == "unused"}
    for finding in findings:
        is_only_unused = finding.level != "fault" and finding.where in unused
        if finding.command and finding.level != "note" and not is_only_unused:
            why = " (which browsers start mcpb is yours to say)" if finding.code in _FOR_THE_PERSON else ""
            yield f"Not mine to mend{why}: {_blamed(finding)}; run {finding.command}"


# ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────


def _report(browser: KnownBrowser, findings: Sequence[Finding]) -> BrowserReport:
    its = [finding for finding in findings if finding.where == browser.title]
    return BrowserReport(
        title=browser.title,
        name=browser.target.browser if browser.target else "",
        state=_state(browser, its),
        hops=tuple(_hops(_details(browser), its)),
        seen=browser.profiles,
    )


def _state(browser: KnownBrowser, its: Sequence[Finding]) -> Literal["works", "broken", "idle"]:
    if browser.role == "connected":
        return "works"
    if any(finding.level == "fault" for finding in its):
        return "broken"
    target = browser.target
    return "idle" if target is None or target.is_startable or target.is_removed else "broken"


def _details(browser: KnownBrowser) -> dict[Hop, str]:
    """What there is to say of each hop that was reached."""
    found: dict[Hop, str] = {}
    profiles = browser.profiles
    if browser.target and browser.target.is_startable:
        found["manifest"] = browser.target.manifest
    if browser.pid or profiles:
        found["browser"] = ", ".join(profile.title for profile in profiles) or "runs"
    if profiles:
        found["host"] = ", ".join(f"mcpb {seen.host_version}, pid {seen.host_pid}" for seen in profiles)
    if known := [seen for seen in profiles if seen.brand]:
        found["extension"] = ", ".join(map(_extension, known))
    if known := [seen for seen in known if not seen.is_channel]:
        times = [f"answers in {seen.answered_ms:g} ms" for seen in known if seen.answered_ms is not None]
        found["worker"] = ", ".join(times)
        found["page"] = _counted(sum(seen.tools for seen in known), "tool")
    return found


def _extension(seen: SeenBrowser) -> str:
    return f"{seen.brand}, another product's" if seen.is_channel else f"version {seen.extension_version}"


def _shared_hops(
    details: Mapping[Hop, str], findings: Sequence[Finding], browsers: Sequence[KnownBrowser]
) -> Iterator[HopReport]:
    titles = {browser.title for browser in browsers}
    return _hops(details, [finding for finding in findings if finding.where not in titles])


def _hops(details: Mapping[Hop, str], findings: Sequence[Finding]) -> Iterator[HopReport]:
    for hop in HOPS:
        levels = {finding.level for finding in findings if finding.hop == hop}
        if levels or hop in details:
            worst: State = next((level for level in _WORST_FIRST if level in levels), "ok")
            yield HopReport(hop=hop, state=worst, text=details.get(hop, ""))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# ── In one sentence ─────────────────────────────────────────────────────────────────────────────────────────


def _verdict(
    browsers: Sequence[KnownBrowser],
    channels: Sequence[Channel],
    findings: Sequence[Finding],
    threats: Sequence[Finding],
) -> str:
    """`channels` are those that are to be used, and can be."""
    working = [browser for browser in browsers if browser.role == "connected"]
    faults = [finding for finding in findings if finding.level == "fault"]
    if not (working or channels or faults):
        return _waiting([finding.where for finding in findings if finding.code == "not-running"])
    if not (working or channels):
        return f"It does not work: {_ended(_blamed(faults[0]))}"
    parts = {
        "Connected": ", ".join(map(_connected, working)),
        "Existing channel": " and ".join(channel.title for channel in channels),
    }
    connected = " ".join(f"{what}: {which}." for what, which in parts.items() if which)
    if worst := [*faults, *(threats if working else ())]:
        return f"{connected} But {_ended(_blamed(worst[0]))}"
    left = [
        browser.title
        for browser in browsers
        if browser.role == "unused" and browser.target and not browser.target.is_removed
        if not browser.is_startable
    ]
    unused = f" Not {' nor '.join(left)}, where the extension is not seen either." if left else ""
    return f"It works. {connected}{unused}"


def _waiting(titles: Sequence[str]) -> str:
    if len(titles) == 1:
        return f"Nothing is wrong, but {titles[0]} is not running. Start it."
    if titles:
        return f"Nothing is wrong, but {' and '.join(titles)} are not running. Start one."
    return "Nothing is wrong, but no browser is connected. Start one that has the extension."


def _connected(browser: KnownBrowser) -> str:
    if all(seen.is_channel for seen in browser.profiles):
        return f"{browser.title} (another product's extension)"
    return f"{browser.title} ({_counted(sum(seen.tools for seen in browser.profiles), 'tool')})"


def _blamed(finding: Finding) -> str:
    where = "" if finding.where in finding.text else f"{finding.where}: "
    return f"{where}{finding.text.removesuffix('.')}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith(("?", "!")) else f"{sentence}."
