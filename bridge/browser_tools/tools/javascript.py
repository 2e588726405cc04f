"""`javascript_tool`: a client's script in a tab's page, in the page's own world.

`script_value.js` converts the value to text in the page. Only the values of cookies are masked in it, which
keeps them out of transcripts; a client that may run scripts in a page can do there what the user can.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType

from bridge.browser_tools.page.bound_documents import has_left
from bridge.browser_tools.page.devtools import CommandError, DialogError
from bridge.browser_tools.page.page import Page, ScriptEnd, read_script_end
from bridge.browser_tools.result_size import MAX_RESULT_CHARS, MaxChars, most_chars
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.errors import CallError
from native_host.protocol.untrusted_text import multi_line, truncate
from native_host.protocol.wire import Code

LIMIT_S = 10.0
"""For a script. The browser itself stops one that does nothing but run."""
SPARE_S = 1.0
PROBE_S = 3.0
"""Until a page that only waits has answered something else."""
"""Characters of a value."""
MAX_THROWN = 2000
THROWN_LINES = 6

_LED_AWAY = "The script has led the tab to another document, and its value is lost with the old one."
_THREW = "The script threw this; what it had done before is done."
_NOT_PARSED = (
    "It could not be parsed; nothing was run. `return` does not work at the top level: write the value last."
)


Kind = Literal["json", "string", "preview", "undefined", "thrown", "none"]


class Script(ToolInput):
    """Input of `javascript_tool`."""

    action: Literal["javascript_exec"]
    text: Annotated[str, Meta(min_length=1, description="`await` works at the top level, `return` does not.")]
    tab_id: MaybeTab = msgspec.field(name="tabId", default=UNSET)
    max_chars: MaxChars | UnsetType = UNSET


class ScriptOutput(ToolOutput):
    """Value or exception of a script."""

    tab_id: int
    type: Kind
    """`preview`: JSON with what it has no words for in brackets. `none`: the script has not ended, or "
    "left."""
    result: str = ""


class _Value(msgspec.Struct):
    """Result of `script_value.js`."""

    type: Literal["json", "string", "preview", "undefined"]
    text: str
    length: int


class _Script(NamedTuple):
    """As it is run."""

    text: str
    max_chars: int
    """Characters of its value that come back."""
    is_boxed: bool
    """In an array: a value of any size is only referred to by what comes back."""


class _ThrownError(Exception):
    """The script threw; the text is the page's."""

    has_run: ClassVar[bool] = True


class _UnparsedError(_ThrownError):
    """It is no script."""

    has_run = False


async def javascript_tool(given: Script, context: CallContext) -> ToolResult:
    """Run it, and tell what came of it."""
    place = await context.use_tab(given.tab_id)
    page = context.page_of(place)
    script = await _compile_script(page, given.text, most_chars(given.max_chars))
    told = await _run_script(page, script, page.number)
    if page.origin and not context.may_see(page.origin):  # Its document is unknown by now.
        told = ScriptOutput(message=_LED_AWAY, tab_id=page.number, type="none")
    if told.type != "none" or not page.dialog:
        await page.wait_settled()
    told.message += context.take_notes(page)
    return ToolResult(told, told.result, place.tab.origin, is_error=told.type == "thrown")


async def _run_script(page: Page, script: _Script, tab_id: int) -> ScriptOutput:
    try:
        with trio.move_on_after(LIMIT_S + SPARE_S):
            value = await _evaluate_script(page, script)
            return _with_result(_describe_value(value, script.max_chars), tab_id, value.type, value.text)
        return ScriptOutput(message=await _given_up(page), tab_id=tab_id, type="none")
    except _ThrownError as error:
        return _with_result(_THREW if error.has_run else _NOT_PARSED, tab_id, "thrown", str(error))
    except DialogError as error:
        return ScriptOutput(
            message=f"The script runs, and waits in a dialog. {error}", tab_id=tab_id, type="none"
        )
    except (CommandError, CallError) as error:
        return ScriptOutput(message=_describe_interruption(error), tab_id=tab_id, type="none")


def _with_result(message: str, tab_id: int, kind: Kind, result: str) -> ScriptOutput:
    return ScriptOutput(message=message, tab_id=tab_id, type=kind, result=result, untrusted=("result",))


def _describe_value(value: _Value, max_chars: int) -> str:
    about = {
        "json": "The script's value, as JSON.",
        "string": f"The script's value, a string of {value.length} characters.",
        "preview": "The script's value; what JSON has no words for is in brackets.",
        "undefined": "The script has run, and its last value is undefined.",
    }[value.type]
    if value.length > max_chars:
        about += (
            f" It is cut at {max_chars} of {value.length} characters: let the script pick what you need, or "
            "give a larger max_chars."
        )
    return about


def _describe_interruption(error: CommandError | CallError) -> str:
    """Describe the state of a script for which the browser has no value.

    Raises:
        CommandError, CallError: the state is unknown.
    """
    if isinstance(error, CallError) and has_left(error):
        raise error
    match read_script_end(error):
        case ScriptEnd.STOPPED:
            return (
                f"The script was stopped, because it ran for {LIMIT_S:g} s. What it had done by then is done."
            )
        case ScriptEnd.DOCUMENT_GONE:
            return _LED_AWAY
    raise error


async def _given_up(page: Page) -> str:
    """Describe a script that neither ended nor was stopped: it waits, or runs again after a wait."""
    try:
        await page.run_command("Runtime.evaluate", {"expression": "1"}, timeout_s=PROBE_S)
    except CallError:
        await page.run_command("Runtime.terminateExecution")
        return (
            f"The script was stopped, because it had not ended after {LIMIT_S:g} s. What it had done is done."
        )
    return (
        f"The script waits for something that has not come within {LIMIT_S:g} s (a promise that is not "
        "settled), and its value is not awaited any more. It goes on in the page. Let a script begin, "
        "and look later."
    )


