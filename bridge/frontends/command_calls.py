"""Requests of a command line to one session of the hub: lists, calls, reads of resources, prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.errors import CallError, NotOfferedError, UnknownToolError, format_request_error, to_mcp
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.consent.page_tool_settings import Primitive
from bridge.hub.meta_tools import LIST_PAGE_TOOLS
from bridge.hub.operation import OnFinished, Operation, wait_outcome
from bridge.hub.page_call import Outcome
from bridge.hub.primitives.pagination import PAGE_RANK, Key
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver
from bridge.links.remote_names import PREFIX, parse_uri
from native_host.ipc.named_sessions import (
    CallResult,
    CallTool,
    GetPrompt,
    HubRequest,
    ListPrompts,
    ListResources,
    ListTools,
    PromptList,
    ReadResource,
    Rejection,
    Reply,
    ResourceList,
    ToolList,
)
from native_host.system.program_name import format_command


class CommandCalls:
    """Calls of one session. A name means the tool that it was last listed for."""

    def __init__(self, router: Router, session: Session) -> None:
        self._router = router
        self._session = session
        self._listed: dict[str, Mapping[str, Any]] = {}
        """The schema of each argument, by the name of the tool."""

    async def answer(self, request: HubRequest, observer: CallObserver) -> Reply:
        """Run a request, and wait for its reply."""
        match request:
            case ListTools():
                return await self.list_tools()
            case CallTool():
                return await self.call(request, observer)
            case ListResources():
                return await self.list_resources()
            case ReadResource():
                return await self.read(request, observer)
            case ListPrompts():
                return await self.list_prompts()
            case GetPrompt():
                return await self.get_prompt(request, observer)

    async def list_tools(self, name: str = "") -> ToolList:
        """Return the tool list, and bind its names to these tools. With a name, wait for that tool only."""
        tools = await self._router.list_tools_decoded(self._session, name)
        self._listed = {tool["name"]: argument_schemas(tool) for tool in tools}
        # A `Problem` is a str with commands, which msgspec does not encode.
        return ToolList(tools=tools, missing=str(self._router.connection_problem()))

    async def call(self, request: CallTool, observer: CallObserver) -> CallResult | Rejection:
        """Run a call, and wait for it; a tool that was not listed yet is listed first."""
        if request.name not in self._listed:
            await self.list_tools(request.name)
        schemas = self._current_schemas(request.name)
        parsed = {key: parse_value(text, schemas.get(key)) for key, text in request.texts}
        arguments = Arguments.of({**request.arguments, **parsed})
        try:
            result = await self._router.call(self._session, request.name, arguments, observer)
        except UnknownToolError as error:
            if error.owner:
                close = _name_close(request.name, list(self._listed))
                owner = f"{error.owner[0].upper()}{error.owner[1:]}"
                return Rejection(message=f"{owner} has no tool {request.name!r}. {close}".rstrip())
            if request.name.startswith(PREFIX):
                server = request.name.removeprefix(PREFIX).partition("_")[0]
                close = _name_close(request.name, list(self._listed))
                return Rejection(message=_explain_unknown_server(request.name, server, close))
            problem = self._router.connection_problem()
            return Rejection(message=_explain_unknown(request.name, self._listed, problem))
        return CallResult(result=msgspec.Raw(result))

    async def list_resources(self) -> ResourceList:
        """Return all resources and resource templates, as MCP clients get them page after page."""
        keys, resources = await self._router.list_resources(self._session)
        template_keys, templates = await self._router.list_templates()
        return ResourceList(
            resources=[*map(msgspec.Raw, resources)],
            templates=[*map(msgspec.Raw, templates)],
            missing=self._explain_missing([*keys, *template_keys], "resources"),
        )

    async def read(self, request: ReadResource, observer: CallObserver) -> CallResult | Rejection:
        """Read a resource."""

        def begin_read(on_finished: OnFinished[Outcome]) -> Operation:
            return self._router.begin_read(self._session, request.uri, on_finished, observer)

        outcome = await wait_outcome(begin_read)
        if isinstance(outcome, NotOfferedError):
            message = f"There is no resource {request.uri!r}."
            is_own = self._router.is_own_resource(self._session, request.uri)
            if not is_own and (parsed := parse_uri(request.uri)):
                return Rejection(message=_explain_unknown_server(request.uri, parsed[0]))
            if not is_own:
                then = self._missing_browser() or f"To see what there is, run: {format_command('resources')}"
                message = f"{message} {then}"
            return Rejection(message=message)
        return _make_reply(outcome)

    async def list_prompts(self) -> PromptList:
        """Return all prompts, as MCP clients get them page after page."""
        keys, prompts = await self._router.list_prompts()
        missing = self._explain_missing(keys, "prompts")
        return PromptList(prompts=[*map(msgspec.Raw, prompts)], missing=missing)

    async def get_prompt(self, request: GetPrompt, observer: CallObserver) -> CallResult | Rejection:
        """Get a prompt."""
        arguments = Arguments.of(request.arguments)

        def begin_get(on_finished: OnFinished[Outcome]) -> Operation:
            return self._router.begin_get_prompt(
                self._session, request.name, arguments, on_finished, observer
            )

        outcome = await wait_outcome(begin_get)
        if isinstance(outcome, NotOfferedError):
            keys, _ = await self._router.list_prompts()
            hint = _name_close(request.name, [key.name for key in keys])
            then = self._missing_browser() or f"To see what there is, run: {format_command('prompts')}"
            return Rejection(message=f"There is no prompt {request.name!r}. {hint}{then}")
        return _make_reply(outcome)

    def _explain_missing(self, listed: Iterable[Key], what: Primitive) -> str:
        """Return the reason why no page has an entry in a list; empty if one has."""
        if any(key.rank == PAGE_RANK for key in listed):
            return ""
        if missing := self._missing_browser():
            return missing
        document = self._router.find_unlisted(what)
        if document is None:
            return f"No open page offers a {what.removesuffix('s')}."
        if refusal := document.refusal or self._router.consent.document_refusal(document, what):
            return f"Pages offer {what}, but they are not listed: {refusal}."
        command = format_command(f"call {LIST_PAGE_TOOLS}")
        return f"Pages offer {what}, but you are asked about their sites first. To see them, run: {command}"

    def _missing_browser(self) -> str:
        """Return the reason why no browser is connected; empty if one is."""
        return "" if self._router.registry.browsers() else str(self._router.connection_problem())

    def _current_schemas(self, name: str) -> Mapping[str, Any]:
        """Return the schema of each argument: a page may have changed its tool since it was listed."""
        if current := self._router.input_schema(self._session, name):
            return argument_schemas({"inputSchema": msgspec.json.decode(current)})
        return self._listed.get(name, {})


def argument_schemas(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of each argument that a tool declares."""
    properties = tool["inputSchema"].get("properties")
    return properties if isinstance(properties, dict) else {}


