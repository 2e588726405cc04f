"""Element locators: a ref, a role and a name as `read_page` writes them, a name, or a CSS selector.

`12` is a ref; `button "Save"`, `"Save"` and `Save` are names; `button "Save" in "Draft 2"` also says what the
element is in; `css=#save` is a selector. What could be either of two is rejected.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from bridge.browser_tools.page.element_refs import Ref, is_ref, parse_ref
from bridge.browser_tools.tool_output import ToolError
from native_host.protocol.untrusted_text import quote, single_line

MAX_LOCATOR = 1_000
"""Characters of a name or of a selector."""
MAX_SAID = 80


class NamedElement(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A locator in parts."""

    role: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    within: str | UnsetType = field(name="in", default=UNSET)
    css: str | UnsetType = UNSET


ElementArgument = Annotated[str | int | NamedElement, Meta(extra_json_schema={"type": "string"})]
"""Argument that names an element. Its schema lists the text only, which every client can send."""


class Locator(msgspec.Struct, frozen=True, omit_defaults=True):
    """Argument of `mcpb.locate`."""

    role: str = ""
    name: str = ""
    word: str = ""
    """A name without quotes, which may be a role as well."""
    within: str = ""
    css: str = ""

    def __str__(self) -> str:
        if self.css:
            return f"css={single_line(self.css, MAX_SAID)}"
        name = quote(self.name, MAX_SAID) if self.name else ""
        within = f"in {quote(self.within, MAX_SAID)}" if self.within else ""
        return " ".join(filter(None, [single_line(self.role, MAX_SAID), name, within]))


_QUOTES = "\"'`()"
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_LINE = re.compile(rf"(?:(?P<role>[A-Za-z]+) +)?(?:{_QUOTED})(?: +in +{_QUOTED})?")
_ROLE_IN = re.compile(rf"(?P<role>[A-Za-z]+) +in +{_QUOTED}")
_LIKE_SELECTOR = re.compile(
    r"[#.\[>*:/].*|[a-z][a-z0-9-]*(?:[\[#>]| > ).*|(?:text|role|xpath|id|name)=.*", re.DOTALL
)


def parse_locator(given: str | int | NamedElement) -> Ref | Locator:
    """Parse the argument of a tool.

    Raises:
        ToolError: it names no element, or may mean two things.
    """
    if isinstance(given, NamedElement):
        return _parse_parts(given)
    text = str(given).strip()
    if len(text) > MAX_LOCATOR:
        raise ToolError(f"A locator has at most {MAX_LOCATOR} characters. Nothing was done.")
    if is_ref(text):
        _reject_quoted_number(text)
        return parse_ref(text)
    if text.startswith("css="):
        return _parse_selector(text.removeprefix("css="))
    if found := _LINE.fullmatch(text):
        role, name, within = found.groups()
        return _make_named((role or "").lower(), _unescape(name), _unescape(within or ""))
    if found := _ROLE_IN.fullmatch(text):
        return _make_named(found[1].lower(), "", _unescape(found[2]))
    if _LIKE_SELECTOR.fullmatch(text):
        shown = single_line(text, MAX_SAID)
        raise ToolError(
            f"{quote(text, MAX_SAID)} may be a name or a CSS selector. Nothing was done. Write css={shown} "
            f'for the selector, "{shown}" with its quotes for the name.'
        )
    return msgspec.structs.replace(_make_named("", text, ""), word=text)


def _parse_parts(given: NamedElement) -> Locator:
    css, role, name, within = (part or "" for part in (given.css, given.role, given.name, given.within))
    if css and (role or name or within):
        raise ToolError("A locator has either css, or role, name and in. Nothing was done.")
    return _parse_selector(css) if css else _make_named(role.strip().lower(), name, within)


def _parse_selector(selector: str) -> Locator:
    if not selector.strip():
        raise ToolError("css= needs a CSS selector. Nothing was done.")
    return Locator(css=selector.strip())


def _make_named(role: str, name: str, within: str) -> Locator:
    locator = Locator(role=role, name=" ".join(name.split()), within=" ".join(within.split()))
    if not locator.role and not locator.name:
        raise ToolError(
            'An element is named by a ref such as 12 or f3.12, by button "Name" as read_page writes it, or '
            "by css=selector. Nothing was done."
        )
    return locator


def _reject_quoted_number(text: str) -> None:
    """Reject a number in quotes: it may be a ref that was quoted, or the name of a link.

    Raises:
        ToolError: the text is one.
    """
    if text[0] in _QUOTES and (number := text.strip(_QUOTES)).isdigit():
        raise ToolError(
            f"{number} in quotes may be a ref or a name. Nothing was done. Write {number} for the ref, "
            f'link "{number}" or button "{number}" for the name.'
        )


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
