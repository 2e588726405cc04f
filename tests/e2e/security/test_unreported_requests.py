"""Requests of a client's page to a denied site that Chromium shows no extension (seen in Chromium 150).

Site rules cannot stop them; SECURITY.md says so. A way that fails here may be one that Chromium reports
by now: then take it to test_site_rules.py, and out of SECURITY.md.
"""

from __future__ import annotations

import pytest

from logged_hosts import LoggedHosts, Response
from site_boundary import config_file, wait_true
from tool_browser import Browsing

EVIL, BANK = "evil.localhost", "bank.localhost"
SOCKET = "BANK.replace('http', 'ws') + '/unreported'"
SCRIPT = f"'new WebSocket(' + JSON.stringify({SOCKET}) + ')'"
REGISTERED = "navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)"
WAYS = {
    "WebSocket of a shared worker": (f"void new SharedWorker(URL.createObjectURL(new Blob([{SCRIPT}])))"),
    "WebSocket of a service worker": f"{REGISTERED}.then(({{ active }}) => active.postMessage({SOCKET}))",
    "FedCM": (
        "void navigator.credentials.get({ identity: { providers: "
        "[{ configURL: BANK + '/unreported', clientId: '1', nonce: '1' }] } }).catch(() => {})"
    ),
    "background fetch": (
        f"{REGISTERED}.then((it) => it.backgroundFetch.fetch('x' + Math.random(), [BANK + '/unreported']))"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_rule_stops_a_request_of_this_kind(browsing: Browsing, hosts: LoggedHosts, way: str) -> None:
    bank = hosts.origin(BANK)
    worker = b"onmessage = ({ data }) => new WebSocket(data)"
    hosts.set_response(EVIL, "/sw.js", Response(worker, "text/javascript"))
    page = hosts.set_page(EVIL, "/", f"<body><script>const BANK = {bank!r}</script>")
    with config_file(browsing, f'[policy]\ndeny = ["{bank}"]'), browsing.client(way) as tools:
        tab_id = tools.done("tabs_create").structured["tabId"]
        tools.done("navigate", tabId=tab_id, url=page)
        hosts.clear()
        tools.look(tab_id).send("Runtime.evaluate", expression=WAYS[way], userGesture=True, awaitPromise=True)
        wait_true(lambda: hosts.requests(BANK) != [])
        tools.done("tabs_close_mcp", tabId=tab_id)
