"""The host program, started as a browser would: what it is blamed for, and what it is not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from install.browsers import Kind
from install.checks import host_trial
from install.checks.host_trial import Trial, browser_arguments, try_host
from install.host_manifest import OUR_CALLERS
from install.wrapper import Wrapper, make_script
from native_host import __version__
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import frame
from native_host.protocol.wire import Code
from wire_peers import until

CALLER: dict[Kind, str] = {"chromium": OUR_CALLERS[0], "firefox": OUR_CALLERS[1]}
MANIFEST = Path("/folder/dev.mcpb.native_host.json")


def our_wrapper(folder: Path, interpreter: str = sys.executable) -> Path:
    made = Wrapper(version=__version__, interpreter=interpreter, home=str(folder), callers=OUR_CALLERS)
    return program(folder, make_script(made))


def program(folder: Path, text: str, name: str = "host") -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(0o700)
    return path


def saying(folder: Path, *bodies: bytes, then: str = "cat >/dev/null") -> Path:
    """A program that writes these messages, then does something else."""
    (folder / "said").write_bytes(b"".join(frame(body, "native") for body in bodies))
    return program(folder, f"#!/bin/sh\n/bin/cat '{folder}/said'\n{then}\n".replace("\ncat ", "\n/bin/cat "))


def hello(version: str = __version__, spoken: int = wire.WIRE_VERSION) -> bytes:
    limits = wire.Limits(to_browser=1, from_browser=1, socket=1)
    said = wire.HostHello(
        wire=spoken, instance="0", version=version, pid=1, browser_pid=1, extension_origin="", limits=limits
    )
    return jsonrpc.notification("host/hello", said)


def is_running(pid: int) -> bool:
    """One that has ended may wait for its parent to notice."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip()[:1] not in {"", "Z"}


async def tried(path: Path, kind: Kind = "chromium") -> Trial:
    with trio.fail_after(60):
        return await try_host(path, kind, CALLER[kind], MANIFEST)


async def blamed(path: Path) -> tuple[str, str]:
    finding = (await tried(path)).finding
    assert finding is not None
    assert finding.hop == "host"
    return finding.code, finding.text


@pytest.mark.parametrize("kind", ["chromium", "firefox"])
async def test_our_own_host_is_content_and_leaves_nothing_behind(kind: Kind, short_tmp: Path) -> None:
    found = await tried(our_wrapper(short_tmp), kind)
    assert found.finding is None
    assert found.version == __version__
    assert list((short_tmp / "run").iterdir()) == []


def test_each_kind_of_browser_starts_it_with_its_own_words() -> None:
    host = Path("/mcpb/host")
    assert browser_arguments(host, "chromium", CALLER["chromium"], MANIFEST) == [
        "/mcpb/host",
        CALLER["chromium"],
    ]
    assert browser_arguments(host, "firefox", CALLER["firefox"], MANIFEST) == [
        "/mcpb/host",
        str(MANIFEST),
        CALLER["firefox"],
    ]


async def test_it_is_started_without_an_environment_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    words = f"{sys.executable} -c \"import os; print(os.getcwd(), 'SECRET' in os.environ)\" >&2; exit 3"
    code, text = await blamed(program(tmp_path, f"#!/bin/sh\n{words}\n"))
    assert code == "host-exits"
    assert text.endswith(f"{tmp_path} False")


async def test_an_interpreter_that_is_gone_is_told_by_the_wrapper_itself(short_tmp: Path) -> None:
    code, text = await blamed(our_wrapper(short_tmp, "/gone/python"))
    assert code == "interpreter-gone"
    assert "/gone/python, which is gone" in text


@pytest.mark.parametrize("words", ["echo Welcome to the shell", "printf '\\377\\377\\377\\377'"])
async def test_what_it_prints_is_shown(words: str, tmp_path: Path) -> None:
    code, text = await blamed(program(tmp_path, f"#!/bin/sh\n{words}\nread -r line\n"))
    assert code == "host-prints"
    assert ("Welcome to the shell\\n" in text) == words.startswith("echo")


async def test_noise_after_the_hello_is_noise_as_well(tmp_path: Path) -> None:
    code, text = await blamed(saying(tmp_path, hello(), then="echo bye; read -r line"))
    assert (code, text.endswith("not a message: bye\\n")) == ("host-prints", True)


async def test_a_message_that_is_no_json_is_noise(tmp_path: Path) -> None:
    assert (await blamed(saying(tmp_path, b"{,}")))[0] == "host-prints"


async def test_its_last_words_are_shown_without_what_steers_a_terminal(tmp_path: Path) -> None:
    code, text = await blamed(program(tmp_path, "#!/bin/sh\nprintf 'one\\n\\033[31mtwo\\n' >&2\nexit 3\n"))
    assert code == "host-exits"
    assert text.endswith("ends at once, with exit code 3. Last line of stderr: \\x1b[31mtwo")


async def test_a_signal_that_ends_it_is_named(tmp_path: Path) -> None:
    code, text = await blamed(program(tmp_path, "#!/bin/sh\nkill -9 $$\n"))
    assert (code, text.endswith("with signal SIGKILL")) == ("host-exits", True)


