"""Native wire: every message, limit and error code, as types.

`jsonrpc.py` encodes and decodes. docs/PROTOCOL.md describes the messages with examples; docs/wire.schema.json
is generated from `METHODS`. Field names are camelCase on the wire.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec

WIRE_VERSION = 1
HOST_NAME = "dev.mcpb.native_host"
"""What the extension passes to `connectNative`, and the file name of the host manifest."""
EXTENSION_ID = "jhipampgcbajgajeedfncbijjojmbnbc"
"""Follows from the fixed `key` in extension/manifest.json (first 32 hex digits of its sha256, as a to p)."""
EXTENSION_ORIGIN = f"chrome-extension://{EXTENSION_ID}/"
FIREFOX_ID = "extension@mcpb.dev"
"""Of the same extension in Firefox, where its manifest says it."""

MIB = 1024 * 1024
TO_BROWSER_BYTES = MIB
"""Chromium closes the port at one byte more (measured); longer bodies travel in chunks."""
FROM_BROWSER_BYTES = 64 * MIB
"""Chromium's `postMessage` throws above it (measured)."""
SOCKET_BYTES = 64 * MIB + 64 * 1024
"""Either way on the socket: a whole browser message plus room for its envelope."""
CHUNKED_BYTES = 64 * MIB
"""The longest body that is put into chunks."""
CHUNK_BYTES = 512 * 1024
"""Of the body, before base64: the frame stays well below TO_BROWSER_BYTES."""
CHUNK_TRANSFERS = 4
CHUNK_SECONDS = 30.0
CLIENT_IN_FLIGHT = 256
CLIENT_WAITING_BYTES = 64 * MIB
"""Of one client's frames, waiting for the browser: above it that client is not read."""
CLIENT_BACKLOG_BYTES = 128 * MIB
"""Waiting towards one client: above it the client is dropped."""
HELLO_SECONDS = 10.0
REPLAY_WAIT_SECONDS = 1.0
REPLAY_TOOLS_BYTES = 64 * MIB
"""Of all tool lists kept for late clients: a replay has to fit into a client's send queue."""
MAX_DEPTH = 200
"""Of nesting, in what the extension posts: decoders on the way have limits of their own."""

TROUBLE_BYTES = 1024
"""Of what the extension reports of its own trouble."""

RawOrUnset = msgspec.Raw | msgspec.UnsetType
"""A payload that may be absent. (msgspec reads `Raw | None` as null only.)"""


class Code(enum.IntEnum):
    """The numbered errors. Numbers are only ever added; docs/PROTOCOL.md has the same rows."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    NO_SUCH_TAB = -32001
    TAB_NOT_CONTROLLABLE = -32009
    GONE = -32010
    TIMED_OUT = -32011
    TOO_LARGE = -32012
    NAVIGATED = -32013
    NOT_ALLOWED = -32014
    RATE_LIMITED = -32015
    NOT_YOURS = -32016
    WIRE_VERSION = -32017
    NO_LONGER_OFFERED = -32018
    PAUSED = -32019


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base of every shape: camelCase names, defaults left out, unknown members ignored."""


# ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────


class Limits(Wire, kw_only=True):
    """Bytes of a body, by direction."""

    to_browser: int
    from_browser: int
    socket: int


class HostHello(Wire, kw_only=True):
    """The host's first message, to the browser and to each client."""

    wire: int
    instance: str
    version: str
    pid: int
    browser_pid: int
    """The host's parent when it started."""
    extension_origin: str
    """As the browser names it: `chrome-extension://<id>/`, or an add-on's id in Firefox."""
    limits: Limits
    command: str = ""
    """What to type for `mcpb`: its whole path, quoted for a shell; empty: not beside the interpreter."""


class BridgeHello(Wire, kw_only=True):
    """A client's first message to the host, within HELLO_SECONDS."""

    wire: int
    version: str
    pid: int


class ClientInfo(Wire, kw_only=True):
    """Who an MCP client says it is; for display, never for a decision."""

    name: str
    version: str = ""


class Session(Wire, kw_only=True):
    """One MCP session behind a bridge."""

    id: str
    title: str = ""
    client: ClientInfo
    subscriptions: list[str] = []
    """URIs of the resources that it is subscribed to, for `mcpb status`. Older bridges have none."""


