"""Pausing from the command line: who or what is meant, and what each browser says to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from click.testing import CliRunner, Result

from bridge.cli.group import main
from bridge.hub.registry import Browser
from bridge.hub.rules.pauses import Pauses
from bridge.state.pause_control import Target, TargetError, TargetSyntaxError, find_target
from fake_host import PlayedHost
from fake_transport import tab
from native_host.protocol import jsonrpc, wire
from native_host.protocol.wire import Code, Wire

BANK = "https://bank.example"
NO_TABS = "No open tab is affected.\n"


def session(id_: str, title: str, name: str = "") -> wire.Session:
    return wire.Session(id=id_, title=title, client=wire.ClientInfo(name=name))


CLAUDE = session("5e551011", "Claude Code", "claude-code")
CURSOR = session("c0c0c0c0", "Cursor")
CURSOR_TOO = session("c0c0dddd", "Cursor")


def clients(*sessions: wire.Session) -> wire.HostClients:
    client = wire.Client(connection="c-1", pid=4711, version="0.2.0", sessions=list(sessions))
    return wire.HostClients(clients=[client])


def browser_with(*sessions: wire.Session) -> Browser:
    return Browser("h1", 1.0, clients=clients(*sessions).clients)


# ── Who is meant ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "site"),
    [
        ("https://bank.example", BANK),
        (" https://bank.example/ ", BANK),
        ("bank.example", "bank.example"),
        ("*.bank.example", "*.bank.example"),
        ("https://*.bank.example", "https://*.bank.example"),
        ("http://bank.example", "http://bank.example"),
        ("http://bank.example:80", "http://bank.example"),
        ("https://Bank.Example:443", BANK),
        ("https://intranet", "https://intranet"),
        ("intranet/", "intranet"),
        ("*.com", "*.com"),
        ("127.1", "127.0.0.1"),
        ("192.168.0.7", "192.168.0.7"),
        ("localhost", "localhost"),
        ("[::1]", "[::1]"),
        ("evil.example.", "evil.example"),
        ("https://münchen.example", "https://xn--mnchen-3ya.example"),
        ("https://bank.example@evil.example", "https://evil.example"),
        ("https://evil.example.", "https://evil.example"),
    ],
)
def test_a_site_is_a_host_or_an_origin_as_browsers_write_it(text: str, site: str) -> None:
    assert find_target(text, [browser_with(CLAUDE)]) == Target(site=site)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("https://bank.example/login?next=/#top", BANK),
        ("https://bank.example/#/inbox", BANK),
        ("bank.example?q", "bank.example"),
        ("bank.example:8443", "http://bank.example:8443 or https://bank.example:8443"),
        ("localhost:3000", "http://localhost:3000 or https://localhost:3000"),
        ("[0::1]:80", "http://[::1] or https://[::1]:80"),
        ("shop.test:80", "http://shop.test or https://shop.test:80"),
    ],
)
def test_a_site_with_a_path_or_without_the_scheme_of_its_port_is_refused_with_its_spelling(
    text: str, spelled: str
) -> None:
    with pytest.raises(TargetSyntaxError) as refused:
        find_target(text, [browser_with(CLAUDE)])
    assert str(refused.value).endswith(f": write {spelled}.")


@pytest.mark.parametrize(
    "text", ["ftp://bank.example", "https://", "https://[", "bank.example:x", "https://a..b", "*"]
)
def test_what_is_written_like_a_site_and_is_none_is_wrong_syntax(text: str) -> None:
    with pytest.raises(TargetSyntaxError, match="and it is no site: "):
        find_target(text, [browser_with(CLAUDE)])


@pytest.mark.parametrize("text", ["bank", "5e5", "Claude Desktop"])
def test_a_word_that_names_no_client_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(TargetError, match="a host without a dot as intranet/") as refused:
        find_target(text, [browser_with(CLAUDE)])
    assert not isinstance(refused.value, TargetSyntaxError)


@pytest.mark.parametrize(("text", "code"), [("", 2), (" ", 2), ("bank.example:8443", 2), ("nosuch", 1)])
async def test_a_wrong_command_line_exits_with_2_and_an_unknown_name_with_1(
    mcpb_home: Path, text: str, code: int
) -> None:
    done = await mcpb_pause(text)
    assert done.exit_code == code
    assert not (mcpb_home / "state/pauses.json").exists()


@pytest.mark.parametrize("text", ["https://straße.example", "straße.example"])
def test_no_other_site_is_paused_than_the_browser_has(text: str) -> None:
    """By the rules of 2003 it would be strasse.example, which is somebody else's."""
    with pytest.raises(TargetError, match=r"it is no site: copy .* from the browser's address bar.*xn--"):
        find_target(text, [browser_with(CLAUDE)])


