"""Audit log: content of a line, concurrent writers, readers, and the rotation of its file."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Site, ToolRedefinition, ToolRegistration
from bridge.hub.client_session import Session
from bridge.state import audit_log, audit_reader, log_file
from bridge.state.audit_log import AuditLog
from bridge.state.audit_reader import Filter, LatestCalls, follow_log, read_recent
from bridge.state.audit_rows import format_row
from native_host.protocol import wire
from native_host.system.home_layout import StateLayout

NAME, EARLIER = StateLayout.audit_log.name, StateLayout.earlier_audit_log.name

NOON = 1_795_262_400.25
"""2026-11-21 12:00:00.250 UTC."""
SHOP = Site(profile="p1", browser="Work", origin="https://shop.example", tab_id=12, ordinal=1)
SESSION = Session("5e55", client=wire.ClientInfo(name="Claude Code", version="2.1"))
EVERYTHING = Filter(is_with_registrations=True)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def state(short_tmp: Path) -> Path:
    return short_tmp / "state"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(state: Path, clock: Clock) -> Iterator[AuditLog]:
    kept = AuditLog(state, with_arguments=False, clock=clock)
    yield kept
    kept.close()


def called(outcome: str = "ok", site: Site = SHOP, session: Session = SESSION, **more: Any) -> FinishedCall:
    fields: dict[str, Any] = {"name": "website_tool_shop_example_tab1_pay", "own_name": "pay"}
    fields |= {"duration_s": 0.0123, **more}
    return FinishedCall(session=session, outcome=outcome, site=site, **fields)


def written(value: dict[str, Any]) -> Arguments:
    """As a client writes them: half a character can only be escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Arguments(text.encode(errors="backslashreplace"))


def lines(state: Path, name: str = NAME) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / name).read_text().splitlines()]


# ── What a line says ────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_one_line_with_who_called_what_where_and_what_came_of_it(
    log: AuditLog, state: Path
) -> None:
    log.write_record(called("policy", detail='policy.deny has "https://*.example"', handed=False))
    assert lines(state) == [
        {
            "at": "2026-11-21T12:00:00.250Z",
            "event": "call",
            "bridge": os.getpid(),
            "client": {"name": "Claude Code", "version": "2.1"},
            "session": "5e55",
            "browser": "Work",
            "profile": "p1",
            "origin": "https://shop.example",
            "tab": 1,
            "tabId": 12,
            "name": "website_tool_shop_example_tab1_pay",
            "tool": "pay",
            "outcome": "policy",
            "detail": 'policy.deny has "https://*.example"',
            "handed": False,
            "ms": 12.3,
        }
    ]


def test_a_request_for_a_resource_has_its_kind_and_its_uri(log: AuditLog, state: Path) -> None:
    public = "mcpb://page/shop.example/tab1/cart://1"
    log.write_record(called(kind="resource", name=public, own_name="cart://1"))
    line = lines(state)[0]
    assert (line["kind"], line["name"], line["tool"]) == ("resource", public, "cart://1")
    assert format_row(line)[2] == "resource cart://1"


def test_a_call_that_got_nowhere_leaves_out_what_nobody_knows(log: AuditLog, state: Path) -> None:
    log.write_record(called("unknown_tool", site=Site(), own_name=""))
    assert set(lines(state)[0]) == {
        *("at", "event", "bridge", "client", "session", "name", "outcome", "handed", "ms")
    }


def test_a_tool_name_that_a_client_made_up_is_one_short_printable_line(log: AuditLog, state: Path) -> None:
    for made_up in ("x" * 5000, "pay\n\x1b[2J\u202e\U000e0141"):
        log.write_record(called("unknown_tool", site=Site(), own_name="", name=made_up))
    assert [line["name"] for line in lines(state)] == ["x" * 127 + "…", "pay [2J"]


