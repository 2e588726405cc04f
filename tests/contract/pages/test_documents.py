"""The pages in docs/ agree with the code: examples, tables, links, and the rules of the specifications."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import jsonschema_rs
import msgspec
import pytest

from bridge.browser_tools import tool_examples
from bridge.browser_tools.tool_definitions import read_definitions
from bridge.browser_tools.tool_runner import all_tools
from bridge.browser_tools.tools.batch import BrowserBatch
from bridge.browser_tools.tools.shortcuts import make_steps, parse_values
from bridge.config.shortcuts_file import read_shortcuts
from bridge.diagnostics.browser_checks import ObservedBrowser, SeenTab
from bridge.diagnostics.report import BrowserReport, DoctorReport, FindingReport, HopReport, RemoteReport
from bridge.hub.meta_tools import TOOLS as META_TOOLS
from bridge.state.site_approvals import Approvals
from install.checks.existing_channel import Channel, ChannelClient
from install.checks.other_hosts import OtherHost
from install.findings import FindingCode, Hop
from native_host.existing_channel.published_socket import PublishedSocket
from native_host.protocol import jsonrpc, schema
from native_host.protocol.wire import METHODS, Code, Wire

DOCS = Path(__file__).parents[3] / "docs"
PROTOCOL = (DOCS / "PROTOCOL.md").read_text()

SECTIONS = {
    heading: re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    for heading, text in re.findall(r"^### (\S+)\n(.*?)(?=^##)", PROTOCOL, re.MULTILINE | re.DOTALL)
}
EXAMPLES = [(name, example) for name, examples in SECTIONS.items() for example in examples]


def convert_strictly(value: dict[str, Any], shape: type[Wire]) -> None:
    """Decode, and refuse members that the type does not know (the wire itself ignores those)."""
    msgspec.json.decode(msgspec.json.encode(value), type=shape)
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert set(value) <= known or not known


def test_every_message_has_a_section_and_every_section_is_a_message() -> None:
    assert set(SECTIONS) == set(METHODS)
    assert all(SECTIONS.values())


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_what_its_type_says(name: str, example: str) -> None:
    message = json.loads(example)
    method = METHODS[name]
    assert message["jsonrpc"] == "2.0"
    jsonrpc.decode(example.encode())
    if "method" in message:
        assert message["method"] == name
        assert ("id" in message) == (method.result is not None)
        assert ("for" in message) == (method.route == "extension → asker")
        convert_strictly(message["params"], method.params)
    else:
        assert method.result is not None
        convert_strictly(message["result"], method.result)


def test_the_table_of_errors_has_the_code_s_numbers_and_names() -> None:
    rows = re.findall(r"^\| (-\d+) \| (\w+) \|", PROTOCOL, re.MULTILINE)
    assert {name: int(number) for number, name in rows} == {code.name: code.value for code in Code}


def test_the_json_schema_is_the_one_that_the_types_make() -> None:
    """If this fails: python -m native_host.protocol.schema > docs/wire.schema.json"""
    assert (DOCS / "wire.schema.json").read_text() == schema.text()


# ── The rules of the specifications ─────────────────────────────────────────────────────────────────────────

ROOT = DOCS.parent


def parts_of(specification: str) -> dict[str, str]:
    """The numbered parts of the rules of a specification."""
    rules = PROTOCOL.partition(f"\n## Rules of the {specification} specification\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^### (\d)\. [^\n]+\n(.*?)(?=^###|\Z)", rules, re.MULTILINE | re.DOTALL))


PARTS = {
    specification: parts_of(specification)
    for specification in ("MCP-B", "HTTP/SSE", "MCP concepts", "registerWebMcp")
}


class Rule(NamedTuple):
    """A row of the table."""

    text: str
    where: list[str]
    """`file`, or `file::name` of something in it."""
    tests: list[str]
    """`file::test`, or `make target`."""

    @property
    def decision(self) -> str:
        """Its number, where the specification had to be decided about."""
        return "".join(re.findall(r"^\*\*(D\d+)\.\*\* ", self.text))


def rules_of(part: str) -> list[Rule]:
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return [Rule(text.strip(), quoted(where), quoted(tests)) for text, where, tests in rows[1:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


RULE_TABLE = [rule for parts in PARTS.values() for part in parts.values() for rule in rules_of(part)]
NOT_OURS = {"D16"}
"""What is about another product is nowhere here, and has no test."""


@cache
def names_in(path: Path) -> frozenset[str]:
    """What can be named in a file: everything in Python's outermost scopes, every word elsewhere."""
    if path.suffix != ".py":
        return frozenset(re.findall(r"\w+", path.read_text()))
    body = ast.parse(path.read_text()).body
    members = {
        f"{outer.name}.{name}"
        for outer in body
        if isinstance(outer, ast.ClassDef)
        for name in defined(outer.body)
    }
    return frozenset({*defined(body), *members})


