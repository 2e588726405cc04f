"""HTML made of elements. What is no element is text and is escaped: nobody can forget it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

_VOID = {"br", "input", "link", "meta"}


class Html(str):
    """Markup; `element` makes it, nothing else should. What is made of it by `+` or `%` is text again."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""Text, elements, nothing, or several of these."""
Attribute = str | int | bool | None
"""True: it is there, without a value. False and None: it is not there."""


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element, for instance `element("p", "Hello", class_="big", aria_live="polite")`.

    In names of attributes `_` stands for `-`; one at the end is dropped.
    """
    start = f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}>"
    if name in _VOID:
        return Html(start)
    return Html(f"{start}{''.join(map(_markup, children))}</{name}>")


def together(*children: Child) -> Html:
    """Several, one after the other."""
    return Html("".join(map(_markup, children)))


def document(*children: Child, **attributes: Attribute) -> Html:
    """A whole document: its root element with these attributes, and what is in it."""
    return Html(f"<!doctype html>\n{element('html', *children, **attributes)}")


def _markup(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(child)
    return "".join(map(_markup, child))


def _attribute(name: str, value: Attribute) -> str:
    written = name.removesuffix("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {written}" if value is True else f' {written}="{escape(str(value))}"'
