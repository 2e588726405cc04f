"""Site rules of this bridge's sessions, sent to every browser before any command.

The extension enforces them, in the browser's network stack too (docs/PROTOCOL.md, `browser/siteRules`).
Nothing is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from bridge.errors import CallError, format_error
from bridge.hub.transport import Event, HostLinked, HostLost, TabAddress, TabTransport
from native_host.protocol import wire

_TIMEOUT_S = 30.0
_EXPECTED = (wire.Code.METHOD_NOT_FOUND, wire.Code.GONE)
"""Errors of an extension without site rules, and of a link that ends before the answer."""

_log = logging.getLogger(__name__)


class SiteRules:
    """Keeps the rules of every linked browser up to date."""

    def __init__(self, transport: TabTransport, rules_of: Callable[[str], wire.SessionRules]) -> None:
        """Listen from now on: make it before anything that sends a command when a host is linked.

        Args:
            transport: the links to the browsers.
            rules_of: the rules of a session, by its id.
        """
        self._transport = transport
        self._rules_of = rules_of
        self._sessions: list[str] = []
        self._sent: dict[str, wire.SiteRules | None] = {}
        """By linked host; None: nothing yet."""
        transport.set_listener(self._on_event)

    def set_sessions(self, session_ids: Iterable[str]) -> None:
        """Replace the sessions of this bridge."""
        self._sessions = list(session_ids)
        self.refresh()

    def refresh(self) -> None:
        """Send the rules to each browser that has others: the policy or an approval may have changed."""
        rules = wire.SiteRules(sessions=[self._rules_of(session) for session in self._sessions])
        for host, sent in self._sent.items():
            if rules != sent:
                self._send_rules(host, rules)

    def _on_event(self, event: Event) -> None:
        match event:
            case HostLinked():
                self._sent[event.host] = None
                self.refresh()
            case HostLost():
                self._sent.pop(event.host, None)

    def _send_rules(self, host: str, rules: wire.SiteRules) -> None:
        def on_finished(answer: bytes | CallError) -> None:
            if isinstance(answer, CallError):
                level = logging.DEBUG if answer.code in _EXPECTED else logging.WARNING
                _log.log(level, "host %s rejects the site rules: %s", host, format_error(answer))

        self._sent[host] = rules
        self._transport.send(TabAddress(host), "browser/siteRules", rules, _TIMEOUT_S, on_finished)
