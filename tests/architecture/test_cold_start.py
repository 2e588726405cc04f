"""What is imported by whom, by name: how long it takes is `make bench`'s business.

docs/DEVELOPMENT.md ("Cold start") says what each of these would cost.
"""

from __future__ import annotations

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
}
"""The mcp package and what it brings, what `mcpb serve` speaks HTTP with, and what GIFs are made with."""
NOBODYS = {"asyncio", "email", "importlib.metadata", "multiprocessing", "unittest", "xml"}
INSTALLER = {"install.browsers", "install.cli", "install.checks", "install.plan.install_plan"}
CHANNEL = {
    "bridge.links.holder_processes",
    "bridge.browser_tools.forwarded_tools",
    "native_host.existing_channel.channel_sockets",
}
"""For who uses another product's extension."""

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
LIST_PROMPTS = {"jsonrpc": "2.0", "id": 3, "method": "prompts/list"}


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
    asked = [message["id"] for message in messages if "id" in message]
    assert [json.loads(answer)["id"] for answer in answers.splitlines()] == asked
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


def test_a_bridge_that_was_greeted_has_neither_the_mcp_package_nor_the_installer() -> None:
    modules = bridge_that_hears(INITIALIZE, INITIALIZED)
    assert {"trio", "msgspec", "bridge.frontends.stdio"} <= modules
    assert_not_imported(
        modules,
        {
            *PACKAGE,
            *NOBODYS,
            *INSTALLER,
            "jsonschema_rs",
            "bridge.diagnostics.status_snapshot",
            "bridge.diagnostics.browser_checks",
        },
    )


def test_a_list_of_tools_needs_no_mcp_package_either() -> None:
    modules = bridge_that_hears(INITIALIZE, INITIALIZED, LIST_TOOLS)
    assert_not_imported(modules, {*PACKAGE, *NOBODYS, *CHANNEL, "jsonschema_rs"})


def test_what_our_own_lane_does_not_answer_brings_the_mcp_package() -> None:
    assert {"mcp", "pydantic"} <= bridge_that_hears(INITIALIZE, INITIALIZED, LIST_PROMPTS)


def test_a_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(AssertionError, match=r"bridge\.gone"):
        assert_not_imported(set(), {"bridge.gone"})
