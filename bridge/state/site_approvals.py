"""Site approvals of the user: `state/approvals.json`, shared by all bridges.

It asks no one and opens no window. Users may edit the file; `mcpb allow` does it for them.
Format: docs/CONFIGURATION.md, "Sites that you are asked about".
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio

from bridge import origins
from native_host.protocol.validation_errors import describe_problem
from native_host.system import private_files
from native_host.system.home_layout import StateLayout
from native_host.system.private_files import (
    PrivateFileError,
    UnusableFileError,
    lock_directory,
    prepare_directory,
)

HOUR_S = 3600
WORDS = ("read", "act", "page-tools", "upload", "sampling", "roots")
"""Actions that a site can be approved for. Later versions add words; unknown words in the file do nothing."""
OFFERING = "tools:"
"""Before the name of a remote server: approval of a site whose pages get the server's tools."""
STORED_CHOICES = ("hour", "client", "always")
"""Choices of an approval prompt that last longer than the session."""
_INCLUDED_IN = {"read": "act"}
_OFFERING_WORD = re.compile(OFFERING + r"[a-z0-9-]{1,32}")

_log = logging.getLogger(__name__)


def is_word(text: str) -> bool:
    """Return whether a site can be approved for this."""
    return text in WORDS or bool(_OFFERING_WORD.fullmatch(text))


class ApprovalsError(UnusableFileError):
    """approvals.json cannot be used, so no site counts as approved."""


