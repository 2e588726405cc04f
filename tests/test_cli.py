"""The `mcpb` command, as people and scripts meet it."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from bridge.app import open_hub
from bridge.cli import main
from demo.simulated_browser import SimulatedBrowser
from peers import HOST_COMMAND

SHOP = "http://localhost:8123/"
GET_CART = "website_tool_localhost_8123_tab1_getCart"


async def get_cart(arguments: dict[str, Any]) -> dict[str, Any]:
    if arguments.get("fail"):
        raise RuntimeError("Error: out of tea")
    text = arguments.get("say") or json.dumps(arguments)
    return {"content": [{"type": "text", "text": text}]}


@pytest.fixture
async def shop(mcpb_home: Path) -> AsyncIterator[SimulatedBrowser]:
    async with SimulatedBrowser(HOST_COMMAND, profile_label="Work") as browser:
        schema = {"type": "object", "properties": {"note": {"type": "string"}}}
        tab = browser.add_tab(SHOP, "Shop")
        tab.offer("getCart", get_cart, description="What is in the cart\nof the shop", input_schema=schema)
        async with open_hub() as hub:  # commands do not wait for a page: let the host have heard of it
            router = hub.router
            assert await router.wait_until(
                lambda: any(router.registry.offers()), until=trio.current_time() + 5
            )
        yield browser


async def run(*arguments: str) -> Result:
    """The command in a thread: it runs an event loop of its own."""
    with trio.fail_after(20):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))


def test_the_version_says_what_we_are_and_what_we_are_not() -> None:
    found = CliRunner().invoke(main, ["--version"]).output
    assert found == "mcpb 0.1.0, MCP bridge for browsers (not the MCP Bundles tool)\n"


def test_help_names_every_command_and_imports_none() -> None:
    program = (
        "import sys; from bridge.cli import main; main(['--help'], standalone_mode=False); "
        "print(sorted({'trio', 'mcp', 'msgspec', 'install.commands'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    commands = ("bridge", "call", "demo", "extension", "install-native-host", "status", "tools")
    assert all(f"\n  {command} " in done.stdout for command in commands)


async def test_tools_lists_what_clients_see(shop: SimulatedBrowser) -> None:
    done = await run("tools")
    assert f"{GET_CART} [note=]\n    [http://localhost:8123 · tab 1" in done.output
    assert done.exit_code == 0
    listed = json.loads((await run("tools", "--json")).output)["tools"]
    assert [tool["name"] for tool in listed] == ["list_page_tools", "call_page_tool", GET_CART]


async def test_call_reads_values_as_json_where_the_tool_does_not_want_text(shop: SimulatedBrowser) -> None:
    done = await run(
        "call", GET_CART, "n=5", "tags=[1,2]", "word=tea", "note=7", "--args", '{"deep": {"x": 1}}'
    )
    assert json.loads(done.output) == {"deep": {"x": 1}, "n": 5, "tags": [1, 2], "word": "tea", "note": "7"}
    assert done.exit_code == 0


async def test_call_with_json_prints_the_whole_result(shop: SimulatedBrowser) -> None:
    done = await run("call", GET_CART, "--json")
    assert json.loads(done.output) == {"content": [{"type": "text", "text": "{}"}]}


async def test_a_terminal_gets_no_control_characters_of_a_page_and_a_pipe_gets_them(
    shop: SimulatedBrowser,
) -> None:
    """Else a page could drive the terminal."""
    said = "\x1b]0;owned\x07\tok\n\x9b2J"
    arguments = ["call", GET_CART, "--args", json.dumps({"say": said})]
    assert (await run(*arguments)).output == said + "\n"
    ours, theirs = os.openpty()
    with trio.fail_after(20):
        await trio.run_process([sys.executable, "-m", "bridge", *arguments], stdout=theirs)
    assert os.read(ours, 1000).decode() == "\ufffd]0;owned\ufffd\tok\r\n\ufffd2J\r\n"
    os.close(ours)
    os.close(theirs)


async def test_call_exits_1_when_the_tool_fails(shop: SimulatedBrowser) -> None:
    done = await run("call", GET_CART, "fail=true")
    assert (done.exit_code, done.output) == (1, "Error: out of tea\n")


async def test_call_of_a_name_that_nobody_offers_says_which_are_close_to_it(shop: SimulatedBrowser) -> None:
    done = await run("call", GET_CART[:-1])
    assert done.exit_code == 1
    assert f"Close to it: {GET_CART}. To see what there is, run: mcpb tools" in done.output


@pytest.mark.usefixtures("mcpb_home")
async def test_call_of_a_name_when_no_page_offers_any_says_what_is_missing() -> None:
    done = await run("call", "nothing")
    assert done.exit_code == 1
    assert done.output.startswith("Error: No page offers 'nothing'. No browser ")
    assert "mcpb install-native-host" in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x"], "'x' is not KEY=VALUE"),
        (["--args", "{"], "--args is not JSON"),
        (["--args", "[]"], "--args must be a JSON object"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["call", "name", *arguments])
    assert done.exit_code == 2
    assert says in done.output


async def test_status_shows_browsers_tabs_tools_and_clients(shop: SimulatedBrowser) -> None:
    done = await run("status")
    lines = done.output.splitlines()
    assert lines[2] == "Simulated browser 0.1.0 “Work”"
    assert lines[4:] == [
        "  http://localhost:8123 · tab 1 “Shop” • Active",
        f"    {GET_CART}",
        "  clients: none",
    ]
    found = json.loads((await run("status", "--json")).output)
    assert found["missing"] == ""
    assert found["browsers"][0]["tabs"][0]["tools"] == [GET_CART]


async def test_status_names_the_first_missing_link_and_what_mends_it(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chromium = mcpb_home / "config" / "chromium"
    chromium.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(mcpb_home / "config"))
    assert "No browser can start the native host" in (await run("status")).output
    installed = await run("install-native-host", "--user-data-dir", str(chromium), "--yes")
    assert installed.exit_code == 0, installed.output
    assert "No browser is connected" in (await run("status")).output


async def test_status_says_that_no_page_offers_a_tool(mcpb_home: Path) -> None:
    async with SimulatedBrowser(HOST_COMMAND) as browser:
        browser.add_tab(SHOP, "Shop")
        assert "1 browser connected, but no open page offers a tool" in (await run("status")).output


def test_extension_copies_the_extension_and_says_how_to_load_it(mcpb_home: Path) -> None:
    done = CliRunner().invoke(main, ["extension"])
    assert done.exit_code == 0, done.output
    assert (mcpb_home / "extension" / "manifest.json").is_file()
    assert not list((mcpb_home / "extension").glob("__*"))
    assert "Load unpacked" in done.output
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0


def test_extension_replaces_an_earlier_copy_as_a_whole(mcpb_home: Path) -> None:
    copy = mcpb_home / "extension"
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0
    (copy / "of_an_older_version.js").touch()
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0
    assert not (copy / "of_an_older_version.js").exists()
    assert (copy / "content" / "proxy.js").is_file()
    assert [path.name for path in mcpb_home.iterdir()] == ["extension"]


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a file", "somebody's directory"])
def test_extension_replaces_nothing_that_is_not_an_earlier_copy(mcpb_home: Path, kind: str) -> None:
    elsewhere = mcpb_home / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "diary.txt").touch()
    there = mcpb_home / "extension"
    match kind:
        case "a link":
            there.symlink_to(elsewhere)
        case "a link to nothing":
            there.symlink_to(mcpb_home / "nothing")
        case "a file":
            there.touch()
        case _:
            elsewhere.rename(there)
    done = CliRunner().invoke(main, ["extension"])
    assert done.exit_code == 1
    assert "Move it away, then run again: mcpb extension" in done.output
    diaries = [path.relative_to(mcpb_home) for path in mcpb_home.rglob("*") if path.name == "diary.txt"]
    assert len(diaries) == 1
    assert not (mcpb_home / "nothing").exists()
