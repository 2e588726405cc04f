"""Prompts of a page, with validated entries; invalid ones are left out and logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bridge.hub.primitives.page_resource import MAX_ENTRIES, log_invalid, text_in
from bridge.hub.tool_definition import edit_meta, is_hiding, pick_icons
from native_host.protocol import wire
from native_host.protocol.untrusted_text import is_single_line, single_line
from native_host.protocol.validation_errors import describe_problem

MAX_ARGUMENTS = 64
"""Arguments of a prompt; one with more is left out."""
MAX_NAME_CHARS = 128
"""Characters of the name of an argument, which clients repeat."""
_MAX_SAID = 100
_OWN_MEMBERS = ("name", "title", "description", "arguments")

_definitions = msgspec.json.Decoder(dict[str, Raw])


class PromptArgument(msgspec.Struct, frozen=True):
    """An argument that a prompt takes; its value is text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > MAX_NAME_CHARS or not is_single_line(self.name):
            raise ValueError(f"the name of an argument is one line of at most {MAX_NAME_CHARS} characters")


_arguments = msgspec.json.Decoder(list[PromptArgument] | None)


class PagePrompt(msgspec.Struct, frozen=True):
    """A prompt as its page offers it."""

    name: str
    title: str
    """The page's own, or empty."""
    description: str
    """The page's own words, or empty."""
    arguments: tuple[PromptArgument, ...]
    members: bytes
    """The other members as JSON: an object."""
    raw: bytes
    """The entry byte for byte: two that are equal here are the same."""

    def missing_arguments(self, given: Mapping[str, str]) -> list[str]:
        """Return the names of required arguments that a request lacks."""
        return [
            argument.name for argument in self.arguments if argument.required and argument.name not in given
        ]


def read_prompts(announced: wire.FrameTools, known: Sequence[PagePrompt] = ()) -> list[PagePrompt]:
    """Return the prompts of a frame in order; of two with one name the first.

    `known` are those of an earlier list: an equal one is not decoded again and stays the same object.
    """
    if not announced.prompts:
        return []
    known_by_definition = {prompt.raw: prompt for prompt in known}
    prompts: dict[str, PagePrompt] = {}
    complaints: list[str] = []
    for each in announced.prompts[:MAX_ENTRIES]:
        raw = bytes(each)
        try:
            prompt = known_by_definition.get(raw) or read_prompt(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            complaints.append(single_line(describe_problem(error), 2 * _MAX_SAID))
            continue
        if prompt.name in prompts:
            complaints.append(f"{single_line(prompt.name, _MAX_SAID)!r} is there twice, the first one counts")
            continue
        prompts[prompt.name] = prompt
    given = len(announced.prompts)
    log_invalid(announced.origin, "prompts", given - len(prompts), given, complaints)
    return list(prompts.values())


def read_prompt(raw: bytes) -> PagePrompt:
    """Return the prompt with this definition (JSON). Raises as `page_resource.read_entry`."""
    found = _definitions.decode(raw)
    name = text_in(found, "name")
    if not name:
        raise ValueError("it has no name")
    said = single_line(name, _MAX_SAID)
    try:
        arguments = tuple(_arguments.decode(found.get("arguments", b"null")) or ())
    except msgspec.DecodeError as error:
        raise ValueError(f"arguments of {said!r}: {describe_problem(error)}") from None
    if len(arguments) > MAX_ARGUMENTS:
        raise ValueError(f"{said!r} has {len(arguments)} arguments, and {MAX_ARGUMENTS} are the most")
    if len({argument.name for argument in arguments}) < len(arguments):
        raise ValueError(f"{said!r} has an argument twice")
    members: dict[str, Any] = {
        member: value
        for member, value in found.items()
        if member not in _OWN_MEMBERS and not is_hiding(member, value)
    }
    pick_icons(members)
    edit_meta(members)
    title, description = text_in(found, "title"), text_in(found, "description")
    return PagePrompt(name, title, description, arguments, msgspec.json.encode(members), raw)
