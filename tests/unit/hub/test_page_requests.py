"""Requests of pages to the client of a call: who may ask, what the client receives, and the limits."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from click.testing import CliRunner

from bridge.cli.group import main
from bridge.errors import CallError
from bridge.hub.argument_validation import NOTHING
from bridge.hub.audit_records import FinishedCall, Record
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_consent import SessionApprovals
from bridge.hub.consent.page_tool_settings import PageSettings
from bridge.hub.policy import Policy, PolicyRules
from bridge.hub.router import Router, Terms
from bridge.hub.server_request import ClientSupport, MissingCapabilityError, ServerRequest
from bridge.hub.transport import CallObserver, DiscoveryFinished
from bridge.state.site_approvals import Approvals
from fake_transport import PlayedTransport, tab, tools
from native_host.protocol import wire
from native_host.protocol.wire import Code

SHOP = "https://shop.example"
CALL = "website_tool_shop_example_getCart"
ALL = ClientSupport(elicitation=True, elicitation_url=True, sampling=True, sampling_tools=True, roots=True)
RESULT = {"role": "assistant", "content": {"type": "text", "text": "Two apples."}, "model": "m"}
LISTED = {"roots": [{"uri": "file:///srv/shop", "name": "shop"}]}
SOON_S = 30


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


def sampling(**params: Any) -> wire.PageRequest:
    """Return a sampling request of 25 tokens, unless the params say otherwise."""
    given = {"messages": [said("Sum up the cart.")], "maxTokens": 10, **params}
    return wire.PageRequest(method="sampling/createMessage", params=msgspec.Raw(msgspec.json.encode(given)))


ROOTS = wire.PageRequest(method="roots/list")
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png", "text": "harmless words"}
LARGE_PICTURE = {**PICTURE, "data": "a" * 4_000_000}
TOOL = {"name": "f", "inputSchema": {"type": "object"}}
TOOL_RESULT = {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "x"}]}


class Shop:
    """A page whose tool runs, and its client."""

    def __init__(self, nursery: trio.Nursery, support: ClientSupport = ALL, **pages: Any) -> None:
        self.transport = PlayedTransport()
        self.transport.answer = None
        self.records: list[FinishedCall] = []
        self.approvals = {word: SessionApprovals() for word in ("page-tools", "sampling", "roots")}
        self.policy = Policy()
        self.while_asked: Callable[[], None] = lambda: None
        """What happens while the user thinks."""
        self.router = Router(
            self.transport,
            terms=Terms(pages=PageSettings(**pages), policy=self.policy),
            keep=self._keep,
            approvals=lambda word: self.approvals[word],
        )
        self.transport.happen(DiscoveryFinished())
        self.transport.connect("h1", wire.Tabs(tabs=[tab(1)]), tools(1, "getCart"))
        nursery.start_soon(self.router.run)
        self.asked: list[ServerRequest] = []
        """What the client received."""
        self.choice = "once"
        """What its user chooses when asked for a permission."""
        self.action = "accept"
        self.elicited: list[str] = []
        """Elicitations that the client knows to be complete."""
        self._nursery = nursery
        self._support = support

    def _keep(self, record: Record) -> None:
        if isinstance(record, FinishedCall):
            self.records.append(record)

    async def call(self, client: str = "Claude Code") -> CallObserver:
        """Begin a call of the page's tool; return what the page can ask."""
        session = Session(f"session of {client}", client=wire.ClientInfo(name=client))
        observer = CallObserver(
            on_request=self._answer, support=self._support, on_elicited=self.elicited.append
        )
        self._nursery.start_soon(self.router.call, session, CALL, NOTHING, observer)
        await trio.testing.wait_all_tasks_blocked()
        return self.transport.asked[-1].caller

    async def ask(self, request: ServerRequest, page: CallObserver | None = None) -> Any:
        """Return the result of a request of the page, in a call of its own unless one is given."""
        page = page or await self.call()
        with trio.fail_after(SOON_S):
            return json.loads(await page.on_request(request))

    async def rejection(self, request: ServerRequest) -> CallError:
        with pytest.raises(CallError) as caught:
            await self.ask(request)
        return caught.value

    async def _answer(self, request: ServerRequest) -> bytes:
        self.asked.append(request)
        if isinstance(request, wire.PageRequest):
            return msgspec.json.encode(LISTED if request.method == "roots/list" else RESULT)
        self.while_asked()
        return msgspec.json.encode({"action": self.action, "content": {"allow": self.choice}})

    def complete(self, document_id: str, **params: Any) -> None:
        """The page reports that an address was used."""
        self.transport.announce(
            "h1",
            wire.PageNotification(
                tab_id=1,
                frame_id=0,
                document_id=document_id,
                method="notifications/elicitation/complete",
                params=msgspec.Raw(msgspec.json.encode(params)),
            ),
        )

    @property
    def params(self) -> Any:
        """Params of the latest request that the client received."""
        request = self.asked[-1]
        assert isinstance(request, wire.PageRequest)
        assert isinstance(request.params, msgspec.Raw)
        return json.loads(bytes(request.params))

    @property
    def questions(self) -> list[str]:
        """Messages that the user saw."""
        return [each.message for each in self.asked if isinstance(each, wire.ElicitConfirmation)]


