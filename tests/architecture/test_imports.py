"""Allowed imports of the folders of the product, import circles, and packages that few modules may import."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from source_trees import (
    PRODUCT,
    ROOT,
    find_circles,
    find_files,
    import_edges,
    imported_modules,
    parse,
    product_modules,
    top_level_imports,
)

LIBRARY = "native_host/protocol native_host/system native_host/ipc"
HUB = "bridge/hub bridge/errors.py bridge/origins.py native_host/protocol"
TOOL_OUTPUT = "bridge/browser_tools/tool_output.py"
TOOL = f"{TOOL_OUTPUT} bridge/browser_tools/tool.py"
STATE = f"bridge/config bridge/state {HUB}"
SESSION = "bridge/mcp_session bridge/hub bridge/errors.py native_host/protocol"
HTTP = f"bridge/mcp_session bridge/config {HUB} http_serving native_host/system"
ALLOWED = {
    "native_host": "native_host",
    "native_host/protocol": "",
    "native_host/system": "",
    "native_host/ipc": "native_host/protocol native_host/system",
    "native_host/relay": LIBRARY,
    "native_host/existing_channel": f"{LIBRARY} native_host/relay",
    "http_serving": LIBRARY,
    "websocket_proxy": f"{LIBRARY} native_host/relay http_serving",
    "manifests": "",
    "install": f"{LIBRARY} native_host/existing_channel manifests",
    "install/plan": f"{LIBRARY} native_host/existing_channel install/*",
    "install/checks": f"{LIBRARY} install/* install/plan native_host/existing_channel",
    "install/cli.py": f"{LIBRARY} install native_host/existing_channel",
    "install/wrapper_repair.py": f"{LIBRARY} install native_host/existing_channel",
    "bridge": "bridge/cli native_host",
    "bridge/errors.py": "native_host/protocol native_host/system/program_name.py",
    "bridge/origins.py": "native_host/protocol",
    "bridge/hub": HUB,
    "bridge/config": "bridge/hub bridge/origins.py http_serving native_host/protocol native_host/system",
    "bridge/state": f"{HUB} native_host/system",
    "bridge/links": (
        f"bridge/hub bridge/errors.py bridge/origins.py bridge/config/remote_settings.py {LIBRARY} "
        "native_host/existing_channel"
    ),
    "bridge/links/browsers": (
        f"bridge/links bridge/hub bridge/errors.py bridge/config/remote_settings.py {LIBRARY} "
        "native_host/existing_channel "
        "websocket_proxy/protocol.py http_serving/host_header.py http_serving/server_address.py "
        "http_serving/websocket.py http_serving/websocket_client.py http_serving/websocket_protocol.py"
    ),
    "bridge/mcp_session": SESSION,
    "bridge/browser_tools": f"bridge/browser_tools {STATE} native_host/system",
    "bridge/browser_tools/tool.py": f"{TOOL_OUTPUT} bridge/hub bridge/errors.py native_host/protocol",
    "bridge/browser_tools/tool_output.py": "bridge/hub bridge/errors.py native_host/protocol",
    "bridge/browser_tools/page": f"{TOOL_OUTPUT} {HUB}",
    "bridge/browser_tools/session": f"{TOOL} bridge/browser_tools/page {STATE}",
    "bridge/diagnostics": f"bridge/links {STATE} install {LIBRARY} native_host/existing_channel",
    "bridge/frontends/stdio.py": f"{SESSION} native_host/ipc",
    "bridge/frontends/custom_transport.py": f"{SESSION} bridge/frontends/stdio.py",
    "bridge/frontends/command_calls.py": (
        f"{HUB} bridge/browser_tools/tool_definitions.py bridge/links/remote_names.py "
        "native_host/ipc native_host/system"
    ),
    "bridge/frontends/named_session.py": (
        f"{HUB} bridge/frontends/command_calls.py native_host/ipc native_host/system"
    ),
    "bridge/frontends/http": HTTP,
    "bridge/frontends/http/status_page": f"{HTTP} bridge/frontends/http bridge/diagnostics bridge/state",
    "bridge/frontends/existing_channel": f"{SESSION} {STATE} bridge/browser_tools native_host",
    "bridge/app.py": "bridge native_host http_serving install",
    "bridge/cli": "bridge native_host http_serving install demo websocket_proxy/commands.py",
    "demo": f"{LIBRARY} demo/simulated install",
    "demo/simulated": "native_host/protocol",
}
"""What a folder or file may import beside its own folder and the version of a top-level package.

