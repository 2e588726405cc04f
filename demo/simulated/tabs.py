"""Tabs, frames and tools of the simulated browser. State only: it sends and awaits nothing.

Methods replace the page's JavaScript: `tab.offer(...)`, `tab.withdraw(...)`, `tab.navigate(...)`. Each change
is reported to the listener.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from demo.simulated.page_server import PageServer
from native_host.protocol import wire

TOP_FRAME = 0
ToolResult = dict[str, Any] | msgspec.Raw | str
"""A CallToolResult, the same as ready-made JSON, or the text of one."""
Handler = Callable[[dict[str, Any]], Awaitable[ToolResult]]
"""Gets the arguments. What it raises is what the page threw."""


class Listener(Protocol):
    """Hears what happens to tabs and pages."""

    def tab_changed(self, tab: SimulatedTab) -> None:
        """Handle a new or changed tab."""

    def tools_changed(self, frame: SimulatedFrame) -> None:
        """Handle a frame whose document offers other tools, or has just been loaded."""

    def resource_updated(self, frame: SimulatedFrame, uri: str) -> None:
        """Handle a page server's `notifications/resources/updated`."""

    def server_stopped(self, frame: SimulatedFrame) -> None:
        """Handle a page server that has stopped, or gave way to another one."""

    def document_gone(self, frame: SimulatedFrame) -> None:
        """Handle a frame whose document has been left or closed."""

    def page_loaded(self, tab: SimulatedTab) -> None:
        """Handle a new document in the top frame, without tools yet."""


@dataclass(frozen=True)
class PageTool:
    """A tool of a page: what it says about itself, and what it does."""

    definition: dict[str, Any]
    handler: Handler
    via: wire.Via


class SimulatedFrame:
    """One document in one frame. A navigation puts another in its place; this one is then gone for good."""

    def __init__(self, tab: SimulatedTab, frame_id: int, url: str, listener: Listener) -> None:
        self.tab = tab
        self.frame_id = frame_id
        self.url = url
        self.document_id = secrets.token_hex(16).upper()
        self.tools: dict[str, PageTool] = {}
        self.notice = ""
        self.server: PageServer | None = None
        self._listener = listener

    def offer(
        self,
        name: str,
        handler: Handler,
        *,
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        via: wire.Via = "mcp-b",
        **tool_fields: Any,
    ) -> None:
        """Register or replace a tool; `tool_fields` are its other members in wire spelling."""
        definition: dict[str, Any] = {"name": name}
        if description:
            definition["description"] = description
        if input_schema is not None:
            definition["inputSchema"] = input_schema
        self.tools[name] = PageTool({**definition, **tool_fields}, handler, via)
        self._listener.tools_changed(self)

    def withdraw(self, name: str) -> None:
        """Unregister a tool."""
        del self.tools[name]
        self._listener.tools_changed(self)

    def serve(self, server: PageServer | None) -> None:
        """Start a page server, announce its changed lists, or stop it (None)."""
        stopped = self.server is not None and self.server is not server
        self.server = server
        if stopped:
            self._listener.server_stopped(self)
        self._listener.tools_changed(self)

    def report_update(self, uri: str) -> None:
        """Send `notifications/resources/updated`."""
        self._listener.resource_updated(self, uri)

    @property
    def address(self) -> wire.FrameAddress:
        """Frame and document."""
        return wire.FrameAddress(tab_id=self.tab.tab_id, frame_id=self.frame_id, document_id=self.document_id)

    def announcement(self) -> wire.FrameTools:
        """Return the announcement of everything it offers."""
        server = self.server
        return wire.FrameTools(
            tab_id=self.tab.tab_id,
            frame_id=self.frame_id,
            document_id=self.document_id,
            origin=origin_of(self.url),
            url=self.url,
            title=self.tab.state.title,
            capabilities=server.capabilities if server else None,
            tools=[_encode(tool.definition) for tool in self.tools.values()],
            via={name: tool.via for name, tool in self.tools.items()},
            resources=[_encode(entry) for entry in server.resources] if server else [],
            resource_templates=[_encode(entry) for entry in server.resource_templates] if server else [],
            prompts=[_encode(entry) for entry in server.prompts] if server else [],
            notice=self.notice,
        )


