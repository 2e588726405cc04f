"""Keyboard: key names of models as DevTools key events of a US keyboard. Sans-IO.

Codes and key values are those of the W3C's UI Events (KeyboardEvent `code` and `key` Values); the numbers are
the Windows virtual key codes that `keyCode` has in pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bridge.browser_tools.tool_output import ToolError

MAX_KEYS = 100


@dataclass(frozen=True)
class Key:
    """One key."""

    key: str
    code: str = ""
    number: int = 0
    text: str = ""
    location: int = 0
    """1: the left one of two."""
    is_shifted: bool = False


@dataclass(frozen=True)
class Chord:
    """A key, pressed while modifiers are held."""

    modifiers: tuple[str, ...]
    key: Key


ALT = Key("Alt", "AltLeft", 18, location=1)
CONTROL = Key("Control", "ControlLeft", 17, location=1)
META = Key("Meta", "MetaLeft", 91, location=1)
SHIFT = Key("Shift", "ShiftLeft", 16, location=1)

MODIFIERS = {"Alt": (ALT, 1), "Control": (CONTROL, 2), "Meta": (META, 4), "Shift": (SHIFT, 8)}
"""By name: the key, and its bit in DevTools' `modifiers`."""

_MODIFIER_NAMES = {
    "alt": "Alt", "option": "Alt", "opt": "Alt",
    "ctrl": "Control", "control": "Control", "ctl": "Control",
    "cmd": "Meta", "command": "Meta", "meta": "Meta", "super": "Meta", "win": "Meta", "windows": "Meta",
    "shift": "Shift",
}  # fmt: skip

ENTER = Key("Enter", "Enter", 13, "\r")
TAB = Key("Tab", "Tab", 9)

_CONTROL = {"\n": ENTER, "\t": TAB}

_NAMED = (
    ENTER, TAB,
    Key("Escape", "Escape", 27), Key("Backspace", "Backspace", 8), Key("Delete", "Delete", 46),
    Key(" ", "Space", 32, " "), Key("Insert", "Insert", 45), Key("Home", "Home", 36), Key("End", "End", 35),
    Key("PageUp", "PageUp", 33), Key("PageDown", "PageDown", 34),
    Key("ArrowLeft", "ArrowLeft", 37), Key("ArrowUp", "ArrowUp", 38),
    Key("ArrowRight", "ArrowRight", 39), Key("ArrowDown", "ArrowDown", 40),
    Key("CapsLock", "CapsLock", 20), Key("NumLock", "NumLock", 144), Key("ScrollLock", "ScrollLock", 145),
    Key("PrintScreen", "PrintScreen", 44), Key("Pause", "Pause", 19), Key("ContextMenu", "ContextMenu", 93),
    *(Key(f"F{n}", f"F{n}", 111 + n) for n in range(1, 25)),
)  # fmt: skip

_ALIASES = {
    "return": "enter", "esc": "escape", "del": "delete", "ins": "insert", "space": " ", "spacebar": " ",
    "left": "arrowleft", "up": "arrowup", "right": "arrowright", "down": "arrowdown",
    "pgup": "pageup", "page_up": "pageup", "prior": "pageup",
    "pgdn": "pagedown", "pgdown": "pagedown", "page_down": "pagedown", "next": "pagedown",
    "back_space": "backspace", "bksp": "backspace", "menu": "contextmenu", "print": "printscreen",
    "kp_enter": "enter", "plus": "+", "minus": "-",
}  # fmt: skip

_DIGITS_SHIFTED = ")!@#$%^&*("
_PUNCTUATION = (
    (";", ":", "Semicolon", 186), ("=", "+", "Equal", 187), (",", "<", "Comma", 188),
    ("-", "_", "Minus", 189), (".", ">", "Period", 190), ("/", "?", "Slash", 191),
    ("`", "~", "Backquote", 192), ("[", "{", "BracketLeft", 219), ("\\", "|", "Backslash", 220),
    ("]", "}", "BracketRight", 221), ("'", '"', "Quote", 222),
)  # fmt: skip


