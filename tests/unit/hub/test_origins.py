"""Origins: spelled as browsers spell them, and compared."""

from __future__ import annotations

import json
import subprocess
from shutil import which

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.origins import (
    OriginError,
    canonicalize,
    format_domain,
    get_web_origin,
    parse_address,
    parse_origin,
)

SPELLED = {
    "https://shop.example": "https://shop.example",
    "https://Shop.Example/": "https://shop.example",
    "HTTPS://shop.example:443/cart?x": "https://shop.example",
    "https://me:pw@shop.example": "https://shop.example",
    "https://bank.example:0443": "https://bank.example",
    "http://bank.example:443": "http://bank.example:443",
    "https://bank.example:": "https://bank.example",
    "http://localhost:3000": "http://localhost:3000",
    "https://bank.example.": "https://bank.example.",
    "https://a_b.-c.example": "https://a_b.-c.example",
    "https://b\u00fccher.example": "https://xn--bcher-kva.example",
    "https://B\u00dcCHER.example": "https://xn--bcher-kva.example",
    "https://bu\u0308cher.example": "https://xn--bcher-kva.example",
    "http://[::1]:80/": "http://[::1]",
    "http://[0:0:0:0:0:0:0:1]:3000": "http://[::1]:3000",
    "http://[1:0:0:2:0:0:0:3]": "http://[1:0:0:2::3]",
    "http://[::FFFF:1.2.3.4]": "http://[::ffff:102:304]",
    "http://[::ffff:0:0]": "http://[::ffff:0:0]",
    "https://127.0.0.1": "https://127.0.0.1",
    "https://127.1": "https://127.0.0.1",
    "https://0x7f.0.0.1": "https://127.0.0.1",
    "https://0177.0.0.1.": "https://127.0.0.1",
    "https://2130706433": "https://127.0.0.1",
}
NO_ORIGINS = [
    "https://bank.example:99999",
    "https://bank.example:x",
    "https://[:::]",
    "https://[fe80::1%25eth0]",
    "https://bank.example[::1]",
    "https://[::1]bank.example",
    "https://1.2.3.4.5",
    "https://1..2",
    "https://256.0.0.1",
    "https://08",
    "https://4294967296",
    "https://any.127.0.0.1",
    "https://a b.example",
    "https://",
    "shop.example",
    "",
]


@pytest.mark.parametrize(("url", "origin"), SPELLED.items())
def test_an_origin_is_spelled_as_browsers_spell_it(url: str, origin: str) -> None:
    assert get_web_origin(url) == origin


@pytest.mark.parametrize("text", [*NO_ORIGINS, "ftp://shop.example", "chrome-extension://abc", "file://"])
def test_what_no_page_can_be_at_has_no_origin(text: str) -> None:
    assert get_web_origin(text) == ""
    assert canonicalize(text) == text
    with pytest.raises(OriginError):
        parse_origin(text)


PARSE_ALL = """
const origin = (url) => { try { return new URL(url).origin; } catch { return ""; } };
console.log(JSON.stringify(process.argv.slice(1).map(origin)));
"""


@pytest.mark.skipif(not which("node"), reason="no Node: see CONTRIBUTING.md")
def test_these_are_the_spellings_of_the_standard_that_browsers_follow() -> None:
    """Node parses URLs by it, too."""
    urls = [*SPELLED, *NO_ORIGINS]
    node = subprocess.run(["node", "-e", PARSE_ALL, "--", *urls], capture_output=True, check=True, timeout=60)
    assert dict(zip(urls, json.loads(node.stdout), strict=True)) == SPELLED | dict.fromkeys(NO_ORIGINS, "")


@pytest.mark.parametrize(
    "host",
    [
        "stra\u00dfe.example",
        "\u03b2\u03cc\u03bb\u03bf\u03c2.example",
        "a\u200db.example",
        "a\u2064b.example",
        "\u13a0b.example",
        "bank\u3002example",
        "\uff42ank.example",
    ],
    ids=ascii,
)
def test_a_name_that_browsers_may_spell_otherwise_is_to_be_copied_from_one(host: str) -> None:
    with pytest.raises(OriginError, match="address bar"):
        parse_origin(f"https://{host}")


def test_a_backslash_ends_the_host_as_in_browsers() -> None:
    assert get_web_origin("https://bank.example\\@evil.example") == "https://bank.example"


@pytest.mark.parametrize("text", ["https://a..b", "https://bank.example,shop.example", "https://."])
def test_a_host_that_nobody_has_is_a_slip_when_a_person_writes_it(text: str) -> None:
    with pytest.raises(OriginError, match="is no host"):
        parse_origin(text)


