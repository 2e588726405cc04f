"""The causes of docs/TROUBLESHOOTING.md in a real Firefox."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from connection_causes import CAUSES, TABLE, WALK_S, firefox_stage, meet


@pytest.mark.timeout(WALK_S)
async def test_in_firefox_the_doctor_names_each_cause_and_its_command_makes_the_browser_connect(
    short_tmp: Path,
) -> None:
    with trio.fail_after(WALK_S):
        async with firefox_stage(short_tmp) as stage:
            for cause in CAUSES:
                await meet(stage, cause)


def test_firefox_looks_in_the_same_place_for_all_profiles() -> None:
    """The walk's Firefox has its profile elsewhere, and finds the manifest all the same."""
    assert TABLE["user-data-dir"].firefox == []
