"""Remote servers as a `Provider` of the hub: connections in the background, their tools in every list.

Each bridge has its own connections. A server that is not reachable offers nothing, and a call of one of its
tools says why. What a server writes is untrusted, as a page's text is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

import msgspec
import trio

from bridge import origins
from bridge.config.remote_settings import RemoteSettings
from bridge.errors import CallError, NotOfferedError, PageServerError, UnknownToolError, make_failure_result
from bridge.hub.audit_records import CallRecord, Site
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import ListForm, Session
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.policy import Policy
from bridge.hub.primitives.own_resource import OwnResource, OwnWatch
from bridge.hub.primitives.page_contents import read_contents
from bridge.hub.primitives.page_log import PageLog
from bridge.hub.primitives.page_prompt import PagePrompt
from bridge.hub.primitives.page_read import check_argument_size
from bridge.hub.primitives.page_requests import PageRequests
from bridge.hub.primitives.page_resource import is_uri
from bridge.hub.providers import NoProvider, ReadResource, ToolDefinition
from bridge.hub.registry import Registry
from bridge.hub.tool_result import Answer, ResultCheck, read_call_result
from bridge.hub.tool_schema import Era
from bridge.hub.transport import HOPS, CallObserver
from bridge.links.configured_remote import make_options
from bridge.links.remote_calls import RemoteObserver
from bridge.links.remote_client_requests import CallRequests, document_of
from bridge.links.remote_entries import RemotePrompt, RemoteTarget, make_prompts, make_resources, source_of
from bridge.links.remote_headers import RemoteHeaders
from bridge.links.remote_hops import OWN_NAME, EntryForm
from bridge.links.remote_lists import RemoteLists
from bridge.links.remote_mcp import RemoteServer, RemoteState
from bridge.links.remote_names import PREFIX, parse_uri, prompt_prefix, tool_prefix
from bridge.links.remote_problem import Cause, RemoteCallError, RemoteProblem, RemoteReportedError
from bridge.links.remote_tools import RemoteTool, Tools, make_tools, origin_of
from native_host.protocol import wire
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, quote, single_line
from native_host.protocol.wire import Code

# Measured on an undisturbed processor (Xeon): a bridge starts its servers 0.18 s after its own start and has
# listed two of them 0.63 s later. 0.5 s of that are the import of the mcp package in a thread. It delays the
# first response by 3 ms, or by 9 ms without a second processor. With 0.9 s the first list is sent within
# 1.2 s of the start even where everything takes half as long again.
LIST_S = 0.9
"""Seconds after the start in which lists wait for servers."""
CONNECT_S = 10.0
"""Seconds that a call waits for the first connection to its server."""
_CLOSE_S = 1.0
"""Seconds in which a session of a server is ended, when the bridge ends or the user removes the server."""
_UNSUBSCRIBE_S = 1.0
_UNKNOWN_URI = -32002
"""Code of MCP's handshake era for a resource that does not exist."""
_MAX_SAID = 500

_log = logging.getLogger(__name__)


class HubServices(msgspec.Struct, frozen=True):
    """Parts of the hub that remote servers use."""

    changes: ChangeSignal
    registry: Registry
    policy: Policy
    page_requests: PageRequests
    page_log: PageLog
    max_name: Callable[[], int]
    max_resource_bytes: Callable[[], int]
    is_own_address: Callable[[str], bool]
    """Returns whether a URL leads to this user's `mcpb serve`."""


class ServedRemote(NamedTuple):
    """A server's name and state, for status pages."""

    name: str
    state: RemoteState
    lists: RemoteLists


Watched = dict[str, dict[Callable[[], None], None]]
"""By own URI of a resource: what is called when it has changed."""


class OfferingServer(NamedTuple):
    """A server and its tools, for offers to pages."""

    settings: RemoteSettings
    tools: Tools
    server: RemoteServer


