"""The MCP server of a session: what it says of itself, and what it keeps to itself."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLinked
from bridge.mcp_session.mcp_server import McpServer
from fake_transport import PlayedTransport, browser_hello, host_hello, one_page, tab, tools
from mcp_client import McpLines, Speak, speaking_with, text_of
from native_host.protocol import wire

GET_CART = "website_tool_shop_example_tab1_getCart"
SOON_S = 30


@pytest.fixture
def transport() -> PlayedTransport:
    return PlayedTransport()


@pytest.fixture
async def client(transport: PlayedTransport, session: Session) -> AsyncIterator[McpLines]:
    router = Router(transport)
    transport.happen(DiscoveryFinished())
    transport.connect("h1", *one_page("getCart"))

    async def serve(speak: Speak) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            await speak(McpServer(router, session, lambda: None))
            nursery.cancel_scope.cancel()

    async with speaking_with(serve) as client:
        yield client


@pytest.fixture
def session() -> Session:
    return Session("s1", is_structured=True)


async def begin(client: McpLines, era: str) -> dict[str, Any]:
    """What the server says of itself at the beginning."""
    if era == "handshake":
        return await client.shake_hands()
    return await client.need_no_handshake()


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_the_server_says_that_its_list_changes_and_what_browsers_add(
    client: McpLines, session: Session, era: str
) -> None:
    with trio.fail_after(SOON_S):
        hello = await begin(client, era)
        await client.tool_names()
    assert hello["capabilities"]["tools"] == {"listChanged": True}
    assert browser_of(hello) == {"multiTabSupport": True, "cacheSupported": False, "elicitation": False}
    assert "list_page_tools" in hello["instructions"]
    assert session.client.name == "by hand"


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_tasks_are_not_offered(client: McpLines, era: str) -> None:
    with trio.fail_after(SOON_S):
        hello = await begin(client, era)
    assert not {"tasks", "extensions"} & set(hello["capabilities"])


def browser_of(hello: dict[str, Any]) -> Any:
    return hello["capabilities"]["experimental"]["browser"]


def asking_page() -> wire.FrameTools:
    """A page whose server says that it asks."""
    page = tools(2, "checkout")
    page.capabilities = {"browser": {"elicitation": True}}
    return page


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_what_browsers_add_is_known_once_every_live_host_has_said_what_it_knows(
    client: McpLines, transport: PlayedTransport, era: str
) -> None:
    is_seen = trio.Event()

    def find_another() -> None:
        if not is_seen.is_set():
            transport.happen(HostDiscovered("h2", 2.0))
            is_seen.set()

    async def link() -> None:
        await is_seen.wait()
        await trio.testing.wait_all_tasks_blocked()
        transport.happen(HostLinked("h2", host_hello("h2", 200)))
        replay = browser_hello("p2"), wire.Tabs(tabs=[tab(2)]), asking_page(), wire.HostReplayed()
        transport.announce("h2", *replay)

    transport.on_look = find_another
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link)
            hello = await begin(client, era)
    assert browser_of(hello)["elicitation"] is True


async def test_what_browsers_add_is_fresh_whenever_a_client_discovers(
    client: McpLines, transport: PlayedTransport
) -> None:
    with trio.fail_after(SOON_S):
        first = await begin(client, "2026")
        transport.announce("h1", wire.Tabs(tabs=[tab(1), tab(2)]), asking_page())
        second = await client.ask("server/discover")
    assert [browser_of(hello)["elicitation"] for hello in (first, second)] == [False, True]


@pytest.mark.parametrize("era", ["handshake", "2026"])
async def test_the_text_of_an_unexpected_exception_never_reaches_a_client(
    client: McpLines, transport: PlayedTransport, era: str
) -> None:
    def fail() -> None:
        raise RuntimeError("the secret in the traceback")

    with trio.fail_after(SOON_S):
        await begin(client, era)
        transport.on_look = fail
        answer = await client.ask("tools/list")
    assert answer["error"]["code"] == -32603
    assert "secret" not in str(answer)


async def test_a_2026_list_says_how_long_it_holds(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, "2026")
        listed = await client.ask("tools/list")
    assert (listed["ttlMs"], listed["cacheScope"], listed["resultType"]) == (0, "private", "complete")


async def test_a_page_cannot_pass_its_result_off_as_a_question_of_the_server(
    client: McpLines, transport: PlayedTransport
) -> None:
    asking = {"resultType": "input_required", "inputRequests": {}, "content": []}
    transport.answer = {"success": True, "payload": asking}
    with trio.fail_after(SOON_S):
        await begin(client, "2026")
        answer = await client.call(GET_CART)
    assert answer["resultType"] == "complete"
    assert "inputRequests" not in answer


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", "2026"])
@pytest.mark.parametrize(
    "payload",
    [
        {"total": 12},
        {"structuredContent": {"total": 12}},
        {"structuredContent": [12], "isError": True},
        {"content": None, "total": 12},
        {"content": [{"type": "unheard of", "total": 12}]},
        [12],
        12,
    ],
    ids=str,
)
async def test_a_result_that_is_none_by_mcp_s_rules_is_read_as_text(
    client: McpLines, transport: PlayedTransport, version: str, payload: Any
) -> None:
    transport.answer = {"success": True, "payload": payload}
    with trio.fail_after(SOON_S):
        await (client.need_no_handshake() if version == "2026" else client.shake_hands(version))
        result = await client.call(GET_CART)
    assert json.loads(text_of(result)) == payload
    assert result.get("isError", False) is (isinstance(payload, dict) and "isError" in payload)


@pytest.mark.parametrize("version", ["2025-06-18", "2026"])
async def test_structured_content_alone_stays_structured(
    client: McpLines, transport: PlayedTransport, version: str
) -> None:
    transport.answer = {"success": True, "payload": {"structuredContent": {"total": 12}}}
    with trio.fail_after(SOON_S):
        await (client.need_no_handshake() if version == "2026" else client.shake_hands(version))
        assert (await client.call(GET_CART))["structuredContent"] == {"total": 12}


async def test_a_session_says_who_its_client_is_once(client: McpLines, session: Session) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, "2026")
        text = text_of(await client.call(GET_CART))
    assert text == "tea"
    assert (session.client.name, session.client.version) == ("by hand", "1")


async def test_without_pages_there_are_no_prompts(client: McpLines) -> None:
    with trio.fail_after(SOON_S):
        await begin(client, "handshake")
        answer = await client.ask("prompts/list")
    assert answer == {"prompts": []}
