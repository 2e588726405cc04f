"""docs/TROUBLESHOOTING.md has every code that `mcpb doctor` knows, and every member of its report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from bridge.diagnostics.browser_checks import ObservedBrowser, SeenTab
from bridge.diagnostics.report import BrowserReport, DoctorReport, FindingReport, HopReport
from full_chain import ROOT
from install.checks.existing_channel import Channel, ChannelClient
from install.checks.other_hosts import OtherHost
from install.findings import FindingCode, Hop
from native_host.existing_channel.published_socket import PublishedSocket

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
