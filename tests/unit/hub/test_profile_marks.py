"""Names of two profiles: the first keeps plain names, the second has a mark that depends on nothing else."""

from collections.abc import Iterable

import msgspec
import pytest
import trio

from bridge.errors import CallError, UnknownToolError
from bridge.hub.cached_tools import CachedToolRow, NoToolStore
from bridge.hub.client_session import Session
from bridge.hub.page_tool import read_tools
from bridge.hub.public_names import ProfileMarks, ProfileRow, meet_profiles
from bridge.hub.router import Router
from bridge.hub.transport import DiscoveryFinished, HostDiscovered, HostLinked, HostLost
from fake_transport import PlayedTransport, browser_hello, host_hello, one_page, tab, tools
from native_host.protocol import wire
from native_host.protocol.wire import Code

PLAIN = "website_tool_shop_example_tab1_getCart"
MARKED = "web_shop_example_4ea140_tab1_getCart"
"""4ea140: the beginning of SHA-256 of `home`. The short prefix is for names of at most 44 characters."""


class TwoProfiles:
    """A hub, and browsers with the profiles `work` and `home`."""

    def __init__(self, marks: Iterable[ProfileRow] = (), *, store: NoToolStore | None = None) -> None:
        self.transport = PlayedTransport()
        self.router = Router(self.transport, profiles=ProfileMarks(marks), store=store)
        self.transport.happen(DiscoveryFinished())

    def connect(self, host: str, profile: str, *said: wire.Wire, pid: int = 1, started_at: float = 1) -> None:
        self.transport.happen(HostDiscovered(host, started_at), HostLinked(host, host_hello(host, pid)))
        self.transport.announce(host, browser_hello(profile, profile.title()), *said, wire.HostReplayed())

    def names(self) -> list[str]:
        return [entry.name for entry in self.router.catalog.all_entries()]

    def refusal(self, name: str, session: str = "new") -> CallError:
        with pytest.raises(CallError) as caught:
            self.router.catalog.find_entry(Session(session), name)
        return caught.value


@pytest.mark.parametrize(
    ("known", "present", "after"),
    [
        ("", "a", "a"),
        ("a", "ab", "a b*"),
        ("a", "b", "a b"),
        ("a b", "ba", "a b*"),
        ("a b*", "b", "a b*"),
        ("a b*", "bc", "a b* c"),
        ("a b* c", "bca", "a b* c*"),
        ("", "", ""),
    ],
)
def test_a_profile_is_marked_when_it_is_met_beside_an_unmarked_earlier_one(
    known: str, present: str, after: str
) -> None:
    def rows(text: str) -> list[ProfileRow]:
        return [ProfileRow(each[0], each.endswith("*")) for each in text.split()]

    assert meet_profiles(rows(known), present) == rows(after)


async def test_the_first_profile_keeps_its_names_when_a_second_opens_the_same_site() -> None:
    both = TwoProfiles()
    both.connect("h1", "work", *one_page("getCart"))
    assert both.names() == [PLAIN]
    both.connect("h2", "home", *one_page("getCart"), pid=2, started_at=2)
    assert both.names() == [PLAIN, MARKED]


async def test_a_mark_does_not_depend_on_what_is_open() -> None:
    both = TwoProfiles()
    both.connect("h1", "work")
    both.connect("h2", "home", *one_page("getCart"), pid=2, started_at=2)
    assert both.names() == [MARKED]
    both.transport.announce("h1", *one_page("getCart"))
    assert both.names() == [PLAIN, MARKED]
    both.transport.announce("h2", wire.TabRemoved(tab_id=1), wire.TabChanged(tab=tab(8)), tools(8, "getCart"))
    assert both.names() == [PLAIN, MARKED]


async def test_names_are_the_same_for_a_bridge_that_starts_later_and_after_a_restart_of_the_browser() -> None:
    stored = [ProfileRow("work"), ProfileRow("home", is_marked=True)]
    alone = TwoProfiles(stored)
    alone.connect("h5", "home", *one_page("getCart"), pid=77)
    assert alone.names() == [MARKED]
    alone.connect("h6", "work", *one_page("getCart"), pid=78, started_at=9)
    assert alone.names() == [MARKED, PLAIN]


async def test_a_profile_that_replaces_an_earlier_one_has_plain_names() -> None:
    """The extension was installed anew: the profile before will never come back."""
    anew = TwoProfiles([ProfileRow("before")])
    anew.connect("h1", "work", *one_page("getCart"))
    assert anew.names() == [PLAIN]


async def test_of_two_new_profiles_the_one_that_connected_first_is_plain_whatever_is_heard_first() -> None:
    transport = PlayedTransport()
    router = Router(transport)
    for host, profile, started_at in (("h2", "home", 2.0), ("h1", "work", 1.0)):
        transport.happen(HostDiscovered(host, started_at), HostLinked(host, host_hello(host, len(host))))
        transport.announce(host, browser_hello(profile), *one_page("getCart"), wire.HostReplayed())
    transport.happen(DiscoveryFinished())
    assert sorted(entry.name for entry in router.catalog.all_entries()) == sorted([PLAIN, MARKED])


