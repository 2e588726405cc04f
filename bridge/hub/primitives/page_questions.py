"""Questions that a page asks the user of a request: each shows the page's origin."""

from __future__ import annotations

import msgspec

from bridge.hub.transport import CallObserver
from native_host.protocol import wire
from native_host.protocol.untrusted_text import single_line

_MAX_QUESTION = 1000


def mark_questions(observer: CallObserver, origin: str) -> CallObserver:
    """Return an observer that shows the origin of a page with each question: the user must see who asks."""
    if observer.on_question is None:
        return observer
    ask = observer.on_question

    async def ask_marked(question: wire.ElicitConfirmation) -> bytes:
        message = f"{origin} asks: {single_line(question.message, _MAX_QUESTION)}"
        return await ask(msgspec.structs.replace(question, message=message))

    return CallObserver(observer.on_progress, ask_marked)
