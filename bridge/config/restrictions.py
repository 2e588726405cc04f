"""Restrictions of config.toml that the environment may tighten and not loosen. Pure.

A restriction is a key that the file sets; a key that it leaves out may be set in the environment alone. Keys
that restrict nothing are in `UNRESTRICTED`. docs/CONFIGURATION.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_LOOPBACK = ("127.0.0.1", "::1", "localhost")

IsTighter = Callable[[Any, Any], bool]
"""Return whether the first value restricts at least as much as the second one."""


def _is_one_of_the_first(*values: str) -> IsTighter:
    """Order values from the tightest to the loosest."""
    return lambda given, of_file: values.index(given) <= values.index(of_file)


def _is_lower_limit(given: int, of_file: int) -> bool:
    """Compare limits; 0 is no limit."""
    return of_file == 0 or 0 < given <= of_file


def _is_off(given: bool, of_file: bool) -> bool:
    return of_file or not given


def _is_subset(given: Sequence[str], of_file: Sequence[str]) -> bool:
    return set(given) <= set(of_file)


def _closes_no_more(given: str | bool, of_file: str | bool) -> bool:
    order = {False: 0, "never": 0, "ask": 1, "unused": 2, "always": 3, True: 3}
    return order[given] <= order[of_file]


def _stays_strict(given: str, of_file: str) -> bool:
    return of_file != "strict" or given == of_file


def _is_nearer(given: str, of_file: str) -> bool:
    return given == of_file or given in _LOOPBACK


RESTRICTIONS: dict[str, IsTighter] = {
    "calls_per_minute": _is_lower_limit,
    "audit_arguments": _is_off,
    "http.enabled": _is_off,
    "http.host": _is_nearer,
    "http.cors_origins": _is_subset,
    "http.allowed_hosts": _is_subset,
    "http.calls_per_minute": _is_lower_limit,
    "http.close_tabs": _is_off,
    "browser.enabled": _is_off,
    "browser.tabs": _is_one_of_the_first("own", "ask", "any"),
    "browser.sites": _is_one_of_the_first("ask", "any"),
    "browser.roots": _stays_strict,
    "browser.ask_in": _is_one_of_the_first("extension", "both", "client"),
    "browser.find_with_model": _is_off,
    "browser.close_tabs": _closes_no_more,
    "browser.resume": _is_one_of_the_first("terminal", "any"),
    "existing_channel.attach": _is_off,
    "existing_channel.publish": _is_off,
}

ALWAYS_RESTRICTED = frozenset({"browser.resume"})
"""Restrictions also where the file leaves them out: else a model with a shell would set the variable."""

UNRESTRICTED = frozenset(
    {
        "call_timeout_s",
        "max_name",
        "max_listed_tools",
        "max_resource_bytes",
        "cached_days",
        "http.port",
        "http.socket",
        "http.certificate",
        "http.key",
        "http.auth_token",
        "http.idle_minutes",
        "http.structured",
        "browser.tools",
        "browser.screenshot_format",
        # `bridge.config.loader` takes of its paths those that the file allows.
        "browser.upload_dirs",
        "existing_channel.directory",
    }
)
"""Keys that restrict nothing: the environment replaces them."""


def is_allowed(key: str, given: Any, of_file: Any, *, is_in_file: bool) -> bool:
    """Return whether the environment may set a key to a value."""
    if key not in RESTRICTIONS or not (is_in_file or key in ALWAYS_RESTRICTED):
        return True
    return RESTRICTIONS[key](given, of_file)
