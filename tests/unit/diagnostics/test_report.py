"""What `mcpb doctor` makes of what files tell and of what browsers say that are connected."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.cli.doctor_output import as_text
from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.browser_checks import (
    Answer,
    ObservedBrowser,
    UnlinkedHost,
    findings_of,
    observe_browsers,
    unlinked_finding,
)
from bridge.diagnostics.browser_matching import Observations
from bridge.diagnostics.redaction import make_redacted_report
from bridge.diagnostics.remote_status import describe_remote
from bridge.diagnostics.report import DoctorReport, explain_disconnection, make_report
from bridge.hub.catalog import Catalog
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.public_names import MAX_NAME
from bridge.hub.registry import Registry
from bridge.hub.transport import HostDiscovered, HostLinked
from bridge.state.pause_control import Target
from bridge.state.remote_records import BridgeRecord, RemoteRecord
from fake_transport import browser_hello, connect, host_hello, one_page, tab, tools
from install.browsers import Kind, find_browser, known_browsers
from install.checks.check_report import Report
from install.checks.existing_channel import Channel, ChannelClient
from install.checks.manifest_lookup import TargetReport
from install.checks.other_hosts import OtherHost
from install.checks.running_browsers import RunningBrowser, hosts_started_by
from install.findings import (
    Command,
    Finding,
    FindingCode,
    Mcpb,
    Message,
    Part,
    Privacy,
    Value,
    foreign_value,
    mcpb_command,
    path_value,
    public_value,
)
from install.machine import Machine
from native_host.existing_channel.published_socket import PublishedSocket
from native_host.protocol import wire

BANK = "https://bank.example"
CHROMIUM_NAME = public_value("Chromium")


def seen(
    *announcements: wire.Wire, answer: Answer = 0.002, rules: PolicyRules | None = None
) -> ObservedBrowser:
    """One connected browser that has said all this."""
    registry = Registry()
    connect(registry, "h1", *announcements)
    (browser,) = observe_browsers(registry, Catalog(registry, MAX_NAME, Policy(rules)), {"h1": answer})
    return browser


def hello(**fields: Any) -> wire.BrowserHello:
    return msgspec.structs.replace(browser_hello(), **fields)


def codes(browser: ObservedBrowser) -> list[str]:
    return [finding.code for finding in findings_of(browser, CHROMIUM_NAME)]


# ── A browser that is connected ─────────────────────────────────────────────────────────────────────────────


def test_a_browser_whose_page_offers_a_tool_has_nothing_wrong() -> None:
    browser = seen(*one_page("getCart"))
    assert codes(browser) == []
    assert (browser.title, browser.tools, browser.answered_ms) == ("Chromium 156", 1, 2.0)


def test_without_an_offer_the_last_link_is_missing() -> None:
    (finding,) = findings_of(seen(wire.Tabs(tabs=[])), CHROMIUM_NAME)
    assert (finding.code, finding.level, finding.where) == ("page-offers-nothing", "note", CHROMIUM_NAME)


def test_an_extension_that_does_not_answer_is_named_with_what_came_instead() -> None:
    browser = seen(*one_page("getCart"), answer="3 s have passed")
    (finding,) = findings_of(browser, CHROMIUM_NAME)
    assert (finding.code, finding.hop) == ("extension-no-answer", "worker")
    assert "3 s have passed" in finding.text
    assert browser.answered_ms is None


def test_a_host_whose_extension_says_nothing_is_shown_although_no_browser_is_known() -> None:
    registry = Registry()
    registry.on_event(HostDiscovered("h1", 1.0), 0.0)
    registry.on_event(HostLinked("h1", host_hello("h1")), 0.0)
    (browser,) = observe_browsers(registry, Catalog(registry, MAX_NAME, Policy()), {})
    assert codes(browser) == ["extension-silent"]


def test_another_version_of_the_extension_is_renewed_by_the_command_for_its_kind_of_browser() -> None:
    old = hello(extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.0.9"))
    browser = seen(old, *one_page("getCart"))
    commands = {
        finding.command_line
        for caller in (f"chrome-extension://{wire.EXTENSION_ID}/", wire.FIREFOX_ID)
        for finding in findings_of(msgspec.structs.replace(browser, caller=caller), CHROMIUM_NAME)
    }
    assert commands == {"mcpb extension", "mcpb extension --firefox"}


def test_what_the_extension_met_with_before_is_told_as_past_with_its_time_in_the_browser_s_words() -> None:
    trouble = wire.Trouble(attempts=3, reason="Native host has \x1b exited.", at=100_000.0)
    browser = seen(hello(trouble=trouble), *one_page("getCart"))
    (finding,) = findings_of(browser, CHROMIUM_NAME, now=100.0 + 185)
    assert (finding.code, finding.level) == ("extension-reported", "note")
    assert "it is connected now. Earlier (3 minutes ago) the connection failed, 3 times" in finding.text
    assert "Native host has" in finding.text
    assert "\x1b" not in finding.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "less than a minute ago"),
        (59, "less than a minute ago"),
        (60, "1 minute ago"),
        (7300, "2 hours ago"),
        (200_000, "2 days ago"),
    ],
)
def test_the_time_of_past_trouble_is_told_in_one_unit(seconds: float, words: str) -> None:
    trouble = wire.Trouble(attempts=1, reason="", at=0.0)
    (finding,) = findings_of(seen(hello(trouble=trouble), *one_page("getCart")), CHROMIUM_NAME, now=seconds)
    assert f"({words})" in finding.text


def test_of_two_hosts_of_one_profile_the_one_that_took_over_is_shown() -> None:
    registry = Registry()
    connect(registry, "h1", *one_page("getCart"), started_at=1.0)
    connect(registry, "h2", *one_page("getCart"), started_at=2.0)
    (browser,) = observe_browsers(registry, Catalog(registry, MAX_NAME, Policy()), {})
    assert browser.host == "h2"


def test_an_extension_that_is_kept_out_of_sites_is_at_fault_where_no_other_site_offers_a_tool() -> None:
    kept_out = hello(sites_allowed=False)
    silent = wire.Tabs(tabs=[tab(1, status="complete")])
    fault, note = findings_of(seen(kept_out, silent), CHROMIUM_NAME)
    assert (fault.code, fault.hop, fault.level) == ("sites-not-allowed", "extension", "fault")
    assert note.code == "page-offers-nothing"  # and nobody is told to reload what would still be closed
    (warning,) = findings_of(seen(kept_out, *one_page("getCart")), CHROMIUM_NAME)
    assert (warning.code, warning.level) == ("sites-not-allowed", "warning")


def test_an_older_host_that_still_runs_is_named() -> None:
    browser = msgspec.structs.replace(seen(*one_page("getCart")), host_version="0.0.9")
    assert codes(browser) == ["host-outdated"]


def test_tools_that_the_rules_forbid_are_not_taken_for_missing_ones() -> None:
    browser = seen(*one_page("getCart"), rules=PolicyRules(deny=("https://shop.example",)))
    (finding,) = findings_of(browser, CHROMIUM_NAME)
    assert finding.code == "tools-forbidden"
    assert 'policy.deny has "https://shop.example"' in finding.text


def test_a_page_without_our_content_script_needs_to_be_loaded_again() -> None:
    silent = tab(2, BANK, title="Bank", status="complete")
    browser = seen(wire.Tabs(tabs=[tab(1), silent]), tools(1, "getCart"))
    (finding,) = findings_of(browser, CHROMIUM_NAME)
    assert (finding.code, finding.level) == ("tab-needs-reload", "warning")
    assert "1 tab: “Bank” (https://bank.example)" in finding.text


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("https://bank.example/", {"incognito": True}),
        ("https://bank.example/", {"discarded": True}),
        ("https://bank.example/", {"error_page": True}),
        ("https://bank.example/", {"status": "loading"}),
        ("chrome://settings/", {}),
        ("about:blank", {}),
        ("file:///tmp/page.html", {}),
        ("https://chromewebstore.google.com/detail/x", {}),
        ("https://addons.mozilla.org/en-US/firefox/", {}),
        ("https://[", {}),
    ],
)
def test_no_reload_is_asked_for_where_it_would_not_help(url: str, fields: Mapping[str, Any]) -> None:
    other = msgspec.structs.replace(tab(2, BANK, **fields), url=url)
    assert codes(seen(wire.Tabs(tabs=[tab(1), other]), tools(1, "getCart"))) == []


def test_of_many_tabs_a_few_are_named() -> None:
    tabs = [tab(number, f"https://s{number}.example") for number in range(1, 7)]
    (finding, _) = findings_of(seen(wire.Tabs(tabs=tabs)), CHROMIUM_NAME)
    assert "6 tabs: " in finding.text
    assert "https://s3.example" in finding.text
    assert "https://s4.example" not in finding.text
    assert "and 3 more" in finding.text


# ── Hosts that are not linked ───────────────────────────────────────────────────────────────────────────────


def silent(browser_pid: int = 100, **fields: Any) -> UnlinkedHost:
    """A host that lives and cannot be spoken with."""
    caller = f"chrome-extension://{wire.EXTENSION_ID}/"
    known = {"reason": "it says nothing", "host_version": "0.2.0", **fields}
    return UnlinkedHost(host="3fa2b1c0", host_pid=4711, browser_pid=browser_pid, caller=caller, **known)


def test_a_host_that_cannot_be_spoken_with_is_named_with_its_process_and_its_browser_s() -> None:
    finding = unlinked_finding(silent(), CHROMIUM_NAME)
    assert (finding.code, finding.level, finding.hop) == ("host-not-linked", "fault", "socket")
    assert "process 4711, started by Chromium, process 100" in finding.text
    assert "it says nothing" in finding.text


def test_a_host_of_another_wire_is_a_fault_of_its_own_kind() -> None:
    host = silent(reason="it speaks wire version 0", is_final=True, command=mcpb_command("extension"))
    finding = unlinked_finding(host, CHROMIUM_NAME)
    assert (finding.code, finding.text) == ("wire-version", "it speaks wire version 0")
    assert finding.command == mcpb_command("extension")


# ── The whole ───────────────────────────────────────────────────────────────────────────────────────────────


def target(title: str = "Chromium", browser: str = "chromium", **fields: Any) -> TargetReport:
    kind: Kind = "firefox" if browser == "firefox" else "chromium"
    manifest = f"/home/ada/{browser}/host.json"
    known = {"name": public_value(title), "manifest": manifest, "is_startable": True, **fields}
    return TargetReport(browser=browser, kind=kind, **known)


def fault(
    where: Part | str = "Chromium",
    code: str = "manifest-missing",
    text: Part | str = "there is no manifest",
    command: str = "",
    **fields: Any,
) -> Finding:
    return Finding(
        code=FindingCode(code),
        template="{text}",
        values={"text": public_value(text) if isinstance(text, str) else text},
        command=make_command(command) if command else None,
        where=public_value(where) if isinstance(where, str) else where,
        **{"hop": "manifest", **fields},
    )


def make_command(line: str) -> Command:
    return Command(tuple(Mcpb.NAME if word == "mcpb" else word for word in shlex.split(line)))


def without_extension(where: str) -> Finding:
    finding = fault(where, "extension-missing", hop="extension", level="warning")
    template, values = "No profile of {browser} has the extension", {"browser": public_value(where)}
    return msgspec.structs.replace(finding, template=template, values=values)


def runs(name: str, pid: int = 100, user_data_dir: Path | None = None) -> RunningBrowser:
    browser = find_browser(name, known_browsers())
    assert browser is not None
    return RunningBrowser(pid, browser, f"/usr/bin/{name}", user_data_dir)


CHROMIUM, FIREFOX = target(), target("Firefox", "firefox")
UNSTARTABLE = target(is_startable=False)


def observed(
    *targets: TargetReport,
    findings: Sequence[Finding] = (),
    running: Sequence[RunningBrowser] = (),
    neighbours: Sequence[OtherHost] = (),
    **looked: Any,
) -> Observations:
    files = Report(
        targets=targets, findings=tuple(findings), running=tuple(running), neighbours=tuple(neighbours)
    )
    return Observations(files=files, **looked)


def judged(*targets: TargetReport, **looked: Any) -> DoctorReport:
    return make_report(observed(*targets, **looked))


def levels(found: DoctorReport) -> dict[str, str]:
    return {finding.code: finding.level for finding in found.findings}


NOT_CONNECTED = (
    "Chromium runs and can start the native host, but is not connected. Open the popup of the extension: it "
    "connects at once, or shows the reason. Without that it may take a minute."
)


@pytest.mark.parametrize(
    ("looked", "text", "commands"),
    [
        (observed(CHROMIUM), "Chromium is not running. Start it.", ()),
        (observed(CHROMIUM, FIREFOX), "Chromium and Firefox are not running. Start one.", ()),
        (
            observed(UNSTARTABLE, findings=[fault(command="mcpb install-native-host --browser chromium")]),
            "Chromium: there is no manifest. Run: mcpb install-native-host --browser chromium",
            ("mcpb install-native-host --browser chromium",),
        ),
        (
            observed(CHROMIUM, findings=[without_extension("Chromium")], running=[runs("chromium")]),
            "No profile of Chromium has the extension.",
            (),
        ),
        (observed(CHROMIUM, running=[runs("chromium")]), NOT_CONNECTED, ()),
        (
            observed(),
            "No browser is connected. Start one that has the extension. To find out more, run: mcpb doctor",
            ("mcpb doctor",),
        ),
    ],
)
def test_a_missing_connection_is_explained_by_the_first_cause_and_its_command(
    looked: Observations, text: str, commands: tuple[str, ...]
) -> None:
    found = explain_disconnection(looked)
    assert (str(found), found.commands) == (text, commands)


def test_a_browser_that_works_is_healthy_and_each_of_its_hops_is_shown() -> None:
    found = judged(CHROMIUM, seen=[seen(*one_page("getCart"))])
    assert found.healthy
    assert found.verdict == "It works. Connected: Chromium (1 tool)."
    (browser,) = found.browsers
    assert browser.state == "works"
    hops = ["manifest", "browser", "host", "extension", "worker", "page"]
    assert [(hop.hop, hop.state) for hop in browser.hops] == [(hop, "ok") for hop in hops]


def test_a_chain_that_works_and_is_paused_names_what_is_paused_and_how_to_resume_it() -> None:
    client = Target(session="5e5510110000", title="Claude Code")
    paused = [Target(site="https://bank.example"), client]
    found = judged(CHROMIUM, seen=[seen(*one_page("getCart"))], paused=paused)
    assert found.healthy
    assert [(finding.code, finding.level, finding.command) for finding in found.findings] == [
        ("paused", "warning", "mcpb pause https://bank.example --resume"),
        ("paused", "warning", "mcpb pause 5e551011 --resume"),
    ]
    assert found.verdict == (
        "Connected: Chromium (1 tool). But the user paused https://bank.example: calls are rejected. "
        "Resume it in the popup, or run the command."
    )


@pytest.mark.parametrize(("current_copies", "command"), [({"firefox"}, "mcpb extension"), ({"chromium"}, "")])
def test_a_chain_with_an_extension_of_another_version_works_but_for_its_reload(
    current_copies: set[Kind], command: str
) -> None:
    """A copy of this version is there already: only the reload is left."""
    old = hello(extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.0.9"))
    found = judged(CHROMIUM, seen=[seen(old, *one_page("getCart"))], current_copies=current_copies)
    (finding,) = found.findings
    assert (finding.code, finding.level, finding.command) == ("extension-old", "warning", command)
    assert "But Chromium: the extension is version 0.0.9" in found.verdict


def test_what_stops_a_browser_is_the_verdict_and_comes_first() -> None:
    wrapper = fault("", "wrapper-version", "the wrapper is older", hop="wrapper", level="warning")
    found = judged(UNSTARTABLE, findings=[wrapper, fault()])
    assert not found.healthy
    assert found.verdict == "Broken: Chromium: there is no manifest."
    assert [finding.code for finding in found.findings] == ["manifest-missing", "wrapper-version"]
    assert found.browsers[0].state == "broken"


def test_faults_stand_in_the_order_in_which_a_browser_meets_them() -> None:
    findings = [
        fault(code="host-exits", hop="host"),
        fault(code="manifest-name"),
        fault(code="program-shebang", hop="wrapper", where=""),
        fault(code="origin-missing"),
    ]
    found = judged(UNSTARTABLE, findings=findings)
    codes = ["program-shebang", "manifest-name", "origin-missing", "host-exits"]
    assert [finding.code for finding in found.findings] == codes


def test_one_browser_that_works_and_one_that_does_not_are_both_in_the_verdict() -> None:
    broken = target("Firefox", "firefox", is_startable=False)
    found = judged(CHROMIUM, broken, findings=[fault("Firefox")], seen=[seen(*one_page("getCart"))])
    assert not found.healthy
    assert found.verdict == "Connected: Chromium (1 tool). But Firefox: there is no manifest."
    assert [browser.state for browser in found.browsers] == ["works", "broken"]


def test_a_browser_without_the_extension_is_no_fault_while_another_works() -> None:
    broken = target("Firefox", "firefox", is_startable=False)
    findings = [fault("Firefox"), without_extension("Firefox")]
    works = judged(CHROMIUM, broken, findings=findings, seen=[seen(*one_page("getCart"))])
    assert works.healthy
    assert works.verdict == (
        "It works. Connected: Chromium (1 tool). Not Firefox, where the extension is not seen either."
    )
    assert levels(works) == {"manifest-missing": "warning", "extension-missing": "warning"}
    alone = judged(broken, findings=findings)
    assert levels(alone) == {"manifest-missing": "fault", "extension-missing": "warning"}


def test_without_the_extension_in_any_browser_that_is_what_is_wrong() -> None:
    found = judged(CHROMIUM, findings=[without_extension("Chromium")])
    assert not found.healthy
    assert levels(found) == {"extension-missing": "fault"}


def test_a_missing_extension_is_not_blamed_for_what_stops_all_browsers() -> None:
    wrapper = fault("", "program-missing", hop="wrapper")
    found = judged(CHROMIUM, findings=[wrapper, without_extension("Chromium")])
    assert levels(found) == {"program-missing": "fault", "extension-missing": "warning"}


def test_an_extension_that_is_connected_is_not_missing_whatever_files_say() -> None:
    found = judged(CHROMIUM, findings=[without_extension("Chromium")], seen=[seen(*one_page("getCart"))])
    assert levels(found) == {}


def test_a_browser_that_runs_and_could_connect_and_does_not_is_a_fault() -> None:
    found = judged(CHROMIUM, running=[runs("chromium")])
    assert levels(found) == {"not-connected": "fault"}


def test_a_browser_that_does_not_run_is_to_be_started_and_nothing_is_wrong() -> None:
    found = judged(CHROMIUM)
    assert found.healthy
    assert levels(found) == {"not-running": "warning"}
    assert found.browsers[0].state == "idle"


def test_a_browser_that_does_not_run_is_not_mentioned_while_another_works() -> None:
    assert levels(judged(CHROMIUM, FIREFOX, seen=[seen(*one_page("getCart"))])) == {}


def test_a_connected_browser_is_known_by_its_process() -> None:
    other = target(name=path_value("/tmp/x"), manifest="/tmp/x/NMH/host.json")
    elsewhere = runs("chromium", user_data_dir=Path("/tmp/x"))
    found = judged(CHROMIUM, other, running=[elsewhere], seen=[seen(*one_page("getCart"))])
    assert [browser.state for browser in found.browsers] == ["idle", "works"]


def test_a_confined_browser_whose_host_another_process_started_is_known_by_its_brand() -> None:
    found = judged(target("Google Chrome", "chrome"), CHROMIUM, seen=[seen(*one_page("getCart"))])
    assert [browser.state for browser in found.browsers] == ["idle", "works"]


def test_a_confined_browser_is_no_fault_once_a_browser_is_connected_through_a_proxy() -> None:
    confined = fault(code="browser-confined")
    assert levels(judged(CHROMIUM, findings=[confined])) == {"browser-confined": "fault"}
    proxied = msgspec.structs.replace(seen(*one_page("getCart")), proxy="http://localhost:8765")
    found = judged(CHROMIUM, findings=[confined], seen=[proxied])
    assert (levels(found), found.healthy) == ({"browser-confined": "note"}, True)


def test_a_connected_browser_that_no_file_tells_of_is_shown_all_the_same() -> None:
    (browser,) = judged(seen=[seen(*one_page("getCart"))]).browsers
    assert (browser.title, browser.name, browser.state) == ("Chromium 156", "", "works")


@pytest.mark.parametrize("asked", [FIREFOX, target("Google Chrome", "chrome")])
def test_of_browsers_that_were_asked_for_only_those_are_shown(asked: TargetReport) -> None:
    found = judged(asked, seen=[seen(*one_page("getCart"))], is_partial=True)
    assert [(browser.title, browser.seen) for browser in found.browsers] == [(asked.title, ())]


def test_two_profiles_of_a_browser_are_told_apart() -> None:
    work = msgspec.structs.replace(seen(wire.Tabs(tabs=[])), label="Work")
    other = msgspec.structs.replace(work, label="", host="h2")
    found = judged(CHROMIUM, seen=[work, other])
    texts = [finding.text.partition(": ")[0] for finding in found.findings]
    assert texts == ["profile “Work”", "host h2"]


def test_a_browser_whose_extension_does_not_answer_does_not_work() -> None:
    found = judged(CHROMIUM, seen=[seen(*one_page("getCart"), answer="it went away")])
    assert levels(found) == {"extension-no-answer": "fault"}


# ── Whom a fault stops ──────────────────────────────────────────────────────────────────────────────────────


CHROME = target("Google Chrome", "chrome", is_startable=False)


def test_a_browser_that_is_set_up_and_closed_is_not_broken_whatever_others_lack() -> None:
    lacking = [fault(CHROME.title), without_extension(CHROME.title), without_extension("Firefox")]
    found = judged(CHROMIUM, CHROME, FIREFOX, findings=lacking)
    assert found.healthy
    assert found.verdict == "Nothing is wrong, but Chromium is not running. Start it."
    assert {finding.level for finding in found.findings} == {"warning"}


def test_faults_of_browsers_that_have_the_extension_come_before_those_of_unused_ones() -> None:
    findings = [
        fault("Google Chrome"),
        without_extension("Google Chrome"),
        fault("Chromium", "extension-disabled", hop="extension"),
        fault("", "program-missing", hop="wrapper"),
    ]
    found = judged(CHROME, CHROMIUM, findings=findings)
    codes = [finding.code for finding in found.findings]
    assert codes == ["program-missing", "extension-disabled", "manifest-missing", "extension-missing"]


def test_while_nobody_has_the_extension_a_browser_that_could_start_the_host_comes_first() -> None:
    findings = [fault("Google Chrome"), without_extension("Google Chrome"), without_extension("Chromium")]
    found = judged(CHROME, CHROMIUM, findings=findings)
    assert found.verdict == "Broken: No profile of Chromium has the extension."


@pytest.mark.parametrize("where", ["Chromium", ""])
def test_a_browser_that_is_connected_works_though_it_could_not_connect_again(where: str) -> None:
    found = judged(
        UNSTARTABLE, findings=[fault(where, text="the manifest is gone")], seen=[seen(*one_page("getCart"))]
    )
    assert found.healthy
    assert found.verdict.startswith("Connected: Chromium (1 tool). But ")
    assert found.verdict.endswith("the manifest is gone.")
    assert (levels(found), found.browsers[0].state) == ({"manifest-missing": "warning"}, "works")


def test_what_all_browsers_share_is_a_fault_while_one_has_still_to_connect() -> None:
    found = judged(CHROMIUM, FIREFOX, findings=[fault("", hop="wrapper")], seen=[seen(*one_page("getCart"))])
    assert levels(found) == {"manifest-missing": "fault"}


def test_of_two_profiles_one_of_which_answers_the_other_is_named() -> None:
    home = msgspec.structs.replace(seen(*one_page("getCart")), label="Home")
    work = msgspec.structs.replace(seen(*one_page("getCart"), answer="it went away"), label="Work", host="h2")
    found = judged(CHROMIUM, seen=[home, work])
    assert found.verdict.startswith(
        "Connected: Chromium (2 tools). But Chromium: profile “Work”: the extension"
    )
    assert (found.healthy, found.browsers[0].state) == (False, "works")


def test_a_browser_whose_host_cannot_be_spoken_with_is_not_told_to_open_the_popup() -> None:
    found = judged(CHROMIUM, running=[runs("chromium")], unlinked=[silent()])
    assert levels(found) == {"host-not-linked": "fault"}
    assert found.findings[0].where == "Chromium"


def test_a_browser_that_runs_the_host_of_another_home_is_not_told_to_open_the_popup() -> None:
    found = judged(CHROMIUM, running=[runs("chromium", 700)], hosts={700: 701})
    assert levels(found) == {"connected-elsewhere": "fault"}
    assert "process 701" in found.findings[0].text


def test_a_browser_that_was_taken_out_is_unused_and_nobody_s_excuse() -> None:
    removed = msgspec.structs.replace(UNSTARTABLE, is_removed=True)
    broken = target("Firefox", "firefox", is_startable=False)
    found = judged(removed, broken, findings=[fault("Firefox"), without_extension("Firefox")])
    assert levels(found) == {"manifest-missing": "fault", "extension-missing": "warning"}
    assert found.browsers[0].state == "idle"


def test_a_browser_that_was_taken_out_is_not_regretted_while_another_works() -> None:
    removed = target("Google Chrome", "chrome", is_startable=False, is_removed=True)
    found = judged(CHROMIUM, removed, seen=[seen(*one_page("getCart"))])
    assert found.verdict == "It works. Connected: Chromium (1 tool)."


def test_a_browser_whose_host_lives_has_the_extension_whatever_files_say() -> None:
    lacking = [without_extension("Chromium"), fault(CHROME.title), without_extension(CHROME.title)]
    found = judged(CHROMIUM, CHROME, findings=lacking, running=[runs("chromium")], unlinked=[silent()])
    assert [(finding.code, finding.where, finding.level) for finding in found.findings] == [
        ("host-not-linked", "Chromium", "fault"),
        ("manifest-missing", "Google Chrome", "warning"),
        ("extension-missing", "Google Chrome", "warning"),
    ]


def test_a_browser_that_cannot_start_the_host_is_not_asked_to_be_started() -> None:
    assert levels(judged(UNSTARTABLE, running=[runs("chromium")])) == {}


def test_what_a_fix_left_is_told_of_faults_and_of_browsers_that_are_used() -> None:
    chrome = [fault(CHROME.title, command="a"), without_extension(CHROME.title)]
    alone = judged(CHROME, findings=chrome, fixed=[])
    beside = judged(CHROME, CHROMIUM, findings=chrome, fixed=[])
    assert [text.rpartition("run ")[2] for text in alone.left] == ["a"]
    assert beside.left == ()


def test_native_hosts_are_known_by_what_they_run_and_whose_children_they_are(tmp_path: Path) -> None:
    """By the system's own table of processes."""
    host = ["/usr/bin/python3", "-I", "-m", "native_host", "chrome-extension://x/"]
    for pid, parent, words in (
        (701, 700, host),
        (702, 700, ["chromium", "--type=renderer"]),
        (703, 99, host),
        (704, 700, ["python3", "-m", "native_hostel"]),
    ):
        process = tmp_path / f"proc/{pid}"
        process.mkdir(parents=True)
        (process / "stat").write_text(f"{pid} (a) b) S {parent} 1 1")
        (process / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (tmp_path / "proc/705").mkdir()  # it has ended
    machine = Machine("linux", tmp_path, {}, tmp_path)
    assert hosts_started_by(machine, [700]) == {701: 700}


# ── Another product's channel ───────────────────────────────────────────────────────────────────────────────


SOCKET = "/tmp/claude-mcp-browser-bridge-ada/7.sock"
DEAD = {"path": "", "use": "it has stopped serving"}
UNUSABLE = {"fault": "it is open to other users"}


def channel(**fields: Any) -> Channel:
    title = "Claude in Chrome, through its own host (pid 7)"
    return Channel(
        **{"title": title, "use": "not used", "path": SOCKET, "pid": 7, "is_theirs": True, **fields}
    )


@pytest.mark.parametrize("fields", [{}, DEAD, UNUSABLE, {"is_old": True}])
def test_another_product_makes_nobody_unhealthy_who_does_not_use_it(fields: dict[str, Any]) -> None:
    found = judged(CHROMIUM, channels=[channel(**fields)])
    assert found.healthy
    assert {finding.level for finding in found.findings} <= {"note", "warning"}
    assert all(finding.level == "note" for finding in found.findings if finding.code.startswith("channel-"))


@pytest.mark.parametrize(("code", "fields"), [("channel-dead", DEAD), ("channel-unusable", UNUSABLE)])
def test_who_uses_it_and_has_nothing_else_is_told_of_a_fault(code: str, fields: dict[str, Any]) -> None:
    broken = channel(**fields)
    alone = judged(UNSTARTABLE, channels=[broken], is_attached=True)
    assert (alone.healthy, levels(alone)[code]) == (False, "fault")
    beside = judged(CHROMIUM, channels=[broken], is_attached=True, seen=[seen(*one_page("getCart"))])
    assert (beside.healthy, levels(beside)[code]) == (True, "warning")
    second = judged(UNSTARTABLE, channels=[broken, channel(pid=8)], is_attached=True)
    assert (second.healthy, levels(second)[code]) == (True, "warning")


def test_where_it_is_used_its_browser_is_connected_and_no_other_needs_the_extension() -> None:
    lacking = [fault(), without_extension("Chromium")]
    found = judged(UNSTARTABLE, findings=lacking, channels=[channel()], is_attached=True)
    assert found.healthy
    assert levels(found) == {"manifest-missing": "warning", "extension-missing": "warning"}
    assert found.verdict.startswith(
        "It works. Existing channel: Claude in Chrome, through its own host (pid 7)."
    )


def test_where_only_a_channel_is_used_nobody_is_told_to_install_a_browser() -> None:
    none = fault("", "no-browser", hop="browser", text="No browser that mcpb knows has been used here")
    found = judged(findings=[none], channels=[channel()], is_attached=True)
    assert found.verdict == "It works. Existing channel: Claude in Chrome, through its own host (pid 7)."
    assert levels(found) == {"no-browser": "warning"}


def test_a_browser_of_our_own_and_a_channel_are_both_in_the_verdict() -> None:
    found = judged(CHROMIUM, channels=[channel()], is_attached=True, seen=[seen(*one_page("getCart"))])
    assert found.verdict.startswith(
        "It works. Connected: Chromium (1 tool). Existing channel: Claude in Chrome, "
    )


def test_another_product_s_extension_that_has_us_for_its_host_is_connected_and_asked_for_nothing_else() -> (
    None
):
    theirs = hello(capabilities=wire.Capabilities(tools=[msgspec.Raw(b'{"name":"navigate"}')]))
    browser = seen(theirs, wire.Tabs(tabs=[]), answer="")
    assert codes(browser) == []
    found = judged(CHROMIUM, seen=[browser])
    assert found.verdict == "It works. Connected: Chromium (the extension of Claude in Chrome)."
    assert [hop.hop for hop in found.browsers[0].hops] == ["manifest", "browser", "host", "extension"]


def test_what_a_running_bridge_uses_counts_as_used_whatever_the_configuration_says() -> None:
    held = channel(holder=4711, use="used by mcpb (pid 4711)")
    found = judged(CHROMIUM, findings=[without_extension("Chromium")], channels=[held])
    assert found.healthy
    assert found.verdict.startswith(
        "It works. Existing channel: Claude in Chrome, through its own host (pid 7)."
    )


@pytest.mark.parametrize(
    ("there", "blamed"),
    [([channel(**DEAD)], "(pid 7), has stopped serving"), ([], "none of its hosts serves")],
)
def test_who_wants_to_use_it_hears_of_that_and_not_of_an_extension_that_is_not_wanted(
    there: list[Channel], blamed: str
) -> None:
    lacking = [without_extension("Chromium")]
    found = judged(CHROMIUM, findings=lacking, channels=there, is_attached=True)
    assert not found.healthy
    assert blamed in found.verdict
    assert levels(found)["extension-missing"] == "warning"


def test_the_only_folder_that_is_looked_into_is_named() -> None:
    found = judged(CHROMIUM, is_attached=True, only_directory=Path("/gone/channels"))
    (missing,) = [finding for finding in found.findings if finding.code == "channel-missing"]
    assert "in /gone/channels (existing_channel.directory of the configuration;" in missing.text


@pytest.mark.parametrize("left", [[], [channel(fault="its host has ended", is_left=True)]])
def test_who_wants_to_use_it_is_told_that_it_is_not_there(left: list[Channel]) -> None:
    found = judged(CHROMIUM, channels=left, is_attached=True)
    assert (found.healthy, levels(found)["channel-missing"]) == (True, "warning")
    assert "channel-missing" not in levels(judged(CHROMIUM, channels=left))


def test_a_socket_that_is_open_to_others_is_a_warning_for_who_puts_one_beside_it() -> None:
    assert levels(judged(CHROMIUM, channels=[channel(**UNUSABLE)], is_published=True)) == {
        "channel-unusable": "warning",
        "not-running": "warning",
    }


@pytest.mark.parametrize(("is_attached", "level"), [(False, "note"), (True, "warning")])
def test_a_host_that_cannot_be_started_is_worth_a_warning_to_who_uses_it(
    is_attached: bool, level: str
) -> None:
    gone = fault(code="channel-wrapper-gone", hop="browser", level="note", text="it is gone")
    found = judged(CHROMIUM, findings=[gone], is_attached=is_attached, channels=[channel()])
    assert levels(found)["channel-wrapper-gone"] == level


def test_a_finding_of_a_channel_stands_with_the_browser_that_started_its_host() -> None:
    found = judged(CHROMIUM, channels=[channel(**DEAD, browser_pid=100)], running=[runs("chromium")])
    (dead,) = [finding for finding in found.findings if finding.code == "channel-dead"]
    assert dead.where == "Chromium"


def test_each_channel_is_shown_with_its_browser_and_who_is_connected() -> None:
    clients = (ChannelClient(pid=8, program="/opt/claude"), ChannelClient(pid=9, program="/usr/bin/python3"))
    shown = channel(
        browser="Chromium", browser_pid=100, user_data_dir="/p", connections=3, clients=clients, holder=9
    )
    lines = list(as_text(judged(CHROMIUM, channels=[shown])))
    assert lines[lines.index("Channels of other products") + 1 :] == [
        "  · Claude in Chrome, through its own host (pid 7), started by Chromium (pid 100) with /p: not used",
        f"    {SOCKET}, 3 connections: claude (pid 8) and mcpb (pid 9)",
    ]


def test_a_program_is_named_where_it_is_not_known_for_that_product_s() -> None:
    theirs, stranger = channel(program="/opt/claude"), channel(program="/opt/claude", is_theirs=False)
    assert "    " + SOCKET in list(as_text(judged(CHROMIUM, channels=[theirs])))
    assert f"    {SOCKET}, program /opt/claude" in list(as_text(judged(CHROMIUM, channels=[stranger])))


def test_a_socket_of_ours_is_shown_beside_theirs() -> None:
    ours = PublishedSocket(path=SOCKET, pid=7, is_left=False)
    lines = list(as_text(judged(CHROMIUM, published=[ours])))
    assert lines[lines.index("Channels of other products") + 1 :] == [
        f"  · Socket for programs made for Claude in Chrome: {SOCKET} (mcpb serve, pid 7)"
    ]
    assert "ada" not in made_public(observed(CHROMIUM, published=[ours]))


def test_a_report_for_the_public_says_of_a_channel_neither_whose_it_is_nor_who_uses_it() -> None:
    fault = "its directory is open to other users"
    shown = channel(
        program="/home/ada/work/claude",
        user_data_dir="/srv/tender",
        clients=(ChannelClient(pid=8, program="/srv/vault/agent"),),
        fault=fault,
        use=f"not used: {fault}",
        mend="chmod 700 /tmp/claude-mcp-browser-bridge-ada",
    )
    text = made_public(observed(CHROMIUM, channels=[shown]))
    assert "channel-unusable" in text
    assert "chmod 700 '<folder " in text
    for word in ("ada", "tender", "vault"):
        assert word not in text


# ── Remote servers ──────────────────────────────────────────────────────────────────────────────────────────


def remote(**records: RemoteRecord) -> list[dict[str, Any]]:
    """Describe servers with an address of their own, as one running client has them."""
    settings = [RemoteSettings(name=name, url=f"https://{name}.acme.example/mcp?k=v") for name in records]
    return list(describe_remote(settings, [BridgeRecord(1, tuple(records.values()))]))


READY = RemoteRecord(name="ready", state="ready", tools=2, synced_at=60.0)
SERVERS = remote(
    ready=READY,
    partial=RemoteRecord(name="partial", state="ready", server="Acme 1", tools=1, left_out=1),
    lost=RemoteRecord(name="lost", state="unreachable", cause="refused", error="acme is off", left_out=2),
    bad=RemoteRecord(name="bad", state="failed", cause="not-mcp", error="acme speaks HTML"),
    new=RemoteRecord(name="new", state="connecting"),
)


def test_each_remote_server_that_cannot_be_used_or_is_incomplete_has_one_warning() -> None:
    found = judged(CHROMIUM, seen=[seen(*one_page("getCart"))], remote=SERVERS)
    assert [(finding.code, finding.level, finding.command) for finding in found.findings] == [
        ("remote-left-out", "warning", "mcpb remote test partial"),
        ("remote-unreachable", "warning", "mcpb remote test lost"),
        ("remote-unreachable", "warning", "mcpb remote test bad"),
    ]
    assert (found.healthy, found.verdict) == (
        True,
        "It works. Connected: Chromium (1 tool), 2 of 5 remote servers (3 tools).",
    )
    assert (found.remote[2].address, found.remote[2].error) == (
        "https://lost.acme.example/mcp",
        "acme is off",
    )


def test_servers_that_work_are_in_the_verdict_before_what_browsers_lack() -> None:
    connected = "Connected: 1 remote server (2 tools). But"
    closed = judged(CHROMIUM, remote=remote(ready=READY))
    assert (closed.healthy, closed.verdict) == (True, f"{connected} Chromium is not running. Start it.")
    broken = judged(UNSTARTABLE, findings=[fault()], remote=remote(ready=READY))
    assert (broken.healthy, broken.verdict) == (False, f"{connected} Chromium: there is no manifest.")


def test_servers_that_no_client_is_connected_to_are_not_in_the_verdict() -> None:
    for servers in (describe_remote([RemoteSettings(name="new", command="npx")], []), SERVERS[2:]):
        found = judged(CHROMIUM, remote=list(servers))
        assert found.verdict == "Nothing is wrong, but Chromium is not running. Start it."


def test_remote_servers_are_shown_with_their_state_offers_sync_and_error() -> None:
    lines = list(as_text(judged(remote=SERVERS)))
    assert lines[lines.index("Remote servers") + 1 :] == [
        "  ✓ ready        ready · https://ready.acme.example/mcp · 2 tools · read at 00:01 UTC",
        "  ✓ partial      ready · https://partial.acme.example/mcp · 1 tool · 1 left out",
        "  · lost         unreachable · https://lost.acme.example/mcp · 2 left out · refused: acme is off",
        "  · bad          failed · https://bad.acme.example/mcp · not-mcp: acme speaks HTML",
        "  · new          connecting · https://new.acme.example/mcp",
    ]


def test_a_redacted_report_has_of_a_remote_server_neither_name_nor_address_nor_text() -> None:
    text = made_public(observed(remote=SERVERS))
    for word in ("acme", "Acme", "lost", "partial"):
        assert word not in text
    assert "the remote server <server 2> is unreachable (refused)" in text


# ── Text of others, and commands ────────────────────────────────────────────────────────────────────────────


def test_text_of_others_is_one_line_that_no_terminal_obeys_and_utf_8_can_say() -> None:
    hostile = "a\x1b[2J\nb\u202ec\udcff"
    found = judged(
        UNSTARTABLE, findings=[fault(text=hostile)], details={"environment": foreign_value(hostile)}
    )
    assert "\n".join(as_text(found)).lower().count(r"a\x1b[2j") == 3
    for line in as_text(found):
        assert line.isprintable()
        line.encode()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (mcpb_command("install-native-host"), "mcpb-bridge install-native-host"),
        (mcpb_command("doctor", as_root=True), 'sudo "$(command -v mcpb-bridge)" doctor'),
        (Command(("chmod", "700", path_value("/home/mcpb run"))), "chmod 700 '/home/mcpb run'"),
        (Command((path_value("/opt/a b"),), "export PATH={}:$PATH"), "export PATH='/opt/a b':$PATH"),
    ],
)
def test_commands_begin_with_what_a_terminal_finds(command: Command, shown: str) -> None:
    finding = msgspec.structs.replace(fault(is_safe=True), command=command)
    found = judged(UNSTARTABLE, findings=[finding], called=public_value("mcpb-bridge"))
    assert (found.findings[0].command, found.fix) == (shown, "mcpb-bridge doctor --fix")


