"""Log messages of pages: who receives them, in which form, and how many."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec
import pytest
import trio
import trio.testing

from bridge.hub.argument_validation import NOTHING
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.primitives.log_message import MAX_DATA_CHARS, LogLevel, LogMessage, is_wanted, read_message
from bridge.hub.primitives.page_log import MAX_DOCUMENTS, MAX_MESSAGES, WINDOW_S
from bridge.hub.router import Router, Terms
from bridge.hub.transport import CallObserver, DiscoveryFinished
from fake_transport import PlayedTransport, tab, tools
from native_host.protocol import wire

SHOP, NEWS = "https://shop.example", "https://news.example"
CALL = "website_tool_shop_example_tab1_getCart"
LEVELS = get_args(LogLevel)


class Client:
    """A recipient of log messages."""

    def __init__(self, level: LogLevel | None = "debug") -> None:
        self.level = level
        self.is_behind = False
        self.messages: list[LogMessage] = []

    def write(self, message: LogMessage) -> bool:
        if self.is_behind:
            return False
        self.messages.append(message)
        return True

    @property
    def texts(self) -> list[Any]:
        return [message.data for message in self.messages]


class Hub:
    """A router whose pages log."""

    def __init__(self, rules: PolicyRules | None = None) -> None:
        self.transport = PlayedTransport()
        self.policy = Policy(rules)
        self.router = Router(self.transport, terms=Terms(policy=self.policy))
        self.transport.happen(DiscoveryFinished())
        self.transport.connect("h1", wire.Tabs(tabs=[tab(1), tab(2, NEWS, 2)]), tools(1, "getCart"))
        self.transport.announce("h1", tools(2, "read", origin=NEWS, document_id="d2"))

    def use(self, session: Session, name: str = CALL, client: Client | None = None) -> None:
        self.router.begin(session, name, NOTHING, lambda _: None, CallObserver(log=client))

    def log(self, data: Any = "hello", level: str = "info", *, tab_id: int = 1, **more: Any) -> None:
        params = {"level": level, "data": data, **more.pop("params", {})}
        address = {"tab_id": tab_id, "frame_id": 0, "document_id": f"d{tab_id}", **more}
        method = address.pop("method", "notifications/message")
        raw = msgspec.Raw(msgspec.json.encode(params))
        self.transport.announce("h1", wire.PageNotification(method=method, params=raw, **address))


@pytest.fixture
async def hub() -> Hub:
    return Hub()


def listening(hub: Hub, session_id: str, level: LogLevel = "debug") -> tuple[Session, Client]:
    session, client = Session(session_id), Client(level)
    hub.router.page_log.listen(session, client)
    return session, client


# ── Who receives them ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_receives_messages_of_the_documents_that_it_has_used(hub: Hub) -> None:
    (ours, client), (_, other) = listening(hub, "ours"), listening(hub, "other")
    hub.log("too early")
    hub.use(ours)
    hub.log("used")
    hub.log("not used", tab_id=2)
    hub.log("an earlier document", document_id="d0")
    hub.log("no log message", method="notifications/elicitation/complete")
    assert client.texts == ["used"]
    assert other.texts == []


async def test_a_session_that_asks_for_a_level_later_receives_what_it_has_used_before(hub: Hub) -> None:
    session = Session("ours")
    hub.use(session)
    client = Client()
    end = hub.router.page_log.listen(session, client)
    hub.log("one")
    end()
    hub.log("two")
    assert client.texts == ["one"]


@pytest.mark.parametrize("least", LEVELS)
async def test_messages_arrive_from_the_level_on(hub: Hub, least: LogLevel) -> None:
    session, client = listening(hub, "ours", least)
    hub.use(session)
    for level in LEVELS:
        hub.log(level, level)
    assert client.texts == list(LEVELS[LEVELS.index(least) :])


def test_without_a_level_no_message_is_wanted() -> None:
    assert not any(is_wanted(level, None) for level in LEVELS)


async def test_a_request_receives_what_its_page_logs_while_it_runs(hub: Hub) -> None:
    hub.transport.answer = None
    session, client, other = Session("ours"), Client("info"), Client("info")
    hub.use(session, client=client)
    hub.use(session, "website_tool_news_example_tab2_read", other)
    hub.log("running")
    hub.transport.asked[0].on_done(b'{"success":true,"payload":{"content":[]}}')
    hub.log("over")
    assert (client.texts, other.texts) == (["running"], [])


async def test_a_request_that_is_cancelled_receives_no_more(hub: Hub) -> None:
    hub.transport.answer = None
    client = Client()
    pending = hub.router.begin(Session("ours"), CALL, NOTHING, lambda _: None, CallObserver(log=client))
    pending.cancel()
    hub.log()
    assert client.texts == []


async def test_the_document_after_a_navigation_has_to_be_used_first(hub: Hub) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    hub.transport.announce("h1", tools(1, "getCart", document_id="d3"))
    hub.log("the next one", document_id="d3")
    hub.log("the earlier one")
    assert client.texts == []


def pause(hub: Hub, **target: str) -> None:
    change = wire.PauseChange(paused=True, at=1, **target)
    hub.transport.announce("h1", wire.Paused(changes=[change]))


def deny_page_around(hub: Hub) -> None:
    hub.policy.set_rules(PolicyRules(deny=(NEWS,)))
    hub.transport.announce("h1", wire.TabChanged(tab=tab(1, NEWS)))


def end_approval(hub: Hub) -> None:
    hub.router.consent.setting_for(PageSettings(), asks_sites=True)


FORBID: dict[str, Callable[[Hub], object]] = {
    "the site is denied": lambda hub: hub.policy.set_rules(PolicyRules(deny=(SHOP,))),
    "the site is paused": lambda hub: pause(hub, site=SHOP),
    "the session is paused": lambda hub: pause(hub, session="ours"),
    "its tools are off": lambda hub: hub.transport.announce("h1", wire.PageTools(sites={SHOP: "off"})),
    "the tab is another session's": lambda hub: hub.transport.announce(
        "h1", wire.TabChanged(tab=tab(1, owner="other"))
    ),
    "the user would be asked about the site": end_approval,
    "the page around it is denied": deny_page_around,
    "the tab has become private": lambda hub: hub.transport.announce(
        "h1", wire.TabChanged(tab=tab(1, incognito=True))
    ),
    "the session has ended": lambda hub: hub.router.page_log.release(Session("ours")),
}


@pytest.mark.parametrize("why", FORBID)
async def test_messages_that_a_session_may_not_read_do_not_arrive(hub: Hub, why: str) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    FORBID[why](hub)
    hub.log()
    assert client.texts == []


async def test_messages_arrive_until_the_end_of_a_request_that_the_user_has_approved(hub: Hub) -> None:
    (session, client), (other_session, other) = listening(hub, "ours"), listening(hub, "other")
    hub.use(other_session)
    hub.transport.answer = None
    request = Client()
    hub.use(session)
    hub.use(session, client=request)
    end_approval(hub)
    for asked in hub.transport.asked[1:]:
        hub.log("running")
        asked.on_done(b'{"success":true,"payload":{"content":[]}}')
    hub.log("over")
    assert (client.texts, request.texts, other.texts) == (["running"] * 2, ["running"] * 2, [])


# ── In which form ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_names_the_site_and_is_marked(hub: Hub) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    hub.log({"items": 2}, "warning", params={"logger": "cart"})
    (message,) = client.messages
    assert message.params == {
        "level": "warning",
        "logger": f"{SHOP} cart",
        "data": {"items": 2},
        "_meta": {"dev.mcpb/untrusted": True, "dev.mcpb/origin": SHOP},
    }


def read(**params: Any) -> LogMessage:
    text = json.dumps({"level": "info", "data": "", **params}, ensure_ascii=False)
    message = read_message(text.encode(), SHOP)
    assert message
    return message


@pytest.mark.parametrize(
    ("given", "shown"), [("", SHOP), ("a\nb", f"{SHOP} a b"), (7, SHOP), ("x" * 500, f"{SHOP} {'x' * 99}…")]
)
def test_a_logger_begins_with_the_site_whatever_the_page_calls_it(given: Any, shown: str) -> None:
    assert read(logger=given).logger == shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"a": "€" * (MAX_DATA_CHARS - 10)}, {"a": "€" * (MAX_DATA_CHARS - 10)}),
        ("two\nlines\t\x1b[31m\u202e!", "two\nlines\t [31m !"),
        ({"a\x00": ["\u200b", None, 1.5, True]}, {"a ": [" ", None, 1.5, True]}),
        (10**400, 10**400),
        ("x" * (MAX_DATA_CHARS + 5), "x" * MAX_DATA_CHARS + "… (5 more characters)"),
        (None, None),
    ],
    ids=["as long as allowed", "text", "structure", "number", "long", "null"],
)
def test_data_is_sanitized_and_truncated(data: Any, shown: Any) -> None:
    assert read(data=data).data == shown


def test_data_that_is_long_or_deep_becomes_the_beginning_of_its_text() -> None:
    long = read(data={"a": "y" * MAX_DATA_CHARS}).data
    assert long.startswith('{"a": "yyy')
    assert len(long) < MAX_DATA_CHARS + 50
    deep = read_message(b'{"level":"info","data":%b%b}' % (b"[" * 30_000, b"]" * 30_000), SHOP)
    assert deep is None or deep.data.startswith("[[[")
    nested = read_message(b'{"level":"info","data":%b%b}' % (b"[" * 40, b"]" * 40), SHOP)
    assert nested
    assert nested.data == "[" * 40 + "]" * 40


@pytest.mark.parametrize(
    "params",
    [b"", b"[]", b"{}", b'{"level":"info"}', b'{"level":"loud","data":1}', b'{"level":"info","data":'],
)
def test_what_is_no_log_message_of_mcp_is_left_out(params: bytes) -> None:
    assert read_message(params, SHOP) is None


def test_data_that_is_no_text_is_replaced() -> None:
    message = read_message(b'{"level":"info","data":{"a":"\xff"}}', SHOP)
    assert message
    assert message.data == '{"a":"\N{REPLACEMENT CHARACTER}"}'
    assert read_message(b'{"level":"info","data":1,"logger":"\xff"}', SHOP) is None


async def test_a_page_without_an_origin_is_named_as_such() -> None:
    message = read_message(b'{"level":"info","data":1,"logger":"https://shop.example"}', "null")
    assert message
    assert message.logger == "a page without an origin https://shop.example"


# ── How many ────────────────────────────────────────────────────────────────────────────────────────────────


def dropped(messages: Iterable[LogMessage]) -> list[int]:
    return [message.params["_meta"].get("dev.mcpb/dropped", 0) for message in messages]


async def test_a_flood_is_limited_and_the_next_message_says_how_many_were_dropped(
    hub: Hub, autojump_clock: trio.testing.MockClock
) -> None:
    (ours, client), (errors, other) = listening(hub, "ours"), listening(hub, "other", "error")
    hub.use(ours)
    hub.use(errors)
    for number in range(1000):
        hub.log(number)
    assert client.texts == list(range(MAX_MESSAGES))
    hub.log("serious", "error")
    await trio.sleep(WINDOW_S)
    hub.log("later")
    hub.log("and then")
    assert dropped(client.messages[MAX_MESSAGES:]) == [1000 - MAX_MESSAGES + 1, 0]
    assert (other.texts, dropped(other.messages)) == (["serious"], [0])


async def test_messages_that_the_extension_dropped_are_counted_too(hub: Hub) -> None:
    session, client = listening(hub, "ours", "error")
    hub.use(session)
    hub.log("debug", dropped=3)
    hub.log("error", "error", dropped=4)
    assert dropped(client.messages) == [7]


async def test_documents_have_limits_of_their_own(hub: Hub) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    hub.use(session, "website_tool_news_example_tab2_read")
    for number in range(MAX_MESSAGES + 1):
        hub.log(number)
    hub.log("of another page", tab_id=2)
    assert client.texts[-1] == "of another page"


async def test_a_client_that_does_not_read_gets_no_more_and_learns_how_many_it_missed(hub: Hub) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    client.is_behind = True
    hub.log("one")
    hub.log("two")
    client.is_behind = False
    hub.log("three")
    assert (client.texts, dropped(client.messages)) == (["three"], [2])


async def test_only_the_documents_used_last_are_remembered(hub: Hub) -> None:
    session, client = listening(hub, "ours")
    hub.use(session)
    for number in range(MAX_DOCUMENTS):
        hub.transport.announce("h1", tools(2, "read", origin=NEWS, document_id=f"n{number}"))
        hub.use(session, "website_tool_news_example_tab2_read")
    hub.log("used long ago")
    hub.log("used last", tab_id=2, document_id=f"n{MAX_DOCUMENTS - 1}")
    assert client.texts == ["used last"]
