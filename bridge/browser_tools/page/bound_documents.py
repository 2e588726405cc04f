"""Documents that the running call was admitted to: each DevTools command of the call is bound to them.

There is one per tab. The extension rejects a command whose tab shows another document (docs/PROTOCOL.md,
`forwardCDPCommand`). Commands that events cause, outside of calls, are unbound.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType

from bridge.errors import CallError
from native_host.protocol.wire import Code

TabKey = tuple[str, int]


@dataclass
class BoundDocument:
    """A document, and what was done for the call in it."""

    id: str
    """Empty: the browser names none."""
    commands: int = 0


_documents: ContextVar[Mapping[TabKey, BoundDocument]] = ContextVar("documents", default=MappingProxyType({}))
_NONE = BoundDocument("")


def bind_document(tab: TabKey, document_id: str) -> None:
    """Bind what the running task does in a tab from now on, and the tasks that it starts."""
    _documents.set({**_documents.get(), tab: BoundDocument(document_id)})


def unbind_documents() -> None:
    """Forget the documents of the running task, before its next step."""
    _documents.set(MappingProxyType({}))


def get_document(tab: TabKey) -> BoundDocument:
    """Return the document that the running task is bound to in a tab."""
    return _documents.get().get(tab, _NONE)


def get_documents() -> Mapping[TabKey, BoundDocument]:
    """Return the documents that the running task is bound to."""
    return _documents.get()


def get_untouched_documents() -> Mapping[TabKey, BoundDocument]:
    """Return the documents of the running task if none of its commands has had a result, else nothing."""
    return {} if has_run_commands() else _documents.get()


def has_run_commands() -> bool:
    """Return whether a command of the running task has had a result in a bound document."""
    return any(document.commands for document in _documents.get().values())


def has_left(error: CallError) -> bool:
    """Return whether the tab had left the document before the command was sent."""
    return error.code == Code.NAVIGATED and not error.handed
