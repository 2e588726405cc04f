"""The table of docs/TROUBLESHOOTING.md, walked with real browsers: each cause is made, named and mended.

The browser runs all the time, and reads its manifests at each connection. A cause is made, the extension
starts again and fails; `mcpb doctor` names the cause; the command that it gives is run as it stands; the
extension connects, and reports the words with which the browser had refused it: those of the table.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from connection_causes import CAUSES, TABLE, WALK_S, WITH_A_TEST_OF_THEIR_OWN, Cause, chromium_stage, meet


def test_every_row_of_the_table_is_walked() -> None:
    assert {cause.code for cause in CAUSES} | WITH_A_TEST_OF_THEIR_OWN == set(TABLE)


@pytest.mark.timeout(WALK_S)
async def test_in_chromium_the_doctor_names_each_cause_and_its_command_makes_the_browser_connect(
    short_tmp: Path,
) -> None:
    with trio.fail_after(WALK_S):
        async with chromium_stage(short_tmp) as stage:
            for cause in CAUSES:
                await meet(stage, cause)


async def test_a_chromium_with_a_user_data_dir_of_its_own_looks_nowhere_else(short_tmp: Path) -> None:
    with trio.fail_after(200):
        async with chromium_stage(short_tmp, user_data_dir="elsewhere") as stage:
            await stage.run("mcpb install-native-host")
            await meet(stage, Cause("user-data-dir", lambda _: None))