def _printable_keys() -> Iterator[Key]:
    for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz", 65):
        code = f"Key{letter.upper()}"
        yield Key(letter, code, number, letter)
        yield Key(letter.upper(), code, number, letter.upper(), is_shifted=True)
    for digit, shifted in enumerate(_DIGITS_SHIFTED):
        yield Key(str(digit), f"Digit{digit}", 48 + digit, str(digit))
        yield Key(shifted, f"Digit{digit}", 48 + digit, shifted, is_shifted=True)
    for plain, shifted, code, number in _PUNCTUATION:
        yield Key(plain, code, number, plain)
        yield Key(shifted, code, number, shifted, is_shifted=True)


_PRINTABLE = {key.key: key for key in _printable_keys()}
_BY_NAME = {key.key.lower(): key for key in _NAMED}

_SHIFTED = {
    key.code: shifted
    for key in _PRINTABLE.values()
    if not key.is_shifted
    for shifted in _PRINTABLE.values()
    if shifted.is_shifted and shifted.code == key.code
}
"""Printable key while Shift is held, by its code."""

_EDITING = {"a": "selectAll", "c": "copy", "x": "cut", "z": "undo"}
"""Editing commands of Cmd keys, which macOS has in the application's menu, out of reach of DevTools."""

_PASTE_WORD = re.compile(r"paste|[+-](key)?v$|[+-](kp_?)?ins(ert)?$", re.IGNORECASE)

_ZOOM_CODES = {"Equal", "Minus", "Digit0"}
_OF_TABS = {"w", "t", "n", "l", "Tab"}
"""With Ctrl or Cmd, browsers take them for themselves. From DevTools they come to the page alone."""
_OF_WINDOWS = {"F11", "F12"}


def modifiers_in(text: str) -> tuple[str, ...]:
    """Return the modifiers of a text such as `ctrl+shift`, each once.

    Raises:
        ToolError: the text contains another word.
    """
    names = [name.strip().lower() for name in text.split("+")] if text.strip() else []
    if wrong := [name for name in names if name not in _MODIFIER_NAMES]:
        raise ToolError(
            f"“{wrong[0][:40]}” is no modifier. Give ctrl, shift, alt, cmd (or meta, win), joined with +."
        )
    return tuple(dict.fromkeys(_MODIFIER_NAMES[name] for name in names))


def modifier_bits(modifiers: Iterable[str]) -> int:
    """DevTools' `modifiers`."""
    return sum(MODIFIERS[name][1] for name in modifiers)


def sequence_in(text: str) -> list[Chord]:
    """Return the chords of a text such as `ctrl+a Delete`, in order.

    Raises:
        ToolError: a key is unknown, or the browser would zoom.
    """
    words = text.split()
    if not words:
        if not text:
            raise ToolError(
                "key needs text: keys separated by spaces, such as Enter, ctrl+a or Tab Tab Enter."
            )
        words = ["space"]
    if len(words) > MAX_KEYS:
        raise ToolError(
            f"That are {len(words)} keys; {MAX_KEYS} at once are the most. Text is written with type."
        )
    return [_parse_chord(word) for word in words]


def _parse_chord(word: str) -> Chord:
    head, plus, last = word.rpartition("+")
    if plus and not last:  # the key is + itself: `+`, `ctrl++`
        head, last = head.rstrip("+"), "+"
    held = modifiers_in(head) if head else ()
    chord = Chord(held, _find_key(last, is_alone=not held))
    _refuse_zoom(chord, word)
    return chord


def is_paste(chord: Chord) -> bool:
    """Return whether browsers paste the system's clipboard on it, on whatever system."""
    held, code = set(chord.modifiers), chord.key.code
    return (code == "KeyV" and bool({"Control", "Meta"} & held)) or (code == "Insert" and "Shift" in held)


def is_copy(chord: Chord) -> bool:
    """Return whether browsers copy or cut the selection on it."""
    held, code = chord.modifiers, chord.key.code
    if code in ("KeyC", "KeyX"):
        return held in (("Control",), ("Meta",))
    return (held, code) in ((("Control",), "Insert"), (("Shift",), "Delete"))


def has_paste(text: str) -> bool:
    """Return whether a sequence may have a paste key in it, also under names that only others know."""
    for word in text.split():
        try:
            chord = _parse_chord(word)
        except ToolError:
            if _PASTE_WORD.search(word):
                return True
        else:
            if is_paste(chord):
                return True
    return False