# ── For people ──────────────────────────────────────────────────────────────────────────────────────────────


BROKEN = judged(
    UNSTARTABLE,
    findings=[fault(command="mcpb install-native-host --browser chromium", is_safe=True)],
    details={"environment": public_value("mcpb 0.2.0")},
)


def test_the_text_has_a_line_for_each_hop_and_below_a_finding_the_command_that_mends_it() -> None:
    assert list(as_text(BROKEN)) == [
        "mcpb 0.2.0: Broken: Chromium: there is no manifest.",
        "",
        "This machine",
        "  ✓ environment  mcpb 0.2.0",
        "",
        "Chromium (--browser chromium)",
        "  ✗ manifest     There is no manifest [manifest-missing]",
        "                 → mcpb install-native-host --browser chromium",
        "",
        "To fix mcpb's own files, run: mcpb doctor --fix",
    ]


def mended(*fixed: str, **fields: Any) -> list[str]:
    """The lines that say what `--fix` did."""
    command = "mcpb install-native-host --browser chromium"
    done = [public_value(text) for text in fixed]
    found = judged(UNSTARTABLE, findings=[fault(command=command, **fields)], fixed=done)
    lines = list(as_text(found))
    return lines[lines.index("Fixed") + 1 : lines.index("This machine") - 1]


