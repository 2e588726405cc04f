"""The wrapper is mended when mcpb starts: what is ours, when it is due, told once; cheap when it is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge.cli.group import main
from install import cli, installation, wrapper, wrapper_repair
from install.cli import install_native_host
from install.interpreter import InterpreterError
from install.ledger import digest_of
from install.wrapper_repair import registered_interpreter, repair_wrapper
from native_host import __version__
from native_host.protocol.wire import HOST_NAME
from native_host.system.home_layout import HomeLayout

OWN = f"# mcpb {__version__} {sys.executable}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which Chromium has been used and mcpb is registered."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    for variable in ("XDG_CONFIG_HOME", "CHROME_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("install.interpreter.is_temporary", lambda _: False)  # this clone may be in one
    (tmp_path / ".config/chromium").mkdir(parents=True)
    done = CliRunner().invoke(install_native_host, ["--yes"])
    assert done.exit_code == 0, done.output
    return tmp_path


@pytest.fixture
def script(home: Path) -> Path:
    """The registered wrapper."""
    return home / "mcpb/bin/mcpb-native-host"


def as_if_written_by(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, interpreter: str, bakes_home: bool = True
) -> None:
    """Register again as another version or interpreter did, ledger and all."""
    with monkeypatch.context() as patched:
        real = cli.this_host()
        other = installation.RegisteredHost(
            real.home, Path(interpreter), bakes_home=bakes_home, version=version
        )
        patched.setattr(cli, "this_host", lambda *_, **__: other)
        done = CliRunner().invoke(install_native_host, ["--yes"])
        assert done.exit_code == 0, done.output


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_what_is_compared_is_the_wrapper_s_own_third_line(script: Path) -> None:
    assert script.read_text().split("\n")[2] == wrapper.make_stamp(__version__, sys.executable) == OWN
    assert registered_interpreter() == sys.executable


def test_where_all_is_as_it_should_be_nothing_is_written(home: Path) -> None:
    before = contents(home)
    assert repair_wrapper() == ""
    assert contents(home) == before


def test_looking_imports_nothing_that_a_start_would_feel(home: Path) -> None:
    imported = "import sys; from install.wrapper_repair import repair_wrapper"
    code = f"{imported}; assert repair_wrapper() == ''; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"msgspec", "trio", "click", "subprocess", "json", "tomllib", "hashlib"}
    assert {
        name for name in loaded if name.startswith(("install", "bridge", "manifests", "native_host"))
    } == {
        "install",
        "install.wrapper_repair",
        "native_host",
        "native_host.system",
        "native_host.system.home_layout",
    }


def test_without_a_registration_there_is_nothing_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(tmp_path / "mcpb"))
    assert (repair_wrapper(), registered_interpreter()) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_after_an_upgrade_in_place_the_wrapper_is_of_this_version(
    home: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter=sys.executable)
    assert "# mcpb 0.0.9" in script.read_text()
    assert repair_wrapper() == f"Repaired the wrapper: it starts mcpb {__version__} instead of 0.0.9."
    assert script.read_text().split("\n")[2] == OWN
    assert repair_wrapper() == ""


def test_a_wrapper_whose_python_is_gone_gets_ours(
    home: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter="/nonexistent/python")
    assert (
        repair_wrapper()
        == f"Repaired the wrapper: it starts {sys.executable}, because /nonexistent/python is gone."
    )
    assert registered_interpreter() == sys.executable
    manifest = json.loads((home / f".config/chromium/NativeMessagingHosts/{HOST_NAME}.json").read_bytes())
    assert manifest["path"] == str(script)


@pytest.mark.parametrize("bakes_home", [True, False])
def test_a_mended_wrapper_sends_the_host_to_the_same_home_as_before(
    home: Path, script: Path, monkeypatch: pytest.MonkeyPatch, bakes_home: bool
) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter=sys.executable, bakes_home=bakes_home)
    said = f"export MCPB_HOME={home / 'mcpb'}" if bakes_home else "unset MCPB_HOME"
    homes = [said, f"export HOME={home}"]
    assert script.read_text().split("\n")[3:5] == homes
    assert repair_wrapper()
    assert script.read_text().split("\n")[3:5] == homes


def test_a_wrapper_of_an_earlier_version_gets_the_home_of_its_registration(
    home: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_written_by(home, monkeypatch, version="0.1.0", interpreter=sys.executable)
    written, ledger = script.read_text(), HomeLayout(home / "mcpb").ledger
    earlier = written.replace(f"export HOME={home}\n", "")
    script.write_text(earlier)
    ledger.write_text(ledger.read_text().replace(digest_of(written.encode()), digest_of(earlier.encode())))
    assert repair_wrapper()
    assert f"export HOME={home}\n" in script.read_text()


def left_alone(home: Path) -> bool:
    before = contents(home)
    return repair_wrapper() == "" and contents(home) == before


def test_another_living_installation_keeps_what_is_its(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_written_by(home, monkeypatch, version="9.9.9", interpreter="/bin/sh")
    assert left_alone(home)


def test_a_wrapper_that_was_edited_by_hand_stays(
    home: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter=sys.executable)
    script.write_text(script.read_text() + "# mine\n")
    assert left_alone(home)


def test_an_interpreter_that_will_vanish_mends_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter="/nonexistent/python")

    def vanishing() -> Path:
        raise InterpreterError("it will not stay")

    monkeypatch.setattr("install.interpreter.current_interpreter", vanishing)
    assert left_alone(home)


def test_a_trial_in_a_temporary_folder_mends_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter="/nonexistent/python")
    monkeypatch.setattr("install.interpreter.is_temporary", lambda _: True)
    assert left_alone(home)


@pytest.mark.parametrize("interpreter", [sys.executable, "/nonexistent/python"])
def test_what_a_newer_mcpb_has_registered_is_not_taken_back(
    home: Path, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setattr("install.wrapper_repair.__version__", "0.9.3")
    as_if_written_by(home, monkeypatch, version="0.10.0", interpreter=interpreter)
    assert left_alone(home)


def damage_ledger(home: Path) -> None:
    (home / "mcpb/state/ledger.json").write_text("{")


def put_a_pipe_there(home: Path) -> None:
    (home / "mcpb/bin/mcpb-native-host").unlink()
    os.mkfifo(home / "mcpb/bin/mcpb-native-host")


def put_another_s_program_there(home: Path) -> None:
    (home / "mcpb/bin/mcpb-native-host").write_bytes(b"\x7fELF\xff\xfe\n\n\n\n")


@pytest.mark.parametrize("spoil", [damage_ledger, put_a_pipe_there, put_another_s_program_there])
def test_what_cannot_be_mended_stops_no_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    as_if_written_by(home, monkeypatch, version="0.0.9", interpreter=sys.executable)
    spoil(home)
    assert left_alone(home)


# ── As part of the command ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often it was looked."""
    looked: list[str] = []

    def note() -> str:
        looked.append("mended")
        return "Mended."

    monkeypatch.setattr(wrapper_repair, "repair_wrapper", note)
    return looked


def test_a_command_says_on_stderr_what_was_mended(mcpb_home: Path, starts: list[str]) -> None:
    done = CliRunner().invoke(main, ["extension"])
    assert done.stderr == "Mended.\n"
    assert "Mended" not in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], [], ["tools", "--help"], ["install-native-host", "--dry-run"]]
)
def test_help_and_what_speaks_of_registrations_mend_nothing(
    mcpb_home: Path, starts: list[str], arguments: list[str]
) -> None:
    CliRunner().invoke(main, arguments)
    assert starts == []
