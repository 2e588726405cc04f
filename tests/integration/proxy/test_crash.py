"""Home issuer killed while it issues tokens: the last token that a client received stays usable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import trio

from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.protocol import Role
from websocket_proxy.token_store import open_store

URL = "http://localhost:8765"
SIGN_IN_AND_REFRESH = """
import sys
from pathlib import Path
import trio
from websocket_proxy.protocol import Role
from websocket_proxy.issuer_service import IssuerService
from websocket_proxy.token_store import open_store

async def main():
    with open_store(Path(sys.argv[1])) as store:
        service = IssuerService(store, "http://localhost:8765")
        code, sign_in = service.begin_sign_in("cli", "", Role.CLIENT, "127.0.0.1")
        service.approve(sign_in.user_code)
        response = await service.exchange_device_code(code, "cli")
        while True:
            print(response.refresh_token, flush=True)
            response = await service.refresh(response.refresh_token, "cli")

trio.run(main)
"""


async def test_after_a_kill_the_last_refresh_token_is_accepted(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SIGN_IN_AND_REFRESH, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        first = [await trio.to_thread.run_sync(process.stdout.readline) for _ in range(20)]
        process.kill()
        rest = await trio.to_thread.run_sync(process.stdout.read)
    tokens = [line.decode() for line in b"".join([*first, rest]).split(b"\n")[:-1]]
    assert len(set(tokens)) == len(tokens) >= 20
    with open_store(tmp_path) as store:
        service = IssuerService(store, URL)
        response = await service.refresh(tokens[-1], "cli")
        found = await service.refresh(response.refresh_token, "cli")
        assert found.scope == Role.CLIENT
        (family,) = service.families()
        assert family.number >= len(tokens)
