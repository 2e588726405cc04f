"""`browser_batch`: several tools in one call, in sequence; shortcuts run the same way."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from bridge import origins
from bridge.browser_tools.result_size import MAX_RESULT_CHARS, MAX_SERIALIZED, cut_page_text, serialized_size
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.tool import Tool, ToolInput
from bridge.browser_tools.tool_output import Image, Link, ToolError, ToolOutput, ToolResult, mark_page_text
from bridge.errors import CallError, format_error
from bridge.hub.argument_validation import Arguments

LIMIT_S = 150.0
"""Seconds for all steps together, without the time of prompts."""
ENDING_S = 5.0
ENDING_CHARS, STEP_CHARS = 1000, 200
"""Characters around the texts of all steps, and of one."""
MAX_STEPS = 100
_BATCH_ID_BYTES = 4
ALONE = ("browser_batch", "shortcuts_execute")


class Step(msgspec.Struct, kw_only=True):
    """One call of a tool."""

    name: str
    input: dict[str, Any]


class StepResult(msgspec.Struct, rename="camel"):
    """Result of a step."""

    name: str
    ok: bool
    told: dict[str, Any]
    """As the tool itself tells it; of one that failed the `message` alone."""
    images: int
    """Number of its pictures, which follow in the order of the steps."""


class Batch(ToolOutput, kw_only=True):
    """Results of all steps."""

    results: list[StepResult]
    failed_at: int | None
    """The number of the step that failed, counted from 1; those after it were not run."""
    untrusted: tuple[str, ...] = ("results",)


class BrowserBatch(ToolInput):
    """Input of `browser_batch`."""

    actions: Annotated[list[Step], Meta(min_length=1, description="Steps: a tool's `name` and `input`.")]


class _PageText(NamedTuple):
    """What a page wrote in the result of a step."""

    step: str
    content: str
    origin: str
    is_marked: bool

    def may_follow(self, other: _PageText) -> bool:
        """Return whether both are of one origin, so that one boundary is enough for them."""
        is_known = self.origin not in ("", origins.OPAQUE)
        return is_known and self.origin == other.origin and not (self.is_marked or other.is_marked)

    def is_repeated_in(self, following: _PageText) -> bool:
        """Return whether the other begins with all of this, and first names the same origin.

        Otherwise a page could pass off what another one wrote as its own.
        """
        is_same = bool(self.origin) and f"{following.origin}, ".startswith(f"{self.origin}, ")
        return is_same and not self.is_marked and following.content.startswith(f"{self.content}\n")


@dataclass
class StepResults:
    """Steps that were run, up to the first that failed."""

    total: int
    results: list[StepResult] = field(default_factory=list)
    pages: list[_PageText] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    room: int = MAX_SERIALIZED - ENDING_CHARS
    """Characters of texts, as JSON, that the steps without `max_chars` may still have."""

    @property
    def failed_at(self) -> int | None:
        """See `Batch`."""
        return len(self.results) if self.results and not self.results[-1].ok else None

    @property
    def message(self) -> str:
        """One line for each step, below where it stopped if one failed."""
        lines = [
            f"Step {number}, {result.name}: {result.told['message']}"
            for number, result in enumerate(self.results, 1)
        ]
        return "\n".join(
            lines if self.failed_at is None else [self._describe_failure(self.failed_at), *lines]
        )

    def _describe_failure(self, failed_at: int) -> str:
        rest = self.total - failed_at
        after = f" {rest} more {'was' if rest == 1 else 'were'} not run." if rest else ""
        return f"Step {failed_at} of {self.total} failed.{after}"

    def add_result(self, name: str, answer: ToolResult, *, is_large: bool = False) -> None:
        """Add the result of the next step; one that `is_large` asked for many characters."""
        if not is_large:
            answer = cut_page_text(answer, max(self.room, 0), "call this tool by itself")
            self.room -= serialized_size(answer.output.message) + serialized_size(answer.page) + STEP_CHARS
        told = msgspec.to_builtins(answer.output)
        self.results.append(StepResult(name, not answer.is_error, told, len(answer.images)))
        if answer.page:
            step = f"Step {len(self.results)}, {name}"
            self.pages.append(_PageText(step, answer.page, answer.origin, answer.is_marked))
        self.images += answer.images
        self.links += answer.links

    def add_failure(self, name: str, text: str) -> None:
        """Add the failure of the next step."""
        self.results.append(StepResult(name, False, {"message": text}, 0))

    def make_result(self, told: ToolOutput) -> ToolResult:
        """Return all results, with this output as the structured part."""
        pages = _drop_repeated(self.pages)
        texts = map(_format_pages, _group_pages(pages)) if len(pages) > 1 else map(_mark, pages)
        return ToolResult(
            told,
            "\n".join(texts),
            images=self.images,
            links=self.links,
            is_marked=True,
            is_error=self.failed_at is not None,
        )


def _drop_repeated(pages: Sequence[_PageText]) -> list[_PageText]:
    """Leave out what the next text begins with: `navigate` has the title only, and `read_page` has it too."""
    kept = [page for page, following in pairwise(pages) if not page.is_repeated_in(following)]
    return [*kept, *pages[-1:]]


def _group_pages(pages: Sequence[_PageText]) -> list[list[_PageText]]:
    """Return the page texts in groups that one boundary encloses."""
    groups: list[list[_PageText]] = []
    for page in pages:
        if groups and page.may_follow(groups[-1][-1]):
            groups[-1].append(page)
        else:
            groups.append([page])
    return groups


def _mark(page: _PageText) -> str:
    return page.content if page.is_marked else mark_page_text(page.content, page.origin)


def _format_pages(group: Sequence[_PageText]) -> str:
    first = group[0]
    if len(group) == 1:
        return f"{first.step}:\n{_mark(first)}"
    return mark_page_text("\n".join(f"{page.step}:\n{page.content}" for page in group), first.origin)


async def run_in_order(context: CallContext, steps: Sequence[Step]) -> StepResults:
    """Run them within this call, each once the one before has succeeded.

    Raises:
        ToolError: one of them cannot be run at all. None was.
    """
    _check_steps(context, steps)
    ran = StepResults(len(steps))
    context.recording.batch = secrets.token_hex(_BATCH_ID_BYTES)
    with context.prompts.limit_time(LIMIT_S) as limit:
        for step in steps:
            context.prompts.report(len(ran.results), ran.total, step.name)
            if not await _run_step(context, step, ran):
                break
    if limit.cancelled_caught:
        running = steps[len(ran.results)].name
        ran.add_failure(
            running, f"The {LIMIT_S:g} s for all steps are over; {running} may have been done, or in part."
        )
    context.prompts.report(len(ran.results), ran.total)
    return ran


async def _run_step(context: CallContext, step: Step, ran: StepResults) -> bool:
    number = len(ran.results) + 1
    try:
        given = step.input if number == ran.total else _without_changes(step, context)
        answer = await context.call_tool(step.name, given, step=number)
        ran.add_result(step.name, answer, is_large="max_chars" in step.input)
    except ToolError as error:
        context.quotes.extend(error.quotes)
        ran.add_failure(step.name, str(error))
    except CallError as error:
        ran.add_failure(step.name, format_error(error))
    return ran.failed_at is None


def _without_changes(step: Step, context: CallContext) -> dict[str, Any]:
    """Return the input of a step before the last: the last one reports the changes of all."""
    fields = context.services.tools[step.name].input_type.__struct_fields__
    return {"difference": False, **step.input} if "difference" in fields else step.input


def _check_steps(context: CallContext, steps: Sequence[Step]) -> None:
    if len(steps) > MAX_STEPS:
        raise ToolError(
            f"{len(steps)} steps are too many for one call, the limit is {MAX_STEPS}. None was run."
        )
    for number, step in enumerate(steps, 1):
        if complaint := find_step_fault(step, context):
            raise ToolError(f"Step {number}, {step.name}: {complaint}. None was run.")


def find_step_fault(step: Step, context: CallContext) -> str:
    """Return the reason why a step can never run; empty if it may."""
    tool = context.services.tools.get(step.name)
    if tool is None:
        names = ", ".join(name for name in context.services.tools if name not in ALONE)
        return f"there is no browser tool of this name; there are {names}"
    if step.name in ALONE:
        return "a sequence of steps is no step of another"
    try:
        tool.read_arguments(Arguments.of(step.input))
    except CallError as error:
        return error.detail
    return ""


async def browser_batch(given: BrowserBatch, context: CallContext) -> ToolResult:
    """Run the steps."""
    ran = await run_in_order(context, given.actions)
    return ran.make_result(Batch(message=ran.message, results=ran.results, failed_at=ran.failed_at))


TOOLS = (
    Tool(
        name="browser_batch",
        title="Several steps at once",
        description=(
            "Runs several browser tools in order, and stops at the first that fails. For steps "
            "that you know beforehand."
        ),
        listed="core",
        max_result_chars=MAX_RESULT_CHARS,
        input_type=BrowserBatch,
        output_type=Batch,
        run=browser_batch,
        is_destructive=True,
        limit_s=LIMIT_S + ENDING_S,
    ),
)
