"""Support code of the tests: shapes of JSON documents, and the temporary directory."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from demo.temporary_directory import throw_away_directory
from json_outputs import make_sample
from json_shapes import collect_member_types, find_differences, format_json, inline_references, remove_wording


def test_references_are_replaced_by_their_definitions_at_any_depth() -> None:
    definitions = {"Tab": {"items": {"$ref": "#/$defs/Id"}}, "Id": {"type": "integer"}}
    schema = {"properties": {"tab": {"$ref": "#/$defs/Tab", "default": []}}}
    inlined = {"properties": {"tab": {"items": {"type": "integer"}, "default": []}}}
    assert inline_references(schema, definitions) == inlined


def test_wording_is_removed_but_no_property_and_no_default_of_that_name() -> None:
    schema = {
        "title": "Tab",
        "properties": {"title": {"type": "string", "description": "Of the page."}},
        "default": {"title": ""},
    }
    assert remove_wording(schema) == {"properties": {"title": {"type": "string"}}, "default": {"title": ""}}


def test_members_have_every_type_that_occurs_and_opaque_ones_no_members() -> None:
    documents = [{"tabs": [{"id": 1, "schema": {"a": 1}}, {"id": None}]}, {"ms": 0.5}]
    assert collect_member_types(documents, opaque=["schema"]) == {
        "ms": "number",
        "tabs": "array",
        "tabs[]": "object",
        "tabs[].id": "integer | null",
        "tabs[].schema": "object",
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 1}}, []),
        ({"a": {"b": 1}}, {"a": {}}, ["removed root > a > b: 1"]),
        ({"a": {}}, {"a": {"b": {"c": 1}}}, ['added root > a > b: {"c": 1}']),
        ({"a": 1}, {"a": "1"}, ['changed root > a: 1 -> "1"']),
        (["x", "y"], ["y", "x"], []),
        (["x", "y"], ["y", "z"], ["removed root > x", "added root > z"]),
        ([{"a": 1}], [{"a": 2}], ['changed root: [{"a": 1}] -> [{"a": 2}]']),
        ({"a": []}, {"a": {}}, ["changed root > a: [] -> {}"]),
    ],
)
def test_differences_name_the_path_and_the_values(before: Any, after: Any, expected: list[str]) -> None:
    assert [str(each) for each in find_differences(before, after, "root")] == expected


def test_formatted_json_is_sorted_and_short_values_stay_on_one_line() -> None:
    value = {"b": {"y": 1, "x": [1, 2]}, "a": ["a long text" * 5, {"c": "another long text" * 5}], "c": []}
    text = format_json(value)
    assert json.loads(text) == value
    assert text.splitlines()[0:2] == ["{", '  "a": [']
    assert text.splitlines()[-3:] == ['  "b": {"x": [1, 2], "y": 1},', '  "c": []', "}"]
    assert max(map(len, text.splitlines())) <= 110


class Row(msgspec.Struct):
    kind: Literal["one", "two"]
    count: int | None
    words: tuple[Annotated[str, msgspec.Meta(max_length=9)], ...] = ()


@dataclass
class Table:
    rows: list[Row]
    sizes: dict[str, float]


def test_samples_set_every_field_and_have_items_with_and_without_optional_values() -> None:
    words = ("text", "text")
    rows = [Row("one", 1, words), Row("one", None, words)]
    assert make_sample(Table) == Table(rows, {"key": 0.5})


# ── Removal of the temporary directory ──────────────────────────────────────────────────────────────────────


def test_it_is_removed_although_a_dying_process_still_writes_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    remove = shutil.rmtree
    late_writes = ["a", "b"]

    def remove_then_be_written_to(directory: Path, ignore_errors: bool) -> None:
        remove(directory, ignore_errors)
        if late_writes:
            (directory / late_writes.pop()).mkdir(parents=True)

    monkeypatch.setattr("demo.temporary_directory.shutil.rmtree", remove_then_be_written_to)
    with throw_away_directory() as directory:
        (directory / "profile").mkdir()
    assert not late_writes
    assert not directory.exists()


def test_one_that_cannot_be_removed_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("demo.temporary_directory.TRIES", 1)
    monkeypatch.setattr("demo.temporary_directory.tempfile.mkdtemp", lambda **_: str(tmp_path / "a"))
    (tmp_path / "a").touch()  # a file cannot be removed as a directory
    with pytest.raises(NotADirectoryError), throw_away_directory():
        pass
