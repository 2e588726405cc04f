"""`mcpb demo`: an MCP client calls a page's tools, end to end, with readable output.

The browser is real where one is found; native host and bridge are always real processes, and the client is
the mcp package's own. All files are below one temporary directory, which is removed at the end.
"""

from __future__ import annotations

import re
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import trio
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.types import TextContent, TextResourceContents, Tool

from demo import shop
from demo.chromium import ChromiumError, find_chromium, startup_failure
from demo.devtools import BrowserGoneError, DevToolsError
from demo.environment import Place, Shop, shop_in_chromium, simulated_shop
from demo.progress import show_progress
from demo.temporary_directory import throw_away_directory
from install.interpreter import InterpreterError
from install.plan.apply import ApplyError

TOOLS_SECONDS = 60.0
"""From the start of the bridge until the page's tools are listed; usually well below one."""
WHOLE_SECONDS = 180.0
LOG_LINES = 15

CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("addToCart", {"item": "green tea", "quantity": 2}),
    ("addToCart", {"item": "teapot"}),
    ("addToCart", {"item": "coffee"}),
    ("getCart", {}),
)
CART = "cart://current"
"""The page's own URI of its cart."""
PROMPT, DISH = "suggest-tea", "apple pie"
CLICKED = 'button "€4.50"'
"""In the page's outline: what the client clicks, on green tea."""
BOUGHT = "Total €4.50"
REF = re.compile(r"(?<=\[)\d+(?=\])")
ORDERED = "Order 1: 2 × green tea, 1 × teapot, €33.00. Thank you!"  # noqa: RUF001


class DemoError(Exception):
    """The chain is broken somewhere; the text says where."""


_FAILURES = (
    DemoError,
    ChromiumError,
    DevToolsError,
    BrowserGoneError,
    ApplyError,
    InterpreterError,
    MCPError,
    EOFError,
    OSError,
    trio.TooSlowError,
)


def main() -> int:
    """Play the demo; returns the exit code (0: the page's real answers came, 130: interrupted)."""
    return trio.run(_until_done_or_interrupted)


async def _until_done_or_interrupted() -> int:
    code = 130
    async with trio.open_nursery() as nursery:

        async def give_up_on_signal() -> None:
            with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                await anext(signals)
                print("\nInterrupted: cleaning up.")
                nursery.cancel_scope.cancel()

        nursery.start_soon(give_up_on_signal)
        code = await _play()
        nursery.cancel_scope.cancel()
    return code


async def _play() -> int:
    failures: list[str] = []
    with throw_away_directory("mcpb-demo-") as directory:
        place = Place(directory)
        try:
            with trio.fail_after(WHOLE_SECONDS):
                await _play_in(place)
        except* _FAILURES as group:
            failures = [_sentence(error) for error in _leaves(group)]
            failures += _log_ends(place)
    if failures:
        print("\nThe demo failed:", *failures, sep="\n  ", file=sys.stderr)
        return 1
    print("\nAll processes have ended and the temporary directory is gone.")
    return 0


async def _play_in(place: Place) -> None:
    print("mcpb demo: the tools of a web page, called by an MCP client\n")
    place.register_host()
    async with AsyncExitStack() as stack:
        nursery = await stack.enter_async_context(trio.open_nursery())
        open_shop = await _open_shop(stack, nursery, place)
        with show_progress(nursery, "Starting mcpb bridge"):
            client = await stack.enter_async_context(_client(place))
        _print_cast(open_shop, client)
        names = await _listed_tools(nursery, client)
        for own_name, arguments in CALLS:
            await _call(client, names[own_name], arguments)
        prompt = await _wait_prompt(client)
        await _read_cart(client)
        await _get_prompt(client, prompt)
        await _call(client, names["checkout"], {})
        await _check_page(open_shop)
        if open_shop.is_real:
            await _act(client, open_shop.url)


async def _open_shop(stack: AsyncExitStack, nursery: trio.Nursery, place: Place) -> Shop:
    """In a real browser if there is one that starts, else in the simulated one."""
    executable = find_chromium()
    if executable is None:
        print("No Chromium was found (MCPB_CHROMIUM or PATH): a simulated browser speaks in its place,")
        print("through the real native host.\n")
        return await stack.enter_async_context(simulated_shop(place))
    try:
        with show_progress(nursery, f"Starting {executable}"):
            return await stack.enter_async_context(shop_in_chromium(place, executable))
    except* (ChromiumError, DevToolsError) as group:
        reason = startup_failure(place.browser_log) or "; ".join(map(_sentence, _leaves(group)))
    print(f"{executable} cannot be used here: {reason}")
    print("A simulated browser speaks in its place, through the real native host.\n")
    return await stack.enter_async_context(simulated_shop(place))