def test_a_registration_names_the_first_tools_and_counts_all(log: AuditLog, state: Path) -> None:
    log.write_record(ToolRegistration(SHOP, tuple(f"tool{number}" for number in range(300))))
    line = lines(state)[0]
    assert (line["event"], line["origin"], line["tab"], line["count"]) == (
        "registered",
        "https://shop.example",
        1,
        300,
    )
    assert line["tools"] == [f"tool{number}" for number in range(20)]


def test_arguments_are_kept_only_for_who_asks_for_them(log: AuditLog, state: Path) -> None:
    log.write_record(called(arguments=written({"password": "secret"})))
    asked = AuditLog(state, with_arguments=True)
    asked.write_record(called(arguments=written({"password": "secret", "n": 1 << 80})))
    asked.close()
    without, with_them = lines(state)
    assert "secret" not in json.dumps(without)
    assert with_them["arguments"] == {"password": "secret", "n": 1 << 80}


@pytest.mark.parametrize("filling", ["x", '"', "\\", "🦊", "\ud800", "\n"])
def test_long_arguments_are_cut_and_marked(state: Path, filling: str) -> None:
    log = AuditLog(state, with_arguments=True)
    log.write_record(called(arguments=written({"note": filling * 100_000})))
    log.close()
    line = lines(state)[0]
    assert "arguments" not in line
    assert line["argumentsCut"].startswith('{"note":"')
    assert line["argumentsCut"].endswith("…")
    assert len(json.dumps(line["argumentsCut"], ensure_ascii=False).encode()) <= audit_log.ARGUMENTS_BYTES


@pytest.mark.parametrize(
    "what", [b"NaN", b"1" + b"0" * 5000, b"1e999"], ids=["NaN", "5000 digits", "infinite"]
)
def test_arguments_that_cannot_be_read_do_not_keep_the_line_out(state: Path, what: bytes) -> None:
    log = AuditLog(state, with_arguments=True)
    log.write_record(called(arguments=Arguments(b'{"ok":1,"what":%b}' % what)))
    log.write_record(called(arguments=Arguments(b'{"deeper":' * 100_000 + b"1" + b"}" * 100_000)))
    log.write_record(called(arguments=Arguments.of({"ok": float("nan")})))
    log.close()
    assert ["argumentsCut" in line for line in lines(state)] == [True, True, True]


def test_arguments_that_were_written_in_lines_are_kept_in_one(state: Path) -> None:
    log = AuditLog(state, with_arguments=True)
    log.write_record(called(arguments=Arguments(b'{\n  "note": "a\\nb"\n}')))
    log.close()
    (line,) = lines(state)
    assert line["arguments"] == {"note": "a\nb"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"half": "\ud800", "\udfff": 1},
        {"n": 10**4000},
        {"deep": json.loads("[" * 800 + "]" * 800)},
        {"🦊": 1e308},
    ],
    ids=["half a character", "a long number", "deep", "a fox"],
)
def test_no_arguments_hide_their_call_from_who_reads_the_log(state: Path, arguments: dict[str, Any]) -> None:
    log = AuditLog(state, with_arguments=True)
    log.write_record(called(arguments=written(arguments)))
    log.close()
    assert len(read_recent(state, 20, Filter())) == 1


