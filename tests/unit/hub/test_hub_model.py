"""Whatever happens in whatever order, the hub does what its rules say: `hub_model` has them once more."""

from collections.abc import Sequence

import trio
import trio.testing
from hypothesis import HealthCheck, given, settings

import hub_steps as steps
from hub_player import Player


def play(happenings: Sequence[steps.Step]) -> None:
    async def play_all() -> None:
        async with trio.open_nursery() as nursery:
            player = Player(nursery)
            await player.begin()
            for step in happenings:
                await player.play(step)
            await player.finish()
            nursery.cancel_scope.cancel()

    try:
        trio.run(play_all, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseExceptionGroup as group:
        raise first_of(group) from None


def first_of(error: BaseException) -> BaseException:
    """What went wrong first, without the nurseries around it: hypothesis tells failures apart by it."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(steps.plays())
def test_lists_names_and_calls_follow_the_rules_whatever_happens(happenings: list[steps.Step]) -> None:
    play(happenings)
