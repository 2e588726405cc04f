"""Interfaces of the product, collected from objects, runs and syntax trees.

`tests/data/interfaces.json` is the baseline. It was recorded once, before the modules moved into layers.
`tests/architecture/test_interfaces.py` compares it with the code and lists the changes that are allowed since
then. A later deliberate change of an interface gets an entry in that list. Or the file is recorded again, in
the commit that adds the line to CHANGELOG.md. No test writes the file. From the root of the clone:

    PYTHONPATH=tests:tests/support .venv/bin/python tests/support/interfaces.py > /tmp/interfaces.json
    mv /tmp/interfaces.json tests/data/interfaces.json

The collectors take names, types, defaults and limits, not wording. They name no path of a module: modules
are imported, and syntax trees are read from every package that pyproject.toml lists.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints
from unittest.mock import patch

import click
import msgspec
import trio
from starlette.requests import Request
from starlette.routing import Route

from bridge.cli.group import main
from bridge.config.loader import read_config
from bridge.config.settings import Config, HttpSettings
from bridge.config.shortcuts_file import Shortcut
from bridge.diagnostics.report import BrowserReport, HopReport
from bridge.frontends.http.asgi_app import App
from bridge.frontends.http.http_frontend import HttpFrontend
from bridge.frontends.http.metrics import Metrics
from bridge.frontends.http.status_page.page_routes import StatusPage
from bridge.frontends.http.status_page.updates import StatusUpdates
from bridge.hub.router import Router
from bridge.state.pause_sync import PauseSync
from bridge.state.pauses_file import PausesFile
from bridge.state.site_approvals import WORDS, Approval
from fake_transport import PlayedTransport
from install.browsers import Browser
from install.findings import FindingCode, Hop, Level
from installer_home import get_state_directory, isolated_machine, run_mcpb
from json_outputs import NoProblems, collect_json_members, make_plan_document
from json_shapes import format_json, inline_references, remove_wording
from native_host.protocol import wire
from native_host.protocol.schema import schema as make_wire_schema
from source_trees import PRODUCT, ROOT, find_files, parse
from websocket_proxy.node.settings import ProxySettings

RECORDED = ROOT / "tests/data/interfaces.json"

_VARIABLE = re.compile(r"\bMCPB_[A-Z_]*[A-Z]\b")
_SHELL_OPTIONS = re.compile(r"^\s*(-[-a-z=?* |]+)\)", re.MULTILINE)
"""Label of a `case` in a shell script: `--yes | -y)`."""

_CLICK_WORDING = {"name", "param_type_name", "opts", "help", "prompt", "original_choices"}
_CLICK_DEFAULTS = [("nargs", 1), ("flag_value", True)]


def collect_interfaces(kind: str) -> Any:
    """Collect the interfaces of one kind, as they are in the code now."""
    with isolated_machine() as home:
        found = COLLECTORS[kind](home)
    return json.loads(json.dumps(found, sort_keys=True))


def read_recorded() -> dict[str, Any]:
    """Read the baseline."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


# ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────


def collect_commands(_home: Path) -> dict[str, Any]:
    """Collect programs, every command with its arguments and options, and the options of shell scripts."""
    root = click.Context(main, info_name="mcpb", **main.context_settings)
    return {
        **dict(_flatten_commands("mcpb", main.to_info_dict(root))),
        **{path.name: {"options": _find_script_options(path)} for path in find_files(*PRODUCT, suffix=".sh")},
        "programs": sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]),
    }


