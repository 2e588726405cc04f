"""A tab's documents: its frames, and our own code in each of them (`scripts`).

Transfer of bytes into a document, in chunks below the limit of a message.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, TypeVar

import trio

from bridge import origins
from bridge.browser_tools.page.devtools import COMMAND_S, ON_ITS_WAY, SETTLE_S, CommandError, Devtools, Params
from bridge.browser_tools.page.frame_geometry import Placement, placement_of
from bridge.browser_tools.page.scripts import joined_script
from bridge.browser_tools.tool_output import ToolError
from bridge.errors import CallError
from bridge.hub.transport import TabTransport
from native_host.protocol.untrusted_text import single_line
from native_host.protocol.wire import Code

_WORLDS = "mcpb worlds"
"""DevTools' name for our code in documents, as an object."""
OBJECTS = "mcpb"
"""DevTools' name for the objects that we have been shown."""
FRAME_S = 3.0
"""For a frame inside the page: the code of another site may never end there."""
FAILED = "chrome-error://chromewebdata/"
"""The browser's own page that says why another did not load, in a frame at the other's address."""
MAX_FAILURE = 500
"""Characters of what our code in a page could not do."""

ELSEWHERE = "The page went to another document meanwhile. Look at it again (read_page)."
KINDS = ("stale", "unfit", "hidden", "disabled")
"""Kinds of errors that the script in a page reports."""
_NO_CONTEXT = ("Cannot find context", "Could not find object")
_STOPPED = "Internal error"
"""Error of a script that `Runtime.evaluate` has stopped after its timeout."""
_NAVIGATED = ("Inspected target navigated or closed", "Execution context was destroyed")

T = TypeVar("T")
_NEXT_TASK = """new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resolve(0); };
    port2.postMessage(0);
})"""


class GoneError(ToolError):
    """The document that was meant is not there any more."""


class ElementError(ToolError):
    """An element cannot be used so; `kind` is a word of `scripts`: stale, unfit, hidden or disabled."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Frame:
    """A document in a frame of the tab."""

    id: str
    url: str
    loader: str
    """Id of the document's load; each document has its own."""
    session: str = ""
    """DevTools session; empty: the tab's own."""
    parent: str = ""
    """The frame around it; empty for the tab's main frame, and where it is not known."""
    number: int = 0
    """In refs, `f<number>.…`; 0: the main frame."""
    origin: str = ""
    has_failed: bool = False
    """The browser's own page is there, which says why this one did not load."""


@dataclass
class Numbering:
    """Numbers of a session's refs. They continue in each new document, so that none is ever reused."""

    next: int = 1

    def continue_at(self, following: int) -> None:
        """Continue with this number in the next document."""
        self.next = max(self.next, following)


class _World(NamedTuple):
    """Our code in a document."""

    loader: str
    context: int
    mcpb: str
    """Object id of `mcpb` there, which no other document has."""


