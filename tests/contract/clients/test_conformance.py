"""The official conformance suite against `mcpb serve`, with its fixtures in a page of a real Chromium.

Nothing stands between the suite and the server. What the suite calls its fixtures is changed in it as it is
loaded (tests/data/conformance/names.mjs), because our tools carry the site and the tab that they live in.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from full_chain import PAGES, ROOT, Chain, until_listed
from http_frontend import CLOSES_EARLY

HERE = Path(__file__).parents[2] / "data/conformance"
MODULES = ROOT / "node_modules"
OLDEST_NODE = 22

EXPECTED: dict[str, Any] = tomllib.loads((HERE / "expected.toml").read_text())
"""By era of the protocol."""
CONFIG = """
max_name = 128  # no name is shortened
[pages]
sampling = "on"
roots = "on"
requests_per_minute = 1000
tokens_per_hour = 1000000
"""
_PAGE = (PAGES / "conformance.html").read_text()
FIXTURES = re.findall(r'^ *fixture\("(\w+)"', _PAGE, re.MULTILINE)
PROMPTS = re.findall(r'^ *prompt\(\s*"(\w+)"', _PAGE, re.MULTILINE)


@dataclass
class Findings:
    """Of one run of the suite."""

    passed: int = 0
    faults: dict[str, dict[str, str]] = field(default_factory=lambda: {"failures": {}, "warnings": {}})
    """By check, what the suite says."""

    def add(self, scenario: str, check: Mapping[str, Any]) -> None:
        name, text = f"{scenario}: {check['name']}", check.get("errorMessage", "")
        match check["status"]:
            case "SUCCESS":
                self.passed += 1
            case "FAILURE":
                self.faults["failures"][name] = text
            case "WARNING":
                self.faults["warnings"][name] = text

    def surprises(self, expected: Mapping[str, Any], version: str) -> Iterator[str]:
        """What differs from expected.toml."""
        for kind, faults in self.faults.items():
            for name in faults.keys() - expected[kind].keys():
                yield f"{name}: {faults[name]}"
            for name in expected[kind].keys() - faults.keys():
                yield f"{name} passes: it is none of the {kind} any more"
        if self.passed != (passed := expected["editions"][version]["passed"]):
            yield f"{self.passed} checks pass, not {passed}"


def node() -> str:
    """The one that came with the suite where there is one for this machine, else the system's."""
    found = shutil.which("node", path=f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}")
    assert found, "run: install/prepare.sh test"
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    assert int(version[1:].partition(".")[0]) >= OLDEST_NODE, f"the suite needs Node 22: {version}"
    return found


async def run_suite(
    chain: Chain, edition: Mapping[str, Any], url: str, names: Mapping[str, str], results: Path
) -> Findings:
    results.mkdir()
    program = MODULES / edition["suite"] / "dist/index.js"
    command = [node(), "--import", str(HERE / "names.mjs"), str(program), "server", "--url", f"{url}/mcp"]
    await trio.run_process(
        [*command, "--suite", "all", "--output-dir", str(results), *edition["arguments"]],
        env={**chain.node_env, "HOME": str(results), "FIXTURE_NAMES": json.dumps(names)},
        capture_stdout=True,
        check=False,  # any failure is one to it
    )
    findings = Findings()
    for file in results.glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*", "", file.parent.name)
        for check in json.loads(file.read_text()):
            findings.add(scenario, check)
    return findings


@CLOSES_EARLY
async def test_the_suite_finds_fault_with_what_is_expected_and_nothing_else(chain: Chain) -> None:
    names = {fixture: chain.name(fixture, longest=128) for fixture in FIXTURES}
    of_page = chain.name("", longest=128).removeprefix("website_tool_")
    prompts = {prompt: f"{of_page}{prompt}" for prompt in PROMPTS}
    (chain.home / "config.toml").write_text(CONFIG)
    with trio.fail_after(200):
        async with chain.browser() as chromium, chain.serving() as url:
            await chain.open(chromium, "conformance.html")
            async with chain.http_client(url) as client:
                await until_listed(client, lambda listed: listed >= set(names.values()))
            runs = [
                (
                    era,
                    version,
                    await run_suite(chain, edition, url, names | prompts, chain.home / f"{era}-{version}"),
                )
                for era, expected in EXPECTED.items()
                for version, edition in expected["editions"].items()
            ]
    surprises = [
        f"{version}, {era} era: {surprise}"
        for era, version, found in runs
        for surprise in found.surprises(EXPECTED[era], version)
    ]
    assert not surprises, "\n".join(surprises)
