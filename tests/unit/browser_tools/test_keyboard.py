"""Keys by name, and text, as the key events that DevTools are given."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.browser_tools.page import keyboard
from bridge.browser_tools.page.keyboard import Chord
from bridge.browser_tools.tool_output import ToolError

NUMBERS = {"Enter": 13, "ArrowDown": 40, "F12": 123, "a": 65, "A": 65, "1": 49, "!": 49, "?": 191, " ": 32}
"""Windows virtual key codes, as Microsoft's table has them."""


def pressed(text: str) -> list[str]:
    """What is pressed and let go: `+Control +a -a -Control`."""
    events = [event for chord in keyboard.sequence_in(text) for event in keyboard.key_events(chord)]
    return [("-" if event["type"] == "keyUp" else "+") + event["key"] for event in events]


def down(text: str) -> dict[str, Any]:
    """The event of the key itself."""
    (chord,) = keyboard.sequence_in(text)
    return [event for event in keyboard.key_events(chord) if event["type"] != "keyUp"][-1]


def typed(text: str, *, by_key: bool = False) -> list[str]:
    """What is put in at once, and `<keys>` that are pressed."""
    parts = keyboard.parts_of(text, by_key=by_key)
    return [part if isinstance(part, str) else f"<{part.key.key}>" for part in parts]


@pytest.mark.parametrize(
    ("name", "key", "code"),
    [
        ("Enter", "Enter", "Enter"),
        ("Return", "Enter", "Enter"),
        ("esc", "Escape", "Escape"),
        ("PAGEUP", "PageUp", "PageUp"),
        ("Page_Down", "PageDown", "PageDown"),
        ("down", "ArrowDown", "ArrowDown"),
        ("space", " ", "Space"),
        ("Delete", "Delete", "Delete"),
        ("f12", "F12", "F12"),
        ("cmd", "Meta", "MetaLeft"),
        ("a", "a", "KeyA"),
        ("A", "A", "KeyA"),
        ("?", "?", "Slash"),
        ("+", "+", "Equal"),
        ("plus", "+", "Equal"),
        ("é", "é", ""),
    ],
)
def test_keys_have_the_names_that_models_use(name: str, key: str, code: str) -> None:
    event = down(name)
    assert (event["key"], event["code"]) == (key, code)


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_pages_see_the_usual_key_codes(name: str, number: int) -> None:
    assert down(name if name != " " else "space")["windowsVirtualKeyCode"] == number


def test_modifiers_of_a_chord_are_held_around_its_key() -> None:
    assert pressed("ctrl+shift+k") == ["+Control", "+Shift", "+K", "-K", "-Shift", "-Control"]
    assert pressed("Ctrl+A") == pressed("ctrl+a"), "the letter's case says nothing there"
    assert pressed("shift+Tab Enter") == ["+Shift", "+Tab", "-Tab", "-Shift", "+Enter", "-Enter"]


def test_shift_is_held_for_what_a_us_keyboard_writes_with_it() -> None:
    assert pressed("?") == ["+Shift", "+?", "-?", "-Shift"]
    assert down("shift+1")["text"] == "!"


def test_a_chord_with_control_writes_nothing() -> None:
    assert down("a")["text"] == "a"
    assert "text" not in down("ctrl+a")
    assert down("ctrl+a")["modifiers"] == keyboard.modifier_bits(["Control"]) == 2
    assert down("Enter")["text"] == "\r"


def test_editing_with_command_is_told_to_the_page_itself() -> None:
    assert down("cmd+a")["commands"] == ["selectAll"]
    assert "commands" not in down("ctrl+a")


@pytest.mark.parametrize("chord", ["ctrl+plus", "ctrl++", "cmd+-", "ctrl+0", "ctrl+shift+=", "meta+minus"])
def test_the_browsers_zoom_is_left_alone(chord: str) -> None:
    with pytest.raises(ToolError, match="changes the zoom"):
        keyboard.sequence_in(f"Tab {chord}")