def test_after_a_fix_is_said_what_was_done_and_what_is_not_ours_to_mend() -> None:
    done, left = mended("wrote /home/ada/.mcpb/bin/mcpb-native-host", code="manifest-foreign-program")
    assert done == "  ✓ wrote /home/ada/.mcpb/bin/mcpb-native-host"
    assert left == (
        "  ! Not fixed: Chromium: there is no manifest; run mcpb install-native-host --browser chromium"
    )


def test_a_fix_that_did_nothing_says_so_and_who_decides_where_mcpb_is_registered() -> None:
    nothing, missing = mended(code="manifest-missing")
    assert nothing.startswith("  · nothing: ")
    assert "you decide which browsers start mcpb" in missing


def test_a_fix_is_not_offered_again_right_after_it_was_done() -> None:
    found = judged(UNSTARTABLE, findings=[fault(is_safe=True)], fixed=[])
    assert not [line for line in as_text(found) if "doctor --fix" in line]


def test_in_a_narrow_terminal_text_is_folded_and_commands_are_not() -> None:
    command = "mcpb install-native-host --browser chromium"
    found = judged(
        UNSTARTABLE, findings=[fault(text="there is none, there is none, there is none", command=command)]
    )
    assert list(as_text(found, 53))[-3:] == [
        "  ✗ manifest     There is none, there is none, there",
        "                 is none [manifest-missing]",
        "                 → mcpb install-native-host --browser chromium",
    ]


