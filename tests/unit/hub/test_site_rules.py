"""Patterns of sites, and site rules for browsers. The extension: tests/e2e/security/test_site_rules.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

from bridge.errors import CallError
from bridge.hub.rules.site_patterns import matches_pattern, read_pattern
from bridge.hub.rules.site_rules import SiteRules
from bridge.hub.transport import HostLinked
from bridge.origins import OriginError
from fake_transport import PlayedTransport, host_hello
from native_host.protocol import wire
from native_host.protocol.wire import Code


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [
        (CallError(Code.INTERNAL_ERROR, "too many rules", handed=False), True),
        (CallError(Code.TIMED_OUT, handed=True), True),
        (CallError(Code.METHOD_NOT_FOUND, "browser/siteRules", handed=False), False),
        (CallError(Code.GONE, handed=True), False),
    ],
    ids=["rejected", "timed out", "no site rules", "link ended"],
)
def test_rules_that_a_browser_does_not_enforce_are_reported(
    caplog: pytest.LogCaptureFixture, error: CallError, is_reported: bool
) -> None:
    transport = PlayedTransport()
    transport.on_request = lambda _: error
    rules = SiteRules(transport, lambda session: wire.SessionRules(session=session))
    rules.set_sessions(["s1"])
    transport.happen(HostLinked("h1", host_hello("h1")))
    assert [asked.method for asked in transport.asked] == ["browser/siteRules"]
    assert bool(caplog.messages) == is_reported
    assert all(str(error) in message for message in caplog.messages)


# ── Site patterns ───────────────────────────────────────────────────────────────────────────────────────────


ROOT = Path(__file__).parents[3]
TABLE = json.loads((ROOT / "tests/data/site_patterns.json").read_text())

EVALUATE = """
URL.parse ??= (text) => { try { return new URL(text); } catch { return null; } };
const [module, table] = process.argv.slice(1);
const { matches, readPattern } = await import(module);
const { matches: pairs, canonical, invalid } = JSON.parse(table);
console.log(JSON.stringify({
    matches: pairs.map(([pattern, origin]) => [pattern, origin, matches(pattern, origin)]),
    canonical: canonical.map(([text]) => [text, readPattern(text)]),
    invalid: invalid.filter((text) => readPattern(text) === ""),
}));
"""


@pytest.mark.parametrize(("pattern", "origin", "is_included"), TABLE["matches"])
def test_a_pattern_includes_the_origins_of_the_table(pattern: str, origin: str, is_included: bool) -> None:
    assert matches_pattern(pattern, origin) is is_included


@pytest.mark.parametrize(("text", "canonical"), TABLE["canonical"])
def test_a_pattern_is_read_in_its_canonical_form(text: str, canonical: str) -> None:
    assert read_pattern(text) == canonical


@pytest.mark.parametrize("text", TABLE["invalid"])
def test_what_is_no_pattern_is_rejected(text: str) -> None:
    with pytest.raises(OriginError):
        read_pattern(text)


@pytest.mark.skipif(not which("node"), reason="no Node: see CONTRIBUTING.md")
def test_the_extension_evaluates_the_same_table_alike() -> None:
    module = (ROOT / "extension/worker/site_patterns.js").as_uri()
    command = ["node", "--input-type=module", "-e", EVALUATE, "--", module, json.dumps(TABLE)]
    node = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert json.loads(node.stdout) == TABLE
