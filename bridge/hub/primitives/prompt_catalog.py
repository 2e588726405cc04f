"""Prompt catalog: public names of the prompts of all pages: `shop_example_tab1_check-out`. Sans-IO.

Names have letters, digits, `_` and `-` alone, because clients make slash commands of them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from bridge.hub.primitives.page_documents import PageDocument, PageDocuments
from bridge.hub.primitives.page_prompt import PagePrompt, PromptArgument
from bridge.hub.primitives.pagination import PAGE_RANK, Key
from bridge.hub.public_names import DIGEST_CHARS
from bridge.hub.tool_definition import in_text
from native_host.protocol.untrusted_text import MAX_TITLE_CHARS, format_description, single_line

_MAX_ARGUMENT_CHARS = 300
"""Characters of the description of an argument."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MIN_DOMAIN = 16
"""Characters of the end of a domain that a shortened name has."""


class PromptTarget(NamedTuple):
    """The prompt of a page that a name means."""

    document: PageDocument
    prompt: PagePrompt
    public_name: str


class _NameTable(msgspec.Struct, frozen=True):
    """Targets by name, and what the names were made of."""

    documents: Sequence[PageDocument]
    max_name: int
    reserved: Collection[str]
    targets: dict[str, PromptTarget]


class PromptCatalog:
    """The prompts of all documents."""

    def __init__(self, documents: PageDocuments, max_name: int) -> None:
        self.max_name = max_name
        """Characters of a public name."""
        self._documents = documents
        self._named = _NameTable((), 0, (), {})
        self._entries: dict[str, tuple[PromptTarget, str, bytes]] = {}

    def find(self, name: str, reserved: Collection[str] = ()) -> PromptTarget | None:
        """Return the prompt with a public name; None: no page has it.

        `reserved` are the names of prompts that no page offers: those of pages are others.
        """
        return self._targets(reserved).get(name)

    def may_have(self, document: PageDocument, name: str) -> bool:
        """Return whether a name may mean a prompt of a document that is being reloaded."""
        prompts = document.frame.prompts
        return any(
            _shorten(_plain_name(document, each), (document, each), self.max_name) == name for each in prompts
        )

    def list_targets(
        self, documents: Collection[PageDocument], reserved: Collection[str] = ()
    ) -> list[PromptTarget]:
        """Return the prompts of these documents, sorted by name."""
        among = set(documents)
        found = self._targets(reserved)
        return [found[name] for name in sorted(found) if found[name].document in among]

    def list_entries(
        self, documents: Collection[PageDocument], reserved: Collection[str] = ()
    ) -> tuple[list[Key], list[bytes]]:
        """Return the sorted keys of all prompts of these documents, and each as an MCP Prompt (JSON)."""
        targets = self.list_targets(documents, reserved)
        before = self._entries
        self._entries = {target.public_name: _format_entry(target, before) for target in targets}
        keys = [Key(PAGE_RANK, target.public_name) for target in targets]
        return keys, [entry for _, _, entry in self._entries.values()]

    @staticmethod
    def fingerprint(documents: Sequence[PageDocument]) -> object:
        """Return what clients are notified of when it changes: not the titles of tabs."""
        offered = ((document.name, document.frame.prompts) for document in documents)
        return [each for each in offered if each[1]]

    def _targets(self, reserved: Collection[str]) -> dict[str, PromptTarget]:
        documents = self._documents.documents()
        known = self._named
        is_same = known.documents is documents and known.max_name == self.max_name
        if is_same and known.reserved == reserved:
            return known.targets
        offered = [(document, prompt) for document in documents for prompt in document.frame.prompts]
        names = prompt_names(offered, self.max_name, reserved)
        targets = {
            name: PromptTarget(document, prompt, name)
            for name, (document, prompt) in zip(names, offered, strict=True)
        }
        self._named = _NameTable(documents, self.max_name, reserved, targets)
        return targets


def prompt_names(
    offered: Sequence[tuple[PageDocument, PagePrompt]], max_name: int, reserved: Collection[str] = ()
) -> list[str]:
    """Return a unique name for each prompt, in order.

    Prompts that would share a name all get a hash of their identity, and so does one with a reserved name.
    """
    names = [_shorten(_plain_name(*each), each, max_name) for each in offered]
    for digest_chars in DIGEST_CHARS:
        counts = Counter(names)
        clashing = [at for at, name in enumerate(names) if counts[name] > 1 or name in reserved]
        if not clashing:
            break
        for at in clashing:
            names[at] = _hashed_name(offered[at], digest_chars, max_name)
    return names


def _plain_name(document: PageDocument, prompt: PagePrompt) -> str:
    name = document.name
    return "_".join(_UNSAFE.sub("_", part) for part in (name.domain, name.tab, prompt.name))


def _shorten(name: str, offered: tuple[PageDocument, PagePrompt], max_name: int) -> str:
    return name if len(name) <= max_name else _hashed_name(offered, DIGEST_CHARS[0], max_name)


def _hashed_name(offered: tuple[PageDocument, PagePrompt], digest_chars: int, max_name: int) -> str:
    """Return the name with a hash at its end. The end of the domain and the tab stay where it is too long."""
    document, prompt = offered
    at = document.frame.announced
    identity = f"{document.browser.profile}\n{at.tab_id}\n{at.frame_id}\n{at.origin}\n{prompt.name}"
    if digest_chars > DIGEST_CHARS[0]:
        identity += f"\n{document.browser.pid}"  # of a copied profile; it changes with each start
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:digest_chars]
    whole = f"{_plain_name(document, prompt)}_{digest}"
    if len(whole) <= max_name:
        return whole
    domain, tab, own = (_UNSAFE.sub("_", part) for part in (*document.name, prompt.name))
    kept = own[: max(0, max_name - len(f"{domain[-_MIN_DOMAIN:]}_{tab}__{digest}"))]
    return f"{domain}_{tab}_{kept}_{digest}"[-max_name:].lstrip("_-")


def _format_entry(
    target: PromptTarget, before: dict[str, tuple[PromptTarget, str, bytes]]
) -> tuple[PromptTarget, str, bytes]:
    document, prompt, name = target
    place = document.place
    known = before.get(name)
    if known and known[0].prompt is prompt and known[0].document is document and known[1] == place:
        return known
    site, words = document.shown_origin, format_description(prompt.description)
    says = f"The page says: {words}" if words else "The page does not describe it."
    text = f"Prompt of {site}: that site's text. {place} {says}"
    return target, place, format_entry(prompt, name, site, text)


def format_entry(prompt: PagePrompt, name: str, site: str, description: str) -> bytes:
    """Return an MCP Prompt (JSON) with this public name, site and description."""
    title = single_line(prompt.title or prompt.name, MAX_TITLE_CHARS)
    head: dict[str, object] = {"name": name, "title": f"[{site}] {title}"}
    if prompt.arguments:
        head["arguments"] = [_format_argument(argument) for argument in prompt.arguments]
    text = in_text(description)
    members = prompt.members[1:]
    comma = b"," if len(members) > 1 else b""
    return b'%b,"description":"%b"%b%b' % (msgspec.json.encode(head)[:-1], text, comma, members)


def _format_argument(argument: PromptArgument) -> dict[str, object]:
    shown: dict[str, object] = {"name": argument.name}
    if argument.title:
        shown["title"] = single_line(argument.title, MAX_TITLE_CHARS)
    if argument.description:
        shown["description"] = single_line(argument.description, _MAX_ARGUMENT_CHARS)
    if argument.required is not None:
        shown["required"] = argument.required
    return shown
