"""The edges of the shim: the browser's pipes, the original host as a child, our own relay in this process.

One nursery holds everything; it ends when the browser closes its end or the child ends. What is said to whom
is the splitter's business. Our relay may fail or end by itself: the other two go on.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import trio

from native_host import endpoint, memory, relay, wire
from native_host.framing import FrameError, framed
from native_host.inlet import Inlet
from native_host.outlet import Outlet
from native_host.splitter import Party, Passed, Splitter

logger = logging.getLogger(__name__)

_CHILD_BYTES = 64 * 1024 * 1024
"""Of a frame of the child's. Its clients' have at most 1 MiB, and a browser takes no more."""
_BACKLOG_BYTES = 16 * 1024 * 1024
"""So much may wait for a party before who talks to it is not read."""
_FAREWELL_SECONDS = 0.5
"""For the last words of one party to reach another that still reads."""
_CHILD_SECONDS = 1.0
"""For the child to end by itself, and again after SIGTERM: then it is left to itself."""
_LEFT = json.dumps({"type": "mcp_disconnected"}).encode()


def run(browser_in: int, browser_out: int, command: Sequence[str], home: str) -> None:
    """Relay between the browser, the program of `command` and our clients, until one of the first two ends.

    Args:
        browser_in: a descriptor; the browser's frames come from it.
        browser_out: a descriptor.
        command: the program with the arguments that the browser gave: the extension's origin first.
        home: MCPB_HOME; empty: it is not set, whatever the browser's environment says.

    Raises:
        OSError: the program cannot be started.
    """
    memory.keep_freed()
    environ = {"MCPB_HOME": home} if home else {}
    trio.run(_run, browser_in, browser_out, command, environ)


async def _run(browser_in: int, browser_out: int, command: Sequence[str], environ: Mapping[str, str]) -> None:
    to_child, from_child, process = await _start(command)
    ours_in, to_ours = os.pipe()
    from_ours, ours_out = os.pipe()
    between = _Between((browser_in, browser_out), (from_child, to_child), (from_ours, to_ours))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_with, process, nursery.cancel_scope)
            nursery.start_soon(
                _serve_ours, _origin(command), environ, ours_in, ours_out, nursery.cancel_scope
            )
            await between.serve()
            nursery.cancel_scope.cancel()
    finally:
        os.close(to_child)
        with trio.CancelScope(shield=True):
            await _see_off(process, from_child)


def _origin(command: Sequence[str]) -> str:
    return next((word for word in command[1:] if word.startswith("chrome-extension://")), "")


# ── The child ───────────────────────────────────────────────────────────────────────────────────────────────


async def _start(command: Sequence[str]) -> tuple[int, int, trio.Process]:
    """With our environment, which is the browser's, and its stderr."""
    child_in, to_child = os.pipe()
    from_child, child_out = os.pipe()
    try:
        process = await _open(list(command), child_in, child_out)
    finally:
        os.close(child_in)
        os.close(child_out)
    return to_child, from_child, process


async def _open(command: list[str], child_in: int, child_out: int) -> trio.Process:
    """As browsers do (execvp(3)): what the system does not know is a script without its first line."""
    try:
        return await trio.lowlevel.open_process(command, stdin=child_in, stdout=child_out)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    return await trio.lowlevel.open_process(["/bin/sh", *command], stdin=child_in, stdout=child_out)


async def _end_with(process: trio.Process, everything: trio.CancelScope) -> None:
    """Usually its end of output says so sooner; but a child of its own may hold that open."""
    await process.wait()
    await trio.sleep(_FAREWELL_SECONDS)
    everything.cancel()


async def _see_off(process: trio.Process, from_child: int) -> None:
    """Its input has ended, and so it does, unless it hangs. What hangs on gets SIGTERM, and nothing more."""
    if not await _has_ended(process, from_child):
        process.terminate()
        await _has_ended(process, from_child)


async def _has_ended(process: trio.Process, from_child: int) -> bool:
    with trio.move_on_after(_CHILD_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain, from_child)
            await process.wait()
            nursery.cancel_scope.cancel()
    return process.returncode is not None


async def _drain(fd: int) -> None:
    """It may have more to say than fits into a pipe."""
    with suppress(OSError):
        while True:
            await trio.lowlevel.wait_readable(fd)
            with suppress(BlockingIOError):
                if not os.read(fd, 1 << 16):
                    return


# ── Our clients ─────────────────────────────────────────────────────────────────────────────────────────────


async def _serve_ours(
    origin: str, environ: Mapping[str, str], ours_in: int, ours_out: int, everything: trio.CancelScope
) -> None:
    """As a native host whose browser's end is the extension. SIGTERM ends it, and everything with it."""
    try:
        place = endpoint.open_first(endpoint.candidates(environ))
        try:
            record = relay.record_of(place, origin, os.getppid())
            side = relay.channel_of(place.instance)
            await relay.Relay(place, record, side, ours_in, ours_out).serve()
            if place.is_in_place():
                everything.cancel()
        finally:
            place.close()
    except endpoint.EndpointError as error:
        logger.warning("no MCP client can connect: %s", error)
    except Exception:
        logger.exception("mcpb failed; the other product's host goes on without it")
    finally:
        os.close(ours_in)
        os.close(ours_out)


