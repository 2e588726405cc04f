"""Approval prompts in a window of the extension, in the MCP client, or in both.

It stores no approval: the caller does, by the choice. Rules: docs/PROTOCOL.md, "browser/ask".
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.consent.user_prompts import PromptRequest, client_name, shown_client
from bridge.hub.registry import Browser, Registry
from bridge.hub.server_request import SERVER_REQUEST_S
from bridge.hub.transport import CallObserver, TabAddress, TabTransport
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

COMMAND = "browser/ask"
"""Entry of `capabilities.commands` of an extension that opens approval windows."""
AskIn = Literal["extension", "client", "both"]
WORDS = {
    "once": "once",
    "session": "for this session",
    "hour": "for one hour",
    "client": "always for this client",
    "always": "always",
    "no": "no",
}
"""Choices as a form in the MCP client shows them."""
FIELD = "allow"
BACK_S = 10.0
"""Seconds that a browser has to connect again when it was lost while it asked."""
ATTEMPTS = 5
"""Attempts to send a prompt again over a new connection."""
DECLINED_S = 60.0
"""Seconds after a no in which the same question is not asked again."""
_MAX_DECLINED = 256
_MAX_BROWSER = 60


class NoAnswerError(CallError):
    """The user was asked and made no choice."""

    def __init__(self, why: str) -> None:
        super().__init__(Code.NOT_ALLOWED, why, handed=False, then="Ask the user what they want.")


class CannotAskError(CallError):
    """No connected browser asks the user, and the client cannot."""

    def __init__(self) -> None:
        detail = "no connected browser asks the user, and this client cannot"
        super().__init__(Code.NOT_ALLOWED, detail, handed=False)


class ApprovalPrompts:
    """Asks the user: a `UserPrompts`."""

    def __init__(
        self, registry: Registry, transport: TabTransport, changes: ChangeSignal, ask_in: AskIn = "extension"
    ) -> None:
        """`ask_in` is where the user wants to be asked; without an extension that can, the client asks."""
        self._registry = registry
        self._transport = transport
        self._changes = changes
        self.ask_in: AskIn = ask_in
        self._declined: dict[tuple[str, str, str], float] = {}
        """Time of the user's no by client, origin and kind, the latest last."""

    def has_window(self, host: str = "") -> bool:
        """Return whether a browser asks: the one behind the host, or for an empty host any."""
        return self._asking_browser(host) is not None

    def can_ask(self, observer: CallObserver, host: str = "") -> bool:
        """Return whether the user can be asked at all."""
        return observer.supports_elicitation or self.has_window(host)

    async def ask(self, request: PromptRequest) -> str:
        """Return the user's choice. See `UserPrompts`."""
        question = client_name(request.session), request.origin, request.kind
        if trio.current_time() < self._declined.get(question, -math.inf) + DECLINED_S:
            raise _declined_just_now()
        choice = await self._wait_choice(request)
        if choice == "no":
            self._declined.pop(question, None)
            self._declined[question] = trio.current_time()
            if len(self._declined) > _MAX_DECLINED:
                del self._declined[next(iter(self._declined))]
        return choice

    async def _wait_choice(self, request: PromptRequest) -> str:
        browser, observer = self._asking_browser(request.host), request.observer
        ways: list[Callable[[], Awaitable[_Answer]]] = []
        if browser:
            ways.append(partial(self._ask_in_window, request, browser))
        if observer.supports_elicitation and (browser is None or self.ask_in == "both"):
            ways.append(partial(_ask_in_client, request))
        if not ways:
            raise CannotAskError
        with trio.move_on_after(SERVER_REQUEST_S):
            return await _first_choice(ways)
        raise NoAnswerError(f"the user was asked and did not answer within {SERVER_REQUEST_S:g} s")

    def _asking_browser(self, host: str) -> Browser | None:
        if self.ask_in == "client":
            return None
        browsers = [it for it in self._registry.browsers() if it.is_live and _opens_windows(it)]
        if host:
            return next((it for it in browsers if it.host == host), None)
        return max(browsers, key=_last_used, default=None)

    async def _ask_in_window(self, request: PromptRequest, browser: Browser) -> _Answer:
        prompt = wire.AskUser(
            session=request.session.id,
            prompt=secrets.token_hex(8),
            client=shown_client(request.session),
            origin=request.origin,
            kind=request.kind,
            text=request.text,
            choices=list(request.choices),
        )
        if request.observer.on_progress:
            waiting = f"Waiting for the user: mcpb window in {_browser_name(browser)}"
            request.observer.on_progress(wire.Progress(progress=0, message=waiting))
        for _ in range(ATTEMPTS):
            try:
                at = TabAddress(browser.host)
                # The user's time is bounded in `ask`; the margin lets that bound come first.
                raw = await self._transport.request(at, COMMAND, prompt, SERVER_REQUEST_S + BACK_S)
                choice = msgspec.json.decode(raw, type=wire.UserChoice).choice
            except msgspec.DecodeError:
                break
            except CallError as error:
                if error.code != Code.GONE:
                    return _Answer(failure=_explain_error(error), is_final=True)
                if (back := await self._wait_back(browser)) is None:
                    break
                browser = back
            else:
                if choice in request.choices:
                    return _Answer(choice)
                break
        return _Answer(failure=NoAnswerError("the browser that asked the user went away"))

    async def _wait_back(self, lost: Browser) -> Browser | None:
        """Wait for the browser's next connection: its extension has kept the prompt."""

        def find_browser() -> Browser | None:
            found = self._registry.live_browser(lost.profile)
            return found if found and found is not lost and _opens_windows(found) else None

        await self._changes.wait_until(lambda: find_browser() is not None, until=trio.current_time() + BACK_S)
        return find_browser()


