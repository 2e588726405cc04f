"""Log of a remote server, and the mask of its secrets: headers, userinfo and query of the address."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bridge.links.remote_options import RemoteOptions

_MIN_SECRET_CHARS = 4
_MAX_SECRETS = 64
"""Tokens that are replaced again and again must not be kept for ever."""
_MASK = "•••"


class SecretMask:
    """Secret values of a server: of its headers, and of its address."""

    def __init__(self, url: str) -> None:
        query = url.partition("?")[2].partition("#")[0]
        userinfo = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        parts = [query, *(pair.partition("=")[2] for pair in query.split("&")), *userinfo.split(":")]
        self._values: dict[str, None] = {}
        """In the order of their last use."""
        self._add(parts)

    def add(self, headers: Mapping[str, str]) -> None:
        """Add the values of headers."""
        for value in headers.values():
            self._add((value, value.rpartition(" ")[2]))

    def _add(self, parts: Iterable[str]) -> None:
        for part in parts:
            if len(part) >= _MIN_SECRET_CHARS:
                self._values.pop(part, None)
                self._values[part] = None
        for oldest in list(self._values)[:-_MAX_SECRETS]:
            del self._values[oldest]

    def mask(self, text: str) -> str:
        """Return the text without the values."""
        # The longest first: it may contain another one.
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, _MASK)
        return text

    def mask_json(self, value: Any) -> Any:
        """Return a JSON value without the values."""
        if value is None or not self._values:
            return value
        text = msgspec.json.encode(value).decode()
        masked = self.mask(text)
        if masked == text:
            return value
        try:
            return msgspec.json.decode(masked)
        except msgspec.DecodeError:
            return None


class RemoteLog:
    """Log of one server. Each message begins with its prefix and name."""

    def __init__(self, options: RemoteOptions) -> None:
        self._logger = options.logger or logging.getLogger(__name__)
        self._subject = f"{options.log_prefix} {options.name}"
        self._is_quiet = options.quiet
        self._warned = ""

    def info(self, text: str) -> None:
        """Log a message."""
        if not self._is_quiet:
            self._logger.info("%s: %s", self._subject, text)

    def warn(self, text: str) -> None:
        """Log a warning, but not twice in a row: a server that stays away would fill the log."""
        if not self._is_quiet and text != self._warned:
            self._logger.warning("%s: %s", self._subject, text)
        self._warned = text

    def error(self, text: str) -> None:
        """Log an error."""
        if not self._is_quiet:
            self._logger.error("%s: %s", self._subject, text)
