"""Lists of resources and prompts as the commands print them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

import click
import msgspec

from native_host.protocol.untrusted_text import for_terminal


class ListedArgument(msgspec.Struct):
    """Argument of a prompt."""

    name: str
    required: bool = False


class _ListedEntry(msgspec.Struct, rename="camel", kw_only=True):
    """Members that all lists have. A page may give any value to members that its list does not know."""

    name: str
    title: str = ""
    description: str = ""

    @property
    def summary(self) -> str:
        """The first line of what is known of it."""
        return (self.description or self.title or self.name).partition("\n")[0]


class ListedResource(_ListedEntry):
    """A resource, as far as it is printed."""

    uri: str
    mime_type: str = ""


class ListedTemplate(_ListedEntry):
    """A resource template, as far as it is printed."""

    uri_template: str
    mime_type: str = ""


class ListedPrompt(_ListedEntry):
    """A prompt, as far as it is printed."""

    arguments: list[ListedArgument] = []


T = TypeVar("T", bound=_ListedEntry)


def read_entries(entries: Iterable[msgspec.Raw], shape: type[T]) -> list[T]:
    """Return the entries of a list."""
    decoder = msgspec.json.Decoder(shape)
    return [decoder.decode(entry) for entry in entries]


def print_json(lists: dict[str, list[msgspec.Raw]]) -> None:
    """Print lists as MCP clients get them."""
    click.echo(for_terminal(msgspec.json.format(msgspec.json.encode(lists), indent=2).decode()))


def print_missing(missing: str) -> None:
    """Print on stderr why no page has an entry in a list; nothing if one has."""
    if missing:
        click.echo(f"\n{for_terminal(missing, on=sys.stderr)}", err=True)
