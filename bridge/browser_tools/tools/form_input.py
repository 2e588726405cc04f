"""`form_input`: the value of a form control, whatever kind it is."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, field

from bridge.browser_tools.page.devtools import DialogError
from bridge.browser_tools.page.element_locator import ElementArgument, parse_locator
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.located_element import locate_element
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolOutput, ToolResult
from bridge.browser_tools.tools import gif_creator, page_changes
from bridge.browser_tools.tools.page_changes import Difference
from native_host.protocol.untrusted_text import quote

MAX_SAID = 300
"""Characters of a name or a value in a sentence; our code in the page cuts them there."""
FILL_S = 5.0
"""For the page's own scripts, which hear of the new value."""


class FormInput(ToolInput, kw_only=True):
    """Input of `form_input`."""

    ref: ElementArgument
    value: Annotated[
        str | bool | float,
        Meta(
            description=(
                "true or false for a checkbox; text or value of an option, several with commas; "
                "2026-11-22, 14:30; else text."
            )
        ),
    ]
    tab_id: MaybeTab = field(name="tabId", default=UNSET)
    difference: Difference = UNSET


class FillOutput(ToolOutput, kw_only=True):
    """Previous and current value of a control."""

    tab_id: int
    ref: str
    role: str
    name: str
    was: str
    now: str
    ok: bool
    untrusted: tuple[str, ...] = ("name", "was", "now")


class _Fill(msgspec.Struct, rename="camel"):
    """Result of `mcpb.fill`."""

    ok: bool
    was: str
    now: str
    role: str
    name: str


async def form_input(given: FormInput, context: CallContext) -> ToolResult:
    """Fill a control as a user would, so that the page notices."""
    parse_locator(given.ref)
    page = await context.open_page(given.tab_id)
    if page.dialog:  # from before
        raise DialogError(page.dialog)
    ref, frame = await locate_element(context, page, given.ref)
    asked = {"ref": ref.number, "value": given.value}
    if given.difference is not False:
        await page_changes.remember_outline(context, page)
    try:
        answered = await page.call_script("fill", asked, frame=frame, timeout_s=FILL_S)
    except DialogError as dialog:
        return _make_interrupted(context, page, ref, dialog)
    filled = msgspec.convert(answered, _Fill)
    await page.wait_still()
    what = f"{filled.role} {_quote_value(filled.name)}" if filled.name else filled.role
    await gif_creator.after_action(context, page, f"form_input {what}")
    told = FillOutput(
        message=_format_message(what, ref, filled) + context.take_notes(page),
        tab_id=page.number,
        ref=str(ref),
        role=filled.role,
        name=filled.name,
        was=filled.was,
        now=filled.now,
        ok=filled.ok,
    )
    answer = ToolResult(told)
    return answer if given.difference is False else await page_changes.with_changes(context, page, answer)


def _format_message(what: str, ref: Ref, filled: _Fill) -> str:
    was, now = _quote_value(filled.was), _quote_value(filled.now)
    if not filled.ok:
        return (
            f"{what} ({ref}) was {was} and is {now} now: the page has changed what it was given, or refused "
            "it. Look at the page (read_page)."
        )
    if filled.was == filled.now:
        return f"{what} ({ref}) is {now}, as it was."
    return f"{what} ({ref}) was {was} and is {now} now."


def _quote_value(said: str) -> str:
    return quote(said, MAX_SAID)


def _make_interrupted(context: CallContext, page: Page, ref: Ref, dialog: DialogError) -> ToolResult:
    """Return the result for a dialog that the page opened because of the new value."""
    told = FillOutput(
        message=f"The value was given to {ref}. {dialog}{context.take_notes(page)}",
        tab_id=page.number,
        ref=str(ref),
        role="",
        name="",
        was="",
        now="",
        ok=True,
    )
    return ToolResult(told)


TOOLS = (
    Tool(
        name="form_input",
        title="Fill in a form control",
        description=(
            "Sets one form control. For sliders and menus made by the page use computer; for "
            "files file_upload."
        ),
        search_hint="set one form field checkbox select date",
        input_type=FormInput,
        output_type=FillOutput,
        run=form_input,
        is_repeatable=True,
    ),
)
