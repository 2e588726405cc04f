"""What `mcpb doctor` makes of what files tell and of what browsers say that are connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from bridge.doctor import Answer, SeenBrowser, findings_of, see, unlinked
from bridge.doctor_report import Looked, diagnose
from bridge.hub.catalog import Catalog
from bridge.hub.naming import MAX_NAME
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.registry import Registry
from bridge.hub.transport import HostLinked, HostSeen
from install.browsers import Kind, find_browser, known_browsers
from install.examination import Report
from install.findings import Finding
from install.lookup import TargetReport
from install.running import RunningBrowser
from native_host import wire
from said_by_hosts import browser_hello, connect, host_hello, one_page, tab, tools

BANK = "https://bank.example"


def seen(*announcements: wire.Wire, answer: Answer = 0.002, rules: PolicyRules | None = None) -> SeenBrowser:
    """One connected browser that has said all this."""
    registry = Registry()
    connect(registry, "h1", *announcements)
    (browser,) = see(registry, Catalog(registry, MAX_NAME, Policy(rules)), {"h1": answer})
    return browser


def hello(**fields: Any) -> wire.BrowserHello:
    return msgspec.structs.replace(browser_hello(), **fields)


def codes(browser: SeenBrowser) -> list[str]:
    return [finding.code for finding in findings_of(browser, "Chromium")]


# ── A browser that is connected ─────────────────────────────────────────────────────────────────────────────


def test_a_browser_whose_page_offers_a_tool_has_nothing_wrong() -> None:
    browser = seen(*one_page("getCart"))
    assert codes(browser) == []
    assert (browser.title, browser.tools, browser.answered_ms) == ("Chromium 156", 1, 2.0)


def test_without_an_offer_the_last_link_is_missing() -> None:
    (finding,) = findings_of(seen(wire.Tabs(tabs=[])), "Chromium")
    assert (finding.code, finding.level, finding.where) == ("page-offers-nothing", "note", "Chromium")


def test_an_extension_that_does_not_answer_is_named_with_what_came_instead() -> None:
    browser = seen(*one_page("getCart"), answer="3 s have passed")
    (finding,) = findings_of(browser, "Chromium")
    assert (finding.code, finding.hop) == ("extension-no-answer", "worker")
    assert "3 s have passed" in finding.text
    assert browser.answered_ms is None


def test_a_host_whose_extension_says_nothing_is_shown_although_no_browser_is_known() -> None:
    registry = Registry()
    registry.hear(HostSeen("h1", 1.0), 0.0)
    registry.hear(HostLinked("h1", host_hello("h1")), 0.0)
    (browser,) = see(registry, Catalog(registry, MAX_NAME, Policy()), {})
    assert codes(browser) == ["extension-silent"]


def test_another_version_of_the_extension_is_renewed_by_the_command_for_its_kind_of_browser() -> None:
    old = hello(extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.0.9"))
    browser = seen(old, *one_page("getCart"))
    commands = {
        finding.command
        for caller in (f"chrome-extension://{wire.EXTENSION_ID}/", wire.FIREFOX_ID)
        for finding in findings_of(msgspec.structs.replace(browser, caller=caller), "")
    }
    assert commands == {"mcpb extension", "mcpb extension --firefox"}


def test_what_the_extension_met_with_before_is_told_in_the_browser_s_words() -> None:
    trouble = wire.Trouble(attempts=3, reason="Native host has \x1b exited.", at=1.0)
    (finding,) = findings_of(seen(hello(trouble=trouble), *one_page("getCart")), "Chromium")
    assert (finding.code, finding.level) == ("extension-reported", "note")
    assert "3 times" in finding.text
    assert "Native host has" in finding.text
    assert "\x1b" not in finding.text


def test_an_older_host_that_still_runs_is_named() -> None:
    browser = msgspec.structs.replace(seen(*one_page("getCart")), host_version="0.0.9")
    assert codes(browser) == ["host-outdated"]


def test_tools_that_the_rules_forbid_are_not_taken_for_missing_ones() -> None:
    browser = seen(*one_page("getCart"), rules=PolicyRules(deny=("https://shop.example",)))
    (finding,) = findings_of(browser, "Chromium")
    assert finding.code == "tools-forbidden"
    assert 'policy.deny has "https://shop.example"' in finding.text


def test_a_page_without_our_content_script_needs_to_be_loaded_again() -> None:
    silent = tab(2, BANK, title="Bank", status="complete")
    browser = seen(wire.Tabs(tabs=[tab(1), silent]), tools(1, "getCart"))
    (finding,) = findings_of(browser, "Chromium")
    assert (finding.code, finding.level) == ("tab-needs-reload", "warning")
    assert "1 tab: “Bank” (https://bank.example)" in finding.text


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("https://bank.example/", {"incognito": True}),
        ("https://bank.example/", {"discarded": True}),
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
    (finding, _) = findings_of(seen(wire.Tabs(tabs=tabs)), "Chromium")
    assert "6 tabs: " in finding.text
    assert "https://s3.example" in finding.text
    assert "https://s4.example" not in finding.text
    assert "and 3 more" in finding.text


# ── Hosts that are not linked ───────────────────────────────────────────────────────────────────────────────


@dataclass
class Problem:
    text: str
    is_final: bool = False


@pytest.mark.parametrize(
    ("place", "problem", "code"),
    [
        ("/run/user/1/mcpb", Problem("/run/user/1/mcpb is not a private directory"), "socket-directory"),
        ("3fa2b1c0", Problem("The native host 0.0.1 speaks wire version 0", is_final=True), "wire-version"),
        ("3fa2b1c0", Problem("the connection broke"), "host-not-linked"),
    ],
)
def test_a_host_that_cannot_be_linked_is_a_fault_of_its_own_kind(
    place: str, problem: Problem, code: str
) -> None:
    (finding,) = unlinked({place: problem})
    assert (finding.code, finding.level, finding.hop) == (code, "fault", "socket")
    assert problem.text in finding.text


# ── The whole ───────────────────────────────────────────────────────────────────────────────────────────────


def target(title: str = "Chromium", name: str = "chromium", **fields: Any) -> TargetReport:
    kind: Kind = "firefox" if name == "firefox" else "chromium"
    known = {"is_startable": True, **fields}
    return TargetReport(title=title, browser=name, kind=kind, manifest=f"/home/ada/{name}/host.json", **known)


def no_manifest(where: str) -> Finding:
    return Finding(code="manifest-missing", hop="manifest", text=f"{where} has no manifest", where=where)


def runs(name: str, pid: int = 100) -> RunningBrowser:
    browser = find_browser(name, known_browsers())
    assert browser is not None
    return RunningBrowser(pid, browser, f"/usr/bin/{name}")


def test_a_browser_that_works_is_healthy_and_its_hops_are_shown() -> None:
    found = diagnose(Looked(files=Report(targets=(target(),)), seen=[seen(*one_page("getCart"))]))
    assert found.healthy
    assert found.verdict == "It works: Chromium is connected, with 1 tool."
    (browser,) = found.browsers
    assert browser.state == "works"
    assert [(hop.hop, hop.state) for hop in browser.hops] == [
        ("manifest", "ok"),
        ("browser", "ok"),
        ("host", "ok"),
        ("extension", "ok"),
        ("worker", "ok"),
        ("page", "ok"),
    ]
