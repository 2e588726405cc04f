"""The wrapper: what a browser starts, in whatever environment, and what it says when it cannot go on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from demo.simulated.browser import SimulatedBrowser
from install import wrapper
from install.host_manifest import OUR_CALLERS
from install.wrapper import Wrapper
from native_host.protocol import wire
from native_host.protocol.framing import FrameDecoder

ORIGIN = OUR_CALLERS[0]


def a_wrapper(interpreter: str, mcpb_home: str | None = None, home: str | None = None) -> Wrapper:
    return Wrapper(
        interpreter=interpreter, home=mcpb_home, user_home=home, callers=OUR_CALLERS, version="1.2.3"
    )


def written(tmp_path: Path, made: Wrapper) -> str:
    path = tmp_path / "wrapper with a space"
    path.write_text(wrapper.make_script(made))
    path.chmod(0o700)
    return str(path)


def test_a_wrapper_tells_what_it_was_made_from(tmp_path: Path) -> None:
    made = a_wrapper("/opt/it's here/$HOME/`id`/python\n3", "/tmp/“home”", "/home/o'ana")
    assert wrapper.read_wrapper(wrapper.make_script(made)) == made
    assert wrapper.read_wrapper("#!/bin/sh\necho\n") is None


def test_the_third_line_tells_version_and_interpreter_in_one_line_whatever_the_path() -> None:
    lines = wrapper.make_script(a_wrapper("/opt/a b/python")).split("\n")
    assert lines[2] == wrapper.make_stamp("1.2.3", "/opt/a b/python") == "# mcpb 1.2.3 /opt/a b/python"
    assert wrapper.make_stamp("1.2.3", "/opt/a\nrm -rf /") == "# mcpb 1.2.3 /opt/a rm -rf /"


def test_a_wrapper_of_any_version_is_known_as_ours_by_its_second_line(tmp_path: Path) -> None:
    ours = wrapper.make_script(a_wrapper("/python"))
    assert wrapper.is_ours(ours)
    assert wrapper.is_ours(ours.replace('"interpreter"', '"something else"'))
    assert wrapper.read_wrapper(ours.replace('"interpreter"', '"something else"')) is None
    assert not wrapper.is_ours("#!/bin/sh\n# Written by somebody\n")


async def test_the_wrapper_becomes_the_native_host_in_an_empty_environment(tmp_path: Path) -> None:
    path = written(tmp_path, a_wrapper(sys.executable, str(tmp_path / "m")))
    with trio.fail_after(60):
        async with SimulatedBrowser(["/usr/bin/env", "-i", path]) as browser:
            assert browser.port is not None
            hello = browser.heard("host/hello")
            assert f'"pid":{browser.port.process.pid}'.encode() in bytes(hello[0].params)
    assert (tmp_path / "m/run").is_dir()


@pytest.mark.parametrize("inherited", ["/elsewhere", None])
def test_the_browser_s_environment_has_no_say_about_the_home(tmp_path: Path, inherited: str | None) -> None:
    shows_home = tmp_path / "python"
    shows_home.write_text('#!/bin/sh\necho "${MCPB_HOME-unset} ${HOME-unset} $MCPB_CALLERS $*"\n')
    shows_home.chmod(0o700)
    env = {} if inherited is None else {"MCPB_HOME": inherited, "HOME": inherited}
    for home, mcpb_home in ((None, None), ("/home/o'ana", None), ("/home/ana", "/baked in")):
        path = written(tmp_path, a_wrapper(str(shows_home), mcpb_home, home))
        told = subprocess.run([path, "an origin"], env=env, capture_output=True, text=True, check=True).stdout
        homes = f"{mcpb_home or 'unset'} {home or 'unset'}"
        assert told == f"{homes} {' '.join(OUR_CALLERS)} -I -m native_host an origin\n"


def test_a_wrapper_knows_the_variables_that_decide_about_its_host_s_home() -> None:
    assert a_wrapper("/python", "/m", "/home/ana").environ == {"MCPB_HOME": "/m", "HOME": "/home/ana"}
    assert a_wrapper("/python").environ == {}


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/dash"])
@pytest.mark.parametrize("interpreter", ["/gone/python", "/gone/it's 100% \\\\ “gone”\n/python"])
def test_when_the_interpreter_is_gone_the_wrapper_says_so_in_a_frame_and_waits(
    tmp_path: Path, interpreter: str, shell: str
) -> None:
    if not os.access(shell, os.X_OK):
        pytest.skip(f"no {shell} here")
    command = [shell, written(tmp_path, a_wrapper(interpreter)), ORIGIN]
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        decoder = FrameDecoder(wire.TO_BROWSER_BYTES, "native")
        while (body := decoder.next_frame()) is None:
            data = os.read(process.stdout.fileno(), 65536)
            assert data, "it ended without a word"
            decoder.feed(data)
        message = json.loads(body)
        assert message["method"] == "host/error"
        assert interpreter in message["params"]["message"]
        assert message["params"]["command"] == "mcpb install-native-host"

        assert process.poll() is None, "it must wait until the browser closes the pipe"
        rest, _ = process.communicate(b"\x0a\x00\x00\x00{\n}", timeout=60)
    assert rest == b""
    assert process.returncode == 0