@pytest.mark.parametrize("text", ["1234567", "12345678"])
def test_the_digits_of_a_session_are_no_address(text: str) -> None:
    assert find_target(text, [browser_with(session("12345678", "Cursor"))]).session == "12345678"


@pytest.mark.parametrize("text", ["Claude Code", "claude code", "claude-code", "5e551011", "5e55"])
def test_a_client_is_named_by_title_name_or_the_beginning_of_its_session(text: str) -> None:
    found = find_target(text, [browser_with(CLAUDE, CURSOR)])
    assert found == Target(session=CLAUDE.id)
    assert str(found) == "Claude Code (session 5e551011)"


def test_a_client_of_several_browsers_is_one() -> None:
    assert find_target("Cursor", [browser_with(CURSOR), browser_with(CURSOR)]).session == CURSOR.id


@pytest.mark.parametrize("text", ["Cursor", "c0c0"])
def test_an_ambiguous_name_lists_the_choices(text: str) -> None:
    with pytest.raises(TargetError) as refusal:
        find_target(text, [browser_with(CLAUDE, CURSOR, CURSOR_TOO)])
    assert "Cursor (session c0c0c0c0) is c0c0c0c0, Cursor (session c0c0dddd) is c0c0dddd" in str(
        refusal.value
    )
    assert "Claude" not in str(refusal.value)


def test_a_client_that_calls_itself_like_a_site_does_not_shadow_it() -> None:
    browsers = [browser_with(session("bad0bad0", "bank.example"))]
    with pytest.raises(TargetError, match=r"bank\.example is bank\.example"):
        find_target("bank.example", browsers)
    assert find_target(BANK, browsers) == Target(site=BANK)


def test_a_paused_client_that_has_gone_can_be_named_by_its_session() -> None:
    pauses = Pauses([wire.PauseChange(session="0123456789", paused=True, at=1)])
    assert find_target("01234567", [], pauses) == Target(session="0123456789")


# ── What browsers say ───────────────────────────────────────────────────────────────────────────────────────

Answer = Callable[[dict[str, Any]], bytes]


def yes(request: dict[str, Any]) -> bytes:
    return jsonrpc.result(msgspec.json.encode(request["id"]), b"{}")


def no(code: Code, text: str) -> Answer:
    return lambda request: jsonrpc.failure(msgspec.json.encode(request["id"]), code, text, handed=False)


@asynccontextmanager
async def browser(
    home: Path, profile: str, answer: Answer = yes, *announcements: Wire, browser_pid: int = 100
) -> AsyncIterator[list[dict[str, Any]]]:
    """A host whose browser answers so; the params of what it was asked."""
    asked: list[dict[str, Any]] = []
    async with PlayedHost.in_directory(home / "run", browser_pid) as host, trio.open_nursery() as nursery:

        async def play() -> None:
            await host.welcome(profile=profile)
            await host.announce(*(announcements or [clients()]))
            while True:
                try:
                    request = await host.heard("browser/pause")
                except (EOFError, trio.BrokenResourceError):
                    return
                asked.append(request["params"])
                await host.say_raw(answer(request))

        nursery.start_soon(play)
        yield asked
        nursery.cancel_scope.cancel()


async def mcpb_pause(*arguments: str) -> Result:
    """The command in a thread: it runs an event loop of its own."""
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(lambda: CliRunner().invoke(main, ["pause", *arguments]))


def stored(home: Path) -> list[dict[str, Any]]:
    """The changes in pauses.json, without their times."""
    changes = json.loads((home / "state/pauses.json").read_text())["changes"]
    return [{name: value for name, value in change.items() if name != "at"} for change in changes]


def let_any_program_resume(home: Path) -> None:
    (home / "config.toml").write_text('[browser]\nresume = "any"\n')


def break_pauses_file(home: Path) -> None:
    (home / "state").mkdir(mode=0o700)
    (home / "state/pauses.json").write_text("{")


