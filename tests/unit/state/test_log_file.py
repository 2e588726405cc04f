"""The log file of a bridge: a full one is renamed, and nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.state import log_file
from native_host.system.home_layout import StateLayout

LINE = "x" * 1000


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    log_file.configure_logging(tmp_path)
    yield root
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


def test_a_full_file_is_renamed_and_the_one_before_it_replaced(
    logger: logging.Logger, tmp_path: Path
) -> None:
    log, previous = StateLayout(tmp_path).log, Path(f"{StateLayout(tmp_path).log}.1")
    previous.write_text("long ago")
    for number in range(1500):
        logger.warning("%d %s", number, LINE)
    lines = [*previous.read_text().splitlines(), *log.read_text().splitlines()]
    assert len(lines) == 1500
    assert 1024 * 1024 <= previous.stat().st_size <= 1024 * 1024 + 2000
    assert log.stat().st_mode & 0o777 == previous.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_renamed_goes_on_and_is_reported_once(
    logger: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = StateLayout(tmp_path).log
    Path(f"{log}.1").mkdir()
    for number in range(1200):
        logger.warning("%d %s", number, LINE)
    assert len(log.read_text().splitlines()) == 1200
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_a_file_that_another_bridge_has_renamed_is_not_renamed_again(
    logger: logging.Logger, tmp_path: Path
) -> None:
    log, previous = StateLayout(tmp_path).log, Path(f"{StateLayout(tmp_path).log}.1")
    for number in range(900):
        logger.warning("%d %s", number, LINE)
    log.rename(previous)
    log.write_text("of the other bridge\n")
    for number in range(900, 1200):
        logger.warning("%d %s", number, LINE)
    others, *ours = log.read_text().splitlines()
    assert others == "of the other bridge"
    assert len([*previous.read_text().splitlines(), *ours]) == 1200