class BridgeSessions(Wire, kw_only=True):
    """All sessions of a bridge: always the whole list."""

    sessions: list[Session]
    rules: str = ""
    """Digest of the rules that the bridge applies, for `mcpb status`. Older bridges have none."""


class ExtensionInfo(Wire, kw_only=True):
    """The extension's id and version."""

    id: str
    version: str


class BrowserInfo(Wire, kw_only=True):
    """The browser's brand, version and platform, as it tells them."""

    brand: str
    version: str = ""
    platform: str = ""


class Profile(Wire, kw_only=True):
    """`id` is a UUID kept in the profile; `label` is what the person typed in the popup, or empty."""

    id: str
    label: str = ""


class Capabilities(Wire, kw_only=True):
    """`commands` the extension answers, `tools` (MCP Tools) that the browser side itself offers."""

    commands: list[str] = []
    tools: list[msgspec.Raw] = []


class Trouble(Wire, kw_only=True):
    """What last kept the extension from a host, or ended its connection to one."""

    attempts: int
    """How often in a row it came to nothing."""
    reason: str
    """The browser's own words, or those of the host; cut to TROUBLE_BYTES."""
    at: float
    """The last time; milliseconds since the epoch."""


class HostExits(Wire, kw_only=True):
    """Exits of native hosts that had sent `host/hello`, since the start of the browser."""

    count: int
    reason: str
    """Reason of the last one in the browser's words; cut to TROUBLE_BYTES."""
    at: float
    """Time of the last one; milliseconds since the epoch."""


class BrowserHello(Wire, kw_only=True):
    """The extension's first message."""

    wire: int
    extension: ExtensionInfo
    browser: BrowserInfo
    profile: Profile
    incognito_allowed: bool = False
    sites_allowed: bool = True
    """The browser lets the extension into all sites; people can withdraw that, for some or for all."""
    capabilities: Capabilities = msgspec.field(default_factory=Capabilities)
    trouble: Trouble | None = None
    """Before this connection; None: none is known."""
    exits: HostExits | None = None
    """Before this connection; None: no host has exited."""


class Client(Wire, kw_only=True):
    """One bridge that is connected to the host."""

    connection: str
    pid: int
    version: str
    sessions: list[Session]
    rules: str = ""
    """As the bridge sent it with its sessions."""


class HostClients(Wire, kw_only=True):
    """All connected bridges, to everybody, whenever that changes."""

    clients: list[Client]
    dropped: dict[str, int] = {}
    """Messages that the host has dropped until then, by the reason (`DropReason`)."""


class DropReason(enum.StrEnum):
    """Reason why the host drops a message, or a client. docs/PROTOCOL.md has the same rows."""

    LATE_RESPONSE = "late-response"
    MESSAGE_WITHOUT_CALL = "message-without-call"
    RESPONSE_WITHOUT_REQUEST = "response-without-request"
    CLIENT_NOTIFICATION = "client-notification"
    BROWSER_NOTIFICATION = "browser-notification"
    BROWSER_MESSAGE = "browser-message"
    CHUNK_ABORT = "chunk-abort"
    UNREAD_REJECTION = "unread-rejection"
    PAGE_NOTIFICATION = "page-notification"
    SLOW_CLIENT = "slow-client"


class HostReplayed(Wire, kw_only=True):
    """To one client: everything known has been said."""


class HostError(Wire, kw_only=True):
    """Said before the host closes or refuses; `command` is what to run."""

    code: int
    message: str
    command: str = ""


# ── Announcements ───────────────────────────────────────────────────────────────────────────────────────────


class Tab(Wire, kw_only=True):
    """A tab, as the worker sees it."""

    tab_id: int
    window_id: int
    url: str = ""
    origin: str = ""
    title: str = ""
    status: str = ""
    active: bool = False
    focused: bool = False
    """Its window is the one that last had the focus: people leave the browser to talk to their client."""
    group_id: int | None = None
    ordinal: int = 0
    """Number of the tab in its profile, from 1; 0: it has no number.

    Without the capability `tabNumbers`: counted in the tab's domain."""
    owner: str | None = None
    """The session that opened it."""
    handed_over: bool = False
    last_accessed: float = 0.0
    """Milliseconds since the epoch."""
    incognito: bool = False
    discarded: bool = False
    error_page: bool = False
    """The browser shows its own error page: the address could not be loaded."""
    document_id: str = ""
    """Document of the main frame; empty where the browser names none (Firefox)."""


