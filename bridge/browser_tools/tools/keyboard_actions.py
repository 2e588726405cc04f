"""Keyboard actions of the `computer` tool: key sequences, typing, paste keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import trio
from msgspec import UnsetType

from bridge.browser_tools.page import keyboard
from bridge.browser_tools.page.bound_documents import has_left
from bridge.browser_tools.page.page import Frame, Page
from bridge.browser_tools.page.pointer import MAX_DEPTH, frame_of, in_words
from bridge.browser_tools.session.clipboard import copy_selection, text_to_paste
from bridge.browser_tools.tool_output import ToolError
from bridge.browser_tools.tools.computer_action import LEFT, ActionContext, ActionResult, add_article
from bridge.errors import CallError

MAX_PRESSES = 500
"""Presses of one `key` action."""
MAX_KEYED = 500
"""Characters that `type` writes key by key: into editors, and where there is no field for text."""


async def press_keys(action: ActionContext) -> ActionResult:
    """Press a sequence of keys, with copies and pastes of the session's clipboard."""
    text = action.given.text if isinstance(action.given.text, str) else ""
    chords = keyboard.sequence_in(text)
    times = 1 if isinstance(action.given.repeat, UnsetType) else action.given.repeat
    if len(chords) * times > MAX_PRESSES:
        raise ToolError(
            f"That are {len(chords) * times} keys; {MAX_PRESSES} in one call are the most. None was pressed."
        )
    first = next((chord for chord in chords if keyboard.is_copy(chord) or keyboard.is_paste(chord)), None)
    if first and keyboard.is_paste(first):
        text_to_paste(action.context)  # before the keys that come before it are pressed
    await _find_focus(action)
    notes: dict[str, str] = {}
    pressed = 0
    async with action.run_input():
        pressed = await _press_sequence(action, chords * times, notes)
    often = f", {times} times" if times > 1 else ""
    if 0 < pressed < len(chords) * times:
        return ActionResult(
            " ".join([f"Pressed {pressed} of {len(chords) * times} keys.", *notes.values(), LEFT]), text
        )
    said = f"Pressed {' '.join(text.split()) or 'space'}{often}.{keyboard.browsers_own(chords)}"
    return ActionResult(" ".join([said, *notes.values()]), text)


async def _paste_text(action: ActionContext, pressed: int) -> str:
    """Insert what this session copied; the key itself would insert the user's clipboard.

    Raises:
        ToolError: there is no text or no field for it. So many keys of the sequence were pressed before.
    """
    before = f" The {pressed} keys before it were pressed." if pressed else ""
    try:
        text = text_to_paste(action.context)
    except ToolError as error:
        raise ToolError(f"{error}{before}") from None
    _, focus = await _find_focus(action)
    if not focus["editable"]:
        raise ToolError(
            f"No field for text has the focus, so nothing was pasted. Click the field first.{before}"
        )
    await action.page.run_command("Input.insertText", {"text": text})
    return f"Pasted the {len(text)} characters that you copied."


async def _press_sequence(action: ActionContext, chords: list[keyboard.Chord], notes: dict[str, str]) -> int:
    """Press keys until the tab leaves its document; return how many were pressed.

    `notes` takes sentences about what was copied and pasted.

    Raises:
        CallError: it had left before the first.
    """
    for pressed, chord in enumerate(chords):
        is_there = True
        try:
            await _check_input(action, f"The {pressed} keys before it were pressed.")
            if keyboard.is_paste(chord):
                notes["paste"] = await _paste_text(action, pressed)
                continue
            if keyboard.is_copy(chord):
                frame, _ = await _find_focus(action)
                notes["copy"] = await copy_selection(action.context, action.page, action.main, frame)
            is_there = await _press_chord(action.page, chord)
        except CallError as error:
            if not has_left(error) or pressed == 0:
                raise
            return pressed
        if not is_there:
            return pressed + 1
    return len(chords)


async def _press_chord(page: Page, chord: keyboard.Chord) -> bool:
    """Press and release; return whether the tab still shows the document then."""
    events = list(keyboard.key_events(chord))
    with trio.CancelScope(shield=True):  # Release the keys, also after a cancellation.
        for sent, event in enumerate(events):
            try:
                await page.run_command("Input.dispatchKeyEvent", event)
            except CallError as error:
                if has_left(error) and sent >= len(events) // 2:  # the first half goes down
                    return False
                raise
    return True


async def type_text(action: ActionContext) -> ActionResult:
    """Type a text into what has the focus."""
    if not isinstance(action.given.text, str) or not action.given.text:
        raise ToolError("type needs text. To empty a field, use form_input with the value “”.")
    text = action.given.text.replace("\r\n", "\n")
    _, focus = await _find_focus(action)
    what, is_field = in_words(focus), focus["editable"]
    if not is_field and len(text) > MAX_KEYED:
        raise ToolError(
            f"No field for text has the focus, and {len(text)} characters are too many to be pressed one by "
            f"one ({MAX_KEYED} are the most). Nothing was typed. Click the field first."
        )
    async with action.run_input():
        # Editors make lists and menus of what is written, as it is written; dates have parts.
        by_key = not is_field or (focus["takesKeys"] and len(text) <= MAX_KEYED)
        typed = await _type_parts(action, keyboard.parts_of(text, by_key=by_key))
        if typed < len(text):
            return ActionResult(
                f"Typed {typed} of {len(text)} characters into {add_article(what)}. {LEFT}", what
            )
    count = f"{len(text)} character{'s' * (len(text) != 1)}"
    if is_field:
        return ActionResult(f"Typed {count} into {add_article(what)}.", what)
    why = f"The {what} has the focus and is no field for text" if what else "Nothing has the focus"
    return ActionResult(f"Pressed the keys of {count}. {why}: the page got key presses.", what)


async def _type_parts(action: ActionContext, parts: Iterable[str | keyboard.Chord]) -> int:
    """Type until the tab leaves its document; return the number of characters.

    Raises:
        CallError: it had left before the first.
    """
    typed = 0
    for part in parts:
        try:
            await _check_input(action, f"The {typed} characters before it were typed.")
            if isinstance(part, str):
                await action.page.run_command("Input.insertText", {"text": part})
            else:
                await _press_chord(action.page, part)
        except CallError as error:
            if not has_left(error) or typed == 0:
                raise
            break
        typed += len(part) if isinstance(part, str) else 1
    return typed


async def _find_focus(action: ActionContext) -> tuple[Frame, dict[str, Any]]:
    """Return the frame that has the focus, and the result of `focusInfo` there.

    Raises:
        ToolError: it belongs to a forbidden site.
    """
    frame = action.main
    for _ in range(MAX_DEPTH):
        found: dict[str, Any] = await action.page.call_script("focusInfo", frame=frame)
        inner = await frame_of(action.page, frame, found["ref"]) if found["isFrame"] else None
        if inner is None:
            break
        action.context.check_frame(inner.origin)
        frame = inner
    return frame, found


async def _check_input(action: ActionContext, before: str) -> None:
    """Check that the next key is for a page that may be used: keys and the page itself move the focus.

    Raises:
        ToolError: it may be for a frame of a site that may not be used; `before` says what was done.
    """
    try:
        await action.context.check_input(action.page)
    except ToolError as error:
        raise ToolError(f"{error} {before}") from None
