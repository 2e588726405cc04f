"""Who may start the host: extensions, as each kind of browser names them to it and in the host manifest."""

from __future__ import annotations

import re

from install.browsers import Kind
from native_host.protocol.wire import EXTENSION_ID, FIREFOX_ID

_ORIGIN = re.compile(r"chrome-extension://[a-p]{32}/")
# Mozilla's rule for add-on ids: a UUID in braces, or something like a mail address.
_ADDON_ID = re.compile(
    r"\{[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}|[A-Za-z0-9._-]*@[A-Za-z0-9._-]+"
)


def origin(extension_id: str) -> str:
    """As Chromium writes it: with the slash, without which the whole manifest is invalid."""
    return f"chrome-extension://{extension_id}/"


OUR_CALLERS = (origin(EXTENSION_ID), FIREFOX_ID)


def caller(extension_id: str) -> str | None:
    """How a browser names this extension; None when it is neither a Chromium nor a Firefox id."""
    if is_caller(origin(extension_id), "chromium"):
        return origin(extension_id)
    return extension_id if is_caller(extension_id, "firefox") else None


def is_caller(item: object, kind: Kind) -> bool:
    """Whether a browser of this kind accepts it in a manifest; one malformed entry spoils the whole file."""
    rule = _ORIGIN if kind == "chromium" else _ADDON_ID
    return isinstance(item, str) and rule.fullmatch(item) is not None