class Tabs(Wire, kw_only=True):
    """All tabs."""

    tabs: list[Tab]


class TabChanged(Wire, kw_only=True):
    """One tab, new or changed."""

    tab: Tab


class TabRemoved(Wire, kw_only=True):
    """A tab is gone, and its frames' tools with it."""

    tab_id: int


class FrameAddress(Wire, kw_only=True):
    """Which document in which frame: stamped by the worker, never by a page."""

    tab_id: int
    frame_id: int
    document_id: str


Via = Literal["webmcp", "mcp-b", "polyfill"]


class FrameTools(FrameAddress, kw_only=True):
    """What a frame offers: its four lists whole, each entry byte for byte as the page gave it."""

    origin: str
    url: str = ""
    title: str = ""
    server_info: dict[str, Any] | None = None
    capabilities: dict[str, Any] | None = None
    tools: list[msgspec.Raw]
    via: dict[str, str] = {}
    """By tool name: where the tool came from, and so who runs it: a `Via`, or one that came later."""
    resources: list[msgspec.Raw] = []
    """MCP Resources."""
    resource_templates: list[msgspec.Raw] = []
    """MCP ResourceTemplates."""
    prompts: list[msgspec.Raw] = []
    """MCP Prompts."""
    notice: str = ""
    """Says what was left out and why."""
    opened: bool = False
    """Of a frame in another site's page: the user has opened its origin as a page of its own before."""
    delegated: bool = False
    """Of such a frame: that page grants it the permission policy `tools`."""
    extensions: dict[str, Any] = {}


Use = Literal["on", "ask", "off"]
"""Whether page tools of a site are used: without a question, after the user was asked, or not at all."""


class PageTools(Wire, kw_only=True):
    """What the user has set in the popup about the page tools of sites."""

    sites: dict[str, Use] = {}
    """By origin, in canonical form."""


class PauseChange(Wire, kw_only=True):
    """Pause or removal of a pause: of a site pattern or of a session."""

    site: str = ""
    session: str = ""
    paused: bool
    at: int
    """When the user made it, in milliseconds since the epoch."""


class Paused(Wire, kw_only=True):
    """Sites and sessions that the user paused, and the last change of each, removals included."""

    sites: list[str] = []
    """Patterns: an origin, a host (every origin there), or `*.` and a host (its subdomains too)."""
    sessions: list[str] = []
    changes: list[PauseChange] = []


class PageNotification(FrameAddress, kw_only=True):
    """A page server's own MCP notification."""

    method: str
    params: RawOrUnset = msgspec.UNSET
    dropped: int = 0
    """Notifications of the frame that were dropped before this one."""


# ── To one asker, with `for` ────────────────────────────────────────────────────────────────────────────────


class Progress(Wire, kw_only=True):
    """Progress of a call, as the page reports it."""

    progress: float
    total: float | None = None
    message: str = ""


class CdpEvent(Wire, kw_only=True):
    """A DevTools event of an open `subscribeCDP`."""

    tab_id: int
    method: str
    params: RawOrUnset = msgspec.UNSET
    session_id: str = ""


class ElicitConfirmation(Wire, kw_only=True):
    """A page's question to the user of the call; answered with an MCP ElicitResult."""

    message: str
    requested_schema: RawOrUnset = msgspec.UNSET
    mode: Literal["form", "url"] = "form"
    url: str = ""
    """Address that the user is to open, in the mode `url`."""
    elicitation_id: str = ""
    """The page's own id, which its `notifications/elicitation/complete` names."""


class Watching(Wire, kw_only=True):
    """A `browser/watchResource` is active: changes are reported from now on."""


class ResourceUpdated(Wire, kw_only=True):
    """A watched resource, or a part of it, has changed."""

    uri: str
    """The page's own."""


class PageRequest(Wire, kw_only=True):
    """Another request of a page server to its client (sampling, roots)."""

    method: str
    params: RawOrUnset = msgspec.UNSET


class LeftOutTool(Wire, kw_only=True):
    """A tool of an offer that is not registered."""

    name: str
    why: str
    """Reason, for a log."""