def _flatten_commands(name: str, info: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    options = [each for each in info["params"] if each["param_type_name"] == "option"]
    for each in options:
        # click stores the names of its first use, which a test may have made without the group. Click 8.5
        # calls the parameter otherwise than earlier versions.
        if "--help" in each["opts"]:
            each["opts"] = main.context_settings["help_option_names"]
    arguments = [each for each in info["params"] if each["param_type_name"] == "argument"]
    found = {
        "options": {_choose_long_name(each["opts"]): _describe_option(each) for each in options},
        "arguments": {str(number): _describe_parameter(each) for number, each in enumerate(arguments, 1)},
    }
    yield name, found
    for command, below in info.get("commands", {}).items():
        yield from _flatten_commands(f"{name} {command}", below)


def _choose_long_name(names: Sequence[str]) -> str:
    return next((name for name in names if name.startswith("--")), names[0])


def _describe_option(info: Mapping[str, Any]) -> dict[str, Any]:
    aliases = sorted({*info["opts"]} - {_choose_long_name(info["opts"])})
    return {**_describe_parameter(info), **({"aliases": aliases} if aliases else {})}


def _describe_parameter(info: Mapping[str, Any]) -> dict[str, Any]:
    shape = _strip_click_info(info["type"])
    return {**_strip_click_info(info), "type": shape if len(shape) > 1 else shape["param_type"]}


def _strip_click_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs from click's defaults, without wording and names of variables."""
    return {
        name: value
        for name, value in info.items()
        if name not in _CLICK_WORDING
        and (name, value) not in _CLICK_DEFAULTS
        and not (value is None or value is False or value in ((), []))
    }


def _find_script_options(path: Path) -> list[str]:
    labels = _SHELL_OPTIONS.findall(path.read_text())
    return sorted({name.strip().partition("=")[0] for label in labels for name in label.split("|")})


# ── Configuration and environment ───────────────────────────────────────────────────────────────────────────


def collect_configuration(_home: Path) -> dict[str, Any]:
    """Collect keys, types, defaults and limits of the files that users and administrators write."""
    (managed,) = (
        path
        for path in find_files(*PRODUCT, "extension", suffix=".json")
        if path.name == "managed_schema.json"
    )
    return {
        "config.toml": _make_schema(Config),
        "config.toml [proxy]": _make_schema(ProxySettings),
        "shortcuts.toml [[shortcut]]": _make_schema(Shortcut),
        "browsers.toml [[browser]]": _make_schema(Browser),
        "approvals.json": {"approval": _make_schema(Approval), "words": sorted(WORDS)},
        "managed storage of the extension": remove_wording(json.loads(managed.read_text())),
    }


def _make_schema(shape: type[msgspec.Struct]) -> Any:
    found = msgspec.json.schema(shape)
    definitions = found.pop("$defs")
    return _remove_strictness(remove_wording(inline_references(found, definitions)))


def _remove_strictness(schema: Any) -> Any:
    """Remove `additionalProperties: false`: a type need not forbid unknown keys itself."""
    match schema:
        case dict():
            return {
                name: _remove_strictness(member)
                for name, member in schema.items()
                if (name, member) != ("additionalProperties", False)
            }
        case list():
            return [_remove_strictness(item) for item in schema]
        case _:
            return schema


def collect_environment(home: Path) -> list[str]:
    """Collect the environment variables of mcpb that the product reads."""
    asked = _AskedVariables()
    read_config(home, asked)
    scripts = (
        name for path in find_files(*PRODUCT, suffix=".sh") for name in _VARIABLE.findall(path.read_text())
    )
    modules = (path for path in find_files(*PRODUCT, suffix=".py") if "MCPB_" in path.read_text())
    constants = (
        name for path in modules for text in _find_constants(path) for name in _VARIABLE.findall(text)
    )
    return sorted({*asked.names, *scripts, *constants})


def _find_constants(path: Path) -> Iterator[str]:
    """Yield the string constants of a module, without docstrings."""
    prose = {id(node.value) for node in ast.walk(parse(path)) if isinstance(node, ast.Expr)}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


class _AskedVariables(Mapping[str, str]):
    """An empty environment that notes the names that a reader asks for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


# ── Tools ───────────────────────────────────────────────────────────────────────────────────────────────────


def collect_tools(_home: Path) -> dict[str, Any]:
    """Collect the tools that clients see without any page, as `mcpb tools --json` prints them."""
    listed = json.loads(run_mcpb("mcpb tools --json").stdout)["tools"]
    return {tool.pop("name"): remove_wording(tool) for tool in listed}


# ── Wire ────────────────────────────────────────────────────────────────────────────────────────────────────


def collect_wire(_home: Path) -> dict[str, Any]:
    """Collect methods, error codes, names and limits of the native wire."""
    document = make_wire_schema()
    messages = remove_wording(inline_references(document["messages"], document["$defs"]))
    return {
        "codes": sorted(f"{code.value} {code.name}" for code in wire.Code),
        "methods": {name: _select_payloads(message) for name, message in messages.items()},
        "version": wire.WIRE_VERSION,
        "host": wire.HOST_NAME,
        "extension in Chromium": wire.EXTENSION_ID,
        "extension in Firefox": wire.FIREFOX_ID,
        "bytes to the browser": wire.TO_BROWSER_BYTES,
        "bytes from the browser": wire.FROM_BROWSER_BYTES,
        "bytes on the socket": wire.SOCKET_BYTES,
        "bytes of a chunk": wire.CHUNK_BYTES,
        "bytes in chunks": wire.CHUNKED_BYTES,
        "depth": wire.MAX_DEPTH,
    }


def _select_payloads(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shapes of a message; its route is in words."""
    return {name: message[name] for name in ("params", "result") if name in message}


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────


def collect_http(home: Path) -> dict[str, str]:
    """Collect the paths of `mcpb serve`, with the methods that a rejected request finds in `Allow`."""
    return trio.run(_collect_routes, home)


async def _collect_routes(home: Path) -> dict[str, str]:
    with _record_route_paths() as paths:
        app = _make_http_app(home)
    found = {path: await _request_allowed_methods(app, path) for path in paths}
    latest = await _request_allowed_methods(app, "/mcp", {b"mcp-protocol-version": b"2026-07-28"})
    return {**found, "/mcp in 2026-07-28": latest}


@contextmanager
def _record_route_paths() -> Iterator[list[str]]:
    """Note the paths of all routes that are made."""
    paths: list[str] = []
    make = Route.__init__

    def note(route: Route, path: str, *positional: Any, **named: Any) -> None:
        paths.append(path)
        make(route, path, *positional, **named)

    with patch.object(Route, "__init__", note):
        yield paths


def _make_http_app(home: Path) -> App:
    transport = PlayedTransport()
    router = Router(transport)
    url = "http://localhost:3456/"
    pauses = PauseSync(router.registry, transport, router.changes, PausesFile(get_state_directory(home)))
    page = StatusPage(router, pauses, StatusUpdates(router, NoProblems(), get_state_directory(home)), url)
    return HttpFrontend(router, lambda _: None, HttpSettings(), _admit_all, Metrics(), page.routes()).app


async def _admit_all(_: Request) -> dict[str, str]:
    return {}


async def _request_allowed_methods(app: App, path: str, headers: Mapping[bytes, bytes] | None = None) -> str:
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "NONE", "path": path, "query_string": b""}
    await app({**scope, "headers": list((headers or {}).items())}, receive, send)
    assert sent[0]["status"] == 405, f"{path} accepts any method"
    allowed: bytes = dict(sent[0]["headers"])[b"allow"]
    return ", ".join(sorted(allowed.decode().split(", ")))


