"""Connection of one client of the published socket: its requests, and the order of their responses.

A request with a `tool_use_id` runs at once, and its response has that id. Requests without one run one after
the other: only the order identifies their responses. That product's own host sends every response to all
clients; here each goes to its client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.frontends.existing_channel import channel_results
from bridge.frontends.existing_channel.channel_arguments import accept_arguments
from bridge.frontends.existing_channel.channel_results import Content, make_failure
from bridge.frontends.existing_channel.channel_sessions import ChannelSessions
from bridge.frontends.existing_channel.permission_prompts import About, Permissions
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.operation import FINISHED, Operation
from bridge.hub.page_call import Outcome
from bridge.hub.router import Router
from bridge.hub.server_request import FORMS
from bridge.hub.transport import NO_OBSERVER, CallObserver
from bridge.mcp_session.call_observer import ClientFacingRequest, make_observer
from native_host.existing_channel import channel_messages as theirs
from native_host.protocol.validation_errors import describe_problem

MAX_OPEN = 256
_METHODS = (
    "This channel knows execute_tool, permission_response, get_bridge_identity and show_session_tab. "
    "Nothing was run."
)

OnContent = Callable[[Content], None]
Begin = Callable[[OnContent], Operation]
"""Begins something that is answered once, possibly before this returns."""
Show = Callable[[Session, Callable[[bool], None]], Operation]
"""Shows a session's tab to the user; reports whether it exists."""
Say = Callable[[bytes], object]
"""Sends a message. Never waits, never raises."""


class TooManyError(Exception):
    """Too many requests to reject each in its order: close the connection."""


class Serving(NamedTuple):
    """Services of all connections."""

    router: Router
    show: Show
    device_id: str
    """Device id by which clients distinguish this mcpb from other bridges."""


class _Params(msgspec.Struct):
    """Members that the `params` of any method may have."""

    tool_use_id: str | UnsetType = UNSET
    echo: Raw | UnsetType = UNSET
    session_keys: list[str] | UnsetType = UNSET
    local_pairing: Raw | UnsetType = UNSET
    sealed: Raw | UnsetType = UNSET


@dataclass(eq=False)
class _Open:
    """A request that has no answer yet."""

    tool_use_id: str | None
    tool: str
    session: Session | None
    pending: Operation = FINISHED


_request = msgspec.json.Decoder(theirs.Request)
_params = msgspec.json.Decoder(_Params)
_execute_tool = msgspec.json.Decoder(theirs.ExecuteTool)
_permission = msgspec.json.Decoder(theirs.PermissionResponse)


