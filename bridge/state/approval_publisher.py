"""Publishes stored approvals to extensions, whose popups list and revoke them.

Rules: docs/PROTOCOL.md, "browser/approvals".
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial

import msgspec
import trio

from bridge.errors import CallError
from bridge.hub.operation import Operation
from bridge.hub.registry import Browser, Registry
from bridge.hub.transport import TabAddress, TabTransport
from bridge.state.site_approvals import Approvals, ApprovalsError
from native_host.protocol import wire

COMMAND = "browser/approvals"
POLL_S = 2.0
"""Seconds between two looks at the file and at the browsers."""

_log = logging.getLogger(__name__)


class ApprovalPublisher:
    """Sends every browser the list whenever it changes."""

    def __init__(
        self,
        registry: Registry,
        transport: TabTransport,
        approvals: Approvals,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`look` is called at each poll: others act on the file as well."""
        self._registry = registry
        self._transport = transport
        self._approvals = approvals
        self._look = look
        self._sent: dict[str, tuple[list[wire.SiteApproval], Operation]] = {}
        self._revoked = trio.Event()

    async def run(self) -> None:
        """Publish until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._publish_rows(nursery)
                self._look()
                with trio.move_on_after(POLL_S):
                    await self._revoked.wait()
                self._revoked = trio.Event()

    def _publish_rows(self, nursery: trio.Nursery) -> None:
        browsers = {it.host: it for it in self._registry.browsers() if it.is_live and _has_popup(it)}
        self._sent = {host: sent for host, sent in self._sent.items() if host in browsers}
        rows = self._read_rows() if browsers else []
        for host in browsers:
            before = self._sent.get(host)
            if before and before[0] == rows:
                continue
            if before:
                before[1].cancel()
            on_done = partial(self._handle_response, nursery, host)
            params = wire.SiteApprovals(approvals=rows)
            pending = self._transport.send(TabAddress(host), COMMAND, params, math.inf, on_done)
            self._sent[host] = rows, pending

    def _read_rows(self) -> list[wire.SiteApproval]:
        try:
            found = self._approvals.read_all()
        except ApprovalsError as error:
            _log.warning("the popup lists no approvals: %s", error)
            return []
        return [
            wire.SiteApproval(
                origin=each.origin,
                words=list(each.approval.granted_actions),
                client=each.approval.only_client,
                until=each.approval.until,
            )
            for each in found
        ]

    def _handle_response(self, nursery: trio.Nursery, host: str, answer: bytes | CallError) -> None:
        if isinstance(answer, CallError):
            return  # the browser has gone, or knows no such list: it is sent with the next change
        try:
            revoked = msgspec.json.decode(answer, type=wire.SiteApproval)
        except msgspec.DecodeError as error:
            _log.warning("the extension revoked what cannot be read: %s", error)
            return
        nursery.start_soon(self._revoke_approval, host, revoked)

    async def _revoke_approval(self, host: str, revoked: wire.SiteApproval) -> None:
        revoke = self._approvals.revoke_approval
        try:
            await trio.to_thread.run_sync(revoke, revoked.origin, revoked.words, revoked.client)
        except ApprovalsError as error:
            _log.warning("an approval could not be revoked: %s", error)
        self._sent.pop(host, None)
        self._revoked.set()


def _has_popup(browser: Browser) -> bool:
    return browser.hello is not None and COMMAND in browser.hello.capabilities.commands
