"""Sign-in to a remote server, beside the mcp package's authorization server.

The judges are what both servers have received, and the file of the sign-in. The test plays the browser: it
follows the address that mcpb prints.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
import pytest
import trio
from click.testing import CliRunner, Result
from starlette.responses import RedirectResponse, Response

from authorization_server import HANG, SignInServers, sign_in_servers
from bridge.app import new_session, open_hub, speak_mcp
from bridge.cli.group import main
from bridge.config.remote_settings import RemoteSettings
from bridge.config.settings import Config
from bridge.links.configured_remote import make_options
from bridge.links.oauth import login_tokens, oauth_http, oauth_login
from bridge.links.oauth.login_file import LoginFile, RemoteLogin
from bridge.links.oauth.oauth_login import sign_in
from bridge.links.remote_headers import RemoteHeaders
from bridge.links.remote_mcp import open_remote
from bridge.links.remote_problem import Cause, RemoteCallError, RemoteProblem
from mcp_client import McpLines, speaking_with, text_of
from native_host.system.private_files import PrivateFileError, draft_of, write_draft
from native_host.system.toml_text import format_value

# The HTTP client of the mcp package leaves its generators to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SOON_S = 30
TOOL = "remote_orders_find_order"
LOGIN = "remote login orders"
AS_METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource/mcp"
CANARY = "canary-"


@pytest.fixture(scope="module")
def running() -> Iterator[SignInServers]:
    with sign_in_servers() as servers:
        yield servers


@pytest.fixture
def servers(running: SignInServers) -> SignInServers:
    running.reset()
    return running


@pytest.fixture
def orders(servers: SignInServers) -> RemoteSettings:
    return RemoteSettings(name="orders", url=servers.url)


@pytest.fixture
def file(mcpb_home: Path) -> LoginFile:
    return LoginFile(mcpb_home, "orders")


def configure(home: Path, settings: RemoteSettings) -> None:
    path = home / "config.toml"
    keys = msgspec.json.decode(msgspec.json.encode(settings))
    path.write_text("\n".join(["[[remote]]", *(f"{key} = {format_value(keys[key])}" for key in keys)]))
    path.chmod(0o600)


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert CANARY not in done.output
    return done


def fetch(address: str, **headers: str) -> tuple[int, str]:
    """Return status and body, after redirects."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=SOON_S) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def browse(address: str, _origin: str = "") -> None:
    """Open an address as a browser does, beside the command."""
    threading.Thread(target=fetch, args=(address,), daemon=True).start()


def forbid_browser(_address: str, _origin: str) -> None:
    raise AssertionError


async def log_in(settings: RemoteSettings, home: Path, browser: Callable[..., None] = browse) -> RemoteLogin:
    with trio.fail_after(SOON_S):
        await sign_in(settings, home, browser)
    login = LoginFile(home, settings.name).read()
    assert login is not None
    return login


def age(file: LoginFile, login: RemoteLogin, *, remaining_s: float) -> RemoteLogin:
    """Write the sign-in as it is an hour later."""
    now = time.time()
    aged = msgspec.structs.replace(login, issued_at=now - 3600, expires_at=now + remaining_s)
    file.write(aged)
    return aged


@asynccontextmanager
async def bridge_of(settings: RemoteSettings) -> AsyncIterator[McpLines]:
    """Run a bridge with this server and a client."""
    with trio.fail_after(SOON_S):
        async with open_hub(Config(remote=(settings,))) as hub, AsyncExitStack() as stack:
            session = new_session()

            async def serve(speak: Any) -> None:
                await speak_mcp(hub, session, speak)

            client = await stack.enter_async_context(speaking_with(serve))
            await client.shake_hands("2025-11-25")
            yield client


async def problem_of(headers: RemoteHeaders, *, is_rejected: bool = False) -> RemoteProblem:
    with pytest.raises(RemoteProblem) as raised:
        await headers.read(is_rejected=is_rejected)
    assert CANARY not in str(raised.value)
    return raised.value


# ── Sign in, call, sign out ─────────────────────────────────────────────────────────────────────────────────


