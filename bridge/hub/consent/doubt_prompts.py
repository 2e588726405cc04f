"""Prompts about what a site offers: one question of a session at a time, and what its answer means."""

from __future__ import annotations

import trio

from bridge.errors import CallError
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_consent import Doubt, PageToolConsent
from bridge.hub.consent.user_prompts import PromptRequest, UserPrompts
from bridge.hub.server_request import SERVER_REQUEST_S
from bridge.hub.transport import CallObserver
from native_host.protocol.wire import Code


class DoubtPrompts:
    """Asks the user to resolve doubts, and keeps choices that last."""

    def __init__(self, prompts: UserPrompts, consent: PageToolConsent, changes: ChangeSignal) -> None:
        self._prompts = prompts
        self._consent = consent
        self._changes = changes
        self._locks: dict[str, trio.Lock] = {}

    def lock(self, session: Session) -> trio.Lock:
        """Return the lock under which a session's doubts are found and asked about."""
        return self._locks.setdefault(session.id, trio.Lock())

    def release(self, session: Session) -> None:
        """Discard the lock of a session that has ended."""
        self._locks.pop(session.id, None)

    async def ask(self, session: Session, doubt: Doubt, observer: CallObserver, host: str) -> None:
        """Return when the user has allowed it.

        Args:
            session: the client that the user is asked about.
            doubt: what to ask.
            observer: of the waiting request, which may ask its client.
            host: native host of the browser that shows the page; empty: no page is concerned.

        Raises:
            CallError: NOT_ALLOWED, `handed=False`: the user said no, did not answer, or cannot be asked.
        """
        request = PromptRequest(
            session=session,
            origin=doubt.origin,
            kind="page-tools",
            text=doubt.text,
            choices=doubt.choices,
            observer=observer,
            host=host,
        )
        try:
            choice = await self._wait_choice(request)
        except CallError as error:
            then = error.then or doubt.instead
            raise CallError(error.code, error.detail, handed=False, then=then) from None
        if choice == "no":
            then = "Do not look for another way; ask them what they want instead."
            raise CallError(Code.NOT_ALLOWED, "the user was asked and said no", handed=False, then=then)
        await self._consent.store_choice(session, doubt, choice)
        self._changes.notify()

    async def _wait_choice(self, request: PromptRequest) -> str:
        with trio.move_on_after(SERVER_REQUEST_S):
            return await self._prompts.ask(request)
        detail = f"the user was asked and did not answer within {SERVER_REQUEST_S:g} s"
        raise CallError(Code.NOT_ALLOWED, detail, handed=False)