class OfferState(Wire, kw_only=True):
    """State of a `browser/offerTools`: sent after the offer, and whenever it changes."""

    active: bool
    """False while another connection's offer of this server is the active one."""
    names: list[str]
    """Tools that are registered."""
    left_out: list[LeftOutTool] = []


class OfferedCall(Wire, kw_only=True):
    """Call of an offered tool by a program of the page, such as the browser's own assistant."""

    name: str
    """As in the offer, with the prefix."""
    args: msgspec.Raw


class OfferedResult(Wire, kw_only=True):
    """Result of an offered tool; an error's `message` becomes the rejection of the page's promise."""

    text: str


class CancelledRequest(Wire, kw_only=True):
    """The page has cancelled a request of its own; it is still answered, with GONE."""

    id: str
    """Id of the extension's request."""


# ── Requests of a client to the extension ───────────────────────────────────────────────────────────────────


class Asked(Wire, kw_only=True):
    """What every request may carry."""

    session: str = ""
    """The MCP session it is made for; ownership of tabs is checked against it."""


class ExecuteTool(Asked, kw_only=True):
    """Run a page's tool, in the very document it was listed by."""

    tab_id: int
    frame_id: int
    document_id: str
    tool_name: str
    args: msgspec.Raw
    wants_progress: bool = False
    extensions: dict[str, Any] = {}


class Executed(Wire, kw_only=True):
    """What the page answered: `payload` is its CallToolResult, or with `success: false` the thrown text."""

    success: bool
    payload: msgspec.Raw
    extensions: dict[str, Any] = {}


class CallTool(Asked, kw_only=True):
    """Run a tool of the browser side itself (`capabilities.tools`)."""

    name: str
    args: msgspec.Raw
    asks: bool = False
    """The asker can put questions to its person, so that whoever runs the tool need not."""


class PageMcp(Asked, kw_only=True):
    """MCP request to a page's server: `resources/read`, `prompts/get` or `completion/complete`."""

    tab_id: int
    frame_id: int
    document_id: str
    method: str
    params: msgspec.Raw
    wants_progress: bool = False


class WatchResource(Asked, kw_only=True):
    """Report changes of a page's resource until this is cancelled, or its document or server is gone."""

    tab_id: int
    frame_id: int
    document_id: str
    uri: str
    """The page's own."""


class OfferedTool(Wire, kw_only=True):
    """A tool for a page: a WebMCP tool without its function."""

    name: str
    """With the prefix of its server."""
    description: str
    title: str = ""
    input_schema: RawOrUnset = msgspec.UNSET
    annotations: RawOrUnset = msgspec.UNSET


class OfferTools(Asked, kw_only=True):
    """Register tools in a document until this is cancelled, or the document is gone."""

    tab_id: int
    frame_id: int
    document_id: str
    server: str
    """Name of the remote server. One offer of each server is active in a document."""
    tools: list[OfferedTool]


class SessionRules(Wire, kw_only=True):
    """Sites that a session may not or may only use: origin patterns, as `policy` has them."""

    session: str
    deny: list[str] = []
    allow: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Unset: all sites."""


class SiteRules(Wire, kw_only=True):
    """The site rules of all sessions of this connection, in place of earlier ones."""

    sessions: list[SessionRules]


Closing = Literal["never", "unused", "ask", "always"]
"""Tabs of a session that are closed at its end: none, those the user has not looked at, those that the user
then closes in the popup, or all."""


class CreateTab(Asked, kw_only=True):
    """Open a tab; with `session` in that session's group, and owned by it."""

    url: str = ""
    active: bool = False
    title: str = ""
    """Of the session's tab group, when it has to be made."""
    group_key: str = ""
    """Sessions with the same key use one tab group after the other; empty: each has its own."""
    closing: Closing = "never"
    """At the end of the session, also one whose bridge was killed; the latest counts."""
    stealth: bool = False
    """Accepted and ignored."""


class CreatedTab(Wire, kw_only=True):
    """Where the new tab is."""

    tab_id: int
    window_id: int
    group_id: int | None = None
    url: str = ""


class ActivateTab(Asked, kw_only=True):
    """Show a tab to the person."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""
    focus_window: bool = False


class OfTab(Asked, kw_only=True):
    """A request that names a tab and nothing else."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""


WindowState = Literal["normal", "maximized", "minimized", "fullscreen"]


