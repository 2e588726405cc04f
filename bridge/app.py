"""The composition root: builds the parts, opens the top nursery, and ends it."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from bridge.browser_tools.provider import BrowserTools
from bridge.config.loader import ConfigError, read_config, rules_digest
from bridge.config.reload import ConfigReload
from bridge.config.settings import ChannelSettings, Config
from bridge.frontends import stdio
from bridge.hub.audit_records import AuditSink, FinishedCall, Record, to_each
from bridge.hub.client_session import Session, ToolSet
from bridge.hub.policy import Policy
from bridge.hub.public_names import MAX_NAME, longest_name
from bridge.hub.router import Router, Terms
from bridge.hub.rules.site_rules import SiteRules
from bridge.links.browsers.composite_transport import CompositeTransport
from bridge.links.browsers.native_hosts import NativeLinks
from bridge.links.browsers.proxied_links import VARIABLES, ProxiedLinks
from bridge.links.browsers.session_publisher import SessionPublisher
from bridge.mcp_session.mcp_server import McpServer
from bridge.state import log_file, pause_sync
from bridge.state.approval_publisher import ApprovalPublisher
from bridge.state.audit_log import AuditLog
from bridge.state.pauses_file import PausesFile
from bridge.state.profiles_file import ProfilesFile, ProfileSync
from bridge.state.server_record import ServeRecord, find_own_server, publish_record
from bridge.state.site_approvals import Approvals, ApprovalsError, ApprovalsOf
from bridge.state.tool_cache import SqliteToolStore
from native_host.ipc import endpoint
from native_host.protocol import wire
from native_host.protocol.rate_limit import RateLimiter
from native_host.system import malloc
from native_host.system.home_layout import HomeLayout, mcpb_home
from native_host.system.private_files import PrivateFileError

if TYPE_CHECKING:
    from bridge.config.remote_settings import RemoteSettings
    from bridge.diagnostics.connection_problem import ConnectionDiagnosis
    from bridge.links.browsers.holder_processes import HolderProcesses
    from bridge.links.remote_provider import RemoteProvider
    from bridge.links.tool_offers import ToolOffers
    from native_host.existing_channel.published_socket import Publication

_QUIET_S = 3.0
_RELEASE_S = 0.5
"""Seconds for browsers to release the tabs of an ended session."""
_CLOSE_S = 5.0
"""Seconds for them to close the tabs of a command: its user waits, and may look at the browser next."""

_PUBLISH_S = 1.0
"""Seconds between two records of remote servers."""
_PROXY_LIST_S = 5.0
"""Seconds for browsers at proxies to be connected in a command."""
_COMMAND_LIST_S = 10.0
"""Seconds for remote servers to be connected in a command: it does not see what they list later."""

T = TypeVar("T")
TellHosts = Callable[[list[wire.Session]], None]

_log = logging.getLogger(__name__)


class Hub(msgspec.Struct):
    """A running hub and its links."""

    router: Router
    links: CompositeTransport
    pauses: pause_sync.PauseSync
    site_rules: SiteRules
    publisher: SessionPublisher
    remotes: RemoteServers
    proxied: ProxiedLinks
    set_config: Callable[[Config], None]

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        """Tell every host which sessions are behind this bridge, and what their site rules are."""
        self.site_rules.set_sessions(session.id for session in sessions)
        self.publisher.set_sessions(sessions)


class RemoteServers:
    """The remote servers of the configuration. Nothing is imported for them before there is one."""

    def __init__(self, router: Router, policy: Policy, nursery: trio.Nursery, list_s: float | None) -> None:
        """Let lists wait `list_s` seconds after the start; None: the usual time."""
        self.provider: RemoteProvider | None = None
        self.settings: Sequence[RemoteSettings] = ()
        self._router = router
        self.policy = policy
        self._nursery = nursery
        self._list_s = list_s

    def set_servers(self, settings: Sequence[RemoteSettings]) -> None:
        """Connect these servers instead of the present ones."""
        self.settings = settings
        if self.provider is None and any(each.enabled for each in settings):
            self.provider = self._make_provider()
            self._router.add_provider(self.provider)
            self._nursery.start_soon(self.provider.run_forever)
        if self.provider:
            self.provider.set_servers(settings)

    def _make_provider(self) -> RemoteProvider:
        from bridge.links.remote_provider import LIST_S, HubServices, RemoteProvider  # noqa: PLC0415

        router = self._router
        services = HubServices(
            router.changes,
            router.registry,
            self.policy,
            router.page_requests,
            router.page_log,
            max_name=lambda: router.prompt_catalog.max_name,
            max_resource_bytes=lambda: router.max_resource_bytes,
            is_own_address=lambda url: find_own_server(_state_directory(), url) is not None,
        )
        return RemoteProvider(services, list_s=LIST_S if self._list_s is None else self._list_s)


@asynccontextmanager
async def open_hub(
    config: Config, keep: AuditSink = lambda _: None, *, list_s: float | None = None
) -> AsyncIterator[Hub]:
    """Run a hub that is connected to the user's native hosts and remote servers, for the time of the block.

    Lists wait `list_s` seconds after the start for remote servers; None: the usual time.
    """
    holders = _channel_holders(config.existing_channel)
    native = NativeLinks(endpoint.candidates(), holders)
    links = CompositeTransport(native)
    proxied = ProxiedLinks(links, native, mcpb_home(), os.environ)
    terms = _make_terms(config)
    diagnosis = cache(partial(_connection_diagnosis, links, config.existing_channel, holders))
    approvals = Approvals(_state_directory())
    profiles = ProfileSync(ProfilesFile(_state_directory()))

    def rules_of(session_id: str) -> wire.SessionRules:
        return _site_rules_of(terms.policy, tools.allowed_sites(session_id), session_id)

    site_rules = SiteRules(links, rules_of)
    with closing(SqliteToolStore(_state_directory(), cached_days=config.cached_days)) as store:
        router = Router(
            links,
            lambda registry: diagnosis().find_problem(registry),
            terms=terms,
            store=store,
            keep=keep,
            approvals=partial(ApprovalsOf, approvals),
            profiles=profiles.marks,
        )
        tools = _browser_tools(config, router, links, terms.policy, approvals, site_rules.refresh)
        pauses = pause_sync.PauseSync(router.registry, links, router.changes, PausesFile(_state_directory()))
        publisher = SessionPublisher(router.subscriptions, router.changes, links.set_sessions)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(router.run)
            nursery.start_soon(native.run)
            nursery.start_soon(proxied.run)
            nursery.start_soon(tools.run_forever)
            nursery.start_soon(profiles.run, router.registry, router.changes)
            nursery.start_soon(publisher.run)
            remotes = RemoteServers(router, terms.policy, nursery, list_s)
            remotes.set_servers(config.remote)
            set_config = partial(_set_config, router, terms, tools, site_rules, remotes)
            yield Hub(router, links, pauses, site_rules, publisher, remotes, proxied, set_config)
            nursery.cancel_scope.cancel()


def _site_rules_of(policy: Policy, allowed: list[str] | None, session_id: str) -> wire.SessionRules:
    allow: list[str] | msgspec.UnsetType = list(policy.allowed_patterns) or msgspec.UNSET
    if allowed is not None:
        allow = [site for site in allowed if not policy.origin_refusal(site)]
    return wire.SessionRules(session=session_id, deny=list(policy.denied_patterns), allow=allow)


def _channel_holders(settings: ChannelSettings) -> HolderProcesses | None:
    if not settings.attach:
        return None
    # Only this branch needs the scan of the existing channel's sockets.
    from bridge.links.browsers.holder_processes import HolderProcesses  # noqa: PLC0415

    return HolderProcesses(settings.only_directory)


def _set_config(
    router: Router,
    terms: Terms,
    tools: BrowserTools,
    site_rules: SiteRules,
    remotes: RemoteServers,
    config: Config,
) -> None:
    remotes.set_servers(config.remote)
    terms.policy.set_rules(config.policy)
    terms.rate_limiter.per_minute = config.calls_per_minute
    tools.set_settings(config.browser)
    site_rules.refresh()
    router.request_consent.settings = config.pages
    router.consent.setting_for(config.pages, asks_sites=config.browser.sites == "ask")
    changed = msgspec.structs.replace(
        terms,
        call_s=config.call_timeout_s,
        max_listed=config.max_listed_tools,
        max_resource_bytes=config.max_resource_bytes,
        ask_in=config.browser.ask_in,
        ranks_roots=config.browser.roots != "files",
        closing=config.browser.closing,
    )
    router.set_terms(changed)


def _browser_tools(
    config: Config,
    router: Router,
    links: CompositeTransport,
    policy: Policy,
    approvals: Approvals,
    sites_changed: Callable[[], None],
) -> BrowserTools:
    tools = BrowserTools(router, links, policy, config.browser, mcpb_home(), approvals, sites_changed)
    router.set_provider(tools)
    return tools


def load_configuration(*, existing_channel: bool = False) -> Config:
    """Read the configuration; `existing_channel` uses that channel whatever the file says.

    Raises:
        SystemExit: the file is unusable. Without its rules no tool may be called.
    """
    try:
        config = read_config(mcpb_home())
    except ConfigError as error:
        raise SystemExit(f"mcpb: {error}") from None
    _check_proxy_variables()
    channel = config.existing_channel
    attached = msgspec.structs.replace(channel, attach=channel.attach or existing_channel)
    return msgspec.structs.replace(config, existing_channel=attached)


def _check_proxy_variables() -> None:
    if not any(os.environ.get(name) for name in VARIABLES):
        return
    # Only these variables need the modules.
    from bridge.links.browsers.proxy_address import ProxyAddressError  # noqa: PLC0415
    from bridge.links.browsers.proxy_credentials import ProxyCredentials  # noqa: PLC0415

    try:
        ProxyCredentials(mcpb_home(), os.environ)
    except ProxyAddressError as error:
        raise SystemExit(f"mcpb: WebSocket proxy: {error}") from None


def load_for_reading() -> tuple[Config, str]:
    """Return the configuration for commands that change nothing, and the error of the file."""
    try:
        return read_config(mcpb_home()), ""
    except ConfigError as error:
        return Config(), str(error)


def _make_terms(config: Config) -> Terms:
    return Terms(
        call_s=config.call_timeout_s,
        max_name=MAX_NAME if config.max_name == "auto" else config.max_name,
        max_listed=config.max_listed_tools,
        max_resource_bytes=config.max_resource_bytes,
        policy=Policy(config.policy),
        pages=config.pages,
        asks_sites=config.browser.sites == "ask",
        rate_limiter=RateLimiter(config.calls_per_minute),
        ask_in=config.browser.ask_in,
        ranks_roots=config.browser.roots != "files",
        closing=config.browser.closing,
    )


def _open_audit_log(config: Config) -> AuditLog:
    return AuditLog(_state_directory(), with_arguments=config.audit_arguments)


def _state_directory() -> Path:
    return HomeLayout(mcpb_home()).state.path


def serve_stdio(
    *,
    existing_channel: bool = False,
    is_structured: bool = False,
    tool_set: ToolSet | None = None,
    server_name: str = "",
    transport: str = "",
) -> None:
    """`mcpb bridge`: speak MCP with one client until it goes, or a signal says so.

    `server_name` is the client's name for this server, which it puts before the names of tools. `transport`
    is MODULE:NAME of the transport to use in place of stdin and stdout.
    """
    log_file.configure_logging(_state_directory())
    try:
        config = load_configuration(existing_channel=existing_channel)
    except SystemExit as refusal:
        _log.error("%s", refusal)  # clients show no stderr; the log file stays
        raise SystemExit(1) from None
    session = msgspec.structs.replace(new_session(), is_structured=is_structured, tool_set=tool_set)
    if transport:
        _serve_custom_transport(config, session, server_name, transport)
    else:
        trio.run(_serve_one_client, config, session, server_name, stdio.serve_stdio)


def _serve_custom_transport(config: Config, session: Session, server_name: str, spec: str) -> None:
    # Only this option needs the module.
    from bridge.frontends.custom_transport import TransportError, load_transport, serve_transport  # noqa: PLC0415

    try:
        make_transport = load_transport(spec)
    except TransportError as error:
        _log.error("%s", error)
        raise SystemExit(1) from None
    try:
        speak = partial(serve_transport, spec, make_transport)
        trio.run(_serve_one_client, config, session, server_name, speak)
    except* TransportError:
        pass  # the log has it; an exception that is raised here would leave as an ExceptionGroup
    else:
        return
    raise SystemExit(1)


async def _serve_one_client(
    config: Config, session: Session, server_name: str, speak: Callable[[McpServer], Awaitable[None]]
) -> None:
    async with _open_hub_of_one(config) as (hub, speaking):
        with speaking:
            known = partial(_shorten_names, hub, config, session, server_name)
            await speak_mcp(hub, session, speak, known)


@asynccontextmanager
async def _open_hub_of_one(
    config: Config, adapt: Callable[[Config], Config] = lambda config: config
) -> AsyncIterator[tuple[Hub, trio.CancelScope]]:
    """Run the hub of a process with one session, and yield it with the scope that signals cancel.

    `adapt` changes the configuration, also one that was read again.
    """
    malloc.disable_malloc_trim()
    with closing(_open_audit_log(config)) as audit:
        speaking = trio.CancelScope()
        async with trio.open_nursery() as top:
            top.start_soon(_give_memory_back)
            await top.start(_end_on_signal, speaking)
            async with open_hub(adapt(config), audit.write_record) as hub:
                top.start_soon(hub.pauses.run)
                top.start_soon(_watch_configuration(hub, audit, config, adapt).run)
                top.start_soon(_publish_approvals, hub)
                top.start_soon(_serve_remotes, hub)
                yield hub, speaking
            top.cancel_scope.cancel()


def hold_session(name: str, on_ready: Callable[[], None], *, existing_channel: bool = False) -> None:
    """Hold the named session of `mcpb call --session` until it ends; `on_ready`: it accepts calls.

    It continues the session of a process that holds one of this name, unless that is in use and goes on.

    Raises:
        SystemExit: the configuration is unusable.
        PrivateFileError: no directory can be used for its socket.
        SessionError: the process that holds the session does not end.
    """
    # Only this process needs the module.
    from native_host.ipc.named_sessions import SessionError  # noqa: PLC0415

    # The error that ends this process is on stderr anyway, and the command that started it shows that.
    log_file.configure_logging(_state_directory(), hidden=(__name__,))
    config = load_configuration(existing_channel=existing_channel)
    session = msgspec.structs.replace(new_session("call"), title=f"mcpb session {name}", is_structured=True)
    os.chdir("/")  # the directory of the first call may be removed while the session lasts

    async def hold() -> SessionError | PrivateFileError | None:
        # The hub first: a session must not be lost because this process cannot go on.
        async with _open_hub_of_one(config, _list_all_tools) as (hub, serving):
            try:
                await _hold_session(name, hub, serving, session, on_ready)
            except (SessionError, PrivateFileError) as error:
                return error  # raised here, it would leave as an ExceptionGroup
        return None

    try:
        problem = trio.run(hold)
    except Exception:
        _log.exception("session %s ended", name)
        raise
    if problem:
        raise problem


async def _hold_session(
    name: str, hub: Hub, serving: trio.CancelScope, session: Session, on_ready: Callable[[], None]
) -> None:
    # Only this process needs the modules.
    from bridge.frontends.named_session import NamedSession, open_socket  # noqa: PLC0415
    from native_host.ipc.named_sessions import HolderInUseError, retire_holder  # noqa: PLC0415

    try:
        continued = await trio.to_thread.run_sync(retire_holder, name)
    except HolderInUseError:
        on_ready()
        return
    if continued:
        session = msgspec.structs.replace(
            session, id=continued.id, profiles=set(continued.profiles), folder=continued.directory
        )
    with open_socket(name) as opened:
        hub.set_sessions([session.on_wire()])
        held = NamedSession(name, session, hub.router, opened)
        try:
            with serving:
                on_ready()
                await held.serve()
        finally:
            if not held.is_continued:
                with trio.move_on_after(_RELEASE_S, shield=True):
                    await hub.router.release(session)


def _watch_configuration(
    hub: Hub, audit: AuditLog, config: Config, adapt: Callable[[Config], Config]
) -> ConfigReload:
    """Return what keeps a running process at the rules of config.toml."""

    def apply_configuration(changed: Config) -> None:
        hub.links.set_rules(rules_digest(changed))
        audit.set_with_arguments(with_arguments=changed.audit_arguments)
        hub.set_config(adapt(changed))

    hub.links.set_rules(rules_digest(config))
    return ConfigReload(mcpb_home(), config, apply_configuration)


def _list_all_tools(config: Config) -> Config:
    """Return the configuration for commands, whose lists no model pays for."""
    return msgspec.structs.replace(config, max_listed_tools=0)


def _with_http_limits(config: Config) -> Config:
    """Return the configuration with the settings of HTTP clients instead of stdio clients."""
    browser = config.browser
    if config.http.close_tabs:
        browser = msgspec.structs.replace(browser, close_tabs="always")
    return msgspec.structs.replace(config, calls_per_minute=config.http.calls_per_minute, browser=browser)


def _shorten_names(hub: Hub, config: Config, session: Session, server_name: str) -> None:
    if config.max_name == "auto":
        hub.router.set_max_name(longest_name(session.client.name, server_name))


async def speak_mcp(
    hub: Hub,
    session: Session,
    speak: Callable[[McpServer], Awaitable[None]],
    on_known: Callable[[], None] = lambda: None,
) -> None:
    """One MCP session, from `speak`'s beginning to its end, however that comes.

    `on_known` is called once the client has said what it is.
    """
    where = f"in {Path(session.folder).name or '/'}"

    def on_identified() -> None:
        on_known()
        hub.set_sessions([session.on_wire()])

    server = McpServer(hub.router, session, on_identified, where=where)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hub.router.notify_changes, server.tell_list_changed, session)
            await speak(server)
            nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(_RELEASE_S, shield=True):
            await hub.router.release(session)


async def _serve_remotes(hub: Hub) -> None:
    """Offer tools of remote servers to pages, and publish their state, once there is a server."""
    while not (provider := hub.remotes.provider):
        await hub.router.changes.wait()
    offers = _make_offers(hub, provider)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(offers.run)
        nursery.start_soon(_publish_remotes, hub, provider, offers)


def _make_offers(hub: Hub, provider: RemoteProvider) -> ToolOffers:
    # A bridge without remote servers never imports this module.
    from bridge.links.tool_offers import OfferServices, ToolOffers  # noqa: PLC0415

    router, approvals = hub.router, Approvals(_state_directory())

    def read_granted() -> frozenset[tuple[str, str]]:
        try:
            return approvals.read_offerings()
        except ApprovalsError:
            return frozenset()  # `mcpb doctor` and the status page report it

    services = OfferServices(
        router.changes,
        router.registry,
        hub.remotes.policy,
        hub.links,
        provider,
        read_granted,
        router.run_for_page,
    )
    return ToolOffers(services)


async def _publish_remotes(hub: Hub, provider: RemoteProvider, offers: ToolOffers) -> None:
    """Publish the state of remote servers for `mcpb status`. Runs until cancelled."""
    # A bridge without remote servers never imports these modules.
    from bridge.diagnostics.remote_status import make_record  # noqa: PLC0415
    from bridge.state.remote_records import publish_remote  # noqa: PLC0415

    published: object = None
    try:
        with publish_remote(_state_directory(), os.getpid()) as publish:
            while True:
                states = offers.states()
                records = [make_record(*server, states) for server in provider.servers()]
                if records != published:
                    publish(records)
                    published = records
                await hub.router.changes.wait()
                await trio.sleep(_PUBLISH_S)
    except PrivateFileError as error:
        _log.warning("mcpb status does not show the remote servers of this process: %s", error)


async def _publish_approvals(hub: Hub) -> None:
    approvals = Approvals(_state_directory())
    await ApprovalPublisher(hub.router.registry, hub.links, approvals, hub.site_rules.refresh).run()


async def _give_memory_back() -> None:
    while True:
        await trio.sleep(_QUIET_S)
        malloc.trim_malloc()


async def _end_on_signal(
    speaking: trio.CancelScope, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            speaking.cancel()


def serve_http(config: Config, on_ready: Callable[[str, Path | None], None]) -> None:
    """Run `mcpb serve`: speak MCP over HTTP until a signal arrives.

    Args:
        config: configuration with the final `http` and `existing_channel`.
        on_ready: is called once clients can connect, with the server's URL and the path of the published
            socket.

    Raises:
        CertificateError: the certificate or its key cannot be used.
        ListenError: the address is not available.
        TokenError: there is no reliable token.
        PrivateFileError: the state directory is not private.
    """
    log_file.configure_logging(_state_directory())
    trio.run(_serve_http, config, on_ready)


async def _serve_http(config: Config, on_ready: Callable[[str, Path | None], None]) -> None:
    # Only `mcpb serve` needs these modules.
    from bridge.diagnostics.remote_status import describe_remote  # noqa: PLC0415
    from bridge.diagnostics.status_snapshot import Rules  # noqa: PLC0415
    from bridge.frontends.existing_channel.channel_server import TRANSPORT, ChannelServer, device_id  # noqa: PLC0415
    from bridge.frontends.http.access_tokens import AccessTokens  # noqa: PLC0415
    from bridge.frontends.http.authorization import Authorization  # noqa: PLC0415
    from bridge.frontends.http.http_frontend import HttpFrontend  # noqa: PLC0415
    from bridge.frontends.http.metrics import Metrics  # noqa: PLC0415
    from bridge.frontends.http.status_page.page_routes import StatusPage  # noqa: PLC0415
    from bridge.frontends.http.status_page.updates import StatusUpdates  # noqa: PLC0415
    from bridge.state.remote_records import read_records  # noqa: PLC0415
    from http_serving import listeners, tls  # noqa: PLC0415
    from native_host.existing_channel import published_socket  # noqa: PLC0415

    malloc.disable_malloc_trim()
    settings = config.http
    metrics = Metrics()
    stopped = trio.Event()
    tokens = AccessTokens(settings, _state_directory())
    certificate = _absolute(settings.certificate)
    encryption = (
        tls.load_context(certificate, _absolute(settings.key)) if settings.scheme == "https" else None
    )
    with ExitStack() as stack:
        sockets = stack.enter_context(listeners.open_listeners(settings.host, settings.port, settings.socket))
        port = sockets[0].getsockname()[1]
        url = listeners.local_url(settings.host, port, settings.scheme)
        gate = Authorization(settings, port, tokens, _browser_programs())
        published_socket.sweep(_state_directory())
        channel = stack.enter_context(_published_channel(config.existing_channel))
        device = device_id(_state_directory()) if channel else ""
        audit = stack.enter_context(closing(_open_audit_log(config)))
        stack.enter_context(
            publish_record(
                _state_directory(),
                ServeRecord(
                    pid=os.getpid(),
                    url=url,
                    started_at=time.time(),
                    auth=settings.auth,
                    certificate=str(certificate) if encryption else "",
                    is_exposed=settings.is_exposed,
                ),
            )
        )
        async with trio.open_nursery() as top:
            top.start_soon(_give_memory_back)
            await top.start(_stop_on_signal, stopped)
            async with open_hub(_with_http_limits(config), to_each(audit.write_record, metrics.keep)) as hub:
                reload = _watch_configuration(hub, audit, config, _with_http_limits)
                top.start_soon(reload.run)
                top.start_soon(_publish_approvals, hub)
                top.start_soon(_serve_remotes, hub)
                tell_hosts = _combine_sessions(hub.set_sessions)
                channel_front = ChannelServer(hub.router, hub.links, tell_hosts("channel"), device)
                watching = StatusUpdates(
                    hub.router,
                    hub.links,
                    _state_directory(),
                    lambda: {
                        **{each.hub_session.id: each.transport for each in front.sessions},
                        **{session.id: TRANSPORT for session in channel_front.sessions()},
                    },
                    lambda: Rules(reload.digest, reload.problem, hub.pauses.problem),
                    lambda: list(describe_remote(hub.remotes.settings, read_records(_state_directory()))),
                )
                stack.callback(watching.close)
                top.start_soon(hub.pauses.run)
                page = StatusPage(hub.router, hub.pauses, watching, url)
                front = HttpFrontend(
                    hub.router,
                    tell_hosts("http"),
                    settings,
                    gate.admit,
                    metrics,
                    page.routes(),
                    tokens.is_valid,
                )
                on_ready(url, channel.path if channel else None)
                async with trio.open_nursery() as fronts:
                    if channel:
                        fronts.start_soon(channel_front.serve, channel.listener, stopped)
                    await front.serve(sockets, stopped, encryption)
            top.cancel_scope.cancel()


def _absolute(path: str) -> Path:
    return Path(path).expanduser().absolute()


def _browser_programs() -> Callable[[str], bool]:
    """Return a function that says whether a path is a known browser's program."""
    from install.browsers import TableError, browser_of_program, known_browsers  # noqa: PLC0415

    try:
        browsers = known_browsers(mcpb_home())
    except TableError as error:
        _log.warning("the user's table of browsers is not used: %s", error)
        browsers = known_browsers()
    return lambda program: browser_of_program(program, browsers) is not None


