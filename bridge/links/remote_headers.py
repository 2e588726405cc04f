"""Headers of a remote server's requests: static ones, bearer tokens, a sign-in, and those of a program.

No problem that it reports contains a header's value, a token or what the program wrote. Keys:
docs/CONFIGURATION.md, "Headers of a remote server".
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import msgspec
import trio

from bridge.config.remote_settings import RemoteSettings, check_headers, is_bearer_token
from bridge.links.oauth.login_file import LoginFile
from bridge.links.oauth.login_tokens import LoginTokens
from bridge.links.remote_problem import Cause, RemoteProblem, describe_exit
from native_host.protocol.untrusted_text import single_line
from native_host.system.home_layout import mcpb_home
from native_host.system.private_files import PrivateFileError, read_secret

COMMAND_TIMEOUT_S = 30.0
"""Seconds that `header_command` may run: it may have to sign in over the network."""
MAX_OUTPUT_BYTES = 64 * 1024
EARLY_S = 30.0
"""Seconds before headers expire at which the program runs again."""

_MAX_TOKEN_BYTES = 16 * 1024
_MAX_SECRETS = 256
"""Secrets that `mask` knows; of a program that prints others each time, the latest."""
_MIN_SECRET_CHARS = 6
"""Shorter values would mask ordinary words."""
_MASK = "•••"
_MAX_PROGRAM_CHARS = 60
_MAX_PATH_CHARS = 200


class RemoteHeaders:
    """Headers of one remote server. Use one for each server, in one trio run."""

    def __init__(self, settings: RemoteSettings, environ: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._environ = environ
        self._tokens: LoginTokens | None = None
        if settings.can_sign_in:
            self._tokens = LoginTokens(settings.url, LoginFile(mcpb_home(environ), settings.name))
        self._secrets: dict[str, None] = {}
        self._remember(_secrets_of_settings(settings))
        self._lock = trio.Lock()
        self._runs = 0
        """Runs of `header_command` that have ended."""
        self._printed: dict[str, str] | RemoteProblem | None = None
        """Outcome of the last run."""
        self._expires_at = -math.inf
        """Time of trio's clock after which the program has to run again."""

    async def read(self, *, is_rejected: bool = False) -> dict[str, str]:
        """Return the headers of one request.

        Args:
            is_rejected: the last ones were answered 401, so `header_command` has to run again, or a token
                has to be refreshed.

        Raises:
            RemoteProblem: the cause is HEADERS, and the detail names the key; or a token was not refreshed.
        """
        headers = dict(self._settings.headers)
        token = await self._tokens.read(is_rejected=is_rejected) if self._tokens else self._read_token()
        if token:
            self._remember([token])
            _merge_headers(headers, {"Authorization": f"Bearer {token}"})
        if self._settings.header_command:
            _merge_headers(headers, await self._read_printed(is_rejected=is_rejected))
        self._remember(headers.values())
        return headers

    def is_secret(self, text: str) -> bool:
        """Return whether a text contains a secret."""
        return any(secret in text for secret in self._secrets)

    def mask(self, text: str) -> str:
        """Return the text with `•••` in place of each secret: a server may quote what it has received."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return text

    def _remember(self, values: Iterable[str]) -> None:
        """Remember values and their words: of `Bearer abc`, an error may quote `abc` alone."""
        for value in values:
            for secret in (value, *value.split()):
                if len(secret) >= _MIN_SECRET_CHARS and secret.lower() != "bearer":
                    self._secrets.pop(secret, None)
                    self._secrets[secret] = None
        while len(self._secrets) > _MAX_SECRETS:
            del self._secrets[next(iter(self._secrets))]

    # ── Bearer tokens ───────────────────────────────────────────────────────────────────────────────────────

    def _read_token(self) -> str:
        """Return the bearer token; empty if none is configured. Raises RemoteProblem."""
        if name := self._settings.bearer_env:
            token = self._environ.get(name, "").strip()
            if not token:
                reason = f"bearer_env: the variable {name} is not set in the environment of mcpb"
                raise RemoteProblem(Cause.HEADERS, reason)
        elif path := self._settings.bearer_file:
            try:
                token = read_secret(Path(path), _MAX_TOKEN_BYTES).decode(errors="replace").strip()
            except PrivateFileError as error:
                raise RemoteProblem(Cause.HEADERS, f"bearer_file: {error}") from None
        else:
            return ""
        if not is_bearer_token(token):
            shown = f"bearer_env: the variable {name}" if name else f"bearer_file: {path}"
            raise RemoteProblem(Cause.HEADERS, f"{shown} {_describe_bad_token(token)}")
        return token

    # ── Headers that a program prints ───────────────────────────────────────────────────────────────────────

    async def _read_printed(self, *, is_rejected: bool) -> dict[str, str]:
        """Return the headers of the last run if they are valid, else those of a new one.

        Callers that wait for a run share its outcome, a failure too. Raises RemoteProblem.
        """
        runs_before = self._runs
        async with self._lock:
            is_fresh = isinstance(self._printed, dict) and trio.current_time() < self._expires_at
            if self._runs == runs_before and (is_rejected or not is_fresh):
                try:
                    self._printed, lasts_s = _parse_output(await _run_program(self._settings.header_command))
                    self._expires_at = trio.current_time() + lasts_s
                except RemoteProblem as problem:
                    self._printed = problem
                self._runs += 1
            if isinstance(self._printed, RemoteProblem):
                raise RemoteProblem(self._printed.cause, self._printed.detail)
            assert self._printed is not None
            return self._printed


def _describe_bad_token(token: str) -> str:
    if not token:
        return "is empty"
    if token.lower().startswith("bearer "):
        return 'has "Bearer" in front of the token: leave it out'
    return "has no token of one line"


def _secrets_of_settings(settings: RemoteSettings) -> Iterator[str]:
    yield from settings.headers.values()
    yield from settings.env.values()
    query = settings.url.partition("?")[2]
    yield query
    yield from (pair.partition("=")[2] for pair in query.split("&"))


def _merge_headers(headers: dict[str, str], later: Mapping[str, str]) -> None:
    """Add headers, whose names replace equal ones in another spelling."""
    for name, value in later.items():
        for earlier in [each for each in headers if each.lower() == name.lower()]:
            del headers[earlier]
        headers[name] = value


# ── The program ─────────────────────────────────────────────────────────────────────────────────────────────


async def _run_program(command: tuple[str, ...]) -> bytes:
    """Run `header_command` and return what it prints. Raises RemoteProblem, without its output."""
    program = single_line(PurePath(command[0]).name, _MAX_PROGRAM_CHARS)
    try:
        # In a session of its own it finds no terminal to ask on, and can be killed with its children. In the
        # root directory, a relative path leads to no file of the project that a client works in.
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a null character
        path = single_line(command[0], _MAX_PATH_CHARS)
        reason = error.strerror if isinstance(error, OSError) else "it has a null character"
        raise RemoteProblem(Cause.HEADERS, f"header_command: cannot start {path}: {reason}") from None
    try:
        with trio.fail_after(COMMAND_TIMEOUT_S):
            output = await _read_output(process, program)
            status = await process.wait()
    except trio.TooSlowError:
        reason = f"{program} has not ended within {COMMAND_TIMEOUT_S:g} s"
        raise RemoteProblem(Cause.HEADERS, f"header_command: {reason}") from None
    finally:
        await _end_process(process)
    if status != 0:
        raise RemoteProblem(Cause.HEADERS, f"header_command: {program} {describe_exit(status)}")
    return output


async def _read_output(process: trio.Process, program: str) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    async with process.stdout:
        async for chunk in process.stdout:
            output += chunk
            if len(output) > MAX_OUTPUT_BYTES:
                reason = f"{program} prints more than {MAX_OUTPUT_BYTES // 1024} KiB"
                raise RemoteProblem(Cause.HEADERS, f"header_command: {reason}")
    return bytes(output)


async def _end_process(process: trio.Process) -> None:
    """Kill a program that has not ended, with its children, which may hold its pipe open; reap it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with trio.CancelScope(shield=True):
        await process.wait()


def _parse_output(output: bytes) -> tuple[dict[str, str], float]:
    """Return the headers, and the seconds until the program has to run again. Raises RemoteProblem."""
    try:
        found = msgspec.json.decode(output, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        raise RemoteProblem(Cause.HEADERS, "header_command: its output is no JSON object") from None
    lasts_s: Any = math.inf
    if isinstance(found.get("headers"), dict):
        found, lasts_s = found["headers"], found.get("expires_in", math.inf)
        if isinstance(lasts_s, bool) or not isinstance(lasts_s, int | float) or not lasts_s > 0:
            raise RemoteProblem(Cause.HEADERS, "header_command: expires_in is no number of seconds above 0")
    if problem := check_headers(found):
        raise RemoteProblem(Cause.HEADERS, f"header_command: {problem}")
    return found, max(lasts_s - EARLY_S, lasts_s / 2)
