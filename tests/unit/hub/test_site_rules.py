"""Site rules on their way to the browsers. The extension: tests/e2e/security/test_site_rules.py."""

from __future__ import annotations

import pytest

from announcements import host_hello
from bridge.errors import CallError
from bridge.hub.rules.site_rules import SiteRules
from bridge.hub.transport import HostLinked
from fake_transport import PlayedTransport
from native_host.protocol import wire
from native_host.protocol.wire import Code


@pytest.mark.parametrize(
    ("error", "is_reported"),
    [
        (CallError(Code.INTERNAL_ERROR, "too many rules", handed=False), True),
        (CallError(Code.TIMED_OUT, handed=True), True),
        (CallError(Code.METHOD_NOT_FOUND, "browser/siteRules", handed=False), False),
        (CallError(Code.GONE, handed=True), False),
    ],
    ids=["rejected", "timed out", "no site rules", "link ended"],
)
def test_rules_that_a_browser_does_not_enforce_are_reported(
    caplog: pytest.LogCaptureFixture, error: CallError, is_reported: bool
) -> None:
    transport = PlayedTransport()
    transport.on_request = lambda _: error
    rules = SiteRules(transport, lambda session: wire.SessionRules(session=session))
    rules.set_sessions(["s1"])
    transport.happen(HostLinked("h1", host_hello("h1")))
    assert [asked.method for asked in transport.asked] == ["browser/siteRules"]
    assert bool(caplog.messages) == is_reported
    assert all(str(error) in message for message in caplog.messages)
