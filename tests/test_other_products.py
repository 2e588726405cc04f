"""Another product's native hosts, wrapper, sockets and traffic: what we do changes nothing of them.

It is played by an extension of its own in the same browser, as its users have it: two host names of which one
is not installed, a wrapper in the home directory, a socket in a folder of the temporary directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from chain import EXTENSION, Chain, call, until_listed
from demo.chromium import Chromium, open_chromium
from native_host.wire import HOST_NAME

pytestmark = pytest.mark.chromium

PRODUCT = Path(__file__).parent / "other_product"
THEIR_EXTENSION = "fkhnhnaadoppcpeoobkanonjbpcakgfb"
THEIR_HOST = "com.anthropic.claude_code_browser_extension"
THEIR_OTHER_HOST = "com.anthropic.claude_browser_extension"


@dataclass
class OtherProduct:
    """What it has on the disk and in the browser."""

    home: Path
    profile: Path
    sockets: Path
    answered: int = 0
    wrong: list[Any] = field(default_factory=list)

    @property
    def manifests(self) -> Path:
        return self.profile / "NativeMessagingHosts"

    def install(self) -> None:
        wrapper = self.home / ".claude/chrome/chrome-native-host"
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PRODUCT}/host.py" "{self.sockets}"\n')
        wrapper.chmod(0o755)
        self.manifests.mkdir(parents=True)
        self._register(THEIR_HOST, wrapper)
        self._register(THEIR_OTHER_HOST, self.home / "Applications/gone/chrome-native-host")

    def _register(self, name: str, program: Path) -> None:
        manifest = {
            "name": name,
            "description": "another product",
            "path": str(program),
            "type": "stdio",
            "allowed_origins": [f"chrome-extension://{THEIR_EXTENSION}/"],
        }
        (self.manifests / f"{name}.json").write_text(json.dumps(manifest))

    def everything(self) -> dict[str, tuple[object, ...]]:
        """Each of its files: content, mode, inode, time of the last change."""
        files = [*(self.home / ".claude").rglob("*"), *self.manifests.glob("com.*"), *self.sockets.iterdir()]
        return {str(path): _state(path) for path in sorted(files)}

    @asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """A client of its own that calls and calls, and looks at each answer."""
        with trio.fail_after(10):
            while not list(self.sockets.glob("*.sock")):  # noqa: ASYNC110 - its host tells nobody
                await trio.sleep(0.02)
        (path,) = self.sockets.glob("*.sock")
        async with await trio.open_unix_socket(path) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_calling, stream)
            yield
            with trio.fail_after(5):
                target = self.answered + 20
                while self.answered < target:  # noqa: ASYNC110 - it still works when we have gone
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    async def _keep_calling(self, stream: trio.SocketStream) -> None:
        for number in range(1_000_000):
            params = {"client_id": "theirs", "tool": "echo", "args": {"text": str(number)}}
            body = json.dumps({"method": "execute_tool", "params": params}).encode()
            await stream.send_all(struct.pack("<I", len(body)) + body)
            answer = json.loads(await _exactly(stream, struct.unpack("<I", await _exactly(stream, 4))[0]))
            if answer == {"result": {"content": f"echo: {number}"}}:
                self.answered += 1
            else:
                self.wrong.append(answer)
            await trio.sleep(0.002)


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        assert more, "the other product's host closed its socket"
        data += more
    return data


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(found.st_mode) else ""
    return content, found.st_mode, found.st_ino, found.st_mtime_ns


@pytest.fixture
def other(chain: Chain) -> Iterator[OtherProduct]:
    sockets = Path(f"/tmp/claude-mcp-browser-bridge-test{os.getpid()}")
    product = OtherProduct(chain.home, chain.home / "profile", sockets)
    product.install()
    yield product
    shutil.rmtree(sockets)


@pytest.fixture
async def both(chain: Chain, other: OtherProduct) -> AsyncIterator[Chromium]:
    """A Chromium in which both products' extensions are loaded, and so far only theirs is installed."""
    async with open_chromium(other.profile, env={"TMPDIR": str(chain.home)}) as chromium:
        assert await chromium.load_extension(PRODUCT) == THEIR_EXTENSION
        yield chromium


async def test_another_product_works_on_unchanged_while_ours_is_installed_used_and_removed(
    chain: Chain, other: OtherProduct, both: Chromium
) -> None:
    profile = ["--user-data-dir", str(other.profile)]
    with trio.fail_after(60):
        async with other.in_use():
            before = other.everything()
            await chain.mcpb("install-native-host", *profile, "--yes")
            await both.load_extension(EXTENSION)
            await chain.open(both, "tabserver.html")
            async with chain.client() as client:
                await until_listed(client, lambda names: chain.name("echo") in names)
                for number in range(50):
                    answer = await call(client, chain.name("echo"), text=str(number))
                    assert answer == (False, f"echo: {number}")
            await chain.mcpb("doctor", check=False)
            await chain.mcpb("uninstall-native-host", "--yes")
            assert not (other.manifests / f"{HOST_NAME}.json").exists()
            assert other.everything() == before
    assert other.wrong == []
    assert other.answered > 20


async def test_the_doctor_names_the_other_product_s_hosts_as_information(
    chain: Chain, other: OtherProduct, both: Chromium
) -> None:
    await chain.mcpb("install-native-host", "--user-data-dir", str(other.profile), "--yes")
    report = (await chain.mcpb("doctor", check=False)).stdout.decode()
    assert THEIR_HOST in report
    assert THEIR_OTHER_HOST in report
