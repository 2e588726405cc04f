"""Browser adapter of Claude in Chrome: translates the existing channel to the native wire. Sans-IO.

It offers tools (`capabilities.tools`, `browser/callTool`) and no tabs. It speaks with the extension itself,
as its host, or with Claude in Chrome's host, as a client of its socket.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from native_host.existing_channel import channel_messages as theirs
from native_host.existing_channel.channel_messages import Flavour, content_of, tool_result
from native_host.existing_channel.pending_calls import Answers, Call, Calls, OtherClients, Refusal, Step
from native_host.protocol import jsonrpc, wire
from native_host.protocol.framing import ByteOrder
from native_host.protocol.jsonrpc import Envelope
from native_host.protocol.validation_errors import describe_problem
from native_host.protocol.wire import Code
from native_host.relay.browser_adapter import AdapterOutput

_HOST_VERSION = "1.0.0"
"""Version of Claude in Chrome's host that the extension receives."""
_ALLOW = {"type": "boolean", "title": "Allow it?", "default": True}
_SCHEMA = msgspec.json.encode({"type": "object", "properties": {"allow": _ALLOW}, "required": ["allow"]})

_encode = msgspec.json.encode
_said = msgspec.json.Decoder(theirs.ExtensionMessage)
_permission = msgspec.json.Decoder(theirs.PermissionRequest)
_call_tool = msgspec.json.Decoder(wire.CallTool)
_cancel = msgspec.json.Decoder(wire.Cancel)
_clients = msgspec.json.Decoder(wire.HostClients)


class _Question(NamedTuple):
    request_id: str
    call: Call


