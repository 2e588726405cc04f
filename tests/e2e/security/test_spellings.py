"""Generated spellings of addresses, compared with the browser's own `URL` (F5)."""

from __future__ import annotations

import json
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.origins import OriginError, canonicalize, parse_address
from tool_browser import Browsing

COUNT = 1000
BANK = "http://bank.localhost:8123"
ALLOWED = "http://evil.localhost:8123"

_scheme = st.sampled_from(["http:", "HTTP:", "hTTp:", "ht\ttp:", "https:", " http:", "\x00http:", "http\n:"])
_slashes = st.text(alphabet="/\\", max_size=4)
_userinfo = st.sampled_from(
    ["", "", "", "me@", "evil.localhost@", "a:b@", "a%40@", "@", "a@b@", "evil.localhost:80@"]
)
_port = st.sampled_from([":8123", ":8123", ":08123", ":00008123", "", ":", ":99999", ":81\t23", ":8123x"])
_end = st.sampled_from(["", "/", "\\@evil.localhost/", "?@evil.localhost", "#@evil.localhost", "/%2e", "\\"])
_LOOKALIKES = {"a": "\uff41", "b": "\U0001d41b", "k": "\u212a", "s": "\u017f", ".": "\u3002", "l": "\u2113"}
_INSERTED = ["\u00ad", "\u200b", "\u2060", "\ufe0f", "\t", "\n", "\u200d", "\u0301"]


@st.composite
def _host(draw: st.DrawFn) -> str:
    """A host, character by character in one of its spellings."""
    host = draw(st.sampled_from(["bank.localhost", "bank.localhost", "bank.localhost.", "evil.localhost"]))
    chance = random.Random(draw(st.integers(0, 2**32)))
    spelled = ""
    for char in host:
        ways = [char, char, char, char, char.upper(), f"%{ord(char):02x}", _LOOKALIKES.get(char, char)]
        spelled += chance.choice(ways)
        if chance.random() < 0.03:
            spelled += chance.choice(_INSERTED)
    return spelled


def _spellings() -> list[str]:
    """The same in each run."""
    found: dict[str, None] = {}

    @settings(
        max_examples=2 * COUNT, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(st.tuples(_scheme, _slashes, _userinfo, _host(), _port, _end))
    def collect(parts: tuple[str, ...]) -> None:
        found["".join(parts)] = None

    collect()
    return list(found)[:COUNT]


def _parsed(url: str) -> tuple[str, str] | None:
    try:
        address = parse_address(url)
    except OriginError:
        return None
    return str(address.origin), address.url


def test_what_the_browser_would_request_is_what_is_judged(browsing: Browsing) -> None:
    urls = _spellings()
    assert len(urls) == COUNT
    ours = [_parsed(url) for url in urls]
    written = [found[1] if found else url for url, found in zip(urls, ours, strict=True)]
    page = browsing.browser.open("about:blank")
    read = "(urls) => urls.map((url) => URL.parse(url)?.origin ?? '')"
    theirs, sent = (page.evaluate(f"({read})({json.dumps(each)})") for each in (urls, written))
    rejected = []
    for url, found, browser, requested in zip(urls, ours, theirs, sent, strict=True):
        if found is None:
            rejected.append((url, browser))
            continue
        # What is judged is what is requested; and it is what the browser would have read.
        assert canonicalize(requested) == canonicalize(found[0]), ascii(url)
        assert browser in ("", found[0]), ascii(url)
    wrongly = [(url, browser) for url, browser in rejected if browser]
    assert all(not url.isascii() for url, _ in wrongly), ascii(wrongly)
    assert all("\u200d" in url or "\u0301" in url for url, _ in wrongly), ascii(wrongly)
    assert sum(canonicalize(origin) == BANK for origin in theirs) > COUNT / 10
    assert ALLOWED in theirs