@settings(deadline=None)  # long texts, on a machine that may be busy
@given(text=st.text(alphabet=st.sampled_from('a"\\🦊\ud800\n\x1b\u202e'), min_size=1))
def test_a_line_is_bounded_whatever_clients_and_pages_say(text: str) -> None:
    text *= 5000 // len(text) + 1
    site = Site(text, text, f"https://{text}", 2**31, 2**31)
    session = Session(text, text, wire.ClientInfo(name=text, version=text))
    more: dict[str, Any] = {"batch": "0123abcd", "step": 100, "action": text, "origins": (text,) * 300}
    call = FinishedCall(
        session, text, text, 1e9, site, text, text, arguments=written({text: [text, text]}), **more
    )
    short = msgspec.structs.replace(call, arguments=written({text[:10]: 1}))
    found = [
        audit_log._encode_line(audit_log._call_line(NOON, call, with_arguments=True)),
        audit_log._encode_line(audit_log._call_line(NOON, short, with_arguments=True)),
        audit_log._encode_line(audit_log._call_line(NOON, call, with_arguments=False)),
        audit_log._encode_line(audit_log._registration_line(NOON, ToolRegistration(site, (text,) * 300))),
        audit_log._encode_line(audit_log._redefinition_line(NOON, ToolRedefinition(site, text, text, text))),
    ]
    for line in found:
        assert len(line) <= audit_log.LINE_BYTES
        assert line.count(b"\n") == 1
        assert b"\x1b" not in line
        shown = json.loads(line)
        shown.pop("arguments", None)
        assert "\u202e" not in json.dumps(shown, ensure_ascii=False)


# ── Registrations without end ───────────────────────────────────────────────────────────────────────────────


def test_a_page_that_registers_in_a_loop_gets_ten_lines_a_minute_and_one_that_counts_the_rest(
    log: AuditLog, state: Path, clock: Clock
) -> None:
    for _ in range(1000):
        clock.now += 0.01
        log.write_record(ToolRegistration(SHOP, ("pay",)))
    log.write_record(called())
    assert [line["event"] for line in lines(state)] == ["registered"] * 10 + ["call"]
    clock.now += 60
    log.write_record(called())
    *_, left_out, call = lines(state)
    assert (left_out["event"], left_out["origin"], left_out["leftOut"]) == (
        "registered",
        "https://shop.example",
        990,
    )
    assert call["event"] == "call"
    log.write_record(ToolRegistration(SHOP, ("pay",)))
    assert lines(state)[-1]["tools"] == ["pay"]


def test_one_origin_s_flood_does_not_silence_another(log: AuditLog, state: Path) -> None:
    for _ in range(50):
        log.write_record(ToolRegistration(SHOP, ("pay",)))
    log.write_record(ToolRegistration(Site(origin="https://bank.example"), ("transfer",)))
    assert lines(state)[-1]["origin"] == "https://bank.example"


def test_all_origins_together_are_bounded_too(log: AuditLog, state: Path, clock: Clock) -> None:
    """A page can have as many as it likes, in iframes of ever new subdomains."""
    for number in range(5000):
        log.write_record(ToolRegistration(Site(origin=f"https://{number}.wild.example"), ("x",)))
    assert len(lines(state)) == audit_log.REGISTRATIONS_A_MINUTE
    clock.now += 60
    log.write_record(called())
    *registered, left_out, _ = lines(state)
    assert len(registered) == audit_log.REGISTRATIONS_A_MINUTE
    assert left_out["leftOut"] == 5000 - audit_log.REGISTRATIONS_A_MINUTE
    assert "origin" not in left_out
    assert format_row(left_out)[-1] == "4940 more lists of further sites were left out"