def _published_channel(settings: ChannelSettings) -> AbstractContextManager[Publication | None]:
    if not settings.publish:
        return nullcontext()
    from native_host.existing_channel import published_socket  # noqa: PLC0415  (as above)

    return published_socket.publish_socket(
        _state_directory(), published_socket.choose_directory(settings.directory)
    )


def _combine_sessions(tell: TellHosts) -> Callable[[str], TellHosts]:
    """Combine the sessions of all front ends into the one list that hosts receive."""
    told: dict[str, list[wire.Session]] = {}

    def list_of(front_end: str) -> TellHosts:
        def tell_all(sessions: list[wire.Session]) -> None:
            told[front_end] = sessions
            tell([session for each in told.values() for session in each])

        return tell_all

    return list_of


async def _stop_on_signal(
    stopped: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            stopped.set()


def run_with_hub(
    session: Session,
    job: Callable[[Hub, Session], Awaitable[T]],
    *,
    existing_channel: bool = False,
    config: Config | None = None,
    reports_pauses: bool = False,
) -> T:
    """Run `job` once all live hosts have sent their replay, as the session of a command.

    The number of listed tools is unlimited. `config` replaces the file. With `reports_pauses` the command
    itself reports a fault of pauses.json, and no log line does.
    """
    log_file.configure_logging(hidden=(pause_sync.__name__,) if reports_pauses else ())
    _check_proxy_variables()
    config = config or load_configuration(existing_channel=existing_channel)
    digest = rules_digest(config)
    config = _list_all_tools(config)
    audit = _open_audit_log(config)

    def keep_calls(record: Record) -> None:
        """Record calls only: bridges record the offers of pages."""
        if isinstance(record, FinishedCall):
            audit.write_record(record)

    async def run_job() -> T:
        async with open_hub(config, keep_calls, list_s=_COMMAND_LIST_S) as hub:
            hub.links.set_rules(digest)
            if session.client.name:
                hub.set_sessions([session.on_wire()])
            await _wait_browsers(hub)
            try:
                return await job(hub, session)
            finally:
                with trio.move_on_after(_CLOSE_S, shield=True):
                    await hub.router.release(session)

    try:
        return trio.run(run_job)
    except* KeyboardInterrupt:
        # Before Python 3.11.4 an exception raised here leaves as an ExceptionGroup.
        pass
    raise SystemExit(130)


async def _wait_browsers(hub: Hub) -> None:
    """Wait until all browsers are known: a command does not see what is announced later."""
    await hub.router.wait_discovered()
    if hub.proxied.links:
        registry, until = hub.router.registry, trio.current_time() + _PROXY_LIST_S
        await hub.router.changes.wait_until(lambda: registry.is_settled, until=until)


def new_session(command: str = "") -> Session:
    """Return a session of the starting program; hosts and popups show the `command` that calls tools."""
    name = f"mcpb {command}" if command else ""
    client = wire.ClientInfo(name=name)
    folder = _working_folder()
    return Session(secrets.token_hex(8), title=name, client=client, folder=folder, is_local=True)


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return ""


def _connection_diagnosis(
    links: CompositeTransport, settings: ChannelSettings, holders: HolderProcesses | None
) -> ConnectionDiagnosis:
    # A bridge whose pages offer tools never imports the diagnosis.
    from bridge.diagnostics.connection_problem import ConnectionDiagnosis  # noqa: PLC0415

    return ConnectionDiagnosis(links, settings, holders.explain_missing if holders else None)
