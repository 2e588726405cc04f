"""What browsers add to MCP's capabilities: of all pages together, what any of them declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bridge.hub.registry import Frame
from native_host.protocol import wire


def browser_capabilities(frames: Iterable[Frame]) -> dict[str, bool]:
    """The `browser` member of a server's experimental capabilities.

    A page's server declares its own under the same name, experimental or not. A tool that may be cached needs
    no declaration.
    """
    caches = asks = False
    for frame in frames:
        for declared in _declared(frame.announced):
            caches = caches or declared.get("cacheSupported") is True
            asks = asks or declared.get("elicitation") is True
        caches = caches or any(tool.is_cacheable for tool in frame.tools)
    return {"multiTabSupport": True, "cacheSupported": caches, "elicitation": asks}


def _declared(announced: wire.FrameTools) -> Iterator[dict[str, Any]]:
    capabilities = announced.capabilities or {}
    for place in (capabilities, capabilities.get("experimental")):
        browser = place.get("browser") if isinstance(place, dict) else None
        if isinstance(browser, dict):
            yield browser
