"""Error of a value in config.toml that its type allows and its table does not."""

from __future__ import annotations


class SettingError(ValueError):
    """A key has a value that its type allows and its table does not."""

    def __init__(self, key: str, reason: str) -> None:
        """Name the key in its table, and how to write the value."""
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason
