"""Permission to give files of this machine to a site: the user is asked once per site and session.

`upload_sources.py` decides which files may be given. Files below `browser.upload_dirs` need no prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from bridge import origins
from bridge.browser_tools.session.call_context import CallContext
from bridge.browser_tools.session.permissions import LOOK_NO_FURTHER
from bridge.errors import CallError
from bridge.hub.consent.user_prompts import shown_client
from native_host.protocol.untrusted_text import quote
from native_host.protocol.wire import Code

MAX_SHOWN = 10
MAX_PATH = 120
"""Characters of a path in a prompt."""
_NO_SITE = ("", "null")
"""Origins that many documents share: an approval for one of them is not remembered."""


@dataclass
class UploadApprovals:
    """Sites to which the user lets this session give files."""

    sites: set[str] = field(default_factory=set)
    asking: trio.Lock = field(default_factory=trio.Lock)
    """One prompt at a time: several calls may need the same approval."""


async def admit_upload(context: CallContext, origin: str, paths: Sequence[str], where: str = "") -> bool:
    """Let these files go to a site, after the user was asked if need be; return whether they were asked.

    `where` describes a receiver whose site is not known.

    Raises:
        CallError: the user did not allow it or cannot be asked; return it to the client.
        ToolError: no browser is connected; return it to the client.
    """
    approvals, site = context.state.state_of(UploadApprovals), origins.canonicalize(origin)
    with context.prompts.pause_clock():
        async with approvals.asking:
            if site in approvals.sites:
                return False
            await _prompt_user(context, where or origins.format_origin(site) or "an empty page", paths)
            if site not in _NO_SITE:
                approvals.sites.add(site)
    return True


async def _prompt_user(context: CallContext, receiver: str, paths: Sequence[str]) -> None:
    host = context.current_browser().host
    if not context.prompts.supports_approval(host):
        raise CallError(
            Code.NOT_ALLOWED,
            f"giving files to {receiver} needs the user's approval, and this client cannot ask the user",
            handed=False,
            then="The user can allow files or directories: [browser] upload_dirs in config.toml.",
        )
    files = f"files of this computer to {receiver}: {_format_paths(paths)}"
    question = f"{shown_client(context.session)} wants to give {files}. Allow it?"
    if await context.prompts.ask_approval(question, ("session", "no"), receiver, "upload", host) == "session":
        return
    raise CallError(
        Code.NOT_ALLOWED,
        f"the user was asked about giving files to {receiver} and did not allow it",
        handed=False,
        then=LOOK_NO_FURTHER,
    )


def _format_paths(paths: Sequence[str]) -> str:
    shown = ", ".join(quote(path, MAX_PATH) for path in paths[:MAX_SHOWN])
    return f"{shown} and {len(paths) - MAX_SHOWN} more" if len(paths) > MAX_SHOWN else shown
