"""Lists and calls of a command line: what `mcpb tools` and `mcpb call` ask of one session of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from bridge.browser_tools.tool_definitions import read_definitions
from bridge.errors import UnknownToolError
from bridge.hub.argument_validation import Arguments
from bridge.hub.client_session import Session
from bridge.hub.router import Router
from bridge.hub.transport import CallObserver
from native_host.ipc.named_sessions import CallResult, CallTool, Rejection, ToolList
from native_host.system.program_name import format_command


class CommandCalls:
    """Calls of one session. A name means the tool that it was last listed for."""

    def __init__(self, router: Router, session: Session) -> None:
        self._router = router
        self._session = session
        self._listed: dict[str, Mapping[str, Any]] = {}
        """The schema of each argument, by the name of the tool."""

    async def list_tools(self) -> ToolList:
        """Return the tool list, and bind its names to these tools."""
        tools = await self._router.list_tools_decoded(self._session)
        self._listed = {tool["name"]: argument_schemas(tool) for tool in tools}
        # A `Problem` is a str with commands, which msgspec does not encode.
        return ToolList(tools=tools, missing=str(self._router.connection_problem()))

    async def call(self, request: CallTool, observer: CallObserver) -> CallResult | Rejection:
        """Run a call, and wait for it; a tool that was not listed yet is listed first."""
        if request.name not in self._listed:
            await self.list_tools()
        schemas = self._current_schemas(request.name)
        parsed = {key: _parse_value(text, schemas.get(key)) for key, text in request.texts}
        arguments = Arguments.of({**request.arguments, **parsed})
        try:
            result = await self._router.call(self._session, request.name, arguments, observer)
        except UnknownToolError:
            problem = self._router.connection_problem()
            return Rejection(message=_explain_unknown(request.name, self._listed, problem))
        return CallResult(result=msgspec.Raw(result))

    def _current_schemas(self, name: str) -> Mapping[str, Any]:
        """Return the schema of each argument: a page may have changed its tool since it was listed."""
        if current := self._router.input_schema(self._session, name):
            return argument_schemas({"inputSchema": msgspec.json.decode(current)})
        return self._listed.get(name, {})


def argument_schemas(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of each argument that a tool declares."""
    properties = tool["inputSchema"].get("properties")
    return properties if isinstance(properties, dict) else {}


def _parse_value(text: str, schema: Any) -> Any:
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
    names = list(listed)
    close = [known for known in names if known.endswith(f"_{name}")] or get_close_matches(name, names)
    hint = f"Close to it: {', '.join(close)}. " if close else ""
    then = missing or f"To see what there is, run: {format_command('tools')}"
    return f"No page offers {name!r}. {hint}{then}"
