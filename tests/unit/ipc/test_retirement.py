"""What the next holder of a named session makes of the reply of the one that it retires."""

from __future__ import annotations

import socket

import pytest

from native_host.ipc.named_sessions import Connection, ContinuedSession, Greeting, SessionError

GREETING = Greeting(name="a", pid=1, directory="/", used_at=0, ends_at=0, answers=True)


def retire(reply: bytes) -> ContinuedSession | None:
    ours, theirs = socket.socketpair()
    with theirs, Connection(ours, GREETING, iter([reply])) as connection:
        return connection.retire()


def test_a_reply_that_is_no_session_is_an_error_that_names_the_session() -> None:
    with pytest.raises(SessionError, match="mcpb session end a"):
        retire(b'{"type": "continuedSession"}')


def test_a_reply_without_profiles_and_directory_continues_the_session() -> None:
    assert retire(b'{"type": "continuedSession", "id": "s1"}') == ContinuedSession(id="s1")
