"""What an MCP client says, in both eras of the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from benchmarks.conversation import PATIENCE_S, EndError
from benchmarks.driver import Request
from benchmarks.loads import Load

CLIENT_INFO = {"name": "claude-code", "version": "2.1.329"}
CAPABILITIES: dict[str, Any] = {"roots": {}, "elicitation": {}}
_PAUSE_S = 0.02
"""Seconds between two lists: clients of both eras receive changes in different ways."""


class Era(Enum):
    """How a client says who it is."""

    HANDSHAKE = "2025-11-25"
    """Once, in `initialize`."""
    STATELESS = "2026-07-28"

    @property
    def meta(self) -> dict[str, Any]:
        """What each request carries."""
        if self is Era.HANDSHAKE:
            return {}
        prefix = "io.modelcontextprotocol"
        return {
            "_meta": {
                f"{prefix}/protocolVersion": self.value,
                f"{prefix}/clientInfo": CLIENT_INFO,
                f"{prefix}/clientCapabilities": CAPABILITIES,
            }
        }


class Spoken(Protocol):
    """What is needed of a conversation until calls are made."""

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """See `Conversation`."""
        ...

    def say(self, message: dict[str, Any]) -> None:
        """See `Conversation`."""
        ...


S = TypeVar("S", bound=Spoken)


class McpClient(Generic[S]):
    """Shakes hands, looks for tools, and knows how a call is written."""

    def __init__(
        self, conversation: S, era: Era = Era.HANDSHAKE, capabilities: dict[str, Any] = CAPABILITIES
    ) -> None:
        self.conversation = conversation
        self._era = era
        self._capabilities = capabilities

    def shake_hands(self) -> None:
        """Whatever the era asks for before the first call.

        Raises:
            EndError: the server refuses.
        """
        if self._era is Era.STATELESS:
            self.conversation.ask("server/discover", self._era.meta)
            return
        version = {"protocolVersion": self._era.value}
        self.conversation.ask(
            "initialize", {**version, "capabilities": self._capabilities, "clientInfo": CLIENT_INFO}
        )
        self.conversation.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tool_names(self) -> list[str]:
        """Of all tools that are listed now."""
        return [tool["name"] for tool in self.conversation.ask("tools/list", self._era.meta)["tools"]]

    def request_by(self, public_name: Callable[[Load], str]) -> Request:
        """How calls are written, where a load's tool is listed under this name."""
        meta = msgspec.json.encode(self._era.meta)[1:]

        def request(load: Load) -> bytes:
            name = msgspec.json.encode(public_name(load))
            params = b'{"name":%b,"arguments":%b%b' % (
                name,
                load.arguments,
                meta if meta == b"}" else b"," + meta,
            )
            return b'{"jsonrpc":"2.0","id":\0,"method":"tools/call","params":%b}' % params

        return request

    def listed(self, load: Load, tab: int | None = None) -> str:
        """Wait until a load's tool (in that tab of its site) is listed; return its public name.

        Raises:
            EndError: it is not, within PATIENCE_S.
        """
        ending = load.tool if tab is None else f"_tab{tab}_{load.tool}"
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for name in self.tool_names():
                if name.endswith(ending):
                    return name
            time.sleep(_PAUSE_S)
        raise EndError(f"{ending} was not listed within {PATIENCE_S:g} s")