class SetWindowBounds(Asked, kw_only=True):
    """Change a tab's window: its size in CSS pixels, which makes it `normal`, or its state."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""
    width: Annotated[int, msgspec.Meta(gt=0)] | None = None
    height: Annotated[int, msgspec.Meta(gt=0)] | None = None
    state: WindowState | None = None


class WindowBounds(Wire, kw_only=True):
    """A window as the browser has it now."""

    window_id: int
    width: int
    height: int
    state: str


class SetOwner(Wire, kw_only=True):
    """Give a tab to a session, or to nobody. Here `session` is the new owner, not the asker."""

    tab_id: int
    session: str | None = None


class TabResult(Wire, kw_only=True):
    """A tab as it is now."""

    tab: Tab


class CloseSession(Asked, kw_only=True):
    """A session has ended: its tabs are released or closed."""

    closing: Closing | None = None
    """None: as the latest `CreateTab` has it."""


class Navigate(Asked, kw_only=True):
    """Load a URL; the answer comes when `wait_until` is reached, or before the load event by `quiet_ms`."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""
    url: str
    wait_until: Literal["load", "commit"] = "load"
    quiet_ms: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """Answer too once the document is parsed and unchanged for so long, or was there for ten times that."""
    timeout_ms: Annotated[int, msgspec.Meta(gt=0)] | None = None


class StepHistory(Asked, kw_only=True):
    """Go one step through a tab's history."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""
    quiet_ms: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """As in `Navigate`."""


class Navigated(Wire, kw_only=True):
    """Where the tab is after a navigation."""

    tab_id: int
    url: str
    title: str = ""
    document_id: str = ""
    loading: bool = False
    """True if the load event is still to come."""


class ForwardCdpCommand(Asked, kw_only=True):
    """One DevTools command; its result is passed through."""

    tab_id: int
    document_id: str = ""
    """Document for which the client judged the command; a tab that shows another rejects it. Empty: any."""
    method: str
    params: RawOrUnset = msgspec.UNSET
    session_id: str = ""


class SubscribeCdp(Asked, kw_only=True):
    """DevTools events of a tab; answered only when the subscription ends."""

    tab_id: int
    document_id: str = ""
    """As in `ForwardCdpCommand`."""
    events: list[str]


class Pause(Wire, kw_only=True):
    """Pause or resume a site or a session."""

    paused: bool
    site: str = ""
    """A pattern, as in `Paused.sites`."""
    session: str = ""
    at: int = 0
    """When the user did it, in milliseconds since the epoch; a later change of the same stays. 0: now."""


class AskUser(Asked, kw_only=True):
    """Ask the user to approve something, in a window of the extension."""

    prompt: str
    """Id of the prompt, chosen at random by the client: the same prompt may be sent again after a
    connection was lost, and has one answer."""
    client: str
    """Name of the MCP client, for display."""
    origin: str
    """The origin, or the origins separated by `, `, that the approval is about."""
    kind: str
    """`read`, `act`, `page-tools`, `upload`, `sampling` or `roots`; later versions add words."""
    text: str
    """What the client wants, in one sentence; further lines for a plan."""
    choices: list[str]
    """Of `once`, `session`, `hour`, `client`, `always`, `no`."""


class UserChoice(Wire, kw_only=True):
    """The user's choice, one of those offered."""

    choice: str


class SiteApproval(Wire, kw_only=True):
    """One stored approval of a site."""

    origin: str
    words: list[str] = msgspec.field(name="for")
    client: str = ""
    """The only client that it is for; empty: any."""
    until: str = ""
    """Its end in RFC 3339; empty: it does not end."""


class SiteApprovals(Asked, kw_only=True):
    """All stored approvals, for the popup; answered when the user revokes one there."""

    approvals: list[SiteApproval]


class Nothing(Wire, kw_only=True):
    """`{}`."""


class Anything(Wire, kw_only=True):
    """A result that is not ours to describe."""


class Cancel(Wire, kw_only=True):
    """Give a request up: `id` is the sender's own. No answer follows."""

    id: str | int | float


# ── Chunks ──────────────────────────────────────────────────────────────────────────────────────────────────


