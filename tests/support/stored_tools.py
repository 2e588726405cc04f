"""Page tools written to a tool cache."""

from __future__ import annotations

import msgspec

from bridge.hub.page_tool import PageTool, read_tools
from bridge.state.tool_cache import SqliteToolStore
from native_host.protocol import wire

SHOP = "https://shop.example"


def tools(*names: str, cache: bool = True, description: str = "") -> list[PageTool]:
    annotations = {"cache": cache}
    definitions = [
        msgspec.Raw(
            msgspec.json.encode({"name": name, "description": description, "annotations": annotations})
        )
        for name in names
    ]
    return read_tools(wire.FrameTools(tab_id=1, frame_id=0, document_id="d1", origin=SHOP, tools=definitions))


def offer(
    store: SqliteToolStore,
    offered: list[PageTool],
    *,
    profile: str = "p1",
    tab_id: int = 1,
    origin: str = SHOP,
    path: str = "/",
) -> bool:
    return store.offered(profile, tab_id, origin, origin + path, offered)


def names(store: SqliteToolStore) -> list[str]:
    return [cached.tool.name for cached in store.tools()]
