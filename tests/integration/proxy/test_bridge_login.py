"""`mcpb proxy login` and what follows: the commands of another home have the browsers at the proxy."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from bridge.links.browsers.proxy_address import read_address
from bridge.links.browsers.proxy_credentials import ProxyCredentials, login_file
from bridge.links.browsers.proxy_login import SignInCode, SignInError, sign_in
from bridge.links.oauth.login_file import RemoteLogin
from device_issuer import INTERVAL_S, USER, DeviceIssuer, serving_issuer
from fake_transport import one_page
from proxied_bridge import WatchedLinks, own_extension
from proxy_node import MCPB, SOON_S, ProxyNode, run_in_thread, running_node
from websocket_proxy.protocol import Role
from websocket_proxy.signing_keys import create_token
from websocket_proxy.token_store import read_home_key

TOOL = "website_tool_shop_example_tab1_getCart"


@pytest.fixture
async def node(mcpb_home: Path) -> AsyncIterator[ProxyNode]:
    """A node with the home issuer, whose home is `mcpb_home`."""
    (mcpb_home / "config.toml").write_text("[proxy]\nadmin_port = 0\n")
    async with running_node(mcpb_home) as node:
        yield node


@pytest.fixture
def client_home(short_tmp: Path) -> Path:
    home = short_tmp / "client"
    home.mkdir(mode=0o700)
    return home


Decide = Callable[[str], Awaitable[object]]
"""Decides on a user code."""


async def decide_at_proxy(option: str, code: str) -> None:
    await run_in_thread("approve", code, option)


class Client:
    """Commands of mcpb on a machine without a browser."""

    def __init__(self, home: Path) -> None:
        self.home = home

    async def run(self, *arguments: str, status: int = 0, **environ: str) -> str:
        """What a command prints, with stderr."""
        environment = {**os.environ, "MCPB_HOME": str(self.home), **environ}

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*MCPB, *arguments],
                capture_output=True,
                text=True,
                timeout=SOON_S,
                env=environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )

        ended = await trio.to_thread.run_sync(run)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    async def sign_in(self, url: str, decide: Decide | None = None, status: int = 0) -> str:
        """Sign in, while the user decides on the code: approves it at the proxy, unless told otherwise."""
        decide = decide or partial(decide_at_proxy, "--yes")
        process = await trio.lowlevel.open_process(
            [*MCPB, "proxy", "login", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "MCPB_HOME": str(self.home)},
        )
        printed, is_decided = "", False
        with trio.fail_after(SOON_S):
            assert process.stdout
            async with process.stdout as stdout:
                async for chunk in stdout:
                    printed += chunk.decode()
                    if (found := re.search(r"([A-Z]{4}-[A-Z]{4})\n", printed)) and not is_decided:
                        is_decided = True
                        await decide(found[1])
            assert await process.wait() == status, printed
        return printed


@pytest.fixture
def client(client_home: Path) -> Client:
    return Client(client_home)


def extension_token(home: Path, node: ProxyNode) -> str:
    key = read_home_key(home / "state")
    assert key
    url = read_address(node.base).url
    return create_token(
        key.signing, user=key.user_id, role=Role.EXTENSION, issuer=url, audience=url, ttl_s=600
    )


async def test_after_the_login_all_commands_have_the_browsers_at_the_proxy(
    node: ProxyNode, client: Client, mcpb_home: Path
) -> None:
    url = read_address(node.base).url
    file = login_file(client.home, read_address(url)).path
    assert "the sign-in was denied" in await client.sign_in(url, partial(decide_at_proxy, "--deny"), status=1)
    assert not file.exists()
    assert f"Signed in to {url}." in await client.sign_in(url)
    assert file.stat().st_mode & 0o777 == 0o600

    def answer(message: dict[str, Any]) -> Any:
        if message["method"] == "getTabs":
            return {"tabs": []}
        return {"success": True, "payload": {"content": [{"type": "text", "text": "tea"}]}}

    token = extension_token(mcpb_home, node)
    async with own_extension(node, "p1", *one_page("getCart"), answer=answer, token=token):
        assert TOOL in await client.run("tools")
        assert "tea" in await client.run("call", TOOL)
        assert f"at the WebSocket proxy {url}" in await client.run("status")
        redacted = await client.run("doctor", "--json", "--redact")
        report = json.loads(redacted)
        assert report["healthy"]
        assert [each["state"] for each in report["browsers"] if each["seen"]] == ["works"]
        assert [line for line in redacted.splitlines() if url.partition("://")[2] in line] == []
    assert f"Signed out of {url}." in await client.run("proxy", "logout", url)
    assert not file.exists()
    assert url not in await client.run("status")


async def test_another_port_than_that_of_the_proxy_names_the_setting(
    node: ProxyNode, short_tmp: Path, nursery: trio.Nursery
) -> None:
    async def forward(stream: trio.SocketStream) -> None:
        async with stream, await trio.open_tcp_stream("localhost", node.port) as behind:
            await behind.send_all(await stream.receive_some())
            async for data in behind:
                await stream.send_all(data)

    serve = partial(trio.serve_tcp, forward, 0, host="127.0.0.1")
    (listener,) = await nursery.start(serve)
    address = read_address(f"http://localhost:{listener.socket.getsockname()[1]}")
    with pytest.raises(SignInError, match="allowed_hosts"):
        await sign_in(address, short_tmp, lambda _: None)


async def test_two_bridges_share_refresh_tokens_that_change_with_each_use(
    node: ProxyNode, client: Client, mcpb_home: Path, short_tmp: Path, nursery: trio.Nursery
) -> None:
    address = read_address(node.base)

    def approve(code: SignInCode) -> None:
        nursery.start_soon(run_in_thread, "approve", code.user_code, "--yes")

    assert await sign_in(address, client.home, approve) == ""
    file = login_file(client.home, address)
    login = file.read()
    assert login
    file.write(_aged(login))
    bridges = [
        WatchedLinks(short_tmp / name, ProxyCredentials(client.home, {}).find_proxies)
        for name in ("first", "second")
    ]
    for bridge in bridges:
        nursery.start_soon(bridge.run)
    async with own_extension(node, token=extension_token(mcpb_home, node)):
        for bridge in bridges:
            await bridge.until(lambda bridge=bridge: bridge.offered == ["getCart"])  # type: ignore[misc]
    refreshed = file.read()
    assert refreshed
    assert refreshed.refresh_token != login.refresh_token


def _aged(login: RemoteLogin) -> RemoteLogin:
    """The sign-in after its access token has expired."""
    return msgspec.structs.replace(login, issued_at=login.issued_at - 7200, expires_at=login.issued_at - 3600)


# ── Another authorization server ────────────────────────────────────────────────────────────────────────────


async def test_a_client_signs_in_at_another_server_that_the_proxy_names(
    client: Client, mcpb_home: Path, short_tmp: Path, nursery: trio.Nursery
) -> None:
    with serving_issuer() as issuer:
        (mcpb_home / "config.toml").write_text(issuer.config)
        async with running_node(mcpb_home) as node:
            address = read_address(node.base)

            async def approve(code: str) -> None:
                issuer.decisions[code] = ""

            async with trio.open_nursery() as sign_ins:
                sign_ins.start_soon(fail_to_sign_in, issuer, node, short_tmp)
                sign_ins.start_soon(poll_too_often, issuer, node, short_tmp)
                printed = await client.sign_in(address.url, approve)
            assert f"Open {issuer.url}/activate and enter the code " in printed
            assert f"Signed in to {address.url}." in printed
            assert set(issuer.resources) == {address.url}

            file = login_file(client.home, address)
            login = file.read()
            assert login
            file.write(_aged(login))
            bridge = WatchedLinks(short_tmp / "run", ProxyCredentials(client.home, {}).find_proxies)
            nursery.start_soon(bridge.run)
            async with own_extension(node, token=issuer.make_token("openid mcpb:extension")):
                await bridge.until(lambda: bridge.offered == ["getCart"])
            assert issuer.refreshes == 1
            assert {(each["role"], each["user"]) for each in node.events("opened")} == {
                (role, USER) for role in Role
            }
        nursery.cancel_scope.cancel()


async def fail_to_sign_in(issuer: DeviceIssuer, node: ProxyNode, homes: Path) -> None:
    """A user who denies the code, or comes too late, is told so, and nothing is stored."""
    for error, words in (("access_denied", "was denied"), ("expired_token", "has expired")):

        def decide(code: SignInCode, error: str = error) -> None:
            issuer.decisions[code.user_code] = error

        with pytest.raises(SignInError, match=words):
            await sign_in(read_address(node.base), homes / error, decide)
        assert login_file(homes / error, read_address(node.base)).read() is None


async def poll_too_often(issuer: DeviceIssuer, node: ProxyNode, homes: Path) -> None:
    """After `slow_down` a client waits 5 s longer (RFC 8628, 3.5)."""
    codes: list[str] = []

    def approve(code: SignInCode) -> None:
        codes.append(code.user_code)
        issuer.slow.add(code.user_code)
        issuer.decisions[code.user_code] = ""

    assert await sign_in(read_address(node.base), homes / "slow", approve) == ""
    first, second = issuer.polls[codes[0]]
    assert second - first >= INTERVAL_S + 5
