"""What pages write and throw, out of DevTools events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bridge.browser_tools.page.console_log import MAX_CHARS, MAX_MESSAGES, MAX_TEXT, Console, Entry
from bridge.browser_tools.page.safe_regex import compile_pattern
from bridge.browser_tools.tool_output import ToolError
from native_host.protocol import wire

SHOP = "https://shop.example"


def event(method: str, session: str = "", /, **params: Any) -> wire.CdpEvent:
    raw = msgspec.Raw(json.dumps(params).encode())
    return wire.CdpEvent(tab_id=1, method=method, params=raw, session_id=session)


def text(value: str) -> dict[str, Any]:
    return {"type": "string", "value": value}


def written(*values: Any, kind: str = "log", at: float = 0, **more: Any) -> wire.CdpEvent:
    args = [text(value) if isinstance(value, str) else value for value in values]
    return event("Runtime.consoleAPICalled", type=kind, args=args, timestamp=at, **more)


def thrown(text: str = "Uncaught", number: int = 1, exception: dict[str, Any] | None = None) -> wire.CdpEvent:
    details = {"exceptionId": number, "text": text, "lineNumber": 2, "columnNumber": 4, "url": f"{SHOP}/a.js"}
    if exception:
        details["exception"] = exception
    return event("Runtime.exceptionThrown", timestamp=0, exceptionDetails=details)


def navigated(url: str, parent: str = "") -> wire.CdpEvent:
    frame = {"id": "F", "url": url, "loaderId": "L"}
    return event("Page.frameNavigated", frame={**frame, "parentId": parent} if parent else frame)


def context(number: int, origin: str, *, is_page: bool = True) -> wire.CdpEvent:
    of_page = {"isDefault": is_page, "type": "default" if is_page else "isolated", "frameId": "F"}
    made = {"id": number, "origin": origin, "name": "", "uniqueId": "u", "auxData": of_page}
    return event("Runtime.executionContextCreated", context=made)


def heard(*events: wire.CdpEvent) -> Console:
    console = Console(f"{SHOP}/cart")
    for each in events:
        console.on_event(each)
    return console


def entries(*events: wire.CdpEvent, **wanted: Any) -> list[Entry]:
    return heard(*events).find_latest(1000, **wanted)[0]


def texts(*events: wire.CdpEvent, **wanted: Any) -> list[str]:
    return [entry.text for entry in entries(*events, **wanted)]


# ── Values ──────────────────────────────────────────────────────────────────────────────────────────────────


def preview(description: str = "Object", subtype: str = "", **more: Any) -> dict[str, Any]:
    kind = {"type": "object", "description": description, **({"subtype": subtype} if subtype else {})}
    return {
        **kind,
        "className": description,
        "preview": {**kind, "overflow": False, "properties": [], **more},
    }


A_NUMBER = {"name": "a", "type": "number", "value": "1"}
A_TEXT = {"name": "b", "type": "string", "value": "x"}
FIRST = {"name": "0", "type": "number", "value": "1"}
K, V = preview("k"), preview("v")
SHOWN = [
    (text("plain"), "plain"),
    ({"type": "number", "value": 4.5, "description": "4.5"}, "4.5"),
    ({"type": "number", "unserializableValue": "NaN", "description": "NaN"}, "NaN"),
    ({"type": "bigint", "unserializableValue": "10n", "description": "10n"}, "10n"),
    ({"type": "boolean", "value": True}, "true"),
    ({"type": "undefined"}, "undefined"),
    ({"type": "object", "subtype": "null", "value": None}, "null"),
    ({"type": "symbol", "description": "Symbol(s)"}, "Symbol(s)"),
    ({"type": "function", "description": "() => 1"}, "() => 1"),
    ({"type": "object", "subtype": "error", "description": "Error: no\n    at f"}, "Error: no\n    at f"),
    ({"type": "object", "subtype": "node", "description": "div#a"}, "div#a"),
    ({"type": "object", "description": "Object"}, "Object"),
    (preview(properties=[A_NUMBER, A_TEXT]), '{a: 1, b: "x"}'),
    (preview("Cart", properties=[A_NUMBER], overflow=True), "Cart {a: 1, …}"),
    (preview("Array(2)", "array", properties=[FIRST, {**A_TEXT, "name": "1"}]), '[1, "x"]'),
    (preview("Uint8Array(1)", "typedarray", properties=[FIRST, {**A_NUMBER, "name": "length"}]), "[1]"),
    (
        preview(
            "Map(1)", "map", entries=[{"key": preview("k")["preview"], "value": preview("v")["preview"]}]
        ),
        "Map(1) {k => v}",
    ),
    (preview("Set(1)", "set", entries=[{"value": {"type": "string", "description": "x"}}]), 'Set(1) {"x"}'),
    (preview("Promise", "promise"), "Promise"),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN, ids=[shown for _, shown in SHOWN])
def test_a_value_is_shown_as_the_console_shows_it(value: dict[str, Any], shown: str) -> None:
    assert texts(written(value)) == [shown]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("a", "b"), "a b"),
        (("%s has %d", "cart", {"type": "number", "value": 3}, "more"), "cart has 3 more"),
        (("%cred%c plain %%", "color:red", ""), "red plain %"),
        (("%s and %s", "one"), "one and %s"),
        (("100%", "sure"), "100% sure"),
        (({"type": "number", "value": 1}, "%s"), "1 %s"),
    ],
)
def test_the_places_in_a_format_are_filled_in(values: tuple[Any, ...], shown: str) -> None:
    assert texts(written(*values)) == [shown]


def test_halves_of_characters_are_replaced_and_the_rest_is_kept() -> None:
    broken = event("Runtime.consoleAPICalled", type="log", args=[text("\ud800 here")], timestamp=0)
    assert texts(broken) == ["? here"]


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("log", "log"),
        ("dir", "log"),
        ("table", "log"),
        ("info", "info"),
        ("debug", "debug"),
        ("warning", "warning"),
        ("error", "error"),
        ("assert", "error"),
    ],
)
def test_each_kind_of_message_has_its_level(kind: str, level: str) -> None:
    assert [entry.level for entry in entries(written("said", kind=kind))] == [level]


def test_a_page_cannot_clear_what_was_captured() -> None:
    assert texts(written("said"), written(kind="clear")) == ["said"]


def test_a_place_is_counted_from_one_and_errors_have_their_stack() -> None:
    frames = [
        {"functionName": "add", "url": f"{SHOP}/cart.js", "lineNumber": 11, "columnNumber": 4},
        {"functionName": "", "url": "", "lineNumber": 0, "columnNumber": 0},
        {"functionName": "", "url": f"{SHOP}/main.js", "lineNumber": 0, "columnNumber": 0},
    ]
    [error] = entries(written("no", kind="error", stackTrace={"callFrames": frames}))
    assert error.place == f"{SHOP}/cart.js:12:5"
    assert error.stack == [f"add {SHOP}/cart.js:12:5", f"(anonymous) {SHOP}/main.js:1:1"]


def test_what_is_thrown_and_what_is_rejected_are_errors_with_their_place() -> None:
    error = {"type": "object", "subtype": "error", "description": "TypeError: no\n    at a.js:3:5"}
    found = entries(
        thrown("Uncaught", 1, error),
        thrown("Uncaught (in promise)", 2, text("reason")),
        thrown("Uncaught", 3),
    )
    assert [entry.text for entry in found] == [
        "Uncaught TypeError: no\n    at a.js:3:5",
        "Uncaught (in promise) reason",
        "Uncaught",
    ]
    assert {(entry.level, entry.place) for entry in found} == {("error", f"{SHOP}/a.js:3:5")}


def test_a_rejection_that_is_handled_after_all_is_taken_back() -> None:
    revoked = event("Runtime.exceptionRevoked", reason="Handler added to rejected promise", exceptionId=2)
    assert texts(thrown("first", 1), thrown("second", 2), revoked) == ["first"]


def test_what_the_browser_itself_says_is_there_too() -> None:
    entry = {
        "source": "network",
        "level": "error",
        "text": "Failed to load resource: 404",
        "timestamp": 0,
        "url": f"{SHOP}/x.png",
    }
    [found] = entries(event("Log.entryAdded", entry=entry))
    assert (found.level, found.text, found.place) == (
        "error",
        "Failed to load resource: 404",
        f"{SHOP}/x.png:1:1",
    )


def test_what_a_worker_writes_is_told_once_by_its_own_session() -> None:
    entry = {"source": "worker", "level": "info", "text": "said", "timestamp": 0}
    assert texts(event("Log.entryAdded", entry=entry), written("said")) == ["said"]


def test_a_message_that_comes_again_in_a_row_is_counted() -> None:
    found = entries(
        *(written("tick", at=at) for at in range(3)), written("tock", at=5), written("tick", at=9)
    )
    assert [(entry.text, entry.count) for entry in found] == [("tick", 3), ("tock", 1), ("tick", 1)]
    assert [entry.at for entry in found] == [2, 5, 9]


# ── Whose they are ──────────────────────────────────────────────────────────────────────────────────────────


def test_what_extensions_write_in_a_page_is_left_out() -> None:
    isolated, viewer = context(2, SHOP, is_page=False), context(3, "chrome-extension://abc")
    said = [written(f"by {number}", executionContextId=number) for number in (1, 2, 3)]
    found = entries(context(1, SHOP), isolated, viewer, *said)
    assert [(entry.text, entry.possible_origins) for entry in found] == [("by 1", (SHOP,))]


def test_a_number_of_a_context_means_another_one_in_another_session_and_once_all_are_cleared() -> None:
    isolated = context(1, "chrome-extension://abc", is_page=False)
    of_frame = written("frame", executionContextId=1)
    of_frame.session_id = "S"
    cleared = event("Runtime.executionContextsCleared")
    assert texts(isolated, of_frame, written("hidden", executionContextId=1)) == ["frame"]
    assert texts(isolated, cleared, written("now", executionContextId=1)) == ["now"]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"{SHOP}/checkout", ["before"]),
        ("https://shop.example:444/", ["before"]),
        ("https://other.example/", []),
        ("about:blank", []),
    ],
)
def test_leaving_for_another_domain_forgets_what_was_there(url: str, kept: list[str]) -> None:
    assert texts(written("before"), navigated(url)) == kept


def test_a_frame_that_goes_elsewhere_forgets_nothing() -> None:
    assert texts(written("before"), navigated("https://ads.example/", parent="F")) == ["before"]


# ── Found again ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_newest_that_fit_come_in_their_order_with_the_number_of_all() -> None:
    console = heard(*(written(f"n{n}", kind="error" if n % 2 else "log") for n in range(10)))
    newest, found = console.find_latest(2, only_errors=True)
    assert ([entry.text for entry in newest], found) == (["n7", "n9"], 5)
    newest, found = console.find_latest(9, fits=lambda entry: entry.text < "n2")
    assert ([entry.text for entry in newest], found) == (["n0", "n1"], 2)


def test_what_processes_of_a_page_tell_late_stands_where_its_time_is() -> None:
    late, early = written("late", at=2_000), written("early", at=1_000)
    assert texts(late, early) == ["early", "late"]
    (newest,), _ = heard(late, early).find_latest(1)
    assert newest.text == "late"


def test_the_oldest_go_when_there_are_too_many_and_are_counted() -> None:
    console = heard(*(written(f"n{n}") for n in range(MAX_MESSAGES + 5)))
    newest, found = console.find_latest(1)
    assert (newest[0].text, found, console.dropped) == (f"n{MAX_MESSAGES + 4}", MAX_MESSAGES, 5)


def test_long_messages_are_cut_and_all_together_are_bounded() -> None:
    console = heard(*(written(f"{n} {'x' * 100_000}", "y" * 100_000) for n in range(MAX_MESSAGES)))
    newest, found = console.find_latest(MAX_MESSAGES)
    assert all(len(entry.text) <= MAX_TEXT + 50 for entry in newest)
    assert sum(len(entry.text) for entry in newest) <= MAX_CHARS
    assert found + console.dropped == MAX_MESSAGES


def test_nothing_is_left_once_it_is_cleared() -> None:
    console = heard(written("said"))
    console.clear()
    assert console.find_latest(9) == ([], 0)


# ── Patterns ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "text", "is_found"),
    [
        ("error", "An ERROR here", True),
        ("^cart", "the cart", False),
        (r"\d+ ms$", "took 45 ms", True),
        ("a|b", "b", True),
        ("CAFÉ", "café", True),
    ],
)
def test_a_pattern_is_looked_for_anywhere_in_upper_and_lower_case(
    expression: str, text: str, is_found: bool
) -> None:
    assert compile_pattern(expression)(text) is is_found


@pytest.mark.parametrize("expression", ["[", "(?=a)b", r"(a)\1", "a{1,1000000}", "x" * 501])
def test_a_pattern_that_cannot_be_used_is_refused_with_what_to_do(expression: str) -> None:
    with pytest.raises(ToolError, match="pattern"):
        compile_pattern(expression)


def test_no_text_makes_a_pattern_slow() -> None:
    """With Python's own engine this one does not end."""
    assert compile_pattern("(a+)+$")("a" * 4000 + "!") is False