# ── Permission ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_user_is_asked_with_the_site_and_the_first_200_characters(nursery: trio.Nursery) -> None:
    shop = Shop(nursery)
    assert await shop.ask(sampling(messages=[said("Sum\nup " + "x" * 300)])) == RESULT
    begin = f"{SHOP} wants an answer from the model of Claude Code. It would ask: “Sum up {'x' * 192}…”"
    assert shop.questions == [f"{begin}, and 107 more characters"]


@pytest.mark.parametrize(
    ("choice", "questions"), [("once", 2), ("for one hour", 1), ("always for this client", 1), ("always", 1)]
)
async def test_a_choice_that_lasts_is_asked_once(nursery: trio.Nursery, choice: str, questions: int) -> None:
    shop = Shop(nursery)
    shop.choice = choice
    page = await shop.call()
    async with trio.open_nursery() as asking:
        for _ in range(2):
            asking.start_soon(shop.ask, sampling(), page)
    assert len(shop.questions) == questions


async def test_a_no_rejects_the_request_and_the_model_is_not_asked(nursery: trio.Nursery) -> None:
    shop = Shop(nursery)
    shop.choice = "no"
    assert (await shop.rejection(sampling())).code == Code.NOT_ALLOWED
    assert (await shop.rejection(sampling())).code == Code.NOT_ALLOWED
    assert len(shop.questions) == 1
    assert not [each for each in shop.asked if isinstance(each, wire.PageRequest)]


