"""Device authorization grant: sign-ins that wait for the user's approval. Sans-IO. Rules: RFC 8628.

It issues no tokens: that is `issuer.py`. Codes are not stored in clear, except those that the user types.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from http import HTTPStatus

import msgspec

from http_serving.host_header import network_of
from websocket_proxy.oauth_messages import OAuthCode, OAuthError
from websocket_proxy.protocol import Role

CODE_S = 600
"""Seconds that the user has to approve."""
INTERVAL_S = 5
"""Seconds between two polls of a client; `slow_down` adds as many."""
MAX_OPEN_PER_ADDRESS = 5
MAX_OPEN = 50
MAX_WRONG_PER_MINUTE = 5
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of user codes: without vowels no code is a word (RFC 8628, 6.1)."""
_JITTER_S = 1.0
"""Seconds by which the way of a request may shorten an interval."""
_MINUTE_S = 60.0
_RETRY_S = 60
_CODE_BYTES = 32

RandomBytes = Callable[[int], bytes]
"""Returns so many random bytes."""


class Decision(Enum):
    """Decision of the user."""

    PENDING = auto()
    APPROVED = auto()
    DENIED = auto()


class SignIn(msgspec.Struct, kw_only=True, eq=False):
    """A client that wants to sign in."""

    user_code: str
    """With a hyphen, as WDJB-MJHT."""
    client_id: str
    client_name: str
    """Name for display, which the client claims."""
    role: Role
    address: str
    """IP address of the client."""
    requested_at: float
    """Seconds since the epoch."""
    decision: Decision = Decision.PENDING
    interval_s: int = INTERVAL_S
    polled_at: float = -math.inf
    family: str = ""
    """Id of the family of tokens that the sign-in has received; empty: none yet."""

    @property
    def expires_at(self) -> float:
        """Return the end of the code's life, in seconds since the epoch."""
        return self.requested_at + CODE_S

    def __repr__(self) -> str:
        """Return a text without the code."""
        return f"SignIn({self.role}, {self.decision.name})"


class UnknownCodeError(Exception):
    """No open sign-in has this user code."""


class TooManyCodesError(Exception):
    """Too many wrong user codes were entered."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"{MAX_WRONG_PER_MINUTE} wrong codes were entered in a minute: wait {wait_s} s.")
        self.wait_s = wait_s


class SignIns:
    """Sign-ins of one authorization server."""

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._random_bytes = random_bytes
        self._by_digest: dict[bytes, SignIn] = {}
        """By the SHA-256 digest of the device code, the oldest first."""
        self._wrong_at: deque[float] = deque(maxlen=MAX_WRONG_PER_MINUTE)

    def begin(
        self, client_id: str, client_name: str, role: Role, address: str, now: float
    ) -> tuple[str, SignIn]:
        """Return the device code and the sign-in of a new client.

        Raises:
            OAuthError: too many sign-ins are open.
        """
        self._forget_expired(now)
        opened = self.pending(now)
        network = network_of(address)
        is_crowded = sum(network_of(each.address) == network for each in opened) >= MAX_OPEN_PER_ADDRESS
        if is_crowded or len(opened) >= MAX_OPEN:
            text = "Too many sign-ins are open: approve or deny them, or wait until they expire."
            status = HTTPStatus.TOO_MANY_REQUESTS
            raise OAuthError(OAuthCode.TEMPORARILY_UNAVAILABLE, text, status=status, retry_after_s=_RETRY_S)
        device_code = base64.urlsafe_b64encode(self._random_bytes(_CODE_BYTES)).rstrip(b"=").decode()
        sign_in = SignIn(
            user_code=self._draw_user_code(),
            client_id=client_id,
            client_name=client_name,
            role=role,
            address=address,
            requested_at=now,
        )
        self._by_digest[_digest(device_code)] = sign_in
        return device_code, sign_in

    def poll(self, device_code: str, client_id: str, now: float) -> SignIn:
        """Return the approved sign-in of a device code.

        Raises:
            OAuthError: it is not approved yet or not any more, or the client polls too often.
        """
        sign_in = self._by_digest.get(_digest(device_code))
        if sign_in is None or sign_in.client_id != client_id:
            raise OAuthError(OAuthCode.INVALID_GRANT, "The device code is unknown: start the sign-in again.")
        if now >= sign_in.expires_at:
            raise OAuthError(OAuthCode.EXPIRED_TOKEN, "The code has expired: start the sign-in again.")
        if sign_in.decision is Decision.DENIED:
            raise OAuthError(OAuthCode.ACCESS_DENIED, "The user has denied the sign-in.")
        is_early = now < sign_in.polled_at + sign_in.interval_s - _JITTER_S
        sign_in.polled_at = now
        if sign_in.decision is Decision.APPROVED:
            return sign_in
        if is_early:
            sign_in.interval_s += INTERVAL_S
            text = f"Poll every {sign_in.interval_s} seconds."
            raise OAuthError(OAuthCode.SLOW_DOWN, text)
        raise OAuthError(OAuthCode.AUTHORIZATION_PENDING, "The user has not approved the sign-in yet.")

    def find(self, user_code: str, now: float) -> SignIn:
        """Return the open sign-in that a user means; a wrong code counts as an attempt to guess one.

        Raises:
            UnknownCodeError: no open sign-in has it.
            TooManyCodesError: too many wrong codes were entered in the last minute.
        """
        self._forget_expired(now)
        while self._wrong_at and now - self._wrong_at[0] >= _MINUTE_S:
            self._wrong_at.popleft()
        if len(self._wrong_at) >= MAX_WRONG_PER_MINUTE:
            raise TooManyCodesError(math.ceil(self._wrong_at[0] + _MINUTE_S - now))
        wanted = _letters_of(user_code)
        for each in self.pending(now):
            if _letters_of(each.user_code) == wanted:
                return each
        self._wrong_at.append(now)
        raise UnknownCodeError

    def decide(self, user_code: str, decision: Decision, now: float) -> SignIn:
        """Approve or deny a sign-in, and return it. Raises as `find`."""
        sign_in = self.find(user_code, now)
        sign_in.decision = decision
        return sign_in

    def pending(self, now: float) -> list[SignIn]:
        """Return the sign-ins that wait for a decision, the oldest first."""
        waiting = (each for each in self._by_digest.values() if each.decision is Decision.PENDING)
        return [each for each in waiting if now < each.expires_at]

    def _forget_expired(self, now: float) -> None:
        # An expired code is kept as long again, so that its client receives `expired_token`.
        for digest, each in list(self._by_digest.items()):
            if now >= each.expires_at + CODE_S:
                del self._by_digest[digest]

    def _draw_user_code(self) -> str:
        taken = {each.user_code for each in self._by_digest.values()}
        while True:
            letters = "".join(self._draw_letter() for _ in range(8))
            code = f"{letters[:4]}-{letters[4:]}"
            if code not in taken:
                return code

    def _draw_letter(self) -> str:
        limit = 256 - 256 % len(LETTERS)  # every letter is equally likely
        while (drawn := self._random_bytes(1)[0]) >= limit:
            pass
        return LETTERS[drawn % len(LETTERS)]


def _digest(device_code: str) -> bytes:
    return hashlib.sha256(device_code.encode(errors="replace")).digest()


def _letters_of(user_code: str) -> str:
    """Return a user code as it is compared: users leave out the hyphen and write lower case."""
    return "".join(char for char in user_code.upper() if char.isalnum())
