"""docs/BROWSER_TOOLS.md: every tool is in it, and what it shows can be used."""

import re
from pathlib import Path

import msgspec
import pytest

from bridge.browser_tools.tool_runner import all_tools
from bridge.browser_tools.tools.batch import BrowserBatch
from bridge.browser_tools.tools.shortcuts import make_steps, parse_values
from bridge.config.shortcuts_file import read_shortcuts
from bridge.state.site_approvals import Approvals

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = (DOCS / "BROWSER_TOOLS.md").read_text()
TOOLS = all_tools()


def example(kind: str, document: str = DOCUMENT) -> str:
    found = re.search(rf"```{re.escape(kind)}\n(.*?)```", document, re.DOTALL)
    assert found, kind
    return found[1]


def test_the_table_names_every_tool_and_no_other() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", DOCUMENT, re.MULTILINE)
    assert sorted(re.findall(r"[a-z_]+", " ".join(rows))) == sorted(TOOLS)


def test_the_shortcut_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "shortcuts.toml").write_text(example("toml shortcuts.toml"))
    (shortcut,) = read_shortcuts(tmp_path)
    for step in make_steps(shortcut, parse_values(shortcut, "query='red apples' page=2")):
        msgspec.convert(step.input, TOOLS[step.name].input_type)


def test_the_batch_can_be_used() -> None:
    batch = msgspec.json.decode(example("json"), type=BrowserBatch)
    for step in batch.actions:
        msgspec.convert(step.input, TOOLS[step.name].input_type)


def test_the_approvals_of_the_configuration_can_be_used(tmp_path: Path) -> None:
    text = example("json approvals.json", (DOCS / "CONFIGURATION.md").read_text())
    (tmp_path / "approvals.json").write_text(text)
    approvals = Approvals(tmp_path)
    assert approvals.has("https://shop.example", "act", "any")
    assert approvals.has("https://tea.example", "act", "Claude Code")
    assert approvals.has("https://tea.example", "page-tools", "any")
    assert not approvals.has("https://tea.example", "act", "any")


@pytest.mark.parametrize("document", ["BROWSER_TOOLS.md", "CONFIGURATION.md"])
def test_its_links_lead_somewhere(document: str) -> None:
    for name, anchor in re.findall(r"\]\(([A-Z_]*(?:\.md)?)#([a-z0-9-]+)\)", (DOCS / document).read_text()):
        headings = re.findall(r"^#+ (.*)$", (DOCS / (name or document)).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{document}: {name}#{anchor}"