class Page(Devtools):
    """One tab, for one session."""

    def __init__(
        self, transport: TabTransport, host: str, tab_id: int, session: str, numbering: Numbering
    ) -> None:
        super().__init__(transport, host, tab_id, session)
        self.in_hand = trio.Lock()
        """Lock of pointer and keyboard: the presses of two calls would mix."""
        self._world = f"mcpb {secrets.token_hex(4)}"
        self._main = ""
        self._frames: list[Frame] | None = None
        """Frames of the last look, until an event invalidates them."""
        self.has_silent_frames = False
        """True if a frame did not respond at the last look: `frames` omits it."""
        self._looked_at: object = None
        self._numbers: dict[str, int] = {}
        self._worlds: dict[str, _World] = {}
        self._numbering = numbering

    def is_main(self, frame_id: str) -> bool:
        """See `Devtools`."""
        return self._main in ("", frame_id)

    # ── Frames ──────────────────────────────────────────────────────────────────────────────────────────────

    async def find_frames(self) -> list[Frame]:
        """All frames, the main one first, each before those in it."""
        if self._frames is not None:
            return self._frames
        await self.wait_subscribed()  # it tells of frames in processes of their own
        looked_at = self._looked_at = object()
        frames = await self._look_for_frames()
        if looked_at is self._looked_at:  # else they have changed meanwhile
            self._frames = frames
            there = {frame.id for frame in frames}
            self._worlds = {id_: known for id_, known in self._worlds.items() if id_ in there}
        return frames

    def frames_changed(self) -> None:
        """See `Devtools`."""
        self._frames = self._looked_at = None

    async def _look_for_frames(self) -> list[Frame]:
        """Return the frames of all processes, asked concurrently: one that hangs delays no other."""
        trees: dict[str, Params | None] = {"": await self._frame_tree("")}
        failed: list[ToolError | CallError] = []

        async def look_at_target(session: str) -> None:
            try:
                trees[session] = await look_inside(partial(self._frame_tree, session), FRAME_S)
            except (ToolError, CallError) as error:  # raised outside: a nursery would wrap it
                failed.append(error)

        inner = list(self.children)
        async with trio.open_nursery() as nursery:
            for session in inner:
                nursery.start_soon(look_at_target, session)
        if failed:
            raise failed[0]
        self.has_silent_frames = None in trees.values()
        if self.has_silent_frames:
            self._looked_at = None  # it may answer the next time
        return with_origins(
            frame
            for session in ["", *inner]
            if (tree := trees[session]) is not None
            for frame in self._frames_in(tree, session)
        )

    async def _frame_tree(self, session: str) -> Params:
        found: Params = await self.run_command("Page.getFrameTree", session=session)
        tree: Params = found["frameTree"]
        return tree

    def _frames_in(self, tree: Params, session: str) -> Iterator[Frame]:
        frame = tree["frame"]
        parent = frame.get("parentId", "")
        if not session and not parent:
            self._main, number = frame["id"], 0
        else:
            number = self._numbers.setdefault(frame["id"], len(self._numbers) + 1)
        unreachable = frame.get("unreachableUrl")
        url = unreachable or frame["url"] + frame.get("urlFragment", "")
        yield Frame(
            frame["id"], url, frame["loaderId"], session, parent, number, has_failed=bool(unreachable)
        )
        for child in tree.get("childFrames", []):
            yield from self._frames_in(child, session)

    async def main_frame(self) -> Frame:
        """Return the main frame."""
        return (await self.find_frames())[0]

    async def blank_origin(self) -> str:
        """Return the origin of a blank page: that of its opener, or empty.

        Raises as `call_script`.
        """
        if self.dialog:
            return self.dialog.origin
        main = await self.main_frame()
        if main.origin or not origins.is_blank(main.url):
            return main.origin
        origin, has_opener = (await self.evaluate("[origin, opener !== null]", main))["value"]
        return origins.get_web_origin(origin) or (origins.OPAQUE if has_opener else "")

    async def placement_of(self, frame: Frame) -> Placement:
        """Return the placement of a frame's viewport in the tab's.

        Raises:
            GoneError: the frame is not shown.
        """
        if frame.number == 0:
            return Placement()
        is_root = self.children.get(frame.session) == frame.id
        around = [each.session for each in await self.find_frames() if each.id == frame.parent]
        sessions = dict.fromkeys([*around, "", *self.children])
        for session in [each for each in sessions if each != frame.session or not is_root]:
            with suppress(CommandError):  # another session has the element around it
                owner = await self.run_command("DOM.getFrameOwner", {"frameId": frame.id}, session=session)
                at = {"backendNodeId": owner["backendNodeId"]}
                box = await self.run_command("DOM.getBoxModel", at, session=session)
                return placement_of(box["model"]).combine_with(await self._placement_of_root(session))
        raise GoneError("The frame is not shown any more. Look at the page again (read_page).")

    async def _placement_of_root(self, session: str) -> Placement:
        for frame in await self.find_frames() if session else ():
            if frame.id == self.children.get(session):
                return await self.placement_of(frame)
        return Placement()

    async def frame_id_of(self, element: int, frame: Frame) -> str:
        """Return the DevTools id of the frame that an element shows; empty if it shows none.

        Raises as `call_script`.
        """
        found = await self.evaluate(f"mcpb.element({{ref: {element}}})", frame, by_value=False)
        if "objectId" not in found:
            return ""
        about = await self.run_command(
            "DOM.describeNode", {"objectId": found["objectId"]}, session=frame.session
        )
        return str(about["node"].get("frameId", ""))

    # ── Our code in them ────────────────────────────────────────────────────────────────────────────────────

    async def call_script(
        self, function: str, argument: Any = None, *, frame: Frame | None = None, timeout_s: float = COMMAND_S
    ) -> Any:
        """Return the result of `mcpb.<function>(argument)` in a document (see `scripts`).

        Raises:
            GoneError: the frame shows another document now.
            ElementError: the script reports an error.
        """
        frame = frame or await self.main_frame()
        expression = f"mcpb.{function}({json.dumps(argument or {})})"
        found = (await self.evaluate(expression, frame, timeout_s=timeout_s)).get("value")
        if isinstance(found, dict) and isinstance(following := found.get("next"), int):
            self._numbering.continue_at(following)
        return found

    async def evaluate(
        self, expression: str, frame: Frame, *, by_value: bool = True, timeout_s: float = COMMAND_S
    ) -> Params:
        """Return the RemoteObject of an expression in the isolated world of a document; promises are awaited.

        Objects are in the group OBJECTS. Raises as `call_script`.
        """
        function = f"function () {{ return ({expression}\n); }}"
        params: Params = {"functionDeclaration": function, "returnByValue": by_value, "awaitPromise": True}
        if not by_value:
            params["objectGroup"] = OBJECTS
        try:
            answer = await self._in_our_world(params, frame, timeout_s)
        except CommandError as error:
            if any(said in error.said for said in (*_NO_CONTEXT, *_NAVIGATED)):
                raise GoneError(ELSEWHERE) from None
            raise
        if details := answer.get("exceptionDetails"):
            raise _script_error(details.get("exception", {}).get("description") or details.get("text", ""))
        result: Params = answer["result"]
        return result

    async def wait_still(self) -> None:
        """Wait for what the last input has begun: until another document is there, or a dialog."""
        with suppress(ToolError, CallError), trio.move_on_after(SETTLE_S):
            await self.wait_events()  # unless it is on its way elsewhere, or a dialog has opened
        await self.wait_settled()
        if self.is_leaving:
            self.happened.add_note(ON_ITS_WAY)

    async def wait_events(self) -> None:
        """Wait until earlier events have arrived: the page's response follows them."""
        await self.evaluate(_NEXT_TASK, await self.main_frame())

    def world_of(self, frame: Frame) -> int:
        """Return the execution context of the script in a document in which it has just run."""
        return self._worlds[frame.id].context

    async def _in_our_world(self, params: Params, frame: Frame, timeout_s: float) -> Params:
        known = self._worlds.get(frame.id)
        if known and known.loader == frame.loader:
            with suppress(_NoContextError):
                return await self._call_in_world(known, params, frame, timeout_s)
        return await self._call_in_world(await self._enter_document(frame), params, frame, timeout_s)

    async def _call_in_world(self, world: _World, params: Params, frame: Frame, timeout_s: float) -> Params:
        """Run a function on `mcpb`, which belongs to one document: a number of a context is used again."""
        params = {**params, "objectId": world.mcpb}
        return await self._send_script("Runtime.callFunctionOn", params, frame, timeout_s)

    async def _send_script(self, method: str, params: Params, frame: Frame, timeout_s: float) -> Params:
        try:
            answer: Params = await self.run_command(
                method, params, session=frame.session, timeout_s=timeout_s
            )
        except (CommandError, CallError) as error:
            said = error.said if isinstance(error, CommandError) else error.detail
            if any(words in said for words in _NO_CONTEXT):
                # Then nothing has run, though the browser's code for it leaves that open.
                raise _NoContextError(method, said) from None
            raise
        return answer

    async def _enter_document(self, frame: Frame) -> _World:
        """Create an isolated world in the document, and evaluate the script there.

        Raises:
            GoneError: the frame shows another site now than at the last look, which needs another decision.
        """
        made = await self.run_command(
            "Page.createIsolatedWorld", {"frameId": frame.id, "worldName": self._world}, session=frame.session
        )
        context: int = made["executionContextId"]
        # Two calls may come here at once, or one after the tab was let go: the world is the same.
        # A page may call an element so, and finds it in every world under that name, but not as its own.
        begin = (
            f"if (!({_is_meant(frame)})) {{ null }} "
            f'else {{ if (!Object.hasOwn(globalThis, "mcpb")) {{ {joined_script()}; '
            f"mcpb.begin({{next: {self._numbering.next}}}) }} mcpb }}"
        )
        params = {"expression": begin, "contextId": context, "objectGroup": _WORLDS}
        here = (await self._send_script("Runtime.evaluate", params, frame, COMMAND_S))["result"]
        if "objectId" not in here:
            raise GoneError(ELSEWHERE)
        world = self._worlds[frame.id] = _World(frame.loader, context, here["objectId"])
        return world


