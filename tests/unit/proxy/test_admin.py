"""Admin socket: commands reach the node of their home, and nothing of another user."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio

from native_host.ipc import endpoint
from native_host.system.home_layout import StateLayout
from websocket_proxy.node import admin
from websocket_proxy.node.admin import AdminError, NodeClient, open_admin_socket, serve_admin
from websocket_proxy.protocol import Role

WAITING = admin.WaitingSignIn(
    code="WDJB-MJHT", role=Role.CLIENT, client_name="An agent", client_id="cli", address="192.0.2.1"
)


async def respond(request: admin.Request) -> admin.Result:
    match request:
        case admin.FindSignIn("WDJB-MJHT"):
            return WAITING
        case admin.ListSessions():
            return []
    raise AdminError("no such code")


@asynccontextmanager
async def serving(state: Path, handle: admin.Handle = respond) -> AsyncIterator[endpoint.Endpoint]:
    with open_admin_socket(state) as opened:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_admin, opened, handle)
            await trio.testing.wait_all_tasks_blocked()
            yield opened
            nursery.cancel_scope.cancel()


async def test_a_command_gets_the_response_of_the_running_node(short_tmp: Path) -> None:
    client = NodeClient(short_tmp)
    async with serving(short_tmp) as opened:
        assert await client.ask(admin.FindSignIn("WDJB-MJHT"), admin.WaitingSignIn) == WAITING
        assert await client.ask(admin.ListSessions(), list[admin.SignedIn]) == []
        with pytest.raises(AdminError, match="no such code"):
            await client.ask(admin.DecideSignIn("BCDF-GHJK", is_approved=True), admin.WaitingSignIn)
        path = endpoint.socket_path(opened.directory, opened.instance)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(opened.directory.stat().st_mode) == 0o700
    with pytest.raises(AdminError, match="mcpb proxy serve"):
        await client.ask(admin.ListSessions(), list[admin.SignedIn])


async def test_a_command_that_fails_does_not_end_the_node(
    short_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: admin.Request) -> admin.Result:
        raise KeyError("extension")

    client = NodeClient(short_tmp)
    async with serving(short_tmp, fail):
        for _ in range(2):
            with pytest.raises(AdminError, match=r"KeyError.*log"):
                await client.ask(admin.ListSessions(), list[admin.SignedIn])
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


async def test_of_several_nodes_the_one_that_knows_the_code_responds(short_tmp: Path) -> None:
    async def reject(_: admin.Request) -> admin.Result:
        raise AdminError("no home issuer")

    async with serving(short_tmp, reject), serving(short_tmp), serving(short_tmp, reject):
        found = await NodeClient(short_tmp).ask(admin.FindSignIn("WDJB-MJHT"), admin.WaitingSignIn)
        assert found == WAITING


@pytest.mark.parametrize(
    "line",
    [b"\n", b"{}\n", b'{"type":"reboot"}\n', b'{"type":"find","code":"\xff"}\n', b"[" * 100_000 + b"\n"],
)
async def test_an_unknown_command_is_an_error_and_ends_nothing(short_tmp: Path, line: bytes) -> None:
    async with serving(short_tmp) as opened:
        stream = await endpoint.connect(StateLayout(short_tmp).proxy, opened.instance)
        async with stream:
            await stream.send_all(line)
            received = b""
            while data := await stream.receive_some():
                received += data
        assert msgspec.json.decode(received)["error"]
        assert await NodeClient(short_tmp).ask(admin.ListSessions(), list[admin.SignedIn]) == []


async def test_a_peer_of_another_user_gets_no_response(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(short_tmp) as opened:
        stream = await endpoint.connect(StateLayout(short_tmp).proxy, opened.instance)
        monkeypatch.setattr(endpoint, "peer_uid", lambda _: 12345)
        async with stream:
            await stream.send_all(b'{"type":"sessions"}\n')
            with suppress(trio.BrokenResourceError):  # closed before it has read the request
                assert await stream.receive_some() == b""
