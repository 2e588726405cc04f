"""Host header check and request tasks. The rules of `mcpb serve` as a whole are in test_http_gate.py."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypercorn.typing import ASGIReceiveEvent

from http_serving.host_header import ServerNames, format_host, is_host
from http_serving.request_tasks import MAX_QUEUED_PARTS, BodyQueue


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        ("localhost:3456", True),
        ("LOCALHOST:3456", True),
        ("localhost", False),
        ("localhost:80", False),
        ("[2001:db8::1]:3456", True),
        ("192.168.1.5:3456", True),
        ("proxy.example", True),
        ("proxy.example:443", True),
        ("evil.example:3456", False),
        ("", False),
    ],
)
def test_a_host_header_has_to_name_the_server(header: str, is_accepted: bool) -> None:
    names = ServerNames("2001:DB8:0::1", 3456, ["Proxy.example"])
    assert names.has_name_in(header, "192.168.1.5", is_over_unix=False) == is_accepted


def test_over_a_unix_socket_localhost_needs_no_port() -> None:
    names = ServerNames("127.0.0.1", 3456)
    assert names.has_name_in("localhost", "", is_over_unix=True)
    assert not names.has_name_in("evil.example", "", is_over_unix=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_wildcard_address_is_not_a_name_of_the_server(host: str) -> None:
    names = ServerNames(host, 3456)
    assert not names.has_name_in(f"{format_host(host)}:3456", "", is_over_unix=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "my-machine.local", "localhost"])
def test_addresses_and_names_are_hosts(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", ["", "http://localhost", "localhost:80", "[::1]", "1.2.3", "two words"])
def test_urls_ports_brackets_and_incomplete_addresses_are_not_hosts(host: str) -> None:
    assert not is_host(host)


# ── Request tasks ───────────────────────────────────────────────────────────────────────────────────────────


def part(number: int) -> ASGIReceiveEvent:
    return {"type": "http.request", "body": b"%d" % number, "more_body": True}


async def test_what_comes_is_taken_in_its_order() -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    assert [await parts.pop() for _ in range(MAX_QUEUED_PARTS)] == [
        part(number) for number in range(MAX_QUEUED_PARTS)
    ]


async def test_a_task_waits_for_what_has_not_come_yet(nursery: trio.Nursery) -> None:
    parts = BodyQueue()
    nursery.start_soon(parts.put, part(1))
    with trio.fail_after(30):
        assert await parts.pop() == part(1)


async def test_who_brings_too_much_waits_until_something_is_taken(autojump_clock: trio.abc.Clock) -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await parts.put(part(MAX_QUEUED_PARTS))
    await parts.pop()
    with trio.fail_after(1):
        await parts.put(part(MAX_QUEUED_PARTS))


async def test_what_comes_after_the_answer_is_dropped_and_nobody_waits_for_it(nursery: trio.Nursery) -> None:
    parts = BodyQueue()
    for number in range(MAX_QUEUED_PARTS):
        await parts.put(part(number))
    nursery.start_soon(parts.put, part(MAX_QUEUED_PARTS))
    await trio.testing.wait_all_tasks_blocked()
    parts.close()
    with trio.fail_after(30):
        for number in range(2 * MAX_QUEUED_PARTS):
            await parts.put(part(number))
