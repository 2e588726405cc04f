"""Options of a remote server as its `[[remote]]` sets them."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.config.remote_settings import RemoteSettings
from bridge.links.configured_remote import make_options
from bridge.links.remote_headers import RemoteHeaders
from bridge.links.remote_options import RemoteOptions


def options_of(**keys: Any) -> RemoteOptions:
    settings = RemoteSettings(name="orders", **{"url": "https://orders.example/mcp", **keys})
    return make_options(settings, RemoteHeaders(settings, {}))


@pytest.mark.parametrize(
    ("keys", "offered"),
    [
        ({}, ["find_order", "find_all", "Delete"]),
        ({"allow": ("find_*",)}, ["find_order", "find_all"]),
        ({"deny": ("find_*",)}, ["Delete"]),
        ({"allow": ("find_*", "Delete"), "deny": ("find_all",)}, ["find_order", "Delete"]),
        ({"deny": ("delete", "find_al")}, ["find_order", "find_all", "Delete"]),
    ],
)
def test_globs_choose_the_tools_and_deny_wins(keys: dict[str, Any], offered: list[str]) -> None:
    is_offered = options_of(**keys).filter
    assert is_offered
    assert [name for name in ("find_order", "find_all", "Delete") if is_offered({"name": name})] == offered


def test_names_and_descriptions_are_replaced_by_the_server_s_own_name() -> None:
    replace_texts = options_of(
        rename={"find": "find_order"}, describe={"find": "Mine.", "find_order": "No."}
    ).map_tool
    assert replace_texts
    found = {"name": "find", "description": "Theirs.", "inputSchema": {}}
    assert replace_texts(found) == {"name": "find_order", "description": "Mine.", "inputSchema": {}}
    assert found["name"] == "find"
    assert replace_texts({"name": "other"}) == {"name": "other"}


async def test_headers_are_those_of_the_settings() -> None:
    options = options_of(headers={"X-Team": "7"})
    assert options.get_headers
    assert await options.get_headers(is_rejected=True) == {"X-Team": "7"}


def test_a_command_gets_its_arguments_and_variables_and_no_headers() -> None:
    options = options_of(url="", command="npx", args=("notes",), env={"KEY": "x"}, watch=False, timeout_s=5)
    assert (options.command, options.args, options.env, options.get_headers) == (
        "npx",
        ("notes",),
        {"KEY": "x"},
        None,
    )
    assert (options.name, options.watch, options.timeout_s) == ("orders", False, 5)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({}, "remote login orders"),
        ({"headers": {"X-Team": "7"}}, "remote login orders"),
        ({"headers": {"authorization": "Basic abc"}}, "headers"),
        ({"bearer_file": "/home/ann/token"}, "bearer_file"),
        ({"bearer_env": "ORDERS"}, "bearer_env"),
        ({"bearer_env": "ORDERS", "header_command": ("vault",)}, "header_command"),
    ],
)
def test_after_a_401_the_user_changes_what_authorizes_the_requests(keys: dict[str, Any], named: str) -> None:
    assert named in options_of(**keys).unauthorized_remedy
