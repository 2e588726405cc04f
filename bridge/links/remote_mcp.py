"""One remote MCP server: its lists, its requests, and the connection that comes back by itself.

The options have the names of the page module `registerWebMcp`, in snake_case, and so has the handle: `tools`,
`disposed`, `refresh`, `dispose`. It polls nothing: the lists change with the server's notifications and with
`refresh`. A request that may have run is never repeated. The mcp package is imported in a thread, when the
server is connected for the first time.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.transport import HOPS
from bridge.links.remote_calls import (
    MAX_ROUNDS,
    NO_REMOTE_OBSERVER,
    CallClock,
    Params,
    RemoteObserver,
    Root,
    RunningCall,
    RunningCalls,
    is_lower,
    pause_before_round,
)
from bridge.links.remote_changes import OPENING_S, REQUEST_S, RemoteChanges
from bridge.links.remote_lists import (
    KINDS,
    MAX_LIST_BYTES,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Definition,
    ListKind,
    ListReader,
    RemoteEntry,
    RemoteLists,
)
from bridge.links.remote_log import RemoteLog, SecretMask
from bridge.links.remote_options import OWN_NAME, RemoteOptions, make_identity
from bridge.links.remote_problem import Cause, RemoteCallError, RemoteProblem, RemoteReportedError
from bridge.links.remote_sync import MAX_DELAY_S, Backoff, SharedSync
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

if TYPE_CHECKING:
    from bridge.links.remote_client import RemoteConnection

__all__ = [
    "Cause",
    "RemoteCallError",
    "RemoteEntry",
    "RemoteLists",
    "RemoteObserver",
    "RemoteOptions",
    "RemoteProblem",
    "RemoteReportedError",
    "RemoteServer",
    "RemoteState",
    "open_remote",
]

MAX_CALLS = 32
"""At once; more wait in their order."""
WITHDRAW_S = 3.0
"""Seconds after the loss of a connection until its lists are withdrawn."""
REOPEN_S = 10.0
"""Seconds that a request waits for a new session."""
CLOSING_S = 5.0
PING_S = 10.0
DISPOSED = "WebMCP adapter has been disposed"
_SYNC_TIMEOUTS = 5
"""Timeouts of a request that a whole sync may take."""
_MAX_SHOWN_CHARS = 100
_LIST_CHANGES = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts"))


_CAPABILITIES = {
    "tools": ("listChanged",),
    "resources": ("listChanged", "subscribe"),
    "prompts": ("listChanged",),
    "completions": (),
    "logging": (),
}


class RemoteState(msgspec.Struct, frozen=True):
    """State of a server, for status pages. All texts are sanitized and hold no secret."""

    state: Literal["connecting", "ready", "unreachable", "failed", "disabled"] = "connecting"
    revision: str = ""
    server_name: str = ""
    server_version: str = ""
    transport: str = ""
    """`streamable-http`, `sse`, `stdio`, or nothing."""
    last_sync: float | None = None
    """Time of the last sync, in seconds since the epoch."""
    last_error: str = ""
    cause: Cause | None = None
    capabilities: Mapping[str, Mapping[str, bool]] = {}
    """Those of `_CAPABILITIES` that the server declares, with their flags."""


class RemoteServer:
    """A remote server. `run` connects it; everything else works at any time."""

    def __init__(self, options: RemoteOptions) -> None:
        self.options = options
        self.lists = RemoteLists()
        """Replaced after each sync, and withdrawn some time after the connection was lost."""
        self.state = RemoteState()
        """Replaced with each change."""
        self.disposed = False
        self.on_change: Callable[[], None] = lambda: None
        """Called after `lists` or `state` was replaced."""
        self.on_updated: Callable[[str], None] = lambda _uri: None
        """Called with the URI of a subscribed resource that has changed."""
        self.on_elicited: Callable[[str], None] = lambda _id: None
        """Called with the id of an elicitation in the browser that is complete."""
        self.on_log: Callable[[Params], None] = lambda _params: None
        """Called with a log message that belongs to no single call."""
        self._identity = make_identity(options)
        self._log = RemoteLog(options)
        self._secrets = SecretMask(options.url)
        self._secrets.add(options.env)
        self._calls = RunningCalls(options.roots)
        self._slots = trio.CapacityLimiter(MAX_CALLS)
        self._sync = SharedSync(self._sync_lists, self._report_unseen)
        self._changes = RemoteChanges(self._log.warn)
        self._changes.on_missed = self._sync.report_change
        self._syncing: RemoteConnection | None = None
        self._connection: RemoteConnection | None = None
        """The connection that requests use: its first sync has succeeded."""
        self._log_level = ""
        self._rejection = ""
        """Last error of the state, while it is that of a request which the server does not accept."""
        self._settled = trio.Event()
        self._doubt = trio.Event()
        """Set when the connection may be lost without a sign of it."""
        self._changed = trio.Event()
        self._retry = trio.Event()
        self._ended: trio.Event | None = None
        self._scope = trio.CancelScope()

    @property
    def tools(self) -> list[str]:
        """Names of the tools, with the prefix."""
        return [f"{self.options.prefix}{entry.definition['name']}" for entry in self.lists.tools]

    async def wait_settled(self) -> None:
        """Wait until the first attempt to connect has ended, with or without success."""
        await self._settled.wait()

    def raise_if_not_ready(self) -> None:
        """Raise RemoteProblem unless the server is connected."""
        if self._connection is None:
            raise RemoteProblem(self.state.cause or Cause.CLOSED, self.state.last_error)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Connect, and connect again after a loss, until cancelled or disposed."""
        self._ended = trio.Event()
        task_status.started()
        try:
            with self._scope:
                if self.disposed:
                    return
                # The import takes half a second: other tasks run meanwhile.
                await trio.to_thread.run_sync(importlib.import_module, "bridge.links.remote_client")
                async with trio.open_nursery() as nursery:
                    await self._keep_connected(nursery)
                    nursery.cancel_scope.cancel()
        finally:
            self._connection = self._syncing = None
            self._settled.set()
            self._set_state(state="disabled")
            self._ended.set()

    async def refresh(self) -> None:
        """Read the lists again; after `dispose`, do nothing.

        Raises:
            RemoteProblem: that has failed; the previous lists are still valid.
        """
        if self.disposed:
            return
        if self._connection is None:
            await self._wait_attempt()
        else:
            await self._sync.refresh()

    async def dispose(self) -> None:
        """Withdraw the lists, end all requests and close the connection; any number of times."""
        self.disposed = True
        self._set_lists(RemoteLists())
        connection = self._syncing
        if connection is not None:
            connection.lose(RemoteProblem(Cause.CLOSED, DISPOSED))
        self._retry.set()
        if self._ended is not None:
            with trio.move_on_after(CLOSING_S):
                await self._ended.wait()
            self._scope.cancel()
            await self._ended.wait()

    async def request(
        self,
        method: str,
        params: Params,
        observer: RemoteObserver = NO_REMOTE_OBSERVER,
        timeout_s: float | None = None,
    ) -> Params:
        """Send a request; return its result with all members.

        `params._meta["dev.mcpb/hops"]` is the number of bridges before this one.

        Raises:
            RemoteCallError: there is no result; `handed` says whether the request may have run.
            RemoteReportedError: the server answered with a JSON-RPC error.
            CallError: a server request in an `InputRequiredResult` was rejected, or `before_send` has raised.
        """
        self._raise_if_disposed()
        params = self._add_hop(params)
        async with self._slots:
            if observer.before_send:
                observer.before_send()
            with self._calls.start(method, observer, timeout_s or self.options.timeout_s) as call:
                try:
                    result = await self._call(self._ready_connection(), method, params, call)
                except RemoteProblem as problem:
                    self._raise_if_disposed(handed=problem.handed)
                    if problem.cause is Cause.TOO_SLOW:
                        self._doubt.set()
                    if not problem.is_session_lost:
                        if problem.cause is Cause.UNAUTHORIZED:
                            self._note_rejection(problem)
                        raise self.make_error(problem) from None
                else:
                    self._forget_rejection()
                    return result
                return await self._call_again(method, params, call)

    def make_error(self, problem: RemoteProblem) -> RemoteCallError:
        """Return the error of a request that cannot be sent, or has no response."""
        return RemoteCallError(self.options.name, problem, self.options.unauthorized_remedy)

    def mask_json(self, value: Any) -> Any:
        """Return a JSON value of the server without secrets; None if it cannot be read without them."""
        return self._secrets.mask_json(value)

    async def subscribe(self, uri: str) -> None:
        """Receive updates of a resource through `on_updated`, until `unsubscribe`. Call it once per URI.

        Raises:
            RemoteCallError: the request has failed.
            RemoteReportedError: the server rejects it.
        """
        self._raise_if_disposed()
        if not self.options.watch:
            raise CallError(Code.NOT_ALLOWED, "watch is false for this server", handed=False)
        try:
            await self._changes.subscribe(uri)
        except RemoteProblem as problem:
            raise self.make_error(problem) from None

    async def unsubscribe(self, uri: str) -> None:
        """End a subscription; errors of the server are logged."""
        try:
            await self._changes.unsubscribe(uri)
        except (RemoteProblem, RemoteReportedError) as error:
            self._log.info(f"a subscription was not ended: {self._secrets.mask(error.detail)}")

    async def set_roots(self, roots: tuple[Root, ...]) -> None:
        """Replace the configured roots, and inform the server."""
        self._calls.roots = roots
        if self._connection is not None and "roots" in self._identity.capabilities:
            await self._connection.notify("notifications/roots/list_changed")

    def report_doubt(self) -> None:
        """Note that the connection may be lost."""
        self._doubt.set()

    # ── Connection ─────────────────────────────────────────────────────────────────────────────────────────

    async def _keep_connected(self, nursery: trio.Nursery) -> None:
        backoff = Backoff()
        while True:
            self._retry = trio.Event()
            began_at = trio.current_time()
            problem = await self._connect()
            was_ready, self._connection, self._syncing = self._connection is not None, None, None
            if self.disposed:
                return
            self._report_loss(problem)
            self._settled.set()
            self._notify()
            if was_ready:
                nursery.start_soon(self._withdraw_later)
            lasted_s = trio.current_time() - began_at
            if was_ready and lasted_s > MAX_DELAY_S:
                backoff.reset()
            if not (problem.is_session_lost and was_ready and lasted_s > REOPEN_S):
                with trio.move_on_after(backoff.next_delay_s()):
                    await self._retry.wait()

    async def _connect(self) -> RemoteProblem:
        """Serve one connection; return why it has ended."""
        problem, may_be_legacy = await self._attempt(is_legacy=False)
        if may_be_legacy:
            legacy_problem, _ = await self._attempt(is_legacy=True)
            # A server that offers neither transport has answered the usual one.
            return problem if legacy_problem.cause is Cause.NOT_MCP else legacy_problem
        return problem

    async def _attempt(self, *, is_legacy: bool) -> tuple[RemoteProblem, bool]:
        from bridge.links.remote_client import open_connection  # noqa: PLC0415 the bridge's start is without it

        self._changes.begin()
        receiver = _Receiver(self, self._calls, self._changes, self._sync)
        problem: RemoteProblem | None = None
        may_be_legacy = False
        try:
            async with open_connection(
                self.options,
                self._identity,
                receiver,
                self._read_headers,
                self._secrets.mask,
                is_legacy=is_legacy,
            ) as connection:
                # Caught here: the tasks of the mcp package may raise other exceptions while they end.
                try:
                    await connection.negotiate()
                except RemoteProblem as raised:
                    problem, may_be_legacy = raised, connection.may_be_legacy
                else:
                    problem = await self._serve(connection)
        except Exception as error:  # noqa: BLE001 whatever a server causes ends its own connection only
            problem = problem or _find_problem(error)
        return problem, may_be_legacy

    async def _serve(self, connection: RemoteConnection) -> RemoteProblem:
        self._syncing = connection
        self._log_level = ""
        self._doubt = trio.Event()
        self._calls.forget_abandoned()
        # Entries for clients are made with the first lists, and depend on the name.
        info = connection.server_info
        self._set_state(
            server_name=self._show(info.get("name")), server_version=self._show(info.get("version"))
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sync.serve)
                nursery.start_soon(self._serve_changes, connection)
                nursery.start_soon(self._check_connection, connection)
                with trio.move_on_after(OPENING_S):
                    await self._changes.opened.wait()
                self._changes.skip_opening()
                await self._sync.refresh()
                self._report_ready(connection)
                await connection.lost.wait()
                nursery.cancel_scope.cancel()
        except ExceptionGroup as group:
            problem = _find_problem(group)
        else:
            problem = connection.problem or RemoteProblem(Cause.CLOSED, "the connection was closed")
        return problem

    def _report_ready(self, connection: RemoteConnection) -> None:
        self._connection = connection
        self._set_state(
            state="ready",
            revision=connection.revision,
            transport=connection.transport,
            last_error="",
            cause=None,
            capabilities=_read_capabilities(connection.capabilities),
        )
        self._log.info(f"connected with MCP {connection.revision}, {len(self.lists.tools)} tools")
        self._settled.set()

    async def _check_connection(self, connection: RemoteConnection) -> None:
        """Send a ping whenever the stream of changes has ended, or a call got no response."""
        # MCP 2026-07-28 has no ping.
        method = "server/discover" if connection.is_modern else "ping"
        while True:
            await self._doubt.wait()
            self._doubt = trio.Event()
            try:
                await connection.request(method, {}, clock=CallClock(PING_S))
            except RemoteReportedError:
                continue
            except RemoteProblem as problem:
                connection.lose(problem)
                return

    async def _serve_changes(self, connection: RemoteConnection) -> None:
        await self._changes.serve(connection, watch=self.options.watch)

    async def _read_headers(self, is_rejected: bool) -> dict[str, str]:
        headers = dict(self.options.headers)
        if self.options.get_headers is not None:
            try:
                fresh = await self.options.get_headers(is_rejected=is_rejected)
            except RemoteProblem as problem:
                self._note_rejection(problem)
                raise
            replaced = {name.lower() for name in fresh}
            headers = {name: value for name, value in headers.items() if name.lower() not in replaced} | fresh
        self._secrets.add(headers)
        return headers

    async def _withdraw_later(self) -> None:
        with trio.move_on_after(WITHDRAW_S):
            while self._connection is None:
                await self._changed.wait()
            return
        if self._connection is None:
            self._set_lists(RemoteLists())

    async def _wait_attempt(self) -> None:
        """Cause an attempt to connect, and wait for its end."""
        self._retry.set()
        settled = self._settled = trio.Event()
        await settled.wait()
        if not self.disposed:
            self.raise_if_not_ready()

    def _report_loss(self, problem: RemoteProblem) -> None:
        text = self._secrets.mask(problem.detail)
        self._set_state(
            state="unreachable" if problem.may_recover else "failed", last_error=text, cause=problem.cause
        )
        self._log.warn(f"not connected: {text}")

    # ── Lists ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _sync_lists(self) -> None:
        connection = self._syncing
        if connection is None:
            raise RemoteProblem(Cause.CLOSED, "it is not connected")
        with trio.move_on_after(_SYNC_TIMEOUTS * self.options.timeout_s):
            tools: list[Definition] = []
            lists = await self._read_lists(connection, tools)
            self._finish_sync(lists, tools)
            return
        raise RemoteProblem(Cause.TOO_SLOW, "its lists were not read in time")

    async def _read_lists(self, connection: RemoteConnection, tools: list[Definition]) -> RemoteLists:
        """Return the lists; add the tools to `tools` as the server has them, those for `on_sync`."""
        entries: dict[ListKind, Any] = {}
        left_out: list[str] = []
        budget_bytes = MAX_LIST_BYTES
        for kind in KINDS:
            accept = self._make_check(connection, tools) if kind is TOOLS else None
            reader = ListReader(kind, budget_bytes, accept, self._secrets.mask)
            if isinstance(connection.capabilities.get(kind.capability), dict):
                await self._read_pages(connection, kind, reader)
            budget_bytes -= reader.used_bytes
            entries[kind] = tuple(reader.entries)
            if kind is TOOLS:
                connection.forget_other_tools({entry.key for entry in reader.entries})
            left_out += reader.close()
        return RemoteLists(
            entries[TOOLS], entries[RESOURCES], entries[TEMPLATES], entries[PROMPTS], tuple(left_out)
        )

    async def _read_pages(self, connection: RemoteConnection, kind: ListKind, reader: ListReader) -> None:
        params: Params = {}
        while True:
            try:
                clock = CallClock(self.options.timeout_s)
                result = await connection.request(kind.method, self._add_hop(params), clock=clock)
            except RemoteReportedError as error:
                if error.code == Code.METHOD_NOT_FOUND:
                    return
                raise RemoteProblem(
                    Cause.BAD_LIST, f"{kind.method} failed with error {error.code}: {error.detail}"
                ) from None
            cursor = reader.add_page(result)
            if cursor is None:
                return
            params = {"cursor": cursor}

    def _make_check(
        self, connection: RemoteConnection, tools: list[Definition]
    ) -> Callable[[Definition], Definition | str | None]:
        filter_tool, map_tool = self.options.filter, self.options.map_tool

        def check(tool: Definition) -> Definition | str | None:
            tool.setdefault("inputSchema", {"type": "object"})
            fault = connection.check_tool(tool)
            if fault:
                return fault
            tools.append(tool)
            if filter_tool is not None and not filter_tool(tool):
                return None
            return tool if map_tool is None else map_tool(dict(tool))

        return check

    def _finish_sync(self, lists: RemoteLists, tools: list[Definition]) -> None:
        for reason in lists.left_out:
            if reason not in self.lists.left_out:
                self._log.warn(f"left out: {reason}")
        self.lists = lists
        self._set_state(last_sync=time.time())
        if self.options.on_sync is not None:
            try:
                self.options.on_sync(tools)
            except Exception as error:  # noqa: BLE001 the caller's own function
                self._log.error(f"on_sync raised {type(error).__name__}; the sync stays valid")

    def _report_unseen(self, problem: RemoteProblem) -> None:
        if self.disposed:
            return  # that has ended the sync
        text = self._secrets.mask(problem.detail)
        self._log.error(f"the lists were not read: {text}")
        self._set_state(last_error=text, cause=problem.cause)
        if self.options.on_error is not None:
            self.options.on_error(RemoteProblem(problem.cause, text))

    # ── Requests ───────────────────────────────────────────────────────────────────────────────────────────

    def _ready_connection(self) -> RemoteConnection:
        if self._connection is None or self._connection.lost.is_set():
            reason = self.state.last_error or "it is not connected yet"
            raise RemoteProblem(self.state.cause or Cause.CLOSED, reason)
        return self._connection

    async def _call(
        self, connection: RemoteConnection, method: str, params: Params, call: RunningCall
    ) -> Params:
        observer = call.observer
        if observer.log_level and not connection.is_modern:
            await self._lower_log_level(connection, observer.log_level)
        sent = params
        for rounds in range(MAX_ROUNDS + 1):
            try:
                result = await connection.request(
                    method,
                    sent,
                    clock=call.new_clock(),
                    call=call,
                    on_progress=observer.on_progress,
                    log_level=observer.log_level,
                )
            except RemoteReportedError as error:
                error.data = self._secrets.mask_json(error.data)
                raise
            if not connection.is_modern or result.get("resultType") != "input_required":
                return result
            members = await self._calls.answer_input(call, result)
            if "inputResponses" not in members:
                await trio.sleep(pause_before_round(rounds + 1))
            sent = {**params, **members}
        raise RemoteProblem(Cause.NOT_MCP, f"it asked for input more than {MAX_ROUNDS} times", handed=True)

    async def _call_again(self, method: str, params: Params, call: RunningCall) -> Params:
        """Repeat a request that the server has not accepted, in a new session."""
        try:
            with trio.fail_after(REOPEN_S):
                while self._connection is None or self._connection.lost.is_set():
                    self._raise_if_disposed()
                    await self._changed.wait()
            if call.observer.before_send:
                call.observer.before_send()
            return await self._call(self._ready_connection(), method, params, call)
        except trio.TooSlowError:
            problem = RemoteProblem(self.state.cause or Cause.CLOSED, self.state.last_error)
        except RemoteProblem as raised:
            problem = raised
        self._raise_if_disposed(handed=problem.handed)
        raise self.make_error(problem)

    async def _lower_log_level(self, connection: RemoteConnection, level: str) -> None:
        if "logging" not in connection.capabilities or not is_lower(level, self._log_level):
            return
        self._log_level = level
        try:
            await connection.request("logging/setLevel", {"level": level}, clock=CallClock(REQUEST_S))
        except RemoteReportedError as error:
            self._log.warn(f"logging/setLevel failed with error {error.code}")

    def _add_hop(self, params: Params) -> Params:
        meta = params.get("_meta")
        passed = meta.get(HOPS, 0) if isinstance(meta, dict) else 0
        hops = passed + 1 if isinstance(passed, int) and passed >= 0 else 1
        if hops > 1 and self.state.server_name == OWN_NAME:
            problem = RemoteProblem(Cause.SELF, "it is an mcpb behind more than one hop")
            raise RemoteCallError(self.options.name, problem)
        return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), HOPS: hops}}

    def _raise_if_disposed(self, *, handed: bool = False) -> None:
        if self.disposed:
            raise CallError(Code.GONE, DISPOSED, handed=handed)

    # ── State ──────────────────────────────────────────────────────────────────────────────────────────────

    def _show(self, value: Any) -> str:
        return single_line(self._secrets.mask(value), _MAX_SHOWN_CHARS) if isinstance(value, str) else ""

    def _set_lists(self, lists: RemoteLists) -> None:
        if lists != self.lists:
            self.lists = lists
            self._notify()

    def _note_rejection(self, problem: RemoteProblem) -> None:
        """Show in the state why the server accepts no request, or none can be sent: the connection stays."""
        self._rejection = self._secrets.mask(problem.detail)
        self._set_state(last_error=self._rejection, cause=problem.cause)

    def _forget_rejection(self) -> None:
        """Clear that error from the state: a request has been accepted."""
        if self._rejection and self.state.last_error == self._rejection:
            self._set_state(last_error="", cause=None)
        self._rejection = ""

    def _set_state(self, **members: Any) -> None:
        self.state = msgspec.structs.replace(self.state, **members)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        self.on_change()


