"""Origins of web pages: parse, canonicalize, compare. Pure.

The only module that decides which origin an address has: two readers that differ by a character are a way
around a rule. It parses http and https addresses as browsers do (WHATWG URL); an address that browsers may
read otherwise has no origin here, and is rejected.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec

from native_host.protocol.untrusted_text import is_single_line
from native_host.protocol.wire import Tab

OPAQUE = "null"
"""Origin that browsers report for documents without a site."""
FILE = "file://"
REMOTE = "remote:"
"""Before the name of a remote MCP server, where it stands in the place of an origin."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(?::([0-9]*))?")
_ENDS_AUTHORITY = re.compile(r"[/\\?#]")
_NEVER_IN_HOSTS = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^|]")
"""WHATWG URL, "forbidden domain code point". Browsers take all others, also those that no registry sells."""
_IGNORED_IN_HOSTS = dict.fromkeys(
    [0xAD, 0x34F, 0x180B, 0x180C, 0x180D, 0x180F, 0x200B, 0x2060, 0x2064, *range(0xFE00, 0xFE10), 0xFEFF]
)
"""Unicode UTS 46 maps these to nothing."""
_FULL_STOP = {0x3002: "."}
_DEVIATIONS = frozenset("ßẞς\u200c\u200d")
"""UTS 46: what these become depends on the version of the rules."""
_USUAL_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:]+\]")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_TRIMMED = "".join(map(chr, range(0x21)))
_REMOVED = dict.fromkeys(map(ord, "\t\n\r"))
_USERINFO = "!$%&'()*+,-.:;=_~"
"""Characters of a user name and password that need no escape."""

_WRAPPERS = re.compile(r"^((view-source|blob|filesystem):)+", re.IGNORECASE)
"""Schemes before the address that the origin belongs to."""
_NEW_TABS = ("chrome://newtab/", "chrome://new-tab-page/", "edge://newtab/")
"""Names that browsers have for a tab that was just opened."""
_PDF_VIEWER = "chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai/"
_REMOTE_SERVER = re.compile(r"remote:[a-z0-9-]{1,32}")
_OF_BROWSER = ("chrome-extension:", "chrome:", "edge:", "brave:", "devtools:")


class OriginError(ValueError):
    """The text is not an origin or address of a web page, or not certainly one; the text says why."""


class Origin(NamedTuple):
    """Origin of a web page, as browsers write it."""

    scheme: str
    host: str
    """In ASCII and lower case, an IPv6 address in brackets."""
    port: int | None
    """None: the scheme's default."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}" + ("" if self.port is None else f":{self.port}")


class Address(msgspec.Struct, frozen=True):
    """Address of a web page, and its origin."""

    origin: Origin
    url: str
    """Written so that every parser reads this origin: request this, not the text that was given."""


# ── Addresses ───────────────────────────────────────────────────────────────────────────────────────────────


def parse_address(text: str) -> Address:
    """Parse an http or https address as browsers do.

    Raises:
        OriginError: it is not one, or browsers may read another origin in it; reject it.
    """
    parts = _split_origin(text)
    origin = Origin(parts.scheme, _parse_host(parts.host), _parse_port(parts.port, parts.scheme))
    userinfo = f"{quote(parts.userinfo, safe=_USERINFO)}@" if parts.userinfo else ""
    rest = f"/{parts.rest[1:]}" if parts.rest.startswith("\\") else parts.rest
    return Address(origin, str(origin).replace("://", f"://{userinfo}", 1) + rest)


def trim_url(text: str) -> str:
    """Remove what browsers remove from an address before they parse it."""
    return text.strip(_TRIMMED).translate(_REMOVED)


def parse_origin(text: str) -> Origin:
    """Parse an origin that a user wrote, or an address of it; return it in canonical form.

    Raises:
        OriginError: it is not one, or not certainly one; show the text to the user.
    """
    host = _split_origin(text).host
    found = _without_dot(parse_address(text).origin)
    if not host.isascii() and unicodedata.normalize("NFC", host.lower()) != _fold_host(host):
        raise _is_uncertain(host)
    if not _USUAL_HOST.fullmatch(found.host):
        raise OriginError(f"{found.host} is no host")
    return found


def parse_subject(text: str) -> str:
    """Return the subject of an approval: an origin, or `remote:NAME` for a remote MCP server.

    Raises:
        OriginError: it is neither; show the text to the user.
    """
    return text if _REMOTE_SERVER.fullmatch(text) else str(parse_origin(text))


def get_web_origin(url: str) -> str:
    """Return the origin of a web page's address as browsers write it, or an empty text.

    `HTTPS://Shop.example:443/cart` has the origin `https://shop.example`.
    """
    try:
        return str(parse_address(url).origin)
    except OriginError:
        return ""


def get_origin(url: str) -> str:
    """Return the origin that rules know an address by: `null` or `file://` if it belongs to no site.

    Empty for a blank page: its origin is that of its opener, which no address tells.
    """
    inner = _WRAPPERS.sub("", url.strip())
    if is_blank(inner):
        return ""
    return get_web_origin(inner) or (FILE if inner[:5].lower() == "file:" else OPAQUE)


def get_document_origin(url: str, around: str) -> str:
    """Return the origin that rules know a frame's document by.

    A document without a site of its own (`srcdoc`, `data:`, empty) has the origin of the one `around` it.
    """
    found = get_origin(url)
    return around if around and found in ("", OPAQUE) else found


def get_tab_origin(tab: Tab) -> str:
    """Return the origin of a tab's document; empty if it is blank and has no origin."""
    return get_origin(tab.url) if tab.origin in ("", OPAQUE) else tab.origin


