"""Prompts of a page, with validated entries; invalid ones are left out and logged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from bridge.hub.primitives.page_resource import MAX_ENTRIES, log_invalid
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.validation_errors import describe_problem

MAX_ARGUMENTS = 64
"""Arguments of a prompt; one with more is left out."""
MAX_ARGUMENT_BYTES = 64 * 1024
"""Bytes of all argument values of one request together."""
_MAX_SAID = 100

_definitions = msgspec.json.Decoder(dict[str, Any])


class PromptArgument(msgspec.Struct, frozen=True):
    """An argument that a prompt takes; its value is text."""

    name: str
    description: str = ""
    required: bool = False


class PagePrompt(msgspec.Struct, frozen=True):
    """A prompt as its page offers it."""

    name: str
    title: str
    """The page's own, or empty."""
    description: str
    """The page's own words, or empty."""
    arguments: tuple[PromptArgument, ...]
    raw: bytes
    """The entry byte for byte: two that are equal here are the same."""

    def missing_arguments(self, given: dict[str, str]) -> list[str]:
        """Return the names of required arguments that a request lacks."""
        return [
            argument.name for argument in self.arguments if argument.required and argument.name not in given
        ]


def read_prompts(announced: wire.FrameTools, known: Sequence[PagePrompt] = ()) -> list[PagePrompt]:
    """Return the prompts of a frame in order; of two with one name the first.

    `known` are those of an earlier list: an equal one is not decoded again and stays the same object.
    """
    known_by_definition = {prompt.raw: prompt for prompt in known}
    prompts: dict[str, PagePrompt] = {}
    complaints: list[str] = []
    for each in announced.prompts[:MAX_ENTRIES]:
        raw = bytes(each)
        try:
            prompt = known_by_definition.get(raw) or _read_prompt(raw)
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


def _read_prompt(raw: Raw | bytes) -> PagePrompt:
    found = _definitions.decode(raw)
    name = found.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("it has no name")
    said = single_line(name, _MAX_SAID)
    given = found.get("arguments")
    given = [] if given is None else given
    if not isinstance(given, list) or len(given) > MAX_ARGUMENTS:
        raise ValueError(f"the arguments of {said!r} are no list of at most {MAX_ARGUMENTS}")
    try:
        arguments = tuple(msgspec.convert(given, list[PromptArgument]))
    except msgspec.ValidationError as error:
        raise ValueError(f"{said!r}: {describe_problem(error)}") from None
    if len({argument.name for argument in arguments}) < len(arguments):
        raise ValueError(f"{said!r} has an argument twice")
    title, description = found.get("title"), found.get("description")
    return PagePrompt(
        name,
        title if isinstance(title, str) else "",
        description if isinstance(description, str) else "",
        arguments,
        bytes(raw),
    )