class _Receiver:
    """Handles what a server sends by itself on one connection."""

    def __init__(
        self, server: RemoteServer, calls: RunningCalls, changes: RemoteChanges, sync: SharedSync
    ) -> None:
        self._server = server
        self._calls = calls
        self._changes = changes
        self._sync = sync

    async def answer_request(self, method: str, params: Params) -> Params:
        return await self._calls.answer(method, params)

    def on_notification(self, method: str, params: Params, call: object) -> None:
        if method in _LIST_CHANGES:
            if self._server.options.watch:
                self._sync.report_change()
        elif method == "notifications/message":
            if not self._calls.log(params, call):
                self._server.on_log(params)
        elif method == "notifications/resources/updated":
            if isinstance(uri := params.get("uri"), str):
                self._server.on_updated(uri)
        elif method == "notifications/elicitation/complete" and isinstance(
            elicited := params.get("elicitationId"), str
        ):
            self._server.on_elicited(elicited)

    def on_stream_opened(self) -> None:
        self._changes.report_opened()

    def on_stream_ended(self) -> None:
        self._server.report_doubt()

    def on_no_stream(self, reason: str) -> None:
        self._changes.report_none(reason)


def _read_capabilities(declared: Mapping[str, Any]) -> dict[str, dict[str, bool]]:
    return {
        name: {flag: declared[name].get(flag) is True for flag in flags}
        for name, flags in _CAPABILITIES.items()
        if isinstance(declared.get(name), dict)
    }


def _find_problem(error: Exception) -> RemoteProblem:
    """Return the problem in a group of exceptions. The text of others may hold secrets."""
    exceptions = list(_flatten(error))
    problems = [found for found in exceptions if isinstance(found, RemoteProblem)]
    if problems:
        return problems[0]
    return RemoteProblem(Cause.CLOSED, f"the connection ended with {type(exceptions[0]).__name__}")


def _flatten(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _flatten(inner)
    else:
        yield error


@asynccontextmanager
async def open_remote(options: RemoteOptions) -> AsyncGenerator[RemoteServer, None]:
    """Connect to a server for the time of the context. Its first sync is done.

    Raises:
        RemoteProblem: the server cannot be connected or listed; `on_error` is not called.
    """
    server = RemoteServer(options)
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        # Raised below: a nursery would put it into a group.
        try:
            await server.wait_settled()
            server.raise_if_not_ready()
            yield server
        except Exception as error:  # noqa: BLE001 whatever the caller raises
            raised = error
        finally:
            with trio.CancelScope(shield=True):
                await server.dispose()
    if raised is not None:
        raise raised
