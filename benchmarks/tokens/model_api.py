"""The model's API as Claude Code calls it, played from a script: it calls tools in order, then ends its turn.

    with serving_model([ToolUse("mcp__mcpb__navigate", {"url": url})]) as model:
        run_claude_code(..., model.url)
        model.results[0].text  # what the model was given for that call

Every request body is kept: what is in none of them, the model does not know.
"""

from __future__ import annotations

import http.server
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SEARCH = "ToolSearch"
"""Claude Code's tool that loads the definitions of deferred tools."""
MAX_SEARCHES = 100
"""For one name."""


class ToolUse(NamedTuple):
    """One call of the script."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True)
class ToolResult:
    """A `tool_result` block of a request body."""

    text: str
    """Of its text blocks."""
    images: int
    is_error: bool


Decision = Callable[[Sequence[ToolResult]], ToolUse | None]
"""Next call of a script, from the results of all earlier ones; None at its end."""


@dataclass
class PlayedModel:
    """What was requested of the model."""

    script: Sequence[ToolUse] | Decision
    """The calls in order, or what decides on the next one."""
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the main conversation, in order."""
    _decided: list[ToolUse | None] = field(default_factory=list)

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools of the first request by name: those that the model may call at once."""
        return {tool["name"]: tool for tool in self.requests[0]["tools"]}

    @property
    def results(self) -> list[ToolResult]:
        """The results of the script's calls as far as they were given, in order."""
        blocks = {block["tool_use_id"]: block for block in _blocks(self.requests[-1], "tool_result")}
        wanted = [block["id"] for block in _blocks(self.requests[-1], "tool_use") if block["name"] != SEARCH]
        return [_read_result(blocks[use]) for use in wanted if use in blocks]

    def answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the content blocks of the next message."""
        if not request.get("tools"):
            return [{"type": "text", "text": "A title"}]
        self.requests.append(request)
        wanted = self._decide(sum(block["name"] != SEARCH for block in _blocks(request, "tool_use")))
        if wanted is None:
            return [{"type": "text", "text": "Done."}]
        number = len(self.requests)
        if _is_deferred(wanted.name, request):
            given = {"query": f"select:{wanted.name}", "max_results": 1}
            return [{"type": "tool_use", "id": f"toolu_search{number}", "name": SEARCH, "input": given}]
        return [{"type": "tool_use", "id": f"toolu_{number}", "name": wanted.name, "input": wanted.input}]

    def _decide(self, made: int) -> ToolUse | None:
        """Return the call after so many; the same when it is asked for again, as after a search."""
        if not callable(self.script):
            return self.script[made] if made < len(self.script) else None
        if made == len(self._decided):
            self._decided.append(self.script(self.results))
        return self._decided[made]


def _is_deferred(name: str, request: dict[str, Any]) -> bool:
    """Return whether to search: repeatedly, as this model thinks for no time until a page's tool has come."""
    known = {tool["name"] for tool in request["tools"] if not tool.get("defer_loading")}
    if name in known or name in _loaded(request):
        return False
    searched = [block["input"]["query"] for block in _blocks(request, "tool_use") if block["name"] == SEARCH]
    return searched.count(f"select:{name}") < MAX_SEARCHES


def _loaded(request: dict[str, Any]) -> set[str]:
    """Return the names that searches have found; a search without one has a text as its content."""
    contents = [block.get("content") for block in _blocks(request, "tool_result")]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return {part["tool_name"] for part in parts if part["type"] == "tool_reference"}


def _blocks(request: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    contents = [message["content"] for message in request["messages"]]
    return [
        block
        for content in contents
        if isinstance(content, list)
        for block in content
        if block["type"] == kind
    ]


def _read_result(block: dict[str, Any]) -> ToolResult:
    content = block.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    images = sum(part["type"] == "image" for part in parts)
    return ToolResult(text, images, is_error=bool(block.get("is_error")))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: PlayedModel

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.partition("?")[0] != "/v1/messages":
            return self._send(b'{"input_tokens": 1}', "application/json")
        content = self.model.answer(request)
        message = _make_message(request["model"], content)
        if not request.get("stream"):
            return self._send(json.dumps(message).encode(), "application/json")
        events = "".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(message)
        )
        return self._send(events.encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


_numbers = itertools.count(1)


def _make_message(model: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    reason = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
    about = {"id": f"msg_{next(_numbers)}", "type": "message", "role": "assistant", "model": model}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**about, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the message as server-sent events, each block in one delta."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            written = json.dumps(block["input"])
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": written}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


@contextmanager
def serving_model(script: Sequence[ToolUse] | Decision) -> Iterator[PlayedModel]:
    """Serve the API on a free port of this machine, for the time of the block."""
    model = PlayedModel(script)
    handler = type("Handler", (_Handler,), {"model": model})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield model
        server.shutdown()
