"""`read_console_messages` and `read_network_requests`: what a tab has written, thrown and asked for."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType

from bridge import origins
from bridge.browser_tools.page import console_log, network_log
from bridge.browser_tools.page.console_log import Console, Entry
from bridge.browser_tools.page.credential_masking import masked_body, masked_headers, masked_url
from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.event_capture import Began, Capture, Switches
from bridge.browser_tools.page.frame_origins import FrameOrigins
from bridge.browser_tools.page.network_log import Network, Request
from bridge.browser_tools.page.page import FRAME_S, Page
from bridge.browser_tools.page.safe_regex import compiled
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.errors import CallError
from native_host.protocol.untrusted_text import multi_line, truncate

LIMIT = 100
MAX_SHOWN = 50_000
"""Characters of an answer; the newest are shown."""
MAX_BODY = 20_000
"""Characters of a body."""
KEPT_BODY_BYTES = 1024 * 1024
"""The browser keeps no larger response for us, and tells no larger body of a request than SENT_BODY_BYTES."""
TEXT_KINDS = ("text/", "xml", "json", "javascript")
KEPT_BODIES_BYTES = 16 * 1024 * 1024
SENT_BODY_BYTES = 64 * 1024

_CONSOLE: Switches = (("Runtime.enable", {}), ("Log.enable", {}))
_NETWORK: Switches = (
    (
        "Network.enable",
        {
            "maxTotalBufferSize": KEPT_BODIES_BYTES,
            "maxResourceBufferSize": KEPT_BODY_BYTES,
            "maxPostDataSize": SENT_BODY_BYTES,
        },
    ),
)

Limit = Annotated[int, Meta(ge=1, description=f"How many at most, the newest (default {LIMIT}).")]


class ReadConsole(ToolInput):
    """Which messages."""

    always: ClassVar[tuple[str, ...]] = ("tabId",)
    tab_id: MaybeTab = msgspec.field(name="tabId", default=UNSET)
    only_errors: Annotated[bool, Meta(description="Errors and what was thrown only.")] | UnsetType = (
        msgspec.field(name="onlyErrors", default=UNSET)
    )
    clear: Annotated[bool, Meta(description="Forget all messages afterwards.")] | UnsetType = UNSET
    pattern: (
        Annotated[
            str,
            Meta(
                description=(
                    "Only messages in which this regular expression is found, in upper or lower case. No "
                    "look-around, no back-references."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    limit: Limit | UnsetType = UNSET


class Message(msgspec.Struct, rename="camel", omit_defaults=True):
    """What was written to the console, or thrown."""

    level: str
    text: str
    time: str
    place: str = ""
    count: int = 1
    stack: list[str] = []


class Messages(ToolOutput):
    """The newest that were wanted, the oldest of them first."""

    tab_id: int
    messages: list[Message]
    found: int
    """How many were wanted, shown or not."""


class ReadNetwork(ToolInput):
    """Which requests."""

    always: ClassVar[tuple[str, ...]] = ("tabId",)
    tab_id: MaybeTab = msgspec.field(name="tabId", default=UNSET)
    url_pattern: Annotated[str, Meta(description="Only requests with this in their URL.")] | UnsetType = (
        msgspec.field(name="urlPattern", default=UNSET)
    )
    clear: Annotated[bool, Meta(description="Forget all requests afterwards.")] | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET


class Exchange(msgspec.Struct, rename="camel", omit_defaults=True):
    """A request, and what came back."""

    method: str
    url: str
    status: int | None
    type: str
    time: str = ""
    milliseconds: int | None = None
    size: int | None = None
    failure: str = ""
    from_cache: bool = False
    initiator: str = ""


class Content(msgspec.Struct, rename="camel"):
    """Headers and bodies of one request."""

    request_headers: dict[str, str]
    request_body: str
    response_headers: dict[str, str]
    response_body: str


class Requests(ToolOutput):
    """The newest that were wanted, the oldest of them first."""

    tab_id: int
    requests: list[Exchange]
    found: int
    """How many were wanted, shown or not."""
    content: Content | None = None
    """Of the one request that a urlPattern leaves."""


@dataclass
class Captures:
    """What a session captures, by tab."""

    consoles: dict[Page, Capture[Console]] = field(default_factory=dict)
    networks: dict[Page, Capture[Network]] = field(default_factory=dict)

    def console(self, page: Page, url: str) -> Capture[Console]:
        """Of a tab that is at `url`."""
        if page not in self.consoles:
            self.consoles[page] = Capture(page, Console(url), console_log.EVENTS, _CONSOLE)
        return self.consoles[page]

    def network(self, page: Page, url: str) -> Capture[Network]:
        """Of a tab that is at `url`."""
        if page not in self.networks:
            self.networks[page] = Capture(page, Network(url), network_log.EVENTS, _NETWORK)
        return self.networks[page]

    def keep_only(self, pages: Iterable[Page]) -> None:
        """All other tabs are closed."""
        kept = set(pages)
        self.consoles = {page: capture for page, capture in self.consoles.items() if page in kept}
        self.networks = {page: capture for page, capture in self.networks.items() if page in kept}


def _captures(context: CallContext) -> Captures:
    captures = context.state.of(Captures)
    captures.keep_only(context.state.pages.values())
    return captures


# ── The console ─────────────────────────────────────────────────────────────────────────────────────────────


async def read_console_messages(given: ReadConsole, context: CallContext) -> ToolResult:
    """Begin to capture, and tell what was captured."""
    has_match = compiled(given.pattern) if given.pattern else None
    place = await context.place(given.tab_id)
    page = context.page_of(place)
    capture = _captures(context).console(page, place.tab.url)
    await _learn_frames(page, capture.log.frames)
    began = await capture.go_on()
    may_read = _readable(context)

    def fits(entry: Entry) -> bool:
        return all(map(may_read, entry.possible_origins)) and (has_match is None or has_match(entry.text))

    newest, found = capture.log.newest(given.limit or LIMIT, only_errors=given.only_errors is True, fits=fits)
    messages = [_message(entry) for entry in newest]
    lines = _newest_within(MAX_SHOWN, [_message_line(message) for message in messages])
    messages = messages[len(messages) - len(lines) :]
    sentences = [_BEGAN_CONSOLE[began], _counted("message", len(lines), found, capture)]
    if given.clear is True:
        capture.clear()
        sentences.append("All are forgotten now.")
    told = Messages(
        message=_sentences(sentences, place.tab.tab_id),
        tab_id=place.tab.tab_id,
        messages=messages,
        found=found,
        untrusted=("messages",),
    )
    return ToolResult(told, "\n".join(lines), place.tab.origin)


_BEGAN_CONSOLE = {
    Began.NOW: (
        "The console of tab {tab} is captured from now on; of what was written before, what the browser "
        "still had is here. To see how the page begins, load it again."
    ),
    Began.AGAIN: "The browser had let go of tab {tab} meanwhile; its console is captured again now.",
    Began.EARLIER: "",
}


def _message(entry: Entry) -> Message:
    return Message(
        entry.level,
        multi_line(entry.text),
        entry.time,
        masked_url(multi_line(entry.place)),
        entry.count,
        [masked_url(multi_line(line)) for line in entry.stack],
    )


def _message_line(message: Message) -> str:
    times = f" (x{message.count})" if message.count > 1 else ""
    place = f"  [{message.place}]" if message.place else ""
    stack = "".join(f"\n    at {line}" for line in message.stack)
    return f"{message.time} {message.level}{times}: {message.text}{place}{stack}"


# ── The network ─────────────────────────────────────────────────────────────────────────────────────────────


async def read_network_requests(given: ReadNetwork, context: CallContext) -> ToolResult:
    """Begin to capture, and tell what was captured."""
    place = await context.place(given.tab_id)
    page = context.page_of(place)
    capture = _captures(context).network(page, place.tab.url)
    await _learn_frames(page, capture.log.frames)
    began = await capture.go_on()
    wanted = (given.url_pattern or "").lower()
    may_read = _readable(context)

    def fits(request: Request) -> bool:
        return wanted in request.url.lower() and may_read(request.origin)

    newest, found = capture.log.newest(given.limit or LIMIT, fits=fits)
    is_one = bool(wanted) and len(newest) == 1 and may_read(origins.get_origin(newest[0].url))
    content = await _content(page, newest[0]) if is_one else None
    requests = [_exchange(request) for request in newest]
    lines = _newest_within(MAX_SHOWN, [_exchange_line(request) for request in requests])
    requests = requests[len(requests) - len(lines) :]
    sentences = [_BEGAN_NETWORK[began], _counted("request", len(lines), found, capture)]
    if found and content is None:
        sentences.append("A urlPattern that leaves one (or limit 1 with it) shows its headers and bodies.")
    if given.clear is True:
        capture.clear()
        sentences.append("All are forgotten now.")
    told = Requests(
        message=_sentences(sentences, place.tab.tab_id),
        tab_id=place.tab.tab_id,
        requests=requests,
        found=found,
        content=content,
        untrusted=("requests", "content"),
    )
    text = "\n".join(lines) + (_content_text(content) if content else "")
    return ToolResult(told, text, place.tab.origin)


_BEGAN_NETWORK = {
    Began.NOW: (
        "The requests of tab {tab} are captured from now on. To see what the page asks for as it loads, "
        "load it again."
    ),
    Began.AGAIN: "The browser had let go of tab {tab} meanwhile; its requests are captured again now.",
    Began.EARLIER: "",
}


def _exchange(request: Request) -> Exchange:
    return Exchange(
        request.method,
        multi_line(request.url),
        request.status,
        request.kind,
        request.time,
        None if request.seconds is None else round(request.seconds * 1000),
        request.size,
        request.failure,
        request.is_cached,
        multi_line(request.initiator) + (", answered by the page's service worker" * request.is_by_worker),
    )


def _exchange_line(request: Exchange) -> str:
    status = request.failure or (str(request.status) if request.status is not None else "no response yet")
    about = [request.type]
    if request.size is not None:
        about.append(f"{request.size} bytes")
    if request.milliseconds is not None:
        about.append(f"{request.milliseconds} ms")
    if request.from_cache:
        about.append("from the cache")
    if request.initiator:
        about.append(f"by {request.initiator}")
    return f"{request.time} {request.method} {request.url} → {status} ({', '.join(filter(None, about))})"


async def _content(page: Page, request: Request) -> Content:
    return Content(
        masked_headers(request.headers),
        _sent_body(request),
        masked_headers(request.response_headers),
        await _response_body(page, request),
    )


def _sent_body(request: Request) -> str:
    if request.has_body and not request.sent:
        return f"(not text, or more than {SENT_BODY_BYTES} bytes)"
    return _shown_body(request.sent)


async def _response_body(page: Page, request: Request) -> str:
    if request.is_redirected or request.status is None:
        return ""
    try:
        asked = {"requestId": request.id}
        found = await page.command("Network.getResponseBody", asked, session=request.session)
    except (CommandError, CallError):
        return f"(the browser has none: it loads still, has more than {KEPT_BODY_BYTES} bytes, or is gone)"
    body: str = found["body"]
    if found["base64Encoded"]:
        data = b64decode(body)
        if not any(kind in request.mime_type for kind in TEXT_KINDS):
            return f"({request.mime_type or 'binary'}, {len(data)} bytes, no text)"
        body = data.decode(errors="replace")
    return _shown_body(body)


def _shown_body(text: str) -> str:
    return truncate(multi_line(masked_body(text[: 2 * MAX_BODY])), MAX_BODY)


def _content_text(content: Content) -> str:
    parts = [
        ("Request headers", _header_lines(content.request_headers)),
        ("Request body", content.request_body),
        ("Response headers", _header_lines(content.response_headers)),
        ("Response body", content.response_body),
    ]
    return "".join(f"\n\n{name}:\n{text}" for name, text in parts if text)


def _header_lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


# ── Of both ─────────────────────────────────────────────────────────────────────────────────────────────────


def _readable(context: CallContext) -> Callable[[str], bool]:
    """Whether what a document of an origin says may be told: a tab has frames of other sites."""
    return cache(context.may_read)


async def _learn_frames(page: Page, known: FrameOrigins) -> None:
    """Learn of the frames that there are; of a page that is busy or in a dialog they stay unknown."""
    with suppress(CallError, ToolError), trio.move_on_after(FRAME_S):
        known.learn(await page.frames())


def _counted(what: str, shown: int, found: int, capture: Capture[Any]) -> str:
    more = ""
    if dropped := capture.log.dropped:
        more = f" {dropped} older ones were dropped for want of room."
    if capture.left_out:
        more += f" {capture.left_out} events of the tab were left out: too many at once, or too long."
    if not found:
        return f"No {what} that was captured fits.{more}"
    if shown < found:
        return f"The newest {shown} of {found} {what}s that fit.{more}"
    return f"{found} {what}{'s' * (found != 1)}.{more}"


def _sentences(sentences: Sequence[str], tab_id: int) -> str:
    return " ".join(filter(None, sentences)).replace("{tab}", str(tab_id))


def _newest_within(limit: int, lines: list[str]) -> list[str]:
    """Of these, as many of the last as there is room for; one at least."""
    room = limit
    for place in range(len(lines) - 1, -1, -1):
        room -= len(lines[place])
        if room < 0:
            return lines[min(place + 1, len(lines) - 1) :]
    return lines


TOOLS = (
    Tool(
        name="read_console_messages",
        title="Read the console",
        description=(
            "What a tab's page has written to its console and thrown: errors, warnings, logs, rejected "
            "promises, failed loads, with place and stack. Capturing begins with the first call for a tab "
            "and is kept up; leaving for another site forgets what was there. Narrow it with onlyErrors or "
            "pattern."
        ),
        input_type=ReadConsole,
        output_type=Messages,
        run=read_console_messages,
        is_read_only=True,
    ),
    Tool(
        name="read_network_requests",
        title="Read network requests",
        description=(
            "The requests of a tab: method, URL, status, type, size, duration, why one failed. Capturing "
            "begins with the first call for a tab: call it, then load the page or do what makes the "
            "requests, then call it again. With a urlPattern that leaves one request, its headers and "
            "bodies are shown too; passwords, tokens and cookies are masked. Leaving for another site "
            "forgets what was there."
        ),
        input_type=ReadNetwork,
        output_type=Requests,
        run=read_network_requests,
        is_read_only=True,
    ),
)
