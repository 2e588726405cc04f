"""Site patterns of pauses: an origin, a host, or a host with its subdomains. Pure.

`extension/worker/site_patterns.js` evaluates them alike; `tests/data/site_patterns.json` tests both. Origin
patterns of the policy are another language: `policy.py`.
"""

from __future__ import annotations

import re

from bridge import origins

_WIDE = "*."
_PORT = re.compile(r":\d*$")
_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


def read_pattern(text: str) -> str:
    """Return the pattern that a user means, in its canonical form.

    With a scheme or a port it is that one origin (`bank.example:8443` is https, `localhost:3000` is http).
    Without both it is the host: every origin there. `*.` before the host adds its subdomains.

    Raises:
        OriginError: the text names no site; show its reason to the user.
    """
    if "://" in text:
        return str(origins.parse_origin(text))
    host = text.removeprefix(_WIDE).partition("/")[0]
    found = origins.parse_origin(f"http://{host}")
    if text.startswith(_WIDE):
        if _PORT.search(host) or _ADDRESS.fullmatch(found.host):
            raise origins.OriginError("an asterisk stands for the subdomains of a name, on all of its ports")
        return f"{_WIDE}{found.host}"
    if _PORT.search(host) is None:
        return found.host
    scheme = "http" if is_local(found.host) else "https"
    return str(origins.parse_origin(f"{scheme}://{host}"))


def matches_pattern(pattern: str, origin: str) -> bool:
    """Return whether a canonical pattern includes an origin as the browser reports it."""
    origin = origins.canonicalize(origin)
    if "://" in pattern:
        return pattern == origin
    scheme, _, authority = origin.partition("://")
    if scheme not in ("http", "https"):
        return False
    host, name = _PORT.sub("", authority), pattern.removeprefix(_WIDE)
    return host == name or (pattern != name and host.endswith(f".{name}"))


def is_local(host: str) -> bool:
    """Return whether a canonical host is this machine's loopback."""
    return host in ("localhost", "[::1]") or host.endswith(".localhost") or host.startswith("127.")
