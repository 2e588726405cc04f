"""Size of a message that arrives in chunks."""

from __future__ import annotations

import json
import random

import pytest

from bridge.links import message_meter
from bridge.links.message_meter import MessageMeter
from bridge.links.remote_problem import RemoteProblem

VALUES = 1000
SIZE_BYTES = 1 << 20
TRICKY = ['"', "\\", '\\"', "a,b", "[{", ",\\", "\n", "é", ""]


@pytest.fixture(autouse=True)
def lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_meter, "MAX_MESSAGE_BYTES", SIZE_BYTES)
    monkeypatch.setattr(message_meter, "MAX_MESSAGE_VALUES", VALUES)


def is_accepted(text: bytes, chunk_bytes: int, *, is_event: bool = False) -> bool:
    meter = MessageMeter(is_event=is_event)
    try:
        for start in range(0, len(text), chunk_bytes):
            meter.add(text[start : start + chunk_bytes])
    except RemoteProblem:
        return False
    return True


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 64, 1 << 16])
@pytest.mark.parametrize("indent", [None, 1])
def test_values_are_counted_outside_of_strings_whatever_the_chunks(
    chunk_bytes: int, indent: int | None
) -> None:
    choose = random.Random(chunk_bytes)
    texts = ["".join(choose.choices(TRICKY, k=9)) for _ in range(VALUES - 1)]
    assert is_accepted(json.dumps(texts, indent=indent, ensure_ascii=False).encode(), chunk_bytes)
    assert not is_accepted(json.dumps([*texts, *"ab"], indent=indent).encode(), chunk_bytes)


@pytest.mark.parametrize("value", ["[]", "{}", "0", '""', '{"a":0}'])
def test_values_of_each_kind_are_counted(value: str) -> None:
    assert not is_accepted(f"[{','.join([value] * 2 * VALUES)}]".encode(), 64)


@pytest.mark.parametrize("field", [b': "\n', b'id: "\r', b'event: "\r\n'])
def test_a_quotation_mark_in_another_field_of_an_event_hides_no_values(field: bytes) -> None:
    assert not is_accepted(field + b"data: " + b"[]," * 2 * VALUES, 64, is_event=True)


def test_the_lines_of_an_event_are_counted() -> None:
    assert not is_accepted(b"data\n" * 2 * VALUES, 64, is_event=True)


def test_a_text_is_limited_by_its_bytes_only() -> None:
    text = b'"' + b"[,]{" * (SIZE_BYTES // 4 - 1) + b'"'
    assert is_accepted(text, 1 << 16)
    assert not is_accepted(text + b"    ", 1 << 16)


def test_each_message_has_its_own_count() -> None:
    meter = MessageMeter()
    for _ in range(3):
        meter.begin()
        meter.add(b'["' + b"0," * 100 + b"\\")
        meter.begin()
        meter.add(b"[" + b"0," * (VALUES - 1))
