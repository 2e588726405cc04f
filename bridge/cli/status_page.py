"""`mcpb status --web`: gets a link to the status page from a server and opens it.

Without a running server the command is one itself, in the foreground, until Ctrl-C.
"""

from __future__ import annotations

import re
import ssl
import sys
import threading
from base64 import b64encode
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from bridge.cli.serve import run_server
from bridge.cli.web_browser import open_address
from bridge.config.settings import Config, HttpSettings
from bridge.frontends.http.bearer_token import TokenError, token_for
from bridge.state.server_record import ServeRecord, find_running
from native_host.protocol.untrusted_text import for_terminal

ANSWER_S = 5.0
_MAX_BYTES = 64 * 1024
_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


def open_or_serve_page(state: Path, config: Config, *, opens: bool) -> None:
    """Open the status page of the running server, or of one that runs until Ctrl-C.

    Raises:
        click.ClickException: there is no page to open; the text has the remedy.
    """
    if server := find_running(state):
        open_page(server, state, config.http, opens=opens)
        return

    def report_ready(url: str, _published: Path | None) -> None:
        click.echo(f"No mcpb serve was running. This command serves {url} until Ctrl-C.")
        # The server accepts connections once this function has returned.
        threading.Thread(target=open_own_page, daemon=True).start()

    def open_own_page() -> None:
        try:
            if served := find_running(state):
                open_page(served, state, config.http, opens=opens)
        except click.ClickException as error:
            error.show()

    run_server(_for_this_machine(config), report_ready)


def _for_this_machine(config: Config) -> Config:
    """Return a configuration whose server only this machine reaches: the user asked for a page, no more."""
    http = msgspec.structs.replace(config.http, host=HttpSettings().host, socket="")
    channel = msgspec.structs.replace(config.existing_channel, publish=False)
    return msgspec.structs.replace(config, http=http, existing_channel=channel)


def open_page(server: ServeRecord, state: Path, settings: HttpSettings, *, opens: bool) -> None:
    """Open the status page of a server in a browser, or print its link.

    Raises:
        click.ClickException: it gives no link; the text has the next command.
    """
    link = _new_link(server, _read_token(settings, state))
    if opens and open_address(link):
        click.echo(f"The status page is open in your browser: {server.url}")
    else:
        click.echo(f"Open this within two minutes, it is good once: {link}")


def _read_token(settings: HttpSettings, state: Path) -> str:
    try:
        return token_for(settings, state)
    except TokenError as error:
        raise click.ClickException(str(error)) from None


def _new_link(server: ServeRecord, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with closing(_open_connection(server)) as connection:
            connection.request("POST", "/page/links", b"{}", headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read(_MAX_BYTES)
    except (OSError, HTTPException) as error:
        why = f"mcpb serve (pid {server.pid}) does not answer at {server.url}: {error}"
        raise click.ClickException(f"{why}. End it and start it again") from None
    return _read_link(status, body)


def _open_connection(server: ServeRecord) -> HTTPConnection:
    address = urlsplit(server.url)
    host = address.hostname or "localhost"
    if not server.certificate:
        return HTTPConnection(host, address.port, timeout=ANSWER_S)
    return _PinnedConnection(host, address.port, Path(server.certificate))


class _PinnedConnection(HTTPSConnection):
    """Connection to the server that has this very certificate, whatever its name, issuer and dates.

    Its issuer and other certificates of that issuer are not accepted: the request contains the token.
    """

    def __init__(self, host: str, port: int | None, certificate: Path) -> None:
        # Also without a check of the chain, the handshake proves that the server has its certificate's key.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=ANSWER_S, context=context)
        self._certificate = certificate

    def connect(self) -> None:
        """Connect.

        Raises:
            ConnectionError: the server has another certificate; send nothing.
        """
        super().connect()
        found = self.sock.getpeercert(binary_form=True)
        if not found or b64encode(found) != _read_first_certificate(self._certificate):
            self.close()
            raise ConnectionError(f"it does not have the certificate in {self._certificate}")


def _read_first_certificate(path: Path) -> bytes:
    """Return the base64 text of the server's own certificate, which precedes those of its issuers."""
    found = _PEM_CERTIFICATE.search(path.read_bytes())
    return b"".join(found[1].split()) if found else b""


def _read_link(status: int, body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
        if status == HTTPStatus.OK:
            return str(found["url"])
        why = str(found["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        why = f"it answers {status} with what is no answer of mcpb"
    raise click.ClickException(
        for_terminal(f"mcpb serve gives no link to its status page: {why}", on=sys.stderr)
    )