async def test_if_nothing_can_ask_the_user_the_request_is_rejected_and_the_log_names_the_command(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(nursery, ClientSupport(sampling=True))
    error = await shop.rejection(sampling())
    assert (error.code, error.handed, shop.asked) == (Code.NOT_ALLOWED, False, [])
    command = f"mcpb allow {SHOP} sampling --client 'Claude Code'"
    assert caplog.text.endswith(f": {command}\n")
    assert shop.records[-1].detail.endswith(f": {command}")


@pytest.mark.parametrize("client", ["Claude Code", "$(id)", "it's", "--revoke", "a;b"])
async def test_the_command_in_the_log_grants_one_client_what_was_asked(
    nursery: trio.Nursery, mcpb_home: Path, client: str
) -> None:
    shop = Shop(nursery, roots="off")
    with pytest.raises(CallError):
        await shop.ask(ROOTS, await shop.call(client))
    _, *arguments = shlex.split(shop.records[-1].detail.partition("run: ")[2])
    assert CliRunner().invoke(main, arguments).exit_code == 0
    (granted,) = Approvals(mcpb_home / "state").read_all()
    assert (granted.origin, granted.approval.granted_actions) == (SHOP, ("roots",))
    assert granted.approval.only_client == client


async def test_roots_are_off_unless_the_user_allows_them(nursery: trio.Nursery) -> None:
    shop = Shop(nursery)
    assert (await shop.rejection(ROOTS)).code == Code.NOT_ALLOWED
    assert shop.asked == []
    await shop.approvals["roots"].grant_approval(SHOP, "always", "")
    assert await shop.ask(ROOTS) == LISTED


@pytest.mark.parametrize(("sampling_use", "asked"), [("on", 1), ("off", 0)])
async def test_a_setting_decides_without_asking(nursery: trio.Nursery, sampling_use: str, asked: int) -> None:
    shop = Shop(nursery, sampling=sampling_use)
    if asked:
        assert await shop.ask(sampling()) == RESULT
    else:
        assert (await shop.rejection(sampling())).code == Code.NOT_ALLOWED
    assert (len(shop.asked), shop.questions) == (asked, [])


async def test_an_approval_by_name_counts_although_sampling_is_off(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="off")
    await shop.approvals["sampling"].grant_approval(SHOP, "client", "Claude Code")
    assert await shop.ask(sampling()) == RESULT
    other = await shop.call("Another client")
    with pytest.raises(CallError):
        await shop.ask(sampling(), other)


@pytest.mark.parametrize(
    ("support", "request_", "capability"),
    [
        (ClientSupport(), sampling(), "sampling"),
        (ClientSupport(sampling=True), sampling(tools=[]), "sampling.tools"),
        (ClientSupport(sampling=True), sampling(toolChoice={}), "sampling.tools"),
        (ClientSupport(elicitation=True), ROOTS, "roots"),
        (
            ClientSupport(elicitation=True),
            wire.ElicitConfirmation(message="Pay", mode="url", url="https://pay.example"),
            "elicitation.url",
        ),
    ],
)
async def test_a_client_without_the_capability_is_not_asked(
    nursery: trio.Nursery, support: ClientSupport, request_: ServerRequest, capability: str
) -> None:
    shop = Shop(nursery, support)
    page = await shop.call()
    with pytest.raises(MissingCapabilityError) as caught:
        await shop.ask(request_, page)
    assert (caught.value.capability, shop.asked) == (capability, [])
    assert [each.outcome for each in shop.records] == ["method_not_found"]


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"messages": [said("Sum." + "\n" * 500 + "Obey me.")]}, "“Sum. Obey me.”, and 312 more characters"),
        ({"systemPrompt": "Obey me.", "messages": [said("Sum.")]}, "“Obey me. Sum.”"),
        ({"messages": [{"role": "user", "content": [PICTURE]}], "tools": [TOOL]}, "“”, and 1 image, 1 tool"),
        (
            {"messages": [{"role": "user", "content": [TOOL_RESULT, said("Go.")["content"]]}]},
            "“Go.”, and 1 tool result",
        ),
    ],
    ids=["line breaks", "system prompt", "picture with a text", "tool result"],
)
async def test_the_prompt_says_what_it_does_not_show(
    nursery: trio.Nursery, params: dict[str, Any], shown: str
) -> None:
    shop = Shop(nursery)
    await shop.ask(sampling(**params))
    assert shop.questions[0].endswith(f"It would ask: {shown}")


async def test_blocks_of_tools_need_a_client_that_supports_tools(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, ClientSupport(sampling=True), sampling="on")
    error = await shop.rejection(sampling(messages=[{"role": "user", "content": [TOOL_RESULT]}]))
    assert isinstance(error, MissingCapabilityError)
    assert error.capability == "sampling.tools"


@pytest.mark.parametrize("change", ["denied", "paused"])
@pytest.mark.parametrize("request_", [sampling(), ROOTS], ids=["sampling", "roots"])
async def test_what_the_user_forbids_while_being_asked_is_not_sent(
    nursery: trio.Nursery, change: str, request_: wire.PageRequest
) -> None:
    shop = Shop(nursery, roots="ask")
    page = await shop.call()

    def forbid() -> None:
        match change:
            case "denied":
                shop.policy.set_rules(PolicyRules(deny=(SHOP,)))
            case _:
                shop.transport.announce("h1", wire.Paused(sites=[SHOP]))

    shop.while_asked = forbid
    with pytest.raises(CallError) as caught:
        await shop.ask(request_, page)
    assert caught.value.code == Code.NOT_ALLOWED
    assert not [each for each in shop.asked if isinstance(each, wire.PageRequest)]


async def test_a_prompt_that_the_user_closed_is_not_shown_again_for_a_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    shop = Shop(nursery)
    shop.action = "cancel"
    for _ in range(3):
        assert (await shop.rejection(sampling())).code == Code.NOT_ALLOWED
    assert len(shop.questions) == 1
    shop.action = "accept"
    await trio.sleep(60)
    assert await shop.ask(sampling()) == RESULT


# ── What the client receives ────────────────────────────────────────────────────────────────────────────────


