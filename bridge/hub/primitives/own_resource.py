"""Resources and resource templates that no page offers, as lists show them. Sans-IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec


class OwnResource(msgspec.Struct, frozen=True):
    """MCP Resource, or ResourceTemplate, that no page offers."""

    uri: str
    """URI, or URI template."""
    name: str
    title: str
    mime_type: str
    description: str = ""
    size: int | None = None
    """Bytes; None: unknown."""
    order: str = ""
    """Decides its place in the list before `uri` does."""
    definition: bytes = b""
    """The whole entry (JSON) where it has other members than these; empty: it is made of them."""


class OwnWatch(msgspec.Struct, frozen=True):
    """A watch of such a resource."""

    end: Callable[[], None]
    wait_active: Callable[[], Awaitable[None]]
    """Returns once changes are reported; raises CallError if the watch has failed."""


def format_resource(resource: OwnResource) -> bytes:
    """Return an MCP Resource (JSON)."""
    return _format("uri", resource)


def format_template(template: OwnResource) -> bytes:
    """Return an MCP ResourceTemplate (JSON)."""
    return _format("uriTemplate", template)


def _format(key: str, resource: OwnResource) -> bytes:
    if resource.definition:
        return resource.definition
    shown: dict[str, Any] = {key: resource.uri, "name": resource.name}
    if resource.title:
        shown["title"] = resource.title
    if resource.description:
        shown["description"] = resource.description
    shown["mimeType"] = resource.mime_type
    if resource.size is not None:
        shown["size"] = resource.size
    return msgspec.json.encode(shown)
