"""F4 and F13: extensions, sandboxed processes and clients with another client's name at `mcpb serve`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain
from http_frontend import ENVELOPE, INITIALIZE, request, shake_hands, stateless
from logged_hosts import LoggedHosts

SOON_S = 90
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

MANIFEST = {
    "manifest_version": 3,
    "name": "Development server helper",
    "version": "1",
    "permissions": ["declarativeNetRequestWithHostAccess"],
    "host_permissions": ["http://localhost/*"],
    "background": {"service_worker": "worker.js"},
}
STRIP = """chrome.declarativeNetRequest.updateSessionRules({addRules: [{
    id: 1,
    condition: {urlFilter: "localhost", resourceTypes: ["xmlhttprequest", "other"]},
    action: {type: "modifyHeaders", requestHeaders: [
        "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-storage-access"
    ].map((header) => ({header, operation: "remove"}))},
}]})"""


class Answer(NamedTuple):
    status: int
    text: str


class Extension:
    """An extension with `http://localhost/*` alone, which removes what browsers say of its requests."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    async def post(self, url: str, **headers: str) -> Answer:
        """Initialize a session at `url`."""
        body = json.dumps(request(0, "initialize", INITIALIZE))
        options = {"method": "POST", "headers": {**JSON, **headers}, "body": body}
        script = (
            f"fetch({json.dumps(url)}, {json.dumps(options)}).then(async (r) => [r.status, await r.text()])"
        )
        return Answer(*await self._worker.evaluate(script))


@asynccontextmanager
async def attacking_extension(browser: Chromium, home: Path) -> AsyncIterator[Extension]:
    folder = home / "helper"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    (folder / "worker.js").write_text("")
    extension = await browser.load_extension(folder)
    with trio.fail_after(SOON_S):
        while not (found := await workers(browser, extension)):  # noqa: ASYNC110 - no event tells
            await trio.sleep(0.05)
    worker = await browser.attach(found[0])
    await worker.wait_until("Boolean(chrome.declarativeNetRequest)")  # a worker that starts has no APIs yet
    await worker.evaluate(STRIP)
    yield Extension(worker)


async def workers(browser: Chromium, extension: str) -> list[str]:
    targets = await browser.targets("service_worker")
    return [str(each["targetId"]) for each in targets if extension in str(each["url"])]


async def test_an_extension_that_strips_origin_is_rejected_with_and_without_the_token(
    chain: Chain, hosts: LoggedHosts
) -> None:
    """A20b."""
    with trio.fail_after(SOON_S):
        async with (
            chain.browser() as browser,
            chain.serving() as url,
            attacking_extension(browser, chain.home) as extension,
        ):
            await extension.post(hosts.url("localhost", "/probe"))
            (probe,) = [each for each in hosts.requests("localhost") if each.method == "POST"]
            assert not {"origin", "sec-fetch-site", "sec-fetch-mode"} & probe.headers.keys()
            at = url.replace("127.0.0.1", "localhost") + "/mcp"
            assert (await extension.post(at)).status == 401
            with_token = await extension.post(at, **chain.http_headers)
            assert with_token.status == 403
            assert "comes from a browser" in with_token.text


async def test_with_same_user_too_an_extension_is_rejected(chain: Chain) -> None:
    (chain.home / "config.toml").write_text('[http]\nauth = "same-user"\n')
    with trio.fail_after(SOON_S):
        async with (
            chain.browser() as browser,
            chain.serving() as url,
            attacking_extension(browser, chain.home) as extension,
        ):
            at = url.replace("127.0.0.1", "localhost") + "/mcp"
            for headers in ({}, chain.http_headers):
                assert (await extension.post(at, **headers)).status == 403
            async with httpx2.AsyncClient(base_url=url) as program:
                await shake_hands(program)


