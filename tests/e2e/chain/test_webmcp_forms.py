"""Declarative WebMCP forms in the real browser, called by a client of the mcp package.

The request log of the pages' server tells what was submitted, and how often.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio
from mcp import Client

from demo.chromium import Chromium, Page
from full_chain import REQUESTED, WEBMCP, Chain, call, page_tools, until_listed
from shared_browser import SharedBrowser, open_shared_browser
from wire_peers import until

pytestmark = pytest.mark.one_browser

TABLE = {"name": "Ada", "phone": "0123456", "day": "2026-03-04", "guests": "3"}


@pytest.fixture(scope="module")
def browser_of_file() -> Iterator[SharedBrowser]:
    """A browser that has WebMCP switched on."""
    with open_shared_browser([WEBMCP]) as shared:
        yield shared


@pytest.fixture
async def client(chain: Chain, browser: Chromium) -> AsyncIterator[Client]:
    REQUESTED.clear()
    with trio.fail_after(120):
        async with chain.client() as client:
            yield client


async def open_inn(chain: Chain, browser: Chromium, client: Client, flags: str = "") -> Page:
    page = await chain.open(browser, f"inn.html?{flags}")
    await until_listed(client, lambda names: len(names) == 1)
    return page


async def book(client: Client, **arguments: str) -> tuple[bool, str]:
    """Call the tool of the inn's form, under the only name that is listed."""
    (name,) = await page_tools(client)
    return await call(client, name, **{**TABLE, **arguments})


def submitted() -> list[dict[str, str]]:
    """The fields of each form that the pages' server has received, without the empty ones."""
    queries = [urlsplit(path).query for path in REQUESTED if path.startswith("/submitted?")]
    return [{name: value for name, (value,) in parse_qs(query).items()} for query in queries]


async def until_submitted(count: int) -> None:
    with trio.fail_after(30):
        await until(lambda: len(submitted()) >= count)


async def press(page: Page, kind: str = "submit") -> None:
    """Press the form's button, as its user does."""
    selector = "button:not([type])" if kind == "submit" else "button[type=reset]"
    x, y = await page.evaluate(
        f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])"
        f"(document.querySelector('{selector}').getBoundingClientRect())"
    )
    for event in ("mousePressed", "mouseReleased"):
        params = {"type": event, "x": x, "y": y, "button": "left", "clickCount": 1}
        await page.send("Input.dispatchMouseEvent", params)


# ── With `toolautosubmit` ───────────────────────────────────────────────────────────────────────────────────


async def test_a_form_is_submitted_once_and_answers_in_the_page_s_words(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client, "autosubmit")
    assert await book(client) == (False, "A table for 3 on 2026-03-04, Ada.")
    assert submitted() == [{**TABLE, "by": "agent"}]
    assert await page.evaluate("activations") == 1


async def test_the_tool_of_a_form_keeps_its_own_name(chain: Chain, browser: Chromium, client: Client) -> None:
    await open_inn(chain, browser, client)
    (name,) = await page_tools(client)
    assert name.endswith("_book_table_at_the_anchor")


async def test_arguments_of_any_kind_reach_the_page_as_the_client_wrote_them(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    await open_inn(chain, browser, client, "autosubmit")
    wishes = 'a "quiet" table \\ by the window,\nno 7, \U0001f980'
    assert (await book(client, wishes=wishes))[0] is False
    assert submitted()[0]["wishes"] == wishes


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        ({"email": "ada"}, ["email", "@"]),
        ({"voucher": "ABCD"}, ["voucher", "[A-Z]{3}", "Three capital letters"]),
        ({"day": "2025-12-31"}, ["day", "2026"]),
        ({"name": ""}, ["name"]),
    ],
)
async def test_a_value_that_the_browser_does_not_accept_is_named_and_nothing_is_submitted(
    chain: Chain, browser: Chromium, client: Client, value: dict[str, str], reasons: list[str]
) -> None:
    page = await open_inn(chain, browser, client, "autosubmit")
    is_error, text = await book(client, **value)
    assert is_error
    assert "Nothing was submitted." in text
    for reason in reasons:
        assert reason in text
    assert submitted() == []
    assert await page.evaluate("activations") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"guests": "2", "day": "2026-03-04", "phone": "0123456"}, "name"),
        ({**TABLE, "guests": "40"}, "guests"),
        ({**TABLE, "room": "7"}, "room"),
        ({**TABLE, "voucher": "lowercase"}, "voucher"),
    ],
)
async def test_arguments_that_the_form_s_schema_forbids_never_reach_the_page(
    chain: Chain, browser: Chromium, client: Client, arguments: dict[str, str], reason: str
) -> None:
    page = await open_inn(chain, browser, client, "autosubmit")
    (name,) = await page_tools(client)
    is_error, text = await call(client, name, **arguments)
    assert is_error
    assert reason in text
    assert await page.evaluate("activations") == (1 if reason == "room" else 0)
    assert submitted() == []


