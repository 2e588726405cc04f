"""Commands edit `[[remote]]` in config.toml and leave every other byte as it is."""

import stat
import tomllib
from pathlib import Path

import pytest

from bridge.config.loader import ConfigError, read_config
from bridge.config.remote_settings import RemoteSettings
from bridge.config.remote_tables import add_server, remove_server
from native_host.system.private_files import draft_of

ORDERS = RemoteSettings(name="orders", url="https://orders.example/mcp", deny=("delete_*",))
NOTES = RemoteSettings(
    name="notes",
    command='/opt/"my" notes\\bin',
    args=("a\nb", "\x7f\x1b", "ünï 🙂", ""),
    env={"KEY": "x'y"},
    describe={"a.b": "A."},
)
WRITTEN = """\
# Mine.
call_timeout_s = 30.0  # slow pages

[[remote]]
# The first one.
name = "first"
url = "https://first.example/mcp"
[remote.rename]
find = "find_order"
# About the next one.

[policy]
# Not that one:
deny = ["https://bank.example"]

[[remote]]
name = 'last'
command = "npx"
args = [
  "a", # one

  "b",
]
# The end.
"""


def write(home: Path, text: str) -> Path:
    path = home / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("server", [ORDERS, NOTES], ids=["orders", "notes"])
@pytest.mark.parametrize("text", ["", "# Mine.\n", WRITTEN])
def test_an_added_server_is_read_as_it_was_and_its_removal_restores_the_file(
    tmp_path: Path, text: str, server: RemoteSettings
) -> None:
    path = write(tmp_path, text)
    before = read_config(tmp_path, {}).remote
    assert add_server(tmp_path, server) == path
    assert path.read_text().startswith(text)
    assert read_config(tmp_path, {}).remote == (*before, server)
    assert remove_server(tmp_path, server.name)
    assert path.read_text() == text


def test_the_file_is_created_for_this_user_alone(tmp_path: Path) -> None:
    home = tmp_path / "home/.mcpb"
    path = add_server(home, ORDERS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert path.read_text() == (
        '[[remote]]\nname = "orders"\nurl = "https://orders.example/mcp"\ndeny = ["delete_*"]\n'
    )


def test_a_file_that_others_could_read_is_private_afterwards(tmp_path: Path) -> None:
    path = write(tmp_path, "# Mine.")
    path.chmod(0o644)
    add_server(tmp_path, ORDERS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("# Mine.\n\n[[remote]]\n")


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("first", "# Mine.\ncall_timeout_s = 30.0  # slow pages\n\n# About the next one.\n\n[policy]\n# Not"),
        ("last", 'deny = ["https://bank.example"]\n\n# The end.\n'),
    ],
)
def test_only_the_lines_of_the_server_are_removed(tmp_path: Path, name: str, rest: str) -> None:
    path = write(tmp_path, WRITTEN)
    assert remove_server(tmp_path, name)
    assert rest in path.read_text()
    remaining = {"first", "last"} - {name}
    assert {server.name for server in read_config(tmp_path, {}).remote} == remaining
    found, before = tomllib.loads(path.read_text()), tomllib.loads(WRITTEN)
    assert (found["policy"], found["call_timeout_s"]) == (before["policy"], before["call_timeout_s"])


def test_the_first_of_two_servers_leaves_no_blank_line(tmp_path: Path) -> None:
    path = add_server(tmp_path, NOTES)
    text = path.read_text()
    assert "url" not in text
    assert remove_server(tmp_path, "notes")
    add_server(tmp_path, ORDERS)
    orders = path.read_text()
    add_server(tmp_path, NOTES)
    assert remove_server(tmp_path, "orders")
    assert path.read_text() == text
    assert orders.startswith("[[remote]]")


def test_a_server_that_is_missing_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, WRITTEN)
    assert not remove_server(tmp_path, "orders")
    assert not remove_server(tmp_path / "no home", "orders")
    assert path.read_text() == WRITTEN


@pytest.mark.parametrize(
    "text",
    [
        'remote = [{ name = "first", url = "https://first.example" }]\n',
        '[["remote"]]\nname = "first"\nurl = "https://first.example"\n',
        "[[remote]]\nname = 'first'\ncommand = 'npx'\nargs = ['''\n[policy]\n''']\n",
        "[[remote]]\nname = 'first'\ncommand = 'npx'\n[policy]\n[remote.env]\nA = 'b'\n",
        "[[policy.tools]]\ndescription = '''\n[[remote]]\n'''\n[[remote]]\nname='first'\ncommand='npx'\n",
    ],
)
def test_a_table_in_an_unusual_spelling_is_not_edited(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match="cannot remove remote first from it without changing something"):
        remove_server(tmp_path, "first")
    assert path.read_text() == text


def test_an_array_in_one_line_takes_no_further_table(tmp_path: Path) -> None:
    path = write(tmp_path, text := "remote = []\n")
    with pytest.raises(ConfigError, match="cannot add remote orders to it without changing something else"):
        add_server(tmp_path, ORDERS)
    assert path.read_text() == text


def test_a_name_that_is_taken_is_rejected(tmp_path: Path) -> None:
    add_server(tmp_path, ORDERS)
    with pytest.raises(ConfigError, match="remote orders: name: another server has this name"):
        add_server(tmp_path, ORDERS)


@pytest.mark.parametrize(
    ("text", "mode"), [("nonsense", 0o600), ("", 0o666), ("[http]\nauth_token='a'", 0o644)]
)
def test_a_file_that_is_rejected_is_not_changed(tmp_path: Path, text: str, mode: int) -> None:
    path = write(tmp_path, text)
    path.chmod(mode)
    for edit in (lambda: add_server(tmp_path, ORDERS), lambda: remove_server(tmp_path, "orders")):
        with pytest.raises(ConfigError):
            edit()
    assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_text_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="remote notes: a text is not UTF-8"):
        add_server(tmp_path, RemoteSettings(name="notes", command="npx", args=("\udcff",)))
    assert not (tmp_path / "config.toml").exists()


def test_a_link_stays_and_its_target_is_changed(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    target = write(tmp_path / "dotfiles", "# Mine.\n")
    (tmp_path / "config.toml").symlink_to(target)
    add_server(tmp_path, ORDERS)
    assert (tmp_path / "config.toml").is_symlink()
    assert "orders" in target.read_text()


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = write(tmp_path, "# Mine.\n")
    draft_of(path).mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        add_server(tmp_path, ORDERS)
    assert path.read_text() == "# Mine.\n"
