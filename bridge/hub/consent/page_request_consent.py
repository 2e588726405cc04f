"""The user's consent to requests of pages for the client's model and directories, per site.

Values of `[pages]` and approvals by name decide; an approval counts whatever the value is. It shows no prompt
itself and counts no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bridge import origins
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.consent.approval_prompts import CannotAskError
from bridge.hub.consent.doubt_prompts import DoubtPrompts
from bridge.hub.consent.page_tool_consent import CALL_CHOICES, SITE_CHOICES, OriginApprovals
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.consent.user_prompts import PromptRequest, UserPrompts, client_name, shown_client
from bridge.hub.transport import CallObserver
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, quote, single_line
from native_host.protocol.wire import Code, Use

MAX_PREVIEW = 200
"""Characters of a request for a model that the user is shown."""

RequestKind = Literal["sampling", "roots"]


class NotApprovedError(CallError):
    """The user has not allowed a request of a page. The audit log names the command that allows it."""

    def __init__(self, why: str, kind: RequestKind, origin: str) -> None:
        command = f"mcpb allow {origin} {kind}"
        logged = why if origin == origins.OPAQUE else f"{why}; to allow it, run: {command}"
        super().__init__(Code.NOT_ALLOWED, why, handed=False, logged=logged)


class PageRequestConsent:
    """Decides about sampling and roots requests of pages, and asks the user where nothing has decided yet."""

    def __init__(
        self,
        approvals: Mapping[RequestKind, OriginApprovals],
        prompts: UserPrompts,
        doubts: DoubtPrompts,
        settings: PageSettings,
    ) -> None:
        """`approvals` has one store per kind."""
        self._approvals = approvals
        self._prompts = prompts
        self._doubts = doubts
        self.settings = settings

    async def check(
        self,
        kind: RequestKind,
        session: Session,
        origin: str,
        preview: str,
        observer: CallObserver,
        host: str,
    ) -> None:
        """Return if the user allows a request, after asking where that is needed.

        Args:
            kind: what the page wants.
            session: the client that would answer.
            origin: origin of the page.
            preview: beginning of what the model would be asked; empty: nothing.
            observer: of the request in which the page asks, which may ask its client.
            host: native host of the browser that shows the page.

        Raises:
            CallError: NOT_ALLOWED, `handed=False`: the user said no, did not answer, or cannot be asked.
        """
        origin = origins.canonicalize(origin)
        if self._is_approved(kind, session, origin):
            return
        async with self._doubts.lock(session):
            if self._is_approved(kind, session, origin):  # another request asked the same
                return
            text = _format_prompt(kind, session, origin, preview)
            choices = CALL_CHOICES if origin == origins.OPAQUE else SITE_CHOICES
            try:
                choice = await self._prompts.ask(
                    PromptRequest(session, origin, kind, text, choices, observer, host)
                )
            except CannotAskError:
                raise NotApprovedError("the user cannot be asked", kind, origin) from None
            if choice == "no":
                raise CallError(Code.NOT_ALLOWED, "the user was asked and said no", handed=False)
            if choice != "once":
                await self._approvals[kind].grant_approval(origin, choice, client_name(session))

    def _is_approved(self, kind: RequestKind, session: Session, origin: str) -> bool:
        """Return whether the user allows the request without being asked; raise a CallError if it is off."""
        if origin != origins.OPAQUE and self._approvals[kind].has_approval(origin, client_name(session)):
            return True
        use: Use = self.settings.sampling if kind == "sampling" else self.settings.roots
        if use == "off":
            raise NotApprovedError(f'pages.{kind} is "off" in config.toml', kind, origin)
        return use == "on"


def _format_prompt(kind: RequestKind, session: Session, origin: str, preview: str) -> str:
    site = "A page without an origin" if origin == origins.OPAQUE else single_line(origin, MAX_ORIGIN_CHARS)
    who = shown_client(session)
    if kind == "roots":
        return f"{site} wants to know the directories that {who} works in."
    return f"{site} wants an answer from the model of {who}. It would ask: {quote(preview, MAX_PREVIEW)}"
