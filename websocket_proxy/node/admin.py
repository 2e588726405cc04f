"""Admin socket of a node: both ends of the commands `mcpb proxy approve`, `sessions`, `revoke` and `status`.

A private Unix socket; each connection has one request and one response, both one line of JSON. Both ends
check the other's user.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import trio

from native_host.ipc import endpoint
from native_host.ipc.endpoint import Endpoint, EndpointError, Record
from native_host.system.home_layout import StateLayout
from websocket_proxy import __version__
from websocket_proxy.key_set import UNDECODABLE
from websocket_proxy.protocol import Role

_LINE_BYTES = 1024 * 1024
_REQUEST_S = 10.0

_log = logging.getLogger(__name__)


class AdminError(Exception):
    """A request failed; tell the user."""


class FindSignIn(msgspec.Struct, tag="find", frozen=True):
    """Describe the sign-in that waits with a code."""

    code: str


class DecideSignIn(msgspec.Struct, tag="decide", frozen=True):
    """Approve or deny a sign-in."""

    code: str
    is_approved: bool


class ListSessions(msgspec.Struct, tag="sessions", frozen=True):
    """List the sign-ins that have tokens."""


class RevokeSession(msgspec.Struct, tag="revoke", frozen=True):
    """End a sign-in."""

    id: str


class GetStatus(msgspec.Struct, tag="status", frozen=True):
    """Describe the node."""


Request = FindSignIn | DecideSignIn | ListSessions | RevokeSession | GetStatus


class WaitingSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that waits for a decision."""

    code: str
    role: Role
    client_name: str
    client_id: str
    address: str


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has tokens."""

    id: str
    role: Role
    client_name: str
    client_id: str
    address: str
    created_at: float
    refreshed_at: float
    expires_at: float
    sockets: int
    """Number of its open WebSockets."""


class IssuerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of an issuer."""

    issuer: str
    source: str
    keys: int
    read_at: float | None
    problem: str
    is_stale: bool


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """State of a node."""

    pid: int
    version: str
    url: str
    local_url: str
    """URL of its own port on this machine."""
    extension_url: str
    client_url: str
    admin_url: str
    user_id: str
    """User of the home issuer; empty: the proxy issues no tokens."""
    waiting_sign_ins: int
    is_draining: bool
    sockets: int
    unauthenticated_sockets: int
    users: int
    extensions: int
    clients: int
    connections: int
    requests_in_flight: int
    queued_bytes: int
    issuers: list[IssuerStatus]


class _Response(msgspec.Struct, omit_defaults=True):
    error: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


Result = WaitingSignIn | list[SignedIn] | Status | None
Handle = Callable[[Request], Awaitable[Result]]
"""Responds to a request, or raises AdminError."""

_requests = msgspec.json.Decoder(Request)
_responses = msgspec.json.Decoder(_Response)
T = TypeVar("T")


# ── The node's end ──────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def open_admin_socket(state: Path) -> Iterator[Endpoint]:
    """Open the socket, which commands find once `serve_admin` runs. Raises PrivateFileError."""
    opened = endpoint.open_endpoint(StateLayout(state).proxy)
    try:
        yield opened
    finally:
        opened.close()


async def serve_admin(opened: Endpoint, handle: Handle) -> None:
    """Serve commands until it is cancelled."""

    async def serve_one(stream: trio.SocketStream) -> None:
        try:
            endpoint.check_peer(stream)
            with trio.move_on_after(_REQUEST_S):
                await stream.send_all(await _respond(await _read_line(stream), handle) + b"\n")
        except EndpointError as error:
            _log.warning("Rejected a connection to the admin socket: %s", error)
        except trio.BrokenResourceError:
            pass  # the command has ended

    record = Record(
        instance=opened.instance,
        pid=os.getpid(),
        browser_pid=0,
        extension_origin="",
        version=__version__,
        started_at=time.time(),
    )
    opened.publish(record)
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(opened.listener))
    await trio.serve_listeners(serve_one, [listener])


async def _respond(line: bytes, handle: Handle) -> bytes:
    try:
        result = await handle(_requests.decode(line))
        return msgspec.json.encode(_Response(result=msgspec.Raw(msgspec.json.encode(result))))
    except AdminError as error:
        return msgspec.json.encode(_Response(error=str(error)))
    except UNDECODABLE:
        text = "The node does not know this command: it has another version. Restart `mcpb proxy serve`."
        return msgspec.json.encode(_Response(error=text))
    except Exception as error:  # noqa: BLE001  (logged, without its text, which may quote a token)
        trace = "".join(traceback.format_tb(error.__traceback__))
        _log.error("A command failed: unexpected %s\n%s", type(error).__name__, trace)
        text = f"The node could not do this ({type(error).__name__}): its log has the details."
        return msgspec.json.encode(_Response(error=text))


async def _read_line(stream: trio.SocketStream) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n") and (data := await stream.receive_some()):
        received += data
        if len(received) > _LINE_BYTES:
            break
    return bytes(received)


# ── The commands' end ───────────────────────────────────────────────────────────────────────────────────────


class NodeClient:
    """Running nodes of one home."""

    def __init__(self, state: Path) -> None:
        self._directory = StateLayout(state).proxy

    async def ask(self, request: Request, result: type[T]) -> T:
        """Return the response of the node; of several, of the first one that does not reject the request.

        Raises:
            AdminError: no node runs, or it rejects the request.
            PrivateFileError: the directory of the socket is not private.
        """
        rejection = AdminError(
            "You run no WebSocket proxy on this machine: run the command on the machine of the proxy, or "
            "start one with mcpb proxy serve."
        )
        for record in endpoint.live_hosts(self._directory):
            try:
                return msgspec.json.decode(await self._ask(record, request), type=result)
            except AdminError as error:
                rejection = error
        raise rejection

    async def _ask(self, record: Record, request: Request) -> bytes:
        try:
            stream = await endpoint.connect(self._directory, record.instance)
            async with stream:
                await stream.send_all(msgspec.json.encode(request) + b"\n")
                response = _responses.decode(await _read_line(stream))
        except (OSError, trio.BrokenResourceError, *UNDECODABLE):
            raise AdminError(f"The WebSocket proxy (pid {record.pid}) does not respond.") from None
        if response.error:
            raise AdminError(response.error)
        return bytes(response.result)
