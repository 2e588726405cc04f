"""Rules of `[[remote]]` in config.toml; no message contains a secret."""

from pathlib import Path

import pytest

from bridge.config.loader import ConfigError, check_content, read_config, rules_digest
from bridge.config.remote_settings import (
    MAX_SERVERS,
    RemoteRoot,
    RemoteSettings,
    check_headers,
    is_bearer_token,
)

CANARY = "canary-5f0c1d"
URL = "url = 'https://orders.example/mcp'"


def write(home: Path, text: str, mode: int = 0o600) -> Path:
    path = home / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def entry(*lines: str, name: str = "orders") -> str:
    return "\n".join(["[[remote]]", f"name = '{name}'", *lines, ""])


def rejection(home: Path, text: str) -> str:
    """Reason of the rejection, without the path."""
    path = write(home, text)
    with pytest.raises(ConfigError) as rejected:
        read_config(home, {})
    message = str(rejected.value)
    assert "\n" not in message
    assert CANARY not in message
    return message.removeprefix(f"{path}: ")


def test_every_key_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [[remote]]
        name = "orders"
        url = "https://orders.example:8443/mcp?tenant=7"
        bearer_file = "/home/ann/token"
        headers = { X-Team = "a b" }
        header_command = ["print-headers", "--json"]
        prefix = "shop_"
        pages = ["https://app.example", "http://localhost:3000"]
        offer = "all"
        watch = false
        timeout_s = 5
        allow = ["find_*"]
        deny = ["find_all"]
        roots = [{ uri = "file:///home/ann", name = "home" }]
        [remote.rename]
        "find.order" = "find_order"
        [remote.describe]
        find_order = "Finds an order."

        [[remote]]
        name = "notes"
        command = "npx"
        args = ["-y", "notes"]
        env = { NOTES = "/home/ann" }
        enabled = false
        """,
    )
    orders, notes = read_config(tmp_path, {}).remote
    assert orders == RemoteSettings(
        name="orders",
        url="https://orders.example:8443/mcp?tenant=7",
        bearer_file="/home/ann/token",
        headers={"X-Team": "a b"},
        header_command=("print-headers", "--json"),
        prefix="shop_",
        pages=("https://app.example", "http://localhost:3000"),
        offer="all",
        watch=False,
        timeout_s=5,
        allow=("find_*",),
        deny=("find_all",),
        rename={"find.order": "find_order"},
        describe={"find_order": "Finds an order."},
        roots=(RemoteRoot("file:///home/ann", "home"),),
    )
    assert notes == RemoteSettings(
        name="notes", command="npx", args=("-y", "notes"), env={"NOTES": "/home/ann"}, enabled=False
    )
    assert (orders.address, notes.address) == ("https://orders.example:8443/mcp", "npx")


@pytest.mark.parametrize(
    "url",
    [
        "https://orders.example",
        "https://orders.example/",
        "https://orders.example:8443/a/b;c?d=e&f=%20",
        "http://localhost:3001/mcp",
        "http://127.0.0.2:3001/mcp",
        "http://[::1]:3001/mcp",
        "https://[2001:db8::1]/mcp",
        "https://xn--mnchen-3ya.example/mcp",
    ],
)
def test_an_absolute_url_is_accepted(url: str) -> None:
    assert RemoteSettings(name="orders", url=url).url == url


def test_http_to_another_machine_needs_insecure(tmp_path: Path) -> None:
    lines = "url = 'http://orders.example/mcp'", "insecure = true"
    assert "remote orders: url: http: to orders.example is not encrypted" in rejection(
        tmp_path, entry(lines[0])
    )
    write(tmp_path, entry(*lines))
    assert read_config(tmp_path, {}).remote[0].insecure


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["url = '/mcp'"], 'remote orders: url: "/mcp" is relative, and a bridge has no page'),
        (["url = 'mcp?key=canary-5f0c1d'"], 'url: "mcp" is relative'),
        (["url = '//orders.example/mcp'"], 'url: "//orders.example/mcp" is relative'),
        (["url = 'localhost:3001/mcp'"], 'url: "localhost:3001/mcp" is relative'),
        (["url = 'file:///etc/passwd'"], "url: file: is neither https: nor http:"),
        (["url = 'wss://orders.example'"], "url: wss: is neither"),
        (["url = 'https://ann:canary-5f0c1d@orders.example/mcp'"], "url: has a user name or password"),
        (["url = 'https:\\\\ann:canary-5f0c1d@orders.example/mcp'"], "url: has a user name or password"),
        (["url = '//ann:canary-5f0c1d@orders.example/mcp'"], "url: has a user name or password"),
        (["url = 'canary-5f0c1d@orders.example'"], "url: has a user name or password"),
        (["url = 'https://canary-5f0c1d@orders.example'"], "url: has a user name or password"),
        (["url = 'https://orders.example/mcp#top'"], "url: has a fragment"),
        (["url = 'http://0.0.0.0:3001/mcp'"], "url: http: to 0.0.0.0 is not"),
        (["url = 'http://127.0.0.1.orders.example/'"], "leads to another machine"),
        (["url = 'http://localhost.orders.example/'"], "leads to another machine"),
        (["url = 'http://127.1/'"], 'url: "http://127.1/" is no URL'),
        (["url = 'http://[::1'"], "is no URL"),
        (["url = 'https://orders.example:0/'"], "is no URL"),
        (["url = 'https://orders.example:70000/'"], "is no URL"),
        (["url = 'https://orders example/'"], "is no URL"),
        (["url = 'https://orders.example\\evil.example/'"], "is no URL"),
        ([r'url = "https://orders.example/\nX: y"'], "is no URL"),
        (["url = 'https:///mcp'"], "is no URL"),
        (["url = 'https://münchen.example/'"], "is no URL: write it in ASCII"),
        ([], "remote orders: name: a server has exactly one of url and command"),
        ([URL, "command = 'npx'"], "remote orders: url: a server has exactly one of url and command"),
        ([URL, "args = ['x']"], "remote orders: args: is for a server with command"),
        ([URL, "env = { A = 'canary-5f0c1d' }"], "remote orders: env: is for a server with command"),
        (["command = 'npx'", "headers = { A = 'canary-5f0c1d' }"], "headers: is for a server with url"),
        (["command = 'npx'", "insecure = true"], "insecure: is for a server with url"),
        (["command = 'npx'", "env = { 'A=B' = 'canary-5f0c1d' }"], "env: a name of a variable consists of"),
        (["command = 'npx'", r'env = { A = "canary-5f0c1d\u0000" }'], "env: has a null character"),
        ([URL, "headers = { 'X Y' = 'canary-5f0c1d' }"], "headers: X Y is no name of a header"),
        ([URL, r'headers = { "X\r\nY" = "canary-5f0c1d" }'], "headers: X Y is no"),
        ([URL, r'headers = { X = "canary-5f0c1d\r\nY: z" }'], "headers: the value of X is not one line"),
        ([URL, "headers = { X = ' canary-5f0c1d' }"], "headers: the value of X is not one line"),
        ([URL, "headers = { X = 'canary-5f0c1d é' }"], "headers: the value of X is not one line"),
        ([URL, "headers = { X = '' }"], "headers: the value of X is not one line"),
        ([URL, "headers = { X = 271828 }"], "remote orders: headers[...] = …: expected str, got int"),
        ([URL, "headers = 'canary-5f0c1d'"], "remote orders: headers = …: expected table, got str"),
        ([URL, "headers = { host = 'canary-5f0c1d' }"], "headers: host is a header that the connection"),
        ([URL, "headers = { A = 'canary-5f0c1d', a = 'canary-5f0c1d' }"], "headers: a is there twice"),
        ([URL, "bearer_env = 'canary-5f0c1d'"], "bearer_env: is the name of an environment variable"),
        ([URL, "bearer_file = 'token'"], "bearer_file: is not an absolute path"),
        ([URL, "bearer_file = '/a'", "bearer_env = 'A'"], "bearer_file: cannot be combined with bearer_env"),
        ([URL, "bearer = 'canary-5f0c1d'"], "there is no key bearer in remote orders; did you mean bearer_"),
        ([URL, "header_command = 'canary-5f0c1d'"], "header_command = …: expected array, got str"),
        ([URL, "header_command = ['']"], "header_command[0] = …: expected str of length >= 1"),
        ([URL, "timeout_s = 0"], "remote orders: timeout_s = 0: expected float > 0"),
        ([URL, "timeout_s = 4000"], "remote orders: timeout_s = 4000: expected float <= 3600"),
        ([URL, "watch = 'no'"], "remote orders: watch = 'no': write true or false"),
        ([URL, "prefix = 'a b'"], "remote orders: prefix: at most 64 letters"),
        ([URL, "rename = { a = 'b c' }"], 'remote orders: rename: "b c" is no name of a tool'),
        ([URL, "roots = [{ uri = '/home/ann' }]"], "remote orders: roots[0].uri: a root is a URI"),
        ([URL, "roots = [{ uri = 'file:///a', x = 1 }]"], "remote orders: roots[0] = …: there is no key x"),
        (
            [URL, r'roots = [{ uri = "file:///a", name = "a\nb" }]'],
            "remote orders: roots[0].name: has a line",
        ),
    ],
)
def test_an_entry_that_cannot_be_used_is_rejected_by_server_and_key(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    assert reason in rejection(tmp_path, entry(*lines))


@pytest.mark.parametrize("name", ["", "Orders", "my_orders", "a b", "x" * 33, "é"])
def test_a_name_that_a_tool_s_name_cannot_contain_is_rejected(tmp_path: Path, name: str) -> None:
    assert "remote[0].name: " in rejection(tmp_path, entry(URL, name=name))


def test_an_entry_without_a_name_is_rejected(tmp_path: Path) -> None:
    assert rejection(tmp_path, f"[[remote]]\n{URL}").startswith("remote[0]: name is missing")


@pytest.mark.parametrize(
    "text", ["remote = 'canary-5f0c1d'", "[remote]\nurl = 'canary-5f0c1d'", "remote = ['canary-5f0c1d']"]
)
def test_another_type_than_an_array_of_tables_is_rejected_without_its_value(
    tmp_path: Path, text: str
) -> None:
    assert rejection(tmp_path, text).startswith("remote")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (entry(URL) + entry("url = '/mcp'", name="b"), 6),
        (entry(URL) + entry(URL), 5),
        (entry(URL) + "[remote.headers]\nA = 3\n", 4),
        (entry(URL, "header = 3"), 4),
        (entry(URL) + entry("timeout_s = 0", URL, name="b"), 6),
    ],
)
def test_the_line_of_an_error_is_named(tmp_path: Path, text: str, line: int) -> None:
    assert rejection(tmp_path, text).endswith(f"(at line {line})")


def test_one_name_for_two_servers_is_rejected(tmp_path: Path) -> None:
    text = rejection(tmp_path, entry(URL) + entry("command = 'npx'", "enabled = false"))
    assert "remote orders: name: another server has this name: rename or remove one of them" in text


def test_more_servers_than_the_limit_are_rejected(tmp_path: Path) -> None:
    names = [f"server-{number}" for number in range(MAX_SERVERS + 1)]
    write(tmp_path, "".join(entry(URL, name=name) for name in names[:-1]))
    assert len(read_config(tmp_path, {}).remote) == MAX_SERVERS
    too_many = "".join(entry(URL, name=name) for name in names)
    assert "there are more than 32 servers" in rejection(tmp_path, too_many)


@pytest.mark.parametrize("mode", [0o640, 0o604])
@pytest.mark.parametrize(
    ("key", "lines"),
    [
        ("headers", [URL, f"headers = {{ A = '{CANARY}' }}"]),
        ("env", ["command = 'npx'", f"env = {{ A = '{CANARY}' }}"]),
        ("url", [f"url = 'https://orders.example/?key={CANARY}'", "enabled = false"]),
    ],
)
def test_a_file_with_a_secret_that_others_may_read_is_rejected_with_the_command(
    tmp_path: Path, key: str, lines: list[str], mode: int
) -> None:
    path = write(tmp_path, entry(*lines), mode)
    with pytest.raises(ConfigError) as rejected:
        read_config(tmp_path, {})
    assert f"has remote orders: {key}, which others can read" in str(rejected.value)
    assert rejected.value.command == f"chmod go-r {path}"
    assert CANARY not in str(rejected.value)
    path.chmod(0o600)
    assert read_config(tmp_path, {}).remote


def test_a_file_without_secrets_may_be_read_by_others(tmp_path: Path) -> None:
    write(tmp_path, entry(URL, "bearer_env = 'TOKEN'"), 0o644)
    assert read_config(tmp_path, {}).remote


def test_running_clients_apply_a_change_of_a_server(tmp_path: Path) -> None:
    digests = set()
    for text in ("", entry(URL), entry(URL, "enabled = false"), entry(URL, "headers = { A = 'b' }")):
        write(tmp_path, text)
        digests.add(rules_digest(read_config(tmp_path, {})))
    assert len(digests) == 4


def test_a_text_is_checked_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    (server,) = check_content(path, entry(URL).encode()).remote
    assert server.name == "orders"
    with pytest.raises(ConfigError, match=r"remote orders: url: .* \(at line 3\)"):
        check_content(path, entry("url = '/mcp'").encode())
    with pytest.raises(ConfigError, match="is not valid TOML"):
        check_content(path, b"[[remote]")


def test_headers_that_cannot_be_sent_are_named_without_their_values() -> None:
    assert check_headers({"A": "b", "X-Y": "c\td"}) == ""
    assert check_headers({"A": 1}) == "the value of A is not one line of ASCII without spaces around it"


@pytest.mark.parametrize(
    ("token", "is_token"), [("abc.DEF-_~+/=", True), ("", False), ("a b", False), ("a\n", False)]
)
def test_a_token_has_visible_characters_only(token: str, is_token: bool) -> None:
    assert is_bearer_token(token) is is_token


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("https://app.example/", '"https://app.example/" is no origin: write https://app.example'),
        ("https://App.example:443", "write https://app.example"),
        ("app.example", '"app.example" is no origin'),
        ("https://*.example", "is no origin"),
        ("*", "is no origin"),
        ("null", "is no origin"),
        ("file://", "is no origin"),
        ("remote:notes", "is no origin"),
    ],
)
def test_pages_are_exact_origins(tmp_path: Path, page: str, reason: str) -> None:
    said = rejection(tmp_path, entry(URL, f"pages = ['{page}']"))
    assert said.startswith("remote orders: pages")
    assert reason in said


def test_offer_has_two_words(tmp_path: Path) -> None:
    assert "offer" in rejection(tmp_path, entry(URL, "offer = 'some'"))
