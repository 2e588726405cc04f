"""Start of `mcpb proxy serve`: safe without configuration, and a reason when it does not start."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from certificates import make_certificate
from proxy_node import SOON_S, ProxyNode, run_command, run_in_thread, running_node, write_config
from raw_websocket import raw_connected, raw_opened
from websocket_proxy.commands import proxy

PAGE = "http://localhost:8080"
EXTENSION = "chrome-extension://mdbjmjdkhcpbkmkejfbiilldeekmlpgl"


def find_listeners(node: ProxyNode) -> set[str]:
    """Addresses at which its process listens, as the kernel reports them."""
    inodes = set()
    for descriptor in Path(f"/proc/{node.process.pid}/fd").iterdir():
        target = str(descriptor.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{node.process.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "00000000000000000000000001000000"}
"""127.0.0.1 and ::1, as the kernel writes them."""


async def test_without_configuration_it_listens_on_loopback_and_every_client_needs_a_token(
    mcpb_home: Path,
) -> None:
    async with running_node(mcpb_home) as node:
        assert find_listeners(node) <= LOOPBACK
        assert "proxy approve" in node.printed
        rejected = {"missing": {}, "malformed": {"accessToken": "x"}}
        for reason, params in rejected.items():
            async with raw_connected(f"{node.base}/mcp") as peer:
                await peer.send(id=1, method="mcp_handshake", params=params)
                error = (await peer.receive())["error"]
                assert (error["code"], error["data"]["reason"]) == (-32000, reason)
                assert await peer.wait_code() == 1008
        token = (await run_in_thread("token", "--scope", "client")).strip()
        async with node.client(token) as client:
            assert client.opened["result"]["authenticated"]
        await reject_requests(node)
        await show_state(node)
        second = await run_in_thread("serve", "--port", "0", check=False)
        assert "another `mcpb proxy serve`" in second
        assert await node.end() == 0


async def reject_requests(node: ProxyNode) -> None:
    """Each request that is rejected before the upgrade has its status."""
    cases: list[tuple[str, Mapping[str, str], int]] = [
        ("/mcp", {"Origin": PAGE}, 403),
        ("/mcp", {"Origin": EXTENSION}, 403),
        ("/extension", {"Origin": PAGE}, 403),
        ("/extension", {"Origin": "https://shop.example"}, 403),
        ("/extension", {"Origin": EXTENSION}, 101),
        ("/mcp", {"Host": "shop.example"}, 421),
        ("/mcp", {"Host": f"rebound.example:{node.port}"}, 421),
        ("/extension", {"Host": "localhost:1"}, 421),
        ("/", {}, 404),
        ("/mcp/", {}, 404),
        ("/mcp", {"Upgrade": "h2c"}, 426),
    ]
    for path, headers, status in cases:
        async with raw_opened(f"{node.base}{path}", headers=dict(headers)) as (response, _):
            assert response.status_code == status, (path, headers)
            if status == 426:
                assert response.headers["Upgrade"] == "websocket"


async def show_state(node: ProxyNode) -> None:
    """Health, metrics and `mcpb proxy status`: they name no user."""
    async with httpx2.AsyncClient(timeout=SOON_S, trust_env=False) as http:
        for path in ("/health", "/ready"):
            assert (await http.get(f"{node.admin_url}{path}")).status_code == 200
        metrics = await node.read_metrics(http)
        assert 'mcpb_proxy_rejected_tokens_total{reason="missing"} 1' in metrics
        rejected = await http.get(f"{node.admin_url}/metrics", headers={"Host": "rebound.example"})
        assert rejected.status_code == 421
    status = json.loads(await run_in_thread("status", "--json"))
    assert status["user_id"] not in "\n".join(metrics)
    assert (status["client_url"], status["waiting_sign_ins"]) == (f"{node.base}/mcp", 0)


def test_another_address_than_loopback_needs_encryption(mcpb_home: Path) -> None:
    said = run_command("serve", "--port", "0", "--host", "0.0.0.0", check=False)
    assert "--tls-cert" in said
    assert "--behind-tls-proxy" in said


@pytest.mark.parametrize(
    ("settings", "arguments", "reasons"),
    [
        ("", ["--host", "192.0.2.1"], ["--tls-cert", "--behind-tls-proxy"]),
        ("", ["--behind-tls-proxy"], ["--public-url"]),
        ("", ["--tls-cert", "cert.pem"], ["--tls-key"]),
        ("", ["--tls-cert", "missing.pem", "--tls-key", "missing.key"], ["missing.pem"]),
        ("", ["--public-url", "http://proxy.example"], ["--public-url", "https://"]),
        ("", ["--host", "http://localhost"], ["--host"]),
        ("sockets = 0", [], ["proxy.sockets", "line 3"]),
        ("direct_port = 5555", [], ["direct_port", "home_issuer"]),
    ],
)
def test_it_does_not_start_with_unsafe_or_wrong_settings(
    mcpb_home: Path, settings: str, arguments: list[str], reasons: list[str]
) -> None:
    if settings:
        write_config(mcpb_home, settings)
    run = CliRunner().invoke(proxy, ["serve", "--port", "0", *arguments])
    assert run.exit_code > 0
    assert all(reason in run.output for reason in reasons), run.output


def test_a_busy_port_is_named(mcpb_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        run = CliRunner().invoke(proxy, ["serve", "--port", str(port)])
    assert run.exit_code == 1
    assert f"Port {port} is in use" in run.output


async def test_with_a_certificate_it_listens_everywhere_and_rereads_it_on_sighup(mcpb_home: Path) -> None:
    write_config(mcpb_home)
    first, second = make_certificate(mcpb_home), make_certificate(mcpb_home, "second")
    options = ["--host", "0.0.0.0", "--tls-cert", str(first.certificate), "--tls-key", str(first.key)]
    async with running_node(mcpb_home, *options, tls=first.client_context()) as node:
        assert node.base == f"wss://localhost:{node.port}"
        async with node.extension() as extension, node.client() as client:
            await client.connect(extension)
            shutil.copy(second.certificate, first.certificate)
            shutil.copy(second.key, first.key)
            node.process.send_signal(signal.SIGHUP)
            await node.until_event("certificate-reloaded")
            assert (await client.ask("getTabs"))["result"] == {"method": "getTabs"}
        context = ssl.create_default_context(cafile=str(second.certificate))
        node.options["ssl"] = context
        async with node.client():
            pass
        first.key.write_text("damaged")
        node.process.send_signal(signal.SIGHUP)
        (problem,) = await node.until_event("log")
        assert problem["level"] == "error"
        async with node.client():
            pass


async def test_behind_a_tls_proxy_addresses_come_from_its_header(mcpb_home: Path) -> None:
    write_config(mcpb_home, "unauthenticated_sockets_per_address = 1")
    options = ["--behind-tls-proxy", "--public-url", "https://proxy.example"]
    async with running_node(mcpb_home, *options) as node:
        url = f"{node.base}/mcp"

        def headers(address: str) -> dict[str, str]:
            return {"Host": "proxy.example", "X-Forwarded-For": address}

        async with raw_opened(url, headers=headers("192.0.2.1")) as (first, _):
            assert first.status_code == 101
            async with raw_opened(url, headers=headers("198.51.100.7, 192.0.2.1")) as (second, _):
                assert second.status_code == 429
                assert int(second.headers["Retry-After"]) > 0
            async with raw_opened(url, headers=headers("192.0.2.1, 198.51.100.7")) as (other, _):
                assert other.status_code == 101
        (rejected,) = await node.until_event("rejected")
        assert rejected["address"] == "192.0.2.1"