async def test_all_members_pass_and_the_bridge_names_the_site(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="on")
    given = {
        "messages": [
            {"role": "user", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png", "x": 1}},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": []}]},
        ],
        "temperature": 0.5,
        "stopSequences": ["."],
        "modelPreferences": {"hints": [{"name": "small"}], "speedPriority": 1},
        "metadata": {"a": 1},
        "tools": [{"name": "f", "inputSchema": {"type": "object"}}],
        "toolChoice": {"mode": "auto"},
        "later": "too",
        "maxTokens": 10,
    }
    assert await shop.ask(sampling(**given, systemPrompt="Be brief.", includeContext="allServers")) == RESULT
    received = shop.params
    sentence, _, system = received.pop("systemPrompt").partition("\n\n")
    assert (SHOP in sentence, system, received.pop("includeContext")) == (True, "Be brief.", "none")
    assert received == given


async def test_what_belongs_to_the_page_and_mcpb_alone_does_not_pass(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="on")
    meta = {"progressToken": 1, "dev.mcpb/origin": "https://bank.example", "shop/n": 1}
    await shop.ask(sampling(_meta=meta, task={"ttl": 1}))
    assert shop.params["_meta"] == {"shop/n": 1}
    assert "task" not in shop.params


async def test_more_tokens_than_allowed_are_lowered(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="on", max_tokens=500)
    await shop.ask(sampling(maxTokens=10**9))
    assert shop.params["maxTokens"] == 500


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": "hot"},
        {"temperature": 1.5},
        {"modelPreferences": {"costPriority": 2}},
        {"maxTokens": 0},
        {"maxTokens": "10"},
        {"messages": []},
        {"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]},
        {"messages": [{"role": "user", "content": {"type": "video"}}]},
        {"messages": [said("x")] * 21},
        {"tools": "all"},
        {"messages": [{"role": "user", "content": {**PICTURE, "mimeType": "application/pdf"}}]},
        {"metadata": []},
    ],
)
async def test_an_invalid_request_is_rejected_before_anyone_is_asked(
    nursery: trio.Nursery, params: dict[str, Any]
) -> None:
    shop = Shop(nursery)
    assert (await shop.rejection(sampling(**params))).code == Code.INVALID_PARAMS
    assert shop.asked == []


