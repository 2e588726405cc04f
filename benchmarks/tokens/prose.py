"""Varied English for pages: sentences, headlines and names from a seed, the same at every run."""

from __future__ import annotations

import random

_NOUNS = [
    "harbour",
    "council",
    "orchard",
    "railway",
    "museum",
    "archive",
    "bridge",
    "valley",
    "theatre",
    "market",
    "library",
    "festival",
    "engineer",
    "teacher",
    "farmer",
    "violin",
    "glacier",
    "observatory",
    "ferry",
    "canal",
    "parliament",
    "hospital",
    "bakery",
    "workshop",
    "forest",
    "lighthouse",
    "satellite",
    "reservoir",
    "quarry",
    "cathedral",
    "vineyard",
    "journalist",
    "committee",
    "newspaper",
    "voyage",
    "telescope",
    "mountain",
    "village",
    "island",
    "garden",
    "laboratory",
    "printer",
    "merchant",
    "windmill",
    "chapel",
    "tunnel",
    "sculpture",
    "comet",
    "tramway",
    "meadow",
]
_ADJECTIVES = [
    "northern",
    "early",
    "wooden",
    "quiet",
    "unusual",
    "public",
    "modern",
    "ancient",
    "regional",
    "narrow",
    "bright",
    "restored",
    "independent",
    "seasonal",
    "coastal",
    "private",
    "crowded",
    "temporary",
    "royal",
    "electric",
    "rural",
    "forgotten",
    "famous",
    "inner",
    "annual",
    "shallow",
    "municipal",
    "distant",
    "careful",
    "generous",
    "local",
    "expensive",
    "medieval",
    "empty",
    "common",
    "national",
]
_VERBS = [
    "opened",
    "replaced",
    "described",
    "crossed",
    "supplied",
    "visited",
    "restored",
    "measured",
    "published",
    "shaped",
    "joined",
    "followed",
    "carried",
    "financed",
    "protected",
    "divided",
    "reached",
    "supported",
    "surrounded",
    "inspired",
    "connected",
    "recorded",
    "examined",
    "rebuilt",
    "surveyed",
    "delayed",
    "discovered",
    "defended",
    "improved",
    "abandoned",
]
_TIMES = [
    "in the spring",
    "after the war",
    "last week",
    "during the winter",
    "in 1874",
    "before sunrise",
    "for three decades",
    "at the turn of the century",
    "on Monday",
    "within a year",
    "by the river",
    "despite heavy rain",
    "against all advice",
    "with little warning",
    "in the summer of 1921",
    "under the new law",
    "over several months",
    "near the border",
]
_NAMES = [
    "Ada Albrecht",
    "Bruno Castell",
    "Carla Dunmore",
    "David Ekström",
    "Elena Farkas",
    "Felix Grant",
    "Greta Holm",
    "Hugo Ivers",
    "Ines Jansen",
    "Jonas Keller",
    "Katja Lindqvist",
    "Leo Marchetti",
    "Mara Novak",
    "Nils Okafor",
    "Olga Petrov",
    "Paul Quist",
    "Rosa Santos",
    "Simon Thorne",
    "Tilda Unger",
    "Viktor Weiss",
]
_JOINS = ("while", "because", "although", "and", "where", "after")


class Prose:
    """A writer; two of the same seed write the same."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def choose(self, *choices: str) -> str:
        """Return one of the choices."""
        return self._random.choice(choices)

    def number(self, low: int, high: int) -> int:
        """Return a number from low to high."""
        return self._random.randint(low, high)

    def name(self) -> str:
        """Return a first and a last name."""
        return self._random.choice(_NAMES)

    def title(self) -> str:
        """Return a title of two to four words."""
        words = [self._random.choice(_ADJECTIVES), self._random.choice(_NOUNS)]
        if self._random.random() < 0.5:
            words += ["of the", self._random.choice(_NOUNS)]
        return " ".join(words).capitalize()

    def headline(self) -> str:
        """Return a headline."""
        return f"{self._thing().capitalize()} {self._random.choice(_VERBS)} {self._thing()}"

    def sentence(self) -> str:
        """Return a sentence of 8 to 30 words."""
        text = f"The {self._thing()} {self._random.choice(_VERBS)} the {self._thing()}"
        text += f" {self._random.choice(_TIMES)}"
        if self._random.random() < 0.6:
            verb = self._random.choice(_VERBS)
            text += f", {self._random.choice(_JOINS)} {self.name()} {verb} a {self._thing()}"
        return f"{text}."

    def paragraph(self, sentences: int) -> str:
        """Return a paragraph of that many sentences."""
        return " ".join(self.sentence() for _ in range(sentences))

    def _thing(self) -> str:
        return f"{self._random.choice(_ADJECTIVES)} {self._random.choice(_NOUNS)}"
