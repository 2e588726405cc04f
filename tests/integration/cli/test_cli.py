"""The `mcpb` command, as people and scripts meet it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result
from msgspec import Raw

from bridge.app import open_hub
from bridge.cli.group import main
from bridge.config.settings import Config
from bridge.hub.audit_records import FinishedCall, Site, ToolRegistration
from bridge.hub.client_session import Session
from bridge.hub.page_tool import read_tools
from bridge.hub.tool_definition import mark_of
from bridge.state.audit_log import AuditLog
from bridge.state.tool_cache import SqliteToolStore
from custom_tools import FIXED
from demo.simulated.browser import SimulatedBrowser
from native_host.protocol.wire import EXTENSION_ID, ClientInfo, FrameTools
from native_host.system.home_layout import StateLayout
from wire_peers import HOST_COMMAND

SHOP = "http://localhost:8123/"
EXTENSION = Path(__file__).parents[3] / "extension"
LIST_PAGE_TOOLS = b"".join(
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    for method, params in (
        (
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "by hand", "version": "1"},
            },
        ),
        ("tools/call", {"name": "list_page_tools", "arguments": {}}),
    )
)
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
        # Commands do not wait for a page: let the host have heard of it.
        async with open_hub(Config()) as hub:
            router = hub.router
            assert await router.changes.wait_until(
                lambda: any(router.registry.offers()), until=trio.current_time() + 5
            )
        yield browser


async def run(*arguments: str) -> Result:
    """The command in a thread: it runs an event loop of its own."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, arguments))


def test_the_version_says_what_we_are_and_what_we_are_not() -> None:
    found = CliRunner().invoke(main, ["--version"]).output
    assert found == "mcpb 0.2.0, MCP bridge for browsers (not the MCP Bundles tool)\n"


def test_help_names_every_command_and_imports_none() -> None:
    program = (
        "import sys; from bridge.cli.group import main; main(['--help'], standalone_mode=False); "
        "print(sorted({'trio', 'mcp', 'msgspec', 'install.cli'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    commands = ("audit", "bridge", "call", "demo", "extension", "install-native-host", "pause", "status")
    assert all(f"\n  {command} " in done.stdout for command in (*commands, "serve", "tools"))


def test_help_says_what_each_command_does_in_whole_sentences() -> None:
    _, heading, commands = CliRunner().invoke(main, ["-h"]).output.partition("Commands:")
    assert heading
    assert "..." not in commands


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("instal-native-host", "Did you mean install-native-host"),
        ("docter", "Did you mean doctor?"),
        ("uninstal", "Did you mean uninstall-native-host?"),
        ("stauts", "Did you mean status?"),
        ("xyzzy", "No such command 'xyzzy'.\n"),
    ],
)
def test_a_command_that_is_misspelt_is_told_which_was_meant(typed: str, meant: str) -> None:
    done = CliRunner().invoke(main, [typed])
    assert done.exit_code == 2
    assert meant in done.output