def defined(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def is_there(named: str) -> bool:
    if named.startswith("make "):
        makefile = (ROOT / "Makefile").read_text()
        return f"\n{named.removeprefix('make ')}:" in makefile
    file, _, name = named.partition("::")
    return (ROOT / file).is_file() and (not name or name.replace("::", ".") in names_in(ROOT / file))


def test_every_part_of_each_specification_has_its_rules() -> None:
    assert {specification: "".join(parts) for specification, parts in PARTS.items()} == {
        "MCP-B": "1234567",
        "HTTP/SSE": "12345678",
        "MCP concepts": "1234567",
        "registerWebMcp": "1234567",
    }
    assert all(rules_of(part) for parts in PARTS.values() for part in parts.values())


def test_every_decision_about_a_specification_stands_once() -> None:
    numbers = sorted(int(rule.decision[1:]) for rule in RULE_TABLE if rule.decision)
    assert numbers == [*range(70)]


@pytest.mark.parametrize("rule", RULE_TABLE, ids=[rule.text[:50] for rule in RULE_TABLE])
def test_a_rule_names_tests_and_places_that_are_there(rule: Rule) -> None:
    assert [named for named in (*rule.where, *rule.tests) if not is_there(named)] == []
    assert all(named.startswith(("tests/", "make ")) for named in rule.tests)
    assert (bool(rule.where), bool(rule.tests)) == (rule.decision not in NOT_OURS,) * 2


# ── docs/UNTRUSTED.md ───────────────────────────────────────────────────────────────────────────────────────


def texts_for_models() -> Iterator[list[str]]:
    """The cells of each row about a text: text, mark, limit, setting, where, test."""
    for line in (DOCS / "UNTRUSTED.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 6 and cells[-1] != "test":
            yield cells


def test_the_page_lists_texts_under_each_heading() -> None:
    text = (DOCS / "UNTRUSTED.md").read_text()
    assert text.count("| text | mark | limit | switched off by | where | test |") == text.count("\n## ") - 1
    assert len(list(texts_for_models())) > 30


@pytest.mark.parametrize("cells", list(texts_for_models()), ids=lambda cells: cells[0][:50])
def test_each_text_that_reaches_a_model_has_its_mark_code_and_test(cells: list[str]) -> None:
    where, tests = quoted(cells[4]), quoted(cells[5])
    assert [named for named in (*where, *tests) if not is_there(named)] == []
    assert where
    assert tests
    assert all(named.startswith("tests/") for named in tests)


# ── SECURITY.md ─────────────────────────────────────────────────────────────────────────────────────────────


def test_each_promise_has_tests_that_are_there() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    promises = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    for _, _, _, tests in (cells for cells in promises if cells[-1].strip() != "test"):
        names = [name if "/" in name else f"tests/e2e/security/{name}" for name in quoted(tests)]
        assert names
        assert [name for name in names if not is_there(name)] == []


# ── docs/BROWSER_TOOLS.md ───────────────────────────────────────────────────────────────────────────────────


DOCUMENT = (DOCS / "BROWSER_TOOLS.md").read_text()
TOOLS = all_tools()


def example(kind: str, document: str = DOCUMENT) -> str:
    found = re.search(rf"```{re.escape(kind)}\n(.*?)```", document, re.DOTALL)
    assert found, kind
    return found[1]


def test_the_table_names_every_tool_and_no_other() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", DOCUMENT, re.MULTILINE)
    assert sorted(re.findall(r"[a-z_]+", " ".join(rows))) == sorted(TOOLS)


def test_each_tool_has_an_example_that_its_schema_accepts() -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in META_TOOLS}
    schemas |= {each.name: each.definition["inputSchema"] for each in read_definitions()}
    examples = [json.loads(line) for line in example("jsonl").splitlines()]
    assert {each["name"]: each["arguments"] for each in examples} == tool_examples.EXAMPLES
    assert list(tool_examples.EXAMPLES) == list(schemas)
    for name, arguments in tool_examples.EXAMPLES.items():
        jsonschema_rs.validate(schemas[name], arguments)
        unknown = arguments.keys() - schemas[name].get("properties", {}).keys()
        assert not unknown or TOOLS[name].input_type.unlisted, name
        if name in TOOLS:
            msgspec.convert(arguments, TOOLS[name].input_type)


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


@pytest.mark.parametrize("document", ["BROWSER_TOOLS.md", "CONFIGURATION.md", "REMOTE.md", "UNTRUSTED.md"])
def test_its_links_lead_somewhere(document: str) -> None:
    for name, anchor in re.findall(r"\]\(([A-Z_]*(?:\.md)?)#([a-z0-9-]+)\)", (DOCS / document).read_text()):
        headings = re.findall(r"^#+ (.*)$", (DOCS / (name or document)).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{document}: {name}#{anchor}"


# ── docs/TROUBLESHOOTING.md has every finding code and every member of the report ──────────────────────────


TEXT = (ROOT / "docs/TROUBLESHOOTING.md").read_text()


def codes_in_the_tables() -> list[str]:
    return [code for row in rows() for code in re.findall(r"`([^`]+)`", row)]


def rows() -> Iterator[str]:
    """Of each row of a table the cell below the heading `code`."""
    at = 0
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if "code" in cells:
            at = cells.index("code")
        elif not line.startswith("|"):
            at = 0
        elif at and not set(line) <= set("|-"):
            yield cells[at]


def test_the_page_explains_every_code_and_no_other() -> None:
    assert set(codes_in_the_tables()) == set(FindingCode)


def test_no_code_is_explained_twice() -> None:
    codes = codes_in_the_tables()
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    "shape",
    [
        DoctorReport,
        BrowserReport,
        HopReport,
        ObservedBrowser,
        SeenTab,
        FindingReport,
        RemoteReport,
        OtherHost,
        Channel,
        ChannelClient,
        PublishedSocket,
    ],
)
def test_the_page_has_every_member_of_the_report(shape: type[Any]) -> None:
    _, _, described = TEXT.partition("## The shape of `--json`")
    words = set(re.findall(r"\w+", described))
    assert {field.encode_name for field in msgspec.structs.fields(shape)} <= words
    assert set(get_args(Hop)) <= words


def test_the_architecture_is_one_page() -> None:
    assert len((DOCS / "ARCHITECTURE.md").read_text().splitlines()) <= 150
