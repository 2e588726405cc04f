"""`read_network_requests`: the requests of a tab, and the headers and bodies of one."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from bridge import origins
from bridge.browser_tools.page.credential_masking import masked_body, masked_headers
from bridge.browser_tools.page.devtools import CommandError
from bridge.browser_tools.page.event_capture import Began
from bridge.browser_tools.page.network_log import Request
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.result_size import MAX_RESULT_CHARS, MaxChars, most_chars
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolOutput, ToolResult
from bridge.browser_tools.tools.captured_events import (
    KEPT_BODY_BYTES,
    LIMIT,
    SENT_BODY_BYTES,
    Limit,
    fit_latest,
    format_count,
    get_captures,
    join_sentences,
    learn_frames,
    make_origin_filter,
)
from bridge.errors import CallError
from native_host.protocol.untrusted_text import multi_line, truncate

TEXT_KINDS = ("text/", "xml", "json", "javascript")


class ReadNetwork(ToolInput):
    """Input of `read_network_requests`."""

    tab_id: MaybeTab = msgspec.field(name="tabId", default=UNSET)
    url_pattern: Annotated[str, Meta(description="Part of the URL.")] | UnsetType = msgspec.field(
        name="urlPattern", default=UNSET
    )
    clear: Annotated[bool, Meta(description="Forget them afterwards.")] | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    max_chars: MaxChars | UnsetType = UNSET


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
    content: Content | None = None
    """Content of the only request that matches urlPattern."""


async def read_network_requests(given: ReadNetwork, context: CallContext) -> ToolResult:
    """Begin to capture, and tell what was captured."""
    place = await context.use_tab(given.tab_id)
    page = context.page_of(place)
    capture = get_captures(context).network_of(page, place.tab.url)
    await learn_frames(page, capture.log.frames)
    began = await capture.continue_capture()
    wanted = (given.url_pattern or "").lower()
    may_read = make_origin_filter(context)

    def matches_request(request: Request) -> bool:
        return wanted in request.url.lower() and may_read(request.origin)

    newest, found = capture.log.find_latest(given.limit or LIMIT, fits=matches_request)
    is_one = bool(wanted) and len(newest) == 1 and may_read(origins.get_origin(newest[0].url))
    most = most_chars(given.max_chars)
    content = await _read_content(page, newest[0], most // 2) if is_one else None
    requests = [_make_exchange(request) for request in newest]
    lines = fit_latest(most, [_exchange_line(request) for request in requests])
    requests = requests[len(requests) - len(lines) :]
    sentences = [_BEGAN_NETWORK[began], format_count("request", len(lines), found, capture)]
    if found and content is None:
        sentences.append("A urlPattern that leaves one (or limit 1 with it) shows its headers and bodies.")
    if given.clear is True:
        capture.clear()
        sentences.append("All are forgotten now.")
    told = Requests(
        message=join_sentences(sentences, page.number),
        tab_id=page.number,
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


def _make_exchange(request: Request) -> Exchange:
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


async def _read_content(page: Page, request: Request, max_body: int) -> Content:
    return Content(
        masked_headers(request.headers),
        _sent_body(request, max_body),
        masked_headers(request.response_headers),
        await _response_body(page, request, max_body),
    )


def _sent_body(request: Request, max_body: int) -> str:
    if request.has_body and not request.sent:
        return f"(not text, or more than {SENT_BODY_BYTES} bytes)"
    return _shown_body(request.sent, max_body)


async def _response_body(page: Page, request: Request, max_body: int) -> str:
    if request.is_redirected or request.status is None:
        return ""
    try:
        asked = {"requestId": request.id}
        found = await page.run_command("Network.getResponseBody", asked, session=request.session)
    except (CommandError, CallError):
        return f"(the browser has none: it loads still, has more than {KEPT_BODY_BYTES} bytes, or is gone)"
    body: str = found["body"]
    if found["base64Encoded"]:
        data = b64decode(body)
        if not any(kind in request.mime_type for kind in TEXT_KINDS):
            return f"({request.mime_type or 'binary'}, {len(data)} bytes, no text)"
        body = data.decode(errors="replace")
    return _shown_body(body, max_body)


def _shown_body(text: str, max_body: int) -> str:
    return truncate(multi_line(masked_body(text[: 2 * max_body])), max_body)


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


TOOLS = (
    Tool(
        name="read_network_requests",
        title="Read network requests",
        description=(
            "The requests of a tab, since the first call for it: call it, load the page, call it "
            "again. A urlPattern that leaves one request shows its headers and bodies; secrets "
            "are masked."
        ),
        search_hint="network http request response header api debug",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=ReadNetwork,
        output_type=Requests,
        run=read_network_requests,
        is_read_only=True,
    ),
)
