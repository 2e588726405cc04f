"""Public names of what remote servers offer: `remote_<server>_<tool>`, `<server>_<prompt>`, URIs. Pure.

Names consist of `[A-Za-z0-9_-]` (DECISIONS 60). They are looked up and never parsed; a URI is parsed, because
a template has to stay a template.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

PREFIX = "remote_"
"""Beginning of the names of all remote tools; behind it stands the server's, which has no underscore."""
URI = "mcpb://remote/"
UI_URI = "ui://remote/"
"""Beginning of URIs of interfaces (MCP Apps), which keep their scheme."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_CHARS = 8


def tool_prefix(server: str) -> str:
    """Return the beginning of the names of a server's tools."""
    return f"{PREFIX}{server}_"


def prompt_prefix(server: str) -> str:
    """Return the beginning of the names of a server's prompts."""
    return f"{server}_"


def public_names(prefix: str, own_names: Sequence[str], max_name: int) -> list[str]:
    """Return a name for each name of a server, in order: a hash is in those that are changed and ambiguous.

    A name that needs no change keeps it; so two are equal only if their hashes are.
    """
    plain = [f"{prefix}{_UNSAFE.sub('_', own)}" for own in own_names]
    counts = Counter(plain)
    return [
        name
        if len(name) <= max_name and (counts[name] == 1 or name == f"{prefix}{own}")
        else _hashed(name, own, max_name)
        for name, own in zip(plain, own_names, strict=True)
    ]


def _hashed(name: str, own: str, max_name: int) -> str:
    digest = hashlib.sha256(own.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: max_name - len(digest) - 1]}_{digest}"


def public_uri(server: str, own_uri: str) -> str:
    """Return the public URI of a server's own URI or URI template."""
    return f"{UI_URI if own_uri.startswith('ui:') else URI}{server}/{own_uri}"


def parse_uri(uri: str) -> tuple[str, str] | None:
    """Return server and own URI of a public URI; None: it names something else."""
    for scheme in (URI, UI_URI):
        if uri.startswith(scheme):
            server, _, own_uri = uri.removeprefix(scheme).partition("/")
            return server, own_uri
    return None
