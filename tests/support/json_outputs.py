"""JSON output of the commands with every member, from sample values of their types."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import trio

from bridge.config.remote_settings import RemoteSettings
from bridge.diagnostics.remote_check import RemoteCheck
from bridge.diagnostics.remote_status import describe_remote
from bridge.diagnostics.report import DoctorReport
from bridge.diagnostics.status_snapshot import LocalState, Rules, make_status
from bridge.hub.argument_validation import Arguments
from bridge.hub.audit_records import FinishedCall, Record, Site, ToolRedefinition, ToolRegistration
from bridge.hub.client_session import Session
from bridge.hub.page_tool import read_tools
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLinked
from bridge.state.audit_log import AuditLog
from bridge.state.remote_records import BridgeRecord, OfferRecord, RemoteRecord
from bridge.state.server_record import ServeRecord
from bridge.state.tool_cache import SqliteToolStore
from fake_transport import PlayedTransport, host_hello, one_page, tab, tools
from install.checks.existing_channel import Channel
from install.plan.plan_output import plan_json
from install.plan.steps import Plan, Step
from installer_home import get_state_directory, run_mcpb
from json_shapes import collect_member_types
from native_host.existing_channel.published_socket import PublishedSocket
from native_host.protocol import wire
from native_host.protocol.wire import EXTENSION_ID

_SHOP = "https://shop.example"
_ORDERS = RemoteSettings(name="orders", url="https://orders.example/mcp")
_READY = RemoteRecord(name="orders", state="ready", offers=(OfferRecord(origin="https://app.example"),))
_SESSION = Session("5e551011", client=wire.ClientInfo(name="Claude Code", version="2.1"))


class NoProblems:
    """Host links without a problem."""

    problems: Mapping[str, Any] = {}


def collect_json_members(home: Path) -> dict[str, dict[str, str]]:
    """Collect all members of each command's `--json`, with the JSON types of their values."""
    plan = collect_member_types([make_plan_document()])
    return {
        "mcpb allow --json": collect_member_types(make_approval_documents()),
        "mcpb audit --json": collect_member_types(make_audit_documents(home), opaque=["arguments"]),
        "mcpb call --json": collect_member_types(trio.run(make_call_documents), opaque=["inputSchema"]),
        "mcpb extension --json": collect_member_types([make_extension_document(home)]),
        "mcpb doctor --json": collect_member_types([make_sample_json(DoctorReport)]),
        "mcpb install-native-host --json": plan,
        "mcpb pause --json": collect_member_types(make_pause_documents()),
        "mcpb prompt --json": collect_member_types([make_prompt_document(home)]),
        "mcpb prompts --json": collect_member_types([json.loads(run_mcpb("mcpb prompts --json").stdout)]),
        "mcpb read --json": collect_member_types(
            [json.loads(run_mcpb("mcpb read mcpb://calls --json").stdout)]
        ),
        "mcpb remote list --json": collect_member_types([make_remote_document()]),
        "mcpb remote test --json": collect_member_types([{"servers": [make_sample_json(RemoteCheck)]}]),
        "mcpb resources --json": collect_member_types([json.loads(run_mcpb("mcpb resources --json").stdout)]),
        "mcpb status --json": collect_member_types(trio.run(make_status_documents, home)),
        "mcpb tools --json": collect_member_types(
            [json.loads(run_mcpb("mcpb tools --json").stdout)], opaque=["inputSchema", "outputSchema"]
        ),
        "mcpb uninstall-native-host --json": plan,
    }


def make_extension_document(home: Path) -> Any:
    """Copy the extension for a browser that has it loaded, and print the copies as JSON."""
    profile = home / ".config/chromium/Default"
    profile.mkdir(parents=True)
    settings = {EXTENSION_ID: {"path": str(home / ".mcpb/extension"), "location": 4}}
    (profile / "Preferences").write_text(json.dumps({"extensions": {"settings": settings}}))
    return json.loads(run_mcpb("mcpb extension --json").stdout)


def make_prompt_document(home: Path) -> Any:
    """Write a prompt, then get it as JSON."""
    directory = home / ".mcpb/prompts"
    directory.mkdir(parents=True)
    (directory / "review.md").write_text("Review this.\n@embed mcpb://calls\n")
    return json.loads(run_mcpb("mcpb prompt review --json").stdout)


def make_remote_document() -> Any:
    """Add a remote server, then list it as JSON."""
    run_mcpb("mcpb remote add orders https://orders.example/mcp --no-check")
    return json.loads(run_mcpb("mcpb remote list --json").stdout)


def make_approval_documents() -> list[Any]:
    """Approve a site, then list it as JSON."""
    run_mcpb(f"mcpb allow {_SHOP} act --client Claude --for 1h")
    return [json.loads(run_mcpb("mcpb allow --json").stdout)]


def make_pause_documents() -> list[Any]:
    """Pause a site, then list it as JSON."""
    paused = json.loads(run_mcpb("mcpb pause --json localhost").stdout)
    browsers = [{"browser": "text", "error": "text", "tabs": [{"origin": "text", "tab": 1, "title": "text"}]}]
    return [{**paused, "browsers": browsers}, json.loads(run_mcpb("mcpb pause --json").stdout)]


def make_audit_documents(home: Path) -> list[Any]:
    """Write every kind of audit entry, then print them as JSON."""
    log = AuditLog(get_state_directory(home), with_arguments=True)
    for record in _make_records():
        log.write_record(record)
    log.close()
    return [json.loads(line) for line in run_mcpb("mcpb audit --all --json -n 1000").stdout.splitlines()]


