"""Gates of docs/STYLE.md: they report until they reject."""

from __future__ import annotations

import os
from collections.abc import Iterable

REJECTS = os.environ.get("MCPB_GATES") == "reject"
"""Whether a violation fails a test. False while the older prose is rewritten."""


def check_gate(name: str, violations: Iterable[object]) -> None:
    """Print the violations of a gate.

    Raises:
        AssertionError: the gates reject, and there is a violation.
    """
    found = [str(each) for each in violations]
    print(f"{name}: {len(found)} violations", *found, sep="\n  ")  # noqa: T201  (for `pytest -s`)
    assert not (REJECTS and found), f"{name}: {len(found)} violations, the first: {found[0]}"
