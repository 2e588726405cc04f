"""What the person allows: which rule decides, and what a refusal says."""

import time
from typing import Any

import msgspec
import pytest

from bridge.hub.page_tool import PageTool
from bridge.hub.policy import Policy, PolicyRules, ToolRule, check_pattern

SHOP = "https://shop.example"


def tool(name: str = "pay", **members: Any) -> PageTool:
    definition = {"name": name, **members}
    return PageTool.of(name, definition, msgspec.json.encode(definition))


def policy(**rules: Any) -> Policy:
    return Policy(PolicyRules(**rules))


def test_without_rules_everything_is_allowed_and_pages_describe_their_tools() -> None:
    assert Policy().find_refusal(SHOP, tool()) == ""
    assert Policy().origin_refusal("null") == ""
    assert Policy().description_of(SHOP, "pay") is None


@pytest.mark.parametrize(
    ("pattern", "origin", "fits"),
    [
        ("*", "null", True),
        ("https://shop.example", "https://shop.example", True),
        ("https://shop.example", "http://shop.example", False),
        ("https://shop.example", "https://shop.example:8443", False),
        ("https://shop.example", "https://shop.example.evil.example", False),
        ("https://*.shop.example", "https://a.shop.example", True),
        ("https://*.shop.example", "https://a.b.shop.example", True),
        ("https://*.shop.example", "https://shop.example", False),
        ("https://*.shop.example", "https://evilshop.example", False),
        ("https://*.shop.example", "http://a.shop.example", False),
        ("https://*.shop.example", "https://a.shop.example:8443", False),
        ("http://*.local:3000", "http://a.local:3000", True),
        ("http://localhost:3000", "http://localhost:3000", True),
        ("http://[::1]:3000", "http://[::1]:3000", True),
        ("localhost", "http://localhost:3000", True),
        ("bank.example", "https://bank.example", True),
        ("bank.example", "https://www.bank.example", False),
        ("*.bank.example", "https://www.bank.example:8443", True),
        ("*.bank.example", "https://bank.example", True),
        ("null", "null", True),
        ("file://", "file://", True),
    ],
)
def test_a_site_pattern_fits_an_origin_a_host_its_subdomains_or_everything(
    pattern: str, origin: str, fits: bool
) -> None:
    assert bool(policy(deny=(pattern,)).origin_refusal(origin)) is fits
    assert bool(policy(allow=(pattern,)).origin_refusal(origin)) is not fits


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("Bank.example", "as the browser does: bank.example"),
        ("bank.example/login", "a site has no path: write bank.example"),
        (
            "bank.example:8443",
            "a port needs a scheme: write http://bank.example:8443 or https://bank.example:8443",
        ),
        ("localhost:3000", "a port needs a scheme: write http://localhost:3000 or https://localhost:3000"),
        ("*.Bank.example", "as the browser does: *.bank.example"),
        ("https://bank.example/", "as the browser does: https://bank.example"),
        ("https://bank.example/login?next=1", "a site has no path: write https://bank.example"),
        ("HTTPS://Bank.Example", "as the browser does: https://bank.example"),
        ("https://bank.example:443", "as the browser does: https://bank.example"),
        ("http://bank.example:80", "as the browser does: http://bank.example"),
        ("https://bücher.example", "as the browser does: https://xn--bcher-kva.example"),
        ("https://me@bank.example", "as the browser does: https://bank.example"),
        ("https://*", "subdomains only"),
        ("*://bank.example", "subdomains only"),
        ("https://a.*.example", "subdomains only"),
        ("https://*.*.example", "subdomains only"),
        ("", "it has no host; write bank.example or https://bank.example"),
        ("https://", "https://bank.example"),
        ("https://bank.example\n", "https://bank.example"),
        ("https://bank.example.", "as the browser does: https://bank.example"),
        ("https://bank.example:0443", "as the browser does: https://bank.example"),
        ("https://*.bank.example:443", "as the browser does: https://*.bank.example"),
        ("https://bank.example:99999", "its port is above 65535"),
        ("http://[0:0:0:0:0:0:0:1]:3000", "as the browser does: http://[::1]:3000"),
        ("https://[:::]", "is no address"),
        ("https://127.1", "as the browser does: https://127.0.0.1"),
        ("https://256.0.0.1", "256.0.0.1 is no address"),
        ("https://*.127.0.0.1", "is no address"),
        ("https://*.[::1]", "cannot be"),
        ("https://bank.example,shop.example", "bank.example,shop.example is no host"),
        ("htps://bank.example", "at http:// and https:// only; write bank.example or https://bank"),
        ("https://straße.example", "copy straße.example from the browser's address bar"),
        ("https://*.straße.example", "address bar"),
    ],
)
def test_a_pattern_that_fits_nothing_is_refused_with_how_to_write_it(pattern: str, hint: str) -> None:
    with pytest.raises(ValueError, match="is no site") as refused:
        PolicyRules(deny=(pattern,))
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        *("bank.example/x", "https://Bank.Example/x", "https://bücher.example:443"),
        *("*.bank.example.", "http://*.Bank.Example:80", "[::0]:80", "https://0x7f.1"),
    ],
)
def test_what_a_hint_proposes_is_a_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="is no site") as refused:
        check_pattern(pattern)
    check_pattern(str(refused.value).rpartition(" ")[2])