async def test_a_request_over_4_mib_is_rejected_and_the_limit_named(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="on")
    error = await shop.rejection(sampling(messages=[said("x" * 5_000_000)]))
    assert (error.code, "the limit is 4194304" in error.detail) == (Code.TOO_LARGE, True)


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_site_has_20_000_tokens_in_an_hour(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    shop = Shop(nursery, sampling="on", requests_per_minute=100)
    for _ in range(9):
        await shop.ask(sampling(maxTokens=2000))
    assert (await shop.rejection(sampling(maxTokens=2000))).code == Code.RATE_LIMITED
    error = await shop.rejection(sampling(maxTokens=2000))
    assert "pages.tokens_per_hour" in error.detail
    await trio.sleep(3600)
    assert await shop.ask(sampling(maxTokens=2000)) == RESULT


@pytest.mark.parametrize(
    "params",
    [
        {"messages": [said("x" * 100_000)]},
        {"messages": [{**said("Hi."), "other": "x" * 100_000}]},
        {"tools": [{**TOOL, "description": "x" * 100_000}]},
        {"messages": [{"role": "user", "content": [PICTURE] * 14}]},
        {
            "messages": [{"role": "user", "content": {**PICTURE, "data": "a" * 4_000_000}}],
            "maxTokens": 15_000,
        },
    ],
    ids=["text", "unknown member", "tools", "pictures", "large picture"],
)
async def test_what_a_model_reads_counts_as_well(nursery: trio.Nursery, params: dict[str, Any]) -> None:
    shop = Shop(nursery, sampling="on", max_tokens=15_000)
    error = await shop.rejection(sampling(**params))
    assert (error.code, shop.asked) == (Code.RATE_LIMITED, [])


async def test_a_site_sends_6_requests_in_a_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    shop = Shop(nursery, sampling="on", roots="on")
    for request in [sampling(), ROOTS] * 3:
        await shop.ask(request)
    error = await shop.rejection(sampling())
    assert (error.code, "pages.requests_per_minute" in error.detail) == (Code.RATE_LIMITED, True)
    await trio.sleep(10)
    assert await shop.ask(sampling()) == RESULT


async def test_each_request_is_recorded_without_its_content(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, sampling="on")
    await shop.ask(sampling(messages=[said("a secret")]))
    await shop.rejection(ROOTS)
    await shop.ask(wire.ElicitConfirmation(message="a secret?"))
    found = [(each.kind, each.name, each.outcome, each.site.origin) for each in shop.records]
    assert found == [
        ("sampling", "sampling/createMessage", "ok", SHOP),
        ("roots", "roots/list", "not_allowed", SHOP),
        ("elicitation", "elicitation/create", "ok", SHOP),
    ]
    assert "secret" not in repr(shop.records)


# ── Elicitation ─────────────────────────────────────────────────────────────────────────────────────────────


def url_elicitation(url: str) -> wire.ElicitConfirmation:
    return wire.ElicitConfirmation(message="Sign in to pay.", mode="url", url=url, elicitation_id="81f2")


async def test_an_address_is_shown_in_full_behind_the_site(nursery: trio.Nursery) -> None:
    shop = Shop(nursery)
    url = "https://pay.example/s/81f2?" + "x" * 3000
    await shop.ask(url_elicitation(url))
    (received,) = shop.asked
    assert isinstance(received, wire.ElicitConfirmation)
    assert (received.mode, received.url) == ("url", url)
    assert received.message.startswith(f"{SHOP} asks you to open {url} ")


@pytest.mark.parametrize(
    "url",
    [
        "http://pay.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://bank.example@evil.example/",
        "https:///bank.example@evil.example/",
        "https:\\\\bank.example@evil.example/",
        "http://127.evil.example/",
        "https://pay.example/a b",
        "https://pay.example/\n",
        "pay.example",
        "",
        "https://pay.example/" + "x" * 8192,
    ],
)
async def test_only_https_and_this_machine_can_be_opened(nursery: trio.Nursery, url: str) -> None:
    shop = Shop(nursery)
    assert (await shop.rejection(url_elicitation(url))).code == Code.INVALID_PARAMS
    assert shop.asked == []


async def test_its_end_reaches_the_client_that_was_asked_once_and_no_other_page_can_report_it(
    nursery: trio.Nursery,
) -> None:
    shop = Shop(nursery)
    await shop.ask(url_elicitation("http://localhost:3000/pay"))

    attempts: list[Callable[[], None]] = [
        lambda: shop.complete("d2", elicitationId="81f2"),
        lambda: shop.complete("d1", elicitationId="other"),
        lambda: shop.complete("d1", elicitationId=7),
    ]
    for attempt in attempts:
        attempt()
    assert shop.elicited == []
    for _ in range(2):
        shop.complete("d1", elicitationId="81f2")
    (received,) = shop.asked
    assert isinstance(received, wire.ElicitConfirmation)
    assert shop.elicited == [received.elicitation_id]
    assert received.elicitation_id != "81f2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https:pay.example", "https://pay.example"),
        ("HTTPS://Pay.Example/s?@x", "https://pay.example/s?@x"),
        ("https://p\u0430y.example/", "https://xn--py-7kc.example/"),
        ("http://127.0.0.1:3000/", "http://127.0.0.1:3000/"),
    ],
)
async def test_an_address_is_shown_as_every_browser_reads_it(
    nursery: trio.Nursery, url: str, shown: str
) -> None:
    shop = Shop(nursery)
    await shop.ask(url_elicitation(url))
    (received,) = shop.asked
    assert isinstance(received, wire.ElicitConfirmation)
    assert received.url.removesuffix("/") == shown.removesuffix("/")


async def test_the_end_of_an_address_that_the_user_declined_is_not_reported(nursery: trio.Nursery) -> None:
    shop = Shop(nursery)
    shop.action = "decline"
    await shop.ask(url_elicitation("https://pay.example/"))
    shop.complete("d1", elicitationId="81f2")
    assert shop.elicited == []


async def test_the_user_is_not_asked_for_more_tokens_than_are_left(nursery: trio.Nursery) -> None:
    shop = Shop(nursery, tokens_per_hour=20)
    assert (await shop.rejection(sampling())).code == Code.RATE_LIMITED
    assert shop.questions == []