class ChannelAdapter:
    """Adapter of one extension of Claude in Chrome."""

    largest_bytes = theirs.FRAME_BYTES

    def __init__(
        self,
        flavour: Flavour,
        hello: wire.BrowserHello,
        *,
        computer: str = "",
        other_clients: Callable[[], OtherClients] = lambda: OtherClients.NONE,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """Adapt one connection.

        Args:
            flavour: the peer.
            hello: description for bridges, from `describe_extension`.
            computer: name of this computer for the extension.
            other_clients: returns whether other clients use the channel.
            now_ms: returns milliseconds since the epoch.
        """
        self.byte_order: ByteOrder = "little" if flavour == "socket" else "native"
        self._flavour = flavour
        self._hello = hello
        self._computer = computer
        self._now_ms = now_ms
        self._calls = Calls(other_clients, self._probe)
        self._titles: dict[str, str] = {}
        self._are_there = False
        """True if a client is connected."""
        self._questions: dict[bytes, _Question] = {}
        self._asked = 0
        self._ended = ""
        """Reason why the extension takes no more requests; empty while it does."""
        self._for_us: list[bytes] = []
        self._for_them: list[bytes] = []

    @property
    def names_calls(self) -> bool:
        """Return whether its responses name their call; False also while that is unknown."""
        return self._calls.answers is Answers.NAMED

    @property
    def is_owed_an_answer(self) -> bool:
        """See `BrowserAdapter`."""
        return self._calls.is_owed_an_answer

    def on_opened(self) -> AdapterOutput:
        """See `BrowserAdapter`. It announces no tabs: only the extension's tools know them."""
        self._announce("browser/hello", self._hello)
        self._announce("browser/tabs", wire.Tabs(tabs=[]))
        return self._flush()

    def on_silence(self) -> AdapterOutput:
        """See `BrowserAdapter`."""
        return self._flush()

    # ── From the other side ─────────────────────────────────────────────────────────────────────────────────

    def on_message(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        if (said := _read(body)) is None:
            self._send_error("Invalid message format")
        elif self._flavour == "socket":
            self._on_socket_message(said)
        else:
            self._on_extension_message(said)
        return self._flush()

    def _on_socket_message(self, said: theirs.ExtensionMessage) -> None:
        if said.method:
            self._on_notification(said)
        else:
            self._on_response(said)

    def _on_extension_message(self, said: theirs.ExtensionMessage) -> None:
        match said.type:
            case "tool_response":
                self._on_response(said)
            case "notification":
                self._on_notification(said)
            case "ping":
                self._send({"type": "pong", "timestamp": self._now_ms()})
            case "get_status":
                about = {"native_host_version": _HOST_VERSION, "computer_name": self._computer}
                self._send({"type": "status_response", **about})
            case msgspec.UNSET:
                self._send_error("Invalid message format")
            case _:
                self._send_error(f"Unknown message type: {said.type}")

    def _on_response(self, said: theirs.ExtensionMessage) -> None:
        named = said.tool_use_id
        # A name of another type is a name, too, and belongs to another client.
        step = self._calls.on_response(None if named in (None, msgspec.UNSET) else str(named))
        if step.answered:
            self._forget_questions(step.answered)
            is_error = said.error is not msgspec.UNSET
            member = said.error if is_error else said.result
            content = None if member is msgspec.UNSET else content_of(member)
            self._answer(step.answered, content, is_error=is_error)
        self._apply(step)

    def _answer(self, call: Call, content: Any, *, is_error: bool) -> None:
        try:
            result = tool_result(content, is_error=is_error)
        except RecursionError:  # to be read takes a level less than to be written
            text = f"the answer of {theirs.BRAND} is nested too deep"
            self._fail(call.raw_id, Code.INTERNAL_ERROR, text, handed=True)
        else:
            self._for_us.append(jsonrpc.result(call.raw_id, result))

    def _on_notification(self, said: theirs.ExtensionMessage) -> None:
        if said.method != "permission_request" or isinstance(said.params, msgspec.UnsetType):
            return
        try:
            asked = _permission.decode(bytes(said.params))
        except msgspec.DecodeError:
            return
        if call := self._calls.find_call(asked.tool_use_id):
            self._ask(call, asked)

    def _ask(self, call: Call, asked: theirs.PermissionRequest) -> None:
        if call.is_cancelled:
            self._respond(asked.request_id, call, allowed=False)
            return
        self._asked += 1
        raw_id = b'"ext:%d"' % self._asked
        self._questions[raw_id] = _Question(asked.request_id, call)
        question = wire.ElicitConfirmation(
            message=_describe_permission(asked, call), requested_schema=msgspec.Raw(_SCHEMA)
        )
        self._for_us.append(
            b'{"jsonrpc":"2.0","id":%b,"for":%b,"method":"browser/elicitConfirmation","params":%b}'
            % (raw_id, call.raw_id, _encode(question))
        )

    def on_closed(self, why: str) -> list[bytes]:
        """See `BrowserAdapter`. Waiting and later requests fail with `why`."""
        self._ended = why
        sent, waiting = self._calls.end()
        self._questions.clear()
        return [
            jsonrpc.failure(call.raw_id, Code.GONE, why, handed=handed)
            for calls, handed in ((sent, True), (waiting, False))
            for call in calls
        ]

    # ── From the router ────────────────────────────────────────────────────────────────────────────────

    def translate(self, body: bytes) -> AdapterOutput:
        """See `BrowserAdapter`."""
        message = jsonrpc.decode(body)
        if message.is_request:
            self._on_request(message)
        elif message.is_response:
            self._on_elicitation_result(message)
        elif message.method == "browser/cancel":
            self._on_cancel(_encode(_cancel.decode(bytes(message.params)).id))
        elif message.method == "host/clients":
            self._on_clients(_clients.decode(bytes(message.params)).clients)
        return self._flush()

    def _on_request(self, message: Envelope) -> None:
        raw_id = bytes(message.id)
        if self._ended:
            self._fail(raw_id, Code.GONE, self._ended)
            return
        if message.method != "browser/callTool":
            text = f"{theirs.BRAND} does not know {message.method}: it only runs its own tools"
            self._fail(raw_id, Code.METHOD_NOT_FOUND, text)
            return
        try:
            asked = _call_tool.decode(bytes(message.params))
        except msgspec.DecodeError as error:
            self._fail(raw_id, Code.INVALID_PARAMS, f"browser/callTool: {describe_problem(error)}")
            return
        call = self._call(raw_id, asked)
        if len(call.body) > theirs.REQUEST_BYTES:
            text = f"{len(call.body)} bytes for {theirs.BRAND}, the limit is {theirs.REQUEST_BYTES}"
            self._fail(raw_id, Code.TOO_LARGE, text)
            return
        self._apply(self._calls.begin(call))

    def _call(self, raw_id: bytes, asked: wire.CallTool) -> Call:
        use_id = str(uuid.uuid4())
        scope = theirs.SessionScope(asked.session, self._titles.get(asked.session, ""))
        params = theirs.ExecuteTool(
            client_id=theirs.CLIENT_ID,
            tool=asked.name,
            args=asked.args,
            tool_use_id=use_id,
            handle_permission_prompts=asked.asks,
            session_scope=scope if asked.session else msgspec.UNSET,
        )
        return Call(raw_id, use_id, asked.name, self._request("execute_tool", params))

    def _probe(self) -> Call:
        """Return a call that lists tabs and opens none."""
        use_id, tool = str(uuid.uuid4()), "tabs_context_mcp"
        args = msgspec.Raw(b'{"createIfEmpty":false}')
        params = theirs.ExecuteTool(client_id=theirs.CLIENT_ID, tool=tool, args=args, tool_use_id=use_id)
        return Call(b"", use_id, tool, self._request("execute_tool", params))

    def _on_elicitation_result(self, message: Envelope) -> None:
        """Handle the response to an elicitation, or its error."""
        question = self._questions.pop(bytes(message.id), None)
        if question:
            self._respond(question.request_id, question.call, allowed=_is_allowed(bytes(message.result)))

    def _on_cancel(self, raw_id: bytes) -> None:
        for asked, question in list(self._questions.items()):
            if question.call.raw_id == raw_id:
                del self._questions[asked]
                self._respond(question.request_id, question.call, allowed=False)
        self._apply(self._calls.cancel(raw_id))

    def _on_clients(self, clients: Iterable[wire.Client]) -> None:
        clients = list(clients)
        self._titles = {session.id: session.title for client in clients for session in client.sessions}
        if self._flavour == "extension" and bool(clients) != self._are_there:
            self._are_there = bool(clients)
            self._send({"type": "mcp_connected" if clients else "mcp_disconnected"})

    # ── Both ────────────────────────────────────────────────────────────────────────────────────────────────

    def _apply(self, step: Step) -> None:
        self._for_them += [call.body for call in step.send]
        for refusal in step.refuse:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        self._forget_questions(refusal.call)
        self._fail(refusal.call.raw_id, Code.INTERNAL_ERROR, refusal.why, handed=refusal.was_sent)

    def _fail(self, raw_id: bytes, code: Code, text: str, *, handed: bool = False) -> None:
        self._for_us.append(jsonrpc.failure(raw_id, code, text, handed=handed))

    def _forget_questions(self, call: Call) -> None:
        for raw_id in [raw_id for raw_id, question in self._questions.items() if question.call is call]:
            del self._questions[raw_id]

    def _respond(self, request_id: str, call: Call, *, allowed: bool) -> None:
        response = theirs.PermissionResponse(request_id=request_id, allowed=allowed, tool_use_id=call.use_id)
        self._for_them.append(self._request("permission_response", response))

    def _request(self, method: str, params: msgspec.Struct) -> bytes:
        shape = theirs.Request if self._flavour == "socket" else theirs.ToolRequest
        return _encode(shape(method=method, params=msgspec.Raw(_encode(params))))

    def _send_error(self, text: str) -> None:
        if self._flavour == "extension":
            self._send({"type": "error", "error": text})

    def _send(self, message: dict[str, Any]) -> None:
        self._for_them.append(_encode(message))

    def _announce(self, method: str, params: wire.Wire) -> None:
        self._for_us.append(jsonrpc.notification(method, params))

    def _flush(self) -> AdapterOutput:
        turned = AdapterOutput(self._for_us, self._for_them)
        self._for_us, self._for_them = [], []
        return turned


def describe_extension(profile_id: str, version: str, platform: str, label: str = "") -> wire.BrowserHello:
    """Return the description of such an extension: a browser with its own tools and no commands.

    Args:
        profile_id: unique for each running extension.
        version: version of mcpb; the extension reports none.
        platform: platform of the browser.
        label: name for the user.
    """
    tools = [msgspec.Raw(_encode({"name": name, "inputSchema": {"type": "object"}})) for name in theirs.TOOLS]
    return wire.BrowserHello(
        wire=wire.WIRE_VERSION,
        extension=wire.ExtensionInfo(id="", version=version),
        browser=wire.BrowserInfo(brand=theirs.BRAND, version="", platform=platform),
        profile=wire.Profile(id=profile_id, label=label),
        capabilities=wire.Capabilities(tools=tools),
    )


def _read(body: bytes) -> theirs.ExtensionMessage | None:
    with suppress(*theirs.UNREADABLE):
        return _said.decode(body)
    with suppress(*theirs.UNREADABLE):
        return _said.decode(theirs.replace_surrogates(body))
    return None


def _describe_permission(asked: theirs.PermissionRequest, call: Call) -> str:
    what = asked.tool_type or call.tool
    return f"{theirs.BRAND} asks: may {what} be used{f' on {asked.url}' if asked.url else ''}?"


def _is_allowed(raw_result: bytes) -> bool:
    try:
        match msgspec.json.decode(raw_result):
            case {"action": "accept", "content": {"allow": True}}:
                return True
            case _:  # A missing answer does not allow the call.
                return False
    except msgspec.DecodeError:  # The client could not ask: it sent an error.
        return False
