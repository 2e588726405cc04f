"""Notes on events in a tab, for the end of a client's next result. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.browser_tools.tool_output import Quote

MAX_NOTES = 20


class Note(NamedTuple):
    """Something that a model should hear of."""

    text: str
    origin: str
    """Origin of the page that it reports on; empty: none."""
    without: str
    """The same without what that page says; empty: nothing."""
    quoted: str
    """Text of the page, if the sentence has only its beginning."""


@dataclass
class EventNotes:
    """Notes on events in a tab since the last result, for the end of the next one."""

    notes: list[Note] = field(default_factory=list)

    def add_note(self, text: str, origin: str = "", without: str = "", quoted: str = "") -> None:
        """See `Note`."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(Note(text, origin, without, quoted))

    def pop_notes(self, may_read: Callable[[str], bool]) -> tuple[str, list[Quote]]:
        """Return all notes as text, with a space before, and the quotes below it; then clear them.

        `may_read` returns whether the session may read texts of an origin.
        """
        notes, self.notes = self.notes, []
        readable = [(note.text, note) if may_read(note.origin) else (note.without, None) for note in notes]
        text = "".join(f" {sentence}" for sentence, _ in readable if sentence)
        return text, [Quote(note.quoted, note.origin) for _, note in readable if note and note.quoted]
