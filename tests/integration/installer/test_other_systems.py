"""What is not Linux alone: WSL with a browser of Windows, Windows itself, macOS."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import trio
from click.testing import CliRunner

from install.browsers import known_browsers
from install.cli import install_native_host
from install.machine import Machine
from install.wsl import is_wsl, make_recipe
from native_host.ipc import endpoint
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID, HOST_NAME

WRAPPER = Path("/home/ana/.mcpb/bin/mcpb-native-host")


def machine(tmp_path: Path, osrelease: str = "", **environ: str) -> Machine:
    """A Linux with that kernel."""
    kernel = tmp_path / "proc/sys/kernel"
    kernel.mkdir(parents=True)
    (kernel / "osrelease").write_text(osrelease + "\n")
    return Machine("linux", tmp_path / "home", environ, tmp_path)


def indented(text: str) -> list[str]:
    """What a person is to copy: the indented blocks."""
    blocks = re.findall(r"(?:^    .*\n?)+", text, re.MULTILINE)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]


# ── WSL ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("osrelease", "environ", "is_one"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", {}, True),
        ("4.4.0-19041-Microsoft", {}, True),
        ("6.1.0-18-amd64", {"WSL_DISTRO_NAME": "Ubuntu"}, True),
        ("6.1.0-18-amd64", {}, False),
    ],
)
def test_wsl_is_known_by_its_kernel_or_its_name(
    tmp_path: Path, osrelease: str, environ: dict[str, str], is_one: bool
) -> None:
    assert is_wsl(machine(tmp_path, osrelease, **environ)) is is_one


def test_a_machine_without_proc_is_no_wsl(tmp_path: Path) -> None:
    assert not is_wsl(Machine("macos", tmp_path, {}, tmp_path))


def test_the_recipe_s_batch_file_goes_through_no_shell_and_keeps_quiet(tmp_path: Path) -> None:
    batch, *_ = indented(
        make_recipe(known_browsers(), machine(tmp_path, WSL_DISTRO_NAME="Ubuntu 24"), WRAPPER)
    )
    assert batch == f'@echo off\nwsl.exe -d "Ubuntu 24" --exec "{WRAPPER}" %* 2>NUL'


def test_without_a_name_of_the_distribution_the_default_one_is_meant_and_odd_paths_are_kept(
    tmp_path: Path,
) -> None:
    batch, *_ = indented(make_recipe(known_browsers(), machine(tmp_path), Path("/home/änn/100%/host")))
    assert batch == '@echo off\nchcp 65001 >NUL\nwsl.exe --exec "/home/änn/100%%/host" %* 2>NUL'


def test_the_recipe_s_manifests_are_those_of_each_kind_and_point_beside_themselves(tmp_path: Path) -> None:
    _, chromium, firefox, *_ = indented(make_recipe(known_browsers(), machine(tmp_path), WRAPPER))
    assert json.loads(chromium)["allowed_origins"] == [f"chrome-extension://{EXTENSION_ID}/"]
    assert json.loads(firefox)["allowed_extensions"] == [FIREFOX_ID]
    assert {json.loads(text)["path"] for text in (chromium, firefox)} == {"mcpb-native-host.bat"}


def test_every_registry_key_of_the_table_has_one_line_that_names_the_manifest_of_its_kind(
    tmp_path: Path,
) -> None:
    text = make_recipe(known_browsers(), machine(tmp_path), WRAPPER)
    added = re.findall(r'reg add "HKCU\\(.*)\\' + re.escape(HOST_NAME) + r'" .* /d ".*\\(.*)" /f', text)
    keys = {(key, browser.kind) for browser in known_browsers() for key in browser.windows}
    files = {"chromium": f"{HOST_NAME}.json", "firefox": f"{HOST_NAME}.firefox.json"}
    assert sorted(added) == sorted((key, files[kind]) for key, kind in keys)


@pytest.fixture
def in_wsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of somebody whose only browser is one of Windows."""
    for variable in ("XDG_CONFIG_HOME", "CHROME_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")
    return tmp_path


def test_in_wsl_a_browser_of_windows_is_enough_to_install_and_the_recipe_names_a_wrapper_that_is_there(
    in_wsl: Path,
) -> None:
    done = CliRunner().invoke(install_native_host, ["--yes"])
    assert done.exit_code == 0, done.output
    wrapper = in_wsl / "mcpb/bin/mcpb-native-host"
    assert wrapper.exists()
    assert f'wsl.exe -d "Ubuntu" --exec "{wrapper}"' in done.output


def test_in_wsl_a_browser_of_linux_is_registered_as_on_any_linux(in_wsl: Path) -> None:
    (in_wsl / ".config/chromium").mkdir(parents=True)
    done = CliRunner().invoke(install_native_host, ["--yes"])
    assert done.exit_code == 0, done.output
    assert (in_wsl / f".config/chromium/NativeMessagingHosts/{HOST_NAME}.json").exists()


# ── Windows itself ──────────────────────────────────────────────────────────────────────────────────────────

ON_WINDOWS = "import click, sys; sys.platform = 'win32'; sys.modules.update(pwd=None, fcntl=None);"


@pytest.mark.parametrize(
    "start",
    [
        "from bridge.cli.group import main; main(['status'])",
        "from bridge.cli.group import main; main(['install-native-host'])",
        "from bridge.cli.group import main; main(['bridge'])",
        "import runpy; runpy.run_module('native_host', run_name='__main__')",
    ],
)
def test_windows_is_refused_with_the_way_through_wsl_before_anything_fails(start: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{ON_WINDOWS} {start}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mcpb does not run in Windows itself, but it runs in WSL")
    assert "wsl --install" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_windows_the_version_is_still_told() -> None:
    start = f"{ON_WINDOWS} from bridge.cli.group import main; main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-c", start], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith("mcpb ")


# ── macOS ───────────────────────────────────────────────────────────────────────────────────────────────────


class MacSocket:
    """A Unix socket of macOS, as far as it differs: it knows nothing once its peer has gone."""

    def __init__(self, uid: int, *, has_gone: bool = False) -> None:
        self._uid = uid
        self._has_gone = has_gone

    def getsockopt(self, level: int, option: int, buffersize: int) -> bytes:
        assert (level, option, buffersize) == (0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED, sizeof(struct xucred)
        if self._has_gone:
            raise OSError(errno.ENOTCONN, "Socket is not connected")
        return struct.pack("IIh2x16I", 0, self._uid, 1, *[20] * 16)

    def setsockopt(self, *_: int) -> None:
        if self._has_gone:
            raise OSError(errno.EINVAL, "Invalid argument")


@pytest.fixture
def on_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")


def stream(found: MacSocket) -> trio.SocketStream:
    return cast("trio.SocketStream", found)


def test_on_macos_the_other_end_must_be_our_own_user_too(on_mac: None) -> None:
    endpoint.check_peer(stream(MacSocket(os.getuid())))
    with pytest.raises(endpoint.EndpointError, match="belongs to user 501, not to you"):
        endpoint.check_peer(stream(MacSocket(501)))


def test_on_macos_a_client_that_has_gone_at_once_is_refused_and_ends_nothing(on_mac: None) -> None:
    gone = stream(MacSocket(os.getuid(), has_gone=True))
    with pytest.raises(endpoint.EndpointError, match="has gone"):
        endpoint.check_peer(gone)
    endpoint.tune(gone)