# ── In the page ─────────────────────────────────────────────────────────────────────────────────────────────


async def _compile_script(page: Page, text: str, max_chars: int) -> _Script:
    """Compile a script. Raises as `Page.run_command` does."""
    expression = text.rstrip().rstrip(";")
    if await _is_expression(page, expression):
        return _Script(f"[({expression}\n)]", max_chars, is_boxed=True)
    return _Script(text, max_chars, is_boxed=False)


async def _evaluate_script(page: Page, script: _Script) -> _Value:
    """Run a script. Raises _ThrownError, and as `Page.run_command` does."""
    asked = {
        "expression": script.text,
        "replMode": True,  # `await` at the top, and the same `let` twice
        "userGesture": True,
        "timeout": LIMIT_S * 1000,
    }
    found = await _run_evaluation(page, "Runtime.evaluate", asked)
    try:
        return await _text_of(page, script, found)
    except CallError as error:  # the script itself has run
        raise CallError(error.code, error.detail, handed=True, then=error.then) from None


async def _text_of(page: Page, script: _Script, found: dict[str, Any]) -> _Value:
    """Return a value as text, made where the value is. Raises as `_value`."""
    if object_id := found.get("objectId"):
        asked = {
            "objectId": object_id,
            "functionDeclaration": _making_text(),
            "arguments": [{"value": script.max_chars}, {"objectId": object_id}, {"value": script.is_boxed}],
        }
        method = "Runtime.callFunctionOn"
    else:
        asked = {"expression": f"({_making_text()})({script.max_chars}, {_format_literal(found)}, false)"}
        method = "Runtime.evaluate"
    made = await _run_evaluation(page, method, {**asked, "awaitPromise": True, "returnByValue": True})
    return _decode_value(made)


def _decode_value(made: dict[str, Any]) -> _Value:
    """Decode the result of `script_value.js`, which runs among the page's own objects.

    Raises:
        ToolError: it is invalid.
    """
    try:
        value = msgspec.convert(made.get("value"), _Value)
    except msgspec.ValidationError:
        raise ToolError(
            "The script has run. Its value is unknown, because the page has changed what JavaScript "
            "itself is made of (JSON, String, Promise or the like). read_page sees such a page as it is."
        ) from None
    return msgspec.structs.replace(value, text=multi_line(value.text))


async def _is_expression(page: Page, text: str) -> bool:
    """Return whether a script is an expression in the browser's grammar, without running it.

    Raises:
        ToolError: the page is busy.
    """
    asked = {"expression": f"async () => {{(\n{text}\n)}}", "silent": True}
    try:
        answer = await page.run_command("Runtime.evaluate", asked, timeout_s=LIMIT_S)
    except CallError as error:
        if error.code != Code.TIMED_OUT:
            raise
        raise ToolError(
            f"The page has been busy for {LIMIT_S:g} s with a script of its own, and the script was not "
            "run. Wait, or load the page again with navigate."
        ) from None
    return "exceptionDetails" not in answer


async def _run_evaluation(page: Page, method: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a RemoteObject."""
    answer = await page.run_command(method, asked, timeout_s=LIMIT_S + 2 * SPARE_S)
    if details := answer.get("exceptionDetails"):
        said = await _format_exception(page, details)
        raise _UnparsedError(said) if _is_unparsed(details, said) else _ThrownError(said)
    result: dict[str, Any] = answer["result"]
    return result


def _is_unparsed(details: dict[str, Any], said: str) -> bool:
    """Return whether it is a syntax error of the script itself, which has no stack."""
    is_grammar = details.get("exception", {}).get("className") == "SyntaxError"
    return is_grammar and "stackTrace" not in details and "\n    at " not in said


async def _format_exception(page: Page, details: dict[str, Any]) -> str:
    """Return an exception as text, with the first lines of its stack."""
    thrown = details.get("exception", {})
    if (object_id := thrown.get("objectId")) and thrown.get("subtype") != "error":
        asked = {
            "objectId": object_id,
            "functionDeclaration": _making_text(),
            "arguments": [{"value": MAX_THROWN}, {"objectId": object_id}, {"value": False}],
            "awaitPromise": True,
            "returnByValue": True,
        }
        answer = await page.run_command("Runtime.callFunctionOn", asked)
        if "exceptionDetails" not in answer:
            return _decode_value(answer["result"]).text
    said = thrown.get("description") or _format_literal(thrown) or details.get("text", "")
    return truncate(multi_line("\n".join(said.splitlines()[:THROWN_LINES])), MAX_THROWN)


def _format_literal(found: dict[str, Any]) -> str:
    """Return a primitive value as JavaScript."""
    if "unserializableValue" in found:
        return str(found["unserializableValue"])
    if found.get("type") == "symbol":
        return json.dumps(found.get("description", ""))
    return json.dumps(found["value"]) if "value" in found else "undefined"


@cache
def _making_text() -> str:
    text = (Path(__file__).parent / "script_value.js").read_text()
    return text[text.index("async (limit") :].rstrip().removesuffix(";")


TOOLS = (
    Tool(
        name="javascript_tool",
        title="Run JavaScript",
        description=(
            "Runs JavaScript in a page, with the page's variables and the user's rights, and "
            "returns the last value. Promises are awaited."
        ),
        search_hint="run evaluate javascript script",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=Script,
        output_type=ScriptOutput,
        run=javascript_tool,
        is_destructive=True,
        limit_s=4 * LIMIT_S,
    ),
)
