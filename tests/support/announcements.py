"""What hosts and extensions say, for tests of the hub: short to write, with the rest filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bridge.hub.registry import Registry
from bridge.hub.transport import Announced, HostDiscovered, HostLinked
from native_host.protocol import wire

LIMITS = wire.Limits(to_browser=1, from_browser=1, socket=1)


def host_hello(instance: str, browser_pid: int = 100) -> wire.HostHello:
    return wire.HostHello(
        wire=1,
        instance=instance,
        version="0.2.0",
        pid=1,
        browser_pid=browser_pid,
        extension_origin="",
        limits=LIMITS,
    )


def browser_hello(profile: str = "p1", label: str = "") -> wire.BrowserHello:
    return wire.BrowserHello(
        wire=1,
        extension=wire.ExtensionInfo(id=wire.EXTENSION_ID, version="0.2.0"),
        browser=wire.BrowserInfo(brand="Chromium", version="156"),
        profile=wire.Profile(id=profile, label=label),
    )


def tab(tab_id: int, origin: str = "https://shop.example", ordinal: int = 1, **fields: Any) -> wire.Tab:
    return wire.Tab(tab_id=tab_id, window_id=1, origin=origin, url=f"{origin}/", ordinal=ordinal, **fields)


def tools(
    tab_id: int, *names: str, origin: str = "https://shop.example", frame_id: int = 0, document_id: str = "d1"
) -> wire.FrameTools:
    definitions = [msgspec.Raw(msgspec.json.encode({"name": name})) for name in names]
    return wire.FrameTools(
        tab_id=tab_id, frame_id=frame_id, document_id=document_id, origin=origin, tools=definitions
    )


def connect(
    registry: Registry,
    host: str = "h1",
    *announcements: wire.Wire,
    profile: str = "p1",
    browser_pid: int = 100,
    started_at: float = 1.0,
    now: float = 0.0,
) -> None:
    """Link a host whose browser says all this, up to the end of the replay."""
    registry.hear(HostDiscovered(host, started_at), now)
    registry.hear(HostLinked(host, host_hello(host, browser_pid)), now)
    announce(registry, host, browser_hello(profile), *announcements, wire.HostReplayed(), now=now)


def announce(registry: Registry, host: str, *messages: wire.Wire, now: float = 0.0) -> None:
    for message in messages:
        registry.hear(Announced(host, type(message).__name__, message), now)


def one_page(*names: str, tab_id: int = 1, **fields: Any) -> Sequence[wire.Wire]:
    """A browser with one tab, whose page offers these tools."""
    return wire.Tabs(tabs=[tab(tab_id, **fields)]), tools(tab_id, *names)
