"""Model APIs of OpenAI and Google, played from a script: the model calls tools in order, then ends its turn.

    with serving_models([ToolUse("navigate", {"url": url})]) as model:
        run_agent(..., model.url)
        model.results  # what the model was given for each call, as JSON

The path of a request chooses among chat completions, responses, and Google's `generateContent`. A tool is
found by the end of its name, because agents put a prefix of their own first. Anthropic's API is
`benchmarks.tokens.model_api`.
"""

from __future__ import annotations

import http.server
import itertools
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.tokens.model_api import ToolUse

Json = dict[str, Any]
_numbers = itertools.count(1)


class ModelApi(Protocol):
    """The wire of one API."""

    def tools(self, request: Json) -> list[str]:
        """Return the names of the tools that a request offers."""
        ...

    def results(self, request: Json) -> list[Any]:
        """Return the results of all calls that a request holds."""
        ...

    def events(self, call: ToolUse | None) -> Iterable[Json]:
        """Return the events of the response: a call, or the end of the turn."""
        ...

    def whole(self, call: ToolUse | None) -> Json:
        """Return the response without streaming."""
        ...


class ChatCompletions:
    """POST /chat/completions."""

    def tools(self, request: Json) -> list[str]:
        """See `ModelApi`."""
        return [tool["function"]["name"] for tool in request.get("tools", ())]

    def results(self, request: Json) -> list[Any]:
        """See `ModelApi`; images of results follow them in a message of the user."""
        messages = request["messages"]
        roles = [number for number, message in enumerate(messages) if message["role"] == "tool"]
        return [messages[number : number + 2] for number in roles]

    def events(self, call: ToolUse | None) -> Iterable[Json]:
        """See `ModelApi`."""
        message = self._message(call)
        yield self._chunk(delta=message, finish_reason=None)
        yield self._chunk(delta={}, finish_reason="tool_calls" if call else "stop")

    def whole(self, call: ToolUse | None) -> Json:
        """See `ModelApi`."""
        return self._chunk(message=self._message(call), finish_reason="tool_calls" if call else "stop")

    def _chunk(self, **choice: Any) -> Json:
        kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, **choice}]
        return {
            "id": "chat",
            "object": kind,
            "created": 1,
            "model": "played",
            "choices": choices,
            "usage": usage,
        }

    def _message(self, call: ToolUse | None) -> Json:
        if call is None:
            return {"role": "assistant", "content": "Done."}
        function = {"name": call.name, "arguments": json.dumps(call.input)}
        made = {"index": 0, "id": f"call_{next(_numbers)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}


class Responses:
    """POST /responses."""

    def tools(self, request: Json) -> list[str]:
        """See `ModelApi`. A tool of a namespace is `namespace/name`."""
        names = []
        for tool in request.get("tools", ()):
            inner = tool.get("tools", ())
            names += [f"{tool['name']}/{each['name']}" for each in inner] or [tool.get("name", tool["type"])]
        return names

    def results(self, request: Json) -> list[Any]:
        """See `ModelApi`."""
        return [item["output"] for item in request["input"] if item.get("type") == "function_call_output"]

    def events(self, call: ToolUse | None) -> Iterable[Json]:
        """See `ModelApi`."""
        response = self.whole(call)
        (item,) = response["output"]
        yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": response}

    def whole(self, call: ToolUse | None) -> Json:
        """See `ModelApi`."""
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        response = {"id": "response", "object": "response", "created_at": 1, "model": "played"}
        return {**response, "status": "completed", "output": [self._item(call)], "usage": usage}

    def _item(self, call: ToolUse | None) -> Json:
        number = next(_numbers)
        if call is None:
            content = [{"type": "output_text", "text": "Done.", "annotations": []}]
            return {"type": "message", "id": f"message_{number}", "role": "assistant", "content": content}
        namespace, _, name = call.name.rpartition("/")
        made = {"type": "function_call", "id": f"item_{number}", "call_id": f"call_{number}", "name": name}
        made |= {"namespace": namespace} if namespace else {}
        return {**made, "arguments": json.dumps(call.input)}


class GenerateContent:
    """POST …:generateContent and …:streamGenerateContent."""

    def tools(self, request: Json) -> list[str]:
        """See `ModelApi`."""
        groups = request.get("tools", ())
        return [tool["name"] for group in groups for tool in group.get("functionDeclarations", ())]

    def results(self, request: Json) -> list[Any]:
        """See `ModelApi`; images of a result are parts beside it."""
        contents = [content["parts"] for content in request["contents"]]
        return [parts for parts in contents if any("functionResponse" in part for part in parts)]

    def events(self, call: ToolUse | None) -> Iterable[Json]:
        """See `ModelApi`."""
        yield self.whole(call)

    def whole(self, call: ToolUse | None) -> Json:
        """See `ModelApi`."""
        part = {"functionCall": {"name": call.name, "args": call.input}} if call else {"text": "Done."}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage}


@dataclass
class PlayedModels:
    """What was requested of the model."""

    script: Sequence[ToolUse]
    url: str = ""
    tools: list[str] = field(default_factory=list)
    """Names of the tools in the latest request that offered any."""
    results: list[Any] = field(default_factory=list)
    """Results of the script's calls, in order."""

    def answer(self, api: ModelApi, request: Json) -> ToolUse | None:
        """Return the next call; None ends the turn."""
        names = api.tools(request)
        if not names:
            return None
        results = api.results(request)
        if len(results) >= len(self.results):
            self.tools, self.results = names, results
        if len(results) >= len(self.script):
            return None
        wanted = self.script[len(results)]
        found = [name for name in names if name.endswith(wanted.name)]
        return ToolUse(found[0], wanted.input) if found else None


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: PlayedModels

    def do_GET(self) -> None:
        self._send(b'{"data": [], "models": []}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        api = _api_of(path)
        if api is None:
            return self._send(b"{}", "application/json")
        request = json.loads(body)
        call = self.model.answer(api, request)
        if not (request.get("stream") or path.endswith(":streamGenerateContent")):
            return self._send(json.dumps(api.whole(call)).encode(), "application/json")
        events = [f"data: {json.dumps(event)}\n\n" for event in api.events(call)]
        if isinstance(api, ChatCompletions):
            events.append("data: [DONE]\n\n")
        return self._send("".join(events).encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


def _api_of(path: str) -> ModelApi | None:
    if path.endswith("/chat/completions"):
        return ChatCompletions()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return GenerateContent()
    return None


@contextmanager
def serving_models(script: Sequence[ToolUse]) -> Iterator[PlayedModels]:
    """Serve the APIs on a free port of this machine, for the time of the block."""
    model = PlayedModels(script)
    handler = type("Handler", (_Handler,), {"model": model})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield model
        server.shutdown()
