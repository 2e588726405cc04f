"""Public names of page tools: `website_tool_<domain>_tab<N>_<tool>`, looked up and never parsed.

Bridges with one maximal length make the same names from the same tabs, in whatever order they received them.
The profile that was there first has plain names; in those of others a mark stands behind the domain.
`bridge/state/profiles_file.py` stores the order of profiles.
Too long a name gets the prefix `web_`; then its domain is shortened, and at last its tab left out.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from bridge import origins

PREFIX = "website_tool"
SHORT_PREFIX = "web"
MAX_MODEL_NAME = 64
"""Characters of a tool's name that the model APIs of Anthropic and OpenAI take."""
ASSUMED_PREFIX = 20
"""Characters of a prefix that is unknown."""
MIN_NAME = 24
MAX_NAME = MAX_MODEL_NAME - ASSUMED_PREFIX
_CLIENT_PREFIXES = {"claude-code": "mcp__{server}__"}
"""By `clientInfo.name`; `server` is the name that the user has given the server in the client."""
WHOLE_TOOL = 32
"""Characters of a tool's own name that stay whole in a shortened name."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
DIGEST_CHARS = (6, 12, 24)
"""A clash of the short ones is met with longer ones."""
_MIN_DOMAIN = 3


def longest_name(client: str, server: str) -> int:
    """Return the characters that a tool's name may have, for a client and its name for this server."""
    form = _CLIENT_PREFIXES.get(client.lower())
    prefix = len(form.format(server=server)) if form and server else ASSUMED_PREFIX
    return max(MIN_NAME, MAX_MODEL_NAME - prefix)


class Place(msgspec.Struct, frozen=True):
    """Location of a tool: everything that its name can depend on."""

    profile: str
    browser_pid: int
    tab_id: int
    frame_id: int
    ordinal: int
    origin: str
    own_name: str
    mark: str = ""
    """Of the profile; empty if the profile has none."""


def public_names(places: Sequence[Place], max_name: int = MAX_NAME) -> list[str]:
    """Return a unique name for each place, in order.

    All places that would share a name get a hash of their identity behind the domain, so that the tools of
    one frame look alike.
    """
    names = [_plain_name(place, max_name) for place in places]
    for digest_chars in DIGEST_CHARS:
        clashing = _find_clashes(names)
        if not clashing:
            return names
        for index in clashing:
            names[index] = _distinguish(places[index], digest_chars, max_name)
    return names


class ToolNamer:
    """Public names of places that come and go: what a change costs depends on the change alone."""

    def __init__(self, max_name: int = MAX_NAME) -> None:
        self.max_name = max_name
        self._names: dict[Place, str] = {}
        self._holders: dict[str, Place] = {}
        self._sharing: dict[str, dict[Place, None]] = {}
        self._marked: dict[str, dict[Place, None]] = {}
        """By name without the mark."""
        self._is_crowded = False
        """Even marked names clash somewhere: then everything is named together."""

    def name_of(self, place: Place) -> str:
        """Return the current name of a known place."""
        return self._names[place]

    def find_alike(self, name: str) -> list[Place]:
        """Return the places that would have this name if no other tool could be meant."""
        return [*self._sharing.get(name, ()), *self._marked.get(name, ())]

    def change_places(self, gone: Iterable[Place], come: Iterable[Place]) -> set[Place]:
        """Remove and add places; return those whose name changed."""
        touched = {self._remove_place(place) for place in gone} | {self._add_place(place) for place in come}
        if self._is_crowded:
            return self._name_all()
        wanted = {
            place: name
            for plain in touched
            for place, name in self._wanted_names(plain)
            if self._names.get(place) != name
        }
        for place in wanted:
            self._release_name(place)
        for place, name in wanted.items():
            if self._holders.setdefault(name, place) != place:
                return self._name_all() | wanted.keys()
            self._names[place] = name
        return set(wanted)

    def _remove_place(self, place: Place) -> str:
        plain = _plain_name(place, self.max_name)
        _remove_from(self._sharing, plain, place)
        if place.mark:
            _remove_from(self._marked, _unmarked_name(place, self.max_name), place)
        self._release_name(place)
        return plain

    def _add_place(self, place: Place) -> str:
        plain = _plain_name(place, self.max_name)
        self._sharing.setdefault(plain, {})[place] = None
        if place.mark:
            self._marked.setdefault(_unmarked_name(place, self.max_name), {})[place] = None
        return plain

    def _release_name(self, place: Place) -> None:
        name = self._names.pop(place, None)
        if name is not None and self._holders.get(name) == place:
            del self._holders[name]

    def _wanted_names(self, plain: str) -> list[tuple[Place, str]]:
        sharing = self._sharing.get(plain, {})
        if len(sharing) == 1:
            return [(place, plain) for place in sharing]
        return [(place, _distinguish(place, DIGEST_CHARS[0], self.max_name)) for place in sharing]

    def _name_all(self) -> set[Place]:
        wanted = dict(pair for plain in self._sharing for pair in self._wanted_names(plain))
        names = dict(zip(wanted, public_names(list(wanted), self.max_name), strict=True))
        renamed = {place for place, name in names.items() if self._names.get(place) != name}
        self._is_crowded = names != wanted
        self._names = names
        self._holders = {name: place for place, name in names.items()}
        return renamed


