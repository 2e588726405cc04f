"""Exit codes of commands, programs and shell scripts.

Each is from a run in an empty home directory. None depends on a browser, a terminal or a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from isolated_machine import run_mcpb
from native_host.protocol import wire
from product_sources import find_product_files

_RUN_TIMEOUT_S = 60
_COMMAND_LINES = (
    "mcpb --version",
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
    "mcpb status --no-open",
    "mcpb status --web",
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
    found = {"mcpb serve (http.enabled = false)": run_mcpb("mcpb serve").exit_code}
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
    for path in find_product_files("sh"):
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
