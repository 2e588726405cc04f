"""Origins of web pages: read from what people write, spelled as browsers spell them, and compared. Pure.

Whoever takes an origin apart does it here: two readers that differ by a dot are a way around a rule.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"[^\\\[\]]*|([^\\\[\]]*@)?\[[^\\\[\]]*\](:[0-9]*)?")
"""Python passes over what stands beside brackets; to browsers a backslash is a slash."""
_NEVER_IN_HOSTS = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]")
"""WHATWG URL, "forbidden domain code point". Browsers take all others, also those that no registry sells."""
_USUAL_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\]")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


class OriginError(ValueError):
    """It is no origin or URL of web pages, or not surely one; the text says why."""


class Origin(NamedTuple):
    """Of web pages, as browsers spell it."""

    scheme: str
    host: str
    """In ASCII and lower case, an IPv6 address in brackets."""
    port: int | None
    """None: the scheme's own."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port is None else f":{self.port}")


def read(text: str) -> Origin:
    """The origin that a person means who writes it, or a URL of it, in its canonical form.

    Raises:
        OriginError: none, or it is not sure which one.
    """
    found = _without_dot(_parsed(text))
    if not _USUAL_HOST.fullmatch(found.host):
        raise OriginError(f"{found.host} is no host")
    return found


@lru_cache(1024)
def canonical(origin: str) -> str:
    """The one form in which origins are compared; what is no web page's (`null`) stays as it is.

    To browsers `https://bank.example.` is another origin than `https://bank.example`. It is the same site to
    everybody else, so here the dot goes.
    """
    try:
        return str(_without_dot(_parsed(origin)))
    except OriginError:
        return origin


def origin_of(url: str) -> str:
    """The origin of a web page as browsers write it, or empty: `HTTPS://Shop.example:443/cart` is of
    `https://shop.example`."""
    try:
        return str(_parsed(url))
    except OriginError:
        return ""


def domain(origin: str) -> str:
    """The host, plus the port when it is not the scheme's own: `localhost_3000`; the scheme of `file://`."""
    try:
        found = _parsed(origin)
    except OriginError:
        return origin.removesuffix("://") or "opaque"
    host = found.host.strip("[]")
    return host if found.port is None else f"{host}_{found.port}"


def _parsed(text: str) -> Origin:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise OriginError("its host or its port cannot be") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise OriginError("web pages are at http:// and https:// only")
    if not host:
        raise OriginError("it has no host")
    if not _AUTHORITY.fullmatch(parts.netloc):
        raise OriginError("its host cannot be")
    return Origin(parts.scheme, _spelled(host), None if port == _DEFAULT_PORTS[parts.scheme] else port)


def _without_dot(origin: Origin) -> Origin:
    return origin._replace(host=origin.host.rstrip("."))


# ── Hosts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _spelled(host: str) -> str:
    name = host if host.isascii() else _in_ascii(unicodedata.normalize("NFC", host))
    labels = name.removesuffix(".").split(".")
    try:
        if ":" in name:
            return f"[{_ipv6(name)}]"
        if _NUMBER.fullmatch(labels[-1]):
            return _ipv4(labels)
    except ValueError:
        raise OriginError(f"{host} is no address") from None
    if _NEVER_IN_HOSTS.search(name):
        raise OriginError(f"{host} is no host")
    return name


def _in_ascii(host: str) -> str:
    """Python knows the rules of 2003, which make `strasse` of `straße`: to browsers these are two sites.

    So only what no rule replaces by something else is taken.
    """
    try:
        found = host.encode("idna")
        is_plain = host.isprintable() and host == unicodedata.normalize("NFKC", host.casefold())
        if is_plain and found.decode("idna") == host:
            return found.decode()
    except UnicodeError:
        pass
    raise OriginError(f"copy {host} from the browser's address bar: that gives it in ASCII (https://xn--…)")


def _ipv6(host: str) -> str:
    address = IPv6Address(host)
    if address.scope_id is not None:
        raise ValueError(host)
    if address.ipv4_mapped is None:
        return address.compressed
    # Python 3.13 writes the end of these with dots.
    return f"::ffff:{int(address) >> 16 & 0xFFFF:x}:{int(address) & 0xFFFF:x}"


def _ipv4(labels: list[str]) -> str:
    """Browsers read `127.1`, octal and hexadecimal numbers as well (WHATWG URL, "IPv4 parser")."""
    *first, last = map(_number, labels)
    if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError(labels)
    return str(IPv4Address(last + sum(number << 8 * (3 - at) for at, number in enumerate(first))))


def _number(label: str) -> int:
    if not _NUMBER.fullmatch(label):
        raise ValueError(label)
    if label.startswith("0x"):
        return int(f"0{label[2:]}", 16)
    return int(label, 8 if label.startswith("0") else 10)
