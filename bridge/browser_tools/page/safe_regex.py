"""A client's regular expression, applied to what pages wrote, in time that grows with the text alone.

Python's `re` can take years for a short line of a page that has read the expression. The engine behind
`jsonschema_rs` cannot; it has neither look-around nor back-references, and is reached through a schema.
"""

from __future__ import annotations

from collections.abc import Callable

from bridge.browser_tools.tool_output import ToolError

MAX_CHARS = 500
_COMPILED_BYTES = 256 * 1024
_CACHE_BYTES = 64 * 1024


def compiled(expression: str) -> Callable[[str], bool]:
    """Whether a text has a match anywhere in it, in upper or lower case.

    Raises:
        ToolError: it is no regular expression that can be used.
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