def test_deny_beats_allow_and_a_policy_names_the_rule_that_refuses() -> None:
    both = policy(allow=(SHOP, "https://x.bank.example"), deny=("https://*.bank.example",))
    assert both.origin_refusal("https://x.bank.example") == 'policy.deny has "https://*.bank.example"'
    assert both.origin_refusal("https://x.example") == "policy.allow does not name https://x.example"
    assert both.origin_refusal(SHOP) == ""
    assert both.find_refusal("https://x.example", tool()) == "policy.allow does not name https://x.example"


def test_the_first_tool_rule_that_fits_and_says_allow_decides() -> None:
    rules = (
        ToolRule(name="pay*", description="pays"),
        ToolRule(origin=SHOP, name="payLater", allow=True),
        ToolRule(name="pay*", allow=False),
    )
    ours = policy(tools=rules)
    assert ours.find_refusal(SHOP, tool("pay")) == 'policy.tools[2] (origin "*", name "pay*") forbids pay'
    assert ours.find_refusal(SHOP, tool("payLater")) == ""
    assert ours.find_refusal("https://other.example", tool("payLater")) != ""
    assert ours.find_refusal(SHOP, tool("Pay")) == ""


def test_no_tool_rule_opens_an_origin_that_is_denied_or_overrides_read_only() -> None:
    allows = (ToolRule(allow=True),)
    assert policy(deny=("*",), tools=allows).find_refusal(SHOP, tool()) == 'policy.deny has "*"'
    assert "read_only" in policy(read_only=True, tools=allows).find_refusal(SHOP, tool())


def test_the_first_description_that_fits_stands_in_place_of_the_pages() -> None:
    rules = (
        ToolRule(name="pay", allow=False),
        ToolRule(origin=SHOP, name="pay", description="Ask me first."),
        ToolRule(description="anything"),
    )
    ours = policy(tools=rules)
    assert ours.description_of(SHOP, "pay") == "Ask me first."
    assert ours.description_of("https://other.example", "pay") == "anything"
    assert policy(tools=(ToolRule(description=""),)).description_of(SHOP, "pay") == ""


@pytest.mark.parametrize("annotations", [None, [], {}, {"readOnlyHint": 1}, {"readOnlyHint": "true"}])
def test_read_only_takes_nothing_but_the_pages_clear_word(annotations: Any) -> None:
    refusal = policy(read_only=True).find_refusal(SHOP, tool(annotations=annotations))
    assert refusal == "policy.read_only is on and the page does not mark pay as read-only"


def test_read_only_lets_tools_through_whose_page_says_that_they_change_nothing() -> None:
    reading = tool("getCart", annotations={"readOnlyHint": True})
    assert policy(read_only=True).find_refusal(SHOP, reading) == ""


def test_a_rule_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="neither allow nor description"):
        ToolRule(name="pay")


def test_a_name_from_a_page_cannot_fill_a_refusal_or_break_its_line() -> None:
    refusal = policy(tools=(ToolRule(allow=False),)).find_refusal(SHOP, tool("pay\n\u202e" + "x" * 10_000))
    assert len(refusal) < 200
    assert refusal.isprintable()


def test_a_glob_does_not_explode_on_a_name_that_nearly_fits() -> None:
    ours = policy(tools=(ToolRule(name="*a" * 30 + "b", allow=False),))
    began = time.process_time()
    assert ours.find_refusal(SHOP, tool("a" * 5_000)) == ""
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("origin", ["https://bank.example.", "https://bank.example.:8443"])
def test_a_dot_behind_the_host_does_not_lead_around_a_rule(origin: str) -> None:
    assert policy(deny=("https://*.example",)).origin_refusal("https://a+b.bank.example.")
    rules = PolicyRules(deny=("https://bank.example", "https://bank.example:8443"))
    same = origin.replace(".:", ":").removesuffix(".")
    assert Policy(rules).origin_refusal(origin) == f'policy.deny has "{same}"'
