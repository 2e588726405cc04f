"""Requests of a page in a real Chromium, answered by the mcp package's client in both eras."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import mcp
import mcp_types as types
import pytest
import trio

from demo.chromium import Chromium
from full_chain import Chain, until_listed

pytestmark = pytest.mark.one_browser

Mode = Literal["auto", "legacy"]
BOTH_ERAS: list[Mode] = ["auto", "legacy"]
SOON_S = 60
ROOT = types.Root.model_validate({"uri": "file:///srv/shop", "name": "shop"})
TOOL_USE = types.ToolUseContent(type="tool_use", id="1", name="price", input={"item": "apple"})
SECRET = "Sum this cart up in one line."


class Client:
    """Callbacks of a client: what it was asked, and what its user chooses."""

    def __init__(self, choice: str = "no") -> None:
        self.sampled: list[types.CreateMessageRequestParams] = []
        self.questions: list[str] = []
        self.opened: list[tuple[str, str | None]] = []
        """Addresses that the user is to open, and the ids of these requests."""
        self.ended: list[str] = []
        """Ids of the elicitations that are complete."""
        self.has_ended = trio.Event()
        self.roots_listed = 0
        self.choice = choice

    async def sample(self, _: object, params: types.CreateMessageRequestParams) -> Any:
        self.sampled.append(params)
        return types.CreateMessageResultWithTools(
            role="assistant", content=[TOOL_USE], model="m", stop_reason="toolUse"
        )

    async def elicit(self, _: object, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        if isinstance(params, types.ElicitRequestURLParams):
            self.opened.append((params.url, params.elicitation_id))
            return types.ElicitResult(action="accept")
        fields = params.requested_schema["properties"]
        content: dict[str, Any] = {"allow": self.choice} if "allow" in fields else {"apples": 2}
        return types.ElicitResult(action="accept", content=content)

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.ended.append(message.params.elicitation_id)
            self.has_ended.set()

    async def list_roots(self, _: object) -> types.ListRootsResult:
        self.roots_listed += 1
        return types.ListRootsResult(roots=[ROOT])

    @property
    def callbacks(self) -> dict[str, Any]:
        tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
        return {
            "sampling_callback": self.sample,
            "sampling_capabilities": tools,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.list_roots,
        }


@pytest.fixture
def chain_with_settings(chain: Chain) -> Iterator[Chain]:
    """The user's machine; `configure` writes its config.toml."""
    yield chain
    for name in ("config.toml", "state/approvals.json"):
        (chain.home / name).unlink(missing_ok=True)


def configure(chain: Chain, pages: str = "", browser: str = 'ask_in = "client"') -> None:
    (chain.home / "config.toml").write_text(f"[browser]\n{browser}\n[pages]\n{pages}\n")


async def call_page(chain: Chain, client: mcp.Client, tool: str, **arguments: Any) -> Any:
    """Return what a tool of the page has received."""
    name = chain.name(tool)
    await until_listed(client, lambda names: name in names)
    result = await client.call_tool(name, arguments)
    assert isinstance(result.content[0], types.TextContent)
    return json.loads(result.content[0].text)


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_the_client_s_model_answers_a_page(
    chain_with_settings: Chain, browser: Chromium, mode: Mode
) -> None:
    chain, asked = chain_with_settings, Client()
    configure(chain, 'sampling = "on"')
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(mode, **asked.callbacks) as client:
            received = await call_page(chain, client, "summarize")
    (params,) = asked.sampled
    text, image = (message.content for message in params.messages)
    assert isinstance(text, types.TextContent)
    assert isinstance(image, types.ImageContent)
    assert (text.text, image.data, image.mime_type) == (SECRET, "iVBORw0KGgo=", "image/png")
    assert [tool.name for tool in params.tools or ()] == ["price"]
    assert (params.max_tokens, params.include_context) == (60, "none")
    assert params.system_prompt is not None
    assert chain.pages in params.system_prompt
    assert params.system_prompt.endswith("\n\nBe brief.")
    assert received == {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "price", "input": {"item": "apple"}}],
        "model": "m",
        "stopReason": "toolUse",
    }


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_page_asks_user_model_and_roots_at_once(
    chain_with_settings: Chain, browser: Chromium, mode: Mode
) -> None:
    chain, asked = chain_with_settings, Client()
    configure(chain, 'sampling = "on"\nroots = "on"')
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(mode, **asked.callbacks) as client:
            order, summary, folders = await call_page(chain, client, "everything")
    assert order == {"action": "accept", "content": {"apples": 2}}
    assert summary["stopReason"] == "toolUse"
    assert [(root["uri"], root["name"]) for root in folders["roots"]] == [(str(ROOT.uri), "shop")]
    assert (len(asked.sampled), len(asked.questions), asked.roots_listed) == (1, 1, 1)


