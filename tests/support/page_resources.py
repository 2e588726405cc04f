"""Pages with resources and prompts, for tests of the hub."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from bridge.hub.client_session import Session
from bridge.hub.policy import Policy
from bridge.hub.primitives.page_documents import PageDocuments
from bridge.hub.primitives.prompt_catalog import PromptCatalog
from bridge.hub.primitives.resource_catalog import EntryKey, ResourceCatalog
from bridge.hub.public_names import ProfileMarks
from bridge.hub.registry import Registry
from fake_transport import connect
from native_host.protocol import wire

SHOP = "https://shop.example"
CART = {"uri": "cart://1", "name": "Cart", "description": "Everything in it"}
SESSION = Session("s1")


def page(
    tab_id: int, *entries: dict[str, Any], origin: str = SHOP, frame_id: int = 0, document_id: str = "d1"
) -> wire.FrameTools:
    raw = [msgspec.Raw(json.dumps(entry).encode()) for entry in entries]
    return wire.FrameTools(
        tab_id=tab_id,
        frame_id=frame_id,
        document_id=document_id,
        origin=origin,
        tools=[],
        resources=[entry for entry in raw if b'"uri":' in bytes(entry)],
        resource_templates=[entry for entry in raw if b"uriTemplate" in bytes(entry)],
        prompts=[entry for entry in raw if b'"uri' not in bytes(entry)],
    )


class Pages:
    """The catalog of one browser."""

    def __init__(
        self, *announced: wire.Wire, policy: Policy | None = None, profiles: ProfileMarks | None = None
    ) -> None:
        self.registry = Registry()
        connect(self.registry, "h1", *announced)
        self.documents = PageDocuments(self.registry, policy or Policy(), profiles or ProfileMarks())
        self.catalog = ResourceCatalog(self.documents)
        self.prompts = PromptCatalog(self.documents, 64)

    def listed(self, kind: EntryKey = "uri") -> list[dict[str, Any]]:
        _, entries = self.catalog.list_entries(kind, self.documents.documents())
        return [json.loads(entry) for entry in entries]

    def listed_prompts(self) -> list[dict[str, Any]]:
        _, entries = self.prompts.list_entries(self.documents.documents())
        return [json.loads(entry) for entry in entries]

    def found(self, uri: str, session: Session = SESSION) -> tuple[int, int, str] | None:
        target = self.catalog.find(session, uri)
        if target is None:
            return None
        at = target.document.frame.announced
        return at.tab_id, at.frame_id, target.own_uri
