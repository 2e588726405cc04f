"""Transport between the hub and tabs. Implementations are injected.

Events arrive in their order by a plain function call, so that a tool list that was announced before a result
is known before that result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from bridge.errors import CallError
from bridge.hub.operation import OnFinished, Operation, wait_outcome
from bridge.hub.server_request import ROOTS, ClientSupport, ServerRequest
from native_host.protocol import wire
from native_host.protocol.wire import CdpEvent, HostHello, Progress, ResourceUpdated, Watching, Wire

if TYPE_CHECKING:
    from bridge.hub.primitives.log_message import LogRecipient


class TabAddress(msgspec.Struct, frozen=True):
    """A tab of the browser behind one native host, or that browser itself."""

    host: str
    tab_id: int | None = None


class HostDiscovered(msgspec.Struct, frozen=True):
    """Discovery found a live host; HostLinked or HostLost follows."""

    host: str
    started_at: float
    """Seconds since the epoch."""
    proxy: str = ""
    """Address of the WebSocket proxy in place of a native host; empty: a native host."""


class HostLinked(msgspec.Struct, frozen=True):
    """A host has introduced itself."""

    host: str
    hello: HostHello


class HostAnnouncement(msgspec.Struct, frozen=True):
    """Announcement of a host or its browser, for all sessions."""

    host: str
    method: str
    message: Wire


class HostLost(msgspec.Struct, frozen=True):
    """The link to a host ended, or never came to be."""

    host: str


class DiscoveryFinished(msgspec.Struct, frozen=True):
    """The first scan of all directories of hosts has finished."""


Event = HostDiscovered | HostLinked | HostAnnouncement | HostLost | DiscoveryFinished
Listener = Callable[[Event], None]
OnProgress = Callable[[Progress], None]
OnEvent = Callable[[CdpEvent], None]
"""Hears a DevTools event of its subscription, in the order in which they happened. It does not raise."""
OnWatch = Callable[[Watching | ResourceUpdated], None]
"""Hears that a watch of a resource is active, and then each change. It does not raise."""
OnRequest = Callable[[ServerRequest], Awaitable[bytes]]
"""Sends a request to the MCP client and returns its MCP result as JSON, or raises a CallError.

It is cancelled when the call ends, and after SERVER_REQUEST_S.
"""
OnOfferedCall = Callable[[wire.OfferedCall], Awaitable[bytes]]
"""Runs a page's call of an offered tool; returns a wire.OfferedResult as JSON, or raises a CallError.

It is cancelled when the page cancels the call, and when the offer ends.
"""
HOPS = "dev.mcpb/hops"
"""Member of `_meta`: number of mcpb bridges that a request, or an entry of a list, has passed."""
MAX_ROOTS = 64
"""Roots of a client that are used."""
OnElicited = Callable[[str], None]
"""Notifies the client that the elicitation with this id (mode `url`) is complete. It does not raise."""


async def reject_request(request: ServerRequest) -> bytes:
    """Reject a request: the client supports none. An `OnRequest`."""
    ClientSupport().check(request)
    raise AssertionError("each request needs a capability")


class OfferObserver(msgspec.Struct, frozen=True):
    """Callbacks of an offer of tools to a page."""

    on_offered: Callable[[wire.OfferState], None]
    """Receives its state. It does not raise."""
    on_call: OnOfferedCall


class CallObserver(msgspec.Struct, frozen=True):
    """Callbacks of one request, for messages that precede its response."""

    on_progress: OnProgress | None = None
    on_request: OnRequest = reject_request
    support: ClientSupport = ClientSupport()
    """Requests that `on_request` sends."""
    on_elicited: OnElicited | None = None
    on_event: OnEvent | None = None
    on_watch: OnWatch | None = None
    offer: OfferObserver | None = None
    log: LogRecipient | None = None
    """Receives what the page logs while it has the request."""
    hops: int = 0
    """Number of mcpb bridges that the request has passed before this one."""

    @property
    def supports_elicitation(self) -> bool:
        """Return whether the client shows forms to its user."""
        return self.support.elicitation

    async def list_roots(self) -> list[str]:
        """Return the URIs of the client's roots, at most MAX_ROOTS; none if it does not support roots.

        Raises:
            CallError: the client did not list them.
        """
        if not self.support.roots:
            return []
        listed = await self.on_request(wire.PageRequest(method=ROOTS))
        return [root.uri for root in msgspec.json.decode(listed, type=_RootsResult).roots[:MAX_ROOTS]]


class _Root(msgspec.Struct):
    uri: str


class _RootsResult(msgspec.Struct):
    """An MCP ListRootsResult."""

    roots: list[_Root]


NO_OBSERVER = CallObserver()


class TabTransport(Protocol):
    """Requests to tabs, and news from them."""

    def set_listener(self, listener: Listener) -> None:
        """Hear all events from now on. The listener neither waits nor raises."""
        ...

    def scan_hosts(self) -> None:
        """Scan for hosts at once; discovered ones are reported before this returns."""
        ...

    def send(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        on_finished: OnFinished[bytes | CallError],
        observer: CallObserver = NO_OBSERVER,
    ) -> Operation:
        """Ask, without waiting for the result.

        Each progress report starts `timeout_s` anew; `math.inf` is for what ends by itself. While a request
        to the client is open, the time stands still.
        Cancelling withdraws what was not sent yet, else tells the page.
        """
        ...

    async def request(
        self,
        tab: TabAddress,
        method: str,
        params: Wire,
        timeout_s: float,
        observer: CallObserver = NO_OBSERVER,
    ) -> bytes:
        """Ask and wait for the result (JSON): `send` for those who have a task to wait in.

        Raises:
            CallError: there is no result; it says why, and whether the page may have got the request.
        """

        def begin_request(on_finished: OnFinished[bytes | CallError]) -> Operation:
            return self.send(tab, method, params, timeout_s, on_finished, observer)

        answer = await wait_outcome(begin_request)
        if isinstance(answer, CallError):
            raise answer
        return answer

    def disconnect(self, tab: TabAddress) -> None:
        """Forget a tab here. Other bridges may be using it: nothing is said to the browser."""
        ...