def parse_value(text: str, schema: Any) -> Any:
    """JSON where it is JSON, else the text; always the text where the tool wants one."""
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _explain_unknown(name: str, listed: Iterable[str], missing: str) -> str:
    """Format the error for a name that is not offered: similar names, and why no page offers a tool."""
    if any(tool.name == name for tool in read_definitions()):
        return f"{name} is a browser tool, and browser.enabled is false in config.toml: there are none."
    then = missing or f"To see what there is, run: {format_command('tools')}"
    return f"No page offers {name!r}. {_name_close(name, list(listed))}{then}"


def _explain_unknown_server(name: str, server: str, close: str = "") -> str:
    """Format the error for a tool or resource of a remote server that is not configured, or not enabled."""
    then = f"To see your remote servers, run: {format_command('remote list')}"
    return f"There is no {name!r}: no remote server {server!r} is configured, or it is off. {close}{then}"


def _name_close(name: str, names: list[str]) -> str:
    """Return a sentence with the names that are similar to a name; empty if none is."""
    close = [known for known in names if known.endswith(f"_{name}")] or get_close_matches(name, names)
    return f"Close to it: {', '.join(close)}. " if close else ""


def _make_reply(outcome: Outcome) -> CallResult | Rejection:
    """Return the reply with the outcome of a request that calls no tool."""
    match outcome:
        case bytes():
            return CallResult(result=msgspec.Raw(outcome))
        case CallError():
            return Rejection(message=format_request_error(outcome))
        case Exception():
            return Rejection(message=to_mcp(outcome).message)
    raise AssertionError("this is no result of a tool")
