"""HTTPS GET of one small document, within limits of time, size and origin.

It is for addresses that the operator has configured, such as key sets. It sends no credentials, keeps no
connection and uses no proxy of the environment. Rules: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import NamedTuple
from urllib.parse import urljoin

import h11
import trio

from http_serving.host_header import is_loopback
from http_serving.server_address import AddressError, ServerAddress, parse_server_address

_REDIRECTS = {301, 302, 303, 307, 308}
_MAX_REDIRECTS = 3
_MAX_HEAD_BYTES = 16 * 1024
_READ_BYTES = 64 * 1024


class FetchError(Exception):
    """The document cannot be fetched. The text says why, in words for the operator."""


class FetchLimits(NamedTuple):
    """Limits of one fetch."""

    max_bytes: int
    timeout_s: float
    """Seconds for all of it: names, connection, redirects and body."""


class _Response(NamedTuple):
    status: int
    location: str
    body: bytes


def show_address(url: str) -> str:
    """Return an address that may be fetched, without its query.

    Raises:
        FetchError: it is neither https nor http on loopback, or it has a user name and password.
    """
    return str(_parse(url))


async def fetch_document(url: str, limits: FetchLimits, trusted: ssl.SSLContext | None = None) -> bytes:
    """Return the body of a successful response (200). Redirects are followed within the origin.

    Args:
        url: an https address, or http on loopback.
        limits: of the whole fetch.
        trusted: TLS context of the client; None: the certificates that the system trusts.

    Raises:
        FetchError: there is no such response within the limits.
    """
    try:
        with trio.fail_after(limits.timeout_s):
            return await _fetch(url, limits, trusted)
    except trio.TooSlowError:
        raise FetchError(f"the server did not respond completely within {limits.timeout_s:g} s") from None


async def _fetch(url: str, limits: FetchLimits, trusted: ssl.SSLContext | None) -> bytes:
    for _ in range(_MAX_REDIRECTS + 1):
        address = _parse(url)
        response = await _request(address, limits.max_bytes, trusted)
        if response.status in _REDIRECTS:
            url = _follow(url, response.location)
        elif response.status == 200:
            return response.body
        else:
            raise FetchError(f"the server responded with status {response.status}")
    raise FetchError(f"the server redirects more than {_MAX_REDIRECTS} times")


def _parse(url: str) -> ServerAddress:
    """Return an address that may be fetched. Raises FetchError."""
    try:
        address = parse_server_address(url)
    except AddressError as error:
        raise FetchError(str(error)) from None
    if address.scheme == "https" or (address.scheme == "http" and is_loopback(address.host)):
        return address
    raise FetchError("the address is not https; http is accepted on loopback alone")


def _follow(url: str, location: str) -> str:
    """Return the address that a redirect names. Raises FetchError."""
    try:
        target = urljoin(url, location)
    except ValueError:
        raise FetchError("the server redirects to an address that is not a valid URL") from None
    if _parse(target).origin != _parse(url).origin:
        raise FetchError("the server redirects to another origin: configure the address that it names")
    return target


async def _request(address: ServerAddress, max_bytes: int, trusted: ssl.SSLContext | None) -> _Response:
    stream = await _connect(address, trusted)
    try:
        return await _exchange(stream, address, max_bytes)
    except h11.RemoteProtocolError:
        raise FetchError("the server sent no valid HTTP/1.1 response") from None
    except trio.BrokenResourceError as error:
        raise FetchError(_describe_broken(error)) from None
    finally:
        await trio.aclose_forcefully(stream)


async def _connect(address: ServerAddress, trusted: ssl.SSLContext | None) -> trio.abc.Stream:
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        text = f"{address.host} cannot be reached at port {address.port}: {error.strerror or error}"
        raise FetchError(text) from None
    except ValueError:  # IDNA rejects it
        raise FetchError(f"{address.host} is not a valid host name") from None
    if address.scheme == "http":
        return stream
    context = trusted if trusted is not None else await trio.to_thread.run_sync(_system_context)
    return trio.SSLStream(stream, context, server_hostname=address.host, https_compatible=True)


@cache
def _system_context() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _exchange(stream: trio.abc.Stream, address: ServerAddress, max_bytes: int) -> _Response:
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    headers = [
        ("Host", address.authority),
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    request = client.send(h11.Request(method="GET", target=address.target, headers=headers))
    end = client.send(h11.EndOfMessage())
    await stream.send_all((request or b"") + (end or b""))
    status, location, body = 0, "", bytearray()
    while True:
        match client.next_event():
            case h11.NEED_DATA:
                client.receive_data(bytes(await stream.receive_some(_READ_BYTES)))
            case h11.Response() as response:
                status, location = response.status_code, _location(response)
                if status != 200:
                    return _Response(status, location, b"")
            case h11.Data(data=data):
                body += data
                if len(body) > max_bytes:
                    raise FetchError(f"the response is longer than {max_bytes} bytes")
            case h11.EndOfMessage():
                return _Response(status, location, bytes(body))
            case h11.ConnectionClosed() | h11.PAUSED:
                raise FetchError("the server closed the connection before the end of its response")


def _location(response: h11.Response) -> str:
    return next((value.decode("latin-1") for name, value in response.headers if name == b"location"), "")


def _describe_broken(error: BaseException) -> str:
    match error.__cause__:
        case ssl.SSLCertVerificationError(verify_message=message):
            return f"the certificate of the server is not trusted: {message}"
        case ssl.SSLError():
            return "the TLS connection failed"
    return "the server closed the connection"
