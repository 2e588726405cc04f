"""Detection of files that hold secrets: hidden files, keys and credentials.

It judges names and contents. Which directories a client may read from is decided in `upload_sources.py`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import PurePath

SECRET_NAMES = (
    "*.env",
    "*.jks",
    "*.kdb",
    "*.kdbx",
    "*.key",
    "*.keychain",
    "*.keychain-db",
    "*.keystore",
    "*.ovpn",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "*_rsa",
    "client_secret*.json",
    "credentials",
    "credentials.*",
    "id_dsa",
    "id_ecdsa*",
    "id_ed25519*",
    "key4.db",
    "logins.json",
    "secrets.*",
)
"""Patterns for names of files with keys or credentials, in lower case."""
SECRET_DIRECTORIES = (".aws", ".azure", ".docker", ".git", ".gnupg", ".kube", ".password-store", ".ssh")
"""Directories whose files are secret also for a client that works in them."""
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----|PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1"
)
_KEEPASS = b"\x03\xd9\xa2\x9a"


def secret_name(file: PurePath, directory: PurePath) -> str:
    """Return why a file below a directory counts as secret by its path; empty: it does not."""
    if any(part.startswith(".") for part in file.relative_to(directory).parts):
        return "is hidden (a name in its path begins with a dot)"
    if any(part.casefold() in SECRET_DIRECTORIES for part in file.parts):
        return "lies in a directory for keys and credentials"
    name = file.name.casefold()
    is_public = name.endswith(".pub")
    if not is_public and any(fnmatchcase(name, pattern) for pattern in SECRET_NAMES):
        return "has the name of a file with keys or credentials"
    return ""


def secret_content(data: bytes) -> str:
    """Return why a content counts as secret; empty: it does not."""
    if data.startswith(_KEEPASS) or _PRIVATE_KEY.search(data):
        return "contains a private key or passwords"
    return ""
