"""One transport of several ways to browsers: routing, events, sessions and problems."""

from __future__ import annotations

import msgspec

from bridge.errors import CallError
from bridge.hub.registry import GRACE_S, Registry
from bridge.hub.transport import (
    DiscoveryFinished,
    Event,
    HostAnnouncement,
    HostDiscovered,
    HostLinked,
    HostLost,
    Listener,
    TabAddress,
)
from bridge.links.browsers.composite_transport import CompositeTransport
from bridge.links.browsers.link_problem import LinkProblem
from bridge.links.browsers.native_profiles import NativeProfiles
from fake_transport import PlayedTransport, browser_hello, host_hello, one_page
from native_host.protocol import wire
from native_host.protocol.wire import Code

CART = one_page("getCart")


class Way(PlayedTransport):
    """A way to browsers: the test says what happens."""

    def __init__(self, **problems: str) -> None:
        super().__init__()
        self.problems = {place: LinkProblem(text, 0) for place, text in problems.items()}
        self.sessions: list[wire.Session] = []
        self.rules = ""
        self.say: Listener

    def set_listener(self, listener: Listener) -> None:
        self.say = listener

    def set_sessions(self, sessions: list[wire.Session]) -> None:
        self.sessions = sessions

    def set_rules(self, digest: str) -> None:
        self.rules = digest


def asked_hosts(way: Way) -> list[str]:
    return [asked.tab.host for asked in way.asked]


def test_a_request_goes_to_the_way_that_has_discovered_the_host() -> None:
    native, proxied = Way(), Way()
    links = CompositeTransport(native, proxied)
    answers: list[bytes | CallError] = []
    native.say(HostDiscovered("h1", 1.0))
    proxied.say(HostDiscovered("p1", 2.0, "https://proxy.example"))
    for host in ("p1", "h1"):
        links.send(TabAddress(host), "getTabs", wire.Asked(), 1, answers.append)
    assert (asked_hosts(native), asked_hosts(proxied)) == (["h1"], ["p1"])


def test_a_request_to_a_lost_host_fails_and_has_reached_nothing() -> None:
    native = Way()
    links = CompositeTransport(native)
    answers: list[bytes | CallError] = []
    native.say(HostDiscovered("h1", 1.0))
    native.say(HostLost("h1"))
    links.send(TabAddress("h1"), "getTabs", wire.Asked(), 1, answers.append)
    (error,) = answers
    assert isinstance(error, CallError)
    assert (error.code, error.handed, native.asked) == (Code.GONE, False, [])


def test_a_host_of_another_extension_is_no_reason_to_leave_a_browser_out() -> None:
    native = Way()
    profiles = NativeProfiles(native)
    native.say(HostDiscovered("h1", 1.0))
    channel = msgspec.structs.replace(
        browser_hello("p1"), capabilities=wire.Capabilities(tools=[msgspec.Raw(b"{}")])
    )
    native.say(HostAnnouncement("h1", "browser/hello", channel))
    assert (profiles.has("p1"), profiles.has("")) == (False, False)  # a proxied one is unknown at first


def test_discovery_has_finished_when_it_has_everywhere() -> None:
    native, proxied = Way(), Way()
    links, heard = CompositeTransport(native, proxied), list[Event]()
    links.set_listener(heard.append)
    native.say(DiscoveryFinished())
    assert heard == []
    proxied.say(DiscoveryFinished())
    assert heard == [DiscoveryFinished()]


def test_a_way_that_is_added_later_learns_the_sessions_and_the_rules() -> None:
    native, proxied = Way(), Way(proxy="it does not answer")
    links = CompositeTransport(native)
    session = wire.Session(id="s1", title="T", client=wire.ClientInfo(name="c"))
    links.set_sessions([session])
    links.set_rules("digest")
    links.add_part(proxied)
    assert (native.sessions, native.rules) == ([session], "digest")
    assert (proxied.sessions, proxied.rules) == ([session], "digest")
    assert [problem.text for problem in links.problems.values()] == ["it does not answer"]


# ── One browser, two ways ───────────────────────────────────────────────────────────────────────────────────


class Profiles:
    """A registry, and the events of one profile on both ways."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.now = 100.0

    def say(self, *events: Event) -> None:
        for event in events:
            self.registry.on_event(event, self.now)

    def link(self, host: str, started_at: float, pid: int, proxy: str = "") -> None:
        hello = host_hello(host)
        hello.browser_pid = pid
        self.say(HostDiscovered(host, started_at, proxy), HostLinked(host, hello))
        announced = [("browser/hello", browser_hello("p1")), ("browser/tabs", CART[0])]
        for method, message in [*announced, ("browser/updateTools", CART[1])]:
            self.say(HostAnnouncement(host, method, message))
        self.say(HostAnnouncement(host, "host/replayed", wire.HostReplayed()))

    @property
    def shown(self) -> list[tuple[str, bool]]:
        return [(browser.host, browser.is_live) for browser in self.registry.browsers()]

    @property
    def offered(self) -> list[str]:
        return [offer.tool.name for offer in self.registry.offers()]


def test_a_browser_that_loses_its_native_host_is_the_one_at_the_proxy() -> None:
    profiles = Profiles()
    profiles.link("native", 50.0, 4711)
    profiles.say(HostLost("native"))
    assert (profiles.shown, profiles.offered) == ([("native", False)], ["getCart"])
    profiles.link("proxied", 40.0, -7, "https://proxy.example")
    assert (profiles.shown, profiles.offered) == ([("proxied", True)], ["getCart"])


def test_a_native_host_that_was_started_earlier_takes_over_again() -> None:
    profiles = Profiles()
    profiles.link("proxied", 60.0, -7, "https://proxy.example")
    profiles.link("native", 50.0, 4711)
    assert profiles.shown == [("native", True)]
    profiles.say(HostLost("proxied"))
    assert (profiles.shown, profiles.offered) == ([("native", True)], ["getCart"])
    profiles.now += GRACE_S
    profiles.registry.expire_lost(profiles.now)
    assert (profiles.shown, profiles.offered) == ([("native", True)], ["getCart"])