async def test_a_plain_name_whose_tool_is_gone_is_answered_with_the_candidates() -> None:
    both = TwoProfiles()
    both.connect("h1", "work", *one_page("getCart"))
    both.connect("h2", "home", *one_page("getCart"), pid=2, started_at=2)
    both.transport.announce("h1", wire.TabRemoved(tab_id=1))
    error = both.refusal(PLAIN)
    assert (error.code, error.handed) == (Code.INVALID_PARAMS, False)
    assert f"{MARKED} (https://shop.example in Home)" in error.detail


async def test_a_plain_name_is_unknown_and_not_ambiguous_while_its_page_is_reloading() -> None:
    """The call waits for that page then: `test_reloads.py`."""
    both = TwoProfiles()
    page = msgspec.structs.replace(tools(1, "getCart"), url="https://shop.example/")
    both.connect("h1", "work", wire.Tabs(tabs=[tab(1)]), page)
    both.connect("h2", "home", *one_page("getCart"), pid=2, started_at=2)
    both.transport.announce("h1", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
    with pytest.raises(UnknownToolError):
        both.router.catalog.find_entry(Session("new"), PLAIN)
    assert both.router.catalog.reloading_until(Session("new"), PLAIN) is not None


@pytest.mark.parametrize("name", [MARKED, "website_tool_shop_example_getCart"], ids=["by tab", "by site"])
async def test_a_page_of_a_marked_profile_is_waited_for_while_it_is_reloading(name: str) -> None:
    both = TwoProfiles([ProfileRow("work"), ProfileRow("home", is_marked=True)])
    page = msgspec.structs.replace(tools(1, "getCart"), url="https://shop.example/")
    both.connect("h2", "home", wire.Tabs(tabs=[tab(1)]), page)
    both.transport.announce("h2", wire.FrameAddress(tab_id=1, frame_id=0, document_id="d1"))
    assert both.router.catalog.reloading_until(Session("new"), name) is not None


async def test_a_copied_profile_in_two_browsers_makes_the_plain_name_ambiguous() -> None:
    both = TwoProfiles()
    both.connect("h1", "work", *one_page("getCart"), pid=1)
    both.connect("h2", "work", *one_page("getCart"), pid=2, started_at=2)
    first, second = both.names()
    assert PLAIN not in (first, second)
    assert first != second
    detail = both.refusal(PLAIN).detail
    assert f"{first} (" in detail
    assert f"{second} (" in detail


async def test_a_name_that_nothing_resembles_stays_unknown() -> None:
    both = TwoProfiles()
    both.connect("h1", "work", *one_page("getCart"))
    with pytest.raises(UnknownToolError):
        both.router.catalog.find_entry(Session("new"), "website_tool_shop_example_tab2_getCart")


async def test_a_session_goes_on_with_the_name_that_it_was_shown_before_the_mark() -> None:
    both = TwoProfiles([ProfileRow("work")])
    both.connect("h2", "home", *one_page("getCart"), pid=2)
    assert both.names() == [PLAIN]
    session = Session("ours")
    session.bind_names(both.router.catalog.all_bindings())
    both.connect("h1", "work", *one_page("getCart"), pid=1, started_at=5)
    entry = both.router.catalog.find_entry(session, PLAIN)
    assert (entry.name, entry.site.profile) == (MARKED, "home")


async def test_names_stay_while_a_browser_is_restarted() -> None:
    both = TwoProfiles()
    both.connect("h1", "work", *one_page("getCart"))
    both.connect("h2", "home", *one_page("getCart"), pid=2, started_at=2)
    both.transport.happen(HostLost("h1"))
    both.router.registry.expire_lost(trio.current_time() + 60)
    assert both.names() == [MARKED]
    both.connect("h3", "work", *one_page("getCart"), pid=3, started_at=8)
    assert sorted(both.names()) == sorted([PLAIN, MARKED])


class Kept(NoToolStore):
    """Tools of both profiles that outlive their page."""

    def tools(self) -> list[CachedToolRow]:
        (tool,) = read_tools(tools(1, "getCart"))
        site = "https://shop.example"
        return [CachedToolRow(profile, site, f"{site}/", tool) for profile in ("work", "home")]


async def test_cached_tools_have_the_names_of_their_profile_whether_it_is_there_or_not() -> None:
    both = TwoProfiles([ProfileRow("work"), ProfileRow("home", is_marked=True)], store=Kept())
    assert both.names() == ["website_tool_shop_example_getCart", "website_tool_shop_example_4ea140_getCart"]
    both.connect("h2", "home", pid=2)
    assert both.names() == ["website_tool_shop_example_getCart", "website_tool_shop_example_4ea140_getCart"]