async def test_a_program_that_says_nothing_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "HELLO_SECONDS", 0.2)
    assert (await blamed(program(tmp_path, "#!/bin/sh\nread -r line\n")))[0] == "host-silent"


async def test_a_message_that_is_begun_and_left_is_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "HELLO_SECONDS", 0.5)
    code, text = await blamed(program(tmp_path, "#!/bin/sh\necho hi\nread -r line\n"))
    assert (code, "hi\\n" in text) == ("host-prints", True)


async def test_another_products_host_is_known_by_what_it_says(tmp_path: Path) -> None:
    code, text = await blamed(saying(tmp_path, b'{"type":"pong"}'))
    assert (code, '{"type":"pong"}' in text) == ("host-not-ours", True)


async def test_a_refusal_is_passed_on_with_its_command(tmp_path: Path) -> None:
    error = wire.HostError(code=Code.NOT_ALLOWED, message="not you", command="mcpb install-native-host --all")
    finding = (await tried(saying(tmp_path, jsonrpc.notification("host/error", error)))).finding
    assert finding is not None
    assert (finding.code, finding.command_line) == ("host-refuses", "mcpb install-native-host --all")
    assert "not you" in finding.text


@pytest.mark.parametrize("command", ["rm -rf ~", "mcpb status; rm -rf ~", "mcpb $(id)", "mcpb status\nid"])
async def test_a_command_that_is_more_than_a_plain_one_of_ours_is_not_passed_on(
    command: str, tmp_path: Path
) -> None:
    error = wire.HostError(code=Code.NOT_ALLOWED, message="run it", command=command)
    finding = (await tried(saying(tmp_path, jsonrpc.notification("host/error", error)))).finding
    assert finding is not None
    assert finding.command_line == "mcpb install-native-host"


async def test_a_host_of_another_version_is_a_warning_and_of_another_wire_a_fault(tmp_path: Path) -> None:
    finding = (await tried(saying(tmp_path, hello(version="0.0.9")))).finding
    assert finding is not None
    assert (finding.code, finding.level) == ("host-version", "warning")
    assert (await blamed(saying(tmp_path, hello(spoken=99))))[0] == "host-other-wire"


async def test_a_host_that_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "END_SECONDS", 0.2)
    child = f"sleep 60 & echo $! >{tmp_path}/child; wait"
    finding = (await tried(saying(tmp_path, hello(), then=child))).finding
    assert finding is not None
    assert (finding.code, finding.level) == ("host-lingers", "warning")
    with trio.fail_after(30):
        await until(lambda: not is_running(int((tmp_path / "child").read_text())))


async def test_whatever_a_host_starts_in_another_group_is_ended_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "END_SECONDS", 0.2)
    start = f"import os; os.setpgid(0, 0); open('{tmp_path}/child', 'w').write(str(os.getpid())); os.pause()"
    await tried(saying(tmp_path, hello(), then=f'{sys.executable} -Sc "{start}" & wait'))
    with trio.fail_after(30):
        await until(lambda: not is_running(int((tmp_path / "child").read_text())))


async def test_a_host_of_ours_that_had_to_be_killed_leaves_no_files(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "END_SECONDS", 0)
    await tried(our_wrapper(short_tmp))
    assert list((short_tmp / "run").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_who_ends_the_trial_ends_the_host_first(number: int, tmp_path: Path) -> None:
    host = program(
        tmp_path, f"#!/bin/sh\ntrap '' TERM HUP INT\necho $$ >{tmp_path}/pid\nsleep 60\nsleep 60\n"
    )
    make_script = (
        "import trio\nfrom pathlib import Path\nfrom install.checks.host_trial import *\n"
        "async def main():\n async with cancel_on_signals():\n"
        f"  await try_host(Path('{host}'), 'chromium', 'x', Path('/m'))\ntrio.run(main)"
    )
    with trio.fail_after(60):
        doctor = await trio.lowlevel.open_process(
            [sys.executable, "-c", make_script], stderr=subprocess.DEVNULL
        )
        await until(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()))
        doctor.send_signal(number)
        assert await doctor.wait() == -number
    assert not is_running(int((tmp_path / "pid").read_text()))


async def test_a_host_that_says_more_and_more_is_not_listened_to_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_trial, "END_SECONDS", 0.2)
    monkeypatch.setattr(host_trial, "STDOUT_BYTES", 1000)
    again = f"while :; do /bin/cat '{tmp_path}/said' || exit; done"
    code, text = await blamed(saying(tmp_path, hello(), then=again))
    assert (code, "unasked" in text) == ("host-not-ours", True)


async def test_only_the_wrapper_says_that_the_interpreter_is_gone(tmp_path: Path) -> None:
    """It is known by its code: another refusal with the same command is passed on as what it is."""
    error = wire.HostError(code=Code.NOT_ALLOWED, message="not you", command="mcpb install-native-host")
    assert (await blamed(saying(tmp_path, jsonrpc.notification("host/error", error))))[0] == "host-refuses"


async def test_a_program_that_the_system_does_not_start_is_said_so(tmp_path: Path) -> None:
    code, text = await blamed(program(tmp_path, "#!/gone/sh\n"))
    assert (code, text.endswith("No such file or directory")) == ("host-not-started", True)
