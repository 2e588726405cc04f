"""HTTPS: the mcp package's client and curl call it, and what clients without good intentions get."""

from __future__ import annotations

import json
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import httpx2
import mcp
import pytest
import trio
import trio.testing
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bridge.state.server_record import ServeRecord, find_running, publish_record
from certificates import Certified, make_certificate
from demo.simulated.browser import SimulatedBrowser
from http_frontend import CLOSES_EARLY, hello, serving_app
from http_serving import http_connection
from http_serving.http_connection import UpgradeRequest
from http_serving.http_server import ConnectionLimits
from raw_http import RawClient, connected, head
from serve_process import MCPB, SOON_S, serving
from wire_peers import HOST_COMMAND

pytestmark = CLOSES_EARLY

TOOL = "website_tool_localhost_8123_tab1_echo"
MEGABYTE = "x" * 1_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return make_certificate(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def secured(port: int, made: Certified) -> AsyncIterator[RawClient]:
    """A connection by hand, after its handshake."""
    async with connected(port) as client:
        stream = trio.SSLStream(client.stream, made.client_context(), server_hostname="localhost")
        with trio.fail_after(SOON_S):
            await stream.do_handshake()
        yield RawClient(cast("trio.SocketStream", stream))


async def run(*command: str, stdin: bytes = b"") -> str:
    """The standard output of a command that succeeds."""
    with trio.fail_after(SOON_S):
        done = await trio.run_process(command, stdin=stdin, capture_stdout=True, capture_stderr=True)
    return done.stdout.decode()


# ── Clients ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_mcp_package_calls_over_https(mcpb_home: Path, made: Certified) -> None:
    """Both transports, both eras, with a result of a megabyte."""

    async def echo(arguments: dict[str, Any]) -> str:
        return str(arguments["text"])

    def client_for(
        headers: dict[str, str] | None = None, timeout: object = None, auth: object = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=SOON_S, verify=made.client_context())

    async with SimulatedBrowser(HOST_COMMAND) as browser, serving(*made.options) as server:
        browser.add_tab("http://localhost:8123/", "Shop").offer("echo", echo)
        bearer = {"Authorization": f"Bearer {(mcpb_home / 'state/http-token').read_text().strip()}"}
        url = f"https://localhost:{server.port}"
        assert f"MCP is served at {url}/mcp" in server.said
        async with client_for(bearer) as http:
            for over, mode in (
                (streamable_http_client(f"{url}/mcp", http_client=http), "legacy"),
                (streamable_http_client(f"{url}/mcp", http_client=http), "auto"),
                (sse_client(f"{url}/sse", bearer, httpx_client_factory=client_for), "legacy"),
            ):
                with trio.fail_after(SOON_S):
                    async with mcp.Client(over, mode=mode) as client:
                        await client.list_tools()
                        result = await client.call_tool(TOOL, {"text": MEGABYTE})
                assert MEGABYTE in str(result.content[0])


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
async def test_curl_calls_over_https_and_http_is_told_to(mcpb_home: Path, made: Certified) -> None:
    async with serving(*made.options) as server:
        trusting = ["curl", "-sS", "--cacert", str(made.certificate)]
        url = f"https://localhost:{server.port}"
        assert json.loads(await run(*trusting, f"{url}/health"))["status"] == "ok"
        bearer = b"Authorization: Bearer " + (mcpb_home / "state/http-token").read_bytes()
        tools = json.loads(await run(*trusting, "-H", "@-", f"{url}/tools", stdin=bearer))["tools"]
        assert "list_page_tools" in {tool["name"] for tool in tools}
        plain = json.loads(await run("curl", "-sS", f"http://localhost:{server.port}/health"))
        assert "use https://" in plain["error"]["message"]
        distrusting = await trio.run_process(["curl", "-sS", url], check=False, capture_stderr=True)
        assert distrusting.returncode == 60  # a certificate that it does not know


async def test_commands_know_the_server_by_its_https_url(mcpb_home: Path, made: Certified) -> None:
    async with serving(*made.options) as server:
        url = f"https://localhost:{server.port}/"
        assert f"mcpb serve  {url} · pid {server.process.pid} · needs a token\n" in await run(*MCPB, "status")
        assert f"{url}mcp" in await run(*MCPB, "serve", "--print-config", "claude-code")
        link = (await run(*MCPB, "status", "--web", "--no-open")).split()[-1]
        assert link.startswith(f"{url}open?code=")
        async with httpx2.AsyncClient(verify=made.client_context()) as browser:
            opened = await browser.get(link)
            cookie = opened.headers["set-cookie"]
            assert (opened.status_code, "; Secure" in cookie) == (303, True)
            origin = {"Origin": url.rstrip("/"), "X-Mcpb-Page": "1"}
            said = {"paused": True, "site": "bank.example"}
            assert (await browser.post(f"{url}page/pause", json=said, headers=origin)).status_code == 200
            cleartext = origin | {"Origin": f"http://localhost:{server.port}"}
            assert (await browser.post(f"{url}page/pause", json=said, headers=cleartext)).status_code == 403


async def test_the_status_page_is_opened_at_a_server_with_a_chain(mcpb_home: Path, tmp_path: Path) -> None:
    root = make_certificate(tmp_path, "root")
    chain = make_certificate(tmp_path, "server", make_certificate(tmp_path, "issuer", root))
    async with serving(*chain.options) as server:
        link = (await run(*MCPB, "status", "--web", "--no-open")).split()[-1]
        assert link.startswith(f"https://localhost:{server.port}/open?code=")


@pytest.mark.parametrize("certified", ["other", "issuer"])
async def test_the_token_is_not_sent_to_another_server_with_a_certificate_of_that_issuer(
    mcpb_home: Path, tmp_path: Path, certified: str
) -> None:
    issuer = make_certificate(tmp_path, "issuer")
    chain = make_certificate(tmp_path, "server", issuer)
    impostor = {"issuer": issuer, "other": make_certificate(tmp_path, "other", issuer)}[certified]
    received: list[str] = []

    async def receiving(scope: Scope, receive: Receive, send: Send) -> None:
        received.append(scope["path"])
        await hello(scope, receive, send)

    async with serving_app(receiving, tls=impostor.server_context()) as port:
        url = f"https://localhost:{port}/"
        found = ServeRecord(pid=os.getpid(), url=url, started_at=1.0, certificate=str(chain.certificate))
        with publish_record(mcpb_home / "state", found), trio.fail_after(SOON_S):
            command = [*MCPB, "status", "--web", "--no-open"]
            done = await trio.run_process(command, check=False, capture_stderr=True)
    assert (done.returncode, received) == (1, [])
    assert f": it does not have the certificate in {chain.certificate}. End it" in done.stderr.decode()


async def test_the_unix_socket_is_not_encrypted(mcpb_home: Path, made: Certified) -> None:
    path = mcpb_home / "http" / "mcp.sock"
    async with serving(*made.options, "--socket", str(path)):
        client = RawClient(await trio.open_unix_socket(path))
        async with client.stream:
            await client.say(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await client.answer()).status == 200


async def test_the_configuration_names_the_files(mcpb_home: Path, made: Certified) -> None:
    (mcpb_home / "config.toml").write_text(
        f'[http]\ncertificate = "{made.certificate}"\nkey = "{made.key}"\nhost = "0.0.0.0"\n'
    )
    async with serving() as server:
        found = find_running(mcpb_home / "state")
        assert found
        assert (found.certificate, found.is_exposed) == (str(made.certificate), False)
        assert "The connection is not encrypted" not in server.said


async def test_beyond_loopback_without_tls_it_says_so_at_start_and_in_status(mcpb_home: Path) -> None:
    async with serving("--host", "0.0.0.0") as server:
        assert "The connection is not encrypted: add --certificate FILE --key FILE." in server.said
        assert "needs a token · other machines can reach it, and nothing is encrypted\n" in await run(
            *MCPB, "status"
        )


@pytest.mark.parametrize("option", ["--certificate", "--key"])
async def test_one_file_of_the_two_is_not_enough(mcpb_home: Path, made: Certified, option: str) -> None:
    command = [*MCPB, "serve", option, str(made.key)]
    done = await trio.run_process(command, check=False, capture_stderr=True)
    assert (done.returncode, b"belong together" in done.stderr) == (1, True)


# ── Connections ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_requests_of_one_connection_are_answered_until_the_server_closes_in_order(
    made: Certified,
) -> None:
    until = trio.Event()
    context = made.server_context()
    async with serving_app(hello, until=until, tls=context) as port, secured(port, made) as client:
        for _ in range(3):
            await client.say(head("POST /", port=port, Content_Length="3000000") + b"x" * 3_000_000)
            assert (await client.answer()).body == b"hello"
        until.set()
        assert await client.until_end() == b""  # trio raises for a truncated end


