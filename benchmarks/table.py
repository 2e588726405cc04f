"""Figures as a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Row:
    """One figure."""

    what: str
    value: float
    unit: str
    note: str = ""
    limit: float | None = None
    """What it must stay under, in the same unit."""


def show(title: str, rows: Iterable[Row]) -> bool:
    """Print each row as it comes; whether all stay under their limits."""
    click.secho(title, bold=True)
    is_good = True
    for row in rows:
        note = row.note
        if row.limit is not None:
            is_met = row.value < row.limit
            is_good = is_good and is_met
            note = f"{'under' if is_met else 'NOT UNDER'} {row.limit:g} {row.unit}  {note}"
        click.echo(f"  {row.what:<44} {row.value:>10.2f} {row.unit:<3} {note}".rstrip())
    return is_good