The longest entry counts for a file. `folder/*` are the files of a folder without its folders.
"""
FORBIDDEN = [("bridge/app.py", "bridge/cli"), ("bridge/app.py", "install/checks")]
"""Exceptions from broad entries of ALLOWED."""
RESTRICTED = {
    "mcp": [
        "bridge/mcp_session/sdk_session.py",
        "bridge/links/remote_client.py",
        "bridge/links/oauth/oauth_login.py",
        "demo",
    ],
    "mcp_types": [
        "bridge/mcp_session/sdk_session.py",
        "bridge/links/remote_client.py",
        "bridge/links/oauth/oauth_login.py",
        "demo",
    ],
    "pydantic": ["bridge/mcp_session/sdk_session.py", "bridge/links/oauth/oauth_login.py", "demo"],
    "httpx2": [
        "bridge/links/oauth/oauth_http.py",
        "bridge/links/oauth/oauth_login.py",
        "bridge/links/remote_client.py",
        "bridge/links/remote_http.py",
        "bridge/links/remote_pipes.py",
    ],
    "anyio": [],
    "starlette": ["http_serving", "bridge/frontends/http"],
    "hypercorn": ["http_serving", "bridge/frontends/http"],
    "h11": ["http_serving", "bridge/frontends/http"],
    "wsproto": ["http_serving"],
    "click": ["bridge/cli", "install/cli.py", "websocket_proxy/commands.py"],
    "jwt": ["websocket_proxy"],
    "cryptography": ["websocket_proxy"],
}
"""Packages, and the folders and files that may import them."""
INPUT_AND_OUTPUT = {"trio", "os", "socket", "time", "pathlib", "subprocess", "secrets", "random", "datetime"}
SANS_IO = [
    "native_host/protocol",
    "native_host/relay",
    "native_host/ipc/send_queue.py",
    "websocket_proxy/clients.py",
    "websocket_proxy/dialects.py",
    "websocket_proxy/extensions.py",
    "websocket_proxy/handshakes.py",
    "websocket_proxy/limits.py",
    "websocket_proxy/peer.py",
    "websocket_proxy/protocol.py",
    "websocket_proxy/user_directory.py",
    "bridge/origins.py",
    "bridge/hub",
    "websocket_proxy/claims.py",
    "websocket_proxy/device_grant.py",
    "websocket_proxy/issuer.py",
    "websocket_proxy/key_set.py",
    "websocket_proxy/oauth_messages.py",
]
WITH_IO = {
    "native_host/relay/relay_server.py": "serves the sockets",
    "bridge/hub/router.py": "waits for changes",
    "bridge/hub/primitives/page_resource.py": "parses dates and reads no clock",
    "bridge/hub/access/tab_opener.py": "waits for a tab",
    "bridge/hub/access/tool_access.py": "waits for tools",
    "bridge/hub/change_signal.py": "wakes waiters",
    "bridge/hub/operation.py": "waits for an outcome",
    "bridge/hub/consent/approval_prompts.py": "has deadlines",
    "bridge/hub/consent/doubt_prompts.py": "waits for the user",
    "bridge/hub/primitives/resource_subscriptions.py": "waits for updates",
    "bridge/hub/primitives/page_requests.py": "draws ids",
    "bridge/hub/consent/page_request_consent.py": "waits for the user",
}
"""Modules of SANS_IO's folders that wait, or read a clock."""