class Chunk(Wire, kw_only=True):
    """A piece of a body that is too long for the browser."""

    transfer: int
    seq: int
    last: bool
    bytes: int | None = None
    """Of the whole body; in the first piece."""
    data: str
    """Base64 of at most CHUNK_BYTES of the body's UTF-8."""


class ChunkAbort(Wire, kw_only=True):
    """The rest of this transfer will not come."""

    transfer: int
    reason: str


# ── The whole list ──────────────────────────────────────────────────────────────────────────────────────────

Route = Literal[
    "host → all",
    "host → client",
    "host → extension",
    "host ↔ extension",
    "client → host",
    "client → extension",
    "extension → host",
    "extension → clients",
    "extension → asker",
]


class Method(msgspec.Struct, frozen=True):
    """One message of the wire: who says it to whom, and its shapes. `result` is set for requests only."""

    name: str
    route: Route
    params: type[Wire]
    result: type[Wire] | None = None


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("host/hello", "host → all", HostHello),
        Method("bridge/hello", "client → host", BridgeHello),
        Method("bridge/sessions", "client → host", BridgeSessions),
        Method("browser/hello", "extension → host", BrowserHello),
        Method("host/clients", "host → all", HostClients),
        Method("host/replayed", "host → client", HostReplayed),
        Method("host/error", "host → all", HostError),
        Method("browser/tabs", "extension → clients", Tabs),
        Method("browser/tabChanged", "extension → clients", TabChanged),
        Method("browser/tabRemoved", "extension → clients", TabRemoved),
        Method("browser/registerTools", "extension → clients", FrameTools),
        Method("browser/updateTools", "extension → clients", FrameTools),
        Method("browser/unregister", "extension → clients", FrameAddress),
        Method("browser/paused", "extension → clients", Paused),
        Method("browser/pageTools", "extension → clients", PageTools),
        Method("browser/pageNotification", "extension → clients", PageNotification),
        Method("browser/progress", "extension → asker", Progress),
        Method("browser/cdpEvent", "extension → asker", CdpEvent),
        Method("browser/watching", "extension → asker", Watching),
        Method("browser/resourceUpdated", "extension → asker", ResourceUpdated),
        Method("browser/elicitConfirmation", "extension → asker", ElicitConfirmation, Anything),
        Method("browser/pageRequest", "extension → asker", PageRequest, Anything),
        Method("browser/offered", "extension → asker", OfferState),
        Method("browser/offeredCall", "extension → asker", OfferedCall, OfferedResult),
        Method("browser/cancelled", "extension → asker", CancelledRequest),
        Method("browser/executeTool", "client → extension", ExecuteTool, Executed),
        Method("browser/callTool", "client → extension", CallTool, Anything),
        Method("browser/mcp", "client → extension", PageMcp, Executed),
        Method("browser/watchResource", "client → extension", WatchResource, Nothing),
        Method("browser/offerTools", "client → extension", OfferTools, Nothing),
        Method("browser/siteRules", "client → extension", SiteRules, Nothing),
        Method("getTabs", "client → extension", Asked, Tabs),
        Method("createTab", "client → extension", CreateTab, CreatedTab),
        Method("activateTab", "client → extension", ActivateTab, TabResult),
        Method("closeTab", "client → extension", OfTab, Nothing),
        Method("setOwner", "client → extension", SetOwner, TabResult),
        Method("closeSession", "client → extension", CloseSession, Nothing),
        Method("setWindowBounds", "client → extension", SetWindowBounds, WindowBounds),
        Method("browser_navigate", "client → extension", Navigate, Navigated),
        Method("goBack", "client → extension", StepHistory, Navigated),
        Method("goForward", "client → extension", StepHistory, Navigated),
        Method("forwardCDPCommand", "client → extension", ForwardCdpCommand, Anything),
        Method("subscribeCDP", "client → extension", SubscribeCdp, Nothing),
        Method("browser/pause", "client → extension", Pause, Nothing),
        Method("browser/ask", "client → extension", AskUser, UserChoice),
        Method("browser/approvals", "client → extension", SiteApprovals, SiteApproval),
        Method("browser/cancel", "client → extension", Cancel),
        Method("host/chunk", "host → extension", Chunk),
        Method("host/chunkAbort", "host ↔ extension", ChunkAbort),
    )
}
ANNOUNCEMENTS = frozenset(name for name, method in METHODS.items() if method.route == "extension → clients")
