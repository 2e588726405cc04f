"""The JSON samples of the MCP Proxy Protocol Specification, played over real sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

from proxy_node import ForeignClient, ForeignExtension, token_of
from source_trees import ROOT

FOLDER = ROOT / "tests/data/proxy_protocol"
PAGE = (FOLDER / "samples.md").read_text()
USER = "83898119-db4f-4848-9d27-ea328b73a4df"
"""In all samples."""
CONNECTION = "conn-70dfcdd7-ff5e-448e-b274-59c1f6a0d7c8"
"""In all samples."""
_SAMPLE = re.compile(
    r"^\*\*(?:[\d.]+ )?(.*?):?\*\*.*\n```json\n(?:(.*) → .*:\n)?(\{\n[^`]*\})\n```$", re.MULTILINE
)
_TOKEN = re.compile(r"eyJ\w+\.\.\.")
_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MADE = re.compile(rf"(ext|mcp|conn)-{_UUID}")
"""An id that the proxy makes."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_SCOPES = {"Extension": "extension", "MCP": "client"}
Peer = ForeignClient | ForeignExtension


class Sample(NamedTuple):
    """A message of the specification."""

    name: str
    """Its heading; under "Control Methods", with the method."""
    sender: str
    """`Proxy`, `Extension` or `MCP`."""
    text: str


def read_chapters() -> dict[str, list[Sample]]:
    """The samples by the chapter of the specification, in its order."""
    chapters = {}
    for chapter in PAGE.split("\n## ")[1:]:
        title, _, rest = chapter.partition("\n")
        chapters[title] = [
            sample for part in rest.split("\n### ")[1:] for sample in _read_section(title, part)
        ]
    return chapters


def _read_section(chapter: str, section: str) -> Iterator[Sample]:
    method = f"{section.split()[1]}: " if chapter == "Control Methods" else ""
    for heading, sender, text in _SAMPLE.findall(section):
        yield Sample(method + heading, sender or heading.partition(" → ")[0], text)


class Script:
    """Samples that are played in their order; made by `playing`."""

    def __init__(self, samples: list[Sample], user: str) -> None:
        self._samples = samples
        self._user = user
        self._real = {USER: user}
        """What takes the place of a text in the samples: ids that the proxy makes, as it made them."""

    @property
    def left(self) -> list[str]:
        """Names of the samples that have not been played."""
        return [sample.name for sample in self._samples]

    def real(self, text: str) -> str:
        """Return a text with the ids that the proxy made."""
        for sample, made in self._real.items():
            text = text.replace(sample, made)
        return text

    async def play(self, name: str, peer: Peer, adds: Set[str] = frozenset(), **decided: Any) -> Sample:
        """Send the next sample or receive it; return it.

        Args:
            name: name of the sample, which must be the next one.
            peer: the end that sends or receives it.
            adds: members that the proxy sends beside those of the sample.
            decided: members that are not as in the sample, by a decision of docs/PROXY_PROTOCOL.md.
        """
        sample = self._samples.pop(0)
        assert sample.name == name
        if sample.sender != "Proxy":
            await self.send(sample, peer, **decided)
            return sample
        expected = {**json.loads(sample.text), **decided}
        received = await _receive(peer, expected)
        assert self._compare(expected, received) == adds, received
        return sample

    async def send(self, sample: Sample, peer: Peer, **decided: Any) -> None:
        """Send a sample as it stands, except for its token and for what the proxy makes."""
        text = json.dumps({**json.loads(sample.text), **decided}) if decided else sample.text
        token = token_of(self._user, _SCOPES[sample.sender])
        await peer.socket.send(self.real(_TOKEN.sub(token, text)))

    def _compare(self, expected: Any, received: Any) -> set[str]:
        """Return the names of members that the sample does not have."""
        if isinstance(expected, dict):
            added: set[str] = received.keys() - expected.keys()
            return added.union(*(self._compare(value, received[name]) for name, value in expected.items()))
        if isinstance(expected, list):
            return set().union(*(self._compare(*pair) for pair in zip(expected, received, strict=True)))
        if isinstance(expected, str):
            self._learn(expected, received)
            expected = self.real(expected)
        assert json.dumps(received) == json.dumps(expected)
        return set()

    def _learn(self, expected: str, received: str) -> None:
        """Note what the proxy has made at its first appearance, if it has the form of the sample's."""
        if (made := _MADE.fullmatch(expected)) and re.fullmatch(f"{made[1]}-{_UUID}", received):
            self._real.setdefault(expected, received)
        if expected.startswith("2025-10-20T") and _TIMESTAMP.fullmatch(received):
            self._real[expected] = received


async def _receive(peer: Peer, expected: dict[str, Any]) -> dict[str, Any]:
    """The next message but `status`; for a sample of that the next one with its number of peers."""
    while True:
        received: dict[str, Any] = await peer.receive()
        if received.get("method") != "status":
            return received
        if expected.get("method") == "status" and (
            received["params"]["peer_count"] == expected["params"]["peer_count"]
        ):
            return received


@contextmanager
def playing(*chapters: str, user: str = USER) -> Iterator[Script]:
    """Play the samples of chapters; all of them must have been played at the end of the block."""
    read = read_chapters()
    script = Script([sample for chapter in chapters for sample in read[chapter]], user)
    yield script
    assert script.left == []
