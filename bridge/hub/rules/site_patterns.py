"""Site patterns of pauses and of the policy: an origin, a host, or their subdomains. Pure.

`extension/worker/site_patterns.js` evaluates them alike; `tests/data/site_patterns.json` tests both. The
policy also has patterns for everything and for documents without a site: `policy.py`.
"""

from __future__ import annotations

import re

from bridge import origins

_WIDE = "*."
_SUBDOMAIN = "any."
"""In place of `*.`: addresses have no subdomains."""
_PORT = re.compile(r":\d*$")
_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")
_PATH = re.compile(r"[/\\?#].*", re.DOTALL)
_ADDRESS = re.compile(r"\[.*\]|[0-9.]+")


class SpellingError(origins.OriginError):
    """The text means a site, and is written otherwise; the message has the right form."""


def read_pattern(text: str) -> str:
    """Return the pattern that a user means, in its canonical form.

    With a scheme it is that one origin. Without a scheme it is the host: every origin there. `*.` before the
    host adds its subdomains; after a scheme it stands for the subdomains alone.

    Raises:
        SpellingError: the text has a path, or a port without a scheme; show the message to the user.
        OriginError: the text names no site; show its reason to the user.
    """
    scheme, has_scheme, rest = text.partition("://")
    if "*" in scheme + rest.removeprefix(_WIDE) if has_scheme else "*" in text.removeprefix(_WIDE):
        raise origins.OriginError('an asterisk stands for subdomains only, as in "*.shop.example"')
    authority, path = _split_path(rest if has_scheme else text)
    pattern = _read_origin(scheme, authority) if has_scheme else _read_host(authority)
    if path not in ("", "/"):
        raise SpellingError(f"a site has no path: write {pattern}")
    return pattern


def _split_path(address: str) -> tuple[str, str]:
    stripped = address.strip().lstrip("/\\")
    found = _PATH.search(stripped)
    return (stripped[: found.start()], found[0]) if found else (stripped, "")


def _read_origin(scheme: str, authority: str) -> str:
    if not authority.startswith(_WIDE):
        return str(origins.parse_origin(f"{scheme}://{authority}"))
    found = origins.parse_origin(f"{scheme}://{_SUBDOMAIN}{authority.removeprefix(_WIDE)}")
    return str(found).replace(_SUBDOMAIN, _WIDE, 1)


def _read_host(authority: str) -> str:
    host = authority.removeprefix(_WIDE)
    found = origins.parse_origin(f"http://{host}")
    if authority.startswith(_WIDE):
        if _PORT.search(host) or _ADDRESS.fullmatch(found.host):
            raise origins.OriginError("an asterisk stands for the subdomains of a name, on all of its ports")
        return f"{_WIDE}{found.host}"
    if _PORT.search(host):
        raise SpellingError(
            f"a port needs a scheme: write {found} or {origins.parse_origin(f'https://{host}')}"
        )
    return found.host


def matches_pattern(pattern: str, origin: str) -> bool:
    """Return whether a canonical pattern includes an origin as the browser reports it; `*` includes all."""
    origin = origins.canonicalize(origin)
    if pattern in ("*", origin):
        return True
    its_scheme, is_wide, domain = pattern.partition(f"://{_WIDE}")
    if is_wide:
        return origin.startswith(f"{its_scheme}://") and origin.endswith(f".{domain}")
    scheme, _, authority = origin.partition("://")
    if scheme not in ("http", "https"):
        return False
    host, name = _PORT.sub("", authority), pattern.removeprefix(_WIDE)
    return host == name or (pattern != name and host.endswith(f".{name}"))


def is_local(host: str) -> bool:
    """Return whether a canonical host is this machine's loopback."""
    host = host.removesuffix(".")
    return host in ("localhost", "[::1]") or host.endswith(".localhost") or bool(_LOOPBACK.fullmatch(host))