def closing_at_start(
    redirection: str, *command: str, said: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    shell = ["sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, *command]
    return subprocess.run(shell, input=said, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_that_a_command_opens_becomes_its_stdin_stdout_or_stderr(redirection: str) -> None:
    program = (
        "import os; from bridge.cli.group import main; main(['tools', '--help'], standalone_mode=False); "
        "assert all(os.get_inheritable(fd) for fd in range(3)); os._exit(7)"
    )
    assert closing_at_start(redirection, "-c", program).returncode == 7


@pytest.mark.parametrize(("redirection", "closed"), [("<&-", b"stdin"), (">&-", b"stdout")])
def test_a_bridge_whose_stdin_or_stdout_is_closed_ends_and_says_so_once(
    redirection: str, closed: bytes, mcpb_home: Path
) -> None:
    asked = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
    done = closing_at_start(redirection, "-m", "bridge", "bridge", said=asked)
    assert done.returncode == 0
    assert done.stderr == b"mcpb bridge ends: there is no client, as its %b is closed\n" % closed
    log = mcpb_home / "state" / "mcpb.log"
    assert not log.exists() or b"jsonrpc" not in log.read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
@pytest.mark.parametrize(
    "command",
    ["--help", "audit", "call list_page_tools", "doctor", "pause", "status --watch", "tools --json"],
)
def test_a_stdout_that_takes_nothing_is_reported_in_one_line(command: str, mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok")
    done = closing_at_start(">/dev/full", "-m", "bridge", *command.split())
    assert done.returncode == 1
    assert done.stderr == b"Error: No space left on device. Free some space, then try again\n"


async def test_tools_lists_what_clients_see(shop: SimulatedBrowser) -> None:
    done = await run("tools")
    assert f"{GET_CART} [note=]\n    {mark_of('http://localhost:8123')} [tab 1" in done.output
    assert done.exit_code == 0
    listed = json.loads((await run("tools", "--json")).output)["tools"]
    assert [tool["name"] for tool in listed] == [*FIXED, GET_CART]


def test_status_shows_what_is_kept_of_a_site_and_tools_forget_removes_it(mcpb_home: Path) -> None:
    definitions = [Raw(json.dumps({"name": name, "annotations": {"cache": True}}).encode()) for name in "ab"]
    page: dict[str, Any] = {"tab_id": 1, "frame_id": 0, "document_id": "d1", "tools": definitions}
    with closing(SqliteToolStore(mcpb_home / "state")) as store:
        for origin in ("https://shop.example", "https://other.example"):
            store.record_offer("p1", 1, origin, f"{origin}/", read_tools(FrameTools(origin=origin, **page)))
        assert (
            "  website_tool_shop_example_a · https://shop.example\n"
            in CliRunner().invoke(main, ["status"]).output
        )
        done = CliRunner().invoke(main, ["tools", "--forget", "https://shop.example"])
        assert done.exit_code == 0
        assert done.output.startswith("Removed 2 cached tools of https://shop.example.\n")
        assert store.refresh()
        assert {kept.origin for kept in store.tools()} == {"https://other.example"}
    again = CliRunner().invoke(main, ["tools", "--forget", "https://shop.example"])
    assert again.output == "https://shop.example has no cached tools.\n"
    other = CliRunner().invoke(main, ["tools", "--json", "--forget", "https://other.example"])
    assert json.loads(other.output) == {"origin": "https://other.example", "removed": 2}


@pytest.mark.usefixtures("mcpb_home")
def test_tools_forget_says_how_a_site_is_written() -> None:
    done = CliRunner().invoke(main, ["tools", "--forget", "shop"])
    assert done.exit_code == 2
    assert "'shop' is no origin of web pages; write it like https://shop.example" in done.output


async def test_call_reads_values_as_json_where_the_tool_does_not_want_text(shop: SimulatedBrowser) -> None:
    done = await run(
        "call", GET_CART, "n=5", "tags=[1,2]", "word=tea", "note=7", "--args", '{"deep": {"x": 1}}'
    )
    assert json.loads(done.output) == {"deep": {"x": 1}, "n": 5, "tags": [1, 2], "word": "tea", "note": "7"}
    assert done.exit_code == 0


async def test_several_steps_in_one_call_are_one_session_and_its_tabs_are_closed_afterwards(
    shop: SimulatedBrowser,
) -> None:
    steps = [{"name": "tabs_create_mcp", "input": {}}, {"name": "tabs_context_mcp", "input": {}}]
    done = await run("call", "browser_batch", f"actions={json.dumps(steps)}", "--json")
    created, context = (step["told"] for step in json.loads(done.stdout)["structuredContent"]["results"])
    assert [tab["tabId"] for tab in context["availableTabs"]] == [created["tabId"]]
    assert [tab.state.owner for tab in shop.tabs.values()] == [None], "the user's"


async def test_call_closes_the_tabs_that_it_has_opened_unless_they_are_kept(
    shop: SimulatedBrowser, mcpb_home: Path
) -> None:
    assert (await run("call", "tabs_create")).exit_code == 0
    assert len(shop.tabs) == 1
    assert (await run("call", "tabs_create", "--keep")).exit_code == 0
    assert [tab.state.owner for tab in shop.tabs.values()] == [None, None]
    (mcpb_home / "config.toml").write_text('[browser]\nclose_tabs = "never"\n')
    assert (await run("call", "tabs_create")).exit_code == 0
    assert len(shop.tabs) == 3


async def test_keep_is_not_for_named_sessions(shop: SimulatedBrowser) -> None:
    done = await run("call", "--session", "a", "--keep", "tabs_create")
    assert (done.exit_code, "--keep cannot be combined with --session" in done.output) == (2, True)


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
    with trio.fail_after(60):
        await trio.run_process([sys.executable, "-m", "bridge", *arguments], stdout=theirs)
    assert os.read(ours, 1000).decode() == "\ufffd]0;owned\ufffd\tok\r\n\ufffd2J\r\n"
    os.close(ours)
    os.close(theirs)


async def test_call_exits_1_when_the_tool_fails(shop: SimulatedBrowser) -> None:
    done = await run("call", GET_CART, "fail=true")
    assert (done.exit_code, done.output) == (1, "Error: out of tea\n")


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (["navigate", "ulr=localhost"], 'unknown argument "ulr": did you mean "url"?'),
        (["list_page_tools", "qery=tea"], 'unknown argument "qery": did you mean "query"?'),
        (
            ["website_tool_localhost_8123_tab1_order", "itm=tea"],
            'item is missing; unknown argument "itm": did you mean "item"?',
        ),
        (["fill_form", 'fields=[{"labl":"a","value":1}]'], '"fields[0].labl": did you mean "label"?'),
    ],
)
async def test_call_names_an_unknown_argument_with_the_nearest_one(
    shop: SimulatedBrowser, call: list[str], complaint: str
) -> None:
    schema = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    with trio.fail_after(60):
        (state, *_) = shop.all_tabs().tabs
        shop.tab(state.tab_id).offer("order", get_cart, input_schema=schema)
        while "tab1_order" not in (await run("tools")).output:  # the host has not received it yet
            pass
    done = await run("call", *call)
    assert done.exit_code == 1
    assert f"{complaint} Nothing was run. Correct them and call again." in done.output


@pytest.mark.parametrize("name", [GET_CART[:-1], "getCart"])
async def test_call_of_a_name_that_nobody_offers_says_which_are_close_to_it(
    shop: SimulatedBrowser, name: str
) -> None:
    done = await run("call", name)
    assert done.exit_code == 1
    assert f"Close to it: {GET_CART}. To see what there is, run: mcpb tools" in done.output


@pytest.fixture
def chromium(mcpb_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the only browser of a machine; it does not run, and has no extension."""
    directory = mcpb_home / "config" / "chromium"
    directory.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(mcpb_home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(mcpb_home / "config"))
    return directory


async def test_call_of_a_name_when_no_browser_is_connected_names_the_cause_and_the_command(
    chromium: Path,
) -> None:
    done = await run("call", "nothing")
    assert done.exit_code == 1
    manifest = chromium / "NativeMessagingHosts/dev.mcpb.native_host.json"
    assert done.output == (
        "Error: No page offers 'nothing'. The native host of mcpb is not registered with Chromium: "
        f"{manifest} does not exist. Run: mcpb install-native-host --browser chromium\n"
    )


@pytest.mark.usefixtures("chromium")
async def test_a_misspelt_browser_tool_has_its_nearest_name_without_a_browser_too() -> None:
    done = await run("call", "navigat")
    assert "No page offers 'navigat'. Close to it: navigate. The native host of mcpb" in done.output


@pytest.mark.usefixtures("chromium")
async def test_a_browser_tool_that_is_switched_off_is_explained_by_the_setting(mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text("[browser]\nenabled = false\n")
    done = await run("call", "navigate", "url=https://shop.example")
    assert done.exit_code == 1
    assert "browser.enabled is false" in done.output


@pytest.mark.parametrize("command", ["status", "tools", "pause", "doctor"])
def test_a_command_that_reads_creates_no_home(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("MCPB_HOME", str(mcpb_home / "none"))
    monkeypatch.setenv("HOME", str(mcpb_home))
    CliRunner().invoke(main, [command])
    assert not (mcpb_home / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "bridge_input"),
    [(["status"], b""), (["call", "nothing"], b""), (["doctor"], b""), (["bridge"], LIST_PAGE_TOOLS)],
    ids=["status", "call", "doctor", "bridge"],
)
def test_a_command_in_a_message_works_where_the_shell_does_not_find_mcpb(
    mcpb_home: Path, arguments: list[str], bridge_input: bytes
) -> None:
    program = Path(sys.executable).with_name("mcpb")
    home = {"HOME": str(mcpb_home), "XDG_CONFIG_HOME": str(mcpb_home), "MCPB_HOME": str(mcpb_home)}
    done = subprocess.run(
        [program, *arguments],
        input=bridge_input,
        env={**home, "PATH": "/nonexistent"},
        capture_output=True,
        check=False,
        timeout=30,
    )
    said = (done.stdout + done.stderr).decode()
    assert re.search(rf"{program.parent}/mcpb(-bridge)? install-native-host\b(?! --help)", said)
    assert not re.search(r"(?<!/)\bmcpb (doctor|extension|install|tools|status|audit)", said)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["x"], "'x' is not KEY=VALUE"),
        (["--args", "{"], "--args is not JSON"),
        (["--args", "[]"], "--args must be a JSON object"),
        (["tabId=1", "tabId=2"], "the argument 'tabId' is given more than once"),
        (["--args", '{"url": "a"}', "url=b"], "the argument 'url' is given more than once"),
    ],
)
def test_wrong_usage_exits_2_and_says_what_is_right(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(main, ["call", "name", *arguments])
    assert done.exit_code == 2
    assert says in done.output


async def test_status_shows_browsers_tabs_tools_and_clients(shop: SimulatedBrowser) -> None:
    done = await run("status")
    assert done.output.splitlines() == [
        "Ready: Simulated browser 0, browser tools on, 1 page tool.",
        "",
        "Simulated browser 0.2.0 “Work”",
        "  http://localhost:8123 · tab 1  “Shop” • Active",
        f"    {GET_CART}",
        "  clients: none",
        "",
        "What sites offer",
        "  http://localhost:8123  1 tool",
    ]
    found = json.loads((await run("status", "--json")).output)
    assert (found["ready"], found["missing"]) == (True, "")
    assert found["browsers"][0]["tabs"][0]["tools"] == [GET_CART]


async def test_status_names_the_first_missing_connection_and_its_remedy(chromium: Path) -> None:
    """The extension in a profile, according to the files of the browser."""
    assert "is not registered with Chromium" in json.loads((await run("status", "--json")).output)["missing"]
    installed = await run("install-native-host", "--browser", "chromium", "--yes")
    assert installed.exit_code == 0, installed.output
    write_preferences(chromium, {})
    missing = json.loads((await run("status", "--json")).output)["missing"]
    assert missing.startswith("The mcpb extension is not installed in Chromium")
    assert "Run: mcpb extension" in missing
    write_preferences(chromium, {EXTENSION_ID: {"path": str(EXTENSION), "location": 4, "state": 1}})
    missing = json.loads((await run("status", "--json")).output)["missing"]
    assert missing.startswith("Chromium is not running. Start it.")


def write_preferences(chromium: Path, extensions: dict[str, Any]) -> None:
    (chromium / "Default").mkdir(exist_ok=True)
    content = json.dumps({"profile": {"name": "Ana"}, "extensions": {"settings": extensions}})
    (chromium / "Default" / "Preferences").write_text(content)


async def test_status_is_ready_without_page_tools_unless_the_browser_tools_are_off(mcpb_home: Path) -> None:
    async with SimulatedBrowser(HOST_COMMAND) as browser:
        browser.add_tab(SHOP, "Shop")
        ready = await run("status", "--check")
        (mcpb_home / "config.toml").write_text("[browser]\nenabled = false\n")
        off = await run("status", "--check")
    assert ready.exit_code == 0
    assert ready.output.startswith("Ready: Simulated browser 0, browser tools on, no page tools open.\n")
    assert off.exit_code == 1
    assert off.output.startswith("Not ready: the browser tools are switched off in config.toml")


@pytest.mark.usefixtures("mcpb_home")
async def test_status_check_fails_without_a_browser_and_without_it_the_exit_code_is_0() -> None:
    assert (await run("status")).exit_code == 0
    assert (await run("status", "--check")).exit_code == 1
    assert (await run("status", "--json", "--check")).exit_code == 1
    assert (await run("status", "--watch", "--check")).exit_code == 2


async def test_status_names_a_broken_configuration_first(shop: SimulatedBrowser, mcpb_home: Path) -> None:
    (mcpb_home / "config.toml").write_text("max_nme = 3\n")
    done = await run("status", "--check")
    assert done.exit_code == 1
    verdict = done.output.splitlines()[0]
    assert verdict.startswith("Not ready: ")
    assert "config.toml" in verdict
    assert "max_nme" in verdict
    assert (await run("status")).exit_code == 0


@pytest.mark.parametrize(("spoken", "command"), [(0, "mcpb extension"), (2, "mcpb install-native-host")])
async def test_status_and_clients_receive_both_wire_versions(
    mcpb_home: Path, spoken: int, command: str
) -> None:
    browser = SimulatedBrowser(HOST_COMMAND)
    browser.hello.wire = spoken
    versions = f"speaks wire version {spoken}, the native host 0.2.0 speaks 1"
    async with browser:
        found = json.loads((await run("status", "--json")).output)
        called = await run("call", "tabs_context")
    assert not found["ready"]
    assert versions in found["verdict"]
    assert found["verdict"].endswith(f"Run: {command}")
    assert versions in called.output
    assert command in called.output


async def test_status_watches_and_says_each_change_once(shop: SimulatedBrowser) -> None:
    """To a pipe: one line of JSON for each."""
    command = [sys.executable, "-m", "bridge", "status", "--watch", "--json"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            watching = await nursery.start(
                partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
            )
            said = lines_of(watching.stdout)
            first = await anext(said)
            shop.add_tab(SHOP, "Shop, again").offer("getCart", get_cart)
            while len((found := await anext(said))["browsers"][0]["tabs"]) < 2:
                assert found != first
            watching.send_signal(signal.SIGINT)
            await watching.wait()
            await said.aclose()
    assert [tab["title"] for tab in found["browsers"][0]["tabs"]] == ["Shop", "Shop, again"]
    assert watching.returncode == 130


async def test_status_ends_quietly_when_nobody_reads_it_any_more(shop: SimulatedBrowser) -> None:
    command = [sys.executable, "-m", "bridge", "status", "--watch", "--json"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            watching = await nursery.start(
                partial(
                    trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
                )
            )
            said = lines_of(watching.stdout)
            await anext(said)
            await said.aclose()
            await watching.stdout.aclose()
            shop.add_tab(SHOP, "Shop, again").offer("getCart", get_cart)
            assert await watching.stderr.receive_some() == b""
    assert watching.returncode == 1


async def lines_of(stream: trio.abc.ReceiveStream) -> AsyncGenerator[dict[str, Any], None]:
    begun = b""
    while data := await stream.receive_some():
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


async def test_status_on_a_terminal_redraws_and_ends_with_ctrl_c_without_a_word(
    shop: SimulatedBrowser,
) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "bridge", "status", "--watch"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            watching = await nursery.start(
                partial(trio.run_process, command, stdout=theirs, stderr=theirs, check=False)
            )
            os.close(theirs)
            seen = ""
            while "clients: none" not in seen:
                seen += (await trio.to_thread.run_sync(os.read, ours, 65536)).decode()
            shop.remove_tab(next(iter(shop.tabs.values())))
            while "no page tools open" not in seen:
                seen += (await trio.to_thread.run_sync(os.read, ours, 65536)).decode()
            watching.send_signal(signal.SIGINT)
    os.close(ours)
    assert seen.count("\x1b[2J") == 2
    assert "Traceback" not in seen
    assert watching.returncode == 130


# ── The audit log ───────────────────────────────────────────────────────────────────────────────────────────

CLAUDE = ClientInfo(name="Claude Code", version="2.1")


def log_calls(home: Path, *outcomes: str, ago_s: float = 0, **fields: Any) -> None:
    log = AuditLog(home / "state", with_arguments=False, clock=lambda: time.time() - ago_s)
    site = Site(origin="https://shop.example", tab_id=12, ordinal=1)
    for outcome in outcomes:
        session = Session("5e55", client=CLAUDE)
        log.write_record(FinishedCall(session, "website_tool_x", outcome, 0.0123, site, "getCart", **fields))
    log.write_record(ToolRegistration(site, ("getCart", "pay")))
    log.close()


def words(parameter: Any) -> str:
    return " ".join(parameter) if isinstance(parameter, list) else ""


def audit(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["audit", *arguments])


def test_audit_shows_who_called_what_where_and_what_came_of_it(mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok")
    log_calls(mcpb_home, "rate_limited", detail="calls_per_minute allows 3", handed=False)
    done = audit()
    first, second = done.output.splitlines()
    assert first[14:] == "  Claude Code  getCart  https://shop.example tab 1  ok            12 ms"
    assert second.endswith("  rate_limited  12 ms  calls_per_minute allows 3")
    assert done.exit_code == 0


def test_audit_shows_the_last_lines_and_as_many_as_asked_for(mcpb_home: Path) -> None:
    log_calls(mcpb_home, *["ok"] * 29, "cancelled")
    assert len(audit().output.splitlines()) == 20
    (last,) = audit("-n", "1").output.splitlines()
    assert "cancelled" in last


def test_audit_shows_registrations_when_asked_for(mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok")
    assert audit("--all").output.splitlines()[-1].endswith("registered         2 tools: getCart, pay")
    assert len(audit("--calls").output.splitlines()) == 1


def test_audit_gives_scripts_the_lines_as_they_are_kept(mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok", "timed_out")
    said = [json.loads(line) for line in audit("--json", "--all").output.splitlines()]
    kept = (mcpb_home / "state" / StateLayout.audit_log.name).read_text().splitlines()
    assert said == [json.loads(line) for line in kept]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--outcome", "!ok"], 1),
        (["--outcome", "timed*"], 1),
        (["--outcome", "OK"], 2),
        (["--origin", "*.example", "--client", "claude*", "--tool", "get*"], 3),
        (["--since", "1h"], 1),
        (["--since", "2h"], 3),
        (["--since", "2001-01-01"], 3),
        (["--since", "2001-01-01T10:00:00+02:00"], 3),
        (["--since", "999999999w"], 3),
    ],
    ids=words,
)
def test_audit_filters(mcpb_home: Path, arguments: list[str], count: int) -> None:
    log_calls(mcpb_home, "ok", "timed_out", ago_s=3700)
    log_calls(mcpb_home, "ok")
    assert len(audit(*arguments).output.splitlines()) == count


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--since", "yesterday"],
            "'yesterday' is no time. Write how long ago (30s, 15m, 1h, 2d, 1w) or when",
        ),
        (["--outcome", "okay"], "no call ends with 'okay'. Outcomes are ok, tool_error, cancelled"),
        (["--origin", ""], "there is nothing to look for"),
        (["--tool", "!"], "there is nothing to look for"),
        (["-n", "0"], "0 is not in the range"),
    ],
    ids=words,
)
def test_audit_refuses_filters_that_cannot_be_meant(arguments: list[str], says: str) -> None:
    done = audit(*arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


@pytest.mark.parametrize("spelling", ["tool_error", "tool-error", "!ok", "tool-*", "TOOL_ERROR"])
def test_audit_finds_tool_errors_in_both_spellings_and_shows_one(mcpb_home: Path, spelling: str) -> None:
    """Entries of earlier versions have a hyphen."""
    log_calls(mcpb_home, "ok", "tool-error", "tool_error")
    found = audit("--outcome", spelling, "--json").output.splitlines()
    assert [json.loads(line)["outcome"] for line in found] == ["tool_error", "tool_error"]


def test_audit_without_a_log_says_that_nothing_was_called_and_where_it_would_be(mcpb_home: Path) -> None:
    done = audit()
    assert done.exit_code == 0
    assert done.output == f"Nothing has been called yet. The log will be {mcpb_home}/state/audit.jsonl\n"
    assert audit("--json").stdout == ""


def test_audit_says_when_no_line_passes(mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok")
    assert audit("--tool", "other").output == "No matching entries.\n"


def test_audit_says_why_a_log_cannot_be_read(mcpb_home: Path) -> None:
    (mcpb_home / "state" / StateLayout.audit_log.name).mkdir(parents=True)
    done = audit()
    assert done.exit_code == 1
    assert f"{StateLayout.audit_log.name} cannot be read: it is not a regular file" in done.output


async def test_audit_follows_until_ctrl_c(mcpb_home: Path) -> None:
    log_calls(mcpb_home, "ok")
    command = [sys.executable, "-m", "bridge", "audit", "-f", "--json"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            following = await nursery.start(
                partial(
                    trio.run_process, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
                )
            )
            said = lines_of(following.stdout)
            assert (await anext(said))["outcome"] == "ok"
            log_calls(mcpb_home, "cancelled")
            assert (await anext(said))["outcome"] == "cancelled"
            following.send_signal(signal.SIGINT)
            assert await following.wait() == 130
            assert await following.stderr.receive_some() == b""
            await said.aclose()


async def test_status_shows_the_last_calls(shop: SimulatedBrowser, mcpb_home: Path) -> None:
    log_calls(mcpb_home, *["ok"] * 4, "timed_out", "cancelled")
    log_calls(mcpb_home, "not_allowed", kind="sampling")
    found = json.loads((await run("status", "--json")).output)
    assert [request["outcome"] for request in found["pageRequests"]] == ["not_allowed"]
    assert [call["outcome"] for call in found["calls"]] == ["ok", "ok", "ok", "timed_out", "cancelled"]
    assert "Recent calls (more: mcpb audit)" in (await run("status")).output


def test_extension_copies_the_extension_and_says_how_to_load_it(mcpb_home: Path) -> None:
    done = CliRunner().invoke(main, ["extension"])
    assert done.exit_code == 0, done.output
    assert (mcpb_home / "extension" / "manifest.json").is_file()
    assert not list((mcpb_home / "extension").glob("__*"))
    assert "Load unpacked" in done.output
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0


def test_extension_names_the_registration_as_what_is_left_only_as_long_as_it_is(
    mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = "Then run: mcpb install-native-host\n"
    assert CliRunner().invoke(main, ["extension"]).output.endswith(left)
    program = mcpb_home / "bin of Ana/mcpb-bridge"
    with monkeypatch.context() as patch:
        patch.setattr("sys.argv", [str(program)])
        by_its_path = CliRunner().invoke(main, ["extension"]).output
    assert f"Then run: '{program}' install-native-host" in by_its_path
    folder = str(mcpb_home / "profile")
    done = CliRunner().invoke(main, ["install-native-host", "--user-data-dir", folder, "--yes"])
    assert done.exit_code == 0, done.output
    assert left not in CliRunner().invoke(main, ["extension"]).output


def test_extension_replaces_an_earlier_copy_as_a_whole(mcpb_home: Path) -> None:
    copy = mcpb_home / "extension"
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0
    (copy / "of_an_older_version.js").touch()
    (mcpb_home / "state/extensions.json").unlink()  # an earlier mcpb wrote none
    assert CliRunner().invoke(main, ["extension"]).exit_code == 0
    assert not (copy / "of_an_older_version.js").exists()
    assert (copy / "content" / "content_script.js").is_file()
    assert sorted(path.name for path in mcpb_home.iterdir()) == ["extension", "state"]


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
