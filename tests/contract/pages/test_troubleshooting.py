"""docs/TROUBLESHOOTING.md has every code that `mcpb doctor` knows, and every member of its report."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from bridge.diagnostics.browser_checks import SeenBrowser, SeenTab
from bridge.diagnostics.report import BrowserReport, Diagnosis, HopReport
from full_chain import ROOT
from install.checks.existing_channel import Channel, ChannelClient
from install.checks.other_hosts import Neighbour
from install.findings import Finding, Hop
from native_host.existing_channel.published_socket import PublishedSocket

TEXT = (ROOT / "docs/TROUBLESHOOTING.md").read_text()
CODE = re.compile(r"[a-z]+(-[a-z]+)+")
NO_CODES = {"conda-meta", "mcpb-bridge"}
"""Written like one, in files that make findings."""


def codes_in_the_source() -> set[str]:
    """Every constant that is written like a code, in the files that make findings."""
    sources = [path for folder in ("install", "bridge") for path in (ROOT / folder).rglob("*.py")]
    texts = [text for path in sources if "install.findings import" in (text := path.read_text())]
    found = (
        node.value for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)
    )
    return {value for value in found if isinstance(value, str) and CODE.fullmatch(value)} - NO_CODES


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
    assert set(codes_in_the_tables()) == codes_in_the_source()


def test_no_code_is_explained_twice() -> None:
    codes = codes_in_the_tables()
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize(
    "shape",
    [
        Diagnosis,
        BrowserReport,
        HopReport,
        SeenBrowser,
        SeenTab,
        Finding,
        Neighbour,
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
