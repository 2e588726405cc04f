"""Records of tools whose definition changes under the same name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from bridge.hub.audit_records import Record, ToolRedefinition
from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.page_tool import PageTool, read_tools
from bridge.hub.router import Router
from fake_transport import PlayedTransport, tab, tools
from native_host.protocol import wire

SHOP = "https://shop.example"


def offered(description: str = "Pays", document_id: str = "d1", tab_id: int = 1) -> wire.FrameTools:
    definition = {"name": "pay", "description": description, "inputSchema": {"type": "object"}}
    raw = msgspec.Raw(msgspec.json.encode(definition))
    return msgspec.structs.replace(tools(tab_id, document_id=document_id), tools=[raw])


def tool(description: str) -> PageTool:
    (found,) = read_tools(offered(description))
    return found


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
async def records(transport: PlayedTransport) -> list[Record]:
    kept: list[Record] = []
    Router(transport, keep=kept.append)
    transport.connect("h1", wire.Tabs(tabs=[tab(1), tab(2, ordinal=2)]))
    return kept


def redefined(records: Sequence[Record]) -> list[ToolRedefinition]:
    return [record for record in records if isinstance(record, ToolRedefinition)]


async def test_a_new_description_under_the_same_name_leaves_both_hashes(
    transport: PlayedTransport, records: list[Record]
) -> None:
    transport.announce("h1", offered())
    transport.announce("h1", offered())
    assert redefined(records) == []
    transport.announce("h1", offered("Pays twice"))
    (record,) = redefined(records)
    assert (record.site.origin, record.tool) == (SHOP, "pay")
    assert (record.before, record.after) == (tool("Pays").digest.hex(), tool("Pays twice").digest.hex())


@pytest.mark.parametrize("later", [{"document_id": "d2"}, {"tab_id": 2, "document_id": "d3"}])
async def test_a_definition_is_remembered_after_its_document_has_gone(
    transport: PlayedTransport, records: list[Record], later: dict[str, object]
) -> None:
    transport.announce("h1", offered(), tools(1))
    transport.announce("h1", msgspec.structs.replace(offered("Pays twice"), **later))
    assert len(redefined(records)) == 1


async def test_a_definition_is_compared_with_the_one_that_an_earlier_process_has_cached(
    transport: PlayedTransport,
) -> None:
    class Store(NoToolStore):
        def tools(self) -> Sequence[CachedToolRow]:
            return [CachedToolRow("p1", SHOP, f"{SHOP}/", tool("Paid before"))]

    records: list[Record] = []
    Router(transport, store=Store(), keep=records.append)
    transport.connect("h1", wire.Tabs(tabs=[tab(1)]), offered())
    assert [record.before for record in redefined(records)] == [tool("Paid before").digest.hex()]