class SimulatedTab:
    """A tab with a page in it. `offer`, `withdraw` and `serve` speak of the page in its top frame."""

    def __init__(self, state: wire.Tab, listener: Listener) -> None:
        self.state = state
        self.frames: dict[int, SimulatedFrame] = {}
        self._listener = listener
        self._history = [state.url]
        self._position = 0

    @property
    def tab_id(self) -> int:
        """The browser's number for it."""
        return self.state.tab_id

    @property
    def top(self) -> SimulatedFrame:
        """The document in the top frame."""
        return self.frames[TOP_FRAME]

    def load(self) -> None:
        """Put a new document for the current URL into the top frame; all that was in the tab is gone."""
        url = self._history[self._position]
        self.close_documents()
        self.frames[TOP_FRAME] = SimulatedFrame(self, TOP_FRAME, url, self._listener)
        self.change(url=url, origin=origin_of(url), status="complete")
        self._listener.tools_changed(self.top)
        self._listener.page_loaded(self)

    def navigate(self, url: str) -> None:
        """Follow a link, or type an address."""
        del self._history[self._position + 1 :]
        self._history.append(url)
        self._position += 1
        self.load()

    def travel(self, steps: int) -> bool:
        """Go back (-1) or forward (1) in the history; false when there is nothing there."""
        if not 0 <= self._position + steps < len(self._history):
            return False
        self._position += steps
        self.load()
        return True

    def add_frame(self, url: str) -> SimulatedFrame:
        """Put an iframe into the page. It is announced with its first tool."""
        frame = SimulatedFrame(self, max(self.frames) + 1, url, self._listener)
        self.frames[frame.frame_id] = frame
        return frame

    def remove_frame(self, frame: SimulatedFrame) -> None:
        """Take an iframe out of the page."""
        del self.frames[frame.frame_id]
        self._listener.document_gone(frame)

    def close_documents(self) -> None:
        """All documents of the tab are gone."""
        for frame in list(self.frames.values()):
            self.remove_frame(frame)

    def change(self, **fields: Any) -> None:
        """Set members of the tab's state (`title=`, `active=`, `owner=` ...)."""
        self.state = msgspec.structs.replace(self.state, **fields)
        self._listener.tab_changed(self)

    def hand_over(self, handed_over: bool = True) -> None:
        """Hand the tab over to clients, or take it back, as the user does in the popup."""
        self.change(handed_over=handed_over)

    def offer(self, name: str, handler: Handler, **fields: Any) -> None:
        """Register a tool of the page: `SimulatedFrame.offer`."""
        self.top.offer(name, handler, **fields)

    def withdraw(self, name: str) -> None:
        """Unregister a tool of the page."""
        self.top.withdraw(name)

    def serve(self, server: PageServer | None) -> None:
        """Start, change or stop the page's server: `SimulatedFrame.serve`."""
        self.top.serve(server)


class BrowserState(Protocol):
    """Tabs and pauses of a simulated browser, for the commands that act on them."""

    hello: wire.BrowserHello
    tabs: dict[int, SimulatedTab]
    paused: wire.Paused

    def add_tab(
        self, url: str, title: str = "", *, active: bool = True, incognito: bool = False
    ) -> SimulatedTab:
        """Open a page in a new tab."""

    def remove_tab(self, tab: SimulatedTab) -> None:
        """Close a tab."""

    def activate(self, tab: SimulatedTab) -> None:
        """Bring a tab to the front."""

    def tab(self, tab_id: int) -> SimulatedTab:
        """Return a tab by its id.

        Raises:
            RefusedError: no tab has this id.
        """

    def pause(self, *, site: str = "", session: str = "", paused: bool = True) -> None:
        """Pause or resume a site or a session."""

    def group_of(self, session: str) -> int:
        """Return the id of a session's tab group, which is created on first use."""

    def all_tabs(self) -> wire.Tabs:
        """Return the params of `browser/tabs`."""


def origin_of(url: str) -> str:
    """Scheme, host and port; `null` where a URL has none."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "null"


def _encode(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
