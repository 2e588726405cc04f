"""Measures of names and prose, with the limits of STYLE.md.

`python tests/architecture/prose_metrics.py` prints the table, `--check` exits with 1 when a limit is
exceeded, `--list MEASURE` prints the places that a measure counts.

Names count without leading underscores; dunder methods do not count. A participle is a name of one word that
ends with `ed` or is in IRREGULAR: verbs whose participle is their base form (read, put, cut) are not in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from source_trees import (
    CODE,
    PRODUCT,
    ROOT,
    Definition,
    find_circles,
    find_definitions,
    find_files,
    import_edges,
)

QUESTION_WORDS = frozenset(
    {"what", "who", "whose", "which", "where", "when", "whether", "why", "how", "of", "those", "nobody"}
)
IRREGULAR = frozenset(
    {
        "begun",
        "bound",
        "brought",
        "built",
        "done",
        "drawn",
        "fed",
        "felt",
        "found",
        "given",
        "gone",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "left",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "sought",
        "spent",
        "spoken",
        "stood",
        "swept",
        "taken",
        "thrown",
        "told",
        "thought",
        "torn",
        "withdrawn",
        "written",
    }
)
MEASURED = ("native_host", "http_serving", "websocket_proxy", "bridge", "install")
"""Packages whose names and docstrings are measured."""
RUFF_RULES = "D205,D400,D401,D402,D403,D404,D419"


class Measure(NamedTuple):
    """A count or a share in percent, its limit, and the places that it counts."""

    name: str
    value: float
    limit: float | None
    places: Sequence[object] = ()
    is_share: bool = False

    def __str__(self) -> str:
        shown = f"{self.value:.1f} % ({len(self.places)})" if self.is_share else f"{self.value:g}"
        limit = "" if self.limit is None else f"at most {self.limit:g}{' %' if self.is_share else ''}"
        return f"{self.name:44} {shown:>16}  {limit}"

    @property
    def is_exceeded(self) -> bool:
        """Whether the value is above the limit."""
        return self.limit is not None and self.value > self.limit


# ── Docstrings and names ────────────────────────────────────────────────────────────────────────────────────


@cache
def definitions() -> tuple[Definition, ...]:
    """Return the definitions of the measured packages."""
    return tuple(find_definitions(find_files(*MEASURED, suffix=".py")))


def begins_with_question(docstring: str) -> bool:
    """Return whether the first word is one of QUESTION_WORDS."""
    words = docstring.split()
    return bool(words) and words[0].strip(",.:;`").lower() in QUESTION_WORDS


def is_participle(name: str) -> bool:
    """Return whether the name of a function or a class is a past participle."""
    word = name.strip("_").lower()
    return word in IRREGULAR or (is_single_word(name) and len(word) > 4 and word.endswith("ed"))


def is_single_word(name: str) -> bool:
    """Return whether a name is one word, in either style."""
    bare = name.strip("_")
    return "_" not in bare and not any(char.isupper() for char in bare[1:])


def measure_docstrings() -> list[Measure]:
    """Return the measures of docstrings."""
    functions = [each for each in definitions() if each.docstring and each.kind == "function"]
    modules = [each for each in definitions() if each.docstring and each.kind == "module"]
    return [
        _share("docstrings that begin with a question word", functions, 5, _begins_badly),
        _count("module docstrings that begin so", modules, 0, _begins_badly),
    ]


def _begins_badly(definition: Definition) -> bool:
    return begins_with_question(definition.docstring or "")


def measure_names() -> list[Measure]:
    """Return the measures of names. Dunder methods are left out."""
    named = [each for each in definitions() if not each.name.startswith("__")]
    functions = [each for each in named if each.kind == "function"]
    classes = [each for each in named if each.kind == "class"]
    return [
        _share("participles as function names", functions, 2, lambda each: is_participle(each.name)),
        _count("participles as class names", classes, 5, lambda each: is_participle(each.name)),
        _share("one-word function names", functions, 40, lambda each: is_single_word(each.name)),
    ]


def _share(
    name: str, among: Sequence[Definition], limit: float, counts: Callable[[Definition], bool]
) -> Measure:
    found = [each for each in among if counts(each)]
    return Measure(name, 100 * len(found) / max(len(among), 1), limit, found, is_share=True)


def _count(
    name: str, among: Sequence[Definition], limit: float, counts: Callable[[Definition], bool]
) -> Measure:
    found = [each for each in among if counts(each)]
    return Measure(name, len(found), limit, found)


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────


def measure_files() -> list[Measure]:
    """Return counts of files and lines; files of 0 or 1 line are no files."""
    sizes = {
        path: _count_lines(path) for suffix in (".py", ".js") for path in find_files(*CODE, suffix=suffix)
    }
    files = [path for path, size in sizes.items() if size > 1]
    small = [path for path in files if sizes[path] < 60]
    folders = Counter(path.parent for path in find_files(*PRODUCT, suffix=".py"))
    fullest, modules = folders.most_common(1)[0]
    tests = find_files("tests", suffix=".py")
    return [
        Measure("files outside tests/", len(files), None),
        Measure("their lines", sum(sizes.values()), None),
        Measure("files of 2 to 59 lines", len(small), None, small),
        Measure(f"modules in {fullest.relative_to(ROOT)}", modules, 28),
        Measure("Python files in tests/", len(tests), None),
        Measure("their lines", sum(map(_count_lines, tests)), None),
    ]


def _count_lines(path: Path) -> int:
    return path.read_text().count("\n")


# ── Imports, ruff, and the program ──────────────────────────────────────────────────────────────────────────


def measure_imports() -> list[Measure]:
    """Return the number of import circles, imports in functions and for types included."""
    circles = find_circles(import_edges())
    return [Measure("import circles", len(circles), 0, [" ".join(sorted(circle)) for circle in circles])]


def measure_ruff() -> list[Measure]:
    """Return how often ruff reports each rule for docstrings."""
    command = [sys.executable, "-m", "ruff", "check", "--select", RUFF_RULES, "--output-format", "json"]
    found = subprocess.run([*command, *PRODUCT], cwd=ROOT, capture_output=True, text=True, check=False)
    counts = Counter(each["code"] for each in json.loads(found.stdout or "[]"))
    return [Measure(f"ruff {rule}", counts[rule], 0) for rule in RUFF_RULES.split(",")]


def measure_all() -> list[Measure]:
    """Return all measures."""
    parts = (measure_files, measure_imports, measure_docstrings, measure_names, measure_ruff)
    return [measure for part in parts for measure in part()]


def main(arguments: Sequence[str]) -> int:
    """Run the program; return its exit code."""
    measures = measure_all()
    if arguments[:1] == ["--list"]:
        wanted = " ".join(arguments[1:])
        lines = [place for measure in measures if wanted in measure.name for place in measure.places]
    else:
        lines = [*measures]
    print(*lines, sep="\n")  # noqa: T201
    return int("--check" in arguments and any(measure.is_exceeded for measure in measures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