@asynccontextmanager
async def _client(place: Place) -> AsyncIterator[Client]:
    """Connect an MCP client: it starts `mcpb bridge` and speaks with it over stdio."""
    bridge = StdioServerParameters(
        command=sys.executable, args=["-I", "-m", "bridge", "bridge"], env={"MCPB_HOME": str(place.home)}
    )
    with place.bridge_log.open("w") as log:
        async with Client(stdio_client(bridge, errlog=log)) as client:
            yield client


# ── The transcript ──────────────────────────────────────────────────────────────────────────────────────────


def _print_cast(open_shop: Shop, client: Client) -> None:
    print(f"  browser  {open_shop.browser}, with a throw-away profile")
    print(f"  page     {open_shop.url}, a small shop")
    print(f"  client   has started `mcpb bridge`; they speak MCP {client.protocol_version}")


async def _listed_tools(nursery: trio.Nursery, client: Client) -> dict[str, str]:
    """Return public names by the page's own, once the page's tools are there."""
    with show_progress(nursery, "Waiting for the page's tools"):
        listed = await _wait_tools(client)
    names = _own_names(listed)
    print("\nThe client lists the tools of the page:")
    for tool in listed:
        if tool.name in names.values():
            print(f"  {tool.name}\n      {tool.title or tool.description}")
    print(f"and {len(listed) - len(names)} tools of mcpb for pages without tools.")
    return names


async def _wait_tools(client: Client) -> list[Tool]:
    with trio.move_on_after(TOOLS_SECONDS):
        async with client.listen(tools_list_changed=True) as changes:
            while True:
                listed = (await client.list_tools()).tools
                if len(_own_names(listed)) == len(shop.tool_names()):
                    return listed
                await anext(changes)
    raise DemoError(f"the page's tools were not listed within {TOOLS_SECONDS:g} s")


def _own_names(listed: Sequence[Tool]) -> dict[str, str]:
    """Return the public names of the shop's tools by its own."""
    return {own: tool.name for own in shop.tool_names() for tool in listed if tool.name.endswith(f"_{own}")}


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> str:
    print(f"\nThe client calls {name} {msgspec.json.encode(arguments).decode()}")
    result = await client.call_tool(name, arguments)
    says = "→ error" if result.is_error else "→ result"
    text = "\n".join(block.text for block in result.content if block.type == "text")
    print(textwrap.indent(f"{says}: {text}", "  "))
    return text


async def _read_cart(client: Client) -> None:
    print(f"\nThe page's resources can be read. The client reads {CART}")
    (content,) = (await client.read_resource(CART)).contents
    if not isinstance(content, TextResourceContents):
        raise DemoError(f"{CART} should be text")
    print(f"  → {content.text}")


async def _wait_prompt(client: Client) -> str:
    """Return the public name of the page's prompt, once that and its resource are there."""
    with trio.move_on_after(TOOLS_SECONDS):
        while True:
            prompts = (await client.list_prompts()).prompts
            resources = (await client.list_resources()).resources
            names = [prompt.name for prompt in prompts if prompt.name.endswith(f"_{PROMPT}")]
            if names and any(str(resource.uri).endswith(CART) for resource in resources):
                return names[0]
            await trio.sleep(0.1)
    raise DemoError(f"{PROMPT} and {CART} of the page were not listed within {TOOLS_SECONDS:g} s")


async def _get_prompt(client: Client, name: str) -> None:
    print(f"\nIts prompts are the client's to choose, as slash commands. The client gets {name}")
    for message in (await client.get_prompt(name, {"dish": DISH})).messages:
        if isinstance(message.content, TextContent):
            print(textwrap.indent(textwrap.fill(message.content.text, 100), "  "))


async def _check_page(open_shop: Shop) -> None:
    shown = await open_shop.shown()
    print(f"\nThe page itself now shows: {shown}")
    if shown != ORDERED:
        raise DemoError(f"the page should show: {ORDERED}")
    print("\nThe way of each call: MCP client → mcpb bridge → Unix socket → native host → extension → page")


async def _act(client: Client, url: str) -> None:
    """Use the browser tools in a tab of the client's own, where a page offers no tool."""
    print("\nWhere a page offers no tool, the browser's own do it, in a tab of the client's:")
    await _call(client, "navigate", {"url": url})
    outline = await _call(client, "read_page", {"filter": "interactive"})
    line = next((line for line in outline.splitlines() if CLICKED in line), "")
    if not (ref := REF.search(line)):
        raise DemoError(f"read_page shows no {CLICKED}")
    await _call(client, "computer", {"action": "left_click", "ref": ref[0]})
    if BOUGHT not in await _call(client, "get_page_text", {}):
        raise DemoError(f"the page should show: {BOUGHT}")


# ── When it fails ───────────────────────────────────────────────────────────────────────────────────────────


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def _sentence(error: BaseException) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no end after {WHOLE_SECONDS:g} s"
    return str(error) or type(error).__name__


def _log_ends(place: Place) -> list[str]:
    ends = []
    for log in (place.browser_log, place.bridge_log):
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        ends += [f"{log.stem}: {line}" for line in lines[-LOG_LINES:]]
    return ends
