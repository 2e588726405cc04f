"""Log of a remote server, and the mask of its secrets: headers, variables, and parts of its URL."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

import msgspec

from bridge.links.remote_options import RemoteOptions

_MIN_SECRET_CHARS = 4
_MIN_SEGMENT_CHARS = 16
"""Shorter segments of a URL's path are words of the service."""
_MAX_SECRETS = 64
"""Tokens that are replaced again and again must not be kept for ever."""
_MASK = "•••"
_ELLIPSIS = "…"


class SecretMask:
    """Secret values of a server: of its headers, of its variables, and of its address."""

    def __init__(self, url: str) -> None:
        self._of_address = [part for part in _secrets_of_address(url) if len(part) >= _MIN_SECRET_CHARS]
        self._values: dict[str, None] = {}
        """Others, in the order of their last use."""

    def add(self, named: Mapping[str, str]) -> None:
        """Add the values of headers or variables."""
        for name, value in named.items():
            self._add((value, value.rpartition(" ")[2]))
            if name.lower() == "cookie":
                self._add(cookie.partition("=")[2].strip() for cookie in value.split(";"))

    def _add(self, parts: Iterable[str]) -> None:
        for part in parts:
            if len(part) >= _MIN_SECRET_CHARS:
                self._values.pop(part, None)
                self._values[part] = None
        for oldest in list(self._values)[:-_MAX_SECRETS]:
            del self._values[oldest]

    def _secrets(self) -> list[str]:
        # The longest first: it may contain another one.
        return sorted((*self._of_address, *self._values), key=len, reverse=True)

    def mask(self, text: str) -> str:
        """Return the text without the values."""
        # A limit may have cut a value: then an ellipsis follows its beginning.
        *cut, rest = self._mask_whole(text).split(_ELLIPSIS)
        return _ELLIPSIS.join([*map(self._mask_beginning, cut), rest])

    def _mask_whole(self, text: str) -> str:
        for value in self._secrets():
            text = text.replace(value, _MASK)
        return text

    def _mask_beginning(self, text: str) -> str:
        """Mask the longest beginning of a value at the end of the text."""
        secrets = self._secrets()
        longest = max(map(len, secrets), default=0)
        for length in range(min(longest, len(text)), _MIN_SECRET_CHARS - 1, -1):
            if any(value.startswith(text[-length:]) for value in secrets):
                return text[:-length] + _MASK
        return text

    def mask_json(self, value: Any) -> Any:
        """Return a JSON value without the values."""
        if value is None or not (secrets := self._secrets()):
            return value
        text = masked = msgspec.json.encode(value).decode()
        for secret in secrets:
            masked = masked.replace(msgspec.json.encode(secret).decode()[1:-1], _MASK)
        if masked == text:
            return value
        try:
            return msgspec.json.decode(masked)
        except msgspec.DecodeError:
            return None


def _secrets_of_address(url: str) -> Iterator[str]:
    """Yield the parts that may be secret, also as a server reads them, which decodes `%2B`."""
    address, _, query = url.partition("#")[0].partition("?")
    authority, _, path = address.partition("://")[2].partition("/")
    userinfo = authority.rpartition("@")[0]
    pairs = (pair.partition("=")[2] for pair in query.split("&"))
    segments = (segment for segment in path.split("/") if len(segment) >= _MIN_SEGMENT_CHARS)
    for part in (query, *pairs, *userinfo.split(":"), *segments):
        yield from {part, unquote(part), unquote_plus(part)}


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
