"""Host manifest: its text, its faults as browsers see them, and the callers that it admits. Sans-IO."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from install.browsers import Kind
from install.findings import (
    Finding,
    FindingCode,
    Message,
    Part,
    Value,
    foreign_value,
    path_value,
    public_value,
)
from native_host.protocol.untrusted_text import escape
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID

CALLERS_KEY: dict[Kind, str] = {"chromium": "allowed_origins", "firefox": "allowed_extensions"}
# Chromium's IsValidName and Mozilla's schema of native manifests: with another name no file is taken.
_NAME: dict[Kind, re.Pattern[str]] = {
    "chromium": re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*"),
    "firefox": re.compile(r"\w+(\.\w+)*"),
}
# What Chromium takes for the pattern of one extension: a host without wildcards, and a path. It does not ask
# for 32 letters from a to p, and a pattern for any scheme, which admits no extension, is harmless (seen with
# Chromium 150).
_ORIGIN_PATTERN = re.compile(r"(?:chrome-extension|\*)://[^/*:@]+/.*")
# Chromium's JSON has comments, line feeds in texts, \x41 and \v besides (base/json/json_reader.h; seen).
_TEXT_OR_COMMENT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_ESCAPE_OR_LINE_FEED = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(v)|\\.|\n", re.DOTALL)
_CHROMIUM_DEEPEST = 200
"""Lists and objects in each other (json_reader.h); of Firefox no bound is known."""
# Firefox ESR 140 takes no file with another key in it (seen); Chromium does not mind.
_FIREFOX_KEYS = {"name", "description", "type", "path", CALLERS_KEY["firefox"]}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN = 80


def manifest_text(kind: Kind, program: Path, callers: Sequence[str]) -> str:
    """Return the manifest for browsers of this kind, which admits those of `callers` that it knows."""
    template = msgspec.json.decode((resources.files("manifests") / f"{kind}.json").read_text())
    allowed = [caller_of for caller_of in callers if is_caller(caller_of, kind)]
    manifest = {**template, "path": str(program), CALLERS_KEY[kind]: allowed}
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"


def read_manifest(content: bytes, kind: Kind | None = None) -> dict[str, Any] | None:
    """Return the object of a manifest as browsers of this kind read it, or of any kind; None if invalid."""
    try:
        manifest = _decode_json(content, kind)
    except ValueError:
        return None
    return manifest if isinstance(manifest, dict) else None


def program_named_in(content: bytes, kind: Kind | None = None) -> Path | None:
    """Return the program of a manifest; None if it names no absolute path."""
    manifest = read_manifest(content, kind) or {}
    named = manifest.get("path")
    if not (isinstance(named, str) and named.startswith("/")):
        return None
    return Path(_whole_text(named.partition("\0")[0]))  # what follows is nothing to either (seen)


def callers_in(content: bytes, kind: Kind) -> list[str]:
    """Return the callers that a manifest admits; items that are not text are omitted."""
    manifest = read_manifest(content, kind) or {}
    listed = manifest.get(CALLERS_KEY[kind])
    return [_whole_text(item) for item in listed if isinstance(item, str)] if isinstance(listed, list) else []


def _whole_text(text: str) -> str:
    """Halves of characters, which JSON can have and no path, are replaced, as Firefox does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def manifest_faults(content: bytes, file: Path, kind: Kind, caller_of: str) -> list[Finding]:
    """Return the reason why a browser of this kind does not let `caller` start the program of this manifest.

    The checks are the browser's own, in its order (Chromium: native_messaging_host_manifest.cc and
    launch_context.cc; Firefox: native_manifest.json and NativeManifests.sys.mjs): it stops at the first.
    install/program_check.py then checks the program.
    """
    manifest = read_manifest(content, kind)
    if manifest is None:
        reason = foreign_value(_json_error(content, kind))
        return [
            _make_finding(
                FindingCode.MANIFEST_NOT_JSON,
                file,
                _make_fault("is not a JSON object ({reason})", reason=reason),
            )
        ]
    checks = _chromium_faults if kind == "chromium" else _firefox_faults
    found: dict[FindingCode, Message] = {}
    for code, fault in checks(manifest, file, caller_of):
        found.setdefault(code, fault)
    return [_make_finding(code, file, fault) for code, fault in found.items()]