async def test_requests_at_once_are_one_result_since_2026(
    chain_with_settings: Chain, browser: Chromium
) -> None:
    chain = chain_with_settings
    configure(chain, 'sampling = "on"\nroots = "on"')
    await chain.open(browser, "requests.html")
    able: dict[str, Any] = {"sampling": {"tools": {}}, "elicitation": {"form": {}}, "roots": {}}
    meta = {types.PROTOCOL_VERSION_META_KEY: "2026-07-28", types.CLIENT_CAPABILITIES_META_KEY: able}
    name = chain.name("everything")
    with trio.fail_after(SOON_S):
        async with chain.client() as waiting:
            await until_listed(waiting, lambda names: name in names)
        async with chain.raw_client() as client:
            await client.ask(1, "server/discover", _meta=meta)
            await client.ask(2, "tools/list", _meta=meta)
            found = await client.ask(3, "tools/call", name=name, arguments={}, _meta=meta)
    asked = {each["method"] for each in found["inputRequests"].values()}
    assert (found["resultType"], asked) == (
        "input_required",
        {"elicitation/create", "sampling/createMessage", "roots/list"},
    )


async def test_permission_is_asked_once_honored_by_another_bridge_and_revoked(
    chain_with_settings: Chain, browser: Chromium
) -> None:
    chain, first, second, third = chain_with_settings, Client("always"), Client(), Client()
    configure(chain)
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        for asked in (first, second):
            async with chain.client(**asked.callbacks) as client:
                for _ in range(2):
                    assert (await call_page(chain, client, "summarize"))["model"] == "m"
        await chain.mcpb("allow", chain.pages, "sampling", "--revoke")
        async with chain.client(**third.callbacks) as client:
            rejected = await call_page(chain, client, "summarize")
    assert [len(asked.questions) for asked in (first, second, third)] == [1, 0, 1]
    assert chain.pages in first.questions[0]
    assert SECRET in first.questions[0]
    assert (rejected["error"]["code"], third.sampled) == (-32014, [])


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_client_without_the_capability_is_not_asked(
    chain_with_settings: Chain, browser: Chromium, mode: Mode
) -> None:
    chain = chain_with_settings
    configure(chain, 'sampling = "on"\nroots = "on"')
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(mode) as client:
            received = [await call_page(chain, client, tool) for tool in ("summarize", "folders", "order")]
    assert [each["error"]["code"] for each in received] == [-32601] * 3


async def test_another_client_receives_nothing(chain_with_settings: Chain, browser: Chromium) -> None:
    chain, asked, other = chain_with_settings, Client("once"), Client("once")
    configure(chain, 'roots = "on"')
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(**asked.callbacks) as client, chain.client(**other.callbacks) as idle:
            name = chain.name("everything")
            await until_listed(idle, lambda names: name in names)
            await call_page(chain, client, "everything")
    assert (len(asked.sampled), len(asked.questions), asked.roots_listed) == (1, 2, 1)
    assert (other.sampled, other.questions, other.roots_listed) == ([], [], 0)


async def test_an_exhausted_budget_is_named_and_each_request_is_one_line_of_the_audit_log(
    chain_with_settings: Chain, browser: Chromium
) -> None:
    chain, asked = chain_with_settings, Client()
    configure(chain, 'sampling = "on"\nmax_tokens = 500\ntokens_per_hour = 5000')
    await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(**asked.callbacks) as client:
            first, second, third = [
                await call_page(chain, client, "summarize", maxTokens=10**9) for _ in range(3)
            ]
    assert (first["model"], second["model"]) == ("m", "m")
    assert [params.max_tokens for params in asked.sampled] == [500, 500]
    assert third["error"]["code"] == -32015
    assert "pages.tokens_per_hour" in third["error"]["message"]
    log = (await chain.mcpb("audit", "--json")).stdout.decode()
    lines = [line for line in map(json.loads, log.splitlines()) if line.get("kind") == "sampling"]
    assert [line["outcome"] for line in lines[-3:]] == ["ok", "ok", "rate_limited"]
    assert SECRET not in log


async def test_what_was_not_asked_is_in_the_log_with_the_command_that_allows_it(
    chain_with_settings: Chain, browser: Chromium
) -> None:
    chain, asked = chain_with_settings, Client()
    configure(chain)
    await chain.open(browser, "requests.html")
    callbacks = {name: each for name, each in asked.callbacks.items() if name.startswith("sampling_")}
    with trio.fail_after(SOON_S):
        async with chain.client(**callbacks) as client:
            received = await call_page(chain, client, "summarize")
    assert (received["error"]["code"], asked.sampled) == (-32014, [])
    command = f"mcpb allow {chain.pages} sampling --client mcp"
    assert command in (await chain.mcpb("audit", "--json")).stdout.decode()
    status = (await chain.mcpb("status")).stdout.decode()
    assert command in status, status


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_page_asks_the_user_to_open_an_address_and_reports_the_end(
    chain_with_settings: Chain, browser: Chromium, mode: Mode
) -> None:
    chain, asked = chain_with_settings, Client()
    page = await chain.open(browser, "requests.html")
    with trio.fail_after(SOON_S):
        async with chain.client(mode, asked.hear, **asked.callbacks) as client:
            assert await call_page(chain, client, "pay") == {"action": "accept"}
            ((url, elicitation_id),) = asked.opened
            assert url == "https://pay.example/s/81f2"
            assert asked.questions[0].startswith(f"{chain.pages} asks you to open {url} ")
            await page.evaluate("paid()")
            if mode == "auto":  # this revision has no such notification
                assert elicitation_id is None
                return
            await asked.has_ended.wait()
    assert asked.ended == [elicitation_id]
