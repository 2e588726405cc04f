"""Regular expressions of clients on page text, in linear time.

Python's `re` can take years for a short line of a page that knows the expression. The engine behind
`jsonschema_rs` cannot; it has neither look-around nor back-references, and is used through a schema.
"""

from __future__ import annotations

from collections.abc import Callable

from bridge.browser_tools.tool_output import ToolError

MAX_CHARS = 500
_COMPILED_BYTES = 256 * 1024
_CACHE_BYTES = 64 * 1024


def compile_pattern(expression: str) -> Callable[[str], bool]:
    """Return a predicate for texts with a match anywhere, ignoring case.

    Raises:
        ToolError: the expression is invalid.
    """
    import jsonschema_rs  # noqa: PLC0415  (with the first pattern, docs/DEVELOPMENT.md "Cold start")

    if len(expression) > MAX_CHARS:
        raise ToolError(f"pattern is {len(expression)} characters long; at most {MAX_CHARS} are taken.")
    options = jsonschema_rs.RegexOptions(_COMPILED_BYTES, _CACHE_BYTES)
    try:
        validator = jsonschema_rs.Draft202012Validator(
            {"pattern": f"(?i){expression}"}, pattern_options=options
        )
    except jsonschema_rs.ValidationError:
        raise ToolError(
            f"pattern is no regular expression that is understood here: {expression}. Look-around, "
            "back-references and very large repetitions are not. Put a \\ before . * + ? ( ) [ ] { } | ^ $ "
            "where they are meant as they are, or leave pattern out."
        ) from None
    return validator.is_valid
