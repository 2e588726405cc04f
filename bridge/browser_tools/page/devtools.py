"""DevTools of one tab for one session: commands, events, and the state that events report.

The subscription begins on first use and ends when the tab is released. An open dialog ends every wait for
results, since the page is blocked.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec
import trio

from bridge import origins
from bridge.browser_tools.page import bound_documents
from bridge.browser_tools.page.bound_documents import BoundDocument
from bridge.browser_tools.page.event_notes import EventNotes
from bridge.browser_tools.page.tab_downloads import WAIT_S, TabDownloads
from bridge.browser_tools.tool_output import Quote, ToolError
from bridge.errors import CallError
from bridge.hub.operation import FINISHED, OnFinished, Operation, wait_outcome
from bridge.hub.transport import NO_OBSERVER, CallObserver, TabAddress, TabTransport
from native_host.protocol import wire
from native_host.protocol.untrusted_text import quote, single_line
from native_host.protocol.wire import Code

COMMAND_S = 15.0
SETTLE_S = 5.0
"""For a document that an input has sent the tab to."""
DOWNLOAD_S = 0.5
"""From the end of a navigation without a document to the news of its download; measured: 2 ms."""
MAX_SAID = 80
"""Characters of page text within a sentence; the rest is quoted below it."""
MAX_QUOTED = 2000
"""Characters of what a page says in a dialog."""

SUBSCRIBED = "mcpb.subscribed"
"""Event of the extension: all earlier state was reported, and events follow."""
_MAIN_FRAME = (
    "Page.frameStartedNavigating",
    "Page.frameNavigated",
    "Page.loadEventFired",
    "Page.frameStoppedLoading",
    "Inspector.targetCrashed",
)
_FRAMES = (
    "Page.frameAttached",
    "Page.frameDetached",
    "Page.frameNavigated",
    "Page.navigatedWithinDocument",
    "Page.documentOpened",
    "Target.attachedToTarget",
    "Target.detachedFromTarget",
)
STATE_EVENTS = (
    *_MAIN_FRAME,
    *_FRAMES,
    "Page.javascriptDialogOpening",
    "Page.javascriptDialogClosed",
    "Page.downloadWillBegin",
    "Page.fileChooserOpened",
    SUBSCRIBED,
)
DOWNLOAD = "mcpb.download"
"""Event of the extension: a download has another state."""
_CHOOSER = (
    "The page asked for a file to be chosen, which the user was not shown: nothing was chosen. file_upload "
    "gives the page a file; find shows its field, also a hidden one."
)

ON_ITS_WAY = (
    "The tab is on its way to another page, which has not answered yet; until then the page that it shows "
    "does not answer either. Wait for it (computer with action wait) and look again, or stop it: computer "
    "with action key and text Escape stays on the page, navigate goes elsewhere."
)

T = TypeVar("T")
Heard = Callable[[wire.CdpEvent], None]
Params = dict[str, Any]


class CommandError(ToolError):
    """The browser refused a DevTools command; `said` are its words."""

    def __init__(self, method: str, said: str) -> None:
        super().__init__(f"The browser refused {method}: {said}. Look at the page before you try again.")
        self.said = said


class NotControllableError(ToolError):
    """The browser lets no extension control the tab: it shows a page of its own or of its web store."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"{said}. The browser gives no access to such a page, and nothing was "
            "done. navigate to a web page, or use another tab."
        )


CommandOutcome: TypeAlias = bytes | CallError | ToolError


@dataclass(frozen=True)
class Dialog:
    """A dialog that a page has opened, and that the client has to answer."""

    kind: str
    origin: str = ""
    message: str = ""
    """Text of the dialog; empty if it has none, or if it is hidden from the session."""
    text: str = ""
    """Text in the field of a prompt: the page's own first."""

    def __str__(self) -> str:
        said = f": {quote(self.message, MAX_SAID)}" if self.message else ""
        opened = f"The page has a {self.kind} dialog open{said}"
        keys = "Return answers OK, with Escape Cancel"
        if self.kind == "beforeunload":
            opened = "The page asks whether to leave it: what was entered may be lost"
            keys = "Return leaves, with Escape stays"
        if self.text:
            opened += f" (in its field: {quote(self.text, MAX_SAID)})"
        into = "computer with action type enters text into its field. " if self.kind == "prompt" else ""
        return (
            f"{opened}. Until it is answered nothing else works in the tab. {into}computer with action key "
            f"and text {keys}."
        )


