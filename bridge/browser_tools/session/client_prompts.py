"""Requests to the client during a call: elicitation, sampling, roots, approval prompts, progress.

The time limits of the call stand still while a user is asked.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import trio
from msgspec import UNSET

from bridge.browser_tools.session.tool_services import ToolServices
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from bridge.hub.client_session import Session
from bridge.hub.consent.user_prompts import Kind, PromptRequest
from bridge.hub.rules.root_sites import ROOTS_S
from bridge.hub.server_request import SAMPLING, SERVER_REQUEST_S
from bridge.hub.transport import CallObserver, OnProgress
from native_host.protocol import wire

SAMPLE_S = 45.0
"""Seconds for a client's model; the client may show the user the prompt first."""
_REMARK_STEP = 0.001
"""Progress of a message that has none of its own."""

_log = logging.getLogger(__name__)


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _SamplingResult(msgspec.Struct):
    """CreateMessageResult whose content is one text."""

    content: _Text


@dataclass
class ProgressReports:
    """Progress of one call towards its client. Its numbers only grow, as MCP requires."""

    on_progress: OnProgress | None = None
    """None: the client wants no progress."""
    last: wire.Progress = field(default_factory=lambda: wire.Progress(progress=-1))

    def send_report(self, progress: wire.Progress) -> None:
        """Report the progress of the whole call."""
        self.last = progress
        if self.on_progress:
            self.on_progress(progress)

    def send_remark(self, progress: wire.Progress) -> None:
        """Report a message of a part of the call, which does not know the progress of the whole."""
        step = 1.0 if self.last.progress < 0 else _REMARK_STEP
        self.send_report(
            wire.Progress(progress=self.last.progress + step, total=self.last.total, message=progress.message)
        )


@dataclass
class ClientPrompts:
    """The client of one call, and the user behind it."""

    services: ToolServices
    session: Session
    caller: CallObserver
    progress: ProgressReports = field(default_factory=ProgressReports)
    limits: list[trio.CancelScope] = field(default_factory=list)
    listed_roots: list[list[str] | None] = field(default_factory=list)
    """The client's roots, as soon as it was asked for them in this call."""

    @property
    def supports_elicitation(self) -> bool:
        """Return whether the client can ask the user."""
        return self.caller.supports_elicitation

    async def ask_user(self, message: str, schema: dict[str, Any] | None = None) -> Any:
        """Ask the user a question and return an MCP ElicitResult (`action`, `content`).

        Raises:
            ToolError: the client cannot ask, or the user did not answer within SERVER_REQUEST_S; return it
                to the client.
        """
        if not self.supports_elicitation:
            raise ToolError(
                "This client cannot ask the user. Nothing was done: ask them in the conversation."
            )
        raw = msgspec.Raw(msgspec.json.encode(schema)) if schema else UNSET
        question = wire.ElicitConfirmation(message=message, requested_schema=raw)
        try:
            with self.pause_clock(), trio.fail_after(SERVER_REQUEST_S):
                return msgspec.json.decode(await self.caller.on_request(question))
        except trio.TooSlowError:
            text = f"The user was asked and did not answer within {SERVER_REQUEST_S:g} s. Nothing was done."
            raise ToolError(text) from None
        except CallError as error:
            raise ToolError(f"The user could not be asked: {error.detail}. Nothing was done.") from None

    def supports_approval(self, host: str = "") -> bool:
        """Return whether the user can be asked to approve something, in the client or in the browser."""
        return self.services.prompts.can_ask(self.caller, host)

    async def ask_approval(
        self, text: str, choices: tuple[str, ...], origin: str, kind: Kind, host: str = ""
    ) -> str:
        """Ask the user to approve something, where `browser.ask_in` says, and return the choice.

        Raises:
            CallError: there is no choice; return it to the client.
        """
        caller = msgspec.structs.replace(self.caller, on_progress=self.progress.send_remark)
        request = PromptRequest(self.session, origin, kind, text, choices, caller, host)
        with self.pause_clock():
            return await self.services.prompts.ask(request)

    @property
    def supports_sampling(self) -> bool:
        """Return whether the client offers its model, and the configuration allows its use."""
        return self.caller.support.sampling and self.services.settings.find_with_model

    async def sample_model(self, messages: Sequence[str], system: str, max_tokens: int) -> str | None:
        """Return the answer of the client's model; None: it did not answer within SAMPLE_S."""
        if not self.supports_sampling:
            return None
        asked = [{"role": "user", "content": {"type": "text", "text": it}} for it in messages]
        params = {"messages": asked, "systemPrompt": system, "maxTokens": max_tokens}
        request = wire.PageRequest(method=SAMPLING, params=msgspec.Raw(msgspec.json.encode(params)))
        try:
            with self.pause_clock(), trio.move_on_after(SAMPLE_S):
                result = await self.caller.on_request(request)
                return msgspec.json.decode(result, type=_SamplingResult).content.text
        except CallError as error:
            _log.info("the client's model was not asked: %s", error.detail)
        except msgspec.DecodeError:
            _log.info("the client's model has not answered with a text")
        return None

    async def list_roots(self) -> list[str] | None:
        """Return the URIs of the client's roots; None: it has not listed them within ROOTS_S.

        The client is asked once in a call. Paths of a client on another machine mean nothing here.
        """
        if not self.listed_roots:
            self.listed_roots.append(await self._ask_roots())
        return self.listed_roots[0]

    async def _ask_roots(self) -> list[str] | None:
        if not self.caller.support.roots:
            return []
        try:
            with self.pause_clock(), trio.move_on_after(ROOTS_S):
                return await self.caller.list_roots()
        except CallError as error:
            _log.info("the client's roots are not known: %s", error.detail)
        return None

    def report(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report the progress of a long call, if the client wants it."""
        if self.caller.on_progress:
            self.progress.send_report(wire.Progress(progress=progress, total=total, message=message))

    @contextmanager
    def limit_time(self, limit_s: float) -> Iterator[trio.CancelScope]:
        """Limit the time of the block, without the time in which a user is asked."""
        with trio.move_on_after(limit_s) as scope:
            self.limits.append(scope)
            try:
                yield scope
            finally:
                self.limits.remove(scope)

    @contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Suspend the time limits of this call."""
        began = trio.current_time()
        left = [(scope, scope.deadline - began) for scope in self.limits]
        for scope in self.limits:
            scope.deadline = math.inf
        try:
            yield
        finally:
            for scope, left_s in left:
                scope.deadline = trio.current_time() + left_s