def domain_name(origin: str, own_name: str, max_name: int = MAX_NAME, mark: str = "") -> str:
    """Return the name without a tab: it stands for the best tab of that domain."""
    return _shorten_name(Place("", 0, 0, 0, 0, origin, own_name, mark), "", max_name)


def kept_name(profile: str, origin: str, own_name: str, max_name: int, digest_chars: int) -> str:
    """For a tool without a tab, where others share its `domain_name`: with a hash of where it was offered."""
    place = Place(profile, 0, 0, 0, 0, origin, own_name)
    return _hash_name(place, "", f"{profile}\n{origin}\n{own_name}", digest_chars, max_name)


@lru_cache(1024)
def domain_of(origin: str) -> str:
    """Return the host, plus the port if it is not the scheme's default: `localhost_3000`."""
    return _replace_unsafe(origins.format_domain(origin))


def _replace_unsafe(text: str) -> str:
    return _UNSAFE.sub("_", text)


def _plain_name(place: Place, max_name: int) -> str:
    return _shorten_name(place, f"tab{place.ordinal}", max_name)


def _unmarked_name(place: Place, max_name: int) -> str:
    return _plain_name(msgspec.structs.replace(place, mark=""), max_name)


def _shorten_name(place: Place, tab: str, max_name: int) -> str:
    parts = (domain_of(place.origin), place.mark, tab, _replace_unsafe(place.own_name))
    for prefix in (PREFIX, SHORT_PREFIX):
        whole = _join_parts(prefix, *parts)
        if len(whole) <= max_name:
            return whole
    return _hash_name(place, tab, f"{place.mark}{place.origin}", DIGEST_CHARS[0], max_name)


def _distinguish(place: Place, digest_chars: int, max_name: int) -> str:
    identity = f"{place.profile}\n{place.tab_id}\n{place.frame_id}\n{place.origin}"
    if _replace_unsafe(place.own_name) != place.own_name:  # another tool of that frame may look the same
        identity += f"\n{place.own_name}"
    if digest_chars > DIGEST_CHARS[0]:
        # Only where that is not enough, for a copied profile: the browser's pid changes with each start.
        identity += f"\n{place.browser_pid}\n{place.own_name}"
    return _hash_name(place, f"tab{place.ordinal}", identity, digest_chars, max_name)


