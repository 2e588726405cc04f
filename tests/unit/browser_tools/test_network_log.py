"""What tabs ask of servers, out of DevTools events; and what of it is not shown."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bridge.browser_tools.page.credential_masking import masked_body, masked_headers, masked_url
from bridge.browser_tools.page.network_log import MAX_BYTES, MAX_REQUESTS, Network, Request
from native_host.protocol import wire

SHOP = "https://shop.example"


LINE = {"url": f"{SHOP}/a.js", "lineNumber": 3}


def event(method: str, session: str = "", /, **params: Any) -> wire.CdpEvent:
    raw = msgspec.Raw(json.dumps(params).encode())
    return wire.CdpEvent(tab_id=1, method=method, params=raw, session_id=session)


def asked(number: str = "1", url: str = f"{SHOP}/api", **more: Any) -> wire.CdpEvent:
    session = more.pop("session", "")
    request = {"url": url, "method": "GET", "headers": {}, **more.pop("request", {})}
    known = {"timestamp": 10.0, "wallTime": 86400.5, "loaderId": "L1", "documentURL": f"{SHOP}/cart"}
    params = {
        "requestId": number,
        "request": request,
        "type": "Fetch",
        "initiator": {"type": "other"},
        **known,
    }
    return event("Network.requestWillBeSent", session, **{**params, **more})


def response(status: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "url": "",
        "status": status,
        "statusText": "",
        "headers": {},
        "mimeType": "text/html",
        "encodedDataLength": 100,
        **more,
    }


def answered(number: str = "1", status: int = 200, kind: str = "Fetch", **more: Any) -> wire.CdpEvent:
    told = {"requestId": number, "timestamp": 10.1, "type": kind, "response": response(status, **more)}
    return event("Network.responseReceived", **told)


def finished(number: str = "1", at: float = 10.25, size: int = 1234) -> wire.CdpEvent:
    return event("Network.loadingFinished", requestId=number, timestamp=at, encodedDataLength=size)


def failed(number: str = "1", **why: Any) -> wire.CdpEvent:
    return event(
        "Network.loadingFailed", requestId=number, timestamp=10.5, **{"errorText": "net::ERR_FAILED", **why}
    )


def navigated(url: str, loader: str = "L1", session: str = "", **more: Any) -> wire.CdpEvent:
    return event("Page.frameNavigated", session, frame={"id": "F", "url": url, "loaderId": loader, **more})


def heard(*events: wire.CdpEvent) -> Network:
    network = Network(f"{SHOP}/cart")
    for each in events:
        network.on_event(each)
    return network


def requests(*events: wire.CdpEvent) -> list[Request]:
    return heard(*events).find_latest(10_000)[0]


# ── What becomes of a request ───────────────────────────────────────────────────────────────────────────────


def test_a_request_that_is_answered() -> None:
    [found] = requests(asked(), answered(), finished())
    assert (found.method, found.url, found.status, found.kind) == ("GET", f"{SHOP}/api", 200, "fetch")
    assert (found.size, found.seconds, found.failure, found.time) == (1234, 0.25, "", "00:00:00.500")


def test_one_that_is_on_its_way_has_neither_status_nor_duration() -> None:
    [found] = requests(asked())
    assert (found.status, found.seconds) == (None, None)


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ({}, "net::ERR_FAILED"),
        ({"canceled": True, "errorText": "net::ERR_ABORTED"}, "cancelled"),
        ({"blockedReason": "csp"}, "net::ERR_FAILED, blocked: csp"),
        ({"corsErrorStatus": {"corsError": "DisallowedByMode"}}, "net::ERR_FAILED, CORS: DisallowedByMode"),
    ],
)
def test_one_that_fails_says_why(why: dict[str, Any], told: str) -> None:
    [found] = requests(asked(), failed(**why))
    assert (found.failure, found.seconds) == (told, 0.5)


def test_each_step_of_a_redirect_is_a_request() -> None:
    onward = asked(url=f"{SHOP}/there", timestamp=10.5, redirectResponse=response(302))
    steps = requests(asked(), onward, answered(), finished(at=11.0))
    assert [(step.url, step.status, step.is_redirected, step.seconds) for step in steps] == [
        (f"{SHOP}/api", 302, True, 0.5),
        (f"{SHOP}/there", 200, False, 0.5),
    ]


def test_what_came_from_the_cache_or_from_a_service_worker_says_so() -> None:
    from_memory = event("Network.requestServedFromCache", requestId="1")
    found = requests(asked(), from_memory, answered(), asked("2"), answered("2", fromDiskCache=True))
    found += requests(asked(), answered(fromServiceWorker=True))
    assert [(each.is_cached, each.is_by_worker) for each in found] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("initiator", "told"),
    [
        ({"type": "other"}, ""),
        ({"type": "preload"}, "preload"),
        ({"type": "parser", "url": f"{SHOP}/cart", "lineNumber": 6}, f"{SHOP}/cart:7"),
        (
            {
                "type": "script",
                "stack": {"callFrames": [{"url": ""}, {"url": f"{SHOP}/a.js", "lineNumber": 3}]},
            },
            f"{SHOP}/a.js:4",
        ),
        (
            {
                "type": "script",
                "stack": {"callFrames": [], "parent": {"callFrames": [{"url": "b.js", "lineNumber": 0}]}},
            },
            "b.js:1",
        ),
    ],
)
def test_who_asked_for_it(initiator: dict[str, Any], told: str) -> None:
    assert [found.initiator for found in requests(asked(initiator=initiator))] == [told]


def test_a_web_socket_is_a_request_that_lasts() -> None:
    opened = event("Network.webSocketCreated", requestId="9", url="wss://shop.example/live")
    shaken = event(
        "Network.webSocketHandshakeResponseReceived",
        requestId="9",
        timestamp=11,
        response={"status": 101, "statusText": "Switching", "headers": {}},
    )
    broken = event("Network.webSocketFrameError", requestId="9", timestamp=12, errorMessage="reset")
    [found] = requests(opened, shaken, broken)
    assert (found.kind, found.status, found.failure) == ("websocket", 101, "reset")


def test_the_same_id_means_another_request_in_another_session() -> None:
    found = requests(asked(session="S", url=f"{SHOP}/frame"), asked(), answered(status=404))
    assert [(each.session, each.status) for each in found] == [("S", None), ("", 404)]


def test_what_the_viewer_of_pdfs_asks_for_is_left_out() -> None:
    assert requests(asked(documentURL="chrome-extension://mhjfbmdg/index.html")) == []


def test_an_event_of_a_request_that_nobody_knows_changes_nothing() -> None:
    assert requests(answered(), finished(), failed(), event("Network.loadingFinished", oddly="shaped")) == []


# ── Which are kept ──────────────────────────────────────────────────────────────────────────────────────────


def test_going_to_another_domain_forgets_all_but_what_the_new_document_asked_for() -> None:
    document = asked("2", url="https://other.example/", loaderId="L2")
    found = requests(
        asked(), document, navigated("https://other.example/", "L2"), answered("2", kind="Document")
    )
    assert [(each.url, each.status) for each in found] == [("https://other.example/", 200)]


@pytest.mark.parametrize(
    "moved",
    [
        navigated(f"{SHOP}/checkout", "L2"),
        navigated("https://ads.example/", "L2", parentId="F"),
        navigated("https://ads.example/", "L2", "S"),
    ],
    ids=["the same domain", "a frame", "a frame with a process of its own"],
)
def test_nothing_else_does(moved: wire.CdpEvent) -> None:
    assert len(requests(asked(), moved)) == 1


def test_the_oldest_go_when_there_are_too_many_and_are_counted() -> None:
    network = heard(*(asked(str(n), url=f"{SHOP}/{n}") for n in range(MAX_REQUESTS + 5)))
    newest, found = network.find_latest(1)
    assert (newest[0].url, found, network.dropped) == (f"{SHOP}/{MAX_REQUESTS + 4}", MAX_REQUESTS, 5)


def test_what_is_kept_is_bounded_in_bytes_too() -> None:
    large = {"method": "POST", "postData": "x" * 60_000, "headers": {f"h{n}": "v" * 5000 for n in range(200)}}
    told = response(headers={f"h{n}": "v" * 5000 for n in range(200)})
    network = Network(SHOP)
    for n in range(200):
        network.on_event(asked(str(n), url=f"{SHOP}/{'u' * 10_000}", request=large))
        network.on_event(event("Network.responseReceived", requestId=str(n), timestamp=11, response=told))
    newest, found = network.find_latest(MAX_REQUESTS)
    assert sum(request.bytes for request in newest) <= MAX_BYTES
    assert 1 < found == 200 - network.dropped


def test_a_long_address_with_the_data_in_it_is_cut() -> None:
    [found] = requests(asked(url=f"data:text/plain,{'x' * 100_000}"))
    assert len(found.url) < 200
    assert "100016 characters" in found.url


def test_nothing_is_left_once_it_is_cleared() -> None:
    network = heard(asked())
    network.clear()
    network.on_event(answered())
    assert network.find_latest(9) == ([], 0)


# ── What is not shown ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"{SHOP}/a?page=2&sort=price", f"{SHOP}/a?page=2&sort=price"),
        (f"{SHOP}/a?token=abc&page=2", f"{SHOP}/a?token=[masked]&page=2"),
        (f"{SHOP}/a?X-Amz-Signature=abc", f"{SHOP}/a?X-Amz-Signature=[masked]"),
        (f"{SHOP}/a?user%5Bpassword%5D=abc", f"{SHOP}/a?user%5Bpassword%5D=[masked]"),
        (f"{SHOP}/a?apiKey=abc", f"{SHOP}/a?apiKey=[masked]"),
        (f"{SHOP}/a?key=AIzaSyD-1234567", f"{SHOP}/a?key=[masked]"),
        (f"{SHOP}/a?key=name&code=DE", f"{SHOP}/a?key=name&code=DE"),
        (f"{SHOP}/#access_token=abc&state=1", f"{SHOP}/#access_token=[masked]&state=1"),
        ("https://ann:secret@shop.example/", "https://[masked]@shop.example/"),
        (f"{SHOP}/a?q=x@y.example", f"{SHOP}/a?q=x@y.example"),
        (f"{SHOP}/confirm/eyJhbGciOi.eyJzdWIiOi.c2ln", f"{SHOP}/confirm/[masked]"),
        (f"{SHOP}/a?author=ann&monkey=1234567890123", f"{SHOP}/a?author=ann&monkey=1234567890123"),
    ],
)
def test_credentials_in_an_address_are_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown
    assert [found.url for found in requests(asked(url=url))] == [shown]


def test_headers_that_sign_in_are_masked() -> None:
    headers = {
        "Authorization": "Bearer abc",
        "Cookie": "a=b",
        "Set-Cookie": "a=b",
        "X-CSRF-Token": "abc",
        "X-Api-Key": "0123456789ab",
    }
    assert set(masked_headers(headers).values()) == {"[masked]"}
    plain = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "max-age=0", "Accept": "*/*"}
    assert masked_headers(plain) == plain
    assert masked_headers({"Referer": f"{SHOP}/?token=abc"}) == {"Referer": f"{SHOP}/?token=[masked]"}


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"user": "ann", "password": "a\\"b"}', '{"user": "ann", "password":"[masked]"}'),
        ('{"pin": 1234, "otp": 1234}', '{"pin": 1234, "otp":"[masked]"}'),
        ('[{"token":"abc"}]', '[{"token":"[masked]"}]'),
        ('{"token": "cut off he', '{"token":"[masked]"'),
        ("user=ann&password=abc&go=1", "user=ann&password=[masked]&go=1"),
        ("plain words", "plain words"),
        ("", ""),
    ],
)
def test_credentials_in_a_body_are_masked(body: str, shown: str) -> None:
    assert masked_body(body).replace('": "[masked]', '":"[masked]') == shown
