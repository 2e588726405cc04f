"""Interfaces of the product, compared with the recorded ones in tests/data/interfaces.json."""

from __future__ import annotations

import json

import pytest

from installer_home import isolated_machine, run_mcpb
from interfaces import COLLECTORS, RECORDED, collect_interfaces, read_recorded
from json_shapes import collect_member_types, find_differences, format_json

RECORD = read_recorded()


@pytest.mark.parametrize("kind", COLLECTORS)
def test_interfaces_are_the_recorded_ones(kind: str) -> None:
    found = list(find_differences(RECORD[kind], collect_interfaces(kind), kind))
    if found:
        lines = [
            "these interfaces differ from the recorded ones; after an intended change run: make interfaces"
        ]
        pytest.fail("\n".join([*lines, *map(str, found)]), pytrace=False)


def test_the_record_has_every_kind_and_is_formatted() -> None:
    assert RECORD.keys() == COLLECTORS.keys()
    assert RECORDED.read_text() == format_json(RECORD) + "\n"


# ── The collectors see what is there ────────────────────────────────────────────────────────────────────────


def test_commands_of_every_module_are_collected_with_their_options() -> None:
    found = collect_interfaces("commands")
    commands = {name for name in found if name.startswith("mcpb ")}
    assert commands >= {"mcpb bridge", "mcpb call", "mcpb demo", "mcpb extension", "mcpb pause", "mcpb tools"}
    assert commands >= {"mcpb serve token add", "mcpb install-native-host", "mcpb uninstall-native-host"}
    assert found["mcpb doctor"]["options"]["--fix"] == {"is_flag": True, "type": "Bool"}
    assert found["mcpb audit"]["options"]["-n"]["default"] == 20
    assert found["mcpb call"]["arguments"]["1"] == {"required": True, "type": "String"}
    assert found["mcpb status"]["options"]["--watch"]["aliases"] == ["-w"]
    assert found["uninstall.sh"]["options"] == ["--help", "--prefix", "--purge", "--yes", "-h", "-y"]


def test_configuration_is_collected_with_defaults_and_limits() -> None:
    found = collect_interfaces("configuration")
    keys = found["config.toml"]["properties"]
    assert keys["max_name"]["default"] == "auto"
    assert keys["max_name"]["anyOf"][0] == {"maximum": 128, "minimum": 24, "type": "integer"}
    assert keys["http"]["properties"]["port"]["default"] == 3456
    assert keys["policy"]["properties"]["tools"]["items"]["properties"]["origin"]["default"] == "*"
    assert found["shortcuts.toml [[shortcut]]"]["required"] == ["name", "step"]
    assert found["approvals.json"]["words"] == ["act", "page-tools", "read", "roots", "sampling", "upload"]


def test_variables_of_settings_constants_and_shell_scripts_are_collected() -> None:
    found = set(collect_interfaces("environment"))
    assert found >= {"MCPB_HTTP_PORT", "CLAUDE_BROWSER_MCP_PORT", "MCPB_LOG", "MCPB_CALLERS", "MCPB_FIREFOX"}


def test_browser_tools_and_meta_tools_are_collected_with_schemas_and_annotations() -> None:
    found = collect_interfaces("tools")
    meta_tools = {"list_page_tools", "call_page_tool", "read_resource"}
    assert len(found.keys() - meta_tools) == 26
    assert meta_tools <= found.keys()
    assert found["computer"]["inputSchema"]["required"] == ["action"]
    assert found["computer"]["annotations"]["destructiveHint"] is True
    assert "outputSchema" not in found["navigate"]


def test_wire_messages_are_collected_without_names_of_types() -> None:
    found = collect_interfaces("wire")
    assert "-32010 GONE" in found["codes"]
    assert found["methods"]["browser/executeTool"]["params"]["properties"]["toolName"] == {"type": "string"}
    assert found["methods"]["createTab"]["result"]["required"] == ["tabId", "windowId"]
    assert "$ref" not in json.dumps(found)


def test_http_paths_are_collected_with_their_methods() -> None:
    found = collect_interfaces("http")
    assert found["/mcp"] == "DELETE, GET, POST"
    assert found["/page/pause"] == "POST"
    assert {"/", "/health", "/metrics", "/message", "/open", "/sse", "/tools"} <= found.keys()


def test_finding_codes_are_collected_from_constants_variables_and_keys() -> None:
    found = collect_interfaces("finding codes")
    assert {"no-browser", "manifest-of-another-mcpb", "host-refuses", "manifest-type"} <= set(found)


@pytest.mark.parametrize(
    "command",
    [
        "mcpb doctor --browser opera --json",
        "mcpb install-native-host --browser opera --dry-run --json",
        "mcpb status --json",
        "mcpb uninstall-native-host --dry-run --json",
    ],
)
def test_commands_print_the_members_that_are_collected(command: str) -> None:
    _, name, *_ = command.split()
    collected = collect_interfaces("json members")[f"mcpb {name} --json"].keys()
    with isolated_machine() as home:
        (home / ".config/opera").mkdir(parents=True)
        printed = collect_member_types([json.loads(run_mcpb(command).stdout)]).keys()
    assert printed - collected == set()
    assert {path for path in collected if "[" not in path} - printed == set()
