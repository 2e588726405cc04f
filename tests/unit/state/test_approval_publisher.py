"""Stored approvals as browsers get them."""

from __future__ import annotations

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
    with trio.fail_after(600):
        while len(transport.asked) == 2:  # noqa: ASYNC110 - a file is written in a thread
            await trio.sleep(1)
    (left,) = transport.asked[-1].params.approvals  # type: ignore[attr-defined]
    assert left.origin == "https://tea.example"
    assert not approvals.has(SHOP, "act", "Agent")
