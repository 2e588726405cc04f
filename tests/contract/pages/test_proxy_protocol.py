"""docs/PROXY_PROTOCOL.md agrees with the code: examples, tables, the schema and the rules."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from native_host.protocol import jsonrpc, wire
from native_host.protocol.wire import Code
from websocket_proxy import schema
from websocket_proxy.dialects import decode_client, decode_extension, read_direct_handshake
from websocket_proxy.limits import Limits
from websocket_proxy.protocol import METHODS, CloseCode, DisconnectReason, ProxyCode, RejectionReason

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/PROXY_PROTOCOL.md").read_text()
MESSAGES, _, RULES = PAGE.partition("\n## Rules of the specification\n")
SECTIONS = {
    heading: re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    for heading, text in re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", MESSAGES, re.MULTILINE | re.DOTALL)
}
EXAMPLES = [(name, example) for name, examples in SECTIONS.items() for example in examples]
NATIVE = {
    name: wire.METHODS[name]
    for name in ("host/hello", "host/replayed", "host/clients", "host/error", "bridge/sessions")
}
"""Messages of the native wire whose content differs here."""
FORWARDED = {"createTab": wire.METHODS["createTab"]}
DIALECTS = {"handshake"}
"""Messages that are not JSON-RPC."""


def convert_strictly(value: dict[str, Any], shape: type[msgspec.Struct]) -> None:
    """Decode, and reject members that the type does not know (the protocol itself ignores those)."""
    msgspec.json.decode(msgspec.json.encode(value), type=shape)
    known = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert set(value) <= known or not known


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_message_has_a_section_and_every_section_is_a_message() -> None:
    assert set(SECTIONS) == {*METHODS, *NATIVE, *FORWARDED, *DIALECTS}
    assert all(SECTIONS.values())


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_an_example_is_decoded_by_its_type(name: str, example: str) -> None:
    if name in DIALECTS:
        assert read_direct_handshake(example.encode()) is not None
        return
    message = json.loads(example)
    method = (METHODS | NATIVE | FORWARDED)[name]
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        assert message["method"] == name
        assert ("id" in message) == (method.result is not None)
        convert_strictly(message["params"], method.params)
    elif "error" in message:
        convert_strictly(message["error"], jsonrpc.Error)
    else:
        assert method.result is not None
        convert_strictly(message["result"], method.result)
    for decode in (decode_client, decode_extension):
        assert decode(example.encode()).method == message.get("method", "")


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.result])
def test_a_request_has_an_example_of_its_response(name: str) -> None:
    assert any("result" in json.loads(example) for example in SECTIONS[name])


def test_the_forwarded_example_maps_its_id_and_loses_its_connection() -> None:
    sent, forwarded, response, received, _ = map(json.loads, SECTIONS["createTab"])
    connection_id = sent.pop("connectionId")
    assert forwarded == {**sent, "id": f"{connection_id}:{sent['id']}"}
    assert response["id"] == forwarded["id"]
    assert received == {**response, "id": sent["id"]}


# ── Tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def rows(pattern: str) -> dict[str, str]:
    return dict(re.findall(rf"^\| {pattern} \|", MESSAGES, re.MULTILINE))


def test_the_table_of_errors_has_the_codes_of_the_proxy() -> None:
    codes = {code.name: code.value for kind in (Code, ProxyCode) for code in kind}
    listed = {name: int(number) for number, name in rows(r"(-\d+) \| (\w+)").items()}
    assert listed == {name: codes[name] for name in listed}
    assert set(listed) >= {code.name for code in ProxyCode}


def test_the_table_of_close_codes_has_them_all() -> None:
    listed = {name: int(number) for number, name in rows(r"(\d{4}) \| ([A-Z_\d]+)").items()}
    assert listed == {code.name: code.value for code in CloseCode}


@pytest.mark.parametrize("reasons", [RejectionReason, DisconnectReason])
def test_the_tables_of_reasons_have_them_all(reasons: type[RejectionReason] | type[DisconnectReason]) -> None:
    listed = re.findall(r"^\| `([A-Za-z][A-Za-z -]+)` \| [^\d|]+ \|", MESSAGES, re.MULTILINE)
    assert {reason.value for reason in reasons} <= set(listed)
    known = {reason.value for kind in (RejectionReason, DisconnectReason) for reason in kind}
    assert set(listed) <= known


def test_the_table_of_limits_has_every_key_with_its_value() -> None:
    listed = {key: float(value) for key, value in rows(r"`([a-z_]+)` \| (\d+)").items()}
    assert listed == msgspec.structs.asdict(Limits())


def test_the_json_schema_is_the_one_that_the_types_make() -> None:
    """If this fails: python -m websocket_proxy.schema > docs/proxy.schema.json"""
    assert (ROOT / "docs/proxy.schema.json").read_text() == schema.text()


# ── Rules ───────────────────────────────────────────────────────────────────────────────────────────────────


class Rule(NamedTuple):
    """A row of the tables of rules."""

    text: str
    where: list[str]
    """`file`, or `file::name` of something in it."""
    tests: list[str]

    @property
    def decision(self) -> int | None:
        """Its number, where the specification had to be decided about."""
        found = re.match(r"\*\*D(\d+)\.\*\* ", self.text)
        return int(found[1]) if found else None


def read_rules() -> list[Rule]:
    lines = [line.strip("|").split(" | ") for line in RULES.splitlines() if line.startswith("| ")]
    split = [Rule(text.strip(), quoted(where), quoted(tests)) for text, where, tests in lines]
    return [rule for rule in split if rule.text != "rule"]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


RULE_TABLE = read_rules()


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names in a file: everything in Python's outermost scopes, every word elsewhere."""
    if path.suffix != ".py":
        return frozenset(re.findall(r"\w+", path.read_text()))
    body = ast.parse(path.read_text()).body
    classes = [outer for outer in body if isinstance(outer, ast.ClassDef)]
    members = {f"{outer.name}.{name}" for outer in classes for name in defined(outer.body)}
    return frozenset({*defined(body), *members})


def defined(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def is_there(named: str) -> bool:
    file, _, name = named.partition("::")
    return (ROOT / file).is_file() and (not name or name in names_in(ROOT / file))


def test_every_part_of_the_specification_has_rules() -> None:
    parts = re.findall(r"^### (\d+)\. ", RULES, re.MULTILINE)
    assert parts == [str(number) for number in range(1, 11)]
    assert len(RULE_TABLE) > 70


def test_every_decision_about_the_specification_stands_once() -> None:
    numbers = sorted(rule.decision for rule in RULE_TABLE if rule.decision is not None)
    assert numbers == [*range(70, 95), 103]


@pytest.mark.parametrize("rule", RULE_TABLE, ids=[rule.text[:50] for rule in RULE_TABLE])
def test_a_rule_names_code_and_tests_that_exist(rule: Rule) -> None:
    assert [named for named in (*rule.where, *rule.tests) if not is_there(named)] == []
    assert rule.where
    assert rule.tests
    assert all(named.startswith("tests/") for named in rule.tests)
