"""Shortcuts: named sequences of tools, which the user writes in `shortcuts.toml`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from bridge.browser_tools.result_size import MAX_RESULT_CHARS
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import batch
from bridge.browser_tools.tools.batch import Batch, Step
from bridge.config.shortcuts_file import Shortcut, ShortcutsError, read_shortcuts
from native_host.system.home_layout import HomeLayout

# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────


# ── Parameters ──────────────────────────────────────────────────────────────────────────────────────────────

_WRITTEN: dict[str, Callable[[str], str]] = {
    "": str,
    "url": lambda value: quote(value, safe=""),
    "json": json.dumps,
}
"""Formats of a value: `{name}` unchanged, `{name:url}` in an address, `{name:json}` in a script."""
_PLACE = re.compile(r"\{([A-Za-z0-9_-]+)(?::(url|json))?\}")


class ShortcutCommandError(Exception):
    """A command names no shortcut, or its words do not fit the shortcut's parameters."""


def parse_values(shortcut: Shortcut, words: str) -> dict[str, str]:
    """Parse the parameters after a command: `name=value`, or values alone, in order.

    Raises:
        ShortcutCommandError: they do not fit; return the text to the client.
    """
    try:
        parts = shlex.split(words)
    except ValueError as error:
        raise ShortcutCommandError(f"{words}: {error}. Write a quotation mark as \\' or \\\"") from None
    known = [parameter.name for parameter in shortcut.parameters]
    found: dict[str, str] = {}
    alone = []
    for part in parts:
        name, is_named, value = part.partition("=")
        if is_named and name in known:
            found[name] = value
        else:
            alone.append(part)
    free = [name for name in known if name not in found]
    if len(alone) > len(free):
        extra = alone[len(free)]
        raise ShortcutCommandError(f"“{extra}” is too much for {shortcut.usage}: quote what belongs together")
    found |= zip(free, alone, strict=False)
    for parameter in shortcut.parameters:
        if parameter.default is not None:
            found.setdefault(parameter.name, parameter.default)
    if missing := [name for name in known if name not in found]:
        raise ShortcutCommandError(f"{', '.join(missing)} must be given: {shortcut.usage}")
    return found


def make_steps(shortcut: Shortcut, given: Mapping[str, str]) -> list[Step]:
    """Return the steps to run. Braces that name no parameter stay: scripts contain them too."""
    return [Step(name=step.tool, input=_fill_value(step.input, given)) for step in shortcut.steps]


def _fill_value(value: Any, given: Mapping[str, str]) -> Any:
    match value:
        case str():
            return _PLACE.sub(lambda place: _format_value(place, given), value)
        case dict():
            return {name: _fill_value(member, given) for name, member in value.items()}
        case list():
            return [_fill_value(item, given) for item in value]
        case _:
            return value


def _format_value(place: re.Match[str], given: Mapping[str, str]) -> str:
    name, way = place[1], place[2] or ""
    return _WRITTEN[way](given[name]) if name in given else place[0]


# ── The tools ───────────────────────────────────────────────────────────────────────────────────────────────


class ListedParameter(msgspec.Struct, rename="camel"):
    """Parameter of a shortcut."""

    name: str
    description: str
    default: str | None


class ListedShortcut(msgspec.Struct, rename="camel"):
    """One that can be run."""

    id: str
    command: str
    usage: str
    title: str
    description: str
    parameters: list[ListedParameter]


class ShortcutsOutput(ToolOutput, kw_only=True):
    """All shortcuts."""

    shortcuts: list[ListedShortcut]


class ExecuteOutput(Batch, kw_only=True):
    """Result of a shortcut."""

    success: bool
    shortcut: str


class ListShortcuts(ToolInput):
    """Input of `shortcuts_list`."""

    tab_id: (
        Annotated[int, Meta(description="Has no effect: shortcuts are the same for all tabs.")] | UnsetType
    ) = field(name="tabId", default=UNSET)


