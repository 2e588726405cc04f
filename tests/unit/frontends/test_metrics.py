"""`/metrics`: what is counted, and what is never told."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from bridge.errors import CallError, UnknownToolError
from bridge.frontends.http.metrics import OTHER, Gauges, Metrics
from bridge.hub.argument_validation import NOTHING
from bridge.hub.audit_records import CallRecord, FinishedCall, Record, Site, ToolRegistration, to_each
from bridge.hub.client_session import Session
from bridge.hub.tool_result import Answer
from native_host.protocol import wire
from native_host.protocol.wire import Code

SITE = Site(profile="p1", browser="Work", origin="https://shop.example", tab_id=7, ordinal=1)
SESSION = Session("s1", "Claude in shop", wire.ClientInfo(name="claude-code", version="2.1"))


def called(outcome: str = "ok", duration_s: float = 0.02) -> FinishedCall:
    return FinishedCall(
        SESSION, "website_tool_shop_example_tab1_addToCart", outcome, duration_s, SITE, "addToCart"
    )


def read(metrics: Metrics) -> dict[str, float]:
    """By sample, its labels in braces; when each began to be counted is left out."""
    found = {}
    for family in text_string_to_metric_families(metrics.export().decode()):
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return {name: value for name, value in found.items() if "_created" not in name}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_calls_are_counted_by_outcome(metrics: Metrics) -> None:
    for outcome in ("ok", "ok", "tool_error", "timed_out"):
        metrics.keep(called(outcome))
    found = read(metrics)
    assert found["mcpb_calls_total{ok}"] == 2
    assert found["mcpb_calls_total{tool_error}"] == found["mcpb_calls_total{timed_out}"] == 1
    assert found["mcpb_calls_total{cancelled}"] == 0


def test_how_long_calls_took_is_told_in_steps(metrics: Metrics) -> None:
    for duration_s in (0.002, 0.02, 100.0, 1000.0):
        metrics.keep(called(duration_s=duration_s))
    found = read(metrics)
    steps = {
        step: found[f"mcpb_call_duration_seconds_bucket{{{step}}}"] for step in ("0.01", "120.0", "+Inf")
    }
    assert steps == {"0.01": 1, "120.0": 3, "+Inf": 4}
    assert found["mcpb_call_duration_seconds_count"] == 4
    assert found["mcpb_call_duration_seconds_sum"] == pytest.approx(1100.022)


@pytest.mark.parametrize(
    "how",
    [
        Answer(b"{}", is_error=False),
        Answer(b"{}", is_error=True),
        *(CallError(code, "", handed=False) for code in Code),
        UnknownToolError("gone"),
        RuntimeError("ours"),
        None,
    ],
    ids=repr,
)
def test_every_outcome_that_a_record_can_have_is_counted_under_its_own_name(
    metrics: Metrics, how: Answer | Exception | None
) -> None:
    record = CallRecord(SESSION, "t", NOTHING, 0.0).finish(how, 1.0)
    metrics.keep(record)
    assert read(metrics)[f"mcpb_calls_total{{{record.outcome}}}"] == 1


def test_an_error_number_that_a_browser_made_up_makes_no_series_of_its_own(metrics: Metrics) -> None:
    before = read(metrics).keys()
    for code in range(1, 50):
        metrics.keep(CallRecord(SESSION, "t", NOTHING, 0.0).finish(CallError(code, "", handed=True), 1.0))
    found = read(metrics)
    assert found[f"mcpb_calls_total{{{OTHER}}}"] == 49
    assert found.keys() == before


def test_what_pages_offer_is_no_call(metrics: Metrics) -> None:
    metrics.keep(ToolRegistration(SITE, ("addToCart",)))
    assert read(metrics)["mcpb_call_duration_seconds_count"] == 0


def test_refused_requests_are_counted_by_status(metrics: Metrics) -> None:
    for status in (HTTPStatus.FORBIDDEN, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
        metrics.count_rejection(status)
    found = read(metrics)
    assert found["mcpb_http_refused_requests_total{403}"] == 2
    assert found["mcpb_http_refused_requests_total{404}"] == 1


def test_what_there_is_now_is_looked_at_when_somebody_reads(metrics: Metrics) -> None:
    present = [Gauges({"streamable": 2, "sse": 1}, 3, 1, 12), Gauges({"streamable": 0, "sse": 1}, 1, 0, 0)]
    metrics.add_gauges(lambda: present.pop(0))
    before, after = read(metrics), read(metrics)
    assert before["mcpb_http_sessions{streamable}"] == 2
    assert (before["mcpb_http_open_responses"], before["mcpb_browsers"], before["mcpb_tools"]) == (3, 1, 12)
    assert (after["mcpb_http_sessions{streamable}"], after["mcpb_http_sessions{sse}"]) == (0, 1)


def test_nobody_learns_which_site_tool_or_client_it_was(metrics: Metrics) -> None:
    for outcome in ("ok", "not_allowed"):
        metrics.keep(called(outcome))
    text = metrics.export().decode()
    for private in ("shop", "addToCart", "claude", "Work", "p1", "s1"):
        assert private not in text


def test_they_hear_of_calls_beside_the_audit_log(metrics: Metrics) -> None:
    logged: list[Record] = []
    keep = to_each(logged.append, metrics.keep)
    keep(called())
    assert logged == [called()]
    assert read(metrics)["mcpb_calls_total{ok}"] == 1


def test_two_of_them_count_apart_and_not_in_the_process_s_own_registry() -> None:
    first, second = Metrics(), Metrics()
    first.keep(called())
    assert read(second)["mcpb_calls_total{ok}"] == 0
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("mcpb")]