class DialogError(ToolError):
    """A dialog of the page is open, and nothing else goes on in it until it is answered."""

    def __init__(self, dialog: Dialog) -> None:
        super().__init__(str(dialog))
        if rest := _rest_of(dialog.message):
            self.quotes = (Quote(rest, dialog.origin),)


def _rest_of(said: str) -> str:
    """Return what to quote below a sentence that has only the beginning of it."""
    return said if len(said) > MAX_SAID else ""


def brief_address(url: str) -> str:
    """Return an address for a sentence: the origin, and the beginning of what follows."""
    if origins.is_blank(url):
        return "an empty page"
    origin = origins.get_web_origin(url)
    return origin + single_line(url.removeprefix(origin), MAX_SAID)


def rest_of_address(url: str) -> str:
    """Return what to quote below a sentence with `brief_address`."""
    return single_line(url, MAX_QUOTED) if len(url) - len(origins.get_web_origin(url)) > MAX_SAID else ""


class Devtools(ABC):
    """DevTools of one tab."""

    def __init__(self, transport: TabTransport, host: str, tab_id: int, session: str) -> None:
        """`session` is empty for a tab that the user's policy opens to all sessions."""
        self.tab_id = tab_id
        self.number = tab_id
        """What the session calls the tab."""
        self.host = host
        self.happened = EventNotes()
        self.dialog: Dialog | None = None
        self.used_at = trio.current_time()
        self.begun_at = -math.inf
        """Time of the last request to attach the debugger."""
        self.check: Callable[[], None] = lambda: None
        """Raises a CallError when rules that have changed since the tab was judged forbid its site."""
        self.is_shown = False
        """The window shows this tab, as far as was announced when it was last asked for."""
        self.keeps_choosers = False
        """True while file choosers are intercepted."""
        self.holds: set[str] = set()
        self.url = ""
        """Address of the main document, once one has loaded; empty if unknown."""
        self.children: dict[str, str] = {}
        """Sessions below the tab's own, of frames with a process of their own → the frame at the root."""
        self.origin = ""
        """Origin of the main document, as the browser reports it; empty: not known."""
        self.documents = 0
        """Number of documents that the main frame has had."""
        self.judged = ("", 0)
        """Document of the last call, and `documents` by then."""
        self.may_read: Callable[[str], bool] = lambda _: True
        """Returns whether this session may read texts of an origin."""
        self.lost = 0
        """Number of detachments: each disables all DevTools domains."""
        self._transport = transport
        self._session = session
        self._subscription: Operation = FINISHED
        self._is_subscribed = False
        self._hears = False
        self._listeners: dict[Heard, tuple[str, ...]] = {}
        self._events: set[str] = set()
        self._waiting: set[_Command] = set()
        self._is_crashed = False
        self.is_leaving = False
        """The main frame is on its way to another document."""
        self._stayed = False
        """Navigations that loaded no document: one may have become a download."""
        self._is_loading = False
        self.downloads = TabDownloads()
        self._changed = trio.Event()

    @property
    def bound_document(self) -> BoundDocument:
        """The document that the running call is bound to."""
        return bound_documents.get_document((self.host, self.tab_id))

    # ── Commands ────────────────────────────────────────────────────────────────────────────────────────────

    async def run_command(
        self, method: str, params: Params | None = None, *, session: str = "", timeout_s: float = COMMAND_S
    ) -> Any:
        """Run a DevTools command; return its result.

        Raises:
            DialogError: a dialog is open, or opens before the result; the command may have run.
            CommandError: the browser rejects it.
            ToolError: the tab has crashed, or waits for another document.
            CallError: the tab, its browser or the connection is gone, or it took too long.
        """
        self.check()
        self.begin_subscription()
        self.used_at = trio.current_time()
        if self._is_crashed:
            raise self._crash_error()
        if self.dialog:
            raise DialogError(self.dialog)

        def begin_operation(on_done: Callable[[CommandOutcome], None]) -> Operation:
            waiting = _Command(self._waiting, on_done)
            waiting.pending = self._send_command(method, params, session, timeout_s, waiting.on_finished)
            return waiting

        told = await wait_outcome(begin_operation)
        if self.is_leaving and isinstance(told, CallError) and told.code == Code.TIMED_OUT:
            raise ToolError(ON_ITS_WAY)
        result = _read_result(method, told)
        self.bound_document.commands += 1
        return result

    def begin_command(self, method: str, params: Params | None = None, *, session: str = "") -> None:
        """Send a command without waiting for its result; event handlers use it."""
        self._send_command(method, params, session, COMMAND_S, lambda _: None)

    async def keep_choosers(self) -> None:
        """Intercept file choosers: they are reported and not shown.

        Waits until the page has confirmed it: input overtakes commands in a busy browser (seen in Chromium
        150). Raises as `run_command`.
        """
        if not self.keeps_choosers:
            await self.run_command("Page.setInterceptFileChooserDialog", {"enabled": True})
            self.keeps_choosers = True

    def show_choosers(self) -> None:
        """Show file choosers to the user again."""
        self.keeps_choosers = False
        self.begin_command("Page.setInterceptFileChooserDialog", {"enabled": False})

    async def answer_dialog(self, *, accept: bool) -> None:
        """Answer the dialog that is open, if it still is; a prompt with the text in its field."""
        params: Params = {"accept": accept}
        if self.dialog and self.dialog.kind == "prompt":
            params["promptText"] = self.dialog.text  # the browser would leave it empty

        def begin_operation(on_done: OnFinished[bytes | CallError]) -> Operation:
            return self._send_command("Page.handleJavaScriptDialog", params, "", COMMAND_S, on_done)

        self.is_leaving = accept and self.dialog is not None and self.dialog.kind == "beforeunload"
        self.dialog = None
        with suppress(CommandError):  # The user was faster.
            _read_result("Page.handleJavaScriptDialog", await wait_outcome(begin_operation))

    def _send_command(
        self,
        method: str,
        params: Params | None,
        session: str,
        timeout_s: float,
        on_done: OnFinished[bytes | CallError],
    ) -> Operation:
        asked = wire.ForwardCdpCommand(
            session=self._session,
            tab_id=self.tab_id,
            document_id=self.bound_document.id,
            method=method,
            params=msgspec.Raw(msgspec.json.encode(params)) if params else msgspec.UNSET,
            session_id=session,
        )
        return self._send_request("forwardCDPCommand", asked, timeout_s, on_done)

    def _send_request(
        self,
        method: str,
        params: wire.Wire,
        timeout_s: float,
        on_done: OnFinished[bytes | CallError],
        caller: CallObserver = NO_OBSERVER,
    ) -> Operation:
        at = TabAddress(self.host, self.tab_id)
        return self._transport.send(at, method, params, timeout_s, on_done, caller)

    # ── Events ──────────────────────────────────────────────────────────────────────────────────────────────

    def begin_subscription(self) -> None:
        """Hear what happens in the tab from now on."""
        if self._is_subscribed:
            return
        self._is_subscribed = True
        if self._subscription is FINISHED:
            self.begun_at = trio.current_time()
        self._events = {*self._state_events, *(name for names in self._listeners.values() for name in names)}
        asked = wire.SubscribeCdp(session=self._session, tab_id=self.tab_id, events=sorted(self._events))
        subscription = _Subscription(self)
        self._subscription = subscription
        subscription.pending = self._send_request(
            "subscribeCDP", asked, math.inf, subscription.on_ended, CallObserver(on_event=self._on_event)
        )

    @property
    def _state_events(self) -> tuple[str, ...]:
        return (*STATE_EVENTS, DOWNLOAD) if self.downloads.reports_ends else STATE_EVENTS

    async def wait_subscribed(self) -> None:
        """Subscribe, and wait until earlier state has been reported.

        Raises:
            CallError: it takes too long.
        """
        self.begin_subscription()
        if not await self.wait_until(lambda: self._hears or not self._is_subscribed, COMMAND_S):
            raise CallError(Code.TIMED_OUT, "the browser does not tell what happens in the tab", handed=False)

    def add_listener(self, listener: Heard, events: tuple[str, ...]) -> None:
        """Pass these events to `listener`, until `remove_listener`."""
        self._listeners[listener] = events
        earlier, self._is_subscribed, self._hears = self._subscription, False, False
        self.begin_subscription()  # anew: it names the events
        earlier.cancel()

    def remove_listener(self, listener: Heard) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)

    def release(self) -> None:
        """Release the tab. A later command subscribes again."""
        if self.keeps_choosers:
            self.show_choosers()  # others may still be in the tab
        self._subscription.cancel()
        self.on_unsubscribed(self._subscription)

    def on_unsubscribed(self, subscription: Operation) -> None:
        """Reset the state after the end of the subscription."""
        if subscription is not self._subscription:
            return
        self._is_subscribed, self._hears, self._subscription = False, False, FINISHED
        self.keeps_choosers = False
        self.lost += 1
        self.children.clear()
        self.frames_changed()
        self.url, self.origin, self.dialog = "", "", None
        self._is_crashed = self.is_leaving = self._is_loading = False
        self.downloads.lose()
        self._notify_waiters()

    async def wait_until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for events that make it so; whether they came in time."""
        with trio.move_on_after(timeout_s):
            while not is_so():
                await self._changed.wait()
        return is_so()

    async def unless_dialog(self, go: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `go`.

        Raises:
            DialogError: a dialog is open, or opens first: then `go` is cancelled.
        """
        self.begin_subscription()
        if self.dialog:
            raise DialogError(self.dialog)
        ended = await self._run_unless(lambda: self.dialog is not None, go)
        if not ended:
            assert self.dialog is not None, "what else ends the wait"
            raise DialogError(self.dialog)
        return ended[0]

    async def within_document(self, go: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `go`, for a command that the browser forgets when the tab changes documents.

        Raises:
            CallError: the tab has gone to another document: then `go` is cancelled.
        """
        before = self.documents
        if ended := await self._run_unless(lambda: self.documents != before, go):
            return ended[0]
        raise CallError(Code.NAVIGATED, f"Tab {self.tab_id} has just been loaded anew", handed=True)

    async def _run_unless(self, is_so: Callable[[], bool], go: Callable[[], Awaitable[T]]) -> list[T]:
        """Return the result of `go` in a list; an empty one once events make it so, which cancels `go`."""
        ended: list[T] = []
        failed: list[Exception] = []
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self.wait_until(is_so, math.inf)
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                ended.append(await go())
            except Exception as error:  # noqa: BLE001  (raised outside: a nursery would wrap it)
                failed.append(error)
            nursery.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return ended

    def forget_load(self) -> None:
        """Let no later input wait for the load event of the current document."""
        self._is_loading = False

    async def wait_settled(self, timeout_s: float = SETTLE_S) -> None:
        """If an input has sent the tab elsewhere, wait until that document is there, or a download ends."""
        await self.wait_until(
            lambda: self.dialog is not None or not (self.is_leaving or self._is_loading), timeout_s
        )
        if self._stayed:
            await self.wait_until(lambda: not self._stayed, DOWNLOAD_S)
            self._stayed = False
        await self.wait_downloads()

    async def wait_downloads(self) -> None:
        """Wait until downloads have ended that the running action may have started, at most 10 s."""
        until = trio.current_time() + WAIT_S
        while (deadline := self.downloads.deadline()) is not None and self.dialog is None:
            with trio.move_on_at(min(deadline, until)):
                await self._changed.wait()
                continue
            break
        self.downloads.report_running()

    def _on_event(self, event: wire.CdpEvent) -> None:
        if event.method in self._state_events:
            params = msgspec.json.decode(event.params) if event.params else {}
            if event.method in _FRAMES:
                self.frames_changed()
            if event.method in _MAIN_FRAME:
                if not event.session_id:
                    self._handle_navigation(event.method, params)
            else:
                self._handle_target(event.method, params)
            self._notify_waiters()
        for listener, events in list(self._listeners.items()):
            if event.method in events:
                listener(event)

    def _handle_navigation(self, method: str, params: Params) -> None:
        match method:
            case "Page.frameStartedNavigating" if self.is_main(params["frameId"]):
                self.is_leaving = params.get("navigationType") not in ("sameDocument", "historySameDocument")
                self._stayed = False
            case "Page.frameNavigated" if not params["frame"].get("parentId"):
                self.is_leaving, self._is_loading, self._is_crashed = False, True, False
                self._stayed = False
                self.url = url = params["frame"].get("unreachableUrl") or params["frame"]["url"]
                self.origin = origins.get_origin(url)
                self.documents += 1
                there = origins.format_origin(self.origin)
                without = f"The tab is at {there} now, whose content is hidden by your rules."
                said = f"The tab is at {brief_address(url)} now."
                self.happened.add_note(said, self.origin, without, rest_of_address(url))
            case "Page.loadEventFired":
                self._is_loading = False
            case "Page.frameStoppedLoading" if self.is_main(params["frameId"]):
                self._stayed = self.is_leaving
                self.is_leaving = self._is_loading = False
            case "Inspector.targetCrashed":
                self._is_crashed = True
                self._interrupt_commands(self._crash_error())

    @abstractmethod
    def is_main(self, frame_id: str) -> bool:
        """Return whether it is the tab's main frame."""

    @abstractmethod
    def frames_changed(self) -> None:
        """There may be other frames, or other documents in them."""

    def _handle_target(self, method: str, params: Params) -> None:
        match method:
            case "Target.attachedToTarget" if _is_frame(params["targetInfo"]):
                self.children[params["sessionId"]] = params["targetInfo"]["targetId"]
            case "Target.detachedFromTarget":
                self.children.pop(params["sessionId"], None)
            case "mcpb.subscribed":
                self._hears = True
            case "Page.javascriptDialogOpening":
                self._dialog_opened(params)
            case "Page.javascriptDialogClosed":
                self.dialog = None
            case "Page.fileChooserOpened":
                self.happened.add_note(_CHOOSER)
            case "Page.downloadWillBegin":
                self._stayed = False
                self.downloads.handle_begin(params, trio.current_time())
            case "mcpb.download":
                self.downloads.handle_state(params, trio.current_time())

    def _dialog_opened(self, params: Params) -> None:
        said, whose = single_line(params.get("message", ""), MAX_QUOTED), self._origin_of_dialog(params)
        kind = params.get("type", "alert")
        if kind == "alert":  # there is nothing to decide
            text = f"The page said in an alert, which was closed: {quote(said, MAX_SAID)}."
            self.happened.add_note(text, whose, "A page opened an alert, which was closed.", _rest_of(said))
            self.begin_command("Page.handleJavaScriptDialog", {"accept": True})
            return
        dialog = Dialog(kind, whose)
        if self.may_read(whose):
            dialog = Dialog(kind, whose, said, params.get("defaultPrompt", ""))
        self.dialog = dialog
        self._interrupt_commands(DialogError(dialog))

    def _origin_of_dialog(self, params: Params) -> str:
        """Return the origin of the document that opened a dialog; the event has its address alone."""
        url = params.get("url", "")
        return (self.origin or origins.OPAQUE) if origins.is_blank(url) else origins.get_origin(url)

    def _crash_error(self) -> ToolError:
        return ToolError(f"Tab {self.number} has crashed. navigate loads a page in it again.")

    def _interrupt_commands(self, error: ToolError) -> None:
        for command in list(self._waiting):
            command.interrupt(error)

    def _notify_waiters(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _is_frame(target: Params) -> bool:
    """Return whether it is a frame that answers: Chromium's PDF viewer does not."""
    return target["type"] == "iframe" and not origins.is_pdf_viewer(target.get("url", ""))


def _read_result(method: str, told: CommandOutcome) -> Any:
    match told:
        case CallError(code=Code.TAB_NOT_CONTROLLABLE):
            raise NotControllableError(told.detail.rstrip("."))
        case CallError(code=Code.INVALID_PARAMS):
            raise CommandError(method, told.detail.rstrip("."))
        case CallError() | ToolError():
            raise told
        case _:
            return msgspec.json.decode(told)


class _Command:
    """An `Operation`: a command that has its answer, or is interrupted."""

    def __init__(self, waiting: set[_Command], on_done: Callable[[CommandOutcome], None]) -> None:
        self.pending: Operation = FINISHED
        self._waiting = waiting
        self._on_done = on_done
        waiting.add(self)

    def on_finished(self, answer: bytes | CallError) -> None:
        """Complete the command."""
        if self in self._waiting:
            self._waiting.discard(self)
            self._on_done(answer)

    def interrupt(self, error: ToolError) -> None:
        """There will be no answer."""
        if self in self._waiting:
            self.cancel()
            self._on_done(error)

    def cancel(self) -> None:
        """See `Operation`."""
        if self in self._waiting:
            self._waiting.discard(self)
            self.pending.cancel()


class _Subscription:
    """Operation of a subscription. Its end names it: another one may have started by then."""

    def __init__(self, devtools: Devtools) -> None:
        self.pending: Operation = FINISHED
        self._devtools = devtools

    def on_ended(self, _answer: bytes | CallError) -> None:
        """Handle the end: the tab or the connection is gone."""
        self._devtools.on_unsubscribed(self)

    def cancel(self) -> None:
        """See `Operation`."""
        self.pending.cancel()