@pytest.mark.parametrize("way", ["in order", "truncated", "garbage"])
async def test_the_end_of_a_client_ends_its_stream(made: Certified, way: str) -> None:
    ended = trio.Event()

    async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    async with serving_app(streaming, tls=made.server_context()) as port, connected(port) as client:
        stream = trio.SSLStream(
            client.stream, made.client_context(), server_hostname="localhost", https_compatible=True
        )
        await stream.send_all(head(port=port))
        received = b""
        with trio.fail_after(SOON_S):
            while b": hello\n\n" not in received:
                received += await stream.receive_some()
            match way:
                case "in order":
                    await stream.aclose()
                case "truncated":
                    await client.stream.aclose()
                case "garbage":
                    await client.say(b"GET / HTTP/1.1\r\n\r\n")
            await ended.wait()


async def test_http_without_tls_gets_the_reason(made: Certified) -> None:
    async with serving_app(hello, tls=made.server_context()) as port, connected(port) as client:
        await client.say(head(port=port))
        answer = await client.answer()
        assert (answer.status, "use https://" in answer.why) == (400, True)
        assert await client.is_closed()


@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
async def test_a_handshake_that_stalls_ends_with_the_time_for_the_first_request(
    autojump_clock: trio.testing.MockClock, made: Certified, said: bytes
) -> None:
    async with serving_app(hello, tls=made.server_context()) as port, connected(port) as client:
        if said:
            await client.say(said)
        with trio.move_on_after(http_connection.FIRST_BYTE_S - 1):
            raise AssertionError(await client.stream.receive_some())
        await trio.sleep(1)
        assert await client.until_end() == b""