def get_host(url: str) -> str:
    """Return the host of an address; empty if it has none."""
    try:
        return parse_address(url).origin.host.strip("[]")
    except OriginError:
        return ""


def get_path_and_query(url: str) -> str:
    """Return path and query of a web page's address, without the fragment: `/cart?id=7`.

    Raises:
        OriginError: it is not an http or https address.
    """
    rest = _split_origin(url).rest.partition("#")[0].replace("\\", "/")
    return rest if rest.startswith("/") else f"/{rest}"


def is_blank(url: str) -> bool:
    """Return whether it is the address of an empty page."""
    return url in ("", "about:blank", *_NEW_TABS)


def is_pdf_viewer(url: str) -> bool:
    """Return whether it is the address of Chromium's PDF viewer; web pages cannot put it into a frame."""
    return url.startswith(_PDF_VIEWER)


def is_of_browser(url: str) -> bool:
    """Return whether it is an address of an extension or of the browser itself, such as its PDF viewer."""
    return url.startswith(_OF_BROWSER)


# ── Origins ─────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(1024)
def canonicalize(origin: str) -> str:
    """Return the form in which origins are compared; `null` and similar values stay.

    For browsers `https://bank.example.` differs from `https://bank.example`. Both are the same site, so the
    dot is removed.
    """
    try:
        return str(_without_dot(parse_address(origin).origin))
    except OriginError:
        return origin


def format_origin(origin: str) -> str:
    """Return an origin for a sentence."""
    if origin.startswith(REMOTE):
        return f"the remote server {origin.removeprefix(REMOTE)}"
    return "a page of no site" if origin == OPAQUE else origin


def format_domain(origin: str) -> str:
    """Return the host, with the port unless it is the default (`localhost_3000`); `file` for files."""
    try:
        found = parse_address(origin).origin
    except OriginError:
        return origin.removesuffix("://") or "opaque"
    host = found.host.strip("[]")
    return host if found.port is None else f"{host}_{found.port}"


def _without_dot(origin: Origin) -> Origin:
    return origin._replace(host=origin.host.rstrip("."))


# ── Parts of an address ─────────────────────────────────────────────────────────────────────────────────────


class _Parts(msgspec.Struct, frozen=True):
    scheme: str
    userinfo: str
    host: str
    port: str
    rest: str