@pytest.mark.parametrize(("fields", "about"), [({"is_there": True}, ""), ({}, " (its program is gone)")])
def test_native_hosts_of_others_are_listed_and_little_else_is_said_of_them(
    fields: dict[str, Any], about: str
) -> None:
    others = (OtherHost(name="com.other.host", manifest="/m", title="Chromium", **fields),)
    lines = list(as_text(msgspec.structs.replace(judged(CHROMIUM), neighbours=others)))
    assert lines[-1] == f"  · com.other.host{about}"


# ── For the public ──────────────────────────────────────────────────────────────────────────────────────────


HOMES = {"/home/ada": "~", "/home/ada/deep/mcpb": "$MCPB_HOME"}


def made_public(looked: Observations) -> str:
    return json.dumps(msgspec.to_builtins(make_redacted_report(looked, HOMES)), ensure_ascii=False)


def public_texts(*values: Value) -> list[str]:
    """Return the texts of findings with one value each."""
    findings = [fault(text=value) for value in values]
    report = make_redacted_report(observed(UNSTARTABLE, findings=findings), HOMES)
    return [finding.text for finding in report.findings]


@pytest.mark.parametrize("code", FindingCode)
@pytest.mark.parametrize("privacy", set(Privacy) - {Privacy.PUBLIC})
def test_a_private_value_of_a_finding_is_in_no_part_of_a_redacted_report(
    code: FindingCode, privacy: Privacy
) -> None:
    value = Value("/srv/zebra/x", privacy)
    nested = Message(template="in {inner}", values={"inner": value})
    finding = fault(value, code, nested, level="fault")
    finding = msgspec.structs.replace(finding, command=Command(("ls", value)))
    looked = observed(
        UNSTARTABLE, shared=[finding], details={"environment": nested}, fixed=[nested], called=value
    )
    assert "zebra" in str(make_report(looked))
    assert "zebra" not in made_public(looked)


