"""`mcpb proxy serve` as a process, and foreign peers at it: the trio client of the package websockets."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import trio
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection, connect

from proxy_tokens import SECRET, hmac_token
from websocket_proxy.commands import proxy

SOON_S = 60
"""For a start, an end or a message, on a busy machine."""
POLL_S = 0.02
"""Seconds between two looks at what the process writes."""
MCPB = [sys.executable, "-m", "bridge"]
ISSUER, AUDIENCE = "https://login.example", "https://proxy.example"
Answer = Callable[[dict[str, Any]], Any]
"""Result of a request; None: it is not answered, or later."""
CONFIG = f"""
[[proxy.issuers]]
issuer = "{ISSUER}"
audience = "{AUDIENCE}"
secret_file = "{{secret}}"
"""


def write_config(home: Path, settings: str = "", *, home_issuer: bool = False) -> None:
    """Write config.toml with an issuer whose tokens `token_of` makes."""
    secret = home / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    home_setting = "home_issuer = true\n" if home_issuer else ""
    config = f"[proxy]\nadmin_port = 0\n{home_setting}{settings}\n{CONFIG.format(secret=secret)}"
    (home / "config.toml").write_text(config)


def token_of(user: str, role: str, **changed: Any) -> str:
    """A token of the issuer of `write_config`."""
    now = time.time()
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "user_id": user,
        "scope": f"mcpb:{role}",
        "connection_url": None,
        "iat": now,
        "exp": now + 3600,
    }
    return hmac_token(SECRET, **{**usual, **changed})


def run_command(*arguments: str, check: bool = True) -> str:
    """What `mcpb proxy …` prints."""
    command = [*MCPB, "proxy", *arguments]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=SOON_S, stdin=subprocess.DEVNULL, check=False
    )
    assert not check or run.returncode == 0, run.stderr
    return run.stdout if check else run.stderr


async def run_in_thread(*arguments: str, check: bool = True) -> str:
    """The same in this process, which is cheaper, while other tasks run."""
    run = await trio.to_thread.run_sync(lambda: CliRunner().invoke(proxy, arguments))
    assert not check or run.exit_code == 0, run.output
    return run.output


class ProxyNode:
    """A node that runs."""

    def __init__(
        self, process: trio.Process, log: Path, printed: str, tls: ssl.SSLContext | None = None
    ) -> None:
        self.process = process
        self.log = log
        self.printed = printed
        self.options: dict[str, Any] = {**OPTIONS, "ssl": tls} if tls else {**OPTIONS}
        behind = re.search(r"forwards to http(\S+)", printed)
        public = re.search(r"(wss?)(://\S+)/extension for", printed)
        assert public, printed
        self.base = f"ws{behind[1]}" if behind else public[1] + public[2]
        self.port = int(self.base.rpartition(":")[2])
        admin = re.search(r"State: (\S+)/metrics", printed)
        assert admin
        self.admin_url = admin[1]

    def read_log(self) -> list[dict[str, Any]]:
        """The lines of its log, as far as they are whole."""
        lines = self.log.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.read_log() if line["event"] == event]

    async def until_event(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines with an event, as soon as there are so many."""
        with trio.fail_after(SOON_S):
            while len(found := self.events(event)) < count:  # noqa: ASYNC110 - another process writes it
                await trio.sleep(POLL_S)
        return found

    async def until_metric(self, line: str) -> None:
        """Wait until the metrics have this line, without its prefix."""
        async with httpx2.AsyncClient(timeout=SOON_S, trust_env=False) as http:
            with trio.fail_after(SOON_S):
                while f"mcpb_proxy_{line}" not in (await self.read_metrics(http)):  # noqa: ASYNC110
                    await trio.sleep(POLL_S)

    async def read_metrics(self, http: httpx2.AsyncClient) -> list[str]:
        """The lines of its metrics."""
        text: str = (await http.get(f"{self.admin_url}/metrics")).text
        return text.splitlines()

    async def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status."""
        self.process.send_signal(by)
        with trio.fail_after(SOON_S):
            return await self.process.wait()

    # ── Peers ───────────────────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def extension(
        self,
        token: str | None = None,
        answer: Answer | None = None,
        renewals: Callable[[], str] | None = None,
        **credentials: Any,
    ) -> AsyncIterator[ForeignExtension]:
        """A foreign extension that is signed in.

        `answer` returns the result of a request, `renewals` the token for a later `authenticate`.
        """
        async with (
            connect(f"{self.base}/extension", **self.options) as socket,
            trio.open_nursery() as nursery,
        ):
            extension = ForeignExtension(socket, answer or (lambda message: {"method": message["method"]}))
            extension.renewals = renewals
            await extension.sign_in(token or token_of("alice", "extension"), **credentials)
            nursery.start_soon(extension.run)
            yield extension
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def client(self, token: str | None = None, **handshake: Any) -> AsyncIterator[ForeignClient]:
        """A foreign client that is signed in."""
        async with connect(f"{self.base}/mcp", **self.options) as socket:
            client = ForeignClient(socket)
            client.opened = await client.ask(
                "mcp_handshake", accessToken=token or token_of("alice", "client"), **handshake
            )
            yield client


OPTIONS: Mapping[str, Any] = {
    "compression": None,
    "max_size": None,
    "ping_interval": None,
    "close_timeout": 2,
    "open_timeout": SOON_S,
    "proxy": None,
}


class _ForeignPeer:
    """One end of a WebSocket, in JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    async def try_send(self, **message: Any) -> bool:
        """Send a message; return whether the connection is open."""
        try:
            await self.send(**message)
        except ConnectionClosed:
            return False
        return True

    def read(self, message: str | bytes) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(message)
        return found

    async def receive(self) -> Any:
        with trio.fail_after(SOON_S):
            return json.loads(await self.socket.recv())

    async def wait_end(self) -> tuple[int, str]:
        """How the other end closes, whatever comes before."""
        with trio.fail_after(SOON_S):
            with suppress(ConnectionClosed):
                while True:
                    await self.socket.recv()
        return self.socket.close_code or 1006, self.socket.close_reason or ""