class Connection:
    """Nothing of it waits: answers are said when they are there."""

    def __init__(self, serving: Serving, agents: ChannelSessions, say: Say) -> None:
        self.agents = agents
        self._serving = serving
        self._say = say
        self._permissions = Permissions(say)
        self._open: dict[_Open, None] = {}
        self._in_turn: deque[Callable[[], None]] = deque()
        """Requests without an id that wait for their turn."""
        self._is_turn_taken = False
        self._is_taking_turns = False

    def handle_bodies(self, body: bytes) -> None:
        """Do what a message asks, now or when its turn comes.

        Raises:
            TooManyError: it asks too much at once.
        """
        try:
            request = _request.decode(body)
            params = _Params() if request.params is UNSET else _params.decode(request.params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = describe_problem(error)
            text = f'This is no request ({why}): send {{"method": …, "params": {{…}}}}. {_METHODS}'
            self._reject_request(None, text)
            return
        tool_use_id = None if params.tool_use_id is UNSET else params.tool_use_id
        try:
            self._handle_request(request, params, tool_use_id)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = describe_problem(error)
            self._reject_request(
                tool_use_id, f"The params of {request.method[:60]} cannot be used: {why}. Nothing was run."
            )

    def close(self, why: str = "") -> None:
        """Cancel open calls; send `why` to the client unless it is empty."""
        self._in_turn.clear()
        opened, self._open = list(self._open), {}
        for each in opened:
            each.pending.cancel()
            if why:
                self._say(channel_results.make_message(each.tool_use_id, make_failure(why)))

    # ── What is asked ───────────────────────────────────────────────────────────────────────────────────────

    def _handle_request(self, request: theirs.Request, params: _Params, tool_use_id: str | None) -> None:
        raw = b"{}" if request.params is UNSET else bytes(request.params)
        if params.local_pairing is not UNSET or params.sealed is not UNSET:
            text = "Pairing is not offered here: only this user can open this socket. Speak without it."
            self._reject_request(tool_use_id, text)
            return
        match request.method:
            case "execute_tool":
                self._execute_tool(_execute_tool.decode(raw), tool_use_id)
            case "permission_response":
                self._permissions.handle_response(_permission.decode(raw))
            case "get_bridge_identity":
                told = {"bridge_device_id": self._serving.device_id, **_echo_ids(params)}
                self._begin_request(_Open(tool_use_id, "", None), _at_once({"result": told}))
            case "show_session_tab":
                self._begin_request(_Open(tool_use_id, "", None), partial(self._show_tab, params))
            case method:
                self._reject_request(tool_use_id, f"Unknown method: {method[:60]}. {_METHODS}")

    def _execute_tool(self, call: theirs.ExecuteTool, tool_use_id: str | None) -> None:
        if call.client_id == theirs.CLIENT_ID:
            self._reject_request(tool_use_id, "This socket is mcpb's own: it would speak with itself.")
            return
        if (session := self.agents.session_of(call, self._busy_sessions())) is None:
            text = "Too many sessions of this connection are at work: wait for an answer, then call again."
            self._reject_request(tool_use_id, text)
            return
        self._begin_request(_Open(tool_use_id, call.tool, session), partial(self._begin_call, call, session))

    def _begin_call(self, call: theirs.ExecuteTool, session: Session, on_content: OnContent) -> Operation:
        arguments, left_out = accept_arguments(call.tool, bytes(call.args))

        def on_done(outcome: Outcome) -> None:
            on_content(channel_results.format_outcome(call.tool, outcome, left_out))

        caller = self._make_observer(call, arguments)
        return self._serving.router.begin(session, call.tool, arguments, on_done, caller)

    def _make_observer(self, call: theirs.ExecuteTool, arguments: Arguments) -> CallObserver:
        """Return the observer of a call; only clients that support permission prompts can be asked."""
        if not call.handle_permission_prompts:
            return NO_OBSERVER
        tool_use_id = "" if call.tool_use_id is UNSET else call.tool_use_id

        async def ask_user(asked: ClientFacingRequest) -> bytes:
            about = About(tool_use_id, call.tool, self._site_of(arguments))
            return await self._permissions.ask_user(about, asked)

        return make_observer(FORMS, ask_user, None)

    def _site_of(self, arguments: Arguments) -> str:
        """Return the site of the tab that these arguments name."""
        running = self._serving.router.running_calls()
        return next((each.site.origin for each in running if each.arguments is arguments), "")

    def _show_tab(self, params: _Params, on_content: OnContent) -> Operation:
        def on_shown(is_shown: bool) -> None:
            on_content({"result": {"shown": is_shown, **_echo_ids(params)}})

        scopes = [] if params.session_keys is UNSET else params.session_keys
        session = self.agents.find_session(scopes)
        if session is None:
            on_shown(False)
            return FINISHED
        return self._serving.show(session, on_shown)

    # ── What is answered ────────────────────────────────────────────────────────────────────────────────────

    def _reject_request(self, tool_use_id: str | None, text: str) -> None:
        self._begin_request(_Open(tool_use_id, "", None), _at_once(make_failure(text)))

    def _begin_request(self, opened: _Open, begin: Begin) -> None:
        """Now, or when it has its turn."""
        if opened.tool_use_id is None:
            if len(self._open) >= MAX_OPEN:
                raise TooManyError(f"{MAX_OPEN} requests have no answer yet: wait for one")
            self._open[opened] = None
            self._in_turn.append(partial(self._run_next, opened, begin))
            self._take_turns()
        elif reason := self._no_room_for(opened.tool_use_id):
            self._say(channel_results.make_message(opened.tool_use_id, make_failure(reason)))
        else:
            self._open[opened] = None
            self._run_next(opened, begin)

    def _no_room_for(self, tool_use_id: str) -> str:
        if any(each.tool_use_id == tool_use_id for each in self._open):
            return (
                "A call with this tool_use_id has no answer yet: each needs one of its own. Nothing was run."
            )
        if len(self._open) >= MAX_OPEN:
            return f"{MAX_OPEN} requests have no answer yet: wait for one. Nothing was run."
        return ""

    def _run_next(self, opened: _Open, begin: Begin) -> None:
        def on_content(content: Content) -> None:
            if opened not in self._open:
                return
            del self._open[opened]
            self._say(channel_results.make_message(opened.tool_use_id, content, opened.tool))
            if opened.tool_use_id is None:
                self._is_turn_taken = False
                self._take_turns()

        pending = begin(on_content)
        if opened in self._open:
            opened.pending = pending

    def _take_turns(self) -> None:
        if self._is_taking_turns:  # what is answered at once leads here again
            return
        self._is_taking_turns = True
        while self._in_turn and not self._is_turn_taken:
            self._is_turn_taken = True
            self._in_turn.popleft()()
        self._is_taking_turns = False

    def _busy_sessions(self) -> Iterator[Session]:
        return (each.session for each in self._open if each.session)


def _at_once(content: Content) -> Begin:
    def begin(on_content: OnContent) -> Operation:
        on_content(content)
        return FINISHED

    return begin


def _echo_ids(params: _Params) -> dict[str, Raw]:
    return {} if params.echo is UNSET else {"echo": params.echo}
