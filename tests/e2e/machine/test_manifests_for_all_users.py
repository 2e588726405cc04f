"""Host manifests for all users of this machine, which these tests write for a moment."""

from __future__ import annotations

from pathlib import Path

import trio

from connection_causes import TABLE, Cause, broken_json, chromium_stage, firefox_stage, for_all_users, meet


async def test_chromium_stops_at_a_broken_manifest_of_the_user_s_and_the_one_for_all_users_does_not_help(
    short_tmp: Path,
) -> None:
    with trio.fail_after(200):
        async with chromium_stage(short_tmp) as stage:
            await stage.run("mcpb install-native-host")
            with for_all_users(stage, "/etc/chromium/native-messaging-hosts"):
                await meet(stage, Cause("manifest-shadows", broken_json))


async def test_firefox_passes_over_a_broken_manifest_of_the_user_s_and_takes_the_one_for_all_users(
    short_tmp: Path,
) -> None:
    with trio.fail_after(200):
        async with firefox_stage(short_tmp) as stage:
            await stage.run("mcpb install-native-host")
            with for_all_users(stage, "/usr/lib/mozilla/native-messaging-hosts"):
                broken_json(stage)
                await stage.restart_extension()
                await stage.connect()
                report = await stage.doctor()
    assert report.faults == []
    assert "manifest-not-json" in {finding["code"] for finding in report.findings}
    assert report.browser["seen"][0]["trouble"] is None
    assert TABLE["manifest-shadows"].firefox == []