async def test_a_page_of_an_allowed_origin_uses_it_with_the_token_and_no_other_page(
    chain: Chain, hosts: LoggedHosts
) -> None:
    allowed, other = hosts.origin("shop.localhost"), hosts.origin("evil.localhost")
    (chain.home / "config.toml").write_text(f'[http]\ncors_origins = ["{allowed}"]\n')
    with trio.fail_after(SOON_S):
        async with chain.browser() as browser, chain.serving() as url:
            at = url.replace("127.0.0.1", "localhost") + "/mcp"
            page = Extension(await browser.open_page(f"{allowed}/"))
            answer = await page.post(at, **chain.http_headers)
            assert answer.status == 200
            assert '"protocolVersion"' in answer.text
            assert (await page.post(at)).status == 401
            foreign = Extension(await browser.open_page(f"{other}/"))
            with pytest.raises(Exception, match="Failed to fetch"):  # its preflight is rejected
                await foreign.post(at, **chain.http_headers)


SANDBOXED = """
import json, sys, urllib.error, urllib.request
url, body, headers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers))
    print(answer.status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc"]


def can_unshare() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_unshare(), reason="this machine allows no user, mount and pid namespaces")
async def test_a_sandboxed_process_of_this_user_gets_nothing_without_the_token(chain: Chain) -> None:
    """A24: no home, no socket, no token, but the network and the user id."""
    body = json.dumps(request(0, "initialize", INITIALIZE))
    program = [sys.executable, "-c", SANDBOXED]
    with trio.fail_after(SOON_S):
        async with chain.serving() as url:
            arguments = [f"{url}/mcp", body, json.dumps(JSON)]
            outside = await trio.run_process([*program, *arguments], capture_stdout=True)
            sandboxed = await trio.run_process([*UNSHARE, *program, *arguments], capture_stdout=True)
    assert (outside.stdout, sandboxed.stdout) == (b"401\n", b"401\n")


async def test_a_process_with_another_client_s_name_gets_nothing_of_that_client(
    chain: Chain, hosts: LoggedHosts
) -> None:
    """A57."""
    with trio.fail_after(SOON_S):
        async with chain.browser(), chain.serving() as url:
            while not (await chain.status())["browsers"]:  # noqa: ASYNC110 - a command tells nobody
                await trio.sleep(0.1)
            editor = await client_of(chain, url, "editor")
            other = await client_of(chain, url, "other")
            async with editor, other, httpx2.AsyncClient(base_url=url, timeout=SOON_S) as nobody:
                mail = hosts.set_page("mail.localhost", "/", "SECRET mail")
                opened = await call(editor, "navigate", url=mail)
                assert "mail.localhost" in opened
                assert "mail.localhost" in await call(editor, "tabs_context")
                assert "mail.localhost" not in await call(other, "tabs_context")
                assert "SECRET" in await call(editor, "get_page_text", tabId=tab_of(opened))
                assert "SECRET" not in await call(other, "get_page_text", tabId=tab_of(opened))
                asked = called("get_page_text", {"tabId": tab_of(opened)})
                assert (await nobody.post("/mcp", **asked)).status_code == 401


async def client_of(chain: Chain, url: str, name: str) -> httpx2.AsyncClient:
    """A client with a token of its own. All of them say the same name of themselves."""
    token = (await chain.mcpb("serve", "token", "add", name)).stdout.decode().strip()
    return httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=SOON_S)


def called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A request of 2026-07-28, by hand, whose response is JSON."""
    meta = {**ENVELOPE, "io.modelcontextprotocol/clientInfo": {"name": "editor", "version": "1"}}
    asked = request(1, "tools/call", {"_meta": meta, "name": tool, "arguments": arguments})
    return {"json": asked, "headers": {"Accept": "application/json", **stateless("tools/call", tool)}}


async def call(client: httpx2.AsyncClient, tool: str, **arguments: Any) -> str:
    """Everything that comes back."""
    answer = await client.post("/mcp", **called(tool, arguments))
    assert answer.status_code == 200, answer.text
    return "".join(block.get("text", "") for block in json.loads(answer.text)["result"]["content"])


def tab_of(answer: str) -> int:
    """The tab id that an answer of `navigate` names."""
    found = re.search(r"Tab (\d+)", answer)
    assert found, answer
    return int(found[1])