async def test_stalled_handshakes_give_way_to_a_new_client(made: Certified) -> None:
    context = made.server_context()
    async with (
        serving_app(hello, ConnectionLimits(total=2), tls=context) as port,
        AsyncExitStack() as stalled,
    ):
        for _ in range(2):
            client = await stalled.enter_async_context(connected(port))
            await client.say(b"\x16\x03")
        async with secured(port, made) as client:
            await client.say(head(port=port))
            assert (await client.answer()).status == 200


async def test_a_client_that_takes_nothing_of_a_long_answer_is_cut_off(
    autojump_clock: trio.testing.MockClock, made: Certified
) -> None:
    async def long(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(b"x" * 64 * 1024 * 1024)(scope, receive, send)

    async with serving_app(long, tls=made.server_context()) as port, secured(port, made) as client:
        await client.say(head(port=port))
        await trio.sleep(http_connection.STALLED_S + 1)
        with pytest.raises(trio.BrokenResourceError):
            await client.until_end()


async def test_a_client_over_a_limit_is_closed_without_a_handshake(made: Certified) -> None:
    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        await trio.sleep_forever()

    limits = ConnectionLimits(total=1)
    async with serving_app(waiting, limits, tls=made.server_context()) as port, secured(port, made) as busy:
        await busy.say(head(port=port))
        assert (await busy.head())[0] == 200
        async with connected(port) as other:
            assert await other.until_end() == b""


async def test_an_upgrade_handler_gets_the_channel(made: Certified) -> None:
    async def echo(upgrade: UpgradeRequest) -> None:
        assert upgrade.tls
        answer = b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + upgrade.received
        await upgrade.stream.send_all(upgrade.tls.encrypt(answer))
        more = upgrade.tls.decrypt(await upgrade.stream.receive_some())
        await upgrade.stream.send_all(upgrade.tls.encrypt(more))
        upgrade.tls.close()
        await upgrade.stream.send_all(upgrade.tls.take_outgoing())

    context = made.server_context()
    async with serving_app(hello, handle_upgrade=echo, tls=context) as port, secured(port, made) as client:
        await client.say(head("GET /socket", port=port, Connection="Upgrade", Upgrade="websocket") + b"one,")
        assert (await client.head())[0] == 101
        await client.say(b"two")
        assert await client.until_end() == b"one,two"


async def test_a_client_that_rejects_the_certificate_leaves_others_alone(made: Certified) -> None:
    async with serving_app(hello, tls=made.server_context()) as port:
        async with connected(port) as client:
            stream = trio.SSLStream(client.stream, ssl.create_default_context(), server_hostname="localhost")
            with suppress(trio.BrokenResourceError):
                await stream.do_handshake()
        async with secured(port, made) as client:
            await client.say(head(port=port))
            assert (await client.answer()).status == 200