async def test_the_page_s_own_errors_are_its_answer(chain: Chain, browser: Chromium, client: Client) -> None:
    await open_inn(chain, browser, client, "autosubmit&lax")
    assert await book(client, phone="1") == (False, '[{"field":"phone","message":"Too short"}]')
    assert submitted() == []


async def test_a_form_that_its_page_handles_without_an_answer_is_not_to_be_repeated_blindly(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    await open_inn(chain, browser, client, "autosubmit&silent")
    is_error, text = await book(client)
    assert is_error
    assert "The page received the form" in text
    await until_submitted(1)
    assert submitted() == [{**TABLE, "by": "agent"}]


async def test_calls_of_one_form_run_one_after_the_other(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client, "autosubmit&slow")
    answers: dict[str, tuple[bool, str]] = {}

    async def book_for(name: str) -> None:
        answers[name] = await book(client, name=name)

    def is_answered(count: int) -> bool:
        return len(answers) == count

    async with trio.open_nursery() as nursery:
        for name in ("Ada", "Bea", "Cleo"):
            nursery.start_soon(book_for, name)
        for done in range(3):
            await page.wait_until("answers.length === 1")
            await until(partial(is_answered, done))
            await page.evaluate("answer(), 0")
    assert answers == {name: (False, f"A table for 3 on 2026-03-04, {name}.") for name in answers}
    assert sorted(each["name"] for each in submitted()) == ["Ada", "Bea", "Cleo"]
    assert await page.evaluate("activations") == 3


async def test_a_cancelled_call_leaves_its_form_for_the_next(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client, "autosubmit&slow")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(book, client)
        await page.wait_until("answers.length === 1")
        nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True), trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(book, client)
            await page.wait_until("answers.length === 2")
            await page.evaluate("answer(), answer(), 0")
    assert len(submitted()) == 2
    if await page.evaluate("'ontoolcancel' in document.modelContext"):  # Chromium 150 has no such event
        assert await page.evaluate("cancellations") == 1
    assert await page.evaluate("activations") == 2


# ── Without: the user submits ───────────────────────────────────────────────────────────────────────────────


