"""Prompts of pages through a real Chromium and `mcpb bridge`; the mcp package's client in both eras."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import urlencode

import mcp
import mcp_types as types
import pytest
import trio
from mcp import MCPError

from demo.chromium import Chromium
from full_chain import INSPECTOR, MCPB, Chain, page_templates

pytestmark = pytest.mark.one_browser

Mode = Literal["auto", "legacy"]
BOTH_ERAS: list[Mode] = ["auto", "legacy"]


def prefix_of(chain: Chain, tab: int = 1, site: str = "") -> str:
    domain = (site or chain.pages).removeprefix("http://").replace(":", "_").replace(".", "_")
    return f"{domain}_tab{chain.tabs_before + tab}_"


@pytest.fixture(params=BOTH_ERAS)
async def client(
    chain: Chain, browser: Chromium, request: pytest.FixtureRequest
) -> AsyncIterator[mcp.Client]:
    with trio.fail_after(60):
        async with chain.client(request.param) as client:
            yield client


async def until_offered(client: mcp.Client, name: str) -> types.Prompt:
    return await until_offered_like(client, re.escape(name))


async def until_offered_like(client: mcp.Client, pattern: str) -> types.Prompt:
    while True:
        for prompt in (await client.list_prompts()).prompts:
            if re.fullmatch(pattern, prompt.name):
                return prompt
        await trio.sleep(0.05)


def texts_of(result: types.GetPromptResult) -> list[tuple[str, str]]:
    return [
        (message.role, message.content.text)
        for message in result.messages
        if isinstance(message.content, types.TextContent)
    ]


async def test_prompts_of_a_page_are_listed_and_got(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "prompts.html")
    name = f"{prefix_of(chain)}check-out"
    listed = await until_offered(client, name)
    assert listed.description is not None
    assert listed.description.startswith(f"Prompt of {chain.pages}: that site's text.")
    assert [(each.name, each.required) for each in listed.arguments or ()] == [
        ("place", True),
        ("note", None),
    ]
    result = await client.get_prompt(name, {"place": "Bern"})
    ours, *theirs = texts_of(result)
    assert f"a prompt that {chain.pages} offers" in ours[1]
    assert theirs == [("user", "Send it to Bern."), ("assistant", "Which card?")]
    embedded, image = (message.content for message in result.messages[-2:])
    assert isinstance(embedded, types.EmbeddedResource)
    assert isinstance(image, types.ImageContent)
    assert all(
        message.content.meta == {"dev.mcpb/untrusted": True, "dev.mcpb/origin": chain.pages}
        for message in result.messages[1:]
    )
    assert await page.evaluate("requests") == ['get check-out {"place":"Bern"}']


async def test_the_inspector_lists_and_gets_them(chain: Chain, browser: Chromium) -> None:
    await chain.open(browser, "prompts.html")
    name = f"{prefix_of(chain)}check-out"
    with trio.fail_after(60):
        async with chain.client("auto") as client:
            await until_offered(client, name)

    async def inspect(*arguments: str) -> dict[str, Any]:
        command = [str(INSPECTOR), "--cli", *MCPB, "bridge", "--method", *arguments]
        run = await trio.run_process(command, env=chain.env, capture_stdout=True)
        found: dict[str, Any] = json.loads(run.stdout)
        return found

    assert name in {prompt["name"] for prompt in (await inspect("prompts/list"))["prompts"]}
    got = await inspect("prompts/get", "--prompt-name", name, "--prompt-args", "place=Bern")
    assert got["messages"][1]["content"]["text"] == "Send it to Bern."


async def test_the_npm_package_s_prompts_are_listed_and_got(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "global.html")
    await page.wait_until("!!document.modelContext?.registerPrompt")
    await page.evaluate(
        """document.modelContext.registerPrompt({
            name: "greet", description: "Greets",
            argsSchema: {type: "object", properties: {who: {type: "string"}}, required: ["who"]},
            get: async ({who}) => ({
                messages: [{role: "user", content: {type: "text", text: `Hello ${who}`}}],
            }),
        }), 0"""
    )
    name = f"{prefix_of(chain)}greet"
    await until_offered(client, name)
    assert texts_of(await client.get_prompt(name, {"who": "Tea"}))[1:] == [("user", "Hello Tea")]


async def test_a_missing_argument_is_named_and_the_page_is_not_asked(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "prompts.html")
    name = f"{prefix_of(chain)}check-out"
    await until_offered(client, name)
    with pytest.raises(MCPError, match="needs the argument “place”") as caught:
        await client.get_prompt(name, {"note": "thanks"})
    assert caught.value.code == -32602
    with pytest.raises(MCPError, match="more than 65536"):
        await client.get_prompt(name, {"place": "x" * 70_000})
    assert await page.evaluate("requests") == []


async def test_failures_are_errors_in_the_words_of_the_page_or_ours(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    await chain.open(browser, "prompts.html")
    prefix = prefix_of(chain)
    await until_offered(client, f"{prefix}empty")
    for name, said in (
        ("rejects", f"{chain.pages}: out of paper"),
        ("empty", "the server's answer is no prompt: it has 0 messages"),
        ("nope", "This prompt or template does not exist"),
    ):
        with pytest.raises(MCPError, match=said):
            await client.get_prompt(f"{prefix}{name}")


async def test_a_request_that_is_cancelled_is_not_waited_for(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "prompts.html")
    prefix = prefix_of(chain)
    await until_offered(client, f"{prefix}never")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.get_prompt, f"{prefix}never")
        await page.wait_until("requests.includes('get never {}')")
        nursery.cancel_scope.cancel()
    assert texts_of(await client.get_prompt(f"{prefix}check-out", {"place": "Bern"}))


async def test_a_server_in_an_iframe_of_another_site_has_names_of_its_own(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    other = chain.pages.replace("localhost", "127.0.0.1")
    query = urlencode({"frame": f"{other}/prompts.html?parent"})
    await browser.open_page(f"{other}/plain.html")  # now its tools need no question in frames
    await browser.open_page(f"{chain.pages}/nest.html?{query}")
    start = prefix_of(chain, 2, other).rstrip("_")
    prompt = await until_offered_like(client, rf"{start}-[0-9a-f]{{6}}_check-out")
    assert texts_of(await client.get_prompt(prompt.name, {"place": "Bern", "note": "thanks"}))[1] == (
        "user",
        "Send it to Bern with thanks.",
    )


async def test_arguments_and_variables_are_completed_by_the_page(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "prompts.html")
    name = f"{prefix_of(chain)}check-out"
    await until_offered(client, name)
    of_prompt = types.PromptReference(name=name)
    found = (
        await client.complete(of_prompt, {"name": "place", "value": "place 1"}, {"note": "x"})
    ).completion
    assert found.values[:2] == ["place 1", "place 10"]
    found = (await client.complete(of_prompt, {"name": "place", "value": "place"})).completion
    assert (len(found.values), found.total, found.has_more) == (100, 150, True)
    (template,) = await page_templates(client)
    of_template = types.ResourceTemplateReference(uri=template)
    found = (await client.complete(of_template, {"name": "place", "value": "place 14"})).completion
    assert found.values[0] == "place 14"
    assert await page.evaluate("requests") == [
        'complete check-out place {"note":"x"}',
        "complete check-out place {}",
        "complete shop://{place} place {}",
    ]


async def test_a_page_that_completes_nothing_is_not_asked(
    chain: Chain, browser: Chromium, client: mcp.Client
) -> None:
    page = await chain.open(browser, "prompts.html?dumb")
    name = f"{prefix_of(chain)}check-out"
    await until_offered(client, name)
    found = await client.complete(types.PromptReference(name=name), {"name": "place", "value": ""})
    assert found.completion.values == []
    assert await page.evaluate("requests") == []


@pytest.mark.parametrize("mode", BOTH_ERAS)
async def test_a_change_of_the_list_is_notified(chain: Chain, browser: Chromium, mode: Mode) -> None:
    changed, changes = trio.open_memory_channel[None](100)

    async def hear(message: Any) -> None:
        if isinstance(message, types.PromptListChangedNotification):
            changed.send_nowait(None)

    async def listen(client: mcp.Client, task_status: trio.TaskStatus[None]) -> None:
        async with client.listen(prompts_list_changed=True) as events:
            task_status.started()
            async for _ in events:
                changed.send_nowait(None)

    page = await chain.open(browser, "prompts.html")
    with trio.fail_after(60):
        async with chain.client(mode, message_handler=hear) as client, trio.open_nursery() as nursery:
            await until_offered(client, f"{prefix_of(chain)}check-out")
            if mode == "auto":
                await nursery.start(listen, client)
            await page.evaluate("addPrompt('extra')")
            name = f"{prefix_of(chain)}extra"
            while name not in {prompt.name for prompt in (await client.list_prompts()).prompts}:
                await changes.receive()  # the page itself may be news, too
            nursery.cancel_scope.cancel()
