"""All prompts that no page offers, each name once: the user's files, then shortcuts, then those built in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from bridge.browser_tools.builtin_prompts import BUILTIN
from bridge.config.prompt_files import PromptFile, PromptFiles
from bridge.config.shortcuts_file import Shortcut, ShortcutsError, read_shortcuts
from bridge.hub.primitives.own_prompt import OwnArgument, OwnPrompt, PromptPart
from native_host.system.home_layout import HomeLayout

_log = logging.getLogger(__name__)


class OwnPrompts:
    """The prompts, read again when a file has changed."""

    def __init__(self, home: Path) -> None:
        """Read files in the directory of all files of mcpb."""
        self._home = home
        self._files = PromptFiles(home)
        self._seen: tuple[int, ...] | None = None
        self._known: list[OwnPrompt] = []
        """Prompts of the shortcuts."""

    def prompts(self, *, with_tools: bool) -> dict[str, OwnPrompt]:
        """Return the prompts by name; without the browser tools, only the user's own."""
        found = {name: _of_file(file) for name, file in self._files.read().items()}
        if not with_tools:
            return found
        for prefix, prompts in (("shortcut", self._shortcuts()), ("mcpb", BUILTIN)):
            for prompt in prompts:
                name = prompt.name
                while name in found:
                    name = f"{prefix}-{name}"
                found[name] = msgspec.structs.replace(prompt, name=name)
        return found

    def shortcut_names(self) -> list[str]:
        """Return the names of the shortcuts."""
        return sorted(prompt.name for prompt in self._shortcuts())

    def _shortcuts(self) -> Iterable[OwnPrompt]:
        try:
            found = HomeLayout(self._home).shortcuts.stat()
            seen = found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid
        except OSError:
            seen = None
        if seen != self._seen:
            self._seen, self._known = seen, self._read_shortcuts()
        return self._known

    def _read_shortcuts(self) -> list[OwnPrompt]:
        try:
            return [_of_shortcut(shortcut) for shortcut in read_shortcuts(self._home)]
        except ShortcutsError as error:
            _log.debug("no prompts of shortcuts: %s", error)  # a call of the tool names the error
            return []


def _of_file(file: PromptFile) -> OwnPrompt:
    arguments = tuple(
        OwnArgument(each.name, each.description, is_required=each.default is None) for each in file.arguments
    )
    return OwnPrompt(file.name, file.title, file.description, arguments, file.fill, file.version)


def _of_shortcut(shortcut: Shortcut) -> OwnPrompt:
    parameters = shortcut.parameters
    arguments = tuple(
        OwnArgument(each.name, each.description, is_required=each.default is None) for each in parameters
    )

    def fill(values: Mapping[str, str]) -> Iterator[PromptPart]:
        given = [f"{each.name}={_quote(values[each.name])}" for each in parameters if each.name in values]
        command = " ".join([f"/{shortcut.name}", *given])
        yield PromptPart("user", f"Run my shortcut with `shortcuts_execute`, command: {command}")

    about = shortcut.description or f"Runs the shortcut {shortcut.usage}."
    return OwnPrompt(shortcut.name, shortcut.title, about, arguments, fill)


def _quote(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"