def with_origins(frames: Iterable[Frame]) -> list[Frame]:
    """Return frames with the origins of their documents; each frame comes after the one around it."""
    found: dict[str, Frame] = {}
    for frame in frames:
        outer = found.get(frame.parent)
        around = outer.origin if outer else ("" if frame.number == 0 else origins.OPAQUE)
        origin = origins.get_document_origin(frame.url, around)
        found[frame.id] = replace(frame, origin=origin)
    return list(found.values())


def _is_meant(frame: Frame) -> str:
    """Return JavaScript that tells whether a document is of the site that the frame was judged by.

    `origin` is the browser's own word, which pages cannot change in our world. DevTools derive what they call
    a security origin from the address (Chromium 150), so an empty page of another site has to be found here.
    """
    if site := origins.get_web_origin(frame.url):
        return f"location.origin === {json.dumps(site)} || location.href === {json.dumps(FAILED)}"
    scheme = json.dumps(frame.url.partition(":")[0] + ":")
    is_of_site = "true" if frame.number == 0 else f'["null", {json.dumps(frame.origin)}].includes(origin)'
    return f"location.protocol === {scheme} && {is_of_site}"


class ScriptEnd(Enum):
    """End of a client's script that DevTools report as an error, without a value."""

    STOPPED = auto()
    DOCUMENT_GONE = auto()


