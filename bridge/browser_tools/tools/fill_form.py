"""`fill_form`: several form controls in one call, by ref or label, and the form sent.

`form_input` sets each control and `computer` presses the button, so that rules for these tools hold.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
import trio
from msgspec import UNSET, Meta, UnsetType
from msgspec import field as argument

from bridge.browser_tools.page import element_refs, shadow_roots
from bridge.browser_tools.page.element_locator import ElementArgument, parse_locator
from bridge.browser_tools.page.element_refs import Ref
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.located_element import MAX_CANDIDATES, locate_element
from bridge.browser_tools.session.readable_frames import (
    divide_answers,
    divide_frames,
    frame_of,
    look_in_frames,
    readable_frames,
)
from bridge.browser_tools.tool import MaybeTab, Tool, ToolInput
from bridge.browser_tools.tool_output import ToolError, ToolOutput, ToolResult
from bridge.browser_tools.tools import page_changes
from bridge.browser_tools.tools.form_input import FillOutput
from bridge.browser_tools.tools.page_changes import Difference
from bridge.errors import CallError, format_error
from bridge.origins import format_origin
from native_host.protocol.untrusted_text import quote

LIMIT_S = 60.0
MAX_FIELDS = 100
APPEARS_S = 2.0
"""Seconds in which a field may appear because of the one before it."""
LOOK_S = 0.1
MAX_SAID = 80


class Field(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One control and its value."""

    ref: ElementArgument | UnsetType = UNSET
    label: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    value: str | bool | float


class FillForm(ToolInput, kw_only=True):
    """Input of `fill_form`."""

    fields: Annotated[
        list[Field],
        Meta(
            min_length=1,
            description=(
                "Each with `ref` or `label`, and a value: text; true or false; an option's text; "
                "2026-11-22; 14:30."
            ),
        ),
    ]
    submit: Annotated[bool, Meta(description="Then send the form.")] | UnsetType = UNSET
    tab_id: MaybeTab = argument(name="tabId", default=UNSET)
    difference: Difference = UNSET


class FilledField(msgspec.Struct, rename="camel"):
    """A field that was filled."""

    ref: str
    role: str
    name: str
    now: str
    ok: bool


class FillFormOutput(ToolOutput, kw_only=True):
    """The fields that were filled, in order."""

    tab_id: int
    filled: list[FilledField]
    submitted: bool
    untrusted: tuple[str, ...] = ("filled",)


class _LabelledField(msgspec.Struct, rename="camel"):
    """One of `mcpb.fieldsLabelled`'s fields."""

    ref: int
    role: str
    name: str
    is_choice: bool


class _Fields(msgspec.Struct):
    """Result of `mcpb.fieldsLabelled`."""

    origin: str
    rank: int | None
    fields: list[_LabelledField]


_Answer = tuple[Frame, _Fields]
"""What fits in the document of a frame."""


async def fill_form(given: FillForm, context: CallContext) -> ToolResult:
    """Fill the fields in order, up to the first that cannot be filled; then send the form."""
    _check_fields(given.fields)
    page = await context.open_page(given.tab_id)
    if given.difference is not False:
        await page_changes.remember_outline(context, page)
    filled: list[FillOutput] = []
    try:
        for field in given.fields:
            filled.append(await _fill_field(context, page, field))  # noqa: PERF401  (kept where one fails)
        sent = await _submit_form(context, page, filled[-1].ref) if given.submit is True else None
    except (ToolError, CallError) as error:
        if not filled:
            raise
        if isinstance(error, ToolError):
            context.quotes.extend(error.quotes)
        answer = _make_partial(given, page, filled, error)
    else:
        answer = _make_result(page, filled, sent)
    return answer if given.difference is False else await page_changes.with_changes(context, page, answer)


def _make_result(page: Page, filled: list[FillOutput], sent: ToolResult | None) -> ToolResult:
    message = _format_filled(filled)
    output = _make_output(message, page, filled, is_submitted=sent is not None)
    if sent is None:
        return ToolResult(output)
    output.message += f" {sent.output.message}"
    return ToolResult(output, page=sent.page, origin=sent.origin, is_marked=sent.is_marked)


async def _fill_field(context: CallContext, page: Page, field: Field) -> FillOutput:
    ref, value = await _find_field(context, page, field)
    answer = await context.call_tool("form_input", {"ref": ref, "value": value, **_of_tab(page)})
    assert isinstance(answer.output, FillOutput)
    return answer.output


def _check_fields(fields: list[Field]) -> None:
    if len(fields) > MAX_FIELDS:
        raise ToolError(f"{len(fields)} fields are too many for one call, the limit is {MAX_FIELDS}.")
    for number, field in enumerate(fields, 1):
        if isinstance(field.ref, UnsetType) == isinstance(field.label, UnsetType):
            raise ToolError(f"Field {number} needs either a ref or a label. Nothing was filled.")
        if not isinstance(field.ref, UnsetType):
            parse_locator(field.ref)


