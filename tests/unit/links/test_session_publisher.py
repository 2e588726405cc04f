"""Publication of sessions with their subscriptions."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.links.browsers.session_publisher import APART_S, MAX_PUBLISHED, SessionPublisher
from fake_transport import PlayedTransport
from native_host.protocol import wire

ONE, OTHER = Session("one"), Session("other")


class Published:
    """What hosts received."""

    def __init__(self) -> None:
        self.router = Router(PlayedTransport())
        self.messages: list[dict[str, list[str]]] = []
        self.publisher = SessionPublisher(self.router.subscriptions, self.router.changes, self._send)

    def _send(self, sessions: list[wire.Session]) -> None:
        self.messages.append({session.id: session.subscriptions for session in sessions})

    def subscribe(self, session: Session, *uris: str) -> None:
        self.router.subscriptions.listen(session, uris, lambda _: None)


@pytest.fixture
def published(nursery: trio.Nursery) -> Published:
    published = Published()
    published.publisher.set_sessions([ONE.on_wire(), OTHER.on_wire()])
    nursery.start_soon(published.publisher.run)
    return published


async def test_each_change_of_subscriptions_is_published(
    published: Published, autojump_clock: trio.testing.MockClock
) -> None:
    assert published.messages == [{"one": [], "other": []}]
    published.subscribe(ONE, "cart://1", "cart://2")
    await trio.sleep(APART_S)
    assert published.messages[1:] == [{"one": ["cart://1", "cart://2"], "other": []}]
    await published.router.release(ONE)
    await trio.sleep(APART_S)
    assert published.messages[2:] == [{"one": [], "other": []}]


async def test_many_changes_are_two_messages_and_the_last_one_has_them_all(
    published: Published, autojump_clock: trio.testing.MockClock
) -> None:
    await trio.testing.wait_all_tasks_blocked()
    for number in range(5):
        published.subscribe(ONE, f"cart://{number}")
        await trio.sleep(APART_S / 100)
    await trio.sleep(2 * APART_S)
    assert [len(message["one"]) for message in published.messages] == [0, 1, 5]


async def test_a_message_is_bounded_whatever_clients_subscribe_to(published: Published) -> None:
    sessions = [Session(str(number)) for number in range(20)]
    for session in sessions:
        published.subscribe(session, *(f"a://{number}\x1b{'x' * 5000}" for number in range(32)))
    published.publisher.set_sessions([session.on_wire() for session in sessions])
    uris = [uri for listed in published.messages[-1].values() for uri in listed]
    assert len(uris) == MAX_PUBLISHED
    assert all(uri.isprintable() and len(uri) <= 300 for uri in uris)
