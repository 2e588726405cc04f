"""Stored approvals as browsers get them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from bridge.hub.registry import Registry
from bridge.hub.transport import HostDiscovered, HostLinked
from bridge.state.approval_publisher import COMMAND, ApprovalPublisher
from bridge.state.site_approvals import Approvals
from fake_transport import PlayedTransport, browser_hello, host_hello
from native_host.protocol import wire

SHOP = "https://shop.example"


@pytest.fixture
def transport() -> PlayedTransport:
    played = PlayedTransport()
    played.answer = None
    return played


def connect(transport: PlayedTransport, host: str, *commands: str) -> None:
    hello = msgspec.structs.replace(
        browser_hello(host), capabilities=wire.Capabilities(commands=list(commands))
    )
    transport.happen(HostDiscovered(host, 1.0), HostLinked(host, host_hello(host)))
    transport.announce(host, hello, wire.HostReplayed())


async def until_real(condition: Callable[[], bool]) -> None:
    """Wait for what a thread does: the clock of the test jumps ahead of threads."""
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at
        await trio.sleep(1)
        await trio.to_thread.run_sync(time.sleep, 0.01)


async def test_lists_follow_the_file_and_a_revocation_in_the_popup_changes_it(
    tmp_path: Path, transport: PlayedTransport, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    registry, approvals = Registry(), Approvals(tmp_path / "state")
    transport.set_listener(lambda event: registry.on_event(event, 0))
    connect(transport, "new", COMMAND)
    connect(transport, "old", "forwardCDPCommand")
    approvals.grant([SHOP], ["act"], client="Agent")
    nursery.start_soon(ApprovalPublisher(registry, transport, approvals).run)
    await trio.sleep(10)
    (first,) = transport.asked
    listed = wire.SiteApproval(origin=SHOP, words=["act"], client="Agent")
    assert (first.tab.host, first.params) == ("new", wire.SiteApprovals(approvals=[listed]))
    approvals.grant(["https://tea.example"], ["read"])
    await trio.sleep(10)
    first, second = transport.asked
    assert transport.given_up == [first]
    second.on_done(msgspec.json.encode(listed))
    await until_real(lambda: len(transport.asked) > 2)
    (left,) = transport.asked[-1].params.approvals  # type: ignore[attr-defined]
    assert left.origin == "https://tea.example"
    assert not approvals.has(SHOP, "act", "Agent")
