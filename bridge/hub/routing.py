"""The hub's one waiting part: a public name and arguments in, the page's answer out."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import trio

from bridge.errors import CallError, UnknownToolError, failed, sentence
from bridge.hub import toolbox
from bridge.hub.catalog import Catalog, Entry
from bridge.hub.registry import GRACE_S, Registry
from bridge.hub.sessions import Session
from bridge.hub.transport import NOBODY, Caller, Event, TabAddress, TabTransport
from native_host import wire
from native_host.wire import Code

CALL_S = 10.0
SETTLE_S = 1.0
"""So long a client waits for browsers that were found but have not said everything yet."""
CHANGES_APART_S = 0.5
"""The first change of the tool list is told at once, later ones are joined."""
_MAX_PAGE_TEXT = 64 * 1024

_log = logging.getLogger(__name__)


class Router:
    """Lists and calls tools for sessions, over a transport."""

    def __init__(
        self,
        transport: TabTransport,
        whats_missing: Callable[[Registry], str] = lambda _: "",
        *,
        call_s: float = CALL_S,
    ) -> None:
        self.registry = Registry()
        self.catalog = Catalog(self.registry)
        self._transport = transport
        self._whats_missing = whats_missing
        self._call_s = call_s
        self._news = trio.Event()
        transport.listen(self._hear)

    def whats_missing(self) -> str:
        """Which link of the chain to a page's tool is missing, and the command that mends it; or nothing."""
        return self._whats_missing(self.registry)

    async def run(self) -> None:
        """Forget browsers that stay away. Runs until cancelled."""
        while True:
            with trio.move_on_at(self.registry.next_expiry()):
                await self._news.wait()
                continue
            self.registry.expire(trio.current_time())
            self._wake()

    async def tell_changes(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Call `tell` whenever the list of tools has changed. Runs until cancelled."""
        told, version = self.catalog.listed(), self.registry.version
        while True:
            while self.registry.version == version:
                await self._news.wait()
            listed, version = self.catalog.listed(), self.registry.version
            if listed != told:
                told = listed
                await tell()
            await trio.sleep(CHANGES_APART_S)

    async def settle(self) -> None:
        """Wait, at most SETTLE_S, until every host that lives now has said everything it knows."""
        self._transport.look()
        await self.wait_until(lambda: self.registry.is_settled, until=trio.current_time() + SETTLE_S)

    async def wait_until(self, is_so: Callable[[], bool], *, until: float) -> bool:
        """Wait for news that make it so; whether they came before `until` (trio's clock)."""
        with trio.move_on_at(until):
            while not is_so():
                await self._news.wait()
        return is_so()

    async def tools(self, session: Session) -> list[dict[str, Any]]:
        """The MCP Tools that this session may call: our own first, then the pages'."""
        await self.settle()
        return [*toolbox.TOOLS, *(entry.definition() for entry in self.catalog.show(session))]

    async def call(
        self, session: Session, name: str, arguments: dict[str, Any], caller: Caller = NOBODY
    ) -> bytes:
        """Run a tool; a CallToolResult as JSON. What fails is such a result too.

        Raises:
            UnknownToolError: nobody offers that name, and this session was never shown it.
        """
        try:
            match name:
                case toolbox.LIST_PAGE_TOOLS:
                    return await self._list_page_tools(session, arguments)
                case toolbox.CALL_PAGE_TOOL:
                    return await self._call_page_tool(session, arguments, caller)
                case _:
                    return await self._call_page(session, name, arguments, caller)
        except CallError as error:
            _log.debug("%s: %s", name, error)
            return failed(self._told(error))

    def _told(self, error: CallError) -> str:
        """A tool that is gone may be gone because a whole link of the chain is."""
        missing = self.whats_missing() if error.code == Code.NO_LONGER_OFFERED else ""
        return f"{sentence(error)} {missing}".rstrip()

    async def _list_page_tools(self, session: Session, arguments: dict[str, Any]) -> bytes:
        asked = toolbox.read_arguments(toolbox.ListPageTools, arguments)
        await self.settle()
        notices = [toolbox.notice(frame) for _, _, frame in self.registry.frames()]
        return toolbox.page_tools(self.catalog.show(session), asked, notices, self.whats_missing)

    async def _call_page_tool(self, session: Session, arguments: dict[str, Any], caller: Caller) -> bytes:
        asked = toolbox.read_arguments(toolbox.CallPageTool, arguments)
        try:
            return await self._call_page(session, asked.name, asked.arguments, caller)
        except UnknownToolError:
            detail = f"no page offers {asked.name!r}; list_page_tools has the names"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False) from None

    async def _call_page(
        self, session: Session, name: str, arguments: dict[str, Any], caller: Caller
    ) -> bytes:
        entry = await self._find_live(session, name)
        offer = entry.offer
        if offer.tab.owner not in (None, session.id):
            raise CallError(Code.NOT_YOURS, name, handed=False)
        params = wire.ExecuteTool(
            session=session.id,
            tab_id=offer.frame.tab_id,
            frame_id=offer.frame.frame_id,
            document_id=offer.frame.document_id,
            tool_name=offer.tool.name,
            args=_encoded(arguments),
            wants_progress=caller.on_progress is not None,
        )
        tab = TabAddress(offer.browser.host, offer.tab.tab_id)
        _log.debug("%s goes to tab %d of host %s", name, tab.tab_id, tab.host)
        answer = await self._transport.request(tab, "browser/executeTool", params, self._call_s, caller)
        return _executed(answer)

    async def _find_live(self, session: Session, name: str) -> Entry:
        """The tool behind the name; when its host has vanished, as soon as its page is back."""
        try:
            entry = self.catalog.find(session, name)
        except UnknownToolError:
            await self.settle()
            entry = self.catalog.find(session, name)
        if (lost_at := entry.offer.lost_at) is None:
            return entry
        is_back = await self.wait_until(lambda: self._is_live(session, name), until=lost_at + GRACE_S)
        if is_back:
            return self.catalog.find(session, name)
        if self.registry.has_live(entry.offer.browser.profile):
            raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)
        raise CallError(Code.GONE, "its browser has not come back", handed=False)

    def _is_live(self, session: Session, name: str) -> bool:
        try:
            return self.catalog.find(session, name).offer.lost_at is None
        except (CallError, UnknownToolError):
            return False  # a restarted browser may be back before its page is

    def _hear(self, event: Event) -> None:
        self.registry.hear(event, trio.current_time())
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()


def _encoded(arguments: dict[str, Any]) -> msgspec.Raw:
    try:
        # Not msgspec: it refuses integers beyond 64 bits and turns NaN into null without a word.
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return msgspec.Raw(text.encode())
    except (ValueError, RecursionError) as error:
        raise CallError(Code.INVALID_PARAMS, str(error), handed=False) from None


def _executed(answer: bytes) -> bytes:
    try:
        executed = msgspec.json.decode(answer, type=wire.Executed)
    except msgspec.DecodeError:
        raise CallError(Code.INTERNAL_ERROR, "the extension's answer cannot be read", handed=True) from None
    if executed.success:
        return bytes(executed.payload)
    try:
        text = msgspec.json.decode(executed.payload, type=str)
    except msgspec.DecodeError:
        text = bytes(executed.payload).decode()
    return failed(text[:_MAX_PAGE_TEXT] or "The page's tool failed and did not say why.")