def browsers_own(chords: Iterable[Chord]) -> str:
    """Return a remark on chords that control the browser itself; empty without one."""
    if not any(map(_is_browsers_own, chords)):
        return ""
    return (
        " The page got it; the browser's own shortcuts do nothing here: use navigate, tabs_create and "
        "tabs_close_mcp."
    )


def _is_browsers_own(chord: Chord) -> bool:
    if {"Control", "Meta"} & set(chord.modifiers):
        return chord.key.key in _OF_TABS
    return not chord.modifiers and chord.key.key in _OF_WINDOWS


def _find_key(name: str, *, is_alone: bool) -> Key:
    lower = name.lower()
    if lower in _MODIFIER_NAMES:
        return MODIFIERS[_MODIFIER_NAMES[lower]][0]
    meant = _ALIASES.get(lower, lower)
    if found := _BY_NAME.get(meant):
        return found
    character = meant if len(meant) == 1 and len(name) > 1 else name
    if len(character) == 1:
        # Ctrl+A is written for Ctrl and the key A, not for Shift as well.
        return key_for(character if is_alone else character.lower())
    raise ToolError(
        f"There is no key “{name[:40]}”. Keys are named as Enter, Tab, Escape, Backspace, Delete, Home, End, "
        "PageUp, ArrowLeft, F5, a single character, or a chord such as ctrl+a. Text is written with type."
    )


def parts_of(text: str, *, by_key: bool) -> Iterator[str | Chord]:
    """Split a text into pieces that are inserted at once and keys that are pressed.

    A line break is Enter and a tab Tab: editors, forms and chats react to these keys. The last character of a
    piece is pressed, for widgets that only handle keys; `by_key` presses all.
    """
    for piece in re.split(r"([\n\t])", text):
        if piece in _CONTROL:
            yield Chord((), _CONTROL[piece])
        elif piece:
            pressed = piece if by_key else piece[-1:] if key_for(piece[-1]).code else ""
            if put_in := piece[: len(piece) - len(pressed)]:
                yield put_in
            yield from (Chord((), key_for(character)) for character in pressed)


def key_for(character: str) -> Key:
    """Return the key that types a character; one that a US keyboard lacks has no code."""
    return _PRINTABLE.get(character) or _BY_NAME.get(character) or Key(character, text=character)


def _refuse_zoom(chord: Chord, word: str) -> None:
    if chord.key.code in _ZOOM_CODES and {"Control", "Meta"} & set(chord.modifiers):
        raise ToolError(
            f"{word} changes the zoom of the user's browser for that whole site, so it was not pressed. zoom "
            "shows a part of the page larger, resize_window changes how much of it fits."
        )


def key_events(chord: Chord) -> Iterator[dict[str, Any]]:
    """Yield the params of `Input.dispatchKeyEvent` that press and release a chord, in order."""
    is_shifted = chord.key.is_shifted and "Shift" not in chord.modifiers
    held = [*chord.modifiers, *(["Shift"] if is_shifted else [])]
    for count, name in enumerate(held, 1):
        yield _key_event("rawKeyDown", MODIFIERS[name][0], modifier_bits(held[:count]))
    yield _key_down(_as_held(chord.key, held), held)
    yield _key_event("keyUp", _as_held(chord.key, held), modifier_bits(held))
    for count, name in reversed(list(enumerate(held))):
        yield _key_event("keyUp", MODIFIERS[name][0], modifier_bits(held[:count]))


def _as_held(key: Key, held: list[str]) -> Key:
    return _SHIFTED.get(key.code, key) if "Shift" in held else key


def _key_down(key: Key, held: list[str]) -> dict[str, Any]:
    if not key.text or {"Control", "Alt", "Meta"} & set(held):  # then it writes nothing
        event = _key_event("rawKeyDown", key, modifier_bits(held))
        if held == ["Meta"] and (command := _EDITING.get(key.key)):
            event["commands"] = [command]
        return event
    return {**_key_event("keyDown", key, modifier_bits(held)), "text": key.text, "unmodifiedText": key.text}


def _key_event(kind: str, key: Key, held: int) -> dict[str, Any]:
    return {
        "type": kind,
        "key": key.key,
        "code": key.code,
        "windowsVirtualKeyCode": key.number,
        "location": key.location,
        "modifiers": held,
    }
