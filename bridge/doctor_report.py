"""The report of `mcpb doctor`: what files tell and what a running chain tells, browser by browser.

Its shape is that of `--json` and is stable: docs/TROUBLESHOOTING.md describes it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

import msgspec

from bridge import __version__
from bridge.doctor import SeenBrowser, findings_of
from install.examination.findings import Finding, Hop, Level
from install.examination.lookup import TargetReport
from install.examination.neighbours import Neighbour
from install.examination.report import Report
from install.examination.running import RunningBrowser

State = Literal["ok", "note", "warning", "fault"]
HOPS: tuple[Hop, ...] = get_args(Hop)
_WORST_FIRST: tuple[Level, ...] = get_args(Level)
_NOT_THERE = "extension-missing"


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
    fixed: tuple[str, ...] = ()
    """What `--fix` did."""
    hops: tuple[HopReport, ...] = ()
    """What all browsers share."""
    browsers: tuple[BrowserReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Faults first; then in the order of the hops, of one hop what a browser stumbles over first."""
    neighbours: tuple[Neighbour, ...] = ()
    """Native hosts of other products: for information."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found, before it is judged."""

    files: Report
    shared: Sequence[Finding] = ()
    """Of what all browsers share: the environment, the sockets."""
    seen: Sequence[SeenBrowser] = ()
    running: Sequence[RunningBrowser] = ()
    details: Mapping[Hop, str] = {}
    """What is there, of the hops that all browsers share."""
    fixed: Sequence[str] = ()
    is_partial: bool = False
    """Only the browsers of `files` were asked for."""


def diagnose(looked: Looked) -> Diagnosis:
    """The report. What stops a browser that has no extension of ours is no fault while another works."""
    seen = _by_title(looked)
    findings = [*looked.shared, *(item for item in looked.files.findings if not _is_refuted(item, seen))]
    for title, profiles in seen.items():
        for browser in profiles:
            findings += _named(findings_of(browser, title), browser if len(profiles) > 1 else None)
    working = {
        title
        for title, profiles in seen.items()
        if any(profile.answered_ms is not None for profile in profiles)
    }
    findings = list(_judged(findings, looked, working))
    findings.sort(key=lambda finding: (_WORST_FIRST.index(finding.level), HOPS.index(finding.hop)))
    browsers = tuple(_browsers(looked, seen, findings))
    return Diagnosis(
        healthy=all(finding.level != "fault" for finding in findings),
        verdict=_verdict(browsers, findings),
        fixed=tuple(looked.fixed),
        hops=tuple(_shared_hops(looked, findings, {browser.title for browser in browsers})),
        browsers=browsers,
        findings=tuple(findings),
        neighbours=looked.files.neighbours,
    )


# ── Which browser is which ──────────────────────────────────────────────────────────────────────────────────


def _by_title(looked: Looked) -> dict[str, list[SeenBrowser]]:
    """The connected browsers under the titles that the examination has for them."""
    titles = {target.title for target in looked.files.targets}
    found: dict[str, list[SeenBrowser]] = {}
    for browser in looked.seen:
        title = _title(browser, looked)
        if title in titles or not looked.is_partial:
            found.setdefault(title, []).append(browser)
    return found


def _title(browser: SeenBrowser, looked: Looked) -> str:
    """By its process; a confined browser's host is started by another one: then by kind and brand."""
    for running in looked.running:
        if running.pid == browser.browser_pid and (target := _target_of(running, looked.files.targets)):
            return target.title
    kind = "firefox" if browser.is_firefox else "chromium"
    titles = [target.title for target in looked.files.targets if target.kind == kind]
    if len(titles) == 1:
        return titles[0]
    return next((title for title in titles if browser.brand and browser.brand in title), browser.title)


def _target_of(running: RunningBrowser, targets: Sequence[TargetReport]) -> TargetReport | None:
    """The folder in which a running browser looks, as far as its row and its command line tell."""
    if running.user_data_dir is not None:
        own = f"{running.user_data_dir}/"
        return next((target for target in targets if target.manifest.startswith(own)), None)
    named = (target for target in targets if target.browser == running.browser.name)
    titled = (target for target in targets if running.browser.title in target.title.split(", "))
    return next(named, None) or next(titled, None)


def _runs(title: str, looked: Looked) -> bool:
    targets = (_target_of(running, looked.files.targets) for running in looked.running)
    return any(target is not None and target.title == title for target in targets)


def _is_refuted(finding: Finding, seen: Mapping[str, object]) -> bool:
    """An extension that was loaded for the moment leaves no trace in the profile, and yet it is there."""
    return finding.code == _NOT_THERE and finding.where in seen


def _named(findings: Iterable[Finding], profile: SeenBrowser | None) -> Iterator[Finding]:
    for finding in findings:
        if profile is None:
            yield finding
        else:
            called = f"profile “{profile.label}”" if profile.label else f"host {profile.host}"
            yield msgspec.structs.replace(finding, text=f"{called}: {finding.text}")


# ── What counts ─────────────────────────────────────────────────────────────────────────────────────────────


