"""Interface of approval prompts: what a call asks the user, and the choice.

It shows nothing and stores no approval. `approval_prompts.py` implements it.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from bridge.hub.client_session import Session
from bridge.hub.transport import NO_OBSERVER, CallObserver
from native_host.protocol.untrusted_text import single_line

Kind = Literal["read", "act", "page-tools", "upload", "sampling", "roots"]

MAX_CLIENT = 80
"""Characters of a client's name."""


class PromptRequest(msgspec.Struct, frozen=True):
    """One question for the user."""

    session: Session
    origin: str
    kind: Kind
    text: str
    """One sentence for the user, sanitized."""
    choices: tuple[str, ...]
    """Subset of `once`, `session`, `hour`, `client`, `always`, `no`."""
    observer: CallObserver = NO_OBSERVER
    """The MCP client's call that waits: receives progress, and is asked where the client asks."""
    host: str = ""
    """Native host of the browser that shows the tab; empty: no tab is concerned."""


class UserPrompts(Protocol):
    """Asks the user about a call."""

    async def ask(self, request: PromptRequest) -> str:
        """Return the user's choice, one of `request.choices`.

        Raises:
            CallError: NOT_ALLOWED, `handed=False`: the user closed the window, did not answer within
                2 minutes, said no to the same question in the last minute, or no browser and no client
                can ask. Return it to the client.
        """


def client_name(session: Session) -> str:
    """Return the name by which approvals for one client are stored."""
    name = session.principal or session.client.name or session.title
    return single_line(name, MAX_CLIENT) or "An MCP client"


def shown_client(session: Session) -> str:
    """Return the client as prompts show it: its own name, and the principal if it differs."""
    name = single_line(session.title or session.client.name, MAX_CLIENT) or "An MCP client"
    principal = single_line(session.principal, MAX_CLIENT)
    return f"{name} ({principal})" if principal and principal != name else name
