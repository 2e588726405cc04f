"""What another product's extension, its host and the clients of that said, as JSON lines; and played anew.

Each line is a `Cue`. Played on a stage, cues that are said are said, and those that are heard are replaced by
what is heard there: so what one host was recorded to say can be compared with what another says. A transcript
is begun by hand, with nothing in what is heard, and `make record-interop` fills that in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

TRANSCRIPTS = sorted((Path(__file__).parents[1] / "data/transcripts").glob("*.jsonl"))
EXTENSION = "extension"


class Cue(msgspec.Struct, omit_defaults=True, frozen=True):
    """Somebody's part: the extension's, or that of the client with this name."""

    who: str
    does: Literal["says", "hears", "connects", "leaves", "is cut off"]
    what: Any = None
    """A message; of the extension also several in one write, or text that may be none. In it `x*200` is 200
    times x, of which there are 100 at least."""


class Stage(Protocol):
    """A host with its extension, and clients of it."""

    async def connect(self, who: str) -> None:
        """A client comes."""

    async def leave(self, who: str) -> None:
        """It goes."""

    async def say(self, who: str, what: Any) -> None:
        """Somebody says this."""

    async def hear(self, who: str) -> Any:
        """The next that somebody hears."""

    async def until_cut_off(self, who: str) -> None:
        """The host ends a client's connection."""


async def play(cues: Iterable[Cue], stage: Stage) -> list[Cue]:
    """The same cues, with what is heard on this stage."""
    return [await _played(cue, stage) for cue in cues]


async def _played(cue: Cue, stage: Stage) -> Cue:
    match cue.does:
        case "connects":
            await stage.connect(cue.who)
        case "leaves":
            await stage.leave(cue.who)
        case "is cut off":
            await stage.until_cut_off(cue.who)
        case "says":
            await stage.say(cue.who, _long(cue.what))
        case "hears":
            return Cue(cue.who, "hears", _short(await stage.hear(cue.who)))
    return cue


def bodies(what: Any) -> list[bytes]:
    """What the extension says in one write."""
    if isinstance(what, str):
        return [what.encode()]
    return [msgspec.json.encode(message) for message in (what if isinstance(what, list) else [what])]


def read(path: Path) -> list[Cue]:
    return [msgspec.json.decode(line, type=Cue) for line in path.read_bytes().splitlines()]


def write(path: Path, cues: Iterable[Cue]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(cue) + b"\n" for cue in cues))


def _long(what: Any) -> Any:
    return _changed(what, lambda text: re.sub(r"x\*(\d+)", lambda found: "x" * int(found[1]), text))


def _short(what: Any) -> Any:
    return _changed(what, lambda text: re.sub(r"x{100,}", lambda found: f"x*{len(found[0])}", text))


def _changed(what: Any, change: Callable[[str], str]) -> Any:
    return msgspec.json.decode(change(msgspec.json.encode(what).decode()))
