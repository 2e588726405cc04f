"""Credential masking in requests, responses and addresses. Sans-IO.

It goes by names. It keeps secrets out of transcripts; a client that runs scripts in the page can still read
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_plus

MASK = "[masked]"
_SECRET = frozenset({
    "accesskey", "apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "csrf",
    "jwt", "otp", "passphrase", "passwd", "password", "privatekey", "pwd", "secret", "session", "sessionid",
    "sid", "sig", "signature", "token", "tokens", "xsrf",
})  # fmt: skip
_PERHAPS = frozenset({"key", "code", "nonce", "ticket", "assertion", "pin"})
"""And those that do where the value looks like one."""
_LONG = 12
"""Characters of a value that may be a credential."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Pages write what is searched here. Each expression takes linear time: a match begins only at the start of a
# run of characters, and quantifiers are possessive. That of a group is a lookahead and what it found: Python
# before 3.11.5 loses matches of possessive groups (https://github.com/python/cpython/issues/106052).
_JWT = re.compile(r"(?<![\w-])(?=((?:(?!\beyJ[\w-]{5})[\w-])*))\1eyJ[\w-]++\.[\w-]{5,}+\.[\w-]*+")
_PAIR = re.compile(r"(?<![^?&#;=\s])([^?&#;=\s]++)=([^&#;\s]++)")
_MAX_NAME_CHARS = 100
"""Characters of a parameter's name that are looked at, from its end."""
_MEMBER = re.compile(r'"([^"\\]{1,100})"(\s*:\s*)("(?:[^"\\]|\\.)*(?:"|\\?$)|-?\d[\d.eE+-]*)')
_USER = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/?#@]*@", re.IGNORECASE)


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a value of this name is likely to be a credential."""
    words = {word.lower() for word in _WORDS.findall(name)}
    joined = re.sub(r"[^a-z]", "", name.lower())
    if words & _SECRET or joined in _SECRET:
        return True
    return bool(words & _PERHAPS) and len(value) >= _LONG


def masked_url(url: str) -> str:
    """Return an address without user name and password, with the values of secret parameters masked."""
    place, mark, rest = _USER.sub(rf"\1{MASK}@", url).partition("?")
    if not mark:
        place, mark, rest = place.partition("#")
    return _mask_tokens(place) + mark + _pairs_masked(rest)


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as they may be shown: of those that sign in, only that they are there."""
    return {
        name: MASK if is_secret(name, value) else _mask_tokens(masked_url(value))
        for name, value in headers.items()
    }


def masked_body(text: str) -> str:
    """Return a form or JSON with the values of secret fields masked."""
    found = _MEMBER.sub(_member_masked, text)
    if found.lstrip()[:1] not in ("{", "[", "<"):
        found = _pairs_masked(found)
    return _mask_tokens(found)


def _mask_tokens(text: str) -> str:
    return _JWT.sub(rf"\1{MASK}", text)


def _pairs_masked(text: str) -> str:
    return _mask_tokens(_PAIR.sub(_pair_masked, text))


def _pair_masked(pair: re.Match[str]) -> str:
    name, value = pair[1], pair[2]
    is_masked = is_secret(unquote_plus(name[-_MAX_NAME_CHARS:]), value)
    return f"{name}={MASK}" if is_masked else pair[0]


def _member_masked(member: re.Match[str]) -> str:
    name, between, value = member.groups()
    return f'"{name}"{between}"{MASK}"' if is_secret(name, value.strip('"')) else member[0]