def _make_records() -> Iterator[Record]:
    site = Site("p1", "Work", _SHOP, 12, 1)
    call = FinishedCall(
        session=_SESSION,
        name="website_tool_shop_example_tab1_getCart",
        outcome="timed_out",
        duration_s=0.25,
        site=site,
        own_name="getCart",
        detail="10 s have passed",
        arguments=Arguments.of({"item": "tea"}),
        batch="b1",
        step=1,
        action="left_click",
        origins=tuple(f"https://{number}.example" for number in range(1000)),
    )
    yield call
    yield msgspec.structs.replace(call, arguments=Arguments.of({"item": "tea" * 10_000}))
    yield ToolRedefinition(site, "getCart", "before", "after")
    yield from [
        ToolRegistration(site, ("getCart",))
    ] * 1000  # above the limit, so that an entry counts the rest


async def make_call_documents() -> list[Any]:
    """Call a page's tool and a meta tool."""
    router = Router(transport := PlayedTransport())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(router.run)
        transport.happen(DiscoveryFinished())
        transport.connect("h1", *one_page("getCart"))
        called = await router.call(_SESSION, "website_tool_shop_example_tab1_getCart", Arguments.of({}))
        listed = await router.call(_SESSION, "list_page_tools", Arguments.of({"schemas": True}))
        nursery.cancel_scope.cancel()
    return [json.loads(called), json.loads(listed)]


def make_plan_document() -> Any:
    """Return a plan with each kind of step, as JSON."""
    steps = [make_sample(shape, is_full=is_full) for shape in get_args(Step) for is_full in (True, False)]
    plan = Plan(Path("/home"), steps, refusals=["text"], kept=[Path("/kept")], notes=["text"])
    return json.loads(plan_json(plan, applied=False))


def make_sample_json(shape: type[msgspec.Struct]) -> Any:
    """Return a sample of a type as JSON."""
    return json.loads(msgspec.json.encode(make_sample(shape)))


async def make_status_documents(home: Path) -> list[Any]:
    """Return the status with a browser, and with a holder of the existing channel in its place.

    The process id of a sample is that of a sample host.
    """
    with closing(SqliteToolStore(get_state_directory(home))) as store:
        cached = msgspec.Raw(b'{"name": "pay", "annotations": {"cache": true}}')
        page = msgspec.structs.replace(tools(1), tools=[cached])
        store.record_offer("p1", 1, _SHOP, f"{_SHOP}/", read_tools(page))
        router = Router(transport := PlayedTransport(), store=store)
        _announce_everything(transport)
        channel, published, server = (
            make_sample_json(shape) for shape in (Channel, PublishedSocket, ServeRecord)
        )
        local = LocalState(
            [{}],
            (),
            [published],
            [server],
            rules=Rules("digest", "", "text"),
            page_requests=[{}],
            remote=list(describe_remote([_ORDERS], [BridgeRecord(1, (_READY,))])),
        )
        states = [local, local._replace(channels=[channel], rules=None)]
        # A Problem is a str with its commands, which JSON does not have.
        return [json.loads(json.dumps(make_status(router, NoProblems(), state))) for state in states]


def _announce_everything(transport: PlayedTransport) -> None:
    """Connect a browser with everything that the status shows, and a host without a browser."""
    session = msgspec.structs.replace(_SESSION.on_wire(), subscriptions=["cart://1"])
    client = wire.Client(connection="c1", pid=7, version="0.2.0", sessions=[session])
    transport.connect(
        "h1",
        wire.Tabs(tabs=[tab(1, owner=_SESSION.id), tab(2, ordinal=2, handed_over=True)]),
        msgspec.structs.replace(tools(1, "getCart"), notice="text"),
        wire.Paused(sites=[_SHOP]),
        wire.HostClients(clients=[client]),
    )
    transport.happen(HostDiscovered("h2", 2.0), HostLinked("h2", host_hello("h2")))


# ── Sample values of annotated types, with every field set ──────────────────────────────────────────────────


_SCALARS: dict[Any, Any] = {
    str: "text",
    bytes: b"text",
    bool: True,
    int: 1,
    float: 0.5,
    Path: Path("/sample"),
}


def make_sample(hint: Any, *, is_full: bool = True) -> Any:
    """Return a value of a type. A full value has no None; each sequence has a full item and another one.

    Raises:
        KeyError: no sample of this type is known; add it to the table.
    """
    arguments = get_args(hint)
    match get_origin(hint):
        case origin if origin is Annotated:
            return make_sample(arguments[0], is_full=is_full)
        case origin if origin is Literal:
            return arguments[0]
        case origin if origin in (Union, UnionType):
            is_none = NoneType in arguments and not is_full
            return None if is_none else make_sample(next(each for each in arguments if each is not NoneType))
        case type() as origin if issubclass(origin, Sequence):
            items = [make_sample(arguments[0], is_full=each) for each in (True, False)]
            return tuple(items) if issubclass(origin, tuple) else items
        case type() as origin if issubclass(origin, Mapping):
            return {"key": make_sample(arguments[1])}
        case _:
            return _make_sample_of_class(hint, is_full=is_full)


def _make_sample_of_class(shape: Any, *, is_full: bool) -> Any:
    if isinstance(shape, type) and issubclass(shape, Enum):
        return next(iter(shape))
    names = getattr(shape, "__struct_fields__", ())
    if dataclasses.is_dataclass(shape):
        names = tuple(field.name for field in dataclasses.fields(shape) if field.init)
    elif not (isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return _SCALARS[shape]
    hints = get_type_hints(shape, include_extras=True)
    return shape(**{name: make_sample(hints[name], is_full=is_full) for name in names})
