"""Pages of `logged_hosts` that offer tools: the browser's own WebMCP where it is on, else a polyfill.

Each tool requests `/called?NAME` of its own host when it runs, so that the host's log is the judge of a call.
"""

from __future__ import annotations

import json
from typing import Any

import trio
from mcp import Client
from mcp.types import Tool

from logged_hosts import LoggedHosts
from tool_browser import Browsing, Tools

_SCRIPT = """
<script>
  const tools = %s;
  async function run({ name, result }) {
    await fetch("/called?" + name);
    return result ?? { content: [{ type: "text", text: "done " + name }] };
  }
  if (document.modelContext) {
    for (const { result, ...tool } of tools) {
      document.modelContext.registerTool({ ...tool, execute: () => run({ ...tool, result }) });
    }
  } else {
    const context = Object.assign(new EventTarget(), {
      async getTools() { return tools.map((tool) => ({ ...tool, window, origin })); },
      async executeTool({ name }) {
        return JSON.stringify(await run(tools.find((tool) => tool.name === name)));
      },
    });
    Object.defineProperty(document, "modelContext", { value: context });
  }
</script>
"""


def set_tool_page(hosts: LoggedHosts, host: str, path: str, *tools: dict[str, Any], body: str = "") -> str:
    """Let a path offer these tools (`name`, `result`, and what WebMCP knows); return its address."""
    written = json.dumps([{"description": f"Tool of {host}.", **tool} for tool in tools])
    return hosts.set_page(host, path, _SCRIPT % written.replace("<", "\\u003c") + body)


def public_name(hosts: LoggedHosts, host: str, tool: str, tab: int | None = 1, longest: int = 44) -> str:
    """Return the name under which clients see a tool in the tab of this number, or without a tab."""
    in_tab = "" if tab is None else f"_tab{tab}"
    name = f"{host.replace('.', '_')}_{hosts.port}{in_tab}_{tool}"
    whole = f"website_tool_{name}"
    return whole if len(whole) <= longest else f"web_{name}"


def calls_of(hosts: LoggedHosts, host: str) -> list[str]:
    """Return the names of the tools that have run in pages of a host."""
    return [it.path.partition("?")[2] for it in hosts.requests(host) if it.path.startswith("/called?")]


def listed(browsing: Browsing, tools: Tools) -> dict[str, Tool]:
    """The page tools that the mcp package's client is shown now."""

    async def ask() -> dict[str, Tool]:
        return await page_tools(tools.client)

    return browsing.thread.run(ask)


def until_listed(browsing: Browsing, tools: Tools, *names: str, but: str = "") -> dict[str, Tool]:
    """Until these tools are listed, and the other one is not; all that are."""

    async def ask() -> dict[str, Tool]:
        while True:
            found = await page_tools(tools.client)
            if set(names) <= found.keys() and but not in found:
                return found
            await trio.sleep(0.05)

    return browsing.thread.run(ask)


async def page_tools(client: Client) -> dict[str, Tool]:
    found = await client.list_tools(cache_mode="refresh")
    return {tool.name: tool for tool in found.tools if tool.name.startswith(("website_tool_", "web_"))}


def until_named(browsing: Browsing, tools: Tools, name: str) -> str:
    """Until `list_page_tools` names a tool; its line."""

    async def ask() -> str:
        while True:
            answer = await tools.client.call_tool("list_page_tools", {"query": name, "limit": 200})
            for block in answer.content:
                for line in getattr(block, "text", "").splitlines():
                    if line.startswith(f"{name}: "):
                        return str(line)
            await trio.sleep(0.05)

    return browsing.thread.run(ask)