def _make_finding(code: FindingCode, file: Path, fault: Message) -> Finding:
    values = {"file": path_value(file), **fault.values}
    return Finding(code=code, hop="manifest", template=f"{{file}} {fault.template}", values=values)


def _make_fault(template: str, **values: Part) -> Message:
    return Message(template=template, values=values)


# ── JSON, as each browser reads it ──────────────────────────────────────────────────────────────────────────


def _decode_json(content: bytes, kind: Kind | None) -> Any:
    """Decode JSON as a browser does. Raises ValueError with the reason."""
    text = content.removeprefix(_BYTE_ORDER_MARK).decode()
    try:
        plain = text if kind == "firefox" else _without_extras(text)
        found = json.loads(plain, parse_constant=_number_text, parse_float=_number_text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if kind == "chromium":
        json.dumps(found, ensure_ascii=False).encode()  # it takes no half of a character, Firefox does (seen)
    if kind == "chromium" and _is_deep(found):
        raise ValueError(f"nested deeper than {_CHROMIUM_DEEPEST} levels")
    return found


def _number_text(text: str) -> float:
    """Python's own reader would take NaN and what is too great for a number."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:_SHOWN]} is no number of JSON")
    return number


def _without_extras(text: str) -> str:
    """Remove comments and trailing commas, which Chromium accepts."""
    return _TEXT_OR_COMMENT.sub(lambda found: _plain_json(found[0]) if found[0][0] == '"' else " ", text)


def _plain_json(text: str) -> str:
    return _ESCAPE_OR_LINE_FEED.sub(_escape_match, text)


def _escape_match(found: re.Match[str]) -> str:
    if found[0] == "\n":
        return r"\n"
    return rf"\u00{found[1]}" if found[1] else r"\u000b" if found[2] else found[0]


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_CHROMIUM_DEEPEST):
        level = [inner for outer in level for inner in _values_inside(outer)]
    return bool(level)


def _values_inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _json_error(content: bytes, kind: Kind) -> str:
    try:
        _decode_json(content, kind)
    except ValueError as error:
        return str(error)
    return "something else is in it"


# ── The checks ──────────────────────────────────────────────────────────────────────────────────────────────


_Fault = tuple[FindingCode, Message]
"""Code, and predicate of a sentence about the file."""


def _chromium_faults(manifest: dict[str, Any], file: Path, caller_of: str) -> Iterator[_Fault]:
    yield from _shape_faults(manifest, "chromium")
    yield from _name_fault(manifest, file)
    yield from _caller_fault(manifest, "chromium", caller_of)
    yield from _path_fault(manifest)


def _firefox_faults(manifest: dict[str, Any], file: Path, caller_of: str) -> Iterator[_Fault]:
    yield from _shape_faults(manifest, "firefox")
    if unknown := [key for key in manifest if key not in _FIREFOX_KEYS]:
        template = "has the key {key}: Firefox rejects a manifest with an unknown key"
        yield FindingCode.MANIFEST_UNKNOWN_KEY, _make_fault(template, key=_show_json(unknown[0]))
    yield from _name_fault(manifest, file)
    yield from _path_fault(manifest)
    yield from _caller_fault(manifest, "firefox", caller_of)


def _shape_faults(manifest: dict[str, Any], kind: Kind) -> Iterator[_Fault]:
    """Yield the faults that a browser reports before it compares the name."""
    name = manifest.get("name")
    if not (isinstance(name, str) and _NAME[kind].fullmatch(name)):
        yield FindingCode.MANIFEST_NAME, _make_fault('has no valid "name" ({found})', found=_show_json(name))
    description = manifest.get("description")
    if not isinstance(description, str) or (kind == "chromium" and not description):
        yield FindingCode.MANIFEST_DESCRIPTION, _make_fault('has no "description"')
    if manifest.get("type") != "stdio":
        fault = _make_fault('has not "type": "stdio" ({found})', found=_show_json(manifest.get("type")))
        yield FindingCode.MANIFEST_TYPE, fault
    path = manifest.get("path")
    if not (isinstance(path, str) and path):
        yield FindingCode.MANIFEST_PATH, _make_fault('has no "path"')
    yield from _callers_fault(manifest.get(CALLERS_KEY[kind]), kind)


def _callers_fault(listed: object, kind: Kind) -> Iterator[_Fault]:
    if not isinstance(listed, list):
        yield (
            FindingCode.MANIFEST_CALLERS,
            _make_fault('has no list "{key}"', key=public_value(CALLERS_KEY[kind])),
        )
        return
    malformed = [item for item in listed if not _is_taken(item, kind)]
    if malformed:
        wanted = "chrome-extension://<32 letters>/" if kind == "chromium" else "an add-on's id"
        template = 'has {entry} in "{key}", which is not {wanted}: the browser rejects the whole manifest'
        yield (
            FindingCode.ORIGIN_MALFORMED,
            _make_fault(
                template,
                entry=_show_json(malformed[0]),
                key=public_value(CALLERS_KEY[kind]),
                wanted=public_value(wanted),
            ),
        )


def _is_taken(item: object, kind: Kind) -> bool:
    if kind == "firefox":
        return is_caller(item, kind)
    return isinstance(item, str) and _ORIGIN_PATTERN.fullmatch(item) is not None


def _name_fault(manifest: dict[str, Any], file: Path) -> Iterator[_Fault]:
    if manifest.get("name") != file.stem:
        template = 'has the "name" {found}, which differs from the file name'
        yield FindingCode.MANIFEST_NAME, _make_fault(template, found=_show_json(manifest.get("name")))


def _caller_fault(manifest: dict[str, Any], kind: Kind, caller_of: str) -> Iterator[_Fault]:
    listed = manifest.get(CALLERS_KEY[kind])
    if isinstance(listed, list) and not any(_admits_caller(item, kind, caller_of) for item in listed):
        values = {"caller": public_value(caller_of), "key": public_value(CALLERS_KEY[kind])}
        yield FindingCode.ORIGIN_MISSING, _make_fault('does not have {caller} in "{key}"', **values)


def _admits_caller(item: object, kind: Kind, caller_of: str) -> bool:
    """Chromium compares origins: what follows the slash is nothing to it, nor are capital letters."""
    if kind == "firefox":
        return item == caller_of
    return isinstance(item, str) and item.lower().startswith(caller_of)


def _path_fault(manifest: dict[str, Any]) -> Iterator[_Fault]:
    path = manifest.get("path")
    if not (isinstance(path, str) and path):
        return
    if not path.startswith("/"):
        fault = _make_fault('has the relative "path" {path}: it must begin with /', path=_show_json(path))
        yield FindingCode.MANIFEST_RELATIVE_PATH, fault
    elif path.endswith(("/", "/.")):
        fault = _make_fault('has the "path" {path}: a directory, not a program', path=_show_json(path))
        yield FindingCode.MANIFEST_PATH, fault


def _show_json(value: object) -> Value:
    """Return foreign JSON, shortened."""
    if value is None:
        return public_value("missing")
    text = escape(json.dumps(value, ensure_ascii=False))
    return foreign_value(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


_ORIGIN = re.compile(r"chrome-extension://[a-p]{32}/")
# Mozilla's rule for add-on ids: a UUID in braces, or something like a mail address.
_ADDON_ID = re.compile(
    r"\{[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}|[A-Za-z0-9._-]*@[A-Za-z0-9._-]+"
)


def extension_origin(extension_id: str) -> str:
    """As Chromium writes it: with the slash, without which the whole manifest is invalid."""
    return f"chrome-extension://{extension_id}/"


OUR_CALLERS = (extension_origin(EXTENSION_ID), FIREFOX_ID)


def caller_of(extension_id: str) -> str | None:
    """Return the browser's name for this extension; None without a valid Chromium or Firefox id."""
    if is_caller(extension_origin(extension_id), "chromium"):
        return extension_origin(extension_id)
    return extension_id if is_caller(extension_id, "firefox") else None


def is_caller(item: object, kind: Kind) -> bool:
    """Return whether a browser of this kind accepts the item; one malformed item invalidates the file."""
    rule = _ORIGIN if kind == "chromium" else _ADDON_ID
    return isinstance(item, str) and rule.fullmatch(item) is not None