@pytest.mark.parametrize("free", ["0", "-", "alt+0", "shift+="])
def test_what_zooms_only_with_control_is_a_key_like_others(free: str) -> None:
    assert keyboard.sequence_in(free)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "key needs text"),
        ("Entre", "no key “Entre”"),
        ("hyper+a", "“hyper” is no modifier"),
        ("hello world", "Text is written with type"),
        ("Tab " * 101, "100 at once are the most"),
    ],
)
def test_what_is_no_key_is_refused_with_what_to_do(text: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        keyboard.sequence_in(text)


def test_modifiers_for_the_pointer_are_each_counted_once() -> None:
    assert keyboard.modifiers_in("ctrl+Shift + cmd+win") == ("Control", "Shift", "Meta")
    assert keyboard.modifiers_in("") == ()
    with pytest.raises(ToolError, match="no modifier"):
        keyboard.modifiers_in("ctrl+a")


def test_text_for_a_field_is_put_in_at_once_but_for_its_last_character() -> None:
    assert typed("hello") == ["hell", "<o>"]
    assert typed("Grüße 👍") == ["Grüße 👍"], "a character that no key writes is not pressed"


def test_line_breaks_and_tabs_are_keys() -> None:
    assert typed("ada\tpw\n") == ["ad", "<a>", "<Tab>", "p", "<w>", "<Enter>"]


def test_where_there_is_no_field_each_character_is_a_key() -> None:
    assert typed("aB é", by_key=True) == ["<a>", "<B>", "< >", "<é>"]
    (chord,) = keyboard.parts_of("é", by_key=True)
    assert isinstance(chord, Chord)
    assert [event.get("text") for event in keyboard.key_events(chord)] == ["é", None]


@pytest.mark.parametrize("text", ["ctrl+w", "cmd+T", "ctrl+shift+n", "a ctrl+Tab", "F12"])
def test_of_a_shortcut_of_the_browser_it_is_said_that_only_the_page_gets_it(text: str) -> None:
    assert "the browser's own shortcuts do nothing here" in keyboard.browsers_own(keyboard.sequence_in(text))


@pytest.mark.parametrize("text", ["w", "ctrl+a", "Tab", "shift+Tab", "shift+F12", "F2"])
def test_of_other_keys_nothing_is_said(text: str) -> None:
    assert keyboard.browsers_own(keyboard.sequence_in(text)) == ""


@pytest.mark.parametrize(
    "text",
    ["ctrl+v", "cmd+V", "ctrl+shift+v", "cmd+alt+shift+v", "shift+Insert", "ctrl+shift+ins", "a ctrl+v Tab"],
)
def test_paste_keys_are_recognized_in_every_spelling(text: str) -> None:
    assert any(map(keyboard.is_paste, keyboard.sequence_in(text)))
    assert keyboard.has_paste(text)


@pytest.mark.parametrize("text", ["Paste", "⌘+v", "ControlOrMeta+V", "cmd-v", "shift+KP_Insert", "ctrl+KeyV"])
def test_paste_keys_under_foreign_names_are_recognized(text: str) -> None:
    assert keyboard.has_paste(f"Tab {text}")


@pytest.mark.parametrize(
    "text", ["v", "V", "shift+v", "alt+v", "Insert", "ctrl+Insert", "shift+Delete", "F9 Foo"]
)
def test_other_keys_are_no_paste_keys(text: str) -> None:
    assert not keyboard.has_paste(text)


@pytest.mark.parametrize("text", ["ctrl+c", "cmd+c", "ctrl+x", "ctrl+Insert", "shift+Delete"])
def test_copy_keys_are_recognized(text: str) -> None:
    assert all(map(keyboard.is_copy, keyboard.sequence_in(text)))


@pytest.mark.parametrize(
    "text", ["c", "ctrl+shift+c", "ctrl+alt+x", "Delete", "ctrl+Delete", "Insert", "ctrl+v"]
)
def test_other_keys_are_no_copy_keys(text: str) -> None:
    assert not any(map(keyboard.is_copy, keyboard.sequence_in(text)))