async def test_login_prints_an_address_and_stores_tokens_that_calls_carry(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    configure(mcpb_home, orders)
    command = [sys.executable, "-m", "bridge", "remote", "login", "orders", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        introduction, address = process.stdout.readline(), process.stdout.readline().strip()
        assert servers.url in introduction
        assert servers.issuer in introduction
        assert fetch(address)[0] == 200
        output, errors = process.communicate(timeout=SOON_S)
        assert process.returncode == 0
    assert "Signed in to orders.\norders: connected to orders" in output
    assert CANARY not in address + output + errors
    login = file.read()
    assert login
    assert login.issuer == servers.issuer
    assert [path.stat().st_mode & 0o777 for path in (file.path, *file.path.parents[:3])] == [
        0o600,
        *[0o700] * 3,
    ]
    servers.received.clear()
    async with bridge_of(orders) as client:
        assert text_of(await client.call(TOOL, number=17)) == "order 17"
    received = servers.find("/mcp")
    assert {each.authorization for each in received} == {f"Bearer {login.access_token}"}
    assert CANARY not in servers.sent_to(servers.issuer)


async def test_the_browser_is_opened(
    servers: SignInServers,
    orders: RemoteSettings,
    file: LoginFile,
    mcpb_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure(mcpb_home, orders)
    opened: list[str] = []

    def open_browser(address: str) -> bool:
        opened.append(address)
        browse(address)
        return True

    monkeypatch.setattr("webbrowser.open", open_browser)
    done = await trio.to_thread.run_sync(run, "remote", "login", "orders")
    assert done.exit_code == 0
    assert opened
    assert opened[0] in done.stdout
    assert file.read()


@pytest.mark.parametrize("command", ["logout", "remove"])
async def test_tokens_are_removed_and_revoked(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path, command: str
) -> None:
    configure(mcpb_home, orders)
    await log_in(orders, mcpb_home)
    done = await trio.to_thread.run_sync(run, "remote", command, "orders")
    assert done.exit_code == 0
    assert file.read() is None
    assert not servers.provider.access
    assert len(servers.find("/revoke")) == 1
    assert await RemoteHeaders(orders).read() == {}


async def test_logout_says_whether_there_was_a_sign_in(
    orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    configure(mcpb_home, orders)
    await log_in(orders, mcpb_home)
    first, second = [await trio.to_thread.run_sync(run, "remote", "logout", "orders") for _ in range(2)]
    assert (first.exit_code, first.stdout) == (0, "Signed out of orders.\n")
    assert (second.exit_code, second.stdout) == (0, "No tokens of orders were stored.\n")
    assert file.read() is None


async def test_tokens_are_removed_although_they_cannot_be_revoked(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    configure(mcpb_home, orders)
    await log_in(orders, mcpb_home)
    servers.answer("/revoke", {}, 503)
    done = await trio.to_thread.run_sync(run, "remote", "logout", "orders")
    assert (done.exit_code, "not revoked" in done.stderr) == (0, True)
    assert file.read() is None


async def test_logout_says_that_tokens_of_a_file_open_to_others_were_not_revoked(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    configure(mcpb_home, orders)
    await log_in(orders, mcpb_home)
    file.path.chmod(0o644)
    done = await trio.to_thread.run_sync(run, "remote", "logout", "orders")
    assert (done.exit_code, "not revoked" in done.stderr) == (0, True)
    assert not servers.find("/revoke")
    assert not file.exists()


@pytest.mark.parametrize("is_first", [True, False])
async def test_logout_removes_what_a_process_that_was_killed_while_it_wrote_has_left(
    orders: RemoteSettings, file: LoginFile, mcpb_home: Path, *, is_first: bool
) -> None:
    await log_in(orders, mcpb_home)
    write_draft(file.path, file.path.read_bytes())
    if is_first:
        file.path.unlink()
    done = await trio.to_thread.run_sync(run, "remote", "logout", "orders")
    assert done.exit_code == 0
    assert not list(file.path.parent.iterdir())


async def test_a_new_sign_in_revokes_the_tokens_of_the_earlier_one(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path
) -> None:
    earlier = await log_in(orders, mcpb_home)
    assert not servers.find("/revoke")
    login = await log_in(orders, mcpb_home)
    assert servers.find("/revoke", token=earlier.refresh_token)
    assert list(servers.provider.refresh) == [login.refresh_token]
    servers.answer("/revoke", {}, 503)
    with trio.fail_after(SOON_S):
        assert await sign_in(orders, mcpb_home, browse)


async def test_a_new_sign_in_of_the_same_client_revokes_nothing(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path
) -> None:
    login = await log_in(orders, mcpb_home)
    assert await login_tokens.store_login(LoginFile(mcpb_home, orders.name), login) == ""
    assert not servers.find("/revoke")


async def test_a_401_after_revocation_names_the_command(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path
) -> None:
    configure(mcpb_home, orders)
    await log_in(orders, mcpb_home)
    async with bridge_of(orders) as client:
        assert text_of(await client.call(TOOL, number=1)) == "order 1"
        servers.provider.revoke_all()
        failed = await client.call(TOOL, number=2)
    assert failed["isError"] is True
    assert LOGIN in text_of(failed)
    tested = await trio.to_thread.run_sync(run, "remote", "test", "orders", "--json")
    (finding,) = json.loads(tested.stdout)["servers"][0]["findings"]
    assert finding["cause"] == Cause.UNAUTHORIZED
    assert LOGIN in finding["remedy"]
    configure(mcpb_home, msgspec.structs.replace(orders, header_command=("/bin/echo", "{}")))
    tested = await trio.to_thread.run_sync(run, "remote", "test", "orders", "--json")
    (finding,) = json.loads(tested.stdout)["servers"][0]["findings"]
    assert "header_command" in finding["remedy"]


async def test_the_state_shows_a_401_until_a_request_is_accepted(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path
) -> None:
    await log_in(orders, mcpb_home)
    params = {"name": "find_order", "arguments": {"number": 1}}
    async with open_remote(make_options(orders, RemoteHeaders(orders))) as server:
        accepted = dict(servers.provider.access)
        servers.provider.revoke_all()
        with pytest.raises(RemoteCallError) as raised:
            await server.request("tools/call", params)
        assert LOGIN in raised.value.then
        assert server.state.cause is Cause.UNAUTHORIZED
        servers.provider.access.update(accepted)
        await server.request("tools/call", params)
        assert not server.state.last_error


async def test_the_state_shows_a_refresh_that_fails_until_a_request_is_accepted(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    age(file, await log_in(orders, mcpb_home), remaining_s=3600)
    params = {"name": "find_order", "arguments": {"number": 1}}
    async with open_remote(make_options(orders, RemoteHeaders(orders))) as server:
        accepted = dict(servers.provider.access)
        servers.provider.access.clear()
        servers.answer("/token", {"error": "not known"}, 400)
        with pytest.raises(RemoteCallError):
            await server.request("tools/call", params)
        assert "the sign-in cannot be refreshed" in server.state.last_error
        assert (server.state.state, server.state.cause) == ("ready", Cause.CLOSED)
        servers.provider.access.update(accepted)
        await server.request("tools/call", params)
        assert (server.state.last_error, server.state.cause) == ("", None)


def test_login_needs_a_url_without_other_credentials(orders: RemoteSettings, mcpb_home: Path) -> None:
    for keys, named in (
        ({"bearer_env": "ORDERS"}, "its bearer_env from"),
        ({"headers": {"authorization": "Basic abc"}}, "its headers.Authorization from"),
    ):
        configure(mcpb_home, msgspec.structs.replace(orders, **keys))
        done = run("remote", "login", "orders")
        assert done.exit_code == 1
        assert named in done.stderr
    assert run("remote", "login", "../orders").exit_code == 1
    assert run("remote", "logout", "../orders").exit_code == 1
    assert not (mcpb_home / "state/logins").exists()


# ── Refresh ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("remaining_s", [20, -1])
async def test_a_token_is_refreshed_before_and_after_it_expires(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path, remaining_s: float
) -> None:
    old = age(file, await log_in(orders, mcpb_home), remaining_s=remaining_s)
    async with bridge_of(orders) as client:
        assert text_of(await client.call(TOOL, number=1)) == "order 1"
    new = file.read()
    assert new
    assert new.refresh_token != old.refresh_token
    assert servers.find("/token", grant_type="refresh_token", refresh_token=old.refresh_token)
    (sent,) = {each.authorization for each in servers.find("/mcp")} - {""}
    assert sent == f"Bearer {new.access_token}"


async def test_a_rejected_token_is_refreshed_once(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    age(file, await log_in(orders, mcpb_home), remaining_s=3600)
    servers.provider.access.clear()
    async with bridge_of(orders) as client:
        assert text_of(await client.call(TOOL, number=1)) == "order 1"
        servers.provider.access.clear()  # also the new one: that is the server's decision
        assert (await client.call(TOOL, number=2))["isError"] is True
    assert len(servers.find("/token", grant_type="refresh_token")) == 1


async def test_of_bridges_that_refresh_at_once_one_reaches_the_server(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    age(file, await log_in(orders, mcpb_home), remaining_s=-1)
    async with bridge_of(orders) as one, bridge_of(orders) as other:
        for client in (one, other):
            assert text_of(await client.call(TOOL, number=1)) == "order 1"
    assert len(servers.find("/token", grant_type="refresh_token")) == 1


async def test_a_refresh_token_that_is_of_no_use_is_not_used_again(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    old = age(file, await log_in(orders, mcpb_home), remaining_s=-1)
    servers.provider.revoke_all()
    for _ in range(2):
        assert await RemoteHeaders(orders).read() == {"Authorization": f"Bearer {old.access_token}"}
    assert len(servers.find("/token", grant_type="refresh_token")) == 1


@pytest.mark.parametrize("answer", [b'{"error": {"code": 400}}', b'{"error": ' + b"[" * 100_000])
async def test_a_response_that_is_no_token_response_leaves_a_valid_token_in_use(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path, answer: bytes
) -> None:
    login = age(file, await log_in(orders, mcpb_home), remaining_s=20)
    servers.answers["/token"] = servers.answers["/revoke"] = Response(answer, 400)
    headers = RemoteHeaders(orders)
    for _ in range(2):
        assert await headers.read() == {"Authorization": f"Bearer {login.access_token}"}
    assert len(servers.find("/token", grant_type="refresh_token")) == 1
    age(file, login, remaining_s=-1)
    assert (await problem_of(headers)).cause is Cause.CLOSED
    done = await trio.to_thread.run_sync(run, "remote", "logout", "orders")
    assert (done.exit_code, "not revoked" in done.stderr) == (0, True)


async def test_a_refresh_token_is_not_used_where_its_successor_cannot_be_stored(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    age(file, await log_in(orders, mcpb_home), remaining_s=-1)
    obstacle = draft_of(file.path) / "file"
    obstacle.parent.mkdir()
    obstacle.touch()
    assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
    assert not servers.find("/token", grant_type="refresh_token")
    obstacle.unlink()
    obstacle.parent.rmdir()
    assert CANARY in (await RemoteHeaders(orders).read())["Authorization"]
    assert len(servers.find("/token", grant_type="refresh_token")) == 1


async def test_a_refresh_by_another_process_delays_no_later_one(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    login = age(file, await log_in(orders, mcpb_home), remaining_s=20)
    headers = RemoteHeaders(orders)
    async with file.hold(0):
        assert await headers.read() == {"Authorization": f"Bearer {login.access_token}"}
    assert await headers.read(is_rejected=True) != {"Authorization": f"Bearer {login.access_token}"}
    assert len(servers.find("/token", grant_type="refresh_token")) == 1


async def test_a_valid_token_is_used_although_its_file_cannot_be_locked(
    servers: SignInServers,
    orders: RemoteSettings,
    file: LoginFile,
    mcpb_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    login = age(file, await log_in(orders, mcpb_home), remaining_s=20)
    monkeypatch.setattr("fcntl.flock", refuse)
    assert await RemoteHeaders(orders).read() == {"Authorization": f"Bearer {login.access_token}"}
    age(file, login, remaining_s=-1)
    assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
    assert not servers.find("/token", grant_type="refresh_token")


async def test_a_silent_authorization_server_delays_only_requests_without_a_valid_token(
    servers: SignInServers,
    orders: RemoteSettings,
    file: LoginFile,
    mcpb_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login = await log_in(orders, mcpb_home)
    monkeypatch.setattr(oauth_http, "REQUEST_S", 0.05)
    servers.answers["/token"] = HANG
    age(file, login, remaining_s=20)
    headers = RemoteHeaders(orders)
    for _ in range(3):
        assert await headers.read() == {"Authorization": f"Bearer {login.access_token}"}
    assert len(servers.find("/token", grant_type="refresh_token")) == 1
    age(file, login, remaining_s=-1)
    assert (await problem_of(headers)).cause is Cause.TOO_SLOW
    # Another process that never ends its refresh.
    monkeypatch.setattr(login_tokens, "LOCK_S", 0.05)
    async with file.hold(0):
        assert (await problem_of(RemoteHeaders(orders))).cause is Cause.TOO_SLOW
        age(file, login, remaining_s=20)
        assert await RemoteHeaders(orders).read() == {"Authorization": f"Bearer {login.access_token}"}


# ── Who receives a token ────────────────────────────────────────────────────────────────────────────────────


async def test_tokens_are_for_the_configured_url_only(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path
) -> None:
    await log_in(orders, mcpb_home)
    for url in (f"{servers.issuer}/mcp", f"{servers.url}/", f"{servers.url}?a=b"):
        assert await RemoteHeaders(msgspec.structs.replace(orders, url=url)).read() == {}
    configure(mcpb_home, orders)
    servers.answers["/mcp"] = RedirectResponse(f"{servers.issuer}/mcp", 307)
    await trio.to_thread.run_sync(run, "remote", "test", "orders")
    assert "canary-access" in servers.sent_to(servers.resource)
    assert "canary-access" not in servers.sent_to(servers.issuer)


async def test_a_file_that_others_can_read_or_that_a_link_leads_to_is_rejected(
    orders: RemoteSettings, file: LoginFile, mcpb_home: Path, tmp_path: Path
) -> None:
    await log_in(orders, mcpb_home)
    file.path.chmod(0o644)
    assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
    file.path.chmod(0o600)
    moved = file.path.rename(tmp_path / "moved")
    file.path.symlink_to(moved)
    assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
    file.path.unlink()
    moved.rename(file.path)
    for directory in file.path.parents[:3]:
        directory.chmod(0o750)
        assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
        directory.chmod(0o700)
        elsewhere = directory.rename(tmp_path / "elsewhere")
        directory.symlink_to(elsewhere)
        assert (await problem_of(RemoteHeaders(orders))).cause is Cause.HEADERS
        with pytest.raises(PrivateFileError):
            await sign_in(orders, mcpb_home, forbid_browser)
        directory.unlink()
        elsewhere.rename(directory)
    assert CANARY in (await RemoteHeaders(orders).read())["Authorization"]


async def test_no_log_has_a_token_or_the_query_of_the_url(
    servers: SignInServers,
    orders: RemoteSettings,
    file: LoginFile,
    mcpb_home: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = msgspec.structs.replace(orders, url=f"{servers.url}?key=canary-query")
    addresses: list[str] = []

    def browser(address: str, origin: str) -> None:
        addresses.append(address)
        browse(address, origin)

    age(file, await log_in(secret, mcpb_home, browser), remaining_s=-1)
    assert CANARY in (await RemoteHeaders(secret).read())["Authorization"]
    ours = [record.getMessage() for record in caplog.records if record.threadName == "MainThread"]
    assert CANARY not in "\n".join([*addresses, *ours])
    assert "canary-query" not in servers.sent_to(servers.issuer)


# ── The redirect ────────────────────────────────────────────────────────────────────────────────────────────


async def test_only_the_redirect_with_the_right_state_is_taken(
    orders: RemoteSettings, mcpb_home: Path
) -> None:
    statuses: list[int] = []

    def attack_first(address: str, origin: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        callback, state = asked["redirect_uri"], asked["state"]
        foreign = f"rebound.example:{urlsplit(callback).port}"

        def attack() -> None:
            for target, headers in (
                (f"{callback}?{urlencode({'code': 'x', 'state': 'wrong'})}", {}),
                (f"{callback}?code=x", {}),
                (f"{callback}?{urlencode({'code': 'x', 'state': state})}&state=wrong", {}),
                (f"{callback}?{urlencode({'code': 'x', 'state': state})}", {"Host": foreign}),
                (f"{callback}/other?{urlencode({'code': 'x', 'state': state})}", {}),
            ):
                statuses.append(fetch(target, **headers)[0])
            browse(address, origin)

        threading.Thread(target=attack, daemon=True).start()

    await log_in(orders, mcpb_home, attack_first)
    assert statuses == [400, 400, 400, 400, 404]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
@pytest.mark.parametrize("answer_bytes", [4096, 0])
async def test_another_user_who_knows_the_state_cannot_complete_the_sign_in(
    orders: RemoteSettings, file: LoginFile, mcpb_home: Path, answer_bytes: int
) -> None:
    """The state is on the command line that opens the browser; `answer_bytes` 0: it closes at once."""
    program = """
import os, socket, sys
os.setgid(12345)
os.setuid(12345)
connection = socket.socket()
connection.connect((b"127.0.0.1", int(sys.argv[1])))
connection.sendall(sys.argv[2].encode())
if answer_bytes := int(sys.argv[3]):
    print(connection.recv(answer_bytes).partition(b" ")[2][:3])
"""
    statuses: list[bytes] = []

    def attack_first(address: str, origin: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        callback = urlsplit(asked["redirect_uri"])
        query = urlencode({"code": "x", "state": asked["state"]})
        request = f"GET {callback.path}?{query} HTTP/1.1\r\nHost: {callback.netloc}\r\n\r\n"
        command = [sys.executable, "-c", program, str(callback.port), request, str(answer_bytes)]

        def attack() -> None:
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=SOON_S)
            statuses.append(done.stdout.strip())
            browse(address, origin)

        threading.Thread(target=attack, daemon=True).start()

    await log_in(orders, mcpb_home, attack_first)
    assert statuses == [b"b'403'" if answer_bytes else b""]
    assert file.read()


async def test_a_denied_sign_in_stores_nothing(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    servers.provider.denies = True
    with pytest.raises(RemoteProblem, match="access_denied") as raised:
        await log_in(orders, mcpb_home)
    assert raised.value.cause is Cause.FORBIDDEN
    assert file.read() is None


async def test_the_user_has_a_limited_time(
    orders: RemoteSettings, file: LoginFile, mcpb_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth_login, "BROWSER_S", 0.01)
    with pytest.raises(RemoteProblem) as raised:
        await log_in(orders, mcpb_home, lambda _address, _origin: None)
    assert raised.value.cause is Cause.TOO_SLOW
    assert file.read() is None


# ── Hostile servers ─────────────────────────────────────────────────────────────────────────────────────────


def metadata(servers: SignInServers, **changes: str) -> dict[str, Any]:
    endpoints = {"authorization": "authorize", "token": "token", "registration": "register"}
    urls = {f"{name}_endpoint": f"{servers.issuer}/{path}" for name, path in endpoints.items()}
    return {"issuer": servers.issuer, **urls, "response_types_supported": ["code"], **changes}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("issuer", "https://other.example"),
        ("token_endpoint", "http://login.example/token"),
        ("token_endpoint", "http://10.0.0.1/token"),
        ("registration_endpoint", "http://[::ffff:10.0.0.1]/register"),
        ("authorization_endpoint", "http://login.example/authorize"),
        ("authorization_endpoint", "http://127.0.0.1:1/authorize#all"),
        ("revocation_endpoint", "http://login.example/revoke"),
    ],
)
async def test_metadata_that_leads_elsewhere_is_rejected(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path, name: str, value: str
) -> None:
    servers.answer(AS_METADATA, metadata(servers, **{name: value}))
    with pytest.raises(RemoteProblem) as raised:
        await log_in(orders, mcpb_home)
    assert raised.value.cause in {Cause.NOT_MCP, Cause.REDIRECT, Cause.UNAUTHORIZED}
    assert file.read() is None
    assert "canary" not in servers.sent_to(servers.resource)


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": "https://other.example/mcp"},
        {"authorization_servers": ["http://10.0.0.1"]},
        {"authorization_servers": ["http://login.example"]},
    ],
)
async def test_resource_metadata_that_leads_elsewhere_is_rejected(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path, changes: dict[str, Any]
) -> None:
    named = {"resource": servers.url, "authorization_servers": [servers.issuer]}
    servers.answer(RESOURCE_METADATA, {**named, **changes})
    with pytest.raises(RemoteProblem) as raised:
        await sign_in(orders, mcpb_home, forbid_browser)
    assert raised.value.cause in {Cause.NOT_MCP, Cause.REDIRECT}


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://10.0.0.1/", "http://[", "//a", "data:,{}"])
async def test_a_challenge_that_leads_elsewhere_is_rejected(
    servers: SignInServers, orders: RemoteSettings, mcpb_home: Path, address: str
) -> None:
    challenge = {"WWW-Authenticate": f'Bearer resource_metadata="{address}"'}
    servers.answers["/mcp"] = Response(status_code=401, headers=challenge)
    with pytest.raises(RemoteProblem):
        await sign_in(orders, mcpb_home, forbid_browser)


async def test_a_response_of_another_issuer_is_rejected(
    servers: SignInServers, orders: RemoteSettings, file: LoginFile, mcpb_home: Path
) -> None:
    """Mix-up: the honest server names itself in its redirect (RFC 9207)."""

    def mix_up(address: str, _origin: str) -> None:
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        answer = {"code": "stolen", "state": asked["state"], "iss": "https://honest.example"}
        browse(f"{asked['redirect_uri']}?{urlencode(answer)}")

    with pytest.raises(RemoteProblem) as raised:
        await log_in(orders, mcpb_home, mix_up)
    assert raised.value.cause is Cause.NOT_MCP
    assert not servers.find("/token")
    assert file.read() is None


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (RESOURCE_METADATA, Response(b" " * oauth_http.MAX_BYTES + b"{}")),
        (AS_METADATA, HANG),
        ("/register", Response(status_code=404)),
        ("/register", Response(b"[" * 100_000)),
        ("/token", Response(b'{"access_token": "a\\nb", "token_type": "Bearer"}')),
        ("/token", Response(b'{"access_token": "ab", "token_type": "Bearer", "expires_in": 1e999}')),
        ("/token", Response(b'{"access_token": "ab", "expires_in": 1' + b"0" * 400 + b"}")),
        ("/token", RedirectResponse("http://login.example/token", 307)),
        ("/mcp", Response(status_code=200)),
    ],
)
async def test_what_is_no_sign_in_is_rejected_in_time(
    servers: SignInServers,
    orders: RemoteSettings,
    file: LoginFile,
    mcpb_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    answer: Response,
) -> None:
    if answer is HANG:
        monkeypatch.setattr(oauth_http, "REQUEST_S", 0.05)
    servers.answers[path] = answer
    with pytest.raises(RemoteProblem):
        await log_in(orders, mcpb_home)
    assert file.read() is None


@pytest.mark.parametrize(
    ("server", "address", "is_allowed"),
    [
        ("https://orders.example/mcp", "https://login.example/token", True),
        ("https://orders.example/mcp", "http://login.example/token", False),
        ("https://orders.example/mcp", "http://127.0.0.1:9/token", False),
        ("https://orders.example/mcp", "https://127.0.0.1/token", False),
        ("https://orders.example/mcp", "https://127.1/token", False),
        ("https://orders.example/mcp", "https://2130706433/token", False),
        ("https://orders.example/mcp", "https://0x7f000001/token", False),
        ("https://orders.example/mcp", "https://[::1]/token", False),
        ("https://orders.example/mcp", "https://[fd00::1]/token", False),
        ("https://orders.example/mcp", "https://169.254.169.254/latest", False),
        ("https://orders.example/mcp", "https://LOCALHOST./token", False),
        ("https://orders.example/mcp", "https://user@login.example/token", False),
        ("https://orders.example/mcp", "file:///etc/passwd", False),
        ("https://orders.example/mcp", "javascript:alert(1)", False),
        ("https://orders.example/mcp", "https:login.example", False),
        ("https://orders.example/mcp", f"https://login.example/{'a' * 9000}", False),
        ("http://127.0.0.1:1/mcp", "http://localhost:2/token", True),
        ("http://127.0.0.1:1/mcp", "http://10.0.0.1/token", False),
        ("http://intranet/mcp", "http://intranet:8443/token", True),
        ("https://10.0.0.1/mcp", "https://10.0.0.2/token", True),
    ],
)
async def test_addresses_that_a_server_names(server: str, address: str, *, is_allowed: bool) -> None:
    async with oauth_http.open_http(server) as http:
        with nullcontext() if is_allowed else pytest.raises(RemoteProblem):
            http.check(address)
