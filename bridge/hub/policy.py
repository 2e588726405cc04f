"""Policy of the user: sites and tools that are allowed, and their descriptions. Sans-IO.

A site is written as for a pause (`rules/site_patterns.py`), or is `*`, `null` or `file://`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from bridge import origins
from bridge.hub.page_tool import PageTool
from bridge.hub.rules.site_patterns import SpellingError, matches_pattern, read_pattern
from native_host.protocol.untrusted_text import single_line

MAX_TEXT = 100
"""Characters of a name or an origin within a refusal: pages choose both."""

_WITHOUT_HOST = {"*", "null", "file://"}


ResultRule = Literal["pass", "warn", "reject"]
"""Pass a result on, pass it on with a mark, or reject it."""


class ToolRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[policy.tools]]`: the tools that both patterns fit, and what holds for them.

    Raises:
        ValueError: the origin is no pattern, or the rule says nothing.
    """

    origin: str = "*"
    name: str = "*"
    """A glob over the page's own name of the tool; upper and lower case differ."""
    allow: bool | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_pattern(self.origin)
        if self.allow is None and self.description is None:
            raise ValueError("it says neither allow nor description")


class PolicyRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[policy]` of config.toml.

    Raises:
        ValueError: an entry of `allow` or `deny` is no site pattern.
    """

    allow: tuple[str, ...] = ()
    """Site patterns; empty is all."""
    deny: tuple[str, ...] = ()
    read_only: bool = False
    results: ResultRule = "warn"
    """Use of a page tool's result whose `structuredContent` does not fit the tool's `outputSchema`."""
    tools: tuple[ToolRule, ...] = ()

    def __post_init__(self) -> None:
        for pattern in (*self.allow, *self.deny):
            check_pattern(pattern)


class Policy:
    """Everything is allowed, unless the rules say otherwise."""

    def __init__(self, rules: PolicyRules | None = None) -> None:
        self.version = 0
        """Changes with the rules: what was judged before is to be judged again."""
        self.set_rules(rules or PolicyRules())

    def set_rules(self, rules: PolicyRules) -> None:
        """Replace the rules, for everything that is judged from now on."""
        self.version += 1
        self._rules = rules
        # A glob becomes an expression without nested repetition: it cannot explode.
        self._names = [re.compile(fnmatch.translate(rule.name)) for rule in self._rules.tools]

    @property
    def is_read_only(self) -> bool:
        """Return whether only tools without side effects may be called."""
        return self._rules.read_only

    @property
    def results(self) -> ResultRule:
        """Return the use of results that do not fit their tool's `outputSchema`."""
        return self._rules.results

    @property
    def has_rules_about_sites(self) -> bool:
        """Return whether a rule depends on the origin of a page."""
        rules = self._rules
        return bool(rules.allow or rules.deny or any(rule.origin != "*" for rule in rules.tools))

    @property
    def denied_patterns(self) -> tuple[str, ...]:
        """Site patterns of sites that no session may use."""
        return self._rules.deny

    @property
    def allowed_patterns(self) -> tuple[str, ...]:
        """Site patterns of the only sites that sessions may use; empty: all."""
        return self._rules.allow

    def find_refusal(self, origin: str, tool: PageTool) -> str:
        """Return the rule that forbids the tool, as text for the user; empty if it is allowed.

        A tool needs its origin, the first matching entry of `policy.tools`, and `policy.read_only` to allow
        it.
        """
        return (
            self.origin_refusal(origin)
            or self._tool_refusal(origin, tool.name)
            or self._writing_refusal(tool)
        )

    def provided_refusal(self, name: str, origin: str | None, *, is_read_only: bool) -> str:
        """Return the rule that forbids a browser tool on a page of this origin; empty if it is allowed.

        Without an origin, the rule must forbid the tool everywhere: no rule before it allows the tool
        somewhere.
        """
        refusal = self._tool_refusal(origin, name)
        if refusal or is_read_only or not self._rules.read_only:
            return refusal
        return f"policy.read_only is on and {name} changes something"

    def origin_refusal(self, origin: str) -> str:
        """Return the rule that forbids to open this origin or to use its tools; empty if it is allowed."""
        for pattern in self._rules.deny:
            if matches_pattern(pattern, origin):
                return f'policy.deny has "{pattern}"'
        if self._rules.allow and not any(matches_pattern(pattern, origin) for pattern in self._rules.allow):
            return f"policy.allow does not name {single_line(origin, MAX_TEXT)}"
        return ""

    def description_of(self, origin: str, own_name: str) -> str | None:
        """Return the user's description, which replaces the page's, or None."""
        said = (rule.description for _, rule in self._rules_for(origin, own_name))
        return next((words for words in said if words is not None), None)

    def _tool_refusal(self, origin: str | None, own_name: str) -> str:
        for index, rule in self._rules_for(origin, own_name):
            if rule.allow is None or (origin is None and not rule.allow and rule.origin != "*"):
                continue
            where = f'policy.tools[{index}] (origin "{rule.origin}", name "{rule.name}")'
            return "" if rule.allow else f"{where} forbids {single_line(own_name, MAX_TEXT)}"
        return ""

    def _writing_refusal(self, tool: PageTool) -> str:
        if not self._rules.read_only or tool.is_read_only:
            return ""
        name = single_line(tool.name, MAX_TEXT)
        return f"policy.read_only is on and the page does not mark {name} as read-only"

    def _rules_for(self, origin: str | None, own_name: str) -> Iterator[tuple[int, ToolRule]]:
        for index, (rule, name) in enumerate(zip(self._rules.tools, self._names, strict=True)):
            if (origin is None or matches_pattern(rule.origin, origin)) and name.match(own_name):
                yield index, rule


def check_pattern(pattern: str) -> None:
    """Check that a site pattern can match an origin.

    Raises:
        ValueError: it cannot; the text has the pattern and the correct form.
    """
    if pattern in _WITHOUT_HOST:
        return
    try:
        found = read_pattern(pattern)
    except SpellingError as error:
        raise ValueError(f'"{pattern}" is no site pattern: {error}') from None
    except origins.OriginError as error:
        raise ValueError(
            f'"{pattern}" is no site: {error}; write bank.example or https://bank.example'
        ) from None
    if found != pattern:
        raise ValueError(f'"{pattern}" is no site pattern: write it as the browser does: {found}')
