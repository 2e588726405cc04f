"""Session of an MCP client: its identity, and the tool bindings of the names that it was shown."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from bridge.hub.primitives.linked_resources import LinkedResources
from native_host.protocol import wire

MAX_SHOWN = 10_000
"""Names that a session may remember beyond the present list: pages can make up new ones without end."""


ToolSet = Literal["core", "all", "claude-in-chrome"]
"""The browser tools that a list has: the most used ones, all, or all with the names of Claude in Chrome."""


class ListForm(msgspec.Struct, frozen=True):
    """Form of a tool list: the same for all sessions with an equal one."""

    tool_set: ToolSet = "all"
    is_structured: bool = False
    """True if tools state the schema of their `structuredContent`."""


class ToolIdentity(NamedTuple):
    """Identity of a tool: its frame and its name. The document of the frame may change."""

    profile: str
    browser_pid: int
    tab_id: int
    frame_id: int
    origin: str
    own_name: str

    def is_continued_by(self, other: ToolIdentity) -> bool:
        """Return whether `other`, found under the same name, is the same tool for a user.

        A frame that was reloaded counts, and so does the tab of a restarted browser, which has a new id.
        Another tab of the same browser does not.
        """
        is_same_page = self.profile == other.profile and self.origin == other.origin
        is_same_tool = is_same_page and self.own_name == other.own_name
        return is_same_tool and (self.tab_id == other.tab_id or self.browser_pid != other.browser_pid)


class ToolBinding(msgspec.Struct, frozen=True):
    """Tool that a public name stands for in a session."""

    identity: ToolIdentity
    document_id: str
    url: str
    digest: bytes

    def still_holds(self, now: ToolBinding) -> bool:
        """Return whether the tool that is there `now` is the one that was shown.

        A document may change its own tools. Another document is the same page only after a reload, with the
        same address and an identical tool. Otherwise a call for one page would run in the next one.
        """
        return self.document_id == now.document_id or (self.url, self.digest) == (now.url, now.digest)


class Session(msgspec.Struct):
    """One MCP session."""

    id: str
    title: str = ""
    client: wire.ClientInfo = msgspec.field(default_factory=lambda: wire.ClientInfo(name=""))
    opened: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """By profile and address: the tab that was opened to reach a tool there."""
    profiles: set[str] = msgspec.field(default_factory=set)
    """The browsers in which it has opened tabs otherwise."""
    folder: str = ""
    """Working directory of the client on this machine; empty if unknown."""
    is_local: bool = False
    """Its client is a program of our user on this machine: its files are those that it could read itself."""
    principal: str = ""
    """Name under which the user's approvals for this client are stored; empty: `client.name`.

    Over HTTP a client could say any name: it is the one of its token, or of its process.
    """
    is_structured: bool = False
    """True if results of mcpb's own tools contain `structuredContent`: many clients then drop the text."""
    tool_set: ToolSet | None = None
    """The browser tools that it wants listed; None: as `browser.tools` says."""
    keeps_tabs: bool = False
    """True if its tabs stay open at its end, whatever `browser.close_tabs` says."""
    linked: LinkedResources = msgspec.field(default_factory=LinkedResources)
    """Resources that results of pages have linked to."""
    _shown: Mapping[str, ToolBinding] = msgspec.field(default_factory=dict)
    """By public name, as they were shown last; other sessions may have been shown the same."""
    _shown_before: dict[str, ToolBinding] = msgspec.field(default_factory=dict)
    """Bindings of earlier lists that the latest list does not have, the oldest first."""

    def find_binding(self, name: str) -> ToolBinding | None:
        """Return the binding that this session was last shown for a public name, or None."""
        return self._shown.get(name) or self._shown_before.get(name)

    def bind_names(self, bindings: Mapping[str, ToolBinding]) -> None:
        """Remember what names mean now; when there are too many, those shown longest ago are forgotten.

        The mapping must stay as it is. Showing the same one again costs nothing.
        """
        if bindings is self._shown:
            return
        for name in self._shown_before.keys() & bindings.keys():
            del self._shown_before[name]
        self._shown_before |= {name: self._shown[name] for name in self._shown.keys() - bindings.keys()}
        self._shown = bindings
        for name in list(islice(self._shown_before, max(0, len(self._shown_before) - MAX_SHOWN))):
            del self._shown_before[name]

    @property
    def group_key(self) -> str:
        """Key of its tab group: the same for the next session of this client in this folder."""
        known = (self.client.name, self.title, self.folder, self.principal)
        return sha256(msgspec.json.encode(known)).hexdigest()[:16]

    def on_wire(self) -> wire.Session:
        """Return the session as hosts receive it."""
        return wire.Session(id=self.id, title=self.title, client=self.client)
