"""What browsers find wrong with a host manifest, in their order, and with the program that it names."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from install.browsers import Kind
from install.host_manifest import (
    CALLERS_KEY,
    OUR_CALLERS,
    callers_in,
    manifest_faults,
    manifest_text,
    program_named_in,
    read_manifest,
)
from install.program_check import LookAtProgram, Program, program_fault
from native_host.protocol.wire import HOST_NAME

FILE = Path(f"/folder/{HOST_NAME}.json")
CHROMIUM_CALLER, FIREFOX_CALLER = OUR_CALLERS
CALLER: dict[Kind, str] = {"chromium": CHROMIUM_CALLER, "firefox": FIREFOX_CALLER}
BOTH: tuple[Kind, ...] = ("chromium", "firefox")
ABSENT = object()


def manifest(kind: Kind, **changes: Any) -> bytes:
    """A right one, but for `changes`; `callers` stands for the key that this kind reads."""
    found = json.loads(manifest_text(kind, Path("/mcpb/host"), OUR_CALLERS))
    for key, value in changes.items():
        found[CALLERS_KEY[kind] if key == "callers" else key] = value
    return json.dumps({key: value for key, value in found.items() if value is not ABSENT}).encode()


def codes(content: bytes, kind: Kind) -> list[str]:
    return [finding.code for finding in manifest_faults(content, FILE, kind, CALLER[kind])]


@pytest.mark.parametrize("kind", BOTH)
def test_what_the_installer_writes_has_no_fault(kind: Kind) -> None:
    assert codes(manifest_text(kind, Path("/mcpb/host"), OUR_CALLERS).encode(), kind) == []


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"text"', b"\xff\xfe{}", b'{"name": "a",}', b"[" * 100_000]
)
def test_what_is_no_json_object_is_said_so_and_nothing_else(content: bytes, kind: Kind) -> None:
    assert codes(content, kind) == ["manifest-not-json"]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": ABSENT}, "manifest-name"),
        ({"name": 7}, "manifest-name"),
        ({"name": "dev.mcpb.other"}, "manifest-name"),
        ({"name": "dev..mcpb"}, "manifest-name"),
        ({"name": "dev-mcpb"}, "manifest-name"),
        ({"description": ABSENT}, "manifest-description"),
        ({"description": 7}, "manifest-description"),
        ({"type": ABSENT}, "manifest-type"),
        ({"type": "socket"}, "manifest-type"),
        ({"path": ABSENT}, "manifest-path"),
        ({"path": ""}, "manifest-path"),
        ({"path": ["/a"]}, "manifest-path"),
        ({"path": "bin/host"}, "manifest-relative-path"),
        ({"path": "~/bin/host"}, "manifest-relative-path"),
        ({"callers": "chrome"}, "manifest-callers"),
        ({"callers": []}, "origin-missing"),
    ],
)
def test_each_cause_has_a_code_of_its_own(changes: dict[str, Any], code: str, kind: Kind) -> None:
    assert codes(manifest(kind, **changes), kind) == ([code] if code else [])


@pytest.mark.parametrize("kind", BOTH)
def test_a_manifest_of_the_other_kind_has_no_callers_for_this_one(kind: Kind) -> None:
    other: Kind = "firefox" if kind == "chromium" else "chromium"
    assert codes(manifest(other), kind)[0] == "manifest-callers"


@pytest.mark.parametrize(
    "entry",
    [
        CHROMIUM_CALLER.removesuffix("/"),
        "chrome-extension://*/",
        "chrome-extension://*.a/",
        f"{CHROMIUM_CALLER[:-1]}:80/",
        CHROMIUM_CALLER.replace("//", "//u@"),
        "https://example.com/",
        "<all_urls>",
        7,
        None,
    ],
)
def test_one_origin_that_chromium_cannot_read_spoils_the_file(entry: object) -> None:
    (finding,) = manifest_faults(
        manifest("chromium", callers=[CHROMIUM_CALLER, entry]), FILE, "chromium", CHROMIUM_CALLER
    )
    assert finding.code == "origin-malformed"
    assert json.dumps(entry) in finding.text or entry is None


@pytest.mark.parametrize("entry", ["no id", "*", 7])
def test_one_add_on_id_that_firefox_cannot_read_spoils_the_file(entry: object) -> None:
    assert codes(manifest("firefox", callers=[FIREFOX_CALLER, entry]), "firefox") == ["origin-malformed"]


def test_chromium_does_not_care_how_many_letters_an_origin_has() -> None:
    assert codes(manifest("chromium", callers=["chrome-extension://abc/", CHROMIUM_CALLER]), "chromium") == []


OURS = manifest("chromium")


@pytest.mark.parametrize(
    "content",
    [
        b"// ours\n" + OURS,
        b"/* ours\n" + b"*/" + OURS,
        OURS.replace(b'"type"', b'"note": "one\ntwo // three", "type"'),
        OURS.replace(b'"type"', b'"note": "\\x41\\v\\\\x4", "type"'),
        OURS.replace(b'"type"', b'"note": ' + b"[" * 150 + b"]" * 150 + b', "type"'),
    ],
)
def test_chromium_reads_more_than_json_and_firefox_does_not(content: bytes) -> None:
    assert codes(content, "chromium") == []
    assert codes(content.replace(b"chrome", b"x"), "firefox") != []
    assert read_manifest(content) is not None


@pytest.mark.parametrize(
    "value", [b"[" * 250 + b"]" * 250, b"1e999", b"NaN", b'"\\ud800"', b'"a\tb"', b"'a'", b"[1,]"]
)
def test_what_chromium_does_not_read_spoils_the_file(value: bytes) -> None:
    content = OURS.replace(b'"type"', b'"note": ' + value + b', "type"')
    assert codes(content, "chromium") == ["manifest-not-json"]


def test_firefox_reads_half_a_character() -> None:
    assert codes(manifest("firefox", description="\ud800"), "firefox") == []


def test_what_follows_a_mark_of_byte_order_is_what_is_explained() -> None:
    (finding,) = manifest_faults(b"\xef\xbb\xbf{", FILE, "chromium", CHROMIUM_CALLER)
    assert "BOM" not in finding.text


def test_a_long_file_is_read_to_its_end() -> None:
    assert codes(manifest("chromium", description="x" * 300_000), "chromium") == []


@pytest.mark.parametrize("entry", [CHROMIUM_CALLER + "*", CHROMIUM_CALLER + "a?b", CHROMIUM_CALLER.upper()])
def test_chromium_compares_origins_without_their_paths_and_capitals(entry: str) -> None:
    written = entry.replace("CHROME-EXTENSION", "chrome-extension")
    assert codes(manifest("chromium", callers=[written]), "chromium") == []


def test_a_pattern_for_any_scheme_admits_nobody_and_spoils_nothing() -> None:
    assert codes(manifest("chromium", callers=["*://x/"]), "chromium") == ["origin-missing"]
    assert codes(manifest("chromium", callers=["*://x/", CHROMIUM_CALLER]), "chromium") == []


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("end", ["/", "/."])
def test_a_path_that_ends_as_a_folder_does_is_none_of_a_program(end: str, kind: Kind) -> None:
    assert codes(manifest(kind, path=f"/mcpb/host{end}"), kind) == ["manifest-path"]


@pytest.mark.parametrize("kind", BOTH)
def test_a_path_ends_before_a_nul(kind: Kind) -> None:
    assert program_named_in(manifest(kind, path="/mcpb/host\0more"), kind) == Path("/mcpb/host")
    assert codes(manifest(kind, path="/mcpb/host\0more"), kind) == []


def test_a_missing_origin_is_named() -> None:
    other = "chrome-extension://" + "a" * 32 + "/"
    (finding,) = manifest_faults(manifest("chromium", callers=[other]), FILE, "chromium", CHROMIUM_CALLER)
    assert finding.code == "origin-missing"
    assert CHROMIUM_CALLER in finding.text


def test_chromium_asks_who_is_calling_before_it_looks_at_the_path_and_firefox_after() -> None:
    assert codes(manifest("chromium", path="x", callers=[]), "chromium") == [
        "origin-missing",
        "manifest-relative-path",
    ]
    assert codes(manifest("firefox", path="x", callers=[]), "firefox") == [
        "manifest-relative-path",
        "origin-missing",
    ]


@pytest.mark.parametrize("key", ["allowed_origins", "unknown"])
def test_only_firefox_minds_keys_that_it_does_not_know(key: str) -> None:
    assert codes(manifest("firefox", **{key: []}), "firefox") == ["manifest-unknown-key"]
    assert codes(manifest("chromium", unknown=[], allowed_extensions=[]), "chromium") == []


@pytest.mark.parametrize("kind", BOTH)
def test_a_byte_order_mark_is_skipped(kind: Kind) -> None:
    assert codes(b"\xef\xbb\xbf" + manifest(kind), kind) == []


def test_only_chromium_wants_words_in_the_description() -> None:
    assert codes(manifest("chromium", description=""), "chromium") == ["manifest-description"]
    assert codes(manifest("firefox", description=""), "firefox") == []


def test_a_long_value_of_somebody_elses_file_is_cut() -> None:
    (finding,) = manifest_faults(manifest("chromium", name="x" * 5000), FILE, "chromium", CHROMIUM_CALLER)
    assert len(finding.text) < 300


def test_program_and_callers_are_read_from_whatever_is_there() -> None:
    assert program_named_in(manifest("chromium")) == Path("/mcpb/host")
    assert program_named_in(manifest("chromium", path="bin/host")) is None
    assert program_named_in(b"[]") is None
    assert callers_in(manifest("firefox", callers=["a@b", 7]), "firefox") == ["a@b"]
    assert callers_in(b"nonsense", "firefox") == []


# ── The program ─────────────────────────────────────────────────────────────────────────────────────────────

REGULAR, FOLDER = stat.S_IFREG | 0o755, stat.S_IFDIR | 0o755
SHELL = Program(REGULAR, is_executable=True, head=b"\x7fELF")


def seen(**places: Program) -> LookAtProgram:
    """A disk with these programs in /, and a shell."""
    disk = {Path("/bin/sh"): SHELL, **{Path("/" + name): program for name, program in places.items()}}
    return lambda path: disk.get(path, Program())


@pytest.mark.parametrize(
    "head", [b"\x7fELF", b"#!/bin/sh\n", b"#! /bin/sh -e\n", b"#!/bin/sh", b"echo hi\n", b""]
)
def test_a_program_that_can_be_started_has_no_fault(head: bytes) -> None:
    assert program_fault(Path("/host"), seen(host=Program(REGULAR, is_executable=True, head=head))) is None


def test_an_interpreter_without_a_slash_in_front_is_looked_for_from_the_programs_folder() -> None:
    script = Program(REGULAR, is_executable=True, head=b"#!bin/sh\n")
    assert program_fault(Path("/host"), seen(host=script)) is None


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [
        (Program(), "program-missing", "/host does not exist"),
        (Program(leads_to="/gone/host"), "program-missing", "it is a link to /gone/host"),
        (Program(FOLDER, is_executable=True), "program-not-a-file", "not a file"),
        (Program(stat.S_IFREG | 0o640), "program-not-executable", "mode 0640"),
        (Program(closed_by="/folder"), "program-not-executable", "you may not enter /folder"),
        (Program(REGULAR, True, b"#!bin/gone\n"), "program-shebang", "bin/gone, which does not exist"),
        (Program(REGULAR, True, b"#!/gone/sh\n"), "program-shebang", "/gone/sh, which does not exist"),
        (Program(REGULAR, True, b"#!/bin/sh\r\n"), "program-shebang", "Windows line endings"),
        (Program(REGULAR, True, b"#!\n"), "program-shebang", "no interpreter"),
        (Program(REGULAR, True, b"#!/plain\n"), "program-shebang", "/plain, which is not executable"),
    ],
)
def test_why_a_program_cannot_be_started_is_said(program: Program, code: str, words: str) -> None:
    finding = program_fault(Path("/host"), seen(host=program, plain=Program(stat.S_IFREG | 0o644)))
    assert finding is not None
    assert finding.code == code
    assert words in finding.text
