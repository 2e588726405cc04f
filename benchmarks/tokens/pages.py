# ruff: noqa: E501  (lines of HTML)
"""Six pages of the size of real ones, generated: the same at every run, and no copy of any site.

`SIZES` has the elements, links and characters of the pages that were measured first: a news front page, an
encyclopedia article, a portal's stream, a second news front page and a magazine. Each page here has at least as
many (tests/unit/support/test_bench_pages.py counts them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.tokens.prose import Prose


class Size(NamedTuple):
    """What a page has at least."""

    elements: int
    links: int
    characters: int
    """Of its texts, runs of white space as one."""


SIZES = {
    "news": Size(2038, 442, 14_251),
    "article": Size(2763, 848, 33_808),
    "shop": Size(2564, 193, 18_348),
    "mail": Size(1362, 268, 11_209),
    "form": Size(40, 2, 300),
    "dashboard": Size(1125, 154, 11_247),
}


def make_page(name: str, *, with_hidden: bool = True) -> str:
    """Return the HTML of a page of SIZES, or of its visible part."""
    prose = Prose(name)
    title, body = _PAGES[name](prose)
    if not with_hidden:
        body = re.sub(r"<(\w+) hidden>.*?</\1><!-- hidden -->", "", body, flags=re.DOTALL)
    style = "body{font:15px sans-serif;margin:0}.row{display:flex;gap:8px}svg{width:16px;height:16px}"
    head = f"<meta charset=utf-8><title>{title}</title><style>{style}</style>"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────

_ICON = '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 8h12M8 2v12"></path></svg>'


def _show_first(parts: Sequence[str], count: int, tag: str) -> str:
    """Return the first parts as they are, and the others in an element that the page shows later."""
    return f"{''.join(parts[:count])}<{tag} hidden>{''.join(parts[count:])}</{tag}><!-- hidden -->"


def _link(text: str, address: str = "") -> str:
    path = address or "/" + text.lower().replace(" ", "-")
    return f'<a href="{path}?ref=page&amp;position=4">{text}</a>'


def _menu(label: str, names: list[str]) -> str:
    items = "".join(f'<li class="item"><span>{_link(name)}</span></li>' for name in names)
    return f'<nav aria-label="{label}"><ul>{items}</ul></nav>'


def _header(site: str, prose: Prose, sections: int) -> str:
    menu = _menu("Sections", [prose.title() for _ in range(sections)])
    search = (
        '<form role="search" action="/search"><label for="q">Search</label>'
        '<input id="q" name="q" type="search"><button type="submit">Search</button></form>'
    )
    account = f'<div class="row"><button>{_ICON}<span>Menu</span></button>{_link("Sign in")}</div>'
    return f"<header><div><div><h2>{_link(site, '/')}</h2></div>{account}</div>{search}{menu}</header>"


def _footer(prose: Prose, groups: int, links: int) -> str:
    columns = "".join(
        f"<section><h2>{prose.title()}</h2>{_menu('More', [prose.title() for _ in range(links)])}</section>"
        for _ in range(groups)
    )
    return f"<footer><div>{columns}</div><p>{prose.sentence()}</p></footer>"


# ── Pages ───────────────────────────────────────────────────────────────────────────────────────────────────


def _news(prose: Prose) -> tuple[str, str]:
    def story(number: int) -> str:
        headline = prose.headline()
        summary = f"<p><span>{prose.sentence()}</span></p>" if number < 4 else ""
        return (
            f'<article class="story"><div><figure><div><img src="/pictures/{prose.number(1, 9999)}.jpg" '
            f'alt="" width=160 height=90></div></figure><div><h3><span>{_link(headline)}</span></h3>'
            f"{summary}<div class=row><span>By {_link(prose.name())}</span><time>"
            f"{prose.number(2, 55)} minutes ago</time>{_link(f'{prose.number(3, 900)} comments', '/talk')}"
            "</div></div></div></article>"
        )

    blocks = [
        f"<section><div><div><h2>{_link(prose.title())}</h2></div><div>{''.join(map(story, range(10)))}"
        "</div></div></section>"
        for _ in range(9)
    ]
    short = "".join(f"<li><div><span>{_link(prose.headline())}</span></div></li>" for _ in range(60))
    aside = f"<aside><h2>Most read</h2><ol>{short}</ol></aside>"
    body = f"{_header('The Daily Ledger', prose, 30)}<main>{_show_first(blocks, 3, 'div')}{aside}</main>{_footer(prose, 8, 12)}"
    return "The Daily Ledger", body


def _article(prose: Prose) -> tuple[str, str]:
    def linked(sentences: int) -> str:
        parts = []
        for _ in range(sentences):
            text = f"{prose.sentence()[:-1]}, as {_link(prose.title(), '/wiki/x')} shows"
            number = prose.number(1, 180)
            parts.append(
                f'{text}<sup><a href="#cite-{number}"><span>[</span>{number}<span>]</span></a></sup>.'
            )
        return f"<p>{' '.join(parts)}</p>"

    sections = "".join(
        f'<div><h2 id="s{number}">{prose.title()}</h2><span>[{_link("edit", "/edit")}]</span></div>'
        + "".join(linked(4) for _ in range(3))
        for number in range(9)
    )
    rows = "".join(
        f"<tr><th scope=row>{prose.title()}</th><td>{_link(prose.title())}</td><td>{prose.number(1, 999)}</td></tr>"
        for _ in range(40)
    )
    notes = "".join(
        f'<li id="cite-{number}"><span><b><a href="#back-{number}">^</a></b></span> <cite>{prose.name()} '
        f"({prose.number(1890, 2024)}). {_link(prose.title(), 'https://library.example/b')}. <i>{prose.title()}</i>."
        f"</cite> <span>Retrieved {prose.number(1, 28)} May.</span></li>"
        for number in range(1, 181)
    )
    contents = _menu("Contents", [prose.title() for _ in range(28)])
    languages = _menu("Languages", [prose.name() for _ in range(90)])
    related = _menu("Related", [prose.title() for _ in range(34)])
    body = (
        f"{_header('Open Compendium', prose, 24)}{contents}<main><h1>Harbour lighthouse</h1>{linked(5)}"
        f"<table><caption>Figures</caption><tbody>{rows}</tbody></table>{sections}<h2>References</h2>"
        f"<ol>{notes}</ol>{related}</main>{languages}{_footer(prose, 4, 10)}"
    )
    return "Harbour lighthouse", body


def _shop(prose: Prose) -> tuple[str, str]:
    def product(number: int) -> str:
        name = f"{prose.title()} {prose.number(100, 990)}"
        return (
            f'<li class="card"><div><div><div><img src="/p/{number}.jpg" alt="{name}" width=120 height=120></div>'
            f"<button aria-label='Save'>{_ICON}</button></div><div><h3>{_link(name)}</h3><div><div class=row>"
            f"<span>{prose.number(1, 5)} stars</span><span>({prose.number(2, 900)})</span></div><div><span>"
            f"<u>{prose.number(5, 300)}.99 EUR</u></span></div></div><p><span>{prose.sentence()}</span></p><div>"
            f"<span>Delivery {prose.choose('tomorrow', 'on Friday', 'in a week')}</span></div><div>"
            f"<button><span>Add to cart</span></button></div></div></div></li>"
        )

    filters = "".join(
        f"<fieldset><legend>{prose.title()}</legend>"
        + "".join(
            f'<div><label><input type="checkbox" name="f{group}"><span>{prose.title()}</span></label></div>'
            for _ in range(6)
        )
        + "</fieldset>"
        for group in range(8)
    )
    sort = (
        "<label>Sort by<select><option>Relevance</option><option>Price, low to high</option>"
        "<option>Price, high to low</option><option>Newest</option></select></label>"
    )
    pages = _menu("Pages", [str(number) for number in range(1, 12)])
    cards = [product(number) for number in range(86)]
    body = (
        f"{_header('Lamplight Store', prose, 26)}<main><h1>Results for “lamp”</h1><div class=row><aside>{filters}"
        f"</aside><div>{sort}<ul>{_show_first(cards, 8, 'ul')}</ul>{pages}</div></div></main>{_footer(prose, 6, 12)}"
    )
    return "Results for “lamp”", body


def _mail(prose: Prose) -> tuple[str, str]:
    def message(number: int) -> str:
        subject = prose.headline()
        return (
            f'<tr><td><input type="checkbox" aria-label="Select {number}"></td><td><button aria-label="Star">{_ICON}'
            f"</button></td><td><span>{_link(prose.name(), '/people')}</span></td><td><div><div>"
            f"{_link(subject, '/message')}</div><span>{prose.sentence()}</span></div></td>"
            f"<td><time>{prose.number(1, 28)} May</time></td></tr>"
        )

    folders = _menu("Folders", [prose.title() for _ in range(40)])
    labels = _menu("Labels", [prose.title() for _ in range(30)])
    tools = "".join(
        f"<button>{_ICON}<span>{name}</span></button>"
        for name in ("Write", "Archive", "Delete", "Report", "Mark as read", "Move", "Older", "Newer")
    )
    rows = [message(number) for number in range(62)]
    body = (
        f"{_header('Post Office', prose, 14)}<div class=row><div>{folders}{labels}</div><main><h1>Inbox</h1>"
        f"<div role=toolbar aria-label=Messages>{tools}</div><table>{_show_first(rows, 19, 'tbody')}</table></main></div>"
        f"{_footer(prose, 4, 16)}"
    )
    return "Inbox", body


def _form(_prose: Prose) -> tuple[str, str]:
    texts = ("Full name", "Email", "Street", "Postal code", "City", "Phone", "Company", "VAT number")
    inputs = "".join(
        f'<div><label for="i{number}">{label}</label><input id="i{number}" name="i{number}"></div>'
        for number, label in enumerate(texts)
    )
    countries = "".join(f"<option>{name}</option>" for name in ("Austria", "Denmark", "Germany", "Sweden"))
    radios = "".join(
        f'<label><input type="radio" name="ship"> {name}</label>'
        for name in ("Standard", "Express", "Pick up")
    )
    boxes = "".join(
        f'<div><label><input type="checkbox"> {name}</label></div>'
        for name in ("Gift wrapping", "Send me the newsletter", "I accept the terms")
    )
    body = (
        f"<header>{_link('Lamplight Store', '/')}</header><main><h1>Checkout</h1><form><fieldset><legend>Address"
        f"</legend>{inputs}<label>Country<select>{countries}</select></label></fieldset><fieldset><legend>Delivery"
        f"</legend>{radios}<label>Date<input type=date></label><label>Note<textarea></textarea></label></fieldset>"
        f"{boxes}<p>Total: 47.80 EUR, with {_link('delivery', '/delivery')} and taxes. You can return everything "
        "within thirty days, and we pay for the parcel.</p><button type=submit>Place the order</button></form></main>"
    )
    return "Checkout", body


def _dashboard(prose: Prose) -> tuple[str, str]:
    def tile() -> str:
        return (
            f"<section><div><div><h2>{prose.title()}</h2><button aria-label='Options'>{_ICON}</button></div><div><p>"
            f"<b>{prose.number(10, 9999)}</b></p><p><span>{prose.sentence()}</span></p></div>"
            f"<div>{_link('Details')}</div></div></section>"
        )

    def row() -> str:
        cells = "".join(f"<td>{prose.number(0, 9999)}</td>" for _ in range(4))
        state = prose.choose("Running", "Waiting", "Failed", "Paused")
        return (
            f"<tr><th scope=row>{_link(prose.title())}</th><td><span>{state}</span></td>{cells}"
            f"<td>{prose.name()}</td><td><button>Restart</button></td></tr>"
        )

    heads = "".join(
        f"<th scope=col><button>{name}</button></th>"
        for name in ("Job", "State", "Runs", "Errors", "Seconds", "Queue", "Owner", "Action")
    )
    events = [
        f"<li><time>{prose.number(10, 23)}:{prose.number(10, 59)}</time> <span>{prose.sentence()}</span></li>"
        for _ in range(50)
    ]
    tiles = "".join(tile() for _ in range(16))
    rows = [row() for _ in range(60)]
    body = (
        f"{_header('Control Room', prose, 30)}<main><h1>Overview</h1><div class=row>{tiles}</div><h2>Jobs</h2>"
        f"<table><thead><tr>{heads}</tr></thead>{_show_first(rows, 16, 'tbody')}</table><h2>Events</h2><ul>{_show_first(events, 10, 'ul')}</ul></main>"
        f"{_footer(prose, 4, 12)}"
    )
    return "Overview", body


_PAGES: dict[str, Callable[[Prose], tuple[str, str]]] = {
    "news": _news,
    "article": _article,
    "shop": _shop,
    "mail": _mail,
    "form": _form,
    "dashboard": _dashboard,
}