def _of_tab(page: Page) -> dict[str, Any]:
    """Return the arguments of a tool that works for this one: it reports the changes itself."""
    return {"tabId": page.number, "difference": False}


async def _find_field(context: CallContext, page: Page, field: Field) -> tuple[str, str | bool | float]:
    """Return the ref and the value of a field.

    Raises:
        ToolError: not exactly one field of the page's own origin has that label, or fits that locator.
    """
    if not isinstance(field.ref, UnsetType):
        located = await locate_element(context, page, field.ref)
        return str(located.ref), field.value
    assert isinstance(field.label, str)
    look = partial(_find_in, page, field.label, field.value)
    until = trio.current_time() + APPEARS_S
    while True:
        likely, others = divide_frames(readable_frames(context, await page.find_frames()))
        own, foreign = divide_answers(await look_in_frames(likely, look))
        best = _choose_best(own)
        if best:
            break
        if trio.current_time() >= until:
            foreign += await look_in_frames(others, look)
            raise _make_missing_error(field.label, foreign)
        await trio.sleep(LOOK_S)
    if len(best) > 1:
        refs = ", ".join(f"{labelled.role} [{Ref(labelled.ref, frame.number)}]" for frame, labelled in best)
        raise ToolError(f"Several fields fit {quote(field.label, MAX_SAID)}: {refs}. Give the ref of one.")
    ((frame, labelled),) = best
    value = True if labelled.is_choice else field.value
    return str(Ref(labelled.ref, frame.number)), value


def _make_missing_error(label: str, foreign: list[_Answer]) -> ToolError:
    """Return the error for a label without a field of the page's own origin.

    A frame of another origin could draw a value to itself by a label: its fields are filled by ref only.
    """
    name = quote(label, MAX_SAID)
    best = _choose_best(foreign)[:MAX_CANDIDATES]
    if not best:
        return ToolError(f"No field is called {name}. read_page with filter interactive shows what there is.")
    origin_of = {frame.number: format_origin(found.origin) for frame, found in foreign}
    refs = ", ".join(
        f"{labelled.role} [{Ref(labelled.ref, frame.number)}] of {origin_of[frame.number]}"
        for frame, labelled in best
    )
    return ToolError(f"Only fields in frames of other origins fit {name}: {refs}. Give the ref of one.")


async def _find_in(page: Page, label: str, value: Any, frame: Frame) -> _Fields:
    await shadow_roots.adopt_roots(page, frame)
    answered = await page.call_script("fieldsLabelled", {"label": label, "value": value}, frame=frame)
    return msgspec.convert(answered, _Fields)


def _choose_best(answers: list[_Answer]) -> list[tuple[Frame, _LabelledField]]:
    ranks = [found.rank for _, found in answers if found.rank is not None]
    best = min(ranks, default=None)
    return [(frame, field) for frame, found in answers if found.rank == best for field in found.fields]


async def _submit_form(context: CallContext, page: Page, last: str) -> ToolResult:
    """Press the button of the form, or Return in its last field."""
    ref = element_refs.parse_ref(last)
    frame = await frame_of(context, page, ref)
    button = (await page.call_script("submitter", {"ref": ref.number}, frame=frame))["ref"]
    act: dict[str, Any] = {"action": "key", "text": "Return"}
    if button:
        act = {"action": "left_click", "ref": str(Ref(button, frame.number))}
    return await context.call_tool("computer", {**act, **_of_tab(page)})


def _make_partial(
    given: FillForm, page: Page, filled: list[FillOutput], error: ToolError | CallError
) -> ToolResult:
    """Return the result of a call of which only a part was done."""
    why = format_error(error) if isinstance(error, CallError) else str(error)
    if len(filled) < len(given.fields):
        message = f"{_format_filled(filled)} Field {len(filled) + 1} of {len(given.fields)}: {why}"
        if len(filled) + 1 < len(given.fields) or given.submit is True:
            message += " Nothing after it was done."
    else:
        message = f"{_format_filled(filled)} The form was not sent: {why}"
    output = _make_output(message, page, filled, is_submitted=False)
    return ToolResult(output, is_error=True)


def _format_filled(filled: list[FillOutput]) -> str:
    """Count the fields, and describe those whose value the page has changed or that opened a dialog."""
    count = f"Filled {len(filled)} field{'s' * (len(filled) != 1)}."
    others = [each.message for each in filled if not each.ok or not each.role]
    return " ".join([count, *others])


def _make_output(message: str, page: Page, filled: list[FillOutput], *, is_submitted: bool) -> FillFormOutput:
    fields = [FilledField(each.ref, each.role, each.name, each.now, each.ok) for each in filled]
    return FillFormOutput(message=message, tab_id=page.number, filled=fields, submitted=is_submitted)


TOOLS = (
    Tool(
        name="fill_form",
        title="Fill in a form",
        description="Fills form controls in order, and may send the form.",
        listed="core",
        input_type=FillForm,
        output_type=FillFormOutput,
        run=fill_form,
        is_destructive=True,
        limit_s=LIMIT_S,
    ),
)