def _judged(findings: Sequence[Finding], looked: Looked, working: set[str]) -> Iterator[Finding]:
    unused = {finding.where for finding in findings if finding.code == _NOT_THERE} - working
    stopped = {finding.where for finding in findings if finding.level == "fault"}
    is_all_stopped = not stopped <= {target.title for target in looked.files.targets}
    for finding in findings:
        if finding.level == "fault" and finding.where in unused and working:
            yield msgspec.structs.replace(finding, level="warning")
        elif finding.code == _NOT_THERE and not (working or is_all_stopped or finding.where in stopped):
            yield msgspec.structs.replace(finding, level="fault")
        else:
            yield finding
    for target in looked.files.targets:
        if target.is_startable and not {target.title} & (working | stopped | unused):
            yield from _not_connected(target, looked, working)


def _not_connected(target: TargetReport, looked: Looked, working: set[str]) -> Iterator[Finding]:
    if any(_title(browser, looked) == target.title for browser in looked.seen):
        return  # its silence is a finding of its own
    if _runs(target.title, looked):
        text = (
            f"{target.title} runs and can start the native host, and yet is not connected. Open the popup of "
            "the extension: it connects at once, or says why not. Without that it may take a minute"
        )
        yield Finding(code="not-connected", hop="host", text=text, where=target.title)
    elif not working:
        text = f"{target.title} does not run; start it"
        yield Finding(code="not-running", hop="browser", text=text, where=target.title, level="warning")


# ── The parts ───────────────────────────────────────────────────────────────────────────────────────────────


def _browsers(
    looked: Looked, seen: Mapping[str, list[SeenBrowser]], findings: Sequence[Finding]
) -> Iterator[BrowserReport]:
    targets = {target.title: target for target in looked.files.targets}
    for title in dict.fromkeys([*targets, *seen]):
        target, profiles = targets.get(title), seen.get(title, [])
        its = [finding for finding in findings if finding.where == title]
        details = _details(target, profiles, _runs(title, looked))
        yield BrowserReport(
            title=title,
            name=target.browser if target else "",
            state=_state(target, profiles, its),
            hops=tuple(_hops(details, its)),
            seen=tuple(profiles),
        )


def _state(
    target: TargetReport | None, profiles: Sequence[SeenBrowser], its: Sequence[Finding]
) -> Literal["works", "broken", "idle"]:
    if any(finding.level == "fault" for finding in its):
        return "broken"
    if any(profile.answered_ms is not None for profile in profiles):
        return "works"
    return "idle" if target is None or target.is_startable or target.is_removed else "broken"


def _details(
    target: TargetReport | None, profiles: Sequence[SeenBrowser], is_running: bool
) -> dict[Hop, str]:
    """What there is to say of each hop that was reached."""
    found: dict[Hop, str] = {}
    if target and target.is_startable:
        found["manifest"] = target.manifest
    if is_running or profiles:
        found["browser"] = ", ".join(profile.title for profile in profiles) or "runs"
    if profiles:
        found["host"] = ", ".join(f"mcpb {seen.host_version}, pid {seen.host_pid}" for seen in profiles)
    if known := [seen for seen in profiles if seen.brand]:
        found["extension"] = ", ".join(f"version {seen.extension_version}" for seen in known)
        times = [f"answers in {seen.answered_ms:g} ms" for seen in known if seen.answered_ms is not None]
        found["worker"] = ", ".join(times)
        found["page"] = _counted(sum(seen.tools for seen in known), "tool")
    return found


def _shared_hops(looked: Looked, findings: Sequence[Finding], titles: set[str]) -> Iterator[HopReport]:
    return _hops(looked.details, [finding for finding in findings if finding.where not in titles])


def _hops(details: Mapping[Hop, str], findings: Sequence[Finding]) -> Iterator[HopReport]:
    for hop in HOPS:
        levels = {finding.level for finding in findings if finding.hop == hop}
        if levels or hop in details:
            worst: State = next((level for level in _WORST_FIRST if level in levels), "ok")
            yield HopReport(hop=hop, state=worst, text=details.get(hop, ""))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# ── In one sentence ─────────────────────────────────────────────────────────────────────────────────────────


def _verdict(browsers: Sequence[BrowserReport], findings: Sequence[Finding]) -> str:
    working = [browser for browser in browsers if browser.state == "works"]
    faults = [finding for finding in findings if finding.level == "fault"]
    if not (working or faults):
        return "Nothing is wrong, but no browser is connected. Start one that has the extension."
    if not working:
        return f"It does not work: {_blamed(faults[0])}."
    connected = f"Connected: {', '.join(map(_connected, working))}."
    if faults:
        return f"{connected} But {_blamed(faults[0])}."
    left = [browser.title for browser in browsers if browser.state == "broken"]
    unused = f" Not {' nor '.join(left)}, where the extension is not seen either." if left else ""
    return f"It works. {connected}{unused}"


def _connected(browser: BrowserReport) -> str:
    return f"{browser.title} ({_counted(sum(seen.tools for seen in browser.seen), 'tool')})"


def _blamed(fault: Finding) -> str:
    where = "" if fault.where in fault.text or not fault.where else f"{fault.where}: "
    return f"{where}{fault.text.removesuffix('.')}"
