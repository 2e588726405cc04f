"""What a client may read besides: the pictures that its session's tools have made, in both eras."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Container
from typing import Any

import msgspec
import pytest
import trio
from mcp_types import ListResourcesResult, ReadResourceResult

from bridge.errors import NotOfferedError
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import ListForm, Session
from bridge.hub.primitives.own_resource import OwnResource
from bridge.hub.providers import NoProvider
from bridge.hub.router import Router
from bridge.hub.tool_result import Answer
from bridge.hub.tool_schema import Era
from bridge.hub.transport import CallObserver, DiscoveryFinished
from bridge.mcp_session.mcp_server import McpServer
from fake_transport import PlayedTransport
from mcp_client import McpLines, Speak, speaking_with

OURS = Session("ours")
PICTURE = b"\xff\xd8\xff\x00 a picture \n"
NEW = OwnResource("mcpb://pictures/img_2", "img_2", "", "image/jpeg", size=len(PICTURE), order="1")
OLD = OwnResource("mcpb://pictures/img_1", "img_1", "", "image/png", size=5, order="2")
TEXT = OwnResource("mcpb://tab/{tabId}/text", "tab-text", "Text of a tab", "text/plain", "For reading.")
ERAS = pytest.mark.parametrize("era", ["2024-11-05", "2025-11-25", "2026-07-28"])


class Album(NoProvider):
    """A `Provider` that has made two pictures for one session."""

    names: Container[str] = ()

    def definitions(self, _era: Era, _form: ListForm) -> list[dict[str, Any]]:
        return []

    async def run(self, _recording: CallRecord, _caller: CallObserver) -> Answer:
        raise AssertionError

    def resources(self, session: Session) -> list[OwnResource]:
        return [OLD, NEW] if session is OURS else []

    def templates(self) -> list[OwnResource]:
        return [TEXT]

    def defines(self, _session: Session, uri: str) -> bool:
        return uri.startswith("mcpb://pictures/")

    async def read(self, record: CallRecord, uri: str, _observer: CallObserver) -> bytes:
        if record.session is not OURS or uri != NEW.uri:
            raise NotOfferedError(uri)
        contents = {"uri": uri, "mimeType": NEW.mime_type, "blob": PICTURE}
        return msgspec.json.encode({"contents": [contents]})

    def release(self, session: Session) -> None:
        pass


@pytest.fixture
def session() -> Session:
    return OURS


@pytest.fixture
async def client(session: Session) -> AsyncIterator[McpLines]:
    transport = PlayedTransport()
    router = Router(transport)
    router.set_provider(Album())
    transport.happen(DiscoveryFinished())

    async def serve(speak: Speak) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            await speak(McpServer(router, session, lambda: None))
            nursery.cancel_scope.cancel()

    async with speaking_with(serve) as client:
        yield client


async def begin(client: McpLines, era: str) -> dict[str, Any]:
    if era == "2026-07-28":
        return await client.need_no_handshake()
    return await client.shake_hands(era)


@ERAS
async def test_the_server_says_that_it_has_some(client: McpLines, era: str) -> None:
    with trio.fail_after(30):
        assert (await begin(client, era))["capabilities"]["resources"] == {
            "subscribe": True,
            "listChanged": True,
        }


@ERAS
async def test_they_are_listed_with_their_kind_and_size_the_newest_first(client: McpLines, era: str) -> None:
    with trio.fail_after(30):
        await begin(client, era)
        answer = await client.ask("resources/list")
        templates = await client.ask("resources/templates/list")
    listed = ListResourcesResult.model_validate(answer).resources
    assert [(each.name, each.mime_type, each.size) for each in listed] == [
        ("img_2", "image/jpeg", len(PICTURE)),
        ("img_1", "image/png", 5),
    ]
    assert templates["resourceTemplates"] == [
        {
            "uriTemplate": TEXT.uri,
            "name": "tab-text",
            "title": "Text of a tab",
            "description": "For reading.",
            "mimeType": "text/plain",
        }
    ]
    told = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
    assert (answer.items() >= told.items()) is (era == "2026-07-28")


@ERAS
async def test_one_is_read_byte_for_byte(client: McpLines, era: str) -> None:
    with trio.fail_after(30):
        await begin(client, era)
        answer = await client.ask("resources/read", {"uri": NEW.uri})
    ReadResourceResult.model_validate(answer)
    [content] = answer["contents"]
    assert (content["uri"], content["mimeType"]) == (NEW.uri, "image/jpeg")
    assert b64decode(content["blob"]) == PICTURE


@ERAS
@pytest.mark.parametrize("uri", ["mcpb://pictures/img_9", "file:///etc/passwd"])
async def test_what_is_none_is_refused_with_what_to_do(client: McpLines, era: str, uri: str) -> None:
    with trio.fail_after(30):
        await begin(client, era)
        answer = await client.ask("resources/read", {"uri": uri})
    error = answer["error"]
    assert error["code"] == (-32602 if era == "2026-07-28" else -32002)
    assert error["data"] == {"uri": uri}
    assert "resources/list" in error["message"]


@pytest.mark.parametrize("session", [Session("another's")])
async def test_those_of_another_session_are_not_there(client: McpLines) -> None:
    with trio.fail_after(30):
        await begin(client, "2026-07-28")
        assert (await client.ask("resources/list"))["resources"] == []
        assert "error" in await client.ask("resources/read", {"uri": NEW.uri})