@pytest.mark.parametrize("port", ["", ":8443"])
@pytest.mark.parametrize("host", ["evil.example", "a+b.evil.example", "a..evil.example"])
def test_a_dot_behind_the_host_makes_no_other_site(host: str, port: str) -> None:
    assert (
        canonicalize(f"https://{host}.{port}")
        == canonicalize(f"https://{host}{port}")
        == f"https://{host}{port}"
    )


@pytest.mark.parametrize("origin", ["null", "file://", "chrome-extension://abc.", ""])
def test_an_origin_that_is_no_web_page_s_stays_as_it_is(origin: str) -> None:
    assert canonicalize(origin) == origin


@given(st.text(alphabet="abx.:[]-%@/\\\u00df\u00fc", max_size=20))
def test_the_canonical_form_of_a_canonical_form_is_itself(rest: str) -> None:
    once = canonicalize(f"https://{rest}")
    assert canonicalize(once) == once


def test_names_are_made_of_host_and_port() -> None:
    assert format_domain("http://localhost:3000") == "localhost_3000"
    assert format_domain("http://[::1]:8080") == "::1_8080"
    assert format_domain("https://shop.example") == format_domain("http://shop.example") == "shop.example"


BANK = "http://bank.localhost:8123"
SPELLINGS = [
    "http://bank.localhost:8123/",
    "HTTP://BANK.LOCALHOST:8123/",
    "http:bank.localhost:8123/",
    "http:/bank.localhost:8123/",
    "http:///bank.localhost:8123/",
    "http:////bank.localhost:8123/",
    "http:\\\\bank.localhost:8123/",
    "http:/\\bank.localhost:8123/",
    "http:\\/bank.localhost:8123/",
    "http://\\bank.localhost:8123/",
    "http://bank.localhost:8123\\account",
    "http://bank.localhost:8123\\@evil.localhost/",
    "http://bank.localhost:8123/@evil.localhost/",
    "http://bank.localhost:8123?@evil.localhost/",
    "http://bank.localhost:8123#@evil.localhost/",
    "http://evil.localhost@bank.localhost:8123/",
    "http://evil.localhost:80@bank.localhost:8123/",
    "http://evil.localhost%2F@bank.localhost:8123/",
    "http://evil@localhost@bank.localhost:8123/",
    "http://@bank.localhost:8123/",
    "http://:@bank.localhost:8123/",
    "http://bank.localhost:08123/",
    "http://bank.localhost:00000008123/",
    "http://bank%2Elocalhost:8123/",
    "http://b%61nk.localhost:8123/",
    "http://%62%61%6E%6B.localhost:8123/",
    "http://%EF%BD%82ank.localhost:8123/",
    "http://\uff42\uff41\uff4e\uff4b.localhost:8123/",
    "http://bank\u3002localhost:8123/",
    "http://bank\uff0elocalhost:8123/",
    "http://bank\uff61localhost:8123/",
    "http://ba\u00adnk.localhost:8123/",
    "http://ba\u200bnk.localhost:8123/",
    "http://ba\u2060nk.localhost:8123/",
    "http://bank.localho\u017ft:8123/",
    "http://ban\u212a.localhost:8123/",
    "http://\U0001d41bank.localhost:8123/",
    "ht\ntp://bank.localhost:8123/",
    "http://ba\tnk.localhost:8123/",
    "http://bank.local\r\nhost:8123/",
    "\x01\x00 http://bank.localhost:8123/",
    "http://bank.localhost.:8123/",
    "http://bank.localhost:8123",
]
"""Attack A05 of the security review: browsers request the bank for each of them."""


@pytest.mark.parametrize("url", SPELLINGS, ids=ascii)
def test_every_spelling_that_browsers_read_has_the_origin_of_the_site(url: str) -> None:
    address = parse_address(url)
    assert canonicalize(str(address.origin)) == BANK
    assert parse_address(address.url) == address


@pytest.mark.skipif(not which("node"), reason="no Node: see CONTRIBUTING.md")
def test_the_written_address_of_every_spelling_is_the_one_that_browsers_request() -> None:
    written = [parse_address(url).url for url in SPELLINGS]
    assert len(SPELLINGS) == 43
    for urls in (SPELLINGS, written):
        node = subprocess.run(
            ["node", "-e", PARSE_ALL, "--", *(url.replace("\0", "") for url in urls)],
            capture_output=True,
            check=True,
            timeout=20,
        )
        assert {canonicalize(origin) for origin in json.loads(node.stdout)} == {BANK}


@pytest.mark.parametrize("host", ["xn--bank-", "xn--bank-.localhost", "xn--\uff42"], ids=ascii)
def test_a_name_that_only_looks_international_is_rejected(host: str) -> None:
    with pytest.raises(OriginError):
        parse_address(f"https://{host}/")
