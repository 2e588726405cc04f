"""Bytes on their way into a document, in pieces that no message is too small for."""

from __future__ import annotations

import base64
import secrets

from bridge.browser_tools.page.page import Frame, Page

PIECE_BYTES = 384 * 1024
"""512 KiB in base64."""


async def carry(page: Page, frame: Frame, data: bytes) -> str:
    """Bring bytes to our code in a document; the name that it knows them by (`giveFiles`, `download`).

    Raises as `Page.call`.
    """
    transfer = secrets.token_hex(8)
    for begin in range(0, max(len(data), 1), PIECE_BYTES):
        end = begin + PIECE_BYTES
        chunk = base64.b64encode(data[begin:end]).decode()
        piece = {"transfer": transfer, "chunk": chunk, "last": end >= len(data)}
        await page.call("receive", piece, frame=frame)
    return transfer