# ── Words in JSON output ────────────────────────────────────────────────────────────────────────────────────


def collect_finding_codes(_home: Path) -> list[str]:
    """Collect the codes of `mcpb doctor`."""
    return sorted(FindingCode)


def collect_json_values(_home: Path) -> dict[str, list[str]]:
    """Collect the words that a member of JSON output may have, where their set is fixed."""
    return {
        "doctor: hop": _list_words(Hop),
        "doctor: level of a finding": _list_words(Level),
        "doctor: state of a browser": _list_words(get_type_hints(BrowserReport)["state"]),
        "doctor: state of a hop": _list_words(get_type_hints(HopReport)["state"]),
        "install-native-host: action of a step": sorted(
            {step["action"] for step in make_plan_document()["steps"]}
        ),
    }


def _list_words(hint: Any) -> list[str]:
    """Return the words of an enumeration or a literal type; none for another type."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return sorted(str(member.value) for member in hint)
    return sorted(get_args(hint))


# ── Exit codes of commands, programs and shell scripts ──────────────────────────────────────────────────────


_RUN_TIMEOUT_S = 60
_COMMAND_LINES = (
    "mcpb --version",
    "mcpb --version --json",
    "mcpb --json",
    "mcpb --help",
    "mcpb nonsense",
    "mcpb allow",
    "mcpb allow nonsense",
    "mcpb allow https://shop.example nonsense",
    "mcpb allow https://shop.example --revoke",
    "mcpb audit",
    "mcpb audit --since nonsense",
    "mcpb call list_page_tools",
    "mcpb call navigate url=https://shop.example",
    "mcpb call nonsense",
    "mcpb call list_page_tools nonsense",
    "mcpb doctor --browser opera",
    "mcpb doctor --browser nonsense",
    "mcpb extension",
    "mcpb extension --json",
    "mcpb extension --zip /nonexistent/extension.zip",
    "mcpb install-native-host --yes",
    "mcpb install-native-host --browser opera --dry-run",
    "mcpb install-native-host --browser opera",
    "mcpb install-native-host --browser opera --json",
    "mcpb uninstall-native-host --yes",
    "mcpb uninstall-native-host --purge --browser opera",
    "mcpb pause",
    "mcpb pause --resume",
    "mcpb pause nonsense",
    "mcpb pause shop.example",
    "mcpb pause shop.example --resume",
    "mcpb serve --port 65536",
    "mcpb serve --print-config curl",
    "mcpb serve token add laptop",
    "mcpb serve token add laptop",
    "mcpb serve token list",
    "mcpb serve token revoke nonsense",
    "mcpb status",
    "mcpb status --check",
    "mcpb status --no-open",
    "mcpb tools",
    "mcpb tools --forget https://shop.example",
    "mcpb tools --forget nonsense",
)
_MCPB = [sys.executable, "-m", "bridge"]
_NATIVE_HOST = [sys.executable, "-I", "-m", "native_host"]


def collect_exit_codes(home: Path) -> dict[str, int]:
    """Run commands and programs, and return their exit codes."""
    found = {}
    for line in _COMMAND_LINES:
        again = " (again)" if line in found else ""
        found[line + again] = run_mcpb(line).exit_code
    with patch("time.sleep", side_effect=KeyboardInterrupt):
        found["mcpb audit --follow (Ctrl-C)"] = run_mcpb("mcpb audit --follow").exit_code
    return {**found, **_native_host_codes(), **_script_codes(home), **_codes_without_configuration(home)}


def _codes_without_configuration(home: Path) -> dict[str, int]:
    """Run commands with settings that forbid them, or with an invalid file."""
    config = home / ".mcpb/config.toml"
    config.write_text("[http]\nenabled = false\n")
    disabled = ("mcpb serve", "mcpb status --web")
    found = {f"{line} (http.enabled = false)": run_mcpb(line).exit_code for line in disabled}
    config.write_text("nonsense = 1\n")
    for line in ("mcpb call list_page_tools", "mcpb serve", "mcpb status", "mcpb tools"):
        found[f"{line} (invalid config.toml)"] = run_mcpb(line).exit_code
    found["mcpb bridge (invalid config.toml)"] = _run_process([*_MCPB, "bridge"])
    return found


def _native_host_codes() -> dict[str, int]:
    return {
        "mcpb-native-host": _run_process(_NATIVE_HOST),
        "mcpb-native-host (another extension)": _run_process([*_NATIVE_HOST, "chrome-extension://another/"]),
        "mcpb-native-host (the browser closes)": _run_process([*_NATIVE_HOST, wire.EXTENSION_ORIGIN]),
        "mcpb-native-host (no directory for its socket)": _run_process(
            [*_NATIVE_HOST, wire.EXTENSION_ORIGIN], MCPB_HOME="/dev/null"
        ),
    }


def _script_codes(home: Path) -> dict[str, int]:
    """Run the shell scripts with arguments that change nothing."""
    prefix = home / "installed"
    prefix.mkdir()
    (prefix / "install.record").touch()
    found = {}
    for path in find_files(*PRODUCT, suffix=".sh"):
        if path.name == "prepare.sh":
            continue  # it installs packages before it reads its argument
        for argument in ("--help", "--nonsense"):
            found[f"{path.name} {argument}"] = _run_process(["sh", str(path), argument])
        if path.name == "uninstall.sh":
            line = ["sh", str(path), "--prefix", str(prefix)]
            found["uninstall.sh (without a terminal)"] = _run_process(line)
    return found


def _run_process(command: Sequence[str], **environ: str) -> int:
    """Run a program without input, and return its exit code.

    Raises:
        AssertionError: the program crashed; the text is its stderr.
    """
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **environ},
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    assert b"Traceback" not in ended.stderr, ended.stderr.decode(errors="replace")
    return ended.returncode


# ── All of them ─────────────────────────────────────────────────────────────────────────────────────────────


COLLECTORS: dict[str, Callable[[Path], Any]] = {
    "commands": collect_commands,
    "configuration": collect_configuration,
    "environment": collect_environment,
    "exit codes": collect_exit_codes,
    "finding codes": collect_finding_codes,
    "http": collect_http,
    "json members": collect_json_members,
    "json values": collect_json_values,
    "tools": collect_tools,
    "wire": collect_wire,
}
"""Functions that collect the interfaces of a kind, each called with an empty home directory."""


if __name__ == "__main__":
    sys.stdout.write(format_json({kind: collect_interfaces(kind) for kind in COLLECTORS}) + "\n")
