"""Each resource of a page is validated by itself: an invalid one is left out, and named in the log."""

import json
import logging
from typing import Any

import msgspec
import pytest

from bridge.hub.primitives.page_prompt import PromptArgument, read_prompts
from bridge.hub.primitives.page_resource import UriTemplate, read_resources, read_templates
from native_host.protocol import wire

CART = {"uri": "cart://1", "name": "Cart"}


def announced(**lists: list[Any]) -> wire.FrameTools:
    raw: dict[str, Any] = {
        name: [msgspec.Raw(json.dumps(entry).encode()) for entry in entries]
        for name, entries in lists.items()
    }
    return wire.FrameTools(
        tab_id=1, frame_id=0, document_id="d1", origin="https://shop.example", tools=[], **raw
    )


def resources(*entries: Any) -> list[str]:
    return [resource.uri for resource in read_resources(announced(resources=list(entries)))]


@pytest.mark.parametrize(
    "uri",
    [
        "cart://1",
        "file:///etc/passwd",
        "urn:isbn:0451450523",
        "x:",
        "ui://widget/a.html",
        "a+b.c-d:e%20f?g#h",
    ],
)
def test_a_uri_has_a_scheme_and_printable_ascii(uri: str) -> None:
    assert resources({**CART, "uri": uri}) == [uri]


@pytest.mark.parametrize(
    "bad",
    [
        {**CART, "uri": uri}
        for uri in [
            "",
            "cart",
            "1:a",
            "cart://a b",
            "cart://ä",
            "cart://\n",
            "cart://\x7f",
            "x:" + "a" * 2047,
            7,
            None,
        ]
    ]
    + [{"uri": "cart://1"}, {**CART, "name": ""}, {**CART, "name": 1}, [], 7, "cart://1", None],
)
def test_an_invalid_entry_is_left_out_by_itself_and_named_in_the_log(
    bad: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert resources(bad, {"uri": "cart://2", "name": "Other"}) == ["cart://2"]
    assert "https://shop.example: 1 of 2 resources left out" in caplog.text


def test_a_uri_of_2048_bytes_is_the_longest() -> None:
    assert len(resources({**CART, "uri": "x:" + "a" * 2046})) == 1


def test_of_two_entries_with_one_uri_the_first_counts() -> None:
    (entry,) = read_resources(announced(resources=[CART, {**CART, "name": "Other"}]))
    assert entry.name == "Cart"


@pytest.mark.parametrize(
    ("member", "valid", "invalid"),
    [
        ("mimeType", "text/plain", 7),
        ("size", 12, "12"),
        ("annotations", {"audience": ["user"], "priority": 0.5}, {"audience": "user"}),
        ("annotations", {"lastModified": "2026-01-01T00:00:00Z"}, {"priority": "high"}),
        ("annotations", {"priority": 1}, {"priority": 5}),
        ("annotations", {"lastModified": "2026-01-01T00:00:00+01:00"}, {"lastModified": "2026-01-01"}),
        ("annotations", {"audience": []}, {"lastModified": "2026-01-01T00:00:00"}),
        ("annotations", {}, {"lastModified": ""}),
        ("_meta", {"shop": 1}, None),
        ("_meta", {"shop": 1}, {"dev.mcpb/origin": "https://bank.example"}),
        ("_meta", {"shop": 1}, [7]),
    ],
)
def test_a_malformed_member_is_dropped_and_the_entry_stays(member: str, valid: Any, invalid: Any) -> None:
    good, bad = read_resources(
        announced(resources=[{**CART, member: valid}, {"uri": "cart://2", "name": "b", member: invalid}])
    )
    assert json.loads(good.members)[member] == valid
    assert member not in json.loads(bad.members)


def test_a_malformed_title_counts_as_none() -> None:
    (entry,) = read_resources(announced(resources=[{**CART, "title": 7, "description": []}]))
    assert (entry.title, entry.description) == ("", "")


def test_an_unchanged_entry_stays_the_same_object() -> None:
    (before,) = read_resources(announced(resources=[CART]))
    assert (
        read_resources(announced(resources=[{"uri": "cart://2", "name": "b"}, CART]), [before])[1] is before
    )


def test_ten_thousand_entries_are_cut_to_1024_in_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = resources(*({**CART, "uri": f"cart://{number}"} for number in range(10_000)))
    assert len(found) == 1024


@pytest.mark.parametrize(
    ("template", "fits", "fits_not"),
    [
        ("order://{id}", ["order://1", "order://a%2Fb", "order://"], ["orders://1", "cart://1"]),
        ("a://{x}/b/{y}", ["a://1/b/2", "a:///b/", "a://b/b/b/b/"], ["a://1/c/2", "a://1/b"]),
        ("a://x{?q,r}", ["a://x", "a://x?q=1"], ["a://y"]),
        ("a://x", ["a://x"], ["a://xy", "a://"]),
        ("a://{x}end", ["a://end", "a://endend"], ["a://en", "a://endx"]),
        ("a://ab{x}ab", ["a://abab", "a://ab1ab"], ["a://ab"]),
    ],
)
def test_a_template_fits_a_uri_with_its_literal_parts(
    template: str, fits: list[str], fits_not: list[str]
) -> None:
    parsed = UriTemplate(template)
    assert [uri for uri in fits + fits_not if parsed.may_expand_to(uri)] == fits


def test_a_template_with_a_thousand_expressions_is_compared_at_once() -> None:
    template = UriTemplate("a:" + "{x}a" * 400)
    assert not template.may_expand_to("a:" + "a" * 399 + "b")
    assert template.may_expand_to("a:" + "a" * 400)


def test_templates_are_read_like_resources() -> None:
    (template,) = read_templates(
        announced(resource_templates=[{"uriTemplate": "order://{id}", "name": "Order"}])
    )
    assert template.uri == "order://{id}"


# ── Prompts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_has_named_arguments() -> None:
    given = {"name": "check-out", "title": "Check out", "arguments": [{"name": "note", "required": True}]}
    (prompt,) = read_prompts(announced(prompts=[given]))
    assert prompt.arguments == (PromptArgument("note", required=True),)
    assert prompt.missing_arguments({}) == ["note"]
    assert prompt.missing_arguments({"note": ""}) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"name": ""},
        {"title": "x"},
        {"name": "a", "arguments": {}},
        {"name": "a", "arguments": [{"name": "b"}, {"name": "b"}]},
        {"name": "a", "arguments": [{}]},
        {"name": "a", "arguments": [{"name": "b", "required": "yes"}]},
        {"name": "a", "arguments": [{"name": f"a{number}"} for number in range(10_000)]},
        7,
    ],
)
def test_an_invalid_prompt_is_left_out_by_itself(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    (prompt,) = read_prompts(announced(prompts=[bad, {"name": "good"}]))
    assert prompt.name == "good"
    assert "https://shop.example: 1 of 2 prompts left out" in caplog.text
