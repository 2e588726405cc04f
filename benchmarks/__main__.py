"""`make bench`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from benchmarks import (
    acting,
    browser,
    calls,
    comparison,
    crowd,
    find_phrases,
    hub,
    machine,
    memory,
    over_http,
    primitives,
    processor,
    programs,
    proxy,
    remote,
    scale,
    starts,
)
from benchmarks.conversation import EndError
from benchmarks.report import Report
from benchmarks.subject import Bench
from benchmarks.table import Table
from benchmarks.tokens import section as tokens
from demo.temporary_directory import throw_away_directory

Section = Callable[[Bench], Iterator[Table]]
SECTIONS: dict[str, Section] = {
    "path": calls.through_both,
    "http": over_http.tables,
    "host": calls.through_host,
    "bridge": calls.through_bridge,
    "processor": processor.tables,
    "crowd": crowd.tables,
    "scale": scale.tables,
    "hub": hub.tables,
    "primitives": primitives.tables,
    "starts": starts.tables,
    "remote": remote.tables,
    "proxy": proxy.tables,
    "memory": memory.tables,
    "chromium": browser.tables,
    "acting": acting.tables,
    "tokens": tokens.tables,
    "find": find_phrases.tables,
}
LAST_RUN = Path(__file__).with_name("last.json")
README = Path(__file__).with_name("README.md")
THIS_CHECKOUT = comparison.Checkout(Path(__file__).parent.parent)


@click.command()
@click.option("--quick", is_flag=True, help="Whether all works, in few rounds: no figures to be quoted.")
@click.option(
    "--only", multiple=True, type=click.Choice(list(SECTIONS)), help="This section; may be repeated."
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), default=LAST_RUN, show_default=True)
@click.option("--write-readme", is_flag=True, help="Put the tables of this run into benchmarks/README.md.")
@click.option(
    "--compare",
    "compared",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Compare with another checkout, in alternating rounds.",
)
def main(
    *, quick: bool, only: tuple[str, ...], json_file: Path, write_readme: bool, compared: Path | None
) -> None:
    """Measure, and print a table for each section; exit with 1 when a limit is not met."""
    if write_readme and (quick or only or compared):
        raise click.UsageError("README.md gets whole runs only: leave out --quick, --only and --compare.")
    with throw_away_directory("mcpb-bench-") as directory:
        if compared:
            report = Report(machine.describe())
            measured = _compared(compared, only, directory, is_quick=quick)
        else:
            bench = Bench(directory, programs.build(directory), is_quick=quick)
            report = Report(machine.describe() | _missing(bench))
            measured = _measured(bench, only)
        click.echo(report.heading())
        for table in measured:
            click.echo(f"\n{table.text()}")
            report.tables.append(table)
            json_file.write_bytes(report.json())
    if write_readme:
        README.write_text(report.written_into(README.read_text()))
    if quick:
        click.echo("\nAll of it works: no limit is judged by so few rounds." if report.is_whole else "")
        sys.exit(0 if report.is_whole else 1)
    click.echo(f"\n{report.verdict()}")
    sys.exit(0 if report.is_good else 1)


def _missing(bench: Bench) -> dict[str, str]:
    missing = calls.missing(bench)
    return {"missing": "; ".join(missing)} if missing else {}


def _compared(other: Path, only: tuple[str, ...], directory: Path, *, is_quick: bool) -> Iterator[Table]:
    there = comparison.Checkout(other)
    if missing := there.missing():
        raise click.UsageError(f"{missing} is missing: run install/prepare.sh test in {other}.")
    sections = [name for name in SECTIONS if not only or name in only]
    return comparison.tables(THIS_CHECKOUT, there, sections, directory, is_quick=is_quick)


def _measured(bench: Bench, only: tuple[str, ...]) -> Iterator[Table]:
    for name, section in SECTIONS.items():
        if only and name not in only:
            continue
        try:
            yield from section(bench)
        except EndError as error:
            yield Table(f"The section {name}", failure=str(error))


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)  # as Ctrl-C: what was started is ended first
    main()
