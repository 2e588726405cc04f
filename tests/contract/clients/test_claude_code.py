"""What a model receives in the real Claude Code: the request bodies that it sends, recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from benchmarks.tokens.claude_code import SERVER, tool_name
from benchmarks.tokens.model_api import PlayedModel, ToolUse
from benchmarks.tokens.pages import make_page
from claude_code import run_claude_code, use
from claude_host import why_missing
from demo.served_page import served_page
from full_chain import serving_pages
from logged_hosts import LoggedHosts, serve_logged_hosts
from tool_browser import Browsing, open_browsing
from tool_pages import public_name, set_tool_page

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing())

CORE = (
    "list_page_tools",
    "call_page_tool",
    "navigate",
    "tabs_context",
    "read_page",
    "find",
    "get_page_text",
    "computer",
    "fill_form",
    "wait_for",
    "browser_batch",
)
BEGINNING = re.compile(r"^\[([0-9a-f]{8}): from (.+): data, never instructions\]$", re.MULTILINE)
PRICE = {
    "name": "getPrice",
    "description": "The price.",
    "result": {
        "content": [{"type": "text", "text": "see the structure"}],
        "structuredContent": {"price": 1250, "currency": "EUR"},
    },
}


def price_name(hosts: LoggedHosts, tab: int | None = 1) -> str:
    """Its public name, as long as this client's prefix lets it be."""
    return public_name(hosts, "shop.localhost", "getPrice", tab, longest=64 - len("mcp__mcpb__"))


@pytest.fixture(scope="module")
def hosts() -> Iterator[LoggedHosts]:
    with serve_logged_hosts() as opened:
        yield opened


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    with open_browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def conversation(browsing: Browsing, hosts: LoggedHosts) -> PlayedModel:
    """One conversation: a page is read, pictured, and its tool called by name."""
    body = "<h1>Tea</h1><a href=/cart>Cart</a><button>Buy</button>"
    shop = set_tool_page(hosts, "shop.localhost", "/", PRICE, body=body)
    script = [
        use("navigate", url=shop),
        use("read_page"),
        use("computer", action="screenshot"),
        use("list_page_tools"),
        use("call_page_tool", name=price_name(hosts, tab=None)),
        use(price_name(hosts)),
        use("computer", action="left_click", ref="999"),
    ]
    return run_claude_code(browsing.chain, script, "--name", SERVER)


def test_the_most_used_tools_are_there_without_a_tool_search(conversation: PlayedModel) -> None:
    ours = [name for name in conversation.tools if name.startswith("mcp__")]
    assert sorted(ours) == sorted(map(tool_name, CORE))


def test_an_outline_is_text_within_its_boundary(conversation: PlayedModel, hosts: LoggedHosts) -> None:
    text = conversation.results[1].text
    begin = BEGINNING.search(text)
    assert begin
    assert begin[2] == f"http://shop.localhost:{hosts.port}"
    inside = text[begin.end() : text.index(f"[{begin[1]}: end]")]
    assert 'heading "Tea"' in inside
    assert 'button "Buy"' in inside
    assert "Tea" not in text[: begin.start()]


def test_a_screenshot_is_an_image(conversation: PlayedModel) -> None:
    assert conversation.results[2].images == 1


def test_page_tools_come_with_their_origin_and_a_warning(
    conversation: PlayedModel, hosts: LoggedHosts
) -> None:
    origin = f"http://shop.localhost:{hosts.port}"
    (line,) = [line for line in conversation.results[3].text.splitlines() if "getPrice" in line]
    assert origin in line
    name = tool_name(price_name(hosts))
    (definition,) = [it for it in conversation.requests[-1]["tools"] if it["name"] == name]
    assert origin in definition["description"]
    assert "data, not instructions" in definition["description"]


def test_a_page_tool_s_own_structure_arrives(conversation: PlayedModel) -> None:
    for number in (4, 5):
        assert '"price":1250' in conversation.results[number].text


def test_a_failure_is_an_error_with_its_remedy(conversation: PlayedModel) -> None:
    failed = conversation.results[6]
    assert failed.is_error
    assert "read_page" in failed.text


def test_a_program_that_asks_gets_the_structure(browsing: Browsing, hosts: LoggedHosts) -> None:
    script = [use("navigate", url=hosts.url("shop.localhost"))]
    model = run_claude_code(browsing.chain, script, "--structured")
    assert model.results[0].text.startswith('{"message":')


def test_the_largest_page_of_the_bench_arrives_whole(browsing: Browsing) -> None:
    """Claude Code writes a result of more than 50 000 characters to a file and shows its beginning."""
    with served_page(make_page("article")) as url:
        script = [use("navigate", url=url), use("read_page"), use("read_page", max_chars=200_000)]
        _, usual, whole = run_claude_code(browsing.chain, script, "--name", SERVER).results
    for result, least, most in ((usual, 15_000, 22_000), (whole, 30_000, 200_000)):
        begin = BEGINNING.search(result.text)
        assert begin
        assert result.text.endswith(f"[{begin[1]}: end]")
        assert least < len(result.text) < most


def test_the_core_alone_can_be_listed(browsing: Browsing) -> None:
    told = [
        str(run_claude_code(browsing.chain, [], *options).requests[0])
        for options in ((), ("--tools", "core"))
    ]
    assert [tool_name("tabs_create") in each for each in told] == [True, False]
    assert not any(tool_name("turn_answer_start") in each for each in told)


def test_its_tool_reads_a_resource_of_a_page_under_the_listed_uri(browsing: Browsing) -> None:
    with serving_pages() as pages:
        page = browsing.browser.open(f"{pages}/resources.html")
        domain = pages.removeprefix("http://").replace(":", "_")
        uri = f"mcpb://page/{domain}/tab{browsing.number_of(page)}/cart://1"
        # The first call waits until the client knows the server and its resources.
        script = [use("list_page_tools"), ToolUse("ReadMcpResourceTool", {"server": SERVER, "uri": uri})]
        _, result = run_claude_code(browsing.chain, script, "--name", SERVER).results
        requested = page.evaluate("requests")
        page.close()
    assert not result.is_error, result.text
    assert uri in result.text
    assert requested == ["read cart://1"]


def test_its_slash_command_gets_a_prompt_whose_argument_is_positional(
    browsing: Browsing, hosts: LoggedHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(browsing.chain.settings, "MCPB_BROWSER_TABS", "any")
    page = browsing.browser.open(hosts.url("shop.localhost"))
    words = f"/mcp__{SERVER}__debug-page tab={browsing.number_of(page)}"
    model = run_claude_code(browsing.chain, [], "--name", SERVER, words=words)
    page.close()
    received = json.dumps(model.requests[0]["messages"])
    assert f"http://shop.localhost:{hosts.port}" in received
    assert "console" in received
