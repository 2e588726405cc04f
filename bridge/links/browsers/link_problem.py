"""Reason why a browser is not connected: what `mcpb status` shows."""

from __future__ import annotations

import math

import msgspec


class LinkProblem(msgspec.Struct):
    """Reason why a live host, a whole directory, or a proxy is not connected."""

    text: str
    """A Problem, if there is a command."""
    retry_at: float
    """Time of trio's clock of the next attempt."""

    @property
    def is_final(self) -> bool:
        """Trying again cannot help: it speaks another version of the wire."""
        return math.isinf(self.retry_at)