class _Remote:
    """One configured server, and what it offers under public names."""

    def __init__(self, settings: RemoteSettings, watched: Watched) -> None:
        self.settings = settings
        self.watched = watched
        self.origin = origin_of(settings.name)
        self.server = RemoteServer(make_options(settings, RemoteHeaders(settings)))
        self.scope = trio.CancelScope()
        self.tools: dict[str, RemoteTool] = {}
        self.prompts: dict[str, RemotePrompt] = {}
        self.resources: list[OwnResource] = []
        self.templates: list[OwnResource] = []
        self.resource_version = 0
        """Changes with `resources` and `templates`."""
        self.is_settled = False
        self._made_of: tuple[RemoteLists, int] | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether its lists are current."""
        return self.server.state.state == "ready"

    def may_have(self, name: str) -> bool:
        """Return whether a tool, prompt or URI template may be one of the server."""
        server = self.settings.name
        parsed = parse_uri(name)
        return name.startswith((tool_prefix(server), prompt_prefix(server))) or (
            parsed is not None and parsed[0] == server
        )

    def update(self, max_name: int) -> bool:
        """Make the entries for clients; return whether the server's lists have changed."""
        made_of = self.server.lists, max_name
        if self._made_of is not None and self._made_of[0] is made_of[0] and self._made_of[1] == max_name:
            return False
        if made_of == self._made_of:  # a sync replaces the lists also where nothing has changed
            self._made_of = made_of
            return False
        self._made_of, lists = made_of, made_of[0]
        form = EntryForm(self.settings.name, is_mcpb=self.server.state.server_name == OWN_NAME)
        self.tools = make_tools(self.settings, form, lists.tools, max_name, self.tools)
        self.prompts = make_prompts(form, lists.prompts, max_name)
        resources = make_resources(form, "uri", lists.resources)
        templates = make_resources(form, "uriTemplate", lists.templates)
        if (resources, templates) != (self.resources, self.templates):
            self.resources, self.templates = resources, templates
            self.resource_version += 1
        return True

    def on_updated(self, own_uri: str) -> None:
        """Notify those who watch a resource, or one that it is a part of."""
        for watched, callbacks in self.watched.items():
            if own_uri == watched or own_uri.startswith(f"{watched.rstrip('/')}/"):
                for notify in list(callbacks):
                    notify()


class _ToolNames:
    """Names that may be those of a remote tool: its server decides."""

    def __init__(self, remotes: Mapping[str, _Remote]) -> None:
        self._remotes = remotes

    def __contains__(self, name: object) -> bool:
        # Each call of a page's tool passes here.
        return isinstance(name, str) and name.startswith(PREFIX) and name.split("_", 2)[1] in self._remotes


class RemoteProvider(NoProvider):
    """See `Provider`. `run_forever` connects the servers."""

    def __init__(self, services: HubServices, *, list_s: float = LIST_S) -> None:
        """Offer what the servers of `set_servers` have. Lists wait `list_s` for them after the start."""
        self._services = services
        self._list_s = list_s
        self._results = ResultCheck(services.policy)
        self._remotes: dict[str, _Remote] = {}
        """By name of the server."""
        self._watched: dict[str, Watched] = {}
        """By name of the server, whose settings may change."""
        self._began = -math.inf
        self._version = 0
        self._nursery: trio.Nursery | None = None
        self.names = _ToolNames(self._remotes)

    # ── Servers ─────────────────────────────────────────────────────────────────────────────────────────────

    def set_servers(self, settings: Sequence[RemoteSettings]) -> None:
        """Connect these servers instead of the present ones; those with the same settings stay connected."""
        wanted = {each.name: each for each in settings if each.enabled}
        for name, remote in list(self._remotes.items()):
            if wanted.get(name) != remote.settings:
                remote.scope.cancel()
                del self._remotes[name]
        for name, each in wanted.items():
            if name not in self._remotes:
                self._began = trio.current_time()
                remote = _Remote(each, self._watched.setdefault(name, {}))
                self._remotes[name] = remote
                if self._nursery:
                    self._start(remote)
        self._note_change()

    def servers(self) -> list[ServedRemote]:
        """Return the state of each server."""
        return [
            ServedRemote(remote.settings.name, remote.server.state, remote.server.lists)
            for remote in self._remotes.values()
        ]

    def offering_servers(self) -> list[OfferingServer]:
        """Return the servers with their present tools."""
        self._use_max_name()
        return [OfferingServer(it.settings, it.tools, it.server) for it in self._remotes.values()]

    async def run_forever(self) -> None:
        """Connect the servers, and connect them again. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                for remote in self._remotes.values():
                    self._start(remote)
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def _start(self, remote: _Remote) -> None:
        server, services, origin = remote.server, self._services, remote.origin
        server.on_change = partial(self._on_change, remote)
        server.on_updated = remote.on_updated
        server.on_log = lambda params: services.page_log.handle_server_message(
            origin, msgspec.json.encode(params), trio.current_time()
        )
        server.on_elicited = partial(
            services.page_requests.handle_completion, document_of(server.options.name)
        )
        if remote.settings.url and services.is_own_address(remote.settings.url):
            detail = "its address is that of your own mcpb serve"
            server.state = RemoteState(state="failed", last_error=detail, cause=Cause.SELF)
            remote.is_settled = True
            return
        assert self._nursery, "servers are started while `run_forever` runs"
        self._nursery.start_soon(self._run_server, remote)

    async def _run_server(self, remote: _Remote) -> None:
        with remote.scope:
            async with trio.open_nursery() as nursery:
                running = trio.CancelScope(shield=True)  # until the server was left in order
                nursery.start_soon(self._run_shielded, remote, running)
                nursery.start_soon(self._note_settled, remote)
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.move_on_after(_CLOSE_S, shield=True):
                        await remote.server.dispose()
                    running.cancel()

    async def _run_shielded(self, remote: _Remote, scope: trio.CancelScope) -> None:
        try:
            with scope:
                for own_uri in list(remote.watched):  # of the server as it was configured before
                    with suppress(CallError):
                        await remote.server.subscribe(own_uri)
                await remote.server.run()
        except Exception:  # noqa: BLE001  (other servers, and pages, go on)
            _log.exception("remote server %s: its connection failed", remote.settings.name)
        finally:
            remote.is_settled = True
            self._services.changes.notify()

    async def _note_settled(self, remote: _Remote) -> None:
        await remote.server.wait_settled()
        remote.is_settled = True
        self._services.changes.notify()

    def _on_change(self, remote: _Remote) -> None:
        if remote.update(self._services.max_name()):
            self._note_change()
        else:
            self._services.changes.notify()

    def _note_change(self) -> None:
        self._version += 1
        self._services.changes.notify()

    async def wait_listed(self, name: str = "") -> None:
        """See `Provider`: until each server was connected once, or LIST_S after the start."""
        awaited = [remote for remote in self._remotes.values() if not name or remote.may_have(name)]
        await self._services.changes.wait_until(
            lambda: all(remote.is_settled for remote in awaited), until=self._began + self._list_s
        )

    async def _wait_ready(self, remote: _Remote) -> None:
        """Wait for the first connection. Raises a CallError if the server is not connected."""
        until = self._began + CONNECT_S
        await self._services.changes.wait_until(lambda: remote.is_settled, until=until)
        if not remote.is_ready:
            state = remote.server.state
            reason = state.last_error or "it has not answered yet"
            raise remote.server.make_error(RemoteProblem(state.cause or Cause.CLOSED, reason))

    # ── Tools ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> object:  # type: ignore[override]  # a changing value
        """See `Provider`."""
        return self._version, self._services.policy.version, self._use_max_name()

    def _use_max_name(self) -> int:
        max_name = self._services.max_name()
        if any([remote.update(max_name) for remote in self._remotes.values()]):  # noqa: C419  (each is updated)
            self._version += 1
        return max_name

    def definitions(self, era: Era, form: ListForm) -> list[ToolDefinition]:  # noqa: ARG002
        """See `Provider`. Tools that the policy forbids are left out."""
        return [
            msgspec.Raw(tool.definition)
            for remote in self._remotes.values()
            for tool in remote.tools.values()
            if tool.tool.is_for(era) and not self._refusal(tool)
        ]

    def _refusal(self, tool: RemoteTool) -> str:
        """Return the rule that forbids a tool. Rules about sites are not about servers."""
        return self._services.policy.provided_refusal(
            tool.own_name, None, is_read_only=tool.tool.is_read_only
        )

    async def run(self, record: CallRecord, observer: CallObserver) -> Answer:
        """See `Provider`."""
        remote, tool = await self._find_tool(record.name)
        record.site, record.own_name = Site(origin=remote.origin), tool.own_name
        check = partial(self._check_tool, remote, record.name)
        check()
        params = {"name": tool.own_name, "arguments": record.arguments.value}
        try:
            result = await self._request(remote, record.session, "tools/call", params, observer, check)
        except RemoteReportedError as error:
            text = f"{_server_of(remote)}: {error.detail or 'its server reported an error without a text'}"
            return Answer(make_failure_result(text), is_error=True, origin=remote.origin)
        answer = read_call_result(msgspec.json.encode(result))
        mismatch = tool.tool.has_output_schema and self._results.find_mismatch(
            remote.origin, tool.tool, answer
        )
        if answer.links:
            record.session.linked.add(answer.links, remote.origin)
        return msgspec.structs.replace(answer, origin=remote.origin, is_mismatch=bool(mismatch))

    def _check_tool(self, remote: _Remote, name: str) -> None:
        """Raise a CallError if the tool is gone, or the policy forbids it."""
        tool = remote.tools.get(name)
        if tool is None:
            raise CallError(Code.NO_LONGER_OFFERED, name, handed=False)
        if refusal := self._refusal(tool):
            raise CallError(Code.NOT_ALLOWED, refusal, handed=False)

    async def _find_tool(self, name: str) -> tuple[_Remote, RemoteTool]:
        if found := self._known_tool(name):
            return found
        remote = self._remotes.get(name.split("_", 2)[1])
        if remote is None:
            raise UnknownToolError(name)
        await self._wait_ready(remote)
        if found := self._known_tool(name):
            return found
        raise UnknownToolError(name, origins.format_origin(remote.origin))

    def _known_tool(self, name: str) -> tuple[_Remote, RemoteTool] | None:
        for remote in self._remotes.values():
            if tool := remote.tools.get(name):
                return remote, tool
        return None

    async def _request(
        self,
        remote: _Remote,
        session: Session,
        method: str,
        params: dict[str, Any],
        observer: CallObserver,
        check: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Send a request for a session.

        When it is sent, `check` and pauses are checked: it may have waited for others. Raises as
        `RemoteServer.request` and `check`, or if the client is paused.
        """
        log = self._services.page_log
        is_rejected = False

        def check_turn() -> None:
            nonlocal is_rejected
            is_rejected = True
            self._services.registry.pauses.check(session)
            if check:
                check()
            is_rejected = False

        reading = log.follow_server(session, remote.origin, observer.log)
        try:
            watching = self._observe(remote, session, observer, check_turn)
            if observer.hops:
                params = {**params, "_meta": {HOPS: observer.hops}}
            return await remote.server.request(method, params, watching)
        except (RemoteCallError, RemoteReportedError):
            raise
        except CallError as error:
            raise (error if is_rejected else _needs_answer(remote, error)) from None
        finally:
            reading.cancel()

    def _observe(
        self, remote: _Remote, session: Session, observer: CallObserver, before_send: Callable[[], None]
    ) -> RemoteObserver:
        log = self._services.page_log
        requests = CallRequests(
            self._services.page_requests, observer, session, document_of(remote.settings.name)
        )

        def on_log(params: dict[str, Any]) -> None:
            now = trio.current_time()
            log.handle_server_message(remote.origin, msgspec.json.encode(params), now, session)

        return RemoteObserver(
            on_progress=partial(_report_progress, observer) if observer.on_progress else None,
            on_request=requests.answer,
            on_log=on_log,
            log_level=log.least_level(session, observer.log) or "",
            before_send=before_send,
            caller=session.id,
        )

    # ── Resources ───────────────────────────────────────────────────────────────────────────────────────────

    def resources(self, session: Session) -> Iterator[OwnResource]:  # noqa: ARG002
        """See `Provider`."""
        for remote in self._remotes.values():
            yield from remote.resources

    def templates(self) -> Iterator[OwnResource]:
        """See `Provider`."""
        for remote in self._remotes.values():
            yield from remote.templates

    def defines(self, session: Session, uri: str) -> bool:
        """See `Provider`."""
        return self._find_target(session, uri) is not None

    def _find_target(self, session: Session, uri: str) -> tuple[_Remote, RemoteTarget] | None:
        """Return the resource of a URI: a public one, or one that a result of a server has linked to."""
        if parsed := parse_uri(uri):
            remote = self._remotes.get(parsed[0])
            return (remote, RemoteTarget(parsed[0], parsed[1], uri)) if remote else None
        linked = session.linked.origins_of(uri)
        if not all(origin.startswith(origins.REMOTE) for origin in linked):
            return None  # a page has linked to it, too: a server must not take its place
        for origin in reversed(linked):
            if remote := self._remotes.get(origin.removeprefix(origins.REMOTE)):
                return remote, RemoteTarget(remote.settings.name, uri, uri)
        return None

    async def read(self, record: CallRecord, uri: str, observer: CallObserver) -> bytes:
        """See `Provider`."""
        remote, target = await self._admit(record, uri)
        record.own_name = target.own_uri
        params = {"uri": target.own_uri}
        result = await self._ask(remote, record.session, "resources/read", params, observer)
        return read_contents(msgspec.json.encode(result), target, self._services.max_resource_bytes())

    async def _admit(self, record: CallRecord, uri: str) -> tuple[_Remote, RemoteTarget]:
        found = self._find_target(record.session, uri)
        if found is None or not is_uri(found[1].own_uri):
            raise NotOfferedError(uri)
        record.site = Site(origin=found[0].origin)
        await self._wait_ready(found[0])
        return found

    async def _ask(
        self, remote: _Remote, session: Session, method: str, params: dict[str, Any], observer: CallObserver
    ) -> dict[str, Any]:
        try:
            return await self._request(remote, session, method, params, observer)
        except RemoteReportedError as error:
            raise _server_error(remote, error) from None

    async def admit_watch(self, record: CallRecord, uri: str, observer: CallObserver) -> None:  # noqa: ARG002
        """See `Provider`."""
        await self._admit(record, uri)

    def watch(self, session: Session, uri: str, tell: Callable[[], None]) -> OwnWatch:
        """See `Provider`."""
        found = self._find_target(session, uri)
        if found is None or self._nursery is None:
            return OwnWatch(lambda: None, partial(_reject_watch, uri))
        remote, target = found
        watch = _Watch(self._remotes, remote, target.own_uri, tell)
        self._nursery.start_soon(watch.run)
        return OwnWatch(watch.cancel, watch.wait_active)

    # ── Prompts ─────────────────────────────────────────────────────────────────────────────────────────────

    def prompts(self) -> dict[str, bytes]:
        """See `Provider`."""
        return {
            name: prompt.definition
            for remote in self._remotes.values()
            for name, prompt in remote.prompts.items()
        }

    async def get_prompt(
        self,
        record: CallRecord,
        arguments: Mapping[str, str],
        observer: CallObserver,
        read: ReadResource,  # noqa: ARG002
    ) -> bytes:
        """See `Provider`."""
        from bridge.hub.primitives.prompt_messages import read_messages  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        remote, prompt = self._find_prompt(record)
        if missing := prompt.missing_arguments(arguments):
            argument = quote(missing[0], MAX_TITLE_CHARS)
            detail = f"the prompt of {_server_of(remote)} needs the argument {argument}"
            raise CallError(Code.INVALID_PARAMS, detail, handed=False)
        check_argument_size(arguments)
        params = {"name": prompt.name, "arguments": dict(arguments)}
        result = await self._ask(remote, record.session, "prompts/get", params, observer)
        source, max_bytes = source_of(remote.settings.name), self._services.max_resource_bytes()
        return read_messages(msgspec.json.encode(result), source, max_bytes)

    def _find_prompt(self, record: CallRecord) -> tuple[_Remote, PagePrompt]:
        for remote in self._remotes.values():
            if found := remote.prompts.get(record.name):
                record.site, record.own_name = Site(origin=remote.origin), found.prompt.name
                return remote, found.prompt
        raise NotOfferedError(record.name)

    async def complete(
        self, record: CallRecord, what: Primitive, asked: msgspec.Raw, observer: CallObserver
    ) -> bytes:
        """See `Provider`. There are no values where the server completes nothing."""
        from bridge.hub.primitives.completion import Completion, encode_completion, read_completion  # noqa: PLC0415  (docs/DEVELOPMENT.md, "Cold start")

        if what == "prompts":
            remote, prompt = self._find_prompt(record)
            ref = {"type": "ref/prompt", "name": prompt.name}
        else:
            remote, target = await self._admit_template(record)
            ref = {"type": "ref/resource", "uri": target}
        if "completions" not in remote.server.state.capabilities:
            return encode_completion(Completion([]))
        params = {"ref": ref, **msgspec.json.decode(asked, type=dict[str, Any])}
        result = await self._ask(remote, record.session, "completion/complete", params, observer)
        return read_completion(msgspec.json.encode(result))

    async def _admit_template(self, record: CallRecord) -> tuple[_Remote, str]:
        found = self._find_target(record.session, record.name)
        if found is None:
            raise NotOfferedError(record.name)
        record.site, record.own_name = Site(origin=found[0].origin), found[1].own_uri
        return found[0], found[1].own_uri

    # ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────

    def fingerprint(self, session: Session) -> object:  # noqa: ARG002
        """See `Provider`."""
        return [(name, remote.resource_version) for name, remote in self._remotes.items()]


