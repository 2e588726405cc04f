"""A plan as people read it, and as scripts do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from install.plan.steps import (
    Discard,
    EndSession,
    MakeDirectory,
    Move,
    Plan,
    Remove,
    RemoveCopy,
    RemoveEmptyDirectory,
    Step,
    Write,
)
from native_host.existing_channel.channel_messages import CLAUDES
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID
from native_host.system.home_layout import HomeLayout

_LEDGER = "the list of what mcpb has written, for uninstalling"


def plan_lines(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield a verb and the rest of its line, for each file and directory; then the notes, without a verb.

    Files of other products come first. The ledger is named once, though it is written twice.
    """
    for step in filter(_is_anothers, plan.steps):
        verb, text = _format_line(step)
        yield verb, f"{text} (belongs to another program)"
    for path in plan.kept:
        yield "keep", str(path)
    ledger = [step for step in plan.steps if step.path == HomeLayout(plan.home).ledger]
    for step in plan.steps:
        if not _is_anothers(step) and step not in ledger[1:]:
            verb, text = _format_line(step)
            yield verb, f"{text}, {_LEDGER}" if step in ledger else text
    for note in plan.notes:
        yield "", note


def _is_anothers(step: Step) -> bool:
    return step.path.suffix == ".json" and step.path.stem in CLAUDES


def _format_line(step: Step) -> tuple[str, str]:
    match step:
        case MakeDirectory(path):
            return "make", f"{path}/"
        case Write(path=path, mode=mode, before=before):
            return ("write" if before is None else "replace"), f"{path}  (mode {mode:04o})"
        case Move(path, to):
            return "move", f"{path}  to {to}"
        case Remove(path):
            return "remove", str(path)
        case Discard(path, is_folder):
            return "remove", f"{path}/  (whatever is in it)" if is_folder else str(path)
        case RemoveEmptyDirectory(path):
            return "remove", f"{path}/  (if empty)"
        case RemoveCopy(path):
            return "remove", f"{path}/  (the extension)"
        case EndSession(path):
            return "end", f"session {path.stem}, {path}"


def plan_json(plan: Plan, *, applied: bool) -> str:
    """Every step with what it writes. `applied`: whether they have been done."""
    shown = {
        "steps": [_format_step(step) for step in plan.steps],
        "kept": [str(path) for path in plan.kept],
        "refused": plan.refusals,
        "notes": plan.notes,
        "applied": applied and not plan.refusals,
        "extension": EXTENSION_ID,
        "firefoxExtension": FIREFOX_ID,
    }
    return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()


def _format_step(step: Step) -> dict[str, Any]:
    verb, _ = _format_line(step)
    shown: dict[str, Any] = {"action": verb, "path": str(step.path)}
    match step:
        case MakeDirectory(mode=mode):
            shown |= {"mode": f"{mode:04o}"}
        case Write(content=content, mode=mode, draft=draft):
            shown |= {"mode": f"{mode:04o}", "content": content.decode(), "draft": str(draft)}
        case Move(to=to):
            shown |= {"to": str(to)}
        case RemoveEmptyDirectory():
            shown |= {"action": "remove-if-empty"}
        case _:
            pass
    return shown
