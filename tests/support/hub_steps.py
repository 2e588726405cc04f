"""What can happen to a hub, as values: hypothesis draws them, `hub_player` plays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Literal, TypeVar

from hypothesis import strategies as st

from hub_model import DOMAINS, NO_TOOLS, TOOLS
from native_host.protocol.wire import Code

BROWSERS = {"first": ("p1", 100), "copy": ("p1", 200), "second": ("p2", 300)}
"""Profile and process of each. The copy may be the first one restarted as well: nobody can tell."""
SESSIONS = ("s1", "s2")
INCOGNITO_TAB = 9
LATE_S = 3.3019
"""So long a slow page takes. No times add up to the hub's own: what happens at one moment has no order."""


@dataclass(frozen=True)
class Starts:
    """A host of a browser comes, and says what the browser's last one knew; another may be there still."""

    browser: str
    says: Literal["all", "tabs", "nothing"] = "all"
    """What comes before the end of its replay: pages need their time to dial again."""
    is_late: bool = False
    """Its browser introduces itself after the replay."""
    is_only_seen: bool = False
    """Everything else takes until `Replays`."""
    is_known_host: bool = False
    """Merely the link had broken."""


@dataclass(frozen=True)
class Replays:
    """A host that was only seen says the rest."""

    browser: str


@dataclass(frozen=True)
class Ends:
    """The newest host of a browser is lost, or the oldest."""

    browser: str
    is_oldest: bool = False


@dataclass(frozen=True)
class Tab:
    """A tab is opened, or is another now."""

    browser: str
    tab_id: int
    origin: str
    ordinal: int = 1
    owner: str | None = None
    is_shown: bool = False
    last_accessed: float = 0


@dataclass(frozen=True)
class Looks:
    """The person looks at a tab, or away from it."""

    browser: str
    tab_id: int
    is_shown: bool
    last_accessed: float


@dataclass(frozen=True)
class Page:
    """A document says all that it offers."""

    browser: str
    tab_id: int
    tools: Sequence[bytes]
    frame_id: int = 0
    origin: str = "https://shop.example"
    """Of its tab as well, when it is the whole page."""
    document_id: str = "d1"
    path: str = "/"


@dataclass(frozen=True)
class PageGoes:
    """A document unregisters: the one that is there, or one that was there earlier."""

    browser: str
    tab_id: int
    frame_id: int
    is_there: bool


@dataclass(frozen=True)
class TabCloses:
    browser: str
    tab_id: int


@dataclass(frozen=True)
class AllTabs:
    """The whole list again: those of its tabs that are still open."""

    browser: str
    tab_ids: Sequence[int]


@dataclass(frozen=True)
class Pauses:
    """The person pauses sites and sessions, or resumes them."""

    browser: str
    sites: Sequence[str]
    sessions: Sequence[str]


@dataclass(frozen=True)
class Forgets:
    """Somebody has the kept tools of an origin forgotten."""

    origin: str


@dataclass(frozen=True)
class Passes:
    """Time."""

    seconds: float


@dataclass(frozen=True)
class Lists:
    """A session lists the tools."""

    session: str
    by_tool: bool = False
    """By `list_page_tools`."""


@dataclass(frozen=True)
class Fails:
    """The request fails."""

    code: Code
    handed: bool


Answer = Literal["result", "throws", "tab closes", "goes elsewhere", "host ends", "host ended before"] | Fails
Opens = Literal["at once", "late", "without the tool", "without a page", "when loaded again", "fails"]
"""How the page of a tab comes that is opened, or loaded again, for a tool."""
News = Starts | Replays | Ends | Tab | Looks | Page | PageGoes | TabCloses | AllTabs | Pauses | Forgets


@dataclass(frozen=True)
class Calls:
    """A session calls one of the names that may mean something to it."""

    session: str
    whose: Literal["shown", "live", "ever", "domain", "nobody's"]
    which: int
    """Of these names, in alphabetical order; counted round."""
    answers: Sequence[Answer] = ()
    """To its requests in turn, then a result."""
    opens: Opens = "at once"
    by_tool: bool = False
    """By `call_page_tool`."""
    meanwhile: Sequence[tuple[float, News]] = ()
    """So many seconds after its beginning."""