class _Watch:
    """Watch of a resource: the first of a server subscribes, the last ends the subscription."""

    def __init__(
        self, remotes: Mapping[str, _Remote], remote: _Remote, own_uri: str, tell: Callable[[], None]
    ) -> None:
        self._remotes = remotes
        self._name = remote.settings.name
        self._watched = remote.watched
        self._own_uri = own_uri
        self._tell = tell
        self._scope = trio.CancelScope()
        self._active = trio.Event()
        self._problem: CallError | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        watched = self._watched
        try:
            with self._scope:
                await trio.lowlevel.checkpoint()
                is_first = self._own_uri not in watched
                watched.setdefault(self._own_uri, {})[self.notify] = None
                if is_first and (server := self._find_subscribable()):
                    await server.subscribe(self._own_uri)
                self._active.set()
                await trio.sleep_forever()
        except CallError as error:
            self._problem = error
        finally:
            self._active.set()
            callbacks = watched.get(self._own_uri, {})
            callbacks.pop(self.notify, None)
            is_last = not callbacks and watched.pop(self._own_uri, None) is not None
            if is_last and not self._problem and (server := self._find_subscribable()):
                with trio.move_on_after(_UNSUBSCRIBE_S, shield=True):
                    await server.unsubscribe(self._own_uri)

    def _find_subscribable(self) -> RemoteServer | None:
        """Return the server, if it takes subscriptions. Others may report changes all the same."""
        remote = self._remotes.get(self._name)
        resources = remote.server.state.capabilities.get("resources") if remote else None
        is_so = isinstance(resources, Mapping) and resources.get("subscribe") is True
        return remote.server if remote and is_so else None

    def notify(self) -> None:
        """Report a change."""
        self._tell()

    def cancel(self) -> None:
        """End the watch."""
        self._scope.cancel()

    async def wait_active(self) -> None:
        """Wait until changes are reported. Raises a CallError if the server has rejected it."""
        await self._active.wait()
        if self._problem:
            raise self._problem


async def _reject_watch(uri: str) -> NoReturn:
    raise NotOfferedError(uri)


def _report_progress(
    observer: CallObserver, progress: float, total: float | None, message: str | None
) -> None:
    if observer.on_progress:
        words = single_line(message or "", _MAX_SAID)
        observer.on_progress(wire.Progress(progress=progress, total=total, message=words))


def _server_of(remote: _Remote) -> str:
    return origins.format_origin(remote.origin)


def _needs_answer(remote: _Remote, error: CallError) -> CallError:
    """Return the error of a call for which a request of the server was rejected."""
    what = f"{_server_of(remote).capitalize()} asked for something that it did not get"
    return CallError(error.code, error.detail, handed=True, what=what, logged=error.audit_detail)


def _server_error(remote: _Remote, error: RemoteReportedError) -> PageServerError:
    is_unknown = error.code in (Code.INVALID_PARAMS, _UNKNOWN_URI)
    code = Code.INVALID_PARAMS if is_unknown else Code.INTERNAL_ERROR
    said = error.detail or "it reported an error without a text"
    return PageServerError(code, f"{_server_of(remote)}: {said}", handed=True)
