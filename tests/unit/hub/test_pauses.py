"""Pauses: changes are merged by their times, whatever the order in which they arrive."""

from __future__ import annotations

from itertools import permutations

import pytest

from bridge.errors import CallError, format_error
from bridge.hub.client_session import Session
from bridge.hub.rules.pauses import Pauses, PauseTarget, changes_in
from native_host.protocol import wire
from native_host.protocol.wire import PauseChange

BANK = "https://bank.example"


def site(at: int, *, paused: bool = True, name: str = BANK) -> PauseChange:
    return PauseChange(site=name, paused=paused, at=at)


@pytest.mark.parametrize("order", list(permutations([site(1), site(2, paused=False), site(3)])))
def test_the_latest_change_counts_in_any_order(order: tuple[PauseChange, ...]) -> None:
    assert Pauses(order).changes == [site(3)]
    assert Pauses(order).sites == (BANK,)


@pytest.mark.parametrize("order", list(permutations([site(1), site(1, paused=False)])))
def test_of_two_changes_at_the_same_moment_the_pause_counts(order: tuple[PauseChange, ...]) -> None:
    assert Pauses(order).sites == (BANK,)


def test_only_later_changes_are_missing_and_no_removal_of_what_never_was() -> None:
    known = Pauses([site(2), site(2, name="a.example"), site(2, name="b.example")])
    mine = Pauses(
        [
            site(1),
            site(3, paused=False, name="a.example"),
            site(2, name="b.example"),
            site(3, name="c.example"),
        ]
    )
    assert mine.later_than(known) == [site(3, paused=False, name="a.example"), site(3, name="c.example")]
    assert mine.later_than(Pauses([site(9, paused=False, name="c.example")])) == [
        site(1),
        site(2, name="b.example"),
    ]


def test_a_session_and_a_site_of_one_name_are_two_pauses() -> None:
    pauses = Pauses([site(1, name="x"), PauseChange(session="x", paused=False, at=2)])
    assert (pauses.sites, pauses.sessions) == (("x",), frozenset())
    assert pauses.change_of(PauseTarget(session="x")) == PauseChange(session="x", paused=False, at=2)


def test_names_of_older_extensions_count_as_the_oldest_changes() -> None:
    paused = wire.Paused(sites=[BANK, "a.example"], sessions=["s1"], changes=[site(5, name="a.example")])
    assert Pauses(changes_in(paused)).changes == [
        site(5, name="a.example"),
        site(0),
        PauseChange(session="s1", paused=True, at=0),
    ]


def test_a_paused_client_and_a_paused_site_are_told_without_the_command_that_resumes() -> None:
    pauses = Pauses([site(1), PauseChange(session="ours", paused=True, at=1)])
    with pytest.raises(CallError) as of_client:
        pauses.check(Session("ours"), BANK)
    with pytest.raises(CallError) as of_site:
        pauses.check(Session("theirs"), "https://shop.example", f"{BANK}.")
    pauses.check(Session("theirs"), "https://shop.example")
    assert format_error(of_client.value) == (
        "The user paused you. Nothing was run. Ask the user; they can resume you in the mcpb popup."
    )
    assert format_error(of_site.value) == (
        f"The user paused {BANK}. Nothing was run. Ask the user; they can resume it in the mcpb popup."
    )
