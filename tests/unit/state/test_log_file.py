"""The log file of a bridge: bounded, and for its user alone."""

import logging
from pathlib import Path

import pytest

from bridge.state import log_file


@pytest.fixture
def state(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is; the handlers are gone afterwards."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.delenv("MCPB_LOG", raising=False)
    return short_tmp / "state"


def test_the_file_is_rotated_by_size_and_each_is_private(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "MAX_BYTES", 200)
    log_file.configure_logging(state)
    for number in range(10):
        logging.getLogger("bridge.test").warning("%d %s", number, "x" * 100)
        logging.getLogger("bridge.test").debug("not written")
    for handler in logging.getLogger().handlers:
        handler.close()
    files = sorted(state.iterdir())
    assert [file.name for file in files] == ["mcpb.log", "mcpb.log.1"]
    assert " WARNING bridge.test: 9 " in files[0].read_text()
    assert "not written" not in files[0].read_text()
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_half_a_character_does_not_keep_a_line_out(state: Path) -> None:
    log_file.configure_logging(state)
    logging.getLogger("bridge.test").warning("half of one: \ud800")
    for handler in logging.getLogger().handlers:
        handler.close()
    assert "half of one: \\ud800" in (state / "mcpb.log").read_text()
