"""Site patterns: the bridge and the extension evaluate one table of examples alike."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from shutil import which

import pytest

from bridge.hub.rules.site_patterns import matches, read_pattern
from bridge.origins import OriginError

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
    assert matches(pattern, origin) is is_included


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
