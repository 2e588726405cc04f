"""Audit log and metrics: what a line has, and what none has."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

import pytest

from proxy_conversation import ProxyConversation
from websocket_proxy.node import audit
from websocket_proxy.node.audit import Audit
from websocket_proxy.node.metrics import Gauges, Metrics

GAUGES = Gauges(1, 0, 1, 1, 0, 0, 2, 300, is_draining=False)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [{"event": record.getMessage(), **record.__dict__["fields"]} for record in caplog.records]


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "websocket_proxy.audit")


def test_a_conversation_has_a_line_for_each_opening_connection_and_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    proxy = ProxyConversation(observer=Audit(metrics, with_methods=True))
    extension, client = proxy.extension(), proxy.client(client_id="An agent")
    client.connect(extension)
    client.say(id=1, method="getTabs", params={"secret": "xyzzy"})
    client.say(id=2, method="connect", params={})
    client.peer.on_closed()
    rejected = proxy.extension("alice:expired").peer
    assert rejected.is_closed
    found = lines(caplog)
    assert [line["event"] for line in found] == [
        "opened", "opened", "connected", "request", "disconnected", "token-rejected",
    ]  # fmt: skip
    assert found[1] == {
        "event": "opened",
        "role": "mcpb:client",
        "user": "alice",
        "id": client.peer.peer_id,
        "name": "An agent",
        "address": "",
    }
    assert (found[3]["method"], found[-1]["reason"]) == ("getTabs", "expired")
    assert "xyzzy" not in caplog.text
    assert metrics.requests == 1
    text = metrics.format(GAUGES)
    assert 'mcpb_proxy_failed_requests_total{code="-32602"} 1' in text
    assert 'mcpb_proxy_rejected_tokens_total{reason="expired"} 1' in text
    assert "mcpb_proxy_queued_bytes 300" in text
    assert "alice" not in text


def test_methods_are_left_out_unless_they_are_configured(caplog: pytest.LogCaptureFixture) -> None:
    proxy = ProxyConversation(observer=Audit(Metrics()))
    client = proxy.client()
    client.connect(proxy.extension())
    client.say(id=1, method="getTabs")
    assert "getTabs" not in json.dumps(lines(caplog))


def test_rejections_of_one_address_fill_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    observer = Audit(metrics)
    for _ in range(1000):
        observer.on_rejected(HTTPStatus.FORBIDDEN, "Origin", "192.0.2.1")
    observer.on_rejected(HTTPStatus.FORBIDDEN, "Origin", "192.0.2.2")
    assert len(caplog.records) == 61
    assert 'mcpb_proxy_rejected_sockets_total{status="403"} 1001' in metrics.format(GAUGES)


@pytest.mark.parametrize("is_json", [True, False])
def test_a_line_is_one_line_whatever_a_peer_calls_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_json: bool
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    audit.configure_log(is_json=is_json)
    Audit(Metrics()).on_event("opened", name='Chrome"\n\x1b[2J\u2028 evil=1', code=1000)
    logging.getLogger("http_serving").warning("a warning")
    event, warning = capsys.readouterr().err.splitlines()
    if is_json:
        assert json.loads(event)["name"] == 'Chrome"\n\x1b[2J\u2028 evil=1'
        assert json.loads(warning)["message"] == "a warning"
    else:
        assert event.endswith(r' opened name="Chrome\"\n\u001b[2J\u2028 evil=1" code=1000')
        assert warning.endswith(" log warning: a warning")
