"""URIs and lists of the browser's own resources."""

from __future__ import annotations

import pytest

from bridge.browser_tools.browser_resources import TabUri, parse_tab_uri, tab_resources, templates
from bridge.hub.client_session import Session
from bridge.hub.registry import Registry
from fake_transport import connect, tab
from native_host.protocol import wire

SESSION = Session("s1")


@pytest.mark.parametrize(
    ("uri", "wanted"),
    [
        ("mcpb://tab/7/text", TabUri(7, "text")),
        ("mcpb://tab/current/outline", TabUri(None, "outline")),
        ("mcpb://tab/7/text?offset=100&limit=50", TabUri(7, "text", 100, 50)),
        ("mcpb://tab/7/text?limit=50", TabUri(7, "text", 0, 50)),
        ("mcpb://tab/7/pdf", TabUri(7, "pdf")),
        ("mcpb://tab/7", None),
        ("mcpb://tab/7/cookies", None),
        ("mcpb://tab/seven/text", None),
        ("mcpb://tab/77777777777/text", None),
        ("mcpb://tab/7/text?limit=0", None),
        ("mcpb://tab/7/text?limit=-1", None),
        ("mcpb://tab/7/text?pages=2", None),
        (f"mcpb://tab/7/text?offset={'9' * 5000}", None),
        ("mcpb://tab/\u0667/text", None),
        ("mcpb://tab/7/pdf?limit=5", None),
        ("mcpb://tabs", None),
    ],
)
def test_a_uri_names_a_tab_and_a_part_of_it(uri: str, wanted: TabUri | None) -> None:
    assert parse_tab_uri(uri) == wanted


def test_the_parts_of_a_tab_and_pictures_are_templates() -> None:
    assert [template.uri for template in templates()] == [
        "mcpb://tab/{tabId}/text{?offset,limit}",
        "mcpb://tab/{tabId}/outline",
        "mcpb://tab/{tabId}/screenshot",
        "mcpb://tab/{tabId}/console",
        "mcpb://tab/{tabId}/network",
        "mcpb://tab/{tabId}/pdf",
        "mcpb://pictures/{id}",
    ]


def listed_tabs(registry: Registry) -> list[str]:
    found = tab_resources(registry.browsers(), SESSION)
    return [resource.uri for resource in found if resource.uri.endswith("/text")]


def test_own_tabs_and_those_handed_over_are_listed_and_no_others() -> None:
    registry = Registry()
    tabs = [
        tab(1, ordinal=1, owner="s1"),
        tab(2, ordinal=2, owner="s2"),
        tab(3, ordinal=3, handed_over=True),
        tab(4, ordinal=4),
        tab(5, ordinal=5, owner="s1", incognito=True),
    ]
    connect(registry, "h1", wire.Tabs(tabs=tabs))
    assert listed_tabs(registry) == ["mcpb://tab/1/text", "mcpb://tab/3/text"]
