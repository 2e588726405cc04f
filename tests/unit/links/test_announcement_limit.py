"""Bytes of the announcements of a browser at a WebSocket proxy."""

from __future__ import annotations

import pytest

from bridge.links.browsers import announcement_limit
from bridge.links.browsers.announcement_limit import AnnouncementLimit
from bridge.links.browsers.host_connection import LinkError
from native_host.protocol import wire


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> AnnouncementLimit:
    """A limit for two frames and some tabs."""
    monkeypatch.setattr(announcement_limit, "MAX_BYTES", 10_000)
    return AnnouncementLimit()


def frame_of(tab_id: int) -> wire.FrameTools:
    return wire.FrameTools(
        tab_id=tab_id, frame_id=0, document_id="d1", origin="https://shop.example", url="u" * 4_000, tools=[]
    )


def address_of(tab_id: int, document_id: str = "d1") -> wire.FrameAddress:
    return wire.FrameAddress(tab_id=tab_id, frame_id=0, document_id=document_id)


def test_what_is_replaced_or_withdrawn_does_not_count(limit: AnnouncementLimit) -> None:
    for _ in range(4):
        limit.add(frame_of(1))
        limit.add(frame_of(2))
        limit.add(address_of(2))
        limit.add(frame_of(3))
        limit.add(wire.TabRemoved(tab_id=3))
        limit.add(frame_of(4))
        limit.add(wire.Tabs(tabs=[]))


@pytest.mark.parametrize("withdrawn", [address_of(2, "other"), address_of(9), wire.TabRemoved(tab_id=9)])
def test_the_announcement_that_is_too_much_is_rejected(
    limit: AnnouncementLimit, withdrawn: wire.Wire
) -> None:
    limit.add(frame_of(1))
    limit.add(frame_of(2))
    limit.add(withdrawn)
    with pytest.raises(LinkError):
        limit.add(frame_of(3))


def test_held_announcements_count_beside_those_that_they_replace(limit: AnnouncementLimit) -> None:
    limit.add(frame_of(1), is_held=True)
    limit.add(frame_of(1), is_held=True)
    with pytest.raises(LinkError):
        limit.add(frame_of(1), is_held=True)
