"""`mcpb prompts` and `mcpb prompt`: lists and gets prompts of mcpb, of the user, and of pages."""
# ruff: noqa: PLC0415  (`mcpb --help` must not import what the commands need)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from bridge.cli.group import existing_channel_option, format_json, proxy_option
from bridge.cli.hub_requests import ask_hub, read_pair, reject_repeated, session_option
from native_host.protocol.untrusted_text import for_terminal

if TYPE_CHECKING:
    from bridge.cli.listed_entries import ListedPrompt

_INDENT = "    "


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the prompts as JSON, as MCP clients get them.")
@session_option
@proxy_option
@existing_channel_option
def prompts(*, as_json: bool, session_name: str | None, existing_channel: bool) -> None:
    """List the prompts that MCP clients may get."""
    from bridge.cli.listed_entries import ListedPrompt, print_json, print_missing, read_entries
    from native_host.ipc.named_sessions import ListPrompts, PromptList

    found = ask_hub(ListPrompts(), session_name, existing_channel=existing_channel)
    assert isinstance(found, PromptList)
    if as_json:
        print_json({"prompts": found.prompts})
        return
    for prompt in read_entries(found.prompts, ListedPrompt):
        click.echo(f"{click.style(prompt.name, bold=True)}{for_terminal(_format_arguments(prompt))}")
        click.echo(f"{_INDENT}{for_terminal(prompt.summary)}")
    print_missing(found.missing)


def _format_arguments(prompt: ListedPrompt) -> str:
    """Format a prompt's arguments, for instance ` problem= [tab=]`."""
    named = ((" ".join(each.name.split()), each.required) for each in prompt.arguments)
    return "".join(f" {name}=" if is_needed else f" [{name}=]" for name, is_needed in named)


@click.command()
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@session_option
@proxy_option
@existing_channel_option
def prompt(
    name: str, arguments: tuple[str, ...], *, as_json: bool, session_name: str | None, existing_channel: bool
) -> None:
    """Print the messages of the prompt NAME, with KEY=VALUE for each argument.

    The lines of a message are indented below its role. Images are written to files, unless --json prints
    them. Without --session, the browser's tabs are those that you have handed over to clients.
    """
    from native_host.ipc.named_sessions import CallResult, GetPrompt

    pairs = [read_pair(pair) for pair in arguments]
    reject_repeated([key for key, _ in pairs])
    reply = ask_hub(
        GetPrompt(name=name, arguments=dict(pairs)),
        session_name,
        command="prompt",
        existing_channel=existing_channel,
    )
    assert isinstance(reply, CallResult)
    result = json.loads(bytes(reply.result))
    if as_json:
        click.echo(for_terminal(format_json(result)))
    else:
        _print_messages(result["messages"])


def _print_messages(messages: list[dict[str, Any]]) -> None:
    from bridge.cli.call_output import ContentOutput

    output = ContentOutput()
    lines: list[str] = []
    for message in messages:
        text = output.format_block(message["content"])
        lines.append(f"{message['role']}:")
        # Indented, so that no text of a page forges a message.
        lines += [f"{_INDENT}{line}" for line in ("(image)" if text is None else text).splitlines()]
    click.echo(for_terminal("\n".join([*output.own, *lines])).encode(errors="replace"))