def _split_origin(text: str) -> _Parts:
    trimmed = trim_url(text)
    scheme = _SCHEME.match(trimmed)
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORTS:
        raise OriginError("web pages are at http:// and https:// only")
    authority = trimmed[scheme.end() :].lstrip("/\\")
    ends = _ENDS_AUTHORITY.search(authority)
    authority, rest = (authority[: ends.start()], authority[ends.start() :]) if ends else (authority, "")
    userinfo, _, address = authority.rpartition("@")
    if not address:
        raise OriginError("it has no host")
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None:
        raise OriginError("its host or its port cannot be")
    return _Parts(scheme[1].lower(), userinfo, found[1], found[2] or "", rest)


def _parse_port(text: str, scheme: str) -> int | None:
    digits = text.lstrip("0") or ("0" if text else "")
    if len(digits) > len(str(_MAX_PORT)) or int(digits or "0") > _MAX_PORT:
        raise OriginError("its port is above 65535")
    return None if not digits or int(digits) == _DEFAULT_PORTS[scheme] else int(digits)


def _parse_host(host: str) -> str:
    name = _map_host(host)
    labels = name.removesuffix(".").split(".")
    try:
        if name.startswith("["):
            return f"[{_parse_ipv6(name[1:-1])}]"
        if _NUMBER.fullmatch(labels[-1]):
            return _parse_ipv4(labels)
    except ValueError:
        raise OriginError(f"{host} is no address") from None
    if _NEVER_IN_HOSTS.search(name):
        raise OriginError(f"{host} is no host")
    if any(label.startswith("xn--") and not _is_punycode(label) for label in labels):
        raise _is_uncertain(host)
    return name


def _map_host(host: str) -> str:
    """Return a host in ASCII and lower case, as UTS 46 maps it."""
    folded = _fold_host(host)
    return folded if folded.isascii() else _encode_host(folded, host)


def _fold_host(host: str) -> str:
    """Return a host decoded and in lower case; letters may still be international ones."""
    try:
        name = host if host.startswith("[") else unquote_to_bytes(host).decode()
    except UnicodeDecodeError:
        raise OriginError("its host cannot be") from None
    if name.isascii():
        return name.lower()
    if not _DEVIATIONS.isdisjoint(name):
        raise _is_uncertain(host)
    folded = unicodedata.normalize("NFKC", name.translate(_FULL_STOP)).casefold()
    mapped = unicodedata.normalize("NFKC", folded).translate(_IGNORED_IN_HOSTS | _FULL_STOP)
    if not mapped:
        raise OriginError("it has no host")
    return mapped


def _encode_host(folded: str, host: str) -> str:
    """Return a host with international letters in ASCII, where the rules of 2003 and of today agree."""
    try:
        found = folded.encode("idna")
        if is_single_line(folded) and found.decode("idna") == folded:
            return found.decode()
    except UnicodeError:
        pass
    raise _is_uncertain(host)


def _is_punycode(label: str) -> bool:
    """Return whether a label that begins with `xn--` stands for international letters."""
    encoded = label.removeprefix("xn--")
    try:
        decoded = encoded.encode().decode("punycode")
        return not decoded.isascii() and decoded.encode("punycode").decode() == encoded
    except (UnicodeError, ValueError, OverflowError):
        return False


def _is_uncertain(host: str) -> OriginError:
    return OriginError(f"copy {host} from the browser's address bar: that gives it in ASCII (https://xn--…)")


def _parse_ipv6(host: str) -> str:
    address = IPv6Address(host)
    if address.scope_id is not None:
        raise ValueError(host)
    if address.ipv4_mapped is None:
        return address.compressed
    # Python 3.13 writes the end of these with dots.
    return f"::ffff:{int(address) >> 16 & 0xFFFF:x}:{int(address) & 0xFFFF:x}"


def _parse_ipv4(labels: list[str]) -> str:
    """Browsers read `127.1`, octal and hexadecimal numbers as well (WHATWG URL, "IPv4 parser")."""
    *first, last = map(_parse_number, labels)
    if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        raise ValueError(labels)
    return str(IPv4Address(last + sum(number << 8 * (3 - at) for at, number in enumerate(first))))


def _parse_number(label: str) -> int:
    if not _NUMBER.fullmatch(label):
        raise ValueError(label)
    if label.startswith("0x"):
        return int(f"0{label[2:]}", 16)
    return int(label, 8 if label.startswith("0") else 10)