def read_script_end(error: CommandError | CallError) -> ScriptEnd | None:
    """Return the end of a script that this error of DevTools means; None for any other error."""
    said = error.said if isinstance(error, CommandError) else error.detail
    code = error.code if isinstance(error, CallError) else None
    if code == Code.INTERNAL_ERROR and _STOPPED in said:
        return ScriptEnd.STOPPED
    if code == Code.NAVIGATED or any(text in said for text in (*_NAVIGATED, _NO_CONTEXT[0])):
        return ScriptEnd.DOCUMENT_GONE
    return None


async def look_inside(look: Callable[[], Awaitable[T]], timeout_s: float) -> T | None:
    """Return the result of a look into a frame; None if it is going away, has crashed, or hangs."""
    with trio.move_on_after(timeout_s):
        try:
            return await look()
        except (CommandError, GoneError):
            return None
        except CallError as error:
            if error.code not in (Code.INTERNAL_ERROR, Code.TIMED_OUT):
                raise
    return None


def _script_error(description: str) -> ToolError:
    """Convert an exception of the script: `Error: <kind>: <sentence>`, then the stack."""
    text = single_line(description.partition("\n    at ")[0].removeprefix("Error: "), MAX_FAILURE)
    kind, _, sentence = text.partition(": ")
    return ElementError(kind, sentence) if kind in KINDS else ToolError(text)


class _NoContextError(CommandError):
    """The document that had our world is gone, or that world is."""


PIECE_BYTES = 384 * 1024
"""512 KiB in base64."""


async def carry_chunks(page: Page, frame: Frame, data: bytes) -> str:
    """Bring bytes to our code in a document; the name that it knows them by (`giveFiles`, `download`).

    Raises as `Page.call_script`.
    """
    transfer = secrets.token_hex(8)
    for begin in range(0, max(len(data), 1), PIECE_BYTES):
        end = begin + PIECE_BYTES
        chunk = base64.b64encode(data[begin:end]).decode()
        piece = {"transfer": transfer, "chunk": chunk, "last": end >= len(data)}
        await page.call_script("receive", piece, frame=frame)
    return transfer
