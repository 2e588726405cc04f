"""TOML of the user's files: parses and writes it, and finds the lines of keys and tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from native_host.system.private_files import PrivateFileError

_STATEMENT = re.compile(rb"[ \t]*(?:(?P<head>\[\[?)[ \t]*(?P<table>[\w.-]+)[ \t]*\]|(?P<key>[\w.-]+)[ \t]*=)")
"""Pattern of a table header or a key in TOML, in its usual spelling."""


def parse_toml(path: Path, content: bytes) -> dict[str, Any]:
    """Parse the TOML of a file.

    Raises:
        PrivateFileError: it is not valid; the reason has the line where the parser knows it.
    """
    import tomllib  # noqa: PLC0415  (a bridge without config.toml starts sooner)

    try:
        return tomllib.loads(content.decode())
    except tomllib.TOMLDecodeError as error:
        # The parser names no line where the document ends too early.
        lines = content.count(b"\n", 0, len(content.rstrip())) + 1
        raise PrivateFileError(path, f"is not valid TOML: {error}, of {lines} lines") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise PrivateFileError(path, f"is not valid TOML: line {line} is not UTF-8") from error
    except RecursionError:
        raise PrivateFileError(path, "is not valid TOML: it is nested too deeply") from None


def line_of(content: bytes, key: str) -> int | None:
    """Return the line of a key such as `policy.tools[1].allow` in valid TOML, or of the array that has it.

    None: it is spelled otherwise (quoted, for instance), or a string of several lines could be taken for it.
    """
    if b'"""' in content or b"'''" in content:
        return None
    key = key.partition("[...]")[0]
    table, heads = "", Counter[str]()
    for number, line in enumerate(content.split(b"\n"), 1):
        if not (found := _STATEMENT.match(line)):
            continue
        if found["table"]:
            table = found["table"].decode()
            if found["head"] == b"[[":
                heads[table] += 1
                table = f"{table}[{heads[table] - 1}]"
            elif array := next((name for name in heads if table.startswith(f"{name}.")), ""):
                table = f"{array}[{heads[array] - 1}]{table.removeprefix(array)}"
            if key == table:
                return number
        else:
            here = f"{table}.{found['key'].decode()}".lstrip(".")
            if key == here or key.startswith((f"{here}[", f"{here}.")):
                return number
    return None


def find_entry(content: bytes, array: str, index: int) -> tuple[int, int]:
    """Return the lines of an entry of an array of tables, from 0, the end excluded.

    Comments behind its last key belong to what follows. It finds tables in their usual spelling; callers
    parse the result of an edit to see that it removes what they mean.

    Raises:
        LookupError: the array is written in another way.
    """
    lines = content.split(b"\n")
    heads = [(number, found) for number, line in enumerate(lines) if (found := _STATEMENT.match(line))]
    tables = [(number, found["head"], found["table"].decode()) for number, found in heads if found["table"]]
    starts = [number for number, head, table in tables if (head, table) == (b"[[", array)]
    start = starts[index]
    ends = (number for number, _, table in tables if number > start and not table.startswith(f"{array}."))
    end = next(ends, len(lines))
    while end > start + 1 and lines[end - 1].strip()[:1] in {b"", b"#"}:
        end -= 1
    return start, end


def format_value(value: Any) -> str:
    """Return a value in TOML, in one line."""
    match value:
        case Mapping():
            pairs = [f"{_format_key(key)} = {format_value(each)}" for key, each in value.items()]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(format_value, value))}]"
        case _:
            # The escapes of JSON are escapes of TOML, which has one more.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _format_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else format_value(key)
