"""Execution of browser tools: permissions, time limits, steps of a batch, and the state of sessions.

It imports every tool, so that `provider.py` imports it at the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import trio
from msgspec import UNSET

from bridge.browser_tools import browser_resources, resource_reader, resource_watches
from bridge.browser_tools.page.bound_documents import (
    get_documents,
    get_untouched_documents,
    has_left,
    has_run_commands,
    unbind_documents,
)
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.result_size import MAX_SERIALIZED, cut_page_text
from bridge.browser_tools.session import permissions, tab_access
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.client_prompts import ClientPrompts, ProgressReports
from bridge.browser_tools.session.session_state import SessionState
from bridge.browser_tools.session.tool_services import ToolServices
from bridge.browser_tools.tool import Tool, chosen_action
from bridge.browser_tools.tool_output import ToolError, ToolResult, make_failure, make_success, with_quotes
from bridge.browser_tools.tools import (
    batch,
    browsers,
    computer,
    file_upload,
    fill_form,
    find,
    form_input,
    get_page_text,
    gif_creator,
    javascript,
    navigate,
    read_console_messages,
    read_network_requests,
    read_page,
    resize_window,
    shortcuts,
    tabs,
    turn_answer,
    update_plan,
    wait_for,
)
from bridge.config.settings import BrowserSettings
from bridge.errors import CallError, NotOfferedError, ReportedError
from bridge.hub import tool_result
from bridge.hub.argument_validation import NOTHING, Arguments
from bridge.hub.audit_records import CallRecord
from bridge.hub.client_session import Session
from bridge.hub.consent.user_prompts import client_name
from bridge.hub.primitives.own_resource import OwnResource
from bridge.hub.rules.root_sites import NO_ROOTS, read_roots
from bridge.hub.tool_definition import OWN_META
from bridge.hub.transport import NO_OBSERVER, CallObserver
from bridge.state.site_approvals import ApprovalsError
from native_host.protocol.wire import Code

IDLE_S = 20.0
"""A tab that was not used for so long is let go: the browser takes its warning of a debugger away."""
DOWNLOADING_S = 600.0
"""The same for a tab with a download that goes on, so that its end can be reported."""
CHOOSER_S = 2.0
"""Seconds after an action in which a file chooser counts as its effect; a busy page opens one late."""

_THEN: dict[int, str] = {
    Code.NO_SUCH_TAB: "tabs_context lists your tabs.",
    Code.NAVIGATED: "Look at the page again, with read_page or a screenshot.",
    Code.TIMED_OUT: (
        "Look at the page, with read_page or a screenshot, before you call again; if that takes too long "
        "as well, navigate loads another page in this tab."
    ),
}
"""Next step by code, where it differs from that of page tools."""

_ASK_FOR_MORE = "give max_chars for more, where the tool has it, or ask for a part"
_BUSY = (
    "The page is busy, perhaps with a script that does not end, and has not answered. Nothing was changed. "
    "Wait and call again, or load a page in this tab anew with navigate."
)

FAMILIES: tuple[tuple[Tool[Any, CallContext], ...], ...] = (
    navigate.TOOLS,
    tabs.TOOLS,
    resize_window.TOOLS,
    read_page.TOOLS,
    find.TOOLS,
    get_page_text.TOOLS,
    form_input.TOOLS,
    fill_form.TOOLS,
    wait_for.TOOLS,
    file_upload.TOOLS,
    computer.TOOLS,
    gif_creator.TOOLS,
    read_console_messages.TOOLS,
    read_network_requests.TOOLS,
    javascript.TOOLS,
    update_plan.TOOLS,
    shortcuts.TOOLS,
    batch.TOOLS,
    browsers.TOOLS,
    turn_answer.TOOLS,
)


def all_tools() -> dict[str, Tool[Any, CallContext]]:
    """Return the browser tools by name, in the order of the tool list."""
    return {tool.name: tool for family in FAMILIES for tool in family}


class ToolRunner:
    """Runs the browser tools of all sessions."""

    def __init__(self, services: ToolServices) -> None:
        self._services = services
        self._sessions: dict[str, Session] = {}
        self._states: dict[str, SessionState] = {}

    def set_settings(self, settings: BrowserSettings) -> None:
        """Apply other settings, also to calls that run."""
        self._services.settings = settings

    def allowed_sites(self, session_id: str) -> list[str]:
        """Return the origins that the user's approvals and the client's roots let a session use."""
        session = self._sessions.get(session_id)
        if session is None:
            return []
        settings = self._services.settings
        roots = self.state_of(session).state_of(permissions.KnownRoots).roots or NO_ROOTS
        if settings.sites == "any":
            return list(roots.sites)
        approved = self._approved_sites(session)
        return approved if settings.roots != "strict" else [site for site in approved if roots.includes(site)]

    def _approved_sites(self, session: Session) -> list[str]:
        allowed, client = self.state_of(session).state_of(permissions.SessionGrants), client_name(session)
        granted = {site for site, _ in set.union(allowed.sites, *allowed.once)}
        try:
            stored = self._services.approvals.read_all()
        except ApprovalsError:
            stored = []  # no call passes either, and says why
        granted |= {it.origin for it in stored if it.approval.covers("read", client)}
        return sorted(granted)

    def state_of(self, session: Session) -> SessionState:
        """Return the state of a session, which is made at its first call."""
        return self._states.setdefault(session.id, SessionState())

    def pictures(self, session: Session) -> Iterator[OwnResource]:
        """Yield the pictures of a session, the latest first."""
        state = self._states.get(session.id)
        for number, each in enumerate(state.pictures.newest_first() if state else ()):
            size = len(each.data)
            yield OwnResource(each.uri, each.id, "", each.mime_type, size=size, order=f"picture {number:04}")

    def release(self, session: Session) -> None:
        """Release what an ended session has."""
        self._sessions.pop(session.id, None)
        if state := self._states.pop(session.id, None):
            state.release_tabs()

    async def run(self, recording: CallRecord, caller: CallObserver) -> tool_result.Answer:
        """Run the tool that the recording names, and record where it did.

        Raises:
            CallError: the call could not be made; return it to the client.
        """
        session = recording.session
        context = self._make_context(recording, caller, self._services.tools[recording.name])
        with self._with_approval(context):
            await self._prepare(context)
            try:
                answer = await self._run_caught(context, recording.arguments)
                if "max_chars" not in recording.arguments.value:
                    answer = cut_page_text(answer, MAX_SERIALIZED, _ASK_FOR_MORE)
                return make_success(answer, is_structured=session.is_structured)
            except ToolError as refusal:
                quotes = [*context.quotes, *refusal.quotes]
                return make_failure(str(refusal), quotes, is_structured=session.is_structured)

    async def read_resource(self, recording: CallRecord, caller: CallObserver, uri: str) -> bytes:
        """Return an MCP ReadResourceResult without its `_meta` (JSON). The current tab stays.

        Raises:
            NotOfferedError: there is no such resource.
            CallError: it could not be read; return it to the client.
        """
        if uri.startswith(browser_resources.PICTURES):
            contents = self._read_picture(recording.session, uri)
        else:
            try:
                contents = await self._read_with_tool(recording, caller, uri)
            except ToolError as refusal:
                raise _format_refusal(refusal) from None
        return msgspec.json.encode({"contents": [contents]})

    def _read_picture(self, session: Session, uri: str) -> dict[str, Any]:
        picture = self.state_of(session).pictures.get_picture(uri.removeprefix(browser_resources.PICTURES))
        if picture is None:
            raise NotOfferedError(uri)
        mark = {f"{OWN_META}untrusted": True}
        return {"uri": uri, "mimeType": picture.mime_type, "blob": picture.data, "_meta": mark}

    async def _read_with_tool(self, recording: CallRecord, caller: CallObserver, uri: str) -> dict[str, Any]:
        async def run(tool: Tool[Any, CallContext], arguments: dict[str, Any]) -> ToolResult:
            context = replace(self._make_context(recording, caller, tool), is_read=True)
            with self._with_approval(context):
                await self._prepare(context)
                return await self._run_caught(context, Arguments.of(arguments))

        tools = self._services.tools
        if uri == browser_resources.TABS:
            return await resource_reader.read_tabs(uri, tools, run)
        if wanted := browser_resources.parse_tab_uri(uri):
            if wanted.part == "pdf":
                self._check_channel(recording.session, "prints no PDF")
            return await resource_reader.read_tab(uri, wanted, tools, run)
        raise NotOfferedError(uri)

    async def admit_watch(self, recording: CallRecord, caller: CallObserver, uri: str) -> None:
        """Check that a session may watch a resource; the user may be asked. Raises as `read_resource`."""
        if uri.startswith(browser_resources.PICTURES):
            self._read_picture(recording.session, uri)
            return
        tool, arguments = resource_reader.admission_of(uri, self._services.tools)
        context = replace(self._make_context(recording, caller, tool), is_read=True)
        with self._with_approval(context):
            await self._prepare(context)
            try:
                self._check_channel(recording.session, "reports no changes of its tabs")
                await self._run_caught(context, Arguments.of(arguments))
            except ToolError as refusal:
                raise _format_refusal(refusal) from None
        wanted = browser_resources.parse_tab_uri(uri)
        given_tool = tool.for_input(tool.read_arguments(Arguments.of(arguments)))
        tab = UNSET if wanted is None or wanted.tab is None else wanted.tab
        if wanted and replace(context, tool=given_tool, approved_once=set()).peek_tab(tab) is None:
            detail = "the user has allowed this once, and a subscription lasts"
            raise CallError(Code.NOT_ALLOWED, detail, handed=False, then="Ask for the site's approval first.")

    async def watch_resource(
        self,
        session: Session,
        uri: str,
        tell: Callable[[], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `tell` whenever a resource may have changed. Runs until cancelled.

        Raises:
            NotOfferedError: there is no such resource.
        """
        tool, arguments = resource_reader.admission_of(uri, self._services.tools)
        tool = tool.for_input(tool.read_arguments(Arguments.of(arguments)))
        self._sessions.setdefault(session.id, session)

        def make_context() -> CallContext:
            recording = CallRecord(session, uri, NOTHING, trio.current_time(), kind="subscription")
            return replace(self._make_context(recording, NO_OBSERVER, tool), is_read=True)

        await resource_watches.watch_resource(uri, make_context, tell, task_status)

    def _check_channel(self, session: Session, what: str) -> None:
        """Check that a session works in a browser with mcpb's extension. Raises ToolError."""
        if tab_access.channel_in_use(self._services.registry, self.state_of(session), session):
            raise ToolError(f"The extension of Claude in Chrome {what}. Use a browser with mcpb's extension.")

    def _make_context(
        self, recording: CallRecord, caller: CallObserver, tool: Tool[Any, CallContext]
    ) -> CallContext:
        session, services = recording.session, self._services
        prompts = ClientPrompts(services, session, caller, ProgressReports(caller.on_progress))
        return CallContext(
            services, session, self.state_of(session), prompts, recording, tool, self._with_limit
        )

    @contextmanager
    def _with_approval(self, context: CallContext) -> Iterator[None]:
        """Let what the user approves for this call alone hold until its end."""
        allowed, session = context.state.state_of(permissions.SessionGrants), context.session
        if session.id not in self._sessions:
            self._sessions[session.id] = session
            self._services.sites_changed()
        allowed.once.append(context.approved_once)
        try:
            yield
        finally:
            allowed.once = [each for each in allowed.once if each is not context.approved_once]
            if context.approved_once:
                self._services.sites_changed()

    async def _prepare(self, context: CallContext) -> None:
        """Wait for browsers, and for the client's roots where they decide about sites."""
        await context.wait_discovered()
        await self._learn_roots(context.session, context.prompts)

    async def prepare_tab(self, session: Session, caller: CallObserver) -> None:
        """Learn which sites a session may open, before a tab is opened for a page's tool."""
        if session.id not in self._sessions:
            self._sessions[session.id] = session
            self._services.sites_changed()
        await self._learn_roots(session, ClientPrompts(self._services, session, caller))

    async def _learn_roots(self, session: Session, prompts: ClientPrompts) -> None:
        if self._services.settings.roots != "strict":
            return
        listed = await prompts.list_roots()
        if listed is None:
            return  # those that the client listed last hold, also for the session's other calls
        roots = read_roots(listed)
        known = self.state_of(session).state_of(permissions.KnownRoots)
        if roots != known.roots:
            known.roots = roots
            self._services.sites_changed()

    async def _run_caught(self, context: CallContext, arguments: Arguments) -> ToolResult:
        try:
            return await self._run_within_limit(context, arguments)
        except CallError as error:
            error.then = error.then or _THEN.get(error.code, "")
            raise

    async def _run_within_limit(self, context: CallContext, arguments: Arguments) -> ToolResult:
        tool = context.tool
        given = tool.read_arguments(arguments)
        context.recording.action = chosen_action(given)
        context = replace(context, tool=tool.for_input(given))
        decision = context.permissions.judge_tool()
        if decision.outcome == "no" and not (tool.is_for_paused and decision.code is Code.PAUSED):
            raise CallError(decision.code, decision.rule, handed=False)
        if channel := tab_access.channel_in_use(self._services.registry, context.state, context.session):
            # Few have one.
            from bridge.browser_tools import forwarded_tools  # noqa: PLC0415

            if tool.name not in forwarded_tools.HERE:
                return await forwarded_tools.run_forwarded(context, channel, given, arguments)
        try:
            with context.prompts.limit_time(tool.limit_s) as limit:
                answer = with_quotes(await _run_judged(tool, given, context), context.quotes)
                context.quotes.clear()
        except CallError as error:
            if error.code == Code.TIMED_OUT and error.handed and context.tool.is_read_only:
                raise ToolError(_BUSY) from None
            if error.code == Code.PAUSED and not context.tool.is_read_only and has_run_commands():
                # The pause came during the call: earlier commands, such as a first key, have run.
                error.handed = True
            raise
        if limit.cancelled_caught:
            raise CallError(Code.TIMED_OUT, f"{tool.name} may take {tool.limit_s:g} s", handed=True)
        return answer

    async def _with_limit(
        self, context: CallContext, name: str, arguments: dict[str, Any], step: int
    ) -> ToolResult:
        """Another tool, within a call of one that reports progress itself."""
        caller = msgspec.structs.replace(context.prompts.caller, on_progress=None)
        within = replace(
            context, tool=self._services.tools[name], prompts=replace(context.prompts, caller=caller)
        )
        if not step:
            return await self._run_caught(within, Arguments.of(arguments))
        return await self._run_step(within, Arguments.of(arguments), step)

    async def _run_step(self, context: CallContext, arguments: Arguments, step: int) -> ToolResult:
        """Run a step of a batch, with a record of its own."""
        unbind_documents()
        batch_id, began = context.recording.batch, trio.current_time()
        recording = CallRecord(
            context.session,
            context.tool.name,
            arguments,
            began,
            own_name=context.tool.name,
            batch=batch_id,
            step=step,
        )
        how: tool_result.Answer | Exception | None = None  # cancelled, unless it ends
        try:
            answer = await self._run_caught(replace(context, recording=recording), arguments)
            how = tool_result.Answer(b"", is_error=answer.is_error)
        except ToolError:
            how = tool_result.Answer(b"", is_error=True)
            raise
        except Exception as error:
            how = error
            raise
        finally:
            context.recording.site, context.recording.own_name = recording.site, context.recording.name
            context.recording.keep_step(recording.finish(how, trio.current_time()))
        return answer

    def release_unused_tabs(self, now: float) -> None:
        """Release tabs that are gone or were not used for IDLE_S."""
        tabs = {
            (browser.host, tab) for browser in self._services.registry.all_browsers() for tab in browser.tabs
        }
        for state in self._states.values():
            for at, page in list(state.pages.items()):
                if at not in tabs:
                    state.pages.pop(at).release()
                elif page.used_at < now - _idle_s(page) and not page.holds and page.dialog is None:
                    page.release()
                elif page.keeps_choosers and page.used_at < now - CHOOSER_S and not page.in_hand.locked():
                    page.show_choosers()


def _format_refusal(refusal: ToolError) -> ReportedError:
    """Return the error of a request that is no tool call."""
    match refusal:
        case tab_access.NoBrowserError():
            return ReportedError(Code.GONE, str(refusal), handed=False)
        case tab_access.NoTabError():
            return ReportedError(Code.NO_SUCH_TAB, str(refusal), handed=False)
        case _:
            return ReportedError(Code.INTERNAL_ERROR, str(refusal), handed=True)


def _idle_s(page: Page) -> float:
    return DOWNLOADING_S if page.downloads.has_running else IDLE_S


async def _run_judged(tool: Tool[Any, CallContext], given: Any, context: CallContext) -> ToolResult:
    """Run a tool; once more if its tab left before anything was done, or while it was read: judged anew."""
    try:
        return await tool.run(given, context)
    except CallError as error:
        may_repeat = error.code == Code.NAVIGATED if context.tool.is_read_only else has_left(error)
        left = get_documents() if context.tool.is_read_only else get_untouched_documents()
        if not may_repeat or not left:
            raise
    await context.wait_announced(left)
    return await tool.run(given, context)
