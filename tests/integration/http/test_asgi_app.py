"""`/health`, `/tools`, `/metrics`, and what all paths have in common."""

from __future__ import annotations

import json
import logging
import re
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bridge import __version__
from bridge.config.settings import HttpSettings
from bridge.frontends.http.asgi_app import App
from http_frontend import GET_CART, admit_all, call, open_front, request, shake_hands
from http_serving.error_responses import RequestRejected
from native_host.protocol import wire

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/HTTP.md").read_text()

# ── What each says ──────────────────────────────────────────────────────────────────────────────────────────


async def test_health_says_which_version_is_there_and_how_many_sessions_it_has() -> None:
    async with open_front() as served, served.client() as client:
        before = await client.get("/health")
        await shake_hands(client)
        await shake_hands(client)
        after = await client.get("/health")
    assert before.headers["content-type"] == "application/json"
    assert before.json() == {"status": "ok", "version": __version__, "activeSessions": 0}
    assert after.json()["activeSessions"] == 2


async def test_tools_are_those_that_a_client_lists() -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.get("/tools")
        headers = await shake_hands(client)
        listed = (await client.post("/mcp", json=request(1, "tools/list"), headers=headers)).json()
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"tools": listed["result"]["tools"]}
    assert GET_CART in {tool["name"] for tool in answer.json()["tools"]}


async def test_who_asks_for_tools_is_no_client() -> None:
    """No host and no popup is told of it, and nothing is left of it."""
    async with open_front() as served, served.client() as client:
        await client.get("/tools")
        assert served.sessions == []
        assert (await client.get("/health")).json()["activeSessions"] == 0


async def test_tools_that_come_and_go_are_told_as_they_are_now() -> None:
    async with open_front() as served, served.client() as client:
        served.transport.announce("h1", wire.TabRemoved(tab_id=1))
        names = {tool["name"] for tool in (await client.get("/tools")).json()["tools"]}
    assert names == {"list_page_tools", "call_page_tool", "read_resource"}


async def test_metrics_tell_of_calls_sessions_browsers_and_refusals() -> None:
    async with open_front() as served, served.client() as client:
        headers = await shake_hands(client)
        await client.post("/mcp", json=call(1, GET_CART), headers=headers)
        await client.get("/nothing")
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(answer.text)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert found["mcpb_calls_total", "ok"] == 1
    assert found["mcpb_call_duration_seconds_count",] == 1
    assert found["mcpb_http_sessions", "streamable"] == 1
    assert found["mcpb_http_sessions", "sse"] == 0
    assert found["mcpb_http_refused_requests_total", "404"] == 1
    assert (found["mcpb_browsers",], found["mcpb_tools",]) == (1, 2)
    assert "shop" not in answer.text


async def test_metrics_tell_of_responses_that_are_not_over() -> None:
    async with open_front() as served, served.client() as client, client.stream("GET", "/sse"):
        text = (await client.get("/metrics")).text
    assert "mcpb_http_open_responses 1.0" in text.splitlines()


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=abc", "text/html", ""])
async def test_metrics_are_text_whatever_a_reader_wants(accept: str) -> None:
    async with open_front() as served, served.client(Accept=accept) as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


# ── What all have in common ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/health", "/tools", "/metrics"])
async def test_what_tells_something_takes_nothing(path: str) -> None:
    async with open_front() as served, served.client() as client:
        head = await client.head(path)
        whole = await client.get(path)
        for method in ("POST", "PUT", "DELETE"):
            answer = await client.request(method, path, json={})
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
            assert path in answer.json()["error"]["message"]
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("path", ["/nothing", "/health/", "/mcp/x", "//health", "/%2e%2e/health"])
async def test_where_nothing_is_404_says_so(path: str) -> None:
    async with open_front() as served, served.client() as client:
        answer = await client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == -32600
    assert "does not exist" in answer.json()["error"]["message"]


def client_of(app: App) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def test_a_refusal_has_the_specification_s_form_and_is_a_json_rpc_error_too() -> None:
    async def refuse(_: Request) -> Response:
        raise RequestRejected(HTTPStatus.CONFLICT, "say why", headers={"Retry-After": "3"})

    async with client_of(App([Route("/x", refuse)], admit_all)) as client:
        answer = await client.get("/x")
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "3")
    assert answer.json() == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "say why"}}


async def test_a_fault_of_ours_is_told_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: Request) -> Response:
        raise RuntimeError("the secret of a session")

    refused: list[HTTPStatus] = []
    async with client_of(App([Route("/x", fail)], admit_all, refused.append)) as client:
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/x?token=hidden")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, -32603)
    assert "secret" not in answer.text
    assert "the secret of a session" in caplog.text
    assert "hidden" not in caplog.text
    assert refused == [HTTPStatus.INTERNAL_SERVER_ERROR]


async def test_methods_of_one_path_on_several_routes_are_allowed_together() -> None:
    async def answer(_: Request) -> Response:
        return Response()

    routes = [Route("/x", answer, methods=["GET"]), Route("/x", answer, methods=["DELETE"])]
    async with client_of(App(routes, admit_all)) as client:
        assert (await client.delete("/x")).status_code == 200
        refused = await client.post("/x")
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD")


async def test_who_is_not_let_in_learns_nothing_of_what_is_there() -> None:
    async def nobody(_: Request) -> dict[str, str]:
        raise RequestRejected(HTTPStatus.FORBIDDEN, "not you")

    async with open_front(HttpSettings(), admit=nobody) as served, served.client() as client:
        answers = [await client.get(path) for path in ("/health", "/tools", "/sse", "/nothing")]
        answers.append(await client.post("/health", json={}))
    assert {answer.status_code for answer in answers} == {403}
    assert len({json.dumps(answer.json()) for answer in answers}) == 1


# ── What docs/HTTP.md says of them ──────────────────────────────────────────────────────────────────────────


def test_the_guide_has_every_status_with_which_a_request_is_refused() -> None:
    folders = ("bridge/frontends/http", "http_serving")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    text = " ".join(file.read_text() for file in files if not file.name.startswith("websocket"))
    names = set(re.findall(r"HTTPStatus\.([A-Z_]+)", text))
    refused = {str(HTTPStatus[name].value) for name in names if HTTPStatus[name] >= HTTPStatus.BAD_REQUEST}
    rows = re.findall(r"^\| ([0-9, ]+) \|", GUIDE, re.MULTILINE)
    assert set(", ".join(rows).split(", ")) == refused


async def test_the_guide_has_every_metric() -> None:
    async with open_front() as served, served.client() as client:
        text = (await client.get("/metrics")).text
    told = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    told = {name for name in told if not name.endswith("_created")}
    assert set(re.findall(r"^\| `(mcpb_\w+)", GUIDE, re.MULTILINE)) == told


async def test_at_each_path_that_the_guide_names_something_is() -> None:
    _, _, routes = GUIDE.partition("## Routes\n")
    rows = re.findall(r"^\| `([^|]*)\|", routes.partition("###")[0], re.MULTILINE)
    paths = re.findall(r"/\w+", " ".join(rows))
    assert {"/mcp", "/sse", "/message"} < set(paths)
    async with open_front() as served, served.client() as client:
        for path in paths:
            assert (await client.put(path)).status_code == 405, path
