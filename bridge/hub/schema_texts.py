"""Sanitizer of the texts in a page tool's JSON Schema and other members.

Texts that only describe (`title`, `description`, `$comment`) are sanitized. Names and values (property names,
enum members, `const`, `default`, …) must be repeated in a call, so they are never changed: a member with
hidden characters in one of them is left out whole.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from native_host.protocol.untrusted_text import (
    MAX_DESCRIPTION_CHARS,
    format_description,
    has_hidden_characters,
)

_TEXTS = ("title", "description", "$comment")
_MAPS_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "enum", "default", "examples")


class HiddenCharacterError(ValueError):
    """A name or a value contains a character that a user cannot see."""


def sanitize_schema(schema: Raw) -> Raw | None:
    """Return a JSON Schema with sanitized texts, byte for byte where none has to change.

    None: it cannot be shown, because names or values in it contain hidden characters.
    """
    if _is_plain(schema):
        return schema
    found = msgspec.json.decode(schema)
    try:
        sanitized = _sanitize_schema(found)
    except HiddenCharacterError:
        return None
    return schema if sanitized == found else Raw(msgspec.json.encode(sanitized))


def remove_texts(schema: bytes) -> bytes:
    """Return a JSON Schema without the texts that only describe."""
    return msgspec.json.encode(_sanitize_structure(msgspec.json.decode(schema)))


def has_hidden(member: Raw) -> bool:
    """Return whether a string in this JSON contains a hidden character."""
    if _is_plain(member):
        return False
    try:
        _check_texts(msgspec.json.decode(member))
    except HiddenCharacterError:
        return True
    return False


def _is_plain(member: Raw) -> bool:
    """Return whether JSON needs no closer look: ASCII without escapes holds no hidden character."""
    text = bytes(member)
    return text.isascii() and b"\\" not in text and b"\x7f" not in text


def _sanitize_schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_sanitize_schema(each) for each in value]
    if not isinstance(value, dict):
        _check_texts(value)
        return value
    return {_check_text(key): _sanitize_member(key, member) for key, member in value.items()}


def _sanitize_member(key: str, value: Any) -> Any:
    if key in _TEXTS and isinstance(value, str):
        return _sanitize_text(value)
    if key in _VALUES:
        _check_texts(value)
        return value
    if key in _MAPS_OF_SCHEMAS and isinstance(value, dict):
        return {_check_text(name): _sanitize_schema(each) for name, each in value.items()}
    return _sanitize_schema(value)


def _sanitize_structure(value: Any) -> Any:
    if isinstance(value, list):
        return [_sanitize_structure(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _member_structure(key, member)
        for key, member in value.items()
        if not (key in _TEXTS and isinstance(member, str))
    }


def _member_structure(key: str, value: Any) -> Any:
    if key in _VALUES:
        return value
    if key in _MAPS_OF_SCHEMAS and isinstance(value, dict):
        return {name: _sanitize_structure(each) for name, each in value.items()}
    return _sanitize_structure(value)


def _sanitize_text(text: str) -> str:
    return (
        format_description(text) if len(text) > MAX_DESCRIPTION_CHARS or has_hidden_characters(text) else text
    )


def _check_texts(value: Any) -> None:
    match value:
        case str():
            _check_text(value)
        case list():
            for each in value:
                _check_texts(each)
        case dict():
            for name, each in value.items():
                _check_text(name)
                _check_texts(each)


def _check_text(text: str) -> str:
    if has_hidden_characters(text):
        raise HiddenCharacterError
    return text
