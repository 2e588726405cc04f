"""Our program before another product's native host (`--shim`), as files tell. It is only looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from install.examination.commands import installing
from install.examination.findings import Finding
from install.examination.neighbours import CLAUDES, Neighbour, taken
from install.examination.reading import printable
from install.ledger import Ledger
from native_host.channel_sockets import OPEN_RECONNECT


def rewritten(ledger: Ledger | None, found: Sequence[Neighbour]) -> list[Neighbour]:
    """Manifests that named our program, as the ledger knows, and name another now."""
    ours = {printable(entry.path) for entry in ledger.shimmed() if not entry.is_begun} if ledger else set()
    return [each for each in found if each.manifest in ours and not each.is_shim]


def shim_findings(written_anew: Sequence[Neighbour]) -> Iterator[Finding]:
    """Notes, of what `rewritten` found. Code: shim-gone."""
    for each in written_anew:
        text = (
            f"{CLAUDES[each.name]} has written its manifest ({each.manifest}) anew: mcpb's --shim is no "
            "longer before it. (A host that runs since before keeps it until that extension reconnects.) The "
            f"command puts it back; to leave it so: {installing('--unshim')}"
        )
        yield Finding(
            code="shim-gone",
            hop="browser",
            text=text,
            command=installing("--shim"),
            level="note",
            where=each.title,
        )


def waiting_shims(found: Sequence[Neighbour], connected: Collection[str]) -> Iterator[Finding]:
    """Where our program stands before the host that would be taken, and the extension has not come.

    `connected` are the titles of the browsers in which another product's extension has us for its host.
    Notes: whether they are more is for those to say who know what else works. Code: shim-waiting.
    """
    for title in dict.fromkeys(each.title for each in found):
        winner = taken(title, found)
        if winner and winner.is_shim and title not in connected:
            text = (
                "--shim is in place; the extension has not connected through it yet: "
                f"{OPEN_RECONNECT[:1].lower()}{OPEN_RECONNECT[1:]}"
            )
            yield Finding(code="shim-waiting", hop="browser", text=text, level="note", where=title)
