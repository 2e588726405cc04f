"""Problem: a sentence for users that contains the commands which fix it. Sans-IO.

Status, the status page and `list_page_tools` show it. A command is a separate value: the sentence may
quote pages and files, so that a command in it proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self


class Problem(str):
    """A sentence and the commands in it, in their order."""

    commands: tuple[str, ...]

    def __new__(cls, text: str, *commands: str) -> Self:
        """Make a problem; empty commands are ignored."""
        problem = super().__new__(cls, text)
        problem.commands = tuple(command for command in commands if command)
        return problem

    @classmethod
    def combine(cls, *texts: str) -> Self:
        """Return the texts that are not empty, one in each line, with the commands of all."""
        commands = [command for text in texts if isinstance(text, Problem) for command in text.commands]
        return cls("\n".join(filter(None, texts)), *commands)

    @classmethod
    def compose(cls, template: str, *texts: str) -> Self:
        """Insert texts into a template of `str.format`, and keep the commands of all."""
        commands = [command for text in texts if isinstance(text, Problem) for command in text.commands]
        return cls(template.format(*texts), *commands)

    def first_line(self) -> Self:
        """Return the first line with its commands."""
        line = self.partition("\n")[0]
        return type(self)(line, *(command for command in self.commands if command in line))

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield the pieces of the sentence in order, each with whether it is a command.

        Backticks around a command are omitted.
        """
        rest = str(self)
        for command in self.commands:
            before, _, rest = rest.partition(command)
            yield before.removesuffix("`"), False
            rest = rest.removeprefix("`")
            yield command, True
        yield rest, False
