"""The user's consent to requests of pages for the client's model and directories, per site.

Values of `[pages]` and approvals by name decide; an approval counts whatever the value is. It shows no prompt
itself and counts no tokens.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from typing import Literal
from weakref import WeakValueDictionary

import trio

from bridge import origins
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.consent.approval_prompts import DECLINED_S, CannotAskError, NoAnswerError
from bridge.hub.consent.page_tool_consent import CALL_CHOICES, SITE_CHOICES, OriginApprovals
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.consent.user_prompts import PromptRequest, UserPrompts, client_name, shown_client
from bridge.hub.transport import CallObserver
from native_host.protocol.untrusted_text import MAX_ORIGIN_CHARS, quote, single_line
from native_host.protocol.wire import Code, Use

RequestKind = Literal["sampling", "roots"]
MAX_PREVIEW = 200
"""Characters of a request for a model that the user is shown."""
_MAX_UNANSWERED = 256
_Subject = tuple[str, str, RequestKind]
"""Session, origin and kind that a prompt is about."""


class NotApprovedError(CallError):
    """The user has not allowed a request of a page. The audit log names the command that allows it."""

    def __init__(self, why: str, kind: RequestKind, origin: str, session: Session) -> None:
        command = f"mcpb allow {origin} {kind} --client {shlex.quote(client_name(session))}"
        logged = why if origin == origins.OPAQUE else f"{why}; to allow it, run: {command}"
        super().__init__(Code.NOT_ALLOWED, why, handed=False, logged=logged)


class PageRequestConsent:
    """Decides about sampling and roots requests of pages, and asks the user where nothing has decided yet."""

    def __init__(
        self,
        approvals: Mapping[RequestKind, OriginApprovals],
        prompts: UserPrompts,
        settings: PageSettings,
        now: Callable[[], float],
    ) -> None:
        """`approvals` has one store per kind; `now` is in seconds, on any clock that only goes forward."""
        self._approvals = approvals
        self._prompts = prompts
        self.settings = settings
        self._now = now
        self._locks: WeakValueDictionary[_Subject, trio.Lock] = WeakValueDictionary()
        """One prompt of each subject at a time."""
        self._unanswered: dict[_Subject, float] = {}
        """Times of prompts that the user has closed or left without an answer, the latest last."""

    def is_approved(self, kind: RequestKind, session: Session, origin: str) -> bool:
        """Return whether the user allows a request of an origin without being asked.

        Raises:
            CallError: NOT_ALLOWED, the user allows none.
        """
        origin = origins.canonicalize(origin)
        if origin != origins.OPAQUE and self._approvals[kind].has_approval(origin, client_name(session)):
            return True
        use: Use = self.settings.sampling if kind == "sampling" else self.settings.roots
        if use == "off":
            raise NotApprovedError(f'pages.{kind} is "off" in config.toml', kind, origin, session)
        return use == "on"

    async def check(
        self, kind: RequestKind, session: Session, origin: str, text: str, observer: CallObserver, host: str
    ) -> None:
        """Return if the user allows a request, after asking where that is needed.

        Args:
            kind: what the page wants.
            session: the client that would answer.
            origin: origin of the page.
            text: sentence of the prompt.
            observer: of the request in which the page asks, which may ask its client.
            host: native host of the browser that shows the page.

        Raises:
            CallError: NOT_ALLOWED, `handed=False`: the user said no, did not answer, or cannot be asked.
        """
        origin = origins.canonicalize(origin)
        if self.is_approved(kind, session, origin):
            return
        subject = session.id, origin, kind
        async with self._locks.setdefault(subject, trio.Lock()):
            if self.is_approved(kind, session, origin):  # another request asked the same
                return
            if self._now() < self._unanswered.get(subject, -math.inf) + DECLINED_S:
                raise CallError(Code.NOT_ALLOWED, "the user did not answer this just now", handed=False)
            choices = CALL_CHOICES if origin == origins.OPAQUE else SITE_CHOICES
            choice = await self._ask(PromptRequest(session, origin, kind, text, choices, observer, host))
            if choice == "no":
                raise CallError(Code.NOT_ALLOWED, "the user was asked and said no", handed=False)
            if choice != "once":
                await self._approvals[kind].grant_approval(origin, choice, client_name(session))

    async def _ask(self, request: PromptRequest) -> str:
        kind: RequestKind = "sampling" if request.kind == "sampling" else "roots"
        try:
            return await self._prompts.ask(request)
        except CannotAskError:
            why = "the user cannot be asked"
            raise NotApprovedError(why, kind, request.origin, request.session) from None
        except NoAnswerError:
            subject = request.session.id, request.origin, kind
            self._unanswered.pop(subject, None)
            self._unanswered[subject] = self._now()
            if len(self._unanswered) > _MAX_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]
            raise


def format_roots_prompt(session: Session, origin: str) -> str:
    """Return the sentence that asks whether a page may list the directories of a client."""
    return f"{format_page(origin)} wants to know the directories that {shown_client(session)} works in."


def format_sampling_prompt(session: Session, origin: str, preview: str, more: str) -> str:
    """Return the sentence that asks whether a page may ask the model of a client."""
    beside = f", and {more}" if more else ""
    asked = f"It would ask: {quote(preview, MAX_PREVIEW)}{beside}"
    return f"{format_page(origin)} wants an answer from the model of {shown_client(session)}. {asked}"


def format_page(origin: str) -> str:
    """Return the page, or the remote server, at the begin of a sentence."""
    if origin.startswith(origins.REMOTE):
        return f"The remote server {origin.removeprefix(origins.REMOTE)}"
    return "A page without an origin" if origin == origins.OPAQUE else single_line(origin, MAX_ORIGIN_CHARS)
