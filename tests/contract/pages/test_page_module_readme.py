"""webmcp/README.md agrees with the module: tables and snippets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from instructable_tools import TOOLS
from remote_servers import Instructable, instructable_server
from tool_browser import open_browser, trio_thread
from webmcp_pages import FLAG, ModulePage, serve_module_pages

MODULE = Path(__file__).parents[3] / "webmcp"
README = (MODULE / "README.md").read_text()
SNIPPETS = re.findall(r"```js\n(.*?)```", README, re.DOTALL)
DECLARATIONS = (MODULE / "register.d.ts").read_text()


def table(heading: str) -> list[str]:
    """Return the first cells of the table below a heading, without backquotes."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")]
    return [re.sub(r"[`()]", "", cell) for cell in cells[2:]]


def members(type_name: str) -> list[str]:
    body = DECLARATIONS.partition(f"type {type_name} = {{")[2].partition("\n}")[0]
    return re.findall(r"^    (?:readonly )?(\w+)", body, re.MULTILINE)


def test_the_tables_name_every_option_and_member_of_the_handle() -> None:
    assert sorted(table("Options")) == sorted(members("WebMcpOptions"))
    (known,) = re.findall(r'const OPTIONS = "([^"]+)"', (MODULE / "register.js").read_text())
    assert sorted(known.split()) == sorted(members("WebMcpOptions"))
    assert sorted(table("Handle")) == sorted(members("WebMcpHandle"))


def test_the_tables_of_the_specification_are_there() -> None:
    assert len(table("What belongs where")) == 7
    assert len(table("Errors")) == 3


@pytest.fixture(scope="module")
def server() -> Iterator[Instructable]:
    with instructable_server() as running:
        yield running


def test_the_snippets_run(server: Instructable) -> None:
    with serve_module_pages() as site, trio_thread() as thread, open_browser(thread, [FLAG]) as browser:
        tab = browser.open(site)
        page = ModulePage(tab)
        names = set()
        for snippet in SNIPPETS:
            own = re.sub(r'url: "[^"]+"', f"url: {json.dumps(server.url)}", snippet)
            own = own.replace('"./webmcp/register.js"', json.dumps(f"{site}/webmcp/register.js"))
            blob = f"new Blob([{json.dumps(own)}], {{ type: 'text/javascript' }})"
            page.evaluate(f"import(URL.createObjectURL({blob})).then(() => null)")
            names |= set(page.tools())
        read_only = {
            f"orders.{tool['name']}" for tool in TOOLS if tool.get("annotations", {}).get("readOnlyHint")
        }
        assert names == {tool["name"] for tool in TOOLS} | {"page.scroll_to_top"} | read_only