class ExecuteShortcut(ToolInput):
    """Input of `shortcuts_execute`."""

    shortcut_id: (
        Annotated[str, Meta(description="Which one, by its id. Its parameters then stand in `command`.")]
        | UnsetType
    ) = field(name="shortcutId", default=UNSET)
    command: (
        Annotated[
            str,
            Meta(
                description=(
                    "Which one and with what, as `/report apples` or `/report query='red apples'`; the slash "
                    "may be left out."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    tab_id: MaybeTab = field(name="tabId", default=UNSET)


async def shortcuts_list(_given: ListShortcuts, context: CallContext) -> ToolResult:
    """List the shortcuts."""
    listed = [_list_shortcut(shortcut) for shortcut in _read_shortcuts(context)]
    path = HomeLayout(context.services.home).shortcuts
    if not listed:
        return ToolResult(
            ShortcutsOutput(
                message=f"There are no shortcuts yet. The user keeps them in {path}.", shortcuts=[]
            )
        )
    lines = "\n".join(map(_format_shortcut, listed))
    return ToolResult(
        ShortcutsOutput(message=f"Shortcuts, run by shortcuts_execute:\n{lines}", shortcuts=listed)
    )


def _format_shortcut(shortcut: ListedShortcut) -> str:
    about = ". ".join(filter(None, (shortcut.title.rstrip("."), shortcut.description)))
    return f"{shortcut.usage}: {about}" if about else shortcut.usage


async def shortcuts_execute(given: ExecuteShortcut, context: CallContext) -> ToolResult:
    """Run one, to its end or its first failure."""
    try:
        shortcut, words = _find_shortcut(given, _read_shortcuts(context))
        to_run = make_steps(shortcut, parse_values(shortcut, words))
    except ShortcutCommandError as error:
        raise ToolError(f"{error}. Nothing was run.") from None
    if given.tab_id is not UNSET:
        await context.use_tab(given.tab_id, leaves=True)  # the steps' current tab
    ran = await batch.run_in_order(context, to_run)
    told = ExecuteOutput(
        message=f"Shortcut {shortcut.name}:\n{ran.message}",
        results=ran.results,
        failed_at=ran.failed_at,
        success=ran.failed_at is None,
        shortcut=shortcut.name,
    )
    return ran.make_result(told)


def _read_shortcuts(context: CallContext) -> Sequence[Shortcut]:
    try:
        return read_shortcuts(context.services.home)
    except ShortcutsError as error:
        raise ToolError(f"The shortcuts cannot be used: {error}. Tell the user; nothing was run.") from None


def _find_shortcut(given: ExecuteShortcut, known: Sequence[Shortcut]) -> tuple[Shortcut, str]:
    """Return the shortcut, and the words after its command."""
    command = "" if given.command is UNSET else given.command.strip()
    first, _, rest = command.removeprefix("/").partition(" ")
    if given.shortcut_id is UNSET:
        if not first:
            raise ShortcutCommandError("Give shortcutId or command; shortcuts_list has both")
        return _find_by_name(first, known), rest
    shortcut = _find_by_name(given.shortcut_id, known)
    is_repeated = command.startswith("/") or first == shortcut.name
    return shortcut, rest if is_repeated else command


def _find_by_name(name: str, known: Sequence[Shortcut]) -> Shortcut:
    for shortcut in known:
        if shortcut.name == name.removeprefix("/"):
            return shortcut
    names = ", ".join(shortcut.name for shortcut in known)
    there_are = (
        f"there are: {names}"
        if names
        else f"there are none yet: the user keeps them in {HomeLayout.shortcuts.name}"
    )
    raise ShortcutCommandError(f"There is no shortcut {name}; {there_are}")


def _list_shortcut(shortcut: Shortcut) -> ListedShortcut:
    parameters = [ListedParameter(each.name, each.description, each.default) for each in shortcut.parameters]
    about = shortcut.title, shortcut.description
    return ListedShortcut(shortcut.name, f"/{shortcut.name}", shortcut.usage, *about, parameters)


TOOLS = (
    Tool(
        name="shortcuts_list",
        title="Shortcuts",
        description=(
            "Lists the user's shortcuts: named sequences of browser steps, with their parameters. "
            "Look here when the user names a routine or a /command."
        ),
        search_hint="user shortcut macro routine",
        input_type=ListShortcuts,
        output_type=ShortcutsOutput,
        run=shortcuts_list,
        is_read_only=True,
    ),
    Tool(
        name="shortcuts_execute",
        title="Run a shortcut",
        description="Runs one of the user's shortcuts to its end, or to the first step that fails.",
        search_hint="run shortcut macro routine",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=ExecuteShortcut,
        output_type=ExecuteOutput,
        run=shortcuts_execute,
        is_destructive=True,
        limit_s=batch.LIMIT_S + batch.ENDING_S,
    ),
)