def told(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a browser was asked, without the times."""
    assert all(params["at"] > 0 for params in asked)
    return [{name: value for name, value in params.items() if name != "at"} for params in asked]


async def test_a_site_is_paused_in_every_browser_and_stored(mcpb_home: Path) -> None:
    async with browser(mcpb_home, "p1") as one, browser(mcpb_home, "p2", browser_pid=200) as two:
        done = await mcpb_pause(BANK)
    assert done.output == f"Chromium 156: {BANK} is paused.\n" * 2 + NO_TABS
    assert done.exit_code == 0
    assert told(one) == told(two) == [{"site": BANK, "paused": True}]
    assert stored(mcpb_home) == [{"site": BANK, "paused": True}]


async def test_the_open_tabs_that_a_pause_affects_are_listed(mcpb_home: Path) -> None:
    tabs = wire.Tabs(
        tabs=[
            tab(1, "http://localhost:3000", title="Shop"),
            tab(2, "http://localhost:4000", ordinal=2, title="Docs"),
            tab(3, BANK),
            tab(4, "http://localhost:5000", incognito=True),
        ]
    )
    async with browser(mcpb_home, "p1", yes, tabs, clients()) as asked:
        done = await mcpb_pause("localhost")
    assert told(asked) == [{"site": "localhost", "paused": True}]
    assert done.output.splitlines() == [
        "Chromium 156: localhost is paused.",
        "Open tabs that it affects:",
        "  Chromium 156: http://localhost:3000 · tab 1 “Shop”",
        "  Chromium 156: http://localhost:4000 · tab 2 “Docs”",
    ]


async def test_clients_that_a_host_names_after_its_replay_are_waited_for(mcpb_home: Path) -> None:
    """As a host does: it names who is connected once it knows us too."""
    async with PlayedHost.in_directory(mcpb_home / "run") as host, trio.open_nursery() as nursery:
        nursery.start_soon(mcpb_pause, "Claude Code")
        with trio.fail_after(30):
            await host.welcome()
            await host.heard("bridge/sessions")
            await host.announce(clients(CLAUDE))
            request = await host.heard("browser/pause")
            await host.say_raw(yes(request))
    assert told([request["params"]]) == [{"session": CLAUDE.id, "paused": True}]


async def test_a_client_is_resumed_by_its_title(mcpb_home: Path) -> None:
    let_any_program_resume(mcpb_home)
    paused = wire.Paused(sessions=[CLAUDE.id])
    async with browser(mcpb_home, "p1", yes, paused, clients(CLAUDE, CURSOR)) as asked:
        done = await mcpb_pause("Claude Code", "--resume")
    assert done.output == "Chromium 156: Claude Code (session 5e551011) is resumed.\n"
    assert told(asked) == [{"session": CLAUDE.id, "paused": False}]


@pytest.mark.parametrize(
    ("paused", "listed"),
    [([], "Nothing is paused."), ([BANK], f"Paused: {BANK}.")],
    ids=["nothing", "a site"],
)
async def test_resuming_what_is_not_paused_lists_what_is(
    mcpb_home: Path, paused: list[str], listed: str
) -> None:
    let_any_program_resume(mcpb_home)
    async with browser(mcpb_home, "p1", yes, wire.Paused(sites=paused), clients()) as asked:
        done = await mcpb_pause("shop.example", "--resume")
    assert done.exit_code == 1
    assert done.output == f"Error: shop.example is not paused. {listed}\n"
    assert asked == []


async def test_without_a_terminal_nothing_is_resumed(mcpb_home: Path) -> None:
    async with browser(mcpb_home, "p1", yes, wire.Paused(sites=[BANK]), clients()) as asked:
        done = await mcpb_pause(BANK, "--resume")
    assert done.exit_code == 1
    assert "is not a terminal" in done.output
    assert asked == []


async def test_a_browser_that_rejects_is_named_and_the_others_are_paused(mcpb_home: Path) -> None:
    rejects = no(Code.INVALID_PARAMS, "that is no site")
    async with browser(mcpb_home, "p1"), browser(mcpb_home, "p2", rejects, browser_pid=200):
        done = await mcpb_pause(BANK)
    assert done.exit_code == 1
    assert done.stdout == f"Chromium 156: {BANK} is paused.\n{NO_TABS}"
    assert done.stderr == f"Chromium 156: {BANK} is not paused: that is no site\n"


async def test_an_old_extension_is_told_apart_and_what_to_run_is_said(mcpb_home: Path) -> None:
    async with browser(mcpb_home, "p1", no(Code.METHOD_NOT_FOUND, "unknown")):
        done = await mcpb_pause(BANK)
    assert done.exit_code == 1
    assert "is not paused: its extension is too old for that. Run: mcpb extension" in done.output


async def test_a_browser_that_goes_away_instead_of_answering_is_named(mcpb_home: Path) -> None:
    async with PlayedHost.in_directory(mcpb_home / "run") as host, trio.open_nursery() as nursery:

        async def play() -> None:
            await host.welcome(clients())
            await host.heard("browser/pause")
            await host.stream.aclose()

        nursery.start_soon(play)
        done = await mcpb_pause(BANK)
    assert done.exit_code == 1
    assert f"Chromium 156: {BANK} is not paused: it went away\n" in done.output


async def test_without_a_browser_a_pause_is_stored_for_those_that_connect(mcpb_home: Path) -> None:
    done = await mcpb_pause(BANK)
    assert done.exit_code == 0
    assert (
        done.output == f"{BANK} is paused. No browser is connected now; it applies as soon as one connects.\n"
    )
    assert stored(mcpb_home) == [{"site": BANK, "paused": True}]
    assert (await mcpb_pause()).output == f"{BANK}\n"


async def test_a_file_of_pauses_that_cannot_be_read_is_reported_and_browsers_are_paused(
    mcpb_home: Path,
) -> None:
    break_pauses_file(mcpb_home)
    async with browser(mcpb_home, "p1") as asked:
        done = await mcpb_pause(BANK)
    assert done.exit_code == 1
    assert done.stdout == f"Chromium 156: {BANK} is paused.\n{NO_TABS}"
    assert done.stderr.startswith(f"{BANK} is not paused in browsers that connect later: ")
    assert "pauses.json cannot be read" in done.stderr
    assert told(asked) == [{"site": BANK, "paused": True}]


@pytest.mark.parametrize("arguments", [[BANK], [BANK, "--json"]], ids=["text", "json"])
async def test_without_a_browser_a_pause_that_is_not_stored_is_not_claimed(
    mcpb_home: Path, arguments: list[str]
) -> None:
    break_pauses_file(mcpb_home)
    done = await mcpb_pause(*arguments)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{BANK} is not paused: ")
    if len(arguments) == 1:
        assert done.stdout == ""
    else:
        found = json.loads(done.stdout)
        assert (found["paused"], "cannot be read" in found["problem"]) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [([], ""), (["--json"], '"paused": []'), ([BANK, "--resume"], "")],
    ids=["text", "json", "resume"],
)
async def test_a_file_that_cannot_be_read_does_not_mean_that_nothing_is_paused(
    mcpb_home: Path, arguments: list[str], shown: str
) -> None:
    let_any_program_resume(mcpb_home)
    break_pauses_file(mcpb_home)
    done = await mcpb_pause(*arguments)
    assert done.exit_code == 1
    assert shown in done.stdout
    assert "Nothing is paused" not in done.output
    assert "pauses.json cannot be read" in done.stderr


async def test_a_name_that_nobody_has_is_rejected_before_anything_is_sent(mcpb_home: Path) -> None:
    async with browser(mcpb_home, "p1", yes, clients(CLAUDE)) as asked:
        done = await mcpb_pause("Cursor")
    assert done.exit_code == 1
    assert "No client is called 'Cursor'" in done.output
    assert asked == []


async def test_without_a_target_it_lists_what_is_paused(mcpb_home: Path) -> None:
    paused = wire.Paused(sites=[BANK], sessions=[CLAUDE.id, "0123456789"])
    async with browser(mcpb_home, "p1", yes, paused, clients(CLAUDE)):
        done = await mcpb_pause()
    assert done.output.splitlines() == [BANK, "a client (session 01234567)", "Claude Code (session 5e551011)"]


async def test_json_lists_the_browsers_of_a_pause_with_their_tabs_and_errors(mcpb_home: Path) -> None:
    tabs = wire.Tabs(tabs=[tab(1, "http://localhost:3000", title="Shop"), tab(2, BANK, ordinal=1)])
    rejects = no(Code.INVALID_PARAMS, "that is no site")
    async with (
        browser(mcpb_home, "p1", yes, tabs, clients()),
        browser(mcpb_home, "p2", rejects, browser_pid=200),
    ):
        done = await mcpb_pause("localhost", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {
        "target": {"site": "localhost", "session": "", "title": ""},
        "paused": True,
        "browsers": [
            {
                "browser": "Chromium 156",
                "error": "",
                "tabs": [{"origin": "http://localhost:3000", "tab": 1, "title": "Shop"}],
            },
            {"browser": "Chromium 156", "error": "that is no site", "tabs": []},
        ],
        "problem": "",
    }


async def test_json_lists_what_is_paused(mcpb_home: Path) -> None:
    paused = wire.Paused(sites=[BANK], sessions=[CLAUDE.id])
    async with browser(mcpb_home, "p1", yes, paused, clients(CLAUDE)):
        done = await mcpb_pause("--json")
    assert json.loads(done.stdout) == {
        "paused": [
            {"site": BANK, "session": "", "title": ""},
            {"site": "", "session": CLAUDE.id, "title": "Claude Code"},
        ],
        "problem": "",
    }


async def test_nothing_paused_is_said(mcpb_home: Path) -> None:
    async with browser(mcpb_home, "p1"):
        assert (await mcpb_pause()).output == "Nothing is paused.\n"


def test_resuming_nothing_in_particular_is_wrong_usage() -> None:
    done = CliRunner().invoke(main, ["pause", "--resume"])
    assert done.exit_code == 2
    assert "Name what to resume; `mcpb pause` lists what is paused." in done.output