Step = News | Passes | Lists | Calls


# ── Drawn ───────────────────────────────────────────────────────────────────────────────────────────────────

T = TypeVar("T")


def _often(*weighted: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """One of these, each as often as its number says."""
    return st.sampled_from([each for times, each in weighted for _ in range(times)]).flatmap(
        lambda each: each
    )


def _tuples(
    of: st.SearchStrategy[T], *, min_size: int = 0, max_size: int
) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(of, min_size=min_size, max_size=max_size, unique=True).map(tuple)


_flags = st.booleans()
_rarely = st.sampled_from([False, False, False, True])
_browsers = st.sampled_from(["first", "first", "first", "copy", "second"])
_tab_ids = st.sampled_from([1, 1, 1, 2, 2, 2, 3, 3, 5, INCOGNITO_TAB])
_origins = st.sampled_from([*3 * ["https://shop.example"], *DOMAINS])
_sessions = st.sampled_from(SESSIONS)
_definitions = _often(
    (2, st.sampled_from([each.raw for each in TOOLS[:3]])),
    (2, st.sampled_from([each.raw for each in TOOLS])),
    (1, st.sampled_from(NO_TOOLS)),
)
_pages = st.builds(
    Page,
    _browsers,
    _tab_ids,
    st.lists(_definitions, max_size=4).map(tuple),
    frame_id=st.sampled_from([0, 0, 0, 4]),
    origin=_origins,
    document_id=st.sampled_from(["d1", "d1", "d2", "d3"]),
    path=st.sampled_from(["/", "/", "/#part", "/?other"]),
)
_tabs = st.builds(
    Tab,
    _browsers,
    _tab_ids,
    _origins,
    ordinal=st.sampled_from([1, 2]),
    owner=st.sampled_from([None, None, *SESSIONS]),
    is_shown=_flags,
    last_accessed=st.sampled_from([0.0, 1.0, 2.0]),
)
_starts = st.builds(
    Starts,
    _browsers,
    says=st.sampled_from(["all", "tabs", "nothing"]),
    is_late=_rarely,
    is_only_seen=_rarely,
    is_known_host=_flags,
)
_news: st.SearchStrategy[News] = _often(
    (10, _pages),
    (4, _tabs),
    (5, st.builds(Looks, _browsers, _tab_ids, _flags, st.sampled_from([0.0, 1.0, 2.0, 3.0]))),
    (5, _starts),
    (3, st.builds(Ends, _browsers, is_oldest=_rarely)),
    (1, st.builds(Replays, _browsers)),
    (2, st.builds(PageGoes, _browsers, _tab_ids, st.sampled_from([0, 0, 4]), _flags)),
    (2, st.builds(TabCloses, _browsers, _tab_ids)),
    (1, st.builds(AllTabs, _browsers, _tuples(st.sampled_from([1, 2, 3, 5, INCOGNITO_TAB]), max_size=5))),
    (1, st.builds(Pauses, _browsers, _tuples(_origins, max_size=1), _tuples(_sessions, max_size=1))),
    (1, st.builds(Forgets, _origins)),
)
_codes = st.sampled_from(
    [Code.NO_SUCH_TAB, Code.GONE, Code.NAVIGATED, Code.NO_LONGER_OFFERED, Code.TIMED_OUT]
)
_ends: st.SearchStrategy[Answer] = st.sampled_from(
    ["tab closes", "goes elsewhere", "host ends", "host ended before"]
)
_answers: st.SearchStrategy[Answer] = _often(
    (2, st.builds(Fails, _codes, _flags)), (2, _ends), (1, st.sampled_from(["result", "throws"]))
)
_calls = st.builds(
    Calls,
    _sessions,
    st.sampled_from(
        [
            "domain",
            "domain",
            "domain",
            "shown",
            "shown",
            "shown",
            "live",
            "live",
            "live",
            "ever",
            "ever",
            "nobody's",
        ]
    ),
    st.integers(0, 9),
    answers=_often((1, st.just(())), (1, st.lists(_answers, min_size=1, max_size=3).map(tuple))),
    opens=st.sampled_from(
        ["at once", "at once", "late", "without the tool", "without a page", "when loaded again", "fails"]
    ),
    by_tool=_rarely,
    meanwhile=_often(
        (3, st.just(())),
        (
            1,
            st.lists(
                st.tuples(st.sampled_from([0.1301, 0.6133, 1.1719, 2.4103]), _news),
                max_size=2,
                unique_by=itemgetter(0),
            ).map(tuple),
        ),
    ),
)
steps: st.SearchStrategy[Step] = _often(
    (6, _news),
    (4, _calls),
    (1, st.builds(Lists, _sessions, by_tool=_rarely)),
    (1, st.builds(Passes, st.sampled_from([0.2113, 0.7307, 1.3711, 3.1039]))),
)

_BUY, _KEEP, _READ, _AGAIN = TOOLS[0].raw, TOOLS[2].raw, TOOLS[4].raw, TOOLS[5].raw
_ONE_PAGE = (Starts("first"), Page("first", 1, (_BUY, _KEEP)), Lists("s1"))
BEGINNINGS: Sequence[Sequence[Step]] = (
    _ONE_PAGE,
    (*_ONE_PAGE, Page("first", 2, (_BUY, _READ)), Looks("first", 2, False, 1.0), Lists("s2")),
    (
        *_ONE_PAGE,
        Page("first", 1, (_BUY,), frame_id=4),
        Page("first", INCOGNITO_TAB, (_BUY, _READ)),
        Lists("s2"),
    ),
    (
        *_ONE_PAGE,
        Starts("second"),
        Page("second", 1, (_BUY, _KEEP)),
        Starts("copy"),
        Page("copy", 1, (_BUY,)),
    ),
    (*_ONE_PAGE, Page("first", 2, (_BUY,), origin="http://shop.example"), TabCloses("first", 1), Lists("s1")),
    # Frames of a site in its own pages and in another's, which is looked at.
    (
        *_ONE_PAGE[:2],
        Page("first", 2, (), origin="http://localhost:3000"),
        Page("first", 2, (_BUY, _KEEP), frame_id=4),
        Looks("first", 2, True, 2.0),
        Page("first", 3, (_BUY, _AGAIN), frame_id=4),
        Looks("first", 3, False, 3.0),
    ),
    (*_ONE_PAGE[:1], Page("first", 1, (_BUY,), frame_id=4), Pauses("first", ("https://shop.example",), ())),
    (
        *_ONE_PAGE[:1],
        Page("first", 1, (), origin="http://localhost:3000"),
        Page("first", 1, (_BUY, _AGAIN), frame_id=4),
        Pauses("first", ("http://localhost:3000",), ()),
    ),
    # A copy of the profile, which outlives the page that was listed.
    (*_ONE_PAGE, Starts("copy"), Page("copy", 1, (_BUY, _AGAIN)), TabCloses("first", 1)),
    # Tools without a tab: of others' tabs, and of two profiles.
    (Starts("first"), Tab("first", 1, "null", owner="s2"), Page("first", 1, (_BUY, _AGAIN), origin="null")),
    (
        *_ONE_PAGE[:2],
        Starts("second"),
        Page("second", 1, (_KEEP, _READ)),
        TabCloses("first", 1),
        TabCloses("second", 1),
        Ends("second"),
    ),
)


@st.composite
def plays(draw: st.DrawFn) -> list[Step]:
    """A beginning, and what happens then."""
    beginning = draw(st.sampled_from(BEGINNINGS))
    # In parts: a drawn list is short on average, however long it may be.
    return [*beginning, *chain.from_iterable(draw(st.lists(steps, max_size=10)) for _ in range(4))]