async def test_a_form_without_autosubmit_is_filled_in_and_its_call_says_that_it_waits(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    with trio.fail_after(8):  # sooner than the time limit of a call
        is_error, text = await book(client)
    assert not is_error
    assert "waits for the user" in text
    assert "“Ask for a table”" in text
    assert "Nothing was submitted." in text
    values = "Object.fromEntries([...new FormData(document.forms[0])].filter(([, value]) => value))"
    assert await page.evaluate(values) == TABLE
    assert await page.evaluate("activations") == 1
    assert submitted() == []


async def test_the_user_changes_and_submits_the_form_afterwards(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    await book(client)
    await page.evaluate("document.forms[0].guests.value = '4', 0")
    await press(page)
    await until_submitted(1)
    assert submitted() == [{**TABLE, "guests": "4", "by": "agent"}]
    assert await page.wait_until("document.querySelector('#said').textContent") == (
        "A table for 4 on 2026-03-04, Ada."
    )
    assert (await book(client, name="Bea"))[0] is False  # and the form works on
    assert await page.evaluate("activations") == 2
    assert len(submitted()) == 1


async def test_the_user_resets_the_form_and_nothing_is_submitted(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    await book(client)
    await press(page, "reset")
    await page.wait_until("resets === 1")
    await press(page)  # the browser wants a name
    assert (await book(client, name="Bea"))[0] is False
    assert submitted() == []
    await press(page)
    await until_submitted(1)
    assert [each["name"] for each in submitted()] == ["Bea"]


async def test_a_second_call_fills_the_waiting_form_in_again_and_it_is_submitted_once(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    await book(client, wishes="by the window")
    is_error, text = await book(client, guests="4")
    assert not is_error
    assert "waits for the user" in text
    assert await page.evaluate("[activations, resets]") == [2, 0]
    await press(page)
    await until_submitted(1)
    assert submitted() == [{**TABLE, "guests": "4", "wishes": "by the window", "by": "agent"}]


async def test_two_calls_at_once_are_both_answered_and_the_form_still_works(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    answers: list[tuple[bool, str]] = []

    async def book_for(name: str) -> None:
        answers.append(await book(client, name=name))

    async with trio.open_nursery() as nursery:
        for name in ("Ada", "Bea"):
            nursery.start_soon(book_for, name)
    assert [is_error for is_error, _ in answers] == [False, False]
    assert await page.evaluate("activations") == 2
    await press(page)
    await until_submitted(1)
    assert len(submitted()) == 1


async def test_a_waiting_form_that_the_browser_would_not_submit_says_what_is_wrong(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await open_inn(chain, browser, client)
    is_error, text = await book(client, voucher="ABCD", email="ada")
    assert is_error
    for part in ("email", "@", "voucher", "[A-Z]{3}", "Three capital letters", "Nothing was submitted."):
        assert part in text
    assert await book(client, voucher="ABC", email="ada@anchor.example") == (False, (await book(client))[1])
    await press(page)
    await until_submitted(1)
    assert [each["voucher"] for each in submitted()] == ["ABC"]


async def test_another_tool_runs_while_a_form_waits(chain: Chain, browser: Chromium, client: Client) -> None:
    page = await open_inn(chain, browser, client)
    await book(client)
    menu_tool = "{name: 'menu', description: 'The menu', execute: () => 'Fish'}"
    await page.evaluate(f"document.modelContext.registerTool({menu_tool}), 0")
    names = await until_listed(client, lambda names: len(names) == 2)
    (menu,) = [name for name in names if name.endswith("_menu")]
    assert await call(client, menu) == (False, "Fish")
    await press(page)
    await until_submitted(1)


async def test_a_form_in_a_closed_shadow_root_waits_for_the_user_too(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "shadowform.html")
    (ring,) = await until_listed(client, lambda names: len(names) == 1)
    for times in ("once", "twice"):
        is_error, text = await call(client, ring, ring=times)
        assert not is_error
        assert "“Ring”" in text
    await page.evaluate("ring()")
    await until_submitted(1)
    assert submitted() == [{"ring": "twice"}]


# ── Forms that lead elsewhere ───────────────────────────────────────────────────────────────────────────────


async def enter(client: Client, door: str) -> Any:
    """Call a tool of the page that is there now, once it is listed."""
    names = await until_listed(client, lambda names: any(name.endswith(f"_{door}") for name in names))
    (name,) = [name for name in names if name.endswith(f"_{door}")]
    return await call(client, name)


def requests_of(page: str) -> list[str]:
    return [path for path in REQUESTED if path.startswith(f"/{page}")]


async def test_a_form_that_navigates_answers_with_the_new_address(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "hall.html")
    garden = f"{chain.pages}/room.html?room=garden"
    assert await enter(client, "openLeftDoor") == (
        False,
        f"The form was submitted. The page is now {garden} (“The garden”).",
    )
    assert await page.evaluate("location.href") == garden
    assert requests_of("room.html") == ["/room.html?room=garden"]
    names = await until_listed(client, lambda names: any(name.endswith("_talk") for name in names))
    (talk,) = [name for name in names if name.endswith("_talk")]
    assert await call(client, talk, words="Who") == (False, "“Who?” says the owl.")
    assert (await enter(client, "goBack"))[0] is False
    assert requests_of("hall.html") == ["/hall.html", "/hall.html?"]


async def test_a_tool_that_takes_itself_back_may_have_run_and_the_form_that_it_makes_is_there(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "room.html?room=cellar")
    is_error, text = await enter(client, "switchOnTheLight")
    if is_error:  # Chromium 150 drops its result
        assert "It may have run" in text
    assert await page.evaluate("document.querySelector('#said').textContent") == "The light is on."
    assert (await enter(client, "goBack"))[0] is False
    assert requests_of("hall.html") == ["/hall.html?"]


async def test_a_form_that_the_page_submits_itself_answers_with_the_new_address(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    await open_inn(chain, browser, client, "autosubmit&elsewhere")
    is_error, text = await book(client)
    assert not is_error
    assert f"{chain.pages}/booked.html?name=Ada&" in text
    assert "(“Booked”)" in text
    assert len(requests_of("booked.html")) == 1


@pytest.mark.parametrize("door", ["ringTheBell", "lookThroughTheWindow"])
async def test_a_form_that_leaves_its_page_as_it_is_says_so(
    chain: Chain, browser: Chromium, client: Client, door: str
) -> None:
    page = await chain.open(browser, "hall.html")
    is_error, text = await enter(client, door)
    assert not is_error
    assert "the page is still the same" in text
    assert await page.evaluate("location.pathname") == "/hall.html"
    assert (await enter(client, "openRightDoor"))[0] is False


async def test_the_page_of_another_site_is_named_by_its_origin_alone(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "hall.html")
    elsewhere = chain.pages.replace("localhost", "127.0.0.1")
    assert await enter(client, "openTheStreetDoor") == (
        False,
        f"The form was submitted. The page is now a page of {elsewhere}.",
    )
    assert await page.evaluate("location.origin") == elsewhere


async def test_a_form_whose_next_page_does_not_load_says_so(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "hall.html")
    await page.evaluate("document.forms[0].action = 'http://localhost:1/', 0")
    is_error, text = await enter(client, "openLeftDoor")
    assert is_error
    assert "was submitted, but the next page did not load: a page of http://localhost:1." in text


async def test_the_doors_wait_for_the_user_without_autosubmit(
    chain: Chain, browser: Chromium, client: Client
) -> None:
    page = await chain.open(browser, "hall.html?byhand")
    is_error, text = await enter(client, "openLeftDoor")
    assert not is_error
    assert "“left”" in text
    assert requests_of("room.html") == []
    await press(page)
    await page.wait_until("location.pathname === '/room.html'")
    assert requests_of("room.html") == ["/room.html?room=garden"]
    assert (await enter(client, "goBack"))[0] is False