class ForeignExtension(_ForeignPeer):
    """A foreign extension: answers each request, and keeps the messages that it receives."""

    def __init__(self, socket: ClientConnection, answer: Answer) -> None:
        super().__init__(socket)
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.extension_id = ""
        self.closed: tuple[int, str] | None = None
        self.changed = trio.Event()
        self.renewals: Callable[[], str] | None = None
        """Makes the token for a later `authenticate`; None: such requests are not answered."""

    async def sign_in(self, token: str, **credentials: Any) -> None:
        asked = await self.receive()
        assert (asked["id"], asked["method"]) == ("proxy:1", "authenticate")
        await self.send(id="proxy:1", result={"name": "Chrome 141", "accessToken": token, **credentials})
        confirmed = await self.receive()
        assert confirmed["method"] == "authenticated", confirmed
        self.extension_id = confirmed["params"]["extension_id"]

    async def run(self) -> None:
        """Answer requests until the end."""
        try:
            while True:
                await self._handle(json.loads(await self.socket.recv()))
        except ConnectionClosed as error:
            received = error.rcvd
            self.closed = (received.code, received.reason) if received else (1006, "")
            self._wake()

    async def _handle(self, message: dict[str, Any]) -> None:
        if message.get("method") == "authenticate":
            if self.renewals:
                await self.send(id=message["id"], result={"name": "Chrome", "accessToken": self.renewals()})
        elif "id" in message and "method" in message:
            self.requests.append(message)
            result = self.answer(message)
            if result is not None:
                await self.send(id=message["id"], result=result)
        else:
            self.notifications.append(message)
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, condition: Callable[[Self], bool]) -> None:
        """Wait until what it has received meets a condition."""
        with trio.fail_after(SOON_S):
            while not condition(self):
                await self.changed.wait()

    async def until_closed(self) -> tuple[int, str]:
        await self.until(lambda self: self.closed is not None)
        assert self.closed
        return self.closed


class ForeignClient(_ForeignPeer):
    """A foreign client."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__(socket)
        self.numbers = itertools.count(1)
        self.opened: dict[str, Any] = {}
        """Response to its handshake."""
        self.notifications: list[dict[str, Any]] = []
        self.connection_id = ""

    async def receive_response(self) -> dict[str, Any]:
        """The next response; notifications before it are kept."""
        while "id" not in (message := await self.receive()):
            self.notifications.append(message)
        found: dict[str, Any] = message
        return found

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The response to a request."""
        await self.send(id=(number := next(self.numbers)), method=method, params=params)
        response = await self.receive_response()
        assert response["id"] == number, response
        return response

    async def connect(self, extension: ForeignExtension | str) -> str:
        """Connect; return the id of the connection."""
        name = extension if isinstance(extension, str) else extension.extension_id
        response = await self.ask("connect", extension_id=name)
        self.connection_id = response["result"]["connection_id"]
        return self.connection_id


@asynccontextmanager
async def running_node(
    home: Path, *arguments: str, tls: ssl.SSLContext | None = None, program: Sequence[str] = MCPB
) -> AsyncIterator[ProxyNode]:
    """`mcpb proxy serve` with this home, from where peers can connect; `program` runs in place of `mcpb`."""
    log = home / "proxy.log"
    command = [*program, "proxy", "serve", "--port", "0", "--json", *arguments]
    environment = {**os.environ, "MCPB_HOME": str(home)}
    with log.open("ab") as stderr:
        process = await trio.lowlevel.open_process(
            command, stdout=subprocess.PIPE, stderr=stderr, env=environment
        )
    assert process.stdout
    try:
        printed = ""
        with trio.fail_after(SOON_S):
            while "Ctrl-C" not in printed:  # all lines are written at once
                received = await process.stdout.receive_some()
                assert received, log.read_text()
                printed += received.decode()
        yield ProxyNode(process, log, printed, tls)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