def test_a_call_stays_in_the_log_for_hours_whatever_pages_register(
    log: AuditLog, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred origins, each ten times a minute, in a log of a tenth of its size."""
    monkeypatch.setattr(audit_log, "MAX_BYTES", audit_log.MAX_BYTES // 10)
    log.write_record(called())
    began, names = clock.now, tuple("x" * 120 for _ in range(20))
    while read_recent(state, 1, Filter()):
        for number in range(1000):
            log.write_record(ToolRegistration(Site(origin=f"https://{number % 100}.evil.example"), names))
        clock.now += 60
    assert clock.now - began > 10 * 60


def test_the_next_minute_has_room_again(log: AuditLog, state: Path, clock: Clock) -> None:
    for _ in range(3):
        for number in range(1000):
            log.write_record(ToolRegistration(Site(origin=f"https://{number}.wild.example"), ("x",)))
        clock.now += 60
    assert len([line for line in lines(state) if "tools" in line]) == 3 * audit_log.REGISTRATIONS_A_MINUTE


def test_what_was_left_out_is_told_at_the_end(log: AuditLog, state: Path) -> None:
    for _ in range(11):
        log.write_record(ToolRegistration(SHOP, ("pay",)))
    log.close()
    assert lines(state)[-1]["leftOut"] == 1


def test_a_clock_that_is_set_back_does_not_silence_a_site(log: AuditLog, state: Path, clock: Clock) -> None:
    for _ in range(10):
        log.write_record(ToolRegistration(SHOP, ("pay",)))
    clock.now -= 86_400
    log.write_record(ToolRegistration(SHOP, ("pay",)))
    assert len(lines(state)) == 11


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


def test_file_and_directory_are_the_user_s_alone(log: AuditLog, state: Path) -> None:
    log.write_record(called())
    assert (state / NAME).stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700


def test_a_full_file_is_renamed_and_only_one_predecessor_stays(
    log: AuditLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 1000)
    for number in range(20):
        log.write_record(called(detail=str(number)))
    assert sorted(path.name for path in state.iterdir()) == [EARLIER, NAME]
    kept = lines(state, EARLIER) + lines(state)
    assert [line["detail"] for line in kept] == [str(number) for number in range(20)][-len(kept) :]
    assert all(path.stat().st_size < 2000 for path in state.iterdir())


def test_who_finds_the_file_renamed_by_another_bridge_goes_on_in_the_new_one(
    log: AuditLog, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = AuditLog(state, with_arguments=False, clock=clock)
    log.write_record(called(detail="before"))
    other.write_record(called(detail="before"))
    clock.now += 2 * audit_log.LOOK_EVERY_S
    monkeypatch.setattr(audit_log, "MAX_BYTES", 500)
    other.write_record(called(detail="after"))
    log.write_record(called(detail="after"))
    other.close()
    assert [line["detail"] for line in lines(state, EARLIER)] == ["before", "before"]
    assert [line["detail"] for line in lines(state)] == ["after", "after"]


def test_two_bridges_that_find_it_full_at_the_same_moment_rename_it_once(
    log: AuditLog, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = AuditLog(state, with_arguments=False, clock=clock)
    for kept in (log, other):
        kept.write_record(called(detail="before"))
    clock.now += 2 * audit_log.LOOK_EVERY_S
    monkeypatch.setattr(audit_log, "MAX_BYTES", 500)
    lock = fcntl.flock

    def be_overtaken(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        other.write_record(called(detail="other"))
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", be_overtaken)
    log.write_record(called(detail="after"))
    other.close()
    assert [line["detail"] for line in lines(state, EARLIER)] == ["before", "before"]
    assert [line["detail"] for line in lines(state)] == ["other", "after"]


def test_who_finds_it_locked_writes_on_and_waits_for_nobody(
    log: AuditLog, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_record(called(detail="before"))
    clock.now += 2 * audit_log.LOOK_EVERY_S
    monkeypatch.setattr(audit_log, "MAX_BYTES", 100)
    with (state / NAME).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        log.write_record(called(detail="after"))
    assert [line["detail"] for line in lines(state)] == ["before", "after"]


def test_a_file_that_was_removed_is_begun_anew(log: AuditLog, state: Path, clock: Clock) -> None:
    log.write_record(called(detail="before"))
    (state / NAME).unlink()
    clock.now += 2 * audit_log.LOOK_EVERY_S
    log.write_record(called(detail="after"))
    assert [line["detail"] for line in lines(state)] == ["after"]


def test_until_it_is_looked_at_again_lines_go_to_the_file_that_had_the_name(
    log: AuditLog, state: Path, clock: Clock
) -> None:
    log.write_record(called(detail="before"))
    (state / NAME).rename(state / EARLIER)
    clock.now += audit_log.LOOK_EVERY_S / 2
    log.write_record(called(detail="at once"))
    clock.now += audit_log.LOOK_EVERY_S
    log.write_record(called(detail="later"))
    assert [line["detail"] for line in lines(state, EARLIER)] == ["before", "at once"]
    assert [line["detail"] for line in lines(state)] == ["later"]


def test_a_clock_that_is_put_back_does_not_keep_it_from_being_looked_at(
    log: AuditLog, state: Path, clock: Clock
) -> None:
    log.write_record(called(detail="before"))
    (state / NAME).unlink()
    clock.now -= 3600
    log.write_record(called(detail="after"))
    assert [line["detail"] for line in lines(state)] == ["after"]


WRITER = """
import sys
from pathlib import Path
from bridge.state import audit_log
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Site
from bridge.hub.client_session import Session

audit_log.MAX_BYTES = int(sys.argv[3])
clock = (second / 50 for second in range(10**6)).__next__  # so that it looks at the file at every fifth line
log = audit_log.AuditLog(Path(sys.argv[1]), with_arguments=True, clock=clock)
print("ready", flush=True)
sys.stdin.read()
for number in range(500):
    text = "x" * (number * 7 % 1500)
    arguments = Arguments.of({"text": text})
    call = FinishedCall(Session("s"), "pay", "ok", 0, Site(), sys.argv[2], str(number), arguments=arguments)
    log.write_record(call)
"""


def test_many_bridges_write_at_once_and_no_line_is_lost_torn_or_doubled_when_one_renames_the_file(
    state: Path,
) -> None:
    """Four processes let go at once; the file is full about half-way."""
    max_bytes = 4 * 500 * 900 // 2
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(state), str(number), str(max_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == b"ready\n"
    for writer in writers:
        assert writer.stdin
        writer.stdin.close()
    for writer in writers:
        assert writer.wait(timeout=30) == 0
        assert writer.stdout
        writer.stdout.close()
    found = [(line["tool"], line["detail"]) for line in lines(state, EARLIER) + lines(state)]
    assert len(found) == 2000
    assert set(found) == {(str(writer), str(number)) for writer in range(4) for number in range(500)}
    assert (state / EARLIER).stat().st_size >= max_bytes


@pytest.mark.parametrize("obstacle", ["a link", "a directory", "an open directory"])
def test_a_log_that_cannot_be_written_is_complained_of_once_and_harms_no_call(
    log: AuditLog, state: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    state.mkdir(mode=0o700)
    match obstacle:
        case "a link":
            (state / NAME).symlink_to(state.parent / "elsewhere")
        case "a directory":
            (state / NAME).mkdir()
        case _:
            state.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            log.write_record(called())
            log.write_record(ToolRegistration(SHOP, ("pay",)))
        log.close()
    assert len(caplog.records) == 1
    assert "calls go on, but the audit log is not kept" in caplog.text
    assert not (state.parent / "elsewhere").exists()


def test_a_log_that_can_be_written_again_is(log: AuditLog, state: Path) -> None:
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    log.write_record(called(detail="before"))
    state.chmod(0o700)
    log.write_record(called(detail="after"))
    assert [line["detail"] for line in lines(state)] == ["after"]


def test_a_line_that_broke_off_on_a_full_disk_does_not_take_the_next_one_with_it(
    log: AuditLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:50]))
        log.write_record(called(detail="torn"))
        log.write_record(called(detail="torn too"))
    log.write_record(called(detail="next"))
    log.write_record(called(detail="last"))
    assert details(read_recent(state, 20, Filter())) == ["next", "last"]


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def details(found: list[dict[str, Any]]) -> list[str]:
    return [line.get("detail", "") for line in found]


def test_reading_begins_at_the_end_and_goes_on_in_the_file_before(
    log: AuditLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 200_000)
    for number in range(1000):
        log.write_record(called(detail=str(number)))
    assert (state / EARLIER).exists()
    assert details(read_recent(state, 3, Filter())) == ["997", "998", "999"]
    assert details(read_recent(state, 800, Filter())) == [str(number) for number in range(200, 1000)]


def test_without_a_log_there_is_nothing_to_read(state: Path) -> None:
    assert read_recent(state, 20, Filter()) == []


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(), ["1", "2", "3"]),
        (Filter(outcome="!ok"), ["2", "3"]),
        (Filter(outcome="t*"), ["2"]),
        (Filter(origin="https://bank.example"), ["3"]),
        (Filter(origin="*.example"), ["1", "2", "3"]),
        (Filter(origin="!bank.example"), ["1", "2"]),
        (Filter(client="claude*"), ["1", "3"]),
        (Filter(client="!claude*"), ["2"]),
        (Filter(tool="PAY"), ["1", "2", "3"]),
        (Filter(tool="website_tool_*"), ["1", "2", "3"]),
        (Filter(tool="getCart"), []),
        (Filter(since=NOON + 2), ["3"]),
        (Filter(outcome="!ok", client="claude*"), ["3"]),
    ],
    ids=repr,
)
def test_filters_are_globs_and_an_exclamation_mark_turns_them_round(
    log: AuditLog, state: Path, clock: Clock, where: Filter, expected: list[str]
) -> None:
    cursor = Session("c0", client=wire.ClientInfo(name="Cursor"))
    log.write_record(called("ok", detail="1"))
    clock.now += 1
    log.write_record(called("timed_out", detail="2", session=cursor))
    log.write_record(ToolRegistration(SHOP, ("pay",)))
    clock.now += 1
    log.write_record(called("paused", Site(origin="https://bank.example"), detail="3"))
    assert details(read_recent(state, 20, where)) == expected


def test_registrations_are_read_when_they_are_asked_for(log: AuditLog, state: Path) -> None:
    log.write_record(ToolRegistration(SHOP, ("pay",)))
    log.write_record(called())
    assert [line["event"] for line in read_recent(state, 20, EVERYTHING)] == ["registered", "call"]


@pytest.mark.parametrize(
    "broken",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"event": "call"}',
        b'{"at": 5, "event": "call"}',
        b"[" * 100_000,
        b"x" * 1_000_000,
        b'{"at": "2026-11-21T12:00:00Z", "event": "call", "client": []',
    ],
    ids=range(8),
)
def test_broken_lines_are_passed_over(log: AuditLog, state: Path, broken: bytes) -> None:
    log.write_record(called(detail="before"))
    with (state / NAME).open("ab") as file:
        file.write(broken + b"\n")
    log.write_record(called(detail="after"))
    assert details(read_recent(state, 20, EVERYTHING)) == ["before", "after"]


def test_members_of_an_unexpected_kind_do_not_stop_the_reader(log: AuditLog, state: Path) -> None:
    log.write_record(called())
    with (state / NAME).open("a") as file:
        file.write('{"at": "2027", "event": [1], "client": [], "origin": {}, "tool": 5}\n')
    assert len(read_recent(state, 20, Filter(is_with_registrations=True, origin="*", client="*"))) == 2


def test_following_says_the_last_lines_then_each_that_comes(log: AuditLog, state: Path) -> None:
    for number in range(5):
        log.write_record(called(detail=str(number)))
    coming = iter(["5", "6"])
    followed = follow_log(state, 2, Filter(), lambda: log.write_record(called(detail=next(coming))))
    assert details([next(followed) for _ in range(4)]) == ["3", "4", "5", "6"]
    followed.close()


def test_the_latest_calls_and_requests_of_pages_stand_apart_and_nothing_is_read_twice(
    log: AuditLog, state: Path
) -> None:
    latest = LatestCalls(state, 2, 1)
    latest.read_new()
    assert latest.read_lines == 0
    for number in range(3):
        log.write_record(called(detail=str(number)))
        log.write_record(called(kind="sampling", detail=f"asked {number}"))
    log.write_record(ToolRegistration(SHOP, ("pay",)))
    latest.read_new()
    assert (details([*latest.calls]), details([*latest.page_requests])) == (["1", "2"], ["asked 2"])
    (state / NAME).write_bytes(b"\n" * (state / NAME).stat().st_size)
    log.write_record(called(detail="3"))
    latest.read_new()
    assert (details([*latest.calls]), details([*latest.page_requests])) == (["2", "3"], ["asked 2"])
    assert latest.read_lines == 7
    latest.close()


def test_following_begins_before_there_is_a_log(log: AuditLog, state: Path) -> None:
    followed = follow_log(state, 20, Filter(), lambda: log.write_record(called(detail="first")))
    assert details([next(followed)]) == ["first"]
    followed.close()


def test_following_goes_through_renamed_files_without_losing_a_line(
    log: AuditLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_BYTES", 5000)
    numbers = iter(range(1000))

    def wait() -> None:
        for _ in range(3):
            log.write_record(called(detail=str(next(numbers))))

    followed = follow_log(state, 20, Filter(), wait)
    assert details([next(followed) for _ in range(300)]) == [str(number) for number in range(300)]
    followed.close()
    assert (state / EARLIER).exists()


def test_what_is_written_just_before_the_file_is_renamed_is_followed_too(
    log: AuditLog, state: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_record(called(detail="first"))
    open_to_read = audit_reader._open_to_read

    def be_overtaken(path: Path) -> BinaryIO:
        """The reader has come to the end, and is about to look whether there is a new file."""
        monkeypatch.setattr(audit_reader, "_open_to_read", open_to_read)
        log.write_record(called(detail="late"))
        path.rename(state / EARLIER)
        clock.now += 2 * audit_log.LOOK_EVERY_S
        log.write_record(called(detail="new"))
        return open_to_read(path)

    followed = follow_log(state, 20, Filter(), lambda: pytest.fail("a line is missing"))
    first = next(followed)
    monkeypatch.setattr(audit_reader, "_open_to_read", be_overtaken)
    assert details([first, next(followed), next(followed)]) == ["first", "late", "new"]
    followed.close()


def test_what_another_bridge_writes_to_the_renamed_file_is_followed_too(
    log: AuditLog, state: Path, clock: Clock
) -> None:
    other = AuditLog(state, with_arguments=False, clock=clock)
    log.write_record(called(detail="first"))
    other.write_record(called(detail="second"))

    def wait() -> None:
        if not (state / EARLIER).exists():
            (state / NAME).rename(state / EARLIER)
            AuditLog(state, with_arguments=False).write_record(called(detail="new"))
        else:
            other.write_record(called(detail="late"))

    followed = follow_log(state, 20, Filter(), wait)
    assert details([next(followed) for _ in range(4)]) == ["first", "second", "new", "late"]
    followed.close()
    other.close()


def test_a_file_that_is_renamed_while_it_is_read_is_read_once(
    log: AuditLog, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_record(called(detail="only"))
    open_to_read = audit_reader._open_to_read

    def be_overtaken(path: Path) -> BinaryIO:
        file = open_to_read(path)
        if path.name == NAME:
            path.rename(state / EARLIER)
        return file

    monkeypatch.setattr(audit_reader, "_open_to_read", be_overtaken)
    assert details(read_recent(state, 20, Filter())) == ["only"]


def test_following_waits_for_the_rest_of_a_line(log: AuditLog, state: Path) -> None:
    log.write_record(called(detail="first"))
    whole = (state / NAME).read_bytes()
    with (state / NAME).open("ab", buffering=0) as file:
        file.write(whole[:50])

        def wait() -> None:
            file.write(whole[50:])

        followed = follow_log(state, 20, Filter(), wait)
        assert details([next(followed), next(followed)]) == ["first", "first"]
        followed.close()


# ── Steps, further sites, changed definitions ───────────────────────────────────────────────────────────────


def test_a_step_is_a_line_with_its_batch_number_tool_and_action(log: AuditLog, state: Path) -> None:
    log.write_record(
        called(name="computer", own_name="computer", action="left_click", batch="0123abcd", step=2)
    )
    (line,) = lines(state)
    found = [line[member] for member in ("batch", "step", "tool", "action", "origin", "outcome")]
    assert found == ["0123abcd", 2, "computer", "left_click", "https://shop.example", "ok"]
    assert format_row(line)[2] == "0123abcd.2 computer left_click"


@pytest.mark.parametrize("origin", ["https://bank.example", "bank.example", "BANK.*", "shop.example"])
def test_a_call_is_found_by_each_site_that_it_touched(log: AuditLog, state: Path, origin: str) -> None:
    log.write_record(called(origins=("https://news.example", "https://bank.example")))
    assert len(read_recent(state, 20, Filter(origin=origin))) == 1
    assert read_recent(state, 20, Filter(origin=f"!{origin}")) == []
    assert read_recent(state, 20, Filter(origin="other.example")) == []


def test_origins_beyond_the_room_of_a_line_are_counted(log: AuditLog, state: Path) -> None:
    log.write_record(called(origins=tuple(f"https://{number}.shop.example" for number in range(1000))))
    (line,) = lines(state)
    assert len(line["origins"]) > 50
    assert len(line["origins"]) + line["moreOrigins"] == 1000
    assert format_row(line)[-1].endswith(f"and {line['moreOrigins']} more")


def test_a_changed_definition_is_a_line_with_both_hashes(log: AuditLog, state: Path) -> None:
    log.write_record(ToolRedefinition(SHOP, "pay", "aa11", "bb22"))
    (line,) = read_recent(state, 20, EVERYTHING)
    found = [line[member] for member in ("event", "tool", "origin", "before", "after")]
    assert found == ["redefined", "pay", "https://shop.example", "aa11", "bb22"]
    assert format_row(line)[-1] == "its definition changed: aa11 -> bb22"


def test_a_flood_of_registrations_does_not_hide_a_changed_definition(log: AuditLog, state: Path) -> None:
    for _ in range(100):
        log.write_record(ToolRegistration(SHOP, ("pay",)))
    log.write_record(ToolRedefinition(SHOP, "pay", "aa11", "bb22"))
    assert lines(state)[-1]["event"] == "redefined"


def test_changed_definitions_in_a_loop_are_counted(log: AuditLog, state: Path) -> None:
    for _ in range(100):
        log.write_record(ToolRedefinition(SHOP, "pay", "aa11", "bb22"))
    log.close()
    *kept, last = lines(state)
    assert (len(kept), last["leftOut"]) == (audit_log.REGISTRATIONS_OF_ORIGIN, 90)
    assert format_row(last)[-1] == "90 more changed definitions of this site were left out"


# ── The log file of a bridge ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def state_log(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is; the handlers are gone afterwards."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.delenv("MCPB_LOG", raising=False)
    return short_tmp / "state"


def test_the_file_is_rotated_by_size_and_each_is_private(
    state_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_BYTES", 200)
    log_file.configure_logging(state_log)
    for number in range(10):
        logging.getLogger("bridge.test").warning("%d %s", number, "x" * 100)
        logging.getLogger("bridge.test").debug("not written")
    for handler in logging.getLogger().handlers:
        handler.close()
    files = sorted(state_log.iterdir())
    assert [file.name for file in files] == ["mcpb.log", "mcpb.log.1"]
    assert " WARNING bridge.test: 9 " in files[0].read_text()
    assert "not written" not in files[0].read_text()
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_half_a_character_does_not_keep_a_line_out(state_log: Path) -> None:
    log_file.configure_logging(state_log)
    logging.getLogger("bridge.test").warning("half of one: \ud800")
    for handler in logging.getLogger().handlers:
        handler.close()
    assert "half of one: \\ud800" in (state_log / "mcpb.log").read_text()