def test_a_redacted_report_names_no_site_title_or_profile_of_a_connected_browser() -> None:
    tabs = wire.Tabs(
        tabs=[
            tab(1, BANK, title="My account", status="complete"),
            tab(2, BANK, title="My loan", status="complete"),
        ]
    )
    trouble = wire.Trouble(attempts=1, reason="mcpb was registered with /srv/tender/python, gone", at=0.0)
    browser = msgspec.structs.replace(
        seen(hello(trouble=trouble), tabs, answer="the bank"),
        label="Ada's own",
        forbidden=f'policy.deny has "{BANK}"',
    )
    text = made_public(observed(CHROMIUM, seen=[browser, msgspec.structs.replace(browser, host="h2")]))
    assert "2 tabs: “<title 1>” (<site 1>), “<title 2>” (<site 1>)" in text
    assert "profile “<profile 1>”" in text
    for word in ("bank", "account", "loan", "Ada", "tender"):
        assert word not in text


def test_paths_below_a_home_and_of_the_system_stay_and_others_have_a_number() -> None:
    paths = ["/home/ada/.config/x", "/home/ada/deep/mcpb/z", "/home/adam/y", "/usr/bin/x", "/home/ada/work"]
    assert public_texts(*map(path_value, paths)) == [
        "~/.config/x",
        "$MCPB_HOME/z",
        "<folder 1>",
        "/usr/bin/x",
        "<folder 2>",
    ]


