"""Prompts that no page offers: the user's own, shortcuts, and those built in. Sans-IO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

Role = Literal["user", "assistant"]


class PromptPart(msgspec.Struct, frozen=True):
    """A message: text, or an embedded resource."""

    role: Role
    body: str
    """The text; for a resource, its URI."""
    is_resource: bool = False


class OwnArgument(msgspec.Struct, frozen=True):
    """Argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


class OwnPrompt(msgspec.Struct, frozen=True):
    """A prompt, and how its messages are made."""

    name: str
    title: str
    description: str
    arguments: tuple[OwnArgument, ...]
    fill: Callable[[Mapping[str, str]], Iterable[PromptPart]]
    """Returns the messages for values of its arguments."""
    version: str = ""
    """Changes with its text; empty: it is built in."""

    def read_values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the values by argument. `name=value` counts for the argument of that name.

        Clients with slash commands pass words by position: `/debug-page tab=7` is `{"problem": "tab=7"}`.
        """
        names = [argument.name for argument in self.arguments]
        values: dict[str, str] = {}
        plain: dict[str, str] = {}
        said = {name: _ASSIGNMENT.fullmatch(value) for name, value in given.items()}
        assigned = {name for name, match in said.items() if match and match[1] in names}
        for name, value in given.items():
            match = said[name]
            if match and name in assigned and (match[1] == name or match[1] not in given.keys() - assigned):
                values[match[1]] = match[2]
            else:
                plain[name] = value
        return plain | values

    def missing_arguments(self, values: Mapping[str, str]) -> list[str]:
        """Return the names of required arguments without a value."""
        return [each.name for each in self.arguments if each.is_required and not values.get(each.name)]


_ASSIGNMENT = re.compile(r"([A-Za-z0-9_-]{1,64})=(\S*)")
"""One word, as such clients split what the user has written."""


def format_prompt(prompt: OwnPrompt) -> bytes:
    """Return an MCP Prompt (JSON)."""
    shown: dict[str, Any] = {"name": prompt.name}
    if prompt.title:
        shown["title"] = prompt.title
    if prompt.description:
        shown["description"] = prompt.description
    if prompt.arguments:
        shown["arguments"] = [_format_argument(argument) for argument in prompt.arguments]
    if prompt.version:
        shown["_meta"] = {"dev.mcpb/version": prompt.version}
    return msgspec.json.encode(shown)


def _format_argument(argument: OwnArgument) -> dict[str, Any]:
    about = {"description": argument.description} if argument.description else {}
    return {"name": argument.name, **about, "required": argument.is_required}
