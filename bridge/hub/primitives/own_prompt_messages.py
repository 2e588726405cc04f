"""Messages of a prompt that no page offers: texts, and resources as they are when it is requested."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from bridge.errors import CallError, NotOfferedError, ReportedError, format_request_error
from bridge.hub.primitives.own_prompt import OwnPrompt, PromptPart
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, quote
from native_host.protocol.wire import Code

_HOW_TO_HAND_OVER = (
    "To use one of your own tabs, show it, open the mcpb popup in the browser's toolbar, choose “Let agents "
    "control this tab”, and then choose the prompt again."
)
_OF_TABS = "mcpb://tab/"


class _ReadResult(msgspec.Struct):
    contents: list[Raw]


_results = msgspec.json.Decoder(_ReadResult)


async def make_messages(
    prompt: OwnPrompt, given: Mapping[str, str], read: Callable[[str], Awaitable[bytes]]
) -> bytes:
    """Return an MCP GetPromptResult (JSON) without `_meta`.

    Args:
        prompt: what was requested.
        given: the arguments of the request.
        read: returns an MCP ReadResourceResult for a URI, or raises.

    Raises:
        CallError: an argument is missing, or a resource cannot be read.
    """
    values = prompt.read_values(given)
    if missing := prompt.missing_arguments(values):
        detail = f"{prompt.name} needs the argument {quote(missing[0], MAX_TITLE_CHARS)}"
        raise CallError(Code.INVALID_PARAMS, detail, handed=False)
    messages: list[dict[str, Any]] = []
    for part in prompt.fill(values):
        if part.is_resource:
            messages += await _embed(part, read)
        else:
            messages.append({"role": part.role, "content": {"type": "text", "text": part.body}})
    about = {"description": prompt.description} if prompt.description else {}
    result: dict[str, Any] = {**about, "messages": messages}
    return msgspec.json.encode(result)


async def _embed(part: PromptPart, read: Callable[[str], Awaitable[bytes]]) -> list[dict[str, Any]]:
    try:
        contents = _results.decode(await read(part.body)).contents
    except NotOfferedError:
        detail = f"the prompt embeds {quote(part.body, MAX_TITLE_CHARS)}, which does not exist now"
        raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None
    except CallError as error:
        if error.code not in (Code.NOT_YOURS, Code.NO_SUCH_TAB) or not part.body.startswith(_OF_TABS):
            raise
        text = f"{format_request_error(error)} {_HOW_TO_HAND_OVER}"
        raise ReportedError(error.code, text, handed=error.handed) from None
    return [{"role": part.role, "content": {"type": "resource", "resource": each}} for each in contents]
