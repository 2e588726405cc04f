"""docs/PROTOCOL.md and docs/wire.schema.json say what the code does: every example is decoded by its type."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from native_host import envelope, schema
from native_host.wire import METHODS, Code, Wire

DOCS = Path(__file__).parent.parent / "docs"
PROTOCOL = (DOCS / "PROTOCOL.md").read_text()

SECTIONS = {
    heading: re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    for heading, text in re.findall(r"^### (\S+)\n(.*?)(?=^##)", PROTOCOL, re.MULTILINE | re.DOTALL)
}
EXAMPLES = [(name, example) for name, examples in SECTIONS.items() for example in examples]


def convert_strictly(value: dict[str, Any], shape: type[Wire]) -> None:
    """Decode, and refuse members that the type does not know (the wire itself ignores those)."""
    msgspec.json.decode(msgspec.json.encode(value), type=shape)
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert set(value) <= known or not known


def test_every_message_has_a_section_and_every_section_is_a_message() -> None:
    assert set(SECTIONS) == set(METHODS)
    assert all(SECTIONS.values())


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_what_its_type_says(name: str, example: str) -> None:
    message = json.loads(example)
    method = METHODS[name]
    assert message["jsonrpc"] == "2.0"
    envelope.decode(example.encode())
    if "method" in message:
        assert message["method"] == name
        assert ("id" in message) == (method.result is not None)
        assert ("for" in message) == (method.route == "extension → asker")
        convert_strictly(message["params"], method.params)
    else:
        assert method.result is not None
        convert_strictly(message["result"], method.result)


def test_the_table_of_errors_has_the_code_s_numbers_and_names() -> None:
    rows = re.findall(r"^\| (-\d+) \| (\w+) \|", PROTOCOL, re.MULTILINE)
    assert {name: int(number) for number, name in rows} == {code.name: code.value for code in Code}


def test_the_json_schema_is_the_one_that_the_types_make() -> None:
    """If this fails: python -m native_host.schema > docs/wire.schema.json"""
    assert (DOCS / "wire.schema.json").read_text() == schema.text()