def is_below(path: str, place: str) -> bool:
    if place.endswith("/*"):
        return str(PurePosixPath(path).parent) == place.removesuffix("/*")
    return path == place or path.startswith(f"{place}/")


def is_below_any(path: str, places: Iterable[str]) -> bool:
    return any(is_below(path, place) for place in places)


def is_allowed(importer: str, imported: str) -> bool:
    if PurePosixPath(imported).name == "__init__.py" and imported.count("/") == 1:
        return True  # the version
    if any(is_below(importer, one) and is_below(imported, other) for one, other in FORBIDDEN):
        return False
    entry = max((place for place in ALLOWED if is_below(importer, place)), key=len)
    own = importer if entry in {"bridge", importer} else entry
    return is_below_any(imported, [own, *ALLOWED[entry].split()])


def show(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources() -> dict[str, Path]:
    return {show(path): path for path in find_files(*PRODUCT, suffix=".py")}


def test_every_import_is_allowed() -> None:
    modules = product_modules()
    found = {
        f"{show(path)} -> {show(modules[name])}"
        for path in modules.values()
        for name in imported_modules(path)
        if not is_allowed(show(path), show(modules[name]))
    }
    assert found == set()


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    assert find_circles(import_edges()) == []


def test_restricted_packages_are_imported_in_their_places_only() -> None:
    found = [
        f"{name} -> {package}"
        for name, path in sources().items()
        for package in top_level_imports(path) & RESTRICTED.keys()
        if not is_below_any(name, RESTRICTED[package])
    ]
    assert found == []


def test_only_the_session_imports_the_sdk_session() -> None:
    sdk_session = "bridge.mcp_session.sdk_session"
    users = [name for name, path in sources().items() if sdk_session in imported_modules(path)]
    assert users == ["bridge/mcp_session/session.py"]


def test_only_the_remote_client_imports_the_transports_of_remote_servers() -> None:
    transports = {"bridge.links.remote_http", "bridge.links.remote_pipes"}
    users = {name for name, path in sources().items() if transports & set(imported_modules(path))}
    # oauth_http uses its errors, its proxies and its silence.
    others = {"bridge/links/oauth/oauth_http.py", "bridge/links/remote_pipes.py"}
    assert users == {"bridge/links/remote_client.py", *others}


def test_only_the_command_imports_the_sign_in() -> None:
    """It brings the OAuth client of the mcp package: running bridges refresh tokens without it."""
    oauth_login = "bridge.links.oauth.oauth_login"
    users = [name for name, path in sources().items() if oauth_login in imported_modules(path)]
    assert users == ["bridge/cli/remote.py"]


def test_sans_io_modules_import_nothing_that_waits_reads_or_tells_the_time() -> None:
    found = {
        name
        for name, path in sources().items()
        if is_below_any(name, SANS_IO) and top_level_imports(path) & INPUT_AND_OUTPUT
    }
    assert found == WITH_IO.keys()


def test_nothing_that_a_client_calls_imports_subprocess() -> None:
    """No tool, resource or prompt runs a command."""
    called = ["bridge/hub", "bridge/browser_tools", "bridge/mcp_session"]
    paths = {name: path for name, path in sources().items() if is_below_any(name, called)}
    assert [name for name, path in paths.items() if "subprocess" in top_level_imports(path)] == []


def test_every_module_has_a_docstring() -> None:
    written = {name: path for name, path in sources().items() if path.stat().st_size}
    assert [name for name, path in written.items() if not ast.get_docstring(parse(path))] == []


def test_no_file_of_the_extension_begins_with_an_underscore() -> None:
    """Chromium does not load an extension with such a file or folder."""
    assert [path for path in (ROOT / "extension").rglob("_*") if path.name != "__pycache__"] == []