def test_a_redacted_report_keeps_the_browser_s_own_connection_error() -> None:
    trouble = wire.Trouble(attempts=1, reason="Native host has exited.", at=0.0)
    browser = seen(hello(trouble=trouble), *one_page("getCart"))
    report = make_redacted_report(observed(CHROMIUM, seen=[browser]), HOMES)
    assert any("Native host has exited." in finding.text for finding in report.findings)


def test_a_redacted_report_names_no_other_product() -> None:
    other = OtherHost(name="com.vault.host", manifest="/home/ada/x", title="Chromium", callers=("abc",))
    text = made_public(observed(CHROMIUM, neighbours=[other]))
    assert '"<host 1>"' in text
    assert "vault" not in text


def test_a_directory_that_a_user_named_has_one_number_in_titles_texts_and_commands() -> None:
    directory = "/home/ada/acme merger/data"
    name = Message(template="Chromium in {directory}", values={"directory": path_value(directory)})
    manifest = f"{directory}/NativeMessagingHosts/host.json"
    own = target(browser="", name=name, is_startable=False, manifest=manifest)
    finding = msgspec.structs.replace(
        fault(name, text=path_value(manifest)),
        command=mcpb_command("install-native-host", "--user-data-dir", path_value(directory)),
    )
    looked = observed(own, findings=[finding])
    found = make_redacted_report(looked, HOMES)
    (shown,) = found.findings
    assert shown.where == found.browsers[0].title == "Chromium in <folder 1>"
    assert shown.text == "<folder 2>/host.json"
    assert shown.command == "mcpb install-native-host --user-data-dir '<folder 1>'"
    assert "acme" not in made_public(looked)


def test_public_text_stays_though_the_user_has_a_name_that_occurs_in_it() -> None:
    looked = observed(UNSTARTABLE, findings=[fault(text="the browser's extension")])
    homes = {"/home/browser": "~"}
    assert make_redacted_report(looked, homes).findings[0].text == "the browser's extension"


def test_a_path_below_home_stays_expandable_in_a_redacted_command() -> None:
    command = Command(("ls", path_value("/srv/Ada's data"), path_value("/home/ada/.config/x")))
    looked = observed(UNSTARTABLE, findings=[msgspec.structs.replace(fault(), command=command)])
    (shown,) = make_redacted_report(looked, HOMES).findings
    assert shown.command == "ls '<folder 1>' ~/.config/x"


def test_an_empty_home_or_the_root_hides_nothing() -> None:
    looked = observed(UNSTARTABLE, findings=[fault(text=path_value("/usr/bin/x"))])
    assert make_redacted_report(looked, {"/": "~", "": "x"}).findings[0].text == "/usr/bin/x"
