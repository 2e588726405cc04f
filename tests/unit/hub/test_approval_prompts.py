"""Where the user is asked, and which answer counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import trio

from bridge.errors import CallError
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.consent.approval_prompts import BACK_S, COMMAND, DECLINED_S, ApprovalPrompts, AskIn
from bridge.hub.consent.user_prompts import Kind, PromptRequest, client_name, shown_client
from bridge.hub.registry import Registry
from bridge.hub.server_request import FORMS, SERVER_REQUEST_S, ServerRequest
from bridge.hub.transport import CallObserver, Event, HostDiscovered, HostLinked, HostLost
from fake_transport import PlayedTransport, browser_hello, host_hello, tab
from native_host.protocol import wire
from native_host.protocol.wire import Code

CHOICES = ("once", "hour", "client", "always", "no")
SHOP = "https://shop.example"
User = Callable[[ServerRequest], Awaitable[bytes]]


class Asking:
    """Prompts over a transport that the test plays."""

    def __init__(self, ask_in: AskIn = "extension") -> None:
        self.transport = PlayedTransport()
        self.transport.answer = None
        self.registry = Registry()
        self.news = ChangeSignal()
        self.transport.set_listener(self._on_event)
        self.prompts = ApprovalPrompts(self.registry, self.transport, self.news, ask_in)
        self.progress: list[str] = []

    def _on_event(self, event: Event) -> None:
        self.registry.on_event(event, trio.current_time())
        self.news.notify()

    def connect(
        self, host: str, *commands: str, profile: str = "", last_accessed: float = 0, started_at: float = 1
    ) -> None:
        hello = msgspec.structs.replace(
            browser_hello(profile or host), capabilities=wire.Capabilities(commands=list(commands))
        )
        self.transport.happen(HostDiscovered(host, started_at), HostLinked(host, host_hello(host)))
        tabs = wire.Tabs(tabs=[msgspec.structs.replace(tab(1), last_accessed=last_accessed)])
        self.transport.announce(host, hello, tabs, wire.HostReplayed())

    async def ask(
        self,
        user: User | None = None,
        host: str = "",
        *,
        session: str = "s1",
        client: str = "Agent",
        origin: str = SHOP,
        kind: Kind = "act",
    ) -> str:
        whose = Session(session, title=f"{client} in app", client=wire.ClientInfo(name=client))
        caller = CallObserver(on_progress=lambda it: self.progress.append(it.message))
        if user:
            caller = msgspec.structs.replace(caller, on_request=user, support=FORMS)
        request = PromptRequest(whose, origin, kind, f"{client} wants to act.", CHOICES, caller, host)
        return await self.prompts.ask(request)

    async def sent(self, count: int = 1) -> Any:
        """The prompt that was sent last, once `count` are."""
        with trio.fail_after(60):
            while len(self.transport.asked) < count:  # noqa: ASYNC110 - the transport tells nobody
                await trio.sleep(0.01)
        return self.transport.asked[-1]


async def chooses(_question: ServerRequest) -> bytes:
    return msgspec.json.encode({"action": "accept", "content": {"allow": "for one hour"}})


async def declines(_question: ServerRequest) -> bytes:
    return b'{"action": "decline"}'


async def cancels(_question: ServerRequest) -> bytes:
    return b'{"action": "cancel"}'


async def fails(_question: ServerRequest) -> bytes:
    raise CallError(Code.GONE, "nobody waits", handed=False)


async def never(_question: ServerRequest) -> bytes:
    await trio.sleep_forever()
    raise AssertionError


async def answered(asking: Asking, choice: str, *, user: User | None = None, host: str = "") -> str:
    """Ask, and let the window be answered; the host that was asked."""
    results: list[str] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            results.append(await asking.ask(user, host))

        nursery.start_soon(ask)
        asked = await asking.sent()
        asked.on_done(msgspec.json.encode({"choice": choice}))
    assert results == [choice]
    found: str = asked.tab.host
    return found


# ── Where ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_browser_of_the_tab_asks_else_the_one_used_last() -> None:
    for host, expected in (("a", "a"), ("", "b")):
        asking = Asking()
        asking.connect("a", COMMAND, last_accessed=1)
        asking.connect("b", COMMAND, last_accessed=3)
        asking.connect("c", last_accessed=9)  # an older extension
        assert await answered(asking, "once", host=host) == expected


async def test_the_window_is_told_who_asks_for_what_and_the_client_where_to_look() -> None:
    asking = Asking()
    asking.connect("a", COMMAND)
    await answered(asking, "always")
    (asked,) = asking.transport.asked
    prompt = asked.params
    assert isinstance(prompt, wire.AskUser)
    assert (prompt.session, prompt.client, prompt.origin, prompt.kind) == ("s1", "Agent in app", SHOP, "act")
    assert prompt.choices == list(CHOICES)
    assert asking.progress == ["Waiting for the user: mcpb window in Chromium"]


@pytest.mark.parametrize("ask_in", ["extension", "client", "both"])
async def test_the_client_asks_where_no_browser_can(ask_in: AskIn) -> None:
    asking = Asking(ask_in)
    asking.connect("a", "forwardCDPCommand")
    assert await asking.ask(chooses) == "hour"
    with pytest.raises(CallError) as refused:
        await asking.ask()
    assert (refused.value.code, refused.value.handed) == (Code.NOT_ALLOWED, False)


async def test_a_browser_that_can_ask_is_not_asked_if_the_user_wants_the_client() -> None:
    asking = Asking("client")
    asking.connect("a", COMMAND)
    assert await asking.ask(chooses) == "hour"
    assert asking.transport.asked == []


async def test_the_tab_s_browser_cannot_ask_so_the_client_does_and_no_other_browser() -> None:
    asking = Asking()
    asking.connect("a", COMMAND)
    asking.connect("old", "forwardCDPCommand")
    assert await asking.ask(chooses, "old") == "hour"
    assert asking.transport.asked == []


# ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_in_both_the_client_s_answer_withdraws_the_window() -> None:
    asking = Asking("both")
    asking.connect("a", COMMAND)
    assert await asking.ask(chooses) == "hour"
    assert len(asking.transport.given_up) == len(asking.transport.asked)


@pytest.mark.parametrize("user", [never, cancels, fails])
async def test_in_both_the_window_decides_where_the_client_has_no_answer(user: User) -> None:
    asking = Asking("both")
    asking.connect("a", COMMAND)
    assert await answered(asking, "client", user=user) == "a"


async def test_in_both_a_closed_window_is_final() -> None:
    asking = Asking("both")
    asking.connect("a", COMMAND)
    asking.transport.answer = CallError(Code.NOT_ALLOWED, "The user closed the window.", handed=False)
    with trio.fail_after(60), pytest.raises(CallError, match="closed the window"):
        await asking.ask(never)


# ── After a no ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_question_that_was_declined_is_not_asked_again_for_a_minute(autojump_clock: Any) -> None:
    asking = Asking()
    assert await asking.ask(declines) == "no"
    for session in ("s1", "s2"):
        with pytest.raises(CallError) as refused:
            await asking.ask(chooses, session=session)
        assert (refused.value.code, refused.value.handed) == (Code.NOT_ALLOWED, False)
        assert "said no to this just now" in refused.value.detail
        assert "ask the user in the conversation" in refused.value.then
    assert await asking.ask(chooses, client="Other") == "hour"
    assert await asking.ask(chooses, origin="https://tea.example") == "hour"
    assert await asking.ask(chooses, kind="read") == "hour"
    await trio.sleep(DECLINED_S)
    assert await asking.ask(chooses) == "hour"


@pytest.mark.parametrize("user", [cancels, fails, never])
async def test_a_question_without_an_answer_is_asked_again_at_once(user: User, autojump_clock: Any) -> None:
    asking = Asking()
    with pytest.raises(CallError):
        await asking.ask(user)
    assert await asking.ask(chooses) == "hour"


async def test_of_declined_questions_the_earliest_is_forgotten_first() -> None:
    asking = Asking()
    for number in range(257):
        assert await asking.ask(declines, origin=f"https://{number}.example") == "no"
    assert await asking.ask(chooses, origin="https://0.example") == "hour"
    with pytest.raises(CallError, match="just now"):
        await asking.ask(chooses, origin="https://1.example")


# ── Errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (CallError(Code.NOT_ALLOWED, "The user closed the window.", handed=False), Code.NOT_ALLOWED),
        (CallError(Code.RATE_LIMITED, "16 prompts wait.", handed=False), Code.NOT_ALLOWED),
        (CallError(Code.PAUSED, "it is this client", handed=False), Code.PAUSED),
        ({"choice": "session"}, Code.NOT_ALLOWED),  # it was not offered
        ({"choice": 1}, Code.NOT_ALLOWED),
    ],
)
async def test_no_choice_is_no_approval(answer: Any, code: Code) -> None:
    asking = Asking()
    asking.connect("a", COMMAND)
    asking.transport.answer = answer
    with pytest.raises(CallError) as refused:
        await asking.ask(chooses)
    assert (refused.value.code, refused.value.handed) == (code, False)


async def test_an_unanswered_prompt_ends_and_is_withdrawn(autojump_clock: Any) -> None:
    asking = Asking("both")
    asking.connect("a", COMMAND)
    began = trio.current_time()
    with pytest.raises(CallError, match="did not answer within 120 s"):
        await asking.ask(never)
    assert trio.current_time() - began == pytest.approx(SERVER_REQUEST_S)
    assert asking.transport.given_up == asking.transport.asked


async def test_the_same_prompt_is_sent_again_when_the_browser_is_back(autojump_clock: Any) -> None:
    asking = Asking()
    asking.connect("a", COMMAND, profile="p")
    results: list[str] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            results.append(await asking.ask())

        nursery.start_soon(ask)
        first = await asking.sent()
        asking.transport.happen(HostLost("a"))
        first.on_done(CallError(Code.GONE, handed=True))
        await trio.sleep(1)
        asking.connect("b", COMMAND, profile="p", started_at=2)
        second = await asking.sent(2)
        second.on_done(b'{"choice": "once"}')
    assert results == ["once"]
    assert second.tab.host == "b"
    assert second.params == first.params


async def test_a_browser_that_stays_away_answers_nothing(autojump_clock: Any) -> None:
    asking = Asking()
    asking.connect("a", COMMAND)
    asking.transport.answer = CallError(Code.GONE, handed=True)
    began = trio.current_time()
    with pytest.raises(CallError, match="went away"):
        await asking.ask()
    assert trio.current_time() - began == pytest.approx(BACK_S)


def test_names_of_clients_are_one_sanitized_line() -> None:
    assert client_name(Session("s", client=wire.ClientInfo(name="Claude\n\u202eedoC"))) == "Claude edoC"
    assert client_name(Session("s")) == "An MCP client"


def test_a_client_with_a_token_has_its_token_s_approvals_whatever_it_calls_itself() -> None:
    session = Session("s", client=wire.ClientInfo(name="Claude Code"), principal="ci-robot")
    assert client_name(session) == "ci-robot"
    assert shown_client(session) == "Claude Code (ci-robot)"
