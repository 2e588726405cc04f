"""`make bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from benchmarks import browser, calls, hub, machine, programs
from benchmarks.subject import Bench
from benchmarks.table import Table
from demo.throw_away import throw_away_directory

Section = Callable[[Bench], Iterator[Table]]
SECTIONS: dict[str, Section] = {
    "path": calls.through_both,
    "host": calls.through_host,
    "bridge": calls.through_bridge,
    "hub": hub.tables,
    "chromium": browser.tables,
}
"""In the order in which they run."""
LAST_RUN = Path(__file__).with_name("last.json")


@click.command()
@click.option("--quick", is_flag=True, help="Whether all works, in few rounds: no figures to be quoted.")
@click.option(
    "--only", multiple=True, type=click.Choice(list(SECTIONS)), help="This section; may be repeated."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), default=LAST_RUN, show_default=True)
def main(*, quick: bool, only: tuple[str, ...], json_file: Path) -> None:
    """Measure, and print a table for each section; exit with 1 when a limit is not met."""
    found = machine.describe()
    for name, text in found.items():
        click.echo(f"{name:<9} {text}")
    tables: list[Table] = []
    with throw_away_directory("mcpb-bench-") as directory:
        bench = Bench(directory, programs.build(directory), is_quick=quick)
        for table in _measured(bench, only):
            click.echo(f"\n{table.text()}")
            tables.append(table)
    report = {**found, "quick": quick, "tables": tables}
    json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    sys.exit(0 if all(table.is_good for table in tables) else 1)


def _measured(bench: Bench, only: tuple[str, ...]) -> Iterator[Table]:
    for name, section in SECTIONS.items():
        if not only or name in only:
            yield from section(bench)


if __name__ == "__main__":
    main()
