"""What is asked for and what comes back: tools of one page, each with the answer that it always gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

KB = 1024
MB = 1024 * KB

_LINE = '{"item": "Café crème, 250 g", "price": 4.5, "tags": ["hot", "new"], "link": "C:\\\\shop"}\n'
"""As results are: quotes, backslashes and line ends that JSON escapes, and here and there no ASCII."""


@dataclass(frozen=True)
class Load:
    """One tool, called in one way."""

    name: str
    tool: str
    arguments: bytes
    result: bytes

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as its page describes it. Arguments are checked against this schema, as always."""
        return {
            "name": self.tool,
            "description": "Puts an item of the shop into the cart and shows what is in it.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "item": {"type": "string", "description": "Which item"},
                    "quantity": {"type": "integer", "minimum": 1},
                },
                "required": ["item"],
            },
        }


def _arguments(item: str) -> bytes:
    return msgspec.json.encode({"item": item, "quantity": 2})


def result_of(size: int) -> bytes:
    """Make a CallToolResult of about `size` bytes of JSON, to within one line."""
    lines = max(1, (size - len(_of_lines(0))) // (len(_of_lines(1)) - len(_of_lines(0))))
    return _of_lines(lines)


def _of_lines(count: int) -> bytes:
    return msgspec.json.encode({"content": [{"type": "text", "text": _LINE * count}]})


def text_of(load: Load) -> str:
    """Return the text in a load's result."""
    text: str = msgspec.json.decode(load.result)["content"][0]["text"]
    return text


SMALL = Load("small call", "addToCart", _arguments("apple"), result_of(0))
RESULT_10KB = Load("10 kB result", "list10kB", _arguments("apple"), result_of(10 * KB))
RESULT_1MB = Load("1 MB result", "list1MB", _arguments("apple"), result_of(MB))
RESULT_5MB = Load("5 MB result", "list5MB", _arguments("apple"), result_of(5 * MB))
ARGUMENTS_1MB = Load("1 MB arguments", "store1MB", _arguments(_LINE * (MB // len(_LINE))), result_of(0))
ALL = (SMALL, RESULT_10KB, RESULT_1MB, RESULT_5MB, ARGUMENTS_1MB)