def _hash_name(place: Place, tab: str, identity: str, digest_chars: int, max_name: int) -> str:
    """Return the name with a hash of `identity` behind the domain, equal for all tools of a frame.

    The domain is shortened first: the tool's own name says most.
    """
    domain, own_name = domain_of(place.origin), _replace_unsafe(place.own_name)
    if len(_join_parts(PREFIX, domain, "x" * digest_chars, tab, own_name)) <= max_name:
        return _join_parts(PREFIX, domain, _digest(identity, digest_chars), tab, own_name)
    kept = own_name[:WHOLE_TOOL]
    if len(_join_parts(SHORT_PREFIX, "x" * digest_chars, tab, kept)) > max_name:
        identity, tab = f"{identity}\n{tab}", ""
    room = max_name - len(_join_parts(SHORT_PREFIX, "x" * digest_chars, tab)) - len("_")
    kept = kept[: max(0, room)]
    if kept != own_name:
        identity += f"\n{place.own_name}"
    shown = _shorten_domain(domain, room - len(kept) - len("_"))
    return _join_parts(SHORT_PREFIX, shown, _digest(identity, digest_chars), tab, kept)[:max_name]


def _shorten_domain(domain: str, room: int) -> str:
    """Return the beginning of a domain, with its port if that leaves enough; empty if there is no room."""
    if room < _MIN_DOMAIN:
        return ""
    host, _, port = domain.rpartition("_")
    of_host = room - len(port) - len("_")
    if host and port.isdigit() and of_host >= _MIN_DOMAIN:
        return f"{host[:of_host]}_{port}"
    return domain[:room]


def _digest(identity: str, digest_chars: int) -> str:
    return hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:digest_chars]


def _join_parts(*parts: str) -> str:
    return "_".join(filter(None, parts))


def _remove_from(index: dict[str, dict[Place, None]], name: str, place: Place) -> None:
    del index[name][place]
    if not index[name]:
        del index[name]


def _find_clashes(names: Iterable[str]) -> list[int]:
    where: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        where[name].append(index)
    return [index for indexes in where.values() if len(indexes) > 1 for index in indexes]


# ── Marks of profiles ───────────────────────────────────────────────────────────────────────────────────────


class ProfileRow(msgspec.Struct, frozen=True):
    """A profile that was met, in the order of all of them."""

    id: str
    is_marked: bool = msgspec.field(default=False, name="marked")


def meet_profiles(known: Sequence[ProfileRow], present: Iterable[str]) -> list[ProfileRow]:
    """Return the profiles after these were met at once: of the unmarked among them, the first stays so."""
    ids = {row.id for row in known}
    rows = [*known, *(ProfileRow(profile) for profile in dict.fromkeys(present) if profile not in ids)]
    among = set(present)
    unmarked = [row.id for row in rows if row.id in among and not row.is_marked]
    return [ProfileRow(row.id, row.is_marked or row.id in unmarked[1:]) for row in rows]


class ProfileMarks:
    """Marks of the profiles that one hub knows of.

    A profile gets its mark when it is met beside an unmarked earlier one, and keeps it: names do not depend
    on the profiles and tabs that are open.
    """

    def __init__(self, rows: Iterable[ProfileRow] = ()) -> None:
        self.rows: Sequence[ProfileRow] = ()
        self.version = 0
        """Changes with the marks."""
        self._marked: set[str] = set()
        self._met: tuple[str, ...] = ()
        self.set_rows(rows)

    def mark_of(self, profile: str) -> str:
        """Return the mark of a profile; empty for the first one."""
        return _digest(profile, DIGEST_CHARS[0]) if profile in self._marked else ""

    def meet(self, present: tuple[str, ...]) -> None:
        """Note the profiles that are connected at once, the earliest first."""
        if present != self._met:
            self.set_rows(meet_profiles(self.rows, present))
            self._met = present

    def set_rows(self, rows: Iterable[ProfileRow]) -> None:
        """Replace all rows, for instance by those that are stored."""
        self.rows, self._met = tuple(rows), ()
        marked = {row.id for row in self.rows if row.is_marked}
        if marked != self._marked:
            self._marked = marked
            self.version += 1