# ── All three ───────────────────────────────────────────────────────────────────────────────────────────────

_Ends = tuple[int, int]
"""Descriptors: from a party, and to it."""


class _Between:
    """The splitter, with a reader and a writer for each party."""

    def __init__(self, browser: _Ends, child: _Ends, ours: _Ends) -> None:
        self._splitter = Splitter()
        self._to_browser = browser[1]
        self._from = {
            Party.EXTENSION: Inlet(browser[0], wire.FROM_BROWSER_BYTES, "native"),
            Party.CHILD: Inlet(child[0], _CHILD_BYTES, "native"),
            Party.OURS: Inlet(ours[0], _CHILD_BYTES, "native"),
        }
        self._to = {
            Party.EXTENSION: Outlet(browser[1]),
            Party.CHILD: Outlet(child[1]),
            Party.OURS: Outlet(ours[1]),
        }
        self._asleep_until_s = 0.0
        self._earlier = trio.Event()
        """Something is to be done sooner than that."""

    async def serve(self) -> None:
        """Relay until the browser or the child closes its end."""
        async with trio.open_nursery() as nursery:
            for party in Party:
                nursery.start_soon(self._write, party, nursery.cancel_scope)
            nursery.start_soon(self._expire)
            nursery.start_soon(self._notice_hang_up, nursery.cancel_scope)
            nursery.start_soon(self._hear_child, nursery.cancel_scope)
            nursery.start_soon(self._hear_ours)
            await self._read(Party.EXTENSION, self._splitter.from_extension)
            await self._part(Party.CHILD)
            nursery.cancel_scope.cancel()

    async def _hear_child(self, everything: trio.CancelScope) -> None:
        await self._read(Party.CHILD, self._splitter.from_child)
        await self._part(Party.EXTENSION)
        everything.cancel()

    async def _hear_ours(self) -> None:
        await self._read(Party.OURS, self._splitter.from_ours)
        self._pass(self._splitter.from_ours(_LEFT, trio.current_time()))

    async def _read(self, party: Party, hear: Callable[[bytes, float], list[Passed]]) -> None:
        inlet = self._from[party]
        try:
            while bodies := await inlet.receive():
                for body in bodies:
                    self._put(hear(body, trio.current_time()))
                del bodies, body  # a long one would stay until the next has come
                self._flush()
                await self._wait_until_read(party)
        except FrameError as error:
            logger.warning("the %s broke its frames: %s", party.value, error)
        except trio.BrokenResourceError:
            logger.info("the %s broke off", party.value)

    async def _wait_until_read(self, speaker: Party) -> None:
        """By whom it speaks to; who is gone is waited for no longer."""
        hearers = (Party.CHILD, Party.OURS) if speaker is Party.EXTENSION else (Party.EXTENSION,)
        for hearer in hearers:
            with suppress(trio.BrokenResourceError):
                await self._to[hearer].wait_room(_BACKLOG_BYTES)

    async def _part(self, hearer: Party) -> None:
        """Let it have what was said to it."""
        with trio.move_on_after(_FAREWELL_SECONDS), suppress(trio.BrokenResourceError):
            await self._to[hearer].wait_room()

    async def _write(self, party: Party, everything: trio.CancelScope) -> None:
        with suppress(trio.BrokenResourceError):
            await self._to[party].run()
        if party is Party.EXTENSION:
            everything.cancel()  # of the child, what it says last still counts

    async def _notice_hang_up(self, everything: trio.CancelScope) -> None:
        """Its end of input is not seen while it is not read because the child reads nothing."""
        with suppress(OSError):  # no pipe: somebody tries it by hand
            await trio.lowlevel.wait_readable(self._to_browser)
            if _has_hung_up(self._to_browser):
                await trio.sleep(_FAREWELL_SECONDS)
                everything.cancel()

    async def _expire(self) -> None:
        while True:
            self._earlier = trio.Event()
            self._asleep_until_s = self._splitter.next_deadline_s
            with trio.move_on_at(self._asleep_until_s):
                await self._earlier.wait()
            self._pass(self._splitter.expire(trio.current_time()))

    def _pass(self, passed: list[Passed]) -> None:
        self._put(passed)
        self._flush()

    def _put(self, passed: list[Passed]) -> None:
        for to, body in passed:
            self._to[to].put(*framed((body,), "native"))
        if self._splitter.next_deadline_s < self._asleep_until_s:
            self._earlier.set()

    def _flush(self) -> None:
        for outlet in self._to.values():
            outlet.flush()


def _has_hung_up(fd: int) -> bool:
    """Whether nobody reads any more what is written there."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