class Approval(msgspec.Struct, frozen=True, omit_defaults=True, rename={"words": "for"}):
    """One approval of a site. Unknown members are ignored."""

    words: tuple[str, ...] | None = None
    """Approved actions; None means `act`, as in files of earlier versions."""
    since: str = ""
    """Day of the approval, as 2026-11-22."""
    client: str = ""
    """The only client it holds for; empty: any. Without `for` it has no effect: earlier versions stored
    there which client had asked."""
    until: str = ""
    """End of the approval in RFC 3339; empty: it does not end."""

    def __post_init__(self) -> None:
        """Reject a time that cannot be read: an approval without an end would be wider."""
        if self.until:
            datetime.fromisoformat(self.until)

    @property
    def granted_actions(self) -> tuple[str, ...]:
        """Return the approved actions."""
        return ("act",) if self.words is None else self.words

    @property
    def only_client(self) -> str:
        """The only client it holds for; empty: any."""
        return "" if self.words is None else self.client

    @property
    def audience(self) -> str:
        """Who may use it, for a list: a client, all of them, or pages of the site."""
        if all(word.startswith(OFFERING) for word in self.granted_actions):
            return "its pages"
        return self.only_client or "every client"

    def is_current(self, now: float) -> bool:
        """Return whether the approval has not ended (`now` in seconds since the epoch)."""
        if not self.until:
            return True
        until = datetime.fromisoformat(self.until)
        return now < (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp()

    def covers(self, word: str, client: str) -> bool:
        """Return whether the approval is for this word and this client."""
        is_granted = word in self.granted_actions or _INCLUDED_IN.get(word) in self.granted_actions
        return is_granted and self.only_client in ("", client)


class SiteApproval(NamedTuple):
    """An approval and its site."""

    origin: str
    approval: Approval


class Approvals:
    """The file, read again when it has changed."""

    def __init__(self, state: Path) -> None:
        """Use the file in the directory `state`, which the first approval creates."""
        self.path = StateLayout(state).approvals
        self._found: dict[str, Any] = {}
        self._approved: dict[str, list[Approval]] = {}
        self._identity: tuple[int, int, int] | None = None

    def has(self, origin: str, word: str, client: str) -> bool:
        """Return whether the user has approved the origin for this, to this client.

        Raises:
            ApprovalsError: the file cannot be used; treat the site as not approved and report the text.
        """
        self.refresh()
        approved, now = self._approved.get(origins.canonicalize(origin), ()), time.time()
        return any(each.covers(word, client) and each.is_current(now) for each in approved)

    def read_all(self) -> list[SiteApproval]:
        """Return all approvals that have not ended, by origin.

        Raises:
            ApprovalsError: the file cannot be used.
        """
        self.refresh()
        now = time.time()
        return [
            SiteApproval(origin, each)
            for origin, approved in sorted(self._approved.items())
            for each in approved
            if each.is_current(now)
        ]

    def read_offerings(self) -> frozenset[tuple[str, str]]:
        """Return the origins whose pages get tools of remote servers, each with the server's name.

        Raises:
            ApprovalsError: the file cannot be used.
        """
        return frozenset(
            (each.origin, word.removeprefix(OFFERING))
            for each in self.read_all()
            for word in each.approval.granted_actions
            if word.startswith(OFFERING) and not each.approval.only_client
        )

    def grant(
        self, sites: Iterable[str], words: Iterable[str], *, client: str = "", lasts_s: float | None = None
    ) -> None:
        """Store an approval of these origins. It may wait for another process that writes the file.

        Raises:
            ApprovalsError: it cannot be stored; the file is unchanged.
        """
        now = datetime.now(UTC)
        until = ""
        if lasts_s is not None:
            until = datetime.fromtimestamp(now.timestamp() + lasts_s, UTC).isoformat(timespec="seconds")
        new = Approval(tuple(words), now.date().isoformat(), client, until)

        def add_approval(found: Mapping[str, Any]) -> dict[str, Any]:
            changed = dict(found)
            for site in map(origins.canonicalize, sites):
                key = next((key for key in changed if origins.parse_subject(key) == site), site)
                others = [each for each in _values_of(changed.get(key, [])) if not _is_replaced(each, new)]
                changed[key] = _unwrap_single([*others, msgspec.to_builtins(new)])
            return changed

        self._change_file(add_approval)

    def grant_choice(self, sites: Iterable[str], word: str, choice: str, client: str) -> None:
        """Store a choice of an approval prompt: `hour` and `client` hold for this client, `always` for all.

        Raises:
            ApprovalsError: it cannot be stored; the file is unchanged.
        """
        assert choice in STORED_CHOICES
        lasts_s = HOUR_S if choice == "hour" else None
        self.grant(sites, [word], client="" if choice == "always" else client, lasts_s=lasts_s)

    def revoke(self, site: str, word: str = "", client: str | None = None) -> int:
        """Remove approvals of an origin and return how many changed.

        Args:
            site: the origin.
            word: only this; revoking `read` also revokes `act`, which includes it. Empty: everything.
            client: only approvals for this client (empty: for any client). None: all.

        Raises:
            ApprovalsError: they cannot be removed; the file is unchanged.
        """
        revoked = 0
        words = {word, _INCLUDED_IN.get(word, word)}

        def remove_approval(found: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal revoked
            changed = {}
            for key, value in found.items():
                left = []
                for each in _values_of(value):
                    approval = msgspec.convert(each, Approval)
                    is_meant = origins.parse_subject(key) == origins.canonicalize(site)
                    is_meant = is_meant and client in (None, approval.only_client)
                    rest = [it for it in approval.granted_actions if word and it not in words]
                    if not is_meant or len(rest) == len(approval.granted_actions):
                        left.append(each)
                        continue
                    revoked += 1
                    if rest:
                        left.append({**each, "for": rest})
                if left:
                    changed[key] = _unwrap_single(left)
            return changed

        self._change_file(remove_approval)
        return revoked

    def revoke_approval(self, site: str, words: Iterable[str], client: str) -> int:
        """Remove what one listed approval allows. See `revoke`."""
        return sum(self.revoke(site, word, client) for word in words)

    def refresh(self) -> None:
        """Read the file if it has changed.

        Raises:
            ApprovalsError: it cannot be used.
        """
        identity = _file_identity(self.path)
        if identity == self._identity and identity is not None:
            return
        try:
            file = private_files.read(self.path)
        except PrivateFileError as error:
            raise ApprovalsError.wrap(error) from error
        found = self._decode_content(file.content) if file else {}
        approved: dict[str, list[Approval]] = {}
        for name, value in found.items():
            approved.setdefault(self._parse_site(name), []).extend(self._convert_approvals(name, value))
        self._found, self._approved, self._identity = found, approved, identity

    def _change_file(self, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        try:
            prepare_directory(self.path.parent)
            with lock_directory(self.path.parent):
                self.refresh()
                changed = change(self._found)
                if changed != self._found:
                    self._write_file(_without_ended(changed))
        except PrivateFileError as error:
            raise ApprovalsError.wrap(error) from error
        except OSError as error:
            raise ApprovalsError(self.path, f"it cannot be written: {error.strerror}") from error

    def _decode_content(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except json.JSONDecodeError as error:
            raise self._make_error(f"it is not JSON: {error.msg} in line {error.lineno}") from None
        except (UnicodeDecodeError, RecursionError) as error:
            raise self._make_error(f"it is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._make_error('it is not an object: write {"https://shop.example": {}}')
        return found

    def _parse_site(self, name: str) -> str:
        try:
            return origins.parse_subject(name)
        except origins.OriginError as error:
            raise self._make_error(
                f'"{name}" is not a site: {error}; write it as https://shop.example'
            ) from None

    def _convert_approvals(self, name: str, value: object) -> list[Approval]:
        try:
            return [msgspec.convert(each, Approval) for each in _values_of(value)]
        except msgspec.ValidationError as error:
            why = describe_problem(error)
            raise self._make_error(f'the value of "{name}" cannot be read ({why}); write {{}}') from None

    def _make_error(self, why: str) -> ApprovalsError:
        return ApprovalsError(self.path, f"{why}. Correct it, or remove it to be asked again")

    def _write_file(self, found: Mapping[str, Any]) -> None:
        content = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        private_files.replace(self.path.resolve(), content.encode())


class ApprovalsOf:
    """Approvals for one word, as the hub's call path takes them."""

    def __init__(self, approvals: Approvals, word: str) -> None:
        self._convert_approvals = approvals
        self._word = word

    @property
    def version(self) -> object:
        """Changes when `has` may answer otherwise: with the file, or because an approval has ended."""
        try:
            return self._convert_approvals.read_all()
        except ApprovalsError as error:
            return str(error)

    def has_approval(self, origin: str, client: str) -> bool:
        """Return whether the user has approved the origin; an empty client means every client."""
        try:
            return self._convert_approvals.has(origin, self._word, client)
        except ApprovalsError:
            return False  # `mcpb doctor` and the status page report it

    async def grant_approval(self, origin: str, choice: str, client: str) -> None:
        """Store a choice of an approval prompt that lasts (`STORED_CHOICES`).

        A choice that cannot be stored holds for this call only.
        """
        try:
            await trio.to_thread.run_sync(
                self._convert_approvals.grant_choice, [origin], self._word, choice, client
            )
        except ApprovalsError as error:
            _log.warning("an approval of %s holds for this call only: %s", self._word, error)


def _values_of(value: Any) -> list[Any]:
    """Return the approvals of a site: the file has one object, or several in a list."""
    return value if isinstance(value, list) else [value]


def _unwrap_single(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _is_replaced(value: Any, new: Approval) -> bool:
    """Return whether a new approval renews a stored one: the same words and client, not ending earlier."""
    old = msgspec.convert(value, Approval)
    is_same = (set(old.granted_actions), old.only_client) == (set(new.granted_actions), new.only_client)
    return is_same and (not new.until or bool(old.until))


def _without_ended(found: Mapping[str, Any]) -> dict[str, Any]:
    now = time.time()
    left = {
        key: [each for each in _values_of(value) if msgspec.convert(each, Approval).is_current(now)]
        for key, value in found.items()
    }
    return {key: _unwrap_single(values) for key, values in left.items() if values}


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
