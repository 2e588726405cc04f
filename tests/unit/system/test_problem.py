"""Problems and the pieces that the status page shows."""

from __future__ import annotations

from native_host.system.problem import Problem


def test_a_command_is_a_piece_of_its_own_without_backticks() -> None:
    problem = Problem("Run `mcpb demo` first. Then run: mcpb doctor", "mcpb demo", "mcpb doctor")
    assert list(problem.pieces()) == [
        ("Run ", False),
        ("mcpb demo", True),
        (" first. Then run: ", False),
        ("mcpb doctor", True),
        ("", False),
    ]


def test_combined_problems_keep_their_commands_and_the_first_line_its_own() -> None:
    both = Problem.combine(Problem("No host. Run: a b", "a b"), "", Problem("Or: c d", "c d"))
    assert (both, both.commands) == ("No host. Run: a b\nOr: c d", ("a b", "c d"))
    assert (both.first_line(), both.first_line().commands) == ("No host. Run: a b", ("a b",))


def test_a_composed_problem_has_the_commands_of_its_texts_in_order() -> None:
    composed = Problem.compose("{}. But {}", Problem("Run: a {b}", "a {b}"), "no more")
    assert (composed, composed.commands) == ("Run: a {b}. But no more", ("a {b}",))


def test_an_empty_command_is_ignored() -> None:
    assert Problem("It is gone.", "").commands == ()