class _Answer(msgspec.Struct, frozen=True):
    """Outcome of one way to prompt."""

    choice: str = ""
    """Empty: none."""
    failure: CallError | None = None
    is_final: bool = False
    """The user has seen the prompt and declined to choose: another way is not waited for."""


async def _first_choice(ways: Sequence[Callable[[], Awaitable[_Answer]]]) -> str:
    """Ask in all ways at once; the first choice counts, and the others are withdrawn.

    Raises:
        CallError: none has a choice.
    """
    answers: list[_Answer] = []
    async with trio.open_nursery() as nursery:

        async def run_way(way: Callable[[], Awaitable[_Answer]]) -> None:
            read_answer = await way()
            answers.append(read_answer)
            if read_answer.choice or read_answer.is_final:
                nursery.cancel_scope.cancel()

        for way in ways:
            nursery.start_soon(run_way, way)
    # Two answers may have come before the cancellation: the first decides.
    decided = next((it for it in answers if it.choice or it.is_final), answers[0])
    if decided.failure:
        raise decided.failure
    return decided.choice


async def _ask_in_client(request: PromptRequest) -> _Answer:
    words = {WORDS[choice]: choice for choice in request.choices}
    schema = msgspec.Raw(msgspec.json.encode(make_form("Allow it?", tuple(words))))
    question = wire.ElicitConfirmation(message=request.text, requested_schema=schema)
    try:
        word = read_answer(msgspec.json.decode(await request.observer.on_request(question)))
    except CallError as error:
        return _Answer(failure=NoAnswerError(f"the client could not ask the user: {error.detail}"))
    if word in words:
        return _Answer(words[word])
    return _Answer(failure=NoAnswerError("the user was asked and gave no answer"))


def make_form(title: str, choices: tuple[str, ...]) -> dict[str, Any]:
    """Return an MCP form with one choice. Its values are readable: some clients show no titles."""
    choice = {"type": "string", "title": title, "enum": list(choices), "default": choices[0]}
    return {"type": "object", "properties": {FIELD: choice}, "required": [FIELD]}


def read_answer(result: Any) -> str:
    """Return the choice of an ElicitResult to such a form: `no` if declined, empty if cancelled."""
    match result:
        case {"action": "accept", "content": {"allow": str(choice)}}:
            return choice
        case {"action": "decline"}:
            return WORDS["no"]
        case _:
            return ""


def _explain_error(error: CallError) -> CallError:
    """Return the error of a call whose approval window failed."""
    if error.code == Code.PAUSED:
        return error
    return NoAnswerError(single_line(error.detail, 200).rstrip(".") or "the user made no choice")


def _declined_just_now() -> CallError:
    detail = f"the user said no to this just now, and mcpb does not ask the same again for {DECLINED_S:g} s"
    then = "Do not call again before that; ask the user in the conversation what they want."
    return CallError(Code.NOT_ALLOWED, detail, handed=False, then=then)


def _opens_windows(browser: Browser) -> bool:
    return browser.hello is not None and COMMAND in browser.hello.capabilities.commands


def _last_used(browser: Browser) -> float:
    return max((tab.last_accessed for tab in browser.tabs.values()), default=0)


def _browser_name(browser: Browser) -> str:
    assert browser.hello is not None
    hello = browser.hello
    return single_line(hello.profile.label or hello.browser.brand, _MAX_BROWSER)
