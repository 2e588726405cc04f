"""Notes on downloads from the events of a tab."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.browser_tools.page.tab_downloads import WAIT_S, TabDownloads, format_size

URL = "https://shop.example/report.csv"
BEGIN = {"guid": "g1", "suggestedFilename": "report.csv", "url": URL}


def state(**changed: Any) -> dict[str, Any]:
    """The params of `mcpb.download`."""
    running = {"guid": "g1", "name": "report.csv", "url": URL, "path": "/home/ann/report.csv"}
    numbers = {"receivedBytes": 300_000, "totalBytes": 2_000_000, "isPaused": False}
    return {**running, **numbers, "state": "in_progress", "danger": "safe", "error": "", **changed}


def begun() -> TabDownloads:
    downloads = TabDownloads(reports_ends=True)
    downloads.handle_begin(BEGIN, 100.0)
    return downloads


def notes(downloads: TabDownloads, *, may_read: bool = True) -> str:
    return downloads.notes.pop_notes(lambda _: may_read)[0].strip()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"state": "complete"}, "Downloaded “report.csv” (300 kB) to “/home/ann/report.csv”."),
        (
            {"state": "interrupted", "error": "NETWORK_FAILED"},
            "The download of “report.csv” failed: NETWORK_FAILED.",
        ),
        (
            {"state": "interrupted", "error": "USER_CANCELED"},
            "The download of “report.csv” was cancelled in the browser.",
        ),
        (
            {"danger": "file"},
            (
                "The browser holds “report.csv” back as dangerous (file): it is kept only if the user "
                "confirms that in the browser's list of downloads."
            ),
        ),
    ],
)
def test_the_end_of_a_download_is_a_note(changed: dict[str, Any], said: str) -> None:
    downloads = begun()
    downloads.handle_state(state(), 101.0)
    assert notes(downloads) == ""
    downloads.handle_state(state(**changed), 102.0)
    assert notes(downloads) == said
    assert not downloads.has_running


def test_an_action_waits_ten_seconds_from_the_beginning_and_once() -> None:
    downloads = begun()
    assert downloads.deadline() == 100.0 + WAIT_S
    downloads.handle_state(state(), 101.0)
    downloads.report_running()
    assert notes(downloads).startswith("“report.csv” is still downloading (300 kB of 2.0 MB) to “/home")
    assert downloads.deadline() is None
    downloads.report_running()
    assert notes(downloads) == ""


def test_a_download_without_a_path_may_be_a_question_to_the_user() -> None:
    downloads = begun()
    downloads.handle_state(state(path="", name="", totalBytes=-1, receivedBytes=0), 101.0)
    downloads.report_running()
    assert "(0 B), and the user may be asked where to save it." in notes(downloads)


def test_a_note_names_no_file_of_a_site_that_may_not_be_read() -> None:
    downloads = begun()
    downloads.handle_state(state(state="complete"), 101.0)
    assert notes(downloads, may_read=False) == "A download has ended."


def test_an_extension_that_reports_no_ends_leaves_the_beginning() -> None:
    downloads = TabDownloads()
    downloads.handle_begin(BEGIN, 100.0)
    assert downloads.deadline() is None
    assert notes(downloads) == "A download began: “report.csv”."


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1249, "1.2 kB"),
        (300_000, "300 kB"),
        (999_600, "1.0 MB"),
        (2_000_000, "2.0 MB"),
        (5_000_000_000_000, "5000 GB"),
    ],
)
def test_a_size_has_two_or_three_digits(count: int, text: str) -> None:
    assert format_size(count) == text
