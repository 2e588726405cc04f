"""What all pages together add to MCP's capabilities."""

from typing import Any

import msgspec
import pytest

from bridge.hub.page_tool import read_tools
from bridge.hub.registry import Frame
from bridge.mcp_session.mcp_server import browser_capabilities
from fake_transport import tools
from native_host.protocol import wire


def page(*, capabilities: dict[str, Any] | None = None, **tool: Any) -> Frame:
    announced: wire.FrameTools = tools(1)
    announced.tools = [msgspec.Raw(msgspec.json.encode({"name": "getCart", **tool}))]
    announced.capabilities = capabilities
    return Frame(announced, read_tools(announced))


def test_without_pages_only_tabs_are_many() -> None:
    assert browser_capabilities([]) == {
        "multiTabSupport": True,
        "cacheSupported": False,
        "elicitation": False,
    }


@pytest.mark.parametrize("name", ["cacheSupported", "elicitation"])
@pytest.mark.parametrize("wrap", [lambda browser: browser, lambda browser: {"experimental": browser}])
def test_what_any_page_declares_holds_for_all(name: str, wrap: Any) -> None:
    declaring = page(capabilities=wrap({"browser": {name: True}}))
    found = browser_capabilities([page(), declaring, page(capabilities={"browser": {name: False}})])
    assert found == {**browser_capabilities([]), name: True}


def test_a_tool_that_may_be_cached_declares_it_by_itself() -> None:
    assert browser_capabilities([page(annotations={"cache": True})])["cacheSupported"]
    assert not browser_capabilities([page(annotations={"cache": "yes"})])["cacheSupported"]


@pytest.mark.parametrize(
    "odd",
    [{"browser": True}, {"experimental": []}, {"browser": {"elicitation": 1, "multiTabSupport": False}}],
    ids=str,
)
def test_what_is_no_declaration_declares_nothing(odd: dict[str, Any]) -> None:
    assert browser_capabilities([page(capabilities=odd)]) == browser_capabilities([])
