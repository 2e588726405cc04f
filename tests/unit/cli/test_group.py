"""The `mcpb` command: checks before a command runs, and the arguments of `mcpb allow`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bridge.cli.group import main
from bridge.state.site_approvals import WORDS, Approvals

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")


@pytest.fixture
def foreign(mcpb_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME, a directory of another user."""
    home = tmp_path / "foreign"
    home.mkdir()
    os.chown(home, 65534, 65534)
    monkeypatch.setenv("HOME", str(home))
    return home


@needs_root
def test_a_command_that_reads_ignores_the_home_of_another_user_and_warns_once(
    foreign: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = CliRunner().invoke(main, ["audit"])
    assert ended.exit_code == 0
    (warning,) = caplog.records
    assert (warning.levelname, warning.args and str(foreign) in map(str, warning.args)) == ("WARNING", True)


@needs_root
@pytest.mark.parametrize(
    "arguments", [["install-native-host", "--yes"], ["uninstall-native-host", "--yes"], ["doctor", "--fix"]]
)
def test_a_command_that_writes_rejects_the_home_of_another_user(foreign: Path, arguments: list[str]) -> None:
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == 1
    assert str(foreign) in ended.output
    assert list(foreign.iterdir()) == []


@pytest.mark.parametrize("command", ["read", "prompt"])
def test_the_help_says_which_tabs_a_command_without_a_session_uses(command: str) -> None:
    text = " ".join(CliRunner().invoke(main, [command, "--help"]).output.split())
    assert "Without --session, the browser's tabs are those that you have handed over to clients." in text


def test_the_help_of_bridge_begins_with_its_transports() -> None:
    _, first, *_ = filter(None, CliRunner().invoke(main, ["bridge", "--help"]).output.splitlines())
    assert first == "  Serve one MCP client on stdin and stdout, or by --transport."


# ── `mcpb allow` ────────────────────────────────────────────────────────────────────────────────────────────


SHOP = "https://shop.example"


def allow(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["allow", *arguments])


def test_grants_are_listed_and_count_for_bridges(mcpb_home: Path) -> None:
    assert allow().output == "No site is approved.\n"
    assert allow("https://Shop.example:443/cart", "act", "page-tools").exit_code == 0
    assert allow("https://tea.example", "read", "--client", "Claude Code", "--for", "1h").exit_code == 0
    approvals = Approvals(mcpb_home / "state")
    assert approvals.has(SHOP, "page-tools", "Any")
    assert not approvals.has("https://tea.example", "read", "Any")
    assert approvals.has("https://tea.example", "read", "Claude Code")
    first, second = json.loads(allow("--json").output)["approvals"]
    assert (first["origin"], first["for"], first["until"]) == (SHOP, ["act", "page-tools"], "")
    assert (second["client"], bool(second["until"])) == ("Claude Code", True)
    assert allow(SHOP).output == f"{SHOP}  act, page-tools  for every client\n"


def test_revoking_a_word_leaves_the_others(mcpb_home: Path) -> None:
    allow(SHOP, "act", "page-tools")
    assert allow(SHOP, "act", "--revoke").exit_code == 0
    approvals = Approvals(mcpb_home / "state")
    assert not approvals.has(SHOP, "act", "Any")
    assert approvals.has(SHOP, "page-tools", "Any")
    assert allow(SHOP, "--revoke").exit_code == 0
    assert approvals.read_all() == []
    nothing = allow(SHOP, "--revoke")
    assert nothing.exit_code == 1
    assert "Approved: nothing." in nothing.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            (SHOP, "acts"),
            "Did you mean act? Words are read, act, page-tools, upload, sampling, roots, tools:NAME.",
        ),
        (("shop.example", "act"), "is not a site"),
        (("--revoke",), "--revoke needs an ORIGIN"),
        ((SHOP, "act", "--for", "soon"), "is not a duration"),
        ((SHOP, "act", "--for", "1h", "--revoke"), "--revoke cannot be combined with --for"),
    ],
)
def test_mistakes_are_named_and_nothing_is_stored(
    mcpb_home: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = allow(*arguments)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split()).replace("│ ", "")
    assert not (mcpb_home / "state/approvals.json").exists()


def test_the_help_has_a_line_for_each_word() -> None:
    lines = [line.split() for line in allow("--help").output.splitlines()]
    assert [line[0] for line in lines if line and line[0] in WORDS] == list(WORDS)


def test_a_broken_file_is_named(mcpb_home: Path) -> None:
    (mcpb_home / "state").mkdir(mode=0o700, parents=True, exist_ok=True)
    (mcpb_home / "state/approvals.json").write_text("[]")
    done = allow()
    assert done.exit_code == 1
    assert "it is not an object" in done.output


def test_a_remote_server_is_approved_by_its_name(mcpb_home: Path) -> None:
    assert allow("remote:orders", "sampling").exit_code == 0
    assert Approvals(mcpb_home / "state").has("remote:orders", "sampling", "any client")
    assert "remote:orders  sampling" in allow().output
    assert allow("remote:orders", "--revoke").exit_code == 0
    assert allow("remote:Orders_2", "sampling").exit_code == 2


# ── Tools of a remote server for pages ──────────────────────────────────────────────────────────────────────


def write_server(home: Path) -> None:
    (home / "config.toml").write_text("[[remote]]\nname = 'orders'\nurl = 'https://orders.example/mcp'\n")


def test_a_site_is_approved_for_the_tools_of_a_server(mcpb_home: Path) -> None:
    write_server(mcpb_home)
    granted = allow(SHOP, "tools:orders", "--for", "1h")
    assert granted.exit_code == 0
    assert granted.output.startswith(f"Approved {SHOP} for tools:orders, to its pages.\n")
    assert Approvals(mcpb_home / "state").has(SHOP, "tools:orders", "")
    assert f"{SHOP}  tools:orders  for its pages, until " in allow().output
    assert allow(SHOP, "tools:orders", "--revoke").exit_code == 0
    assert Approvals(mcpb_home / "state").read_all() == []


def test_an_approval_for_tools_that_could_never_apply_is_rejected(mcpb_home: Path) -> None:
    write_server(mcpb_home)
    for arguments, says in (
        ((SHOP, "tools:notes"), "No remote server is called notes"),
        ((SHOP, "tools:"), "cannot be approved"),
        ((SHOP, "tools:Orders"), "cannot be approved"),
        ((SHOP, "tools:orders", "--client", "Agent"), "--client"),
        (("remote:orders", "tools:orders"), "is for pages"),
    ):
        done = allow(*arguments)
        assert done.exit_code == 2
        assert says in " ".join(done.output.split()).replace("│ ", "")
    assert not (mcpb_home / "state/approvals.json").exists()
