"""The sites that the person has allowed for good: `state/approvals.json`, one file for all bridges.

People may edit it. Its names are origins; what stands behind each says only how it came there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bridge import origins, own_files
from native_host import endpoint

FILE = "approvals.json"


class ApprovalsError(Exception):
    """The file cannot be used, and nothing in it counts; the text has its path, what is wrong, what to do."""


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a site came to be allowed; empty where the person wrote it down by hand."""

    since: str = ""
    """The day, as 2026-11-22."""
    client: str = ""
    """Who wanted to act there."""


class Approvals:
    """Read again whenever the file is another."""

    def __init__(self, state: Path) -> None:
        """`state` is the directory that it is in, made with the first approval."""
        self.path = state / FILE
        self._approved: dict[str, Approval] = {}
        """By origin."""
        self._identity: tuple[int, int, int] | None = None

    def has(self, origin: str) -> bool:
        """Whether the person has allowed this origin for good.

        Raises:
            ApprovalsError: nobody can tell.
        """
        self.look()
        return origins.canonicalize(origin) in self._approved

    def add(self, allowed: Iterable[str], client: str) -> None:
        """Keep these origins of web pages. It may wait for other processes that do the same.

        Raises:
            ApprovalsError: they cannot be kept. The file stays as it is.
        """
        approval = Approval(datetime.now(UTC).date().isoformat(), client)
        try:
            endpoint.prepare(self.path.parent)
            with _alone(self.path.parent):
                self.look()
                new = {origins.canonicalize(origin): approval for origin in allowed}
                self._write(new | self._approved)
        except (endpoint.EndpointError, OSError) as error:
            raise ApprovalsError(f"{self.path} cannot be written: {error}") from error

    def look(self) -> None:
        """Read the file if it is another one.

        Raises:
            ApprovalsError: it cannot be used.
        """
        identity = _identity(self.path)
        if identity == self._identity and identity is not None:
            return
        try:
            file = own_files.read(self.path)
        except own_files.OwnFileError as error:
            raise ApprovalsError(str(error)) from error
        self._approved = self._read(file.content) if file else {}
        self._identity = identity

    def _read(self, content: bytes) -> dict[str, Approval]:
        try:
            found = json.loads(content)
        except json.JSONDecodeError as error:
            raise self._broken(f"it is no JSON: {error.msg} in line {error.lineno}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise self._broken(f"it is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._broken('it is no object: write {"https://shop.example": {}}')
        return {self._site(name): self._approval(name, value) for name, value in found.items()}

    def _site(self, name: str) -> str:
        try:
            return str(origins.parse_origin(name))
        except origins.OriginError as error:
            raise self._broken(f'"{name}" is no site: {error}; write it as https://shop.example') from None

    def _approval(self, name: str, value: object) -> Approval:
        try:
            return msgspec.convert(value, Approval)
        except msgspec.ValidationError as error:
            raise self._broken(f'what stands behind "{name}" cannot be ({error}); write {{}}') from None

    def _broken(self, why: str) -> ApprovalsError:
        return ApprovalsError(f"{self.path}: {why}. Mend it, or remove it to be asked again")

    def _write(self, approved: dict[str, Approval]) -> None:
        """Whole or not at all, for this user alone."""
        path = self.path.resolve()
        draft = path.with_suffix(".json.new")
        content = json.dumps(msgspec.to_builtins(approved), indent=2, ensure_ascii=False) + "\n"
        with open(draft, "w", encoding="utf-8", opener=_create_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)


def _create_private(path: str, _flags: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One process at a time."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
