"""Samples, and the order in which they are taken.

What is compared is measured in short rounds that take turns, in one run: whatever else the machine does then
shifts all sides alike. A ratio is taken within each round, and the median of these is what counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from statistics import median, quantiles


@dataclass(frozen=True)
class Samples:
    """What one subject took, round by round, in whatever unit the measure has."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def p50(self) -> float:
        """The median of all samples."""
        return median(self._pooled())

    @property
    def p99(self) -> float:
        """What 99 of 100 samples stay under; of fewer than 100 the largest."""
        pooled = self._pooled()
        return max(pooled) if len(pooled) < 100 else quantiles(pooled, n=100, method="inclusive")[98]

    def ratio_to(self, other: Samples) -> float:
        """How many times the other's median this one's is: of all rounds the median.

        Raises:
            ValueError: they were not measured in the same rounds.
        """
        pairs = zip(self.rounds, other.rounds, strict=True)
        return median(median(ours) / median(theirs) for ours, theirs in pairs)

    def difference_to(self, other: Samples) -> float:
        """Return how much larger this one's median is than the other's: of all rounds the median.

        Raises:
            ValueError: they were not measured in the same rounds.
        """
        pairs = zip(self.rounds, other.rounds, strict=True)
        return median(median(ours) - median(theirs) for ours, theirs in pairs)

    def _pooled(self) -> list[float]:
        return list(chain.from_iterable(self.rounds))


Measure = Callable[[], list[float]]


def take_turns(measures: Mapping[str, Measure], rounds: int) -> dict[str, Samples]:
    """Each measure once in every round, by the names that were given.

    The order differs in each round, and is the same in every run: what one subject leaves behind (a browser
    that is still busy) does not always fall on the same neighbour.
    """
    samples = {name: Samples() for name in measures}
    for number in range(rounds):
        turns = random.Random(number)  # noqa: S311 - an order, not a secret
        for name in turns.sample(list(measures), len(measures)):
            samples[name].rounds.append(measures[name]())
    return samples
