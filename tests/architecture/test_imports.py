"""The invariants of docs/ARCHITECTURE.md, read from the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ["native_host", "http_serving", "bridge", "install", "demo"]


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

SANS_IO = [
    "bridge/origins.py",
    "native_host/protocol/wire.py",
    "native_host/protocol/jsonrpc.py",
    "native_host/protocol/framing.py",
    "native_host/relay/request_ids.py",
    "native_host/relay/replay.py",
    "native_host/protocol/chunking.py",
    "native_host/protocol/announcements.py",
    "native_host/ipc/send_queue.py",
    "native_host/relay/coalescing.py",
    "native_host/relay/message_router.py",
    *(
        str(path.relative_to(ROOT))
        for path in (ROOT / "bridge/hub").glob("*.py")
        if path.name
        not in {"router.py", "tab_opener.py", "change_signal.py", "operation.py", "approval_prompts.py"}
    ),
]
IO = {
    "trio",
    "os",
    "socket",
    "time",
    "mcp",
    "mcp_types",
    "pathlib",
    "subprocess",
    "random",
    "secrets",
    "datetime",
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports at run time or for its types, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SANS_IO)
def test_a_sans_io_module_imports_nothing_that_waits_reads_or_tells_the_time(path: str) -> None:
    assert not tops(ROOT / path) & IO


@pytest.mark.parametrize("path", files("native_host"), ids=relative)
def test_the_native_host_imports_nothing_of_ours_and_no_heavy_package(path: Path) -> None:
    assert not tops(path) & {
        "bridge",
        "install",
        "demo",
        "manifests",
        "mcp",
        "mcp_types",
        "click",
        "pydantic",
    }


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_one_file_of_the_bridge_and_the_demo_s_client_import_the_mcp_package(path: Path) -> None:
    if not tops(path) & {"mcp", "mcp_types", "pydantic", "anyio"}:
        return
    assert relative(path).startswith(("bridge/mcp_session/sdk_session.py", "demo/"))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_the_lane_loads_that_file(path: Path) -> None:
    if relative(path) != "bridge/mcp_session/session.py":
        assert not imported_from(path, "bridge.mcp_session.sdk_session")


def imported_from(path: Path, prefix: str) -> set[str]:
    return {name for name in imports(path) if name == prefix or name.startswith(prefix + ".")}


@pytest.mark.parametrize("path", files("bridge/hub"), ids=relative)
def test_the_hub_knows_neither_links_nor_front_ends_nor_the_protocol_s_package(path: Path) -> None:
    for above in (
        "bridge.links",
        "bridge.frontends",
        "bridge.mcp_session.mcp_server",
        "bridge.app",
        "bridge.cli.group",
        "install",
    ):
        assert not imported_from(path, above)


@pytest.mark.parametrize("path", files("bridge/links"), ids=relative)
def test_links_know_the_hub_and_the_wire_and_nothing_above(path: Path) -> None:
    for above in (
        "bridge.frontends",
        "bridge.mcp_session.mcp_server",
        "bridge.app",
        "bridge.cli.group",
        "install",
    ):
        assert not imported_from(path, above)


@pytest.mark.parametrize("path", files("install"), ids=relative)
def test_the_installer_knows_nothing_of_the_bridge(path: Path) -> None:
    assert not imported_from(path, "bridge")
    for inner in (
        "native_host.relay.relay_server",
        "native_host.relay.message_router",
        "native_host.relay.replay",
    ):
        assert not imported_from(path, inner)


def test_every_module_of_ours_says_what_it_is() -> None:
    written = [path for path in SOURCES if path.stat().st_size]  # packages are empty
    silent = [relative(path) for path in written if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_the_extension_has_no_name_that_a_browser_refuses() -> None:
    """Chromium does not load an extension with a file or folder whose name starts with an underscore."""
    assert not [path for path in (ROOT / "extension").rglob("_*") if path.name != "__pycache__"]
