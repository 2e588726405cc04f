"""Imports of `mcpb --help`, of the native host, and of a bridge until its first answers.

It checks names; `make bench` measures the time (docs/DEVELOPMENT.md, "Cold start").
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from native_host.protocol import wire

IMPORTED = "import time:"
"""So begins what `python -X importtime` says on stderr of each module."""

PACKAGE = {
    "mcp",
    "mcp_types",
    "pydantic",
    "anyio",
    "starlette",
    "uvicorn",
    "h11",
    "hypercorn",
    "prometheus_client",
    "PIL",
    "httpx2",
    "wsproto",
    "jwt",
    "cryptography",
}
"""The mcp package and what it brings, what `mcpb serve` and WebSockets need, and what GIFs are made with."""
NOBODYS = {"asyncio", "email", "importlib.metadata", "multiprocessing", "unittest", "xml"}
INSTALLER = {"install.browsers", "install.cli", "install.checks", "install.plan.install_plan"}
FIRST_ANSWERS = """
bridge: app cli errors origins
bridge.browser_tools: browser_resources builtin_prompts own_prompts provider tool_definitions
bridge.cli: bridge group
bridge.config: loader prompt_files reload remote_settings restrictions setting_error settings
bridge.config: shortcuts_file
bridge.frontends: stdio
bridge.hub: admission argument_validation audit_records cached_tools catalog catalog_entries
bridge.hub: change_signal client_session meta_tools operation page_call page_tool policy providers
bridge.hub: public_names registrations registry router schema_texts server_request tool_definition
bridge.hub: tool_list tool_result tool_schema tool_search transport
bridge.hub.access: tab_opener tool_access
bridge.hub.consent: approval_prompts doubt_prompts page_request_consent page_tool_consent page_tool_settings
bridge.hub.consent: user_prompts
bridge.hub.primitives: document_access document_names embedded_resource
bridge.hub.primitives: extension_support linked_resources log_message own_prompt
bridge.hub.primitives: own_resource page_log recent_calls
bridge.hub.primitives: offered_entries page_contents page_documents page_marks page_prompt page_read
bridge.hub.primitives: page_requests
bridge.hub.primitives: page_resource pagination prompt_catalog resource_catalog
bridge.hub.primitives: resource_subscriptions sampling_budget
bridge.hub.rules: pauses root_sites site_patterns site_rules
bridge.hub.schemas: compiled_schema schema_limits
bridge.links.browsers: composite_transport host_connection host_streams link_problem native_hosts
bridge.links.browsers: native_profiles pending_requests proxied_links session_publisher
bridge.mcp_session: call_observer call_results client_messages client_writer elicitation handover
bridge.mcp_session: input_required mcp_server
bridge.mcp_session: client_requests open_requests request_errors resource_updates sampling_and_roots
bridge.mcp_session: client_roots log_messages server_requests session
bridge.state: approval_publisher audit_log log_file pause_sync pauses_file profiles_file server_record
bridge.state: site_approvals tool_cache
http_serving: host_header
install: wrapper_repair
native_host: platform_check
native_host.ipc: endpoint send_queue streams
native_host.protocol: announcements framing jsonrpc rate_limit untrusted_text validation_errors wire
native_host.system: exhaustion home_layout malloc private_files problem toml_text
"""
"""Modules of the product that a bridge may import until it has answered `initialize` and `tools/list`."""
LISTENING = "subscriptions/listen"
"""Id of a request whose response is not due."""
PRODUCT = {"native_host", "bridge", "install", "http_serving", "websocket_proxy", "manifests", "demo"}

INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "2.1.329"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
UNKNOWN = {"jsonrpc": "2.0", "id": 3, "method": "tools/paint"}
OF_CLAUDE_CODE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.329"},
    "io.modelcontextprotocol/clientCapabilities": {
        "roots": {"listChanged": True},
        "elicitation": {"form": {}, "url": {}},
    },
}
LISTENS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
CLAUDE_CODE: list[tuple[str, dict[str, Any]]] = [
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": LISTENS}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("tools/list", {}),
    ("resources/read", {"uri": "mcpb://page/shop.example/tab1/cart://1"}),
    ("prompts/get", {"name": "debug-page", "arguments": {"tab": "tab=7"}}),
]
"""Requests of Claude Code 2.1.329: at its start, of its resource tool, and of a slash command."""


def imported(*command: str, said: bytes = b"") -> tuple[set[str], bytes]:
    """All modules that a command imports until the end of its input, and what it says on stdout."""
    run = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-m", *command],
        input=said,
        capture_output=True,
        check=True,
        timeout=30,
    )
    lines = run.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith(IMPORTED)}, run.stdout


def bridge_that_hears(*messages: dict[str, Any]) -> set[str]:
    lines = "".join(f"{json.dumps(message)}\n" for message in messages)
    modules, answers = imported("bridge", "bridge", said=lines.encode())
    asked = {message["id"] for message in messages if "id" in message} - {LISTENING}
    assert {found["id"] for found in map(json.loads, answers.splitlines()) if "id" in found} >= asked
    return modules


def assert_not_imported(modules: set[str], names: set[str]) -> None:
    """Assert that all these modules exist, and that a command did not import one of them."""
    assert [name for name in sorted(names) if find_spec(name) is None] == []
    assert sorted(modules & names) == []


@pytest.fixture(autouse=True)
def home(mcpb_home: Path) -> Path:
    return mcpb_home


def test_help_imports_no_more_than_the_command_line_needs() -> None:
    modules, text = imported("bridge", "--help")
    assert b"Commands:" in text
    assert {"click", "bridge.cli.group"} <= modules
    assert_not_imported(
        modules, {*PACKAGE, *NOBODYS, *INSTALLER, "trio", "msgspec", "sqlite3", "ssl", "bridge.app"}
    )


def test_the_native_host_imports_no_more_than_trio_and_msgspec_bring() -> None:
    modules, hello = imported("native_host", f"chrome-extension://{wire.EXTENSION_ID}/")
    assert b"host/hello" in hello
    assert {"trio", "msgspec", "native_host.relay.relay_server"} <= modules
    nothing = {
        "click",
        "sqlite3",
        "json",
        "tomllib",
        "bridge",
        "native_host.existing_channel.channel_adapter",
    }
    assert_not_imported(modules, {*PACKAGE, *NOBODYS, *INSTALLER, *nothing})


def test_a_first_answer_imports_the_listed_modules_only() -> None:
    modules = bridge_that_hears(INITIALIZE, INITIALIZED, LIST_TOOLS)
    assert {"trio", "msgspec", "bridge.frontends.stdio"} <= modules
    ours = {name for name in modules if name.partition(".")[0] in PRODUCT}
    packages = {name.rpartition(".")[0] for name in ours}
    assert ours - packages - PRODUCT <= first_answers()
    assert not modules & {*PACKAGE, *NOBODYS, "dataclasses", "difflib", "jsonschema_rs", "pickle"}


def test_the_listed_modules_exist() -> None:
    listed = PACKAGE | NOBODYS | INSTALLER | first_answers()
    assert [name for name in sorted(listed) if importlib.util.find_spec(name) is None] == []


def first_answers() -> set[str]:
    """Names of the modules in FIRST_ANSWERS."""
    lines = (line.partition(": ") for line in FIRST_ANSWERS.strip().splitlines())
    return {f"{package}.{name}" for package, _, names in lines for name in names.split()}


def test_what_claude_code_requests_is_answered_without_the_mcp_package() -> None:
    said = [
        {"jsonrpc": "2.0", "id": method, "method": method, "params": {**params, "_meta": OF_CLAUDE_CODE}}
        for method, params in CLAUDE_CODE
    ]
    assert not bridge_that_hears(*said) & PACKAGE


def test_an_unknown_method_brings_the_mcp_package() -> None:
    assert {"mcp", "pydantic"} <= bridge_that_hears(INITIALIZE, INITIALIZED, UNKNOWN)


def test_a_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(AssertionError, match=r"bridge\.gone"):
        assert_not_imported(set(), {"bridge.gone"})
