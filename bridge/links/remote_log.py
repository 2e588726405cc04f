"""Log of a remote server, and the mask of its secrets: headers, variables, userinfo and query of its URL."""

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
_ELLIPSIS = "…"


class SecretMask:
    """Secret values of a server: of its headers, of its variables, and of its address."""

    def __init__(self, url: str) -> None:
        query = url.partition("?")[2].partition("#")[0]
        userinfo = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        parts = [query, *(pair.partition("=")[2] for pair in query.split("&")), *userinfo.split(":")]
        self._values: dict[str, None] = {}
        """In the order of their last use."""
        self._add(parts)

    def add(self, named: Mapping[str, str]) -> None:
        """Add the values of headers or variables."""
        for value in named.values():
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
        # A limit may have cut a value: then an ellipsis follows its beginning.
        *cut, rest = self._mask_whole(text).split(_ELLIPSIS)
        return _ELLIPSIS.join([*map(self._mask_beginning, cut), rest])

    def _mask_whole(self, text: str) -> str:
        # The longest first: it may contain another one.
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, _MASK)
        return text

    def _mask_beginning(self, text: str) -> str:
        """Mask the longest beginning of a value at the end of the text."""
        longest = max(map(len, self._values), default=0)
        for length in range(min(longest, len(text)), _MIN_SECRET_CHARS - 1, -1):
            if any(value.startswith(text[-length:]) for value in self._values):
                return text[:-length] + _MASK
        return text

    def mask_json(self, value: Any) -> Any:
        """Return a JSON value without the values."""
        if value is None or not self._values:
            return value
        text = msgspec.json.encode(value).decode()
        masked = self._mask_whole(text)
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
