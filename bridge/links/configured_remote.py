"""Options of a remote server from its `[[remote]]`: tool filter, renames, descriptions, headers."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from bridge.config.remote_settings import RemoteSettings
from bridge.links.remote_headers import RemoteHeaders
from bridge.links.remote_options import RemoteOptions
from native_host.system.program_name import format_command


def make_options(
    settings: RemoteSettings, headers: RemoteHeaders, *, is_quiet: bool = False
) -> RemoteOptions:
    """Return the options of a configured server; `is_quiet`: its connection logs nothing."""

    def is_offered(tool: dict[str, Any]) -> bool:
        name = tool["name"]
        is_allowed = not settings.allow or any(fnmatchcase(name, glob) for glob in settings.allow)
        return is_allowed and not any(fnmatchcase(name, glob) for glob in settings.deny)

    def replace_texts(tool: dict[str, Any]) -> dict[str, Any]:
        name = tool["name"]
        if name in settings.describe:
            tool = {**tool, "description": settings.describe[name]}
        return {**tool, "name": settings.rename.get(name, name)}

    return RemoteOptions(
        name=settings.name,
        url=settings.url,
        command=settings.command,
        args=settings.args,
        env=settings.env,
        get_headers=headers.read if settings.url else None,
        watch=settings.watch,
        timeout_s=settings.timeout_s,
        quiet=is_quiet,
        log_prefix="remote server",
        filter=is_offered,
        map_tool=replace_texts,
        roots=settings.roots,
        features=("sampling", "elicitation", "roots"),
        unauthorized_remedy=find_unauthorized_remedy(settings),
    )


def find_unauthorized_remedy(settings: RemoteSettings) -> str:
    """Return what the user does after HTTP status 401, as a sentence."""
    if settings.header_command:
        return "Its header_command has to print valid headers: correct it, or sign in with its program."
    for key in ("bearer_file", "bearer_env"):
        if getattr(settings, key):
            return f"Renew the token of its {key}."
    if not settings.can_sign_in:
        return "Renew the token in its headers."
    return f"To sign in, run: {format_command(f'remote login {settings.name}')}"
