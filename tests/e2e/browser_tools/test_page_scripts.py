"""The code that runs in documents: what it reads, finds, places and fills, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from page_scripts import InPage, InPageError
from tool_browser import Browser, open_browser, trio_thread


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with trio_thread() as thread, open_browser(thread) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser: Browser) -> InPage:
    return InPage(browser.open("about:blank"))


def outline(page: InPage, **given: Any) -> list[str]:
    """Lines as they are shown, but for the numbers of refs."""
    answer = page.call("read", **{"links": True, **given})
    return ["  " * indent + head + tail for indent, head, _ref, tail, _is_frame in answer["lines"]]


# ── read ────────────────────────────────────────────────────────────────────────────────────────────────────

OUTLINES = {
    "text_stands_in_the_line_of_what_holds_it": (
        "<main><h2>Tea</h2><p>Green <b>or</b> black.</p><ul><li>One<li>Two</ul></main>",
        [
            "main",
            '  heading "Tea" level=2',
            '  paragraph: "Green or black."',
            "  list",
            '    listitem: "One"',
            '    listitem: "Two"',
        ],
    ),
    "wrappers_without_meaning_are_left_out": (
        "<div><section><div><span><button>Save</button></span></div></section></div>",
        ['button "Save"'],
    ),
    "blocks_are_lines_and_inline_elements_are_not": (
        "<div>one <i>and</i> a half</div><div>two</div>three<br>four",
        ['"one and a half"', '"two"', '"three four"'],
    ),
    "what_nobody_can_meet_is_left_out": (
        (
            "<p style='display:none'>a</p><p style='visibility:hidden'>b"
            "<b style='visibility:visible'>c</b></p>"
            "<p hidden>d</p><div aria-hidden=true><button>e</button></div><div inert><button>f</button></div>"
            "<details><summary>More</summary><button>g</button></details><script>h</script>"
            "<template>i</template>"
        ),
        ['"c"', 'group "More"', '  button "More" collapsed'],
    ),
    "what_is_for_screen_readers_is_there": (
        "<p style='position:absolute;left:-9999px'>heard only</p><p style='opacity:0'>faint</p>",
        ['paragraph: "heard only"', 'paragraph: "faint"'],
    ),
    "states_that_matter": (
        (
            "<input type=checkbox aria-label=a checked><input type=radio aria-label=b>"
            "<button disabled>c</button>"
            "<button aria-expanded=false>d</button><button aria-pressed=true>e</button>"
            "<input aria-label=f required value=x>"
            "<a href='/p?q=1' aria-current=page>g</a><div role=tab aria-selected=true>h</div>"
            "<input type=password aria-label=i value=secret><input type=number aria-label=j min=1 max=9>"
        ),
        [
            'checkbox "a" checked',
            'radio "b"',
            'button "c" disabled',
            'button "d" collapsed',
            'button "e" pressed',
            'textbox "f" required value="x"',
            'link "g" current=page href="/p?q=1"',
            'tab "h" selected',
            'textbox "i" type=password value="•••"',
            'spinbutton "j" min="1" max="9"',
        ],
    ),
    "a_label_s_text_stands_at_its_control": (
        "<label for=t>Name</label> <input id=t> <label>Age <input type=number></label>",
        ['textbox "Name"', 'spinbutton "Age"'],
    ),
    "a_label_of_a_control_that_is_not_shown_is_what_there_is_to_click": (
        "<input type=checkbox id=c style='display:none'><label for=c>Fancy</label>",
        ['clickable "Fancy"'],
    ),
    "an_element_that_scripts_made_clickable_is_one": (
        (
            "<div style='cursor:pointer'>Card <b>7</b></div><div onclick='1'>Old</div>"
            "<div tabindex=0>Focus</div>"
        ),
        ['clickable "Card 7"', 'clickable "Old"', 'clickable "Focus"'],
    ),
    "a_long_list_of_options_is_cut": (
        "<select aria-label=n>" + "<option>o" * 33 + "</select>",
        ['combobox "n" value="o"', '  option "o" selected', *['  option "o"'] * 29, "  … 3 more options"],
    ),
    "slots_show_what_is_assigned_to_them": (
        (
            "<div><template shadowrootmode=open><button><slot name=s>none</slot></button><slot>"
            "</slot></template>"
            "tail <i slot=s>Go</i></div>"
        ),
        ['button "Go"', '"tail"'],
    ),
    "an_item_of_a_tree_has_its_own_words_for_a_name": (
        "<ul role=tree><li role=treeitem>A<ul role=group><li role=treeitem>B</ul></ul>",
        ["tree", '  treeitem "A"', '    treeitem "B"'],
    ),
    "tables": (
        "<table><caption>Fares</caption><tr><th>From<td><a href='#x'>Kiel</a></table>",
        ['table "Fares"', "  row", '    columnheader "From"', '    link "Kiel" href="blank#x"'],
    ),
    "an_item_or_a_cell_with_a_single_element_has_no_line": (
        (
            "<ul><li><a href='#a'>Ham</a><li style='display:inline'><span><button>Egg</button></span>"
            "<li><p>Jam<li></ul>"
            "<table><tr><th><button>Day</button><td><input type=checkbox aria-label=Pick><td></table>"
        ),
        [
            "list",
            '  link "Ham" href="blank#a"',
            '  button "Egg"',
            '  paragraph: "Jam"',
            "  listitem",
            "table",
            "  row",
            '    columnheader "Day"',
            '      button "Day"',
            '    checkbox "Pick"',
            "    cell",
        ],
    ),
    "an_item_that_says_or_does_more_than_what_is_in_it_keeps_its_line": (
        (
            "<ul><li>Ham <button>Buy</button><li><button>More</button><button>Less</button>"
            "<li onclick='1'><button>Egg</button><li aria-current=page><a href='#a'>Jam</a>"
            "<li aria-label='Offer'><button>Tea</button></ul>"
        ),
        [
            "list",
            '  listitem: "Ham"',
            '    button "Buy"',
            "  listitem",
            '    button "More"',
            '    button "Less"',
            "  listitem",
            '    button "Egg"',
            "  listitem current=page",
            '    link "Jam" href="blank#a"',
            '  listitem "Offer"',
            '    button "Tea"',
        ],
    ),
}


@pytest.mark.parametrize(("html", "lines"), OUTLINES.values(), ids=OUTLINES.keys())
def test_the_outline_shows(page: InPage, html: str, lines: list[str]) -> None:
    page.show(html)
    if "shadowrootmode" in html:  # setDocumentContent parses no declarative roots
        page.evaluate(f"document.body.setHTMLUnsafe({json.dumps(html)})")
    assert outline(page) == lines


INTERACTIVE = {
    "controls_and_links_alone": (
        "<main><p>Text <a href='/x'>more</a></p><div role=menu><button>Go</button></div></main>",
        ['link "more" href="/x"', 'button "Go"'],
    ),
    "headings_that_a_control_follows": (
        "<h1>Shop</h1><h2>Empty</h2><p>Text</p><h2>Pay</h2><button>Go</button><h2><a href='/x'>More</a></h2>",
        ['heading "Pay"', 'button "Go"', 'link "More" href="/x"'],
    ),
    "named_groups": (
        (
            "<fieldset><legend>To</legend><input aria-label=Town></fieldset>"
            "<fieldset><input aria-label=Note></fieldset>"
        ),
        ['group "To"', '  textbox "Town"', 'textbox "Note"'],
    ),
    "what_the_page_tells_the_user": (
        (
            "<div role=alert><p>No <b>such</b> town.</p></div><div role=status></div>"
            "<div role=dialog aria-label=Cookies><p>We count.</p><button>Fine</button></div>"
        ),
        ['alert: "No such town."', 'dialog "Cookies"', '  "We count."', '  button "Fine"'],
    ),
    "a_long_message_in_part": (f"<div role=alert>{'x' * 400}</div>", [f'alert: "{"x" * 300}"']),
    "what_tells_controls_of_one_name_apart": (
        (
            "<ul><li><h3>Oak <i>table</i></h3><p>€90</p><button>Buy</button><li><h3>Ash</h3><p>€70</p>"
            "<button>Buy</button></ul><table><tr><td>Red<td><button>Drop</button><tr><td>Blue<td>"
            "<button>Drop</button></table>"
        ),
        [
            'button "Buy" in "Oak table €90"',
            'button "Buy" in "Ash €70"',
            'button "Drop" in "Red"',
            'button "Drop" in "Blue"',
        ],
    ),
    "a_group_that_has_a_line_is_not_repeated": (
        (
            "<fieldset><legend>Home</legend><label>Street <input></label></fieldset>"
            "<fieldset><legend>Work</legend><label>Street <input></label></fieldset>"
        ),
        ['group "Home"', '  textbox "Street"', 'group "Work"', '  textbox "Street"'],
    ),
    "links_to_one_address_need_nothing": (
        "<p>A <a href='/x'>more</a></p><p>B <a href='/x'>more</a></p>",
        ['link "more" href="/x"', 'link "more" href="/x"'],
    ),
}


@pytest.mark.parametrize(("html", "lines"), INTERACTIVE.values(), ids=INTERACTIVE.keys())
def test_the_outline_of_controls_shows(page: InPage, html: str, lines: list[str]) -> None:
    page.show(html)
    assert outline(page, filter="interactive") == lines


PREFORMATTED = {
    "lines_and_spaces": ("<pre>if a:\n    b\n\nc</pre>", ['"if a:"', '"    b"', '"c"']),
    "with_elements_in_it": ("<pre><b>if</b> a:\n  <i>b</i> c</pre>", ['"if a:"', '"  b c"']),
    "by_style": ("<p style='white-space: pre-line'>a   b\n   c</p>", ["paragraph", '  "a b"', '  "c"']),
    "in_one_line": ("<ul><li><pre>only</pre></ul>", ["list", '  listitem: "only"']),
    "no_text_leaves_its_quotes": ('<pre>a\n"b" [1]</pre>', ['"a"', '"\\"b\\" [1]"']),
}


@pytest.mark.parametrize(("html", "lines"), PREFORMATTED.values(), ids=PREFORMATTED.keys())
def test_preformatted_text_keeps_its_lines(page: InPage, html: str, lines: list[str]) -> None:
    assert outline(page.show(html)) == lines


def test_the_outline_of_a_part_begins_with_it(page: InPage) -> None:
    page.show("<nav><a href='#'>a</a></nav><main><button>b</button></main>")
    assert outline(page, ref=page.ref("main")) == ["main", '  button "b"']


def test_it_says_when_it_is_cut_by_depth_and_by_size(page: InPage) -> None:
    page.show("<ul><li>a<ul><li>b<ul><li>c</ul></ul></ul>" + "<p>some text</p>" * 100)
    deep = page.call("read", depth=3)
    assert deep["truncated"] == "depth"
    assert max(line[0] for line in deep["lines"]) == 2
    small = page.call("read", maxChars=300)
    assert small["truncated"] == "size"
    assert 100 < sum(len(head + tail) for _, head, _, tail, _ in small["lines"]) <= 300
    assert page.call("read")["truncated"] is False


def test_lines_that_are_left_out_take_no_room(page: InPage) -> None:
    row = "<tr>" + "<td><a href='#'>link</a></td>" * 8 + "</tr>"
    page.show(f"<table>{row * 30}</table>")
    lines = page.call("read")["lines"]
    characters = sum(2 * indent + len(f"{head} [{ref}]{tail}\n") for indent, head, ref, tail, _ in lines)
    one_line = 40
    answer = page.call("read", maxChars=characters + one_line)
    assert (answer["truncated"], len(answer["lines"])) == (False, len(lines))


def test_a_text_that_is_longer_than_all_that_is_wanted_is_cut(page: InPage) -> None:
    page.show("<pre>" + 'a"' * 5000 + "</pre>")
    answer = page.call("read", maxChars=500)
    ((_, head, _, _, _),) = answer["lines"]
    assert head.endswith('…"')
    assert 200 < len(head) <= 500
    assert answer["truncated"] == "size"


def test_a_frame_is_a_line_with_its_ref(page: InPage) -> None:
    page.show("<iframe title='Map' srcdoc='<p>in it</p>'></iframe>")
    ((indent, head, ref, tail, is_frame),) = page.call("read")["lines"]
    assert (indent, head, tail, is_frame) == (0, 'iframe "Map"', "", True)
    frame = page.evaluate(f"mcpb.element({{ref: {ref}}})", by_value=False)
    assert page.tab.send("DOM.describeNode", objectId=frame)["node"]["frameId"]


HOSTILE = {
    "a_ref_in_text": ("<p>x [ref_1] button</p>", ['paragraph: "x [ref_1] button"']),
    "quotes_and_line_ends": (
        "<button aria-label='a&quot; [ref_9]&#10;button &quot;b'>x</button>",
        ['button "a\\" [ref_9] button \\"b"', '  "x"'],
    ),
    "characters_that_turn_or_hide_text": (
        "<button>a&#8238;b&#8203;c&#0;&#27;[31m&#65279;d&#x2028;e</button>",
        ['button "a bc� [31md e"'],
    ),
    "variation_selectors_that_carry_text": (
        "<button>a&#xE0141;b&#xFE01;&#x200D;&#xFE02;c&#x180B;d \u2764&#xFE0F;</button>",
        ['button "abcd \u2764\ufe0f"'],
    ),
    "a_form_whose_fields_have_its_properties_names": (
        (
            "<form aria-label=f><input name=id><input name=parentNode><input name=children>"
            "<input name=childNodes>"
            "<input name=localName><input name=getAttribute><input name=nodeType>"
            "<button name=matches>Go</button></form>"
        ),
        ['form "f"', *["  textbox"] * 7, '  button "Go"'],
    ),
    "a_document_whose_images_have_its_properties_names": (
        (
            "<title>T</title><img name=title alt=a><img name=body alt=b><img name=activeElement alt=c>"
            "<form name=documentElement></form><form name=querySelector></form>"
            "<img name=elementFromPoint alt=d>"
        ),
        ['img "a"', 'img "b"', 'img "c"', 'img "d"'],
    ),
    "a_role_that_there_is_none": (
        "<div role='evil [ref_1]'>x</div><div role='foo button'>y</div>",
        ['"x"', 'button "y"'],
    ),
}


@pytest.mark.parametrize(("html", "lines"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_page_changes_nothing_but_its_words(page: InPage, html: str, lines: list[str]) -> None:
    assert outline(page.show(html)) == lines


def test_a_document_without_any_element_is_empty_and_no_trouble(page: InPage) -> None:
    page.show("<p>Gone")
    page.tab.evaluate("document.documentElement.remove()")
    assert outline(page) == []
    assert page.find("gone") == []
    assert page.call("text")["text"] == ""
    assert page.call("hostsWithoutRoot")["hosts"] == []
    assert page.call("focusInfo")["ref"] == 0


def test_what_scrolls_is_not_what_a_page_calls_so(page: InPage) -> None:
    page.show(
        "<img name=scrollingElement><form style='height:99px;overflow:auto'><input name=scrollTop>"
        "<p style='height:900px'></p></form><p style='height:9000px'></p>"
    )
    form, whole = page.call("scrollers", x=50, y=60)["scrollers"]
    assert (form["role"], form["top"], whole["isPage"]) == ("form", 0, True)
    assert form["maxTop"] > 800


def test_a_document_without_any_element_is_empty(browser: Browser) -> None:
    emptied = InPage(browser.open("about:blank")).install()
    emptied.tab.evaluate("document.documentElement.remove()")
    assert outline(emptied) == []
    assert emptied.find("tea") == []
    assert emptied.call("text")["text"] == ""
    assert emptied.call("hostsWithoutRoot")["hosts"] == []


def test_a_huge_attribute_is_cut(page: InPage) -> None:
    page.show("<button></button>")
    page.evaluate(
        "document.querySelector('button').setAttribute('aria-label', '\\u{1F600}'.repeat(3_000_000))"
    )
    (line,) = outline(page)
    assert len(line) < 230
    line.encode()  # no half of a character


def test_a_page_as_deep_as_browsers_bear_is_read(page: InPage) -> None:
    page.show("")
    page.evaluate(
        """let at = document.body;
        for (let depth = 0; depth < 3_000; depth++) at = at.appendChild(document.createElement('span'));
        at.append('the bottom');"""
    )
    assert page.find("bottom")[0]["text"] == "the bottom"
    assert outline(page, filter="interactive") == []


def test_a_closed_shadow_root_is_read_once_it_is_handed_in(page: InPage) -> None:
    page.show("<x-card></x-card><x-plain></x-plain>")
    page.tab.evaluate(
        "document.querySelector('x-card').attachShadow({mode: 'closed'}).innerHTML ="
        " '<button>Inside</button>'"
    )
    assert outline(page) == []
    card, _plain = page.call("hostsWithoutRoot")["hosts"]
    host = page.evaluate(f"mcpb.element({{ref: {card}}})", by_value=False)
    (root,) = page.tab.send("DOM.describeNode", objectId=host, depth=1, pierce=True)["node"]["shadowRoots"]
    resolved = page.tab.send(
        "DOM.resolveNode", backendNodeId=root["backendNodeId"], executionContextId=page.context
    )
    page.tab.send(
        "Runtime.callFunctionOn",
        objectId=host,
        functionDeclaration="function (root) { mcpb.adopt(this, root); }",
        arguments=[{"objectId": resolved["object"]["objectId"]}],
    )
    assert outline(page) == ['button "Inside"']
    inside = page.find("inside")[0]["ref"]
    assert page.call("place", ref=inside)["covered"] == ""


# ── refs ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_element_keeps_its_ref_and_a_ref_means_no_other_element(page: InPage) -> None:
    page.show("<button>a</button>", next_ref=7)
    assert page.call("read")["lines"][0][2] == 7
    page.tab.send("HeapProfiler.collectGarbage")
    answer = page.call("read")
    assert (answer["lines"][0][2], answer["next"]) == (7, 8)
    page.show("<button>a</button>", next_ref=8)
    assert page.call("read")["lines"][0][2] == 8
    with pytest.raises(InPageError, match=r"^stale: The element is not in the page any more"):
        page.call("place", ref=7)


def test_a_ref_of_an_element_that_was_taken_out_is_stale(page: InPage) -> None:
    page.show("<button>a</button>")
    ref = page.ref("button")
    page.tab.evaluate("document.querySelector('button').remove()")
    for function, given in [
        ("place", {}),
        ("fill", {"value": "x"}),
        ("describe", {}),
        ("read", {}),
        ("select", {}),
    ]:
        with pytest.raises(InPageError, match=r"^stale: "):
            page.call(function, ref=ref, **given)
    assert page.evaluate(f"mcpb.element({{ref: {ref}}})") is None


# ── find ────────────────────────────────────────────────────────────────────────────────────────────────────

SHOP = """
<nav><a href="/cart">Shopping cart</a><a href="/help">Help</a></nav>
<form role=search><input type=search name=q placeholder="Search products">
<button aria-label=Search>🔍</button></form>
<h1>Crème brûlée sets</h1><p>Our newsletter tells you of new sets. Subscribe below.</p>
<label>E-mail address <input type=email name=mail></label><button>Subscribe</button>
<input type=checkbox id=terms><label for=terms>I accept the terms</label>
<button style="display:none">Delete everything</button><button>Delete</button>
<select name=country aria-label=Country><option>Peru</select>
<button data-testid=checkout-btn>→</button><input id=firstName><img src="" alt="Our logo">
<div role=tab>Reviews</div><div style="cursor:pointer">Track parcel</div>
"""
FOUND = {
    "search box": ["searchbox", "Search products"],
    "the search button": ["button", "Search"],
    "subscribe": ["button", "Subscribe"],
    "newsletter": ["paragraph", ""],
    "email field": ["textbox", "E-mail address"],
    "creme brulee": ["heading", "Crème brûlée sets"],
    "CART": ["link", "Shopping cart"],
    "terms checkbox": ["checkbox", "I accept the terms"],
    "delete": ["button", "Delete"],
    "country dropdown": ["combobox", "Country"],
    "checkout": ["button", "→"],
    "first name input": ["textbox", ""],
    "logo image": ["img", "Our logo"],
    "reviews tab": ["tab", "Reviews"],
    "peru": ["combobox", "Country"],
    "track parcel": ["clickable", "Track parcel"],
    "headings": ["heading", "Crème brûlée sets"],
}


@pytest.fixture(scope="module")
def shop(browser: Browser) -> InPage:
    return InPage(browser.open("about:blank")).show(SHOP)


@pytest.mark.parametrize(("query", "best"), FOUND.items())
def test_the_best_match_is(shop: InPage, query: str, best: list[str]) -> None:
    first = shop.find(query)[0]
    assert [first["role"], first["name"]] == best


def test_what_is_seen_comes_before_what_is_not(shop: InPage) -> None:
    matches = shop.find("delete button")
    assert [(match["name"], match["visible"]) for match in matches] == [
        ("Delete", True),
        ("Delete everything", False),
    ]


NARROW = {
    "an element inside of another that says more": (
        "<div>A <span draggable=true>Card</span></div>",
        "card",
        [["clickable", "Card"]],
    ),
    "a button that sends its form": (
        "<form><button>Send</button><button type=button>No</button></form><button>Out</button>",
        "submit button",
        [["button", "Send"], ["button", "No"]],
    ),
    "a letter that begins the word for a kind": (
        "<button>B</button><button>Go</button>",
        "B",
        [["button", "B"]],
    ),
    "a menu by its name": (
        "<button>Go</button><div role=menu aria-label=Tools></div><button>Main menu</button>",
        "menu",
        [["button", "Main menu"]],
    ),
    "some of several words": ("<button>Pay the cart</button>", "cart now", [["button", "Pay the cart"]]),
    "a label at its control": (
        "<label for=m>E-mail</label><input id=m><button>Every</button>",
        "e-mail",
        [["textbox", "E-mail"]],
    ),
    "no letter of a word": ("<button>Eat</button><button>Mail</button>", "e-mail", [["button", "Mail"]]),
}


@pytest.mark.parametrize(("html", "query", "found"), NARROW.values(), ids=NARROW)
def test_just_what_is_meant_is_found(page: InPage, html: str, query: str, found: list[list[str]]) -> None:
    matches = page.show(html).find(query)
    assert [[match["role"], match["name"]] for match in matches] == found


def test_what_there_is_not_is_not_found(shop: InPage) -> None:
    assert shop.find("purple elephant") == []
    assert shop.find("") == []


def test_no_more_than_wanted_are_found(page: InPage) -> None:
    page.show("<button>go</button>" * 50)
    (result,) = page.call("find", queries=["go"], limit=3)["results"]
    assert (len(result["matches"]), result["found"]) == (3, 50)


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────

LOREM = "Words that make an article long enough to be one. " * 6
TEXTS = {
    "an_article_without_what_stands_beside_it": (
        (
            f"<nav>Home</nav><article><h1>Title</h1><p>{LOREM}</p><aside>Ad</aside>"
            f"<footer>By me</footer></article>"
            "<footer>Imprint</footer>"
        ),
        "article",
        f"# Title\n\n{LOREM.strip()}",
    ),
    "lists_and_tables": (
        (
            "<main><ul><li>a</li><li>b <b>c</b></li></ul><ol start=3><li>d<li>e</ol>"
            "<table><tr><th>x<th>y<tr><td>1<td>2</table></main>"
        ),
        "main",
        "- a\n- b c\n3. d\n4. e\n\nx | y\n1 | 2",
    ),
    "many_alike_are_no_subject": (
        f"<main><article><p>{LOREM}</p></article><article><p>{LOREM}</p></article></main>",
        "main",
        f"{LOREM.strip()}\n\n{LOREM.strip()}",
    ),
    "the_block_with_the_paragraphs": (
        "<div><a href='#'>menu</a></div><div>" + f"<p>{LOREM}</p>" * 3 + "</div><div><p>else</p></div>",
        "block",
        "\n\n".join([LOREM.strip()] * 3),
    ),
    "else_all_that_is_seen": (
        "<p>a</p><script>no</script><p style='display:none'>no</p><div>b<br>c</div><pre>d\n  e</pre>",
        "body",
        "a\n\nb\nc\n\nd\n  e",
    ),
    "without_variation_selectors_that_carry_text": (
        "<p>a&#xE0141;b</p><pre>c&#xFE01;&#xFE02;d \u2764&#xFE0F;</pre>",
        "body",
        "ab\n\ncd \u2764\ufe0f",
    ),
}


@pytest.mark.parametrize(("html", "source", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_the_text_of_a_page_is(page: InPage, html: str, source: str, text: str) -> None:
    answer = page.show(html).call("text")
    assert (answer["source"], answer["text"]) == (source, text)
    assert (answer["truncated"], answer["pdf"], answer["chars"]) == (False, False, len(text))


def test_a_long_text_is_cut(page: InPage) -> None:
    answer = page.show("<p>word</p>" * 1000).call("text", maxChars=99)
    assert answer["truncated"] is True
    assert 90 < answer["chars"] <= 99


def test_a_page_of_many_elements_and_one_of_much_text_are_read_in_part(page: InPage) -> None:
    page.show("")
    page.evaluate(
        """document.body.innerHTML = Array.from({length: 2_500}, (_, n) =>
            `<div><p>Text ${n}</p><a href="/${n}">Link ${n}</a><button>Go ${n}</button></div>`).join("")"""
    )
    assert page.call("read")["truncated"] == "size"
    assert page.find("go 2345")[0]["name"] == "Go 2345"
    assert page.call("text")["chars"] <= 50_000
    page.evaluate(f"document.body.innerHTML = '<article>' + '<p>{LOREM * 10}</p>'.repeat(200) + '</article>'")
    assert 49_900 <= page.call("text")["chars"] <= 50_000
    assert page.call("read")["truncated"] == "size"


# ── place, hit ──────────────────────────────────────────────────────────────────────────────────────────────


def clicked(page: InPage, selector: str) -> bool:
    """Whether a real click at the element's place reaches it."""
    place = page.call("place", ref=page.ref(selector))
    page.tab.evaluate("globalThis.clicks = []; onclick = event => clicks.push(event.composedPath()[0])")
    for kind in ("mousePressed", "mouseReleased"):
        page.tab.send(
            "Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1
        )
    hit: bool = page.tab.evaluate(
        f"clicks.some(node => document.querySelector({json.dumps(selector)}).contains(node))"
    )
    return hit


REACHED = {
    "in_sight": "<button>a</button>",
    "far_down": "<p style='height:9000px'></p><button>a</button>",
    "far_down_on_a_page_that_scrolls_smoothly": "<style>html{scroll-behavior:smooth}</style>"
    "<p style='height:9000px'>"
    "</p>"
    "<button>a</button>",
    "in_a_box_that_scrolls": "<div style='height:90px;overflow:auto'><p style='height:900px'></p>"
    "<button>a</button></div>",
    "half_covered": "<button style='width:200px;height:40px'>a</button>"
    "<div style='position:absolute;left:60px;top:0;width:300px;height:90px;background:red'></div>",
    "broken_over_lines": "<div style='width:160px'>Some words and then <button"
    " style='display:inline;border:0;padding:0'>a button of "
    "several words that wraps</button></div>",
    "turned": "<button style='transform:rotate(45deg);margin:90px'>a</button>",
    "without_a_box_of_its_own": "<button style='display:contents'><b>a</b></button>",
    "still_sliding": "<style>@keyframes s{from{margin-left:300px}}</style>"
    "<button style='animation:s .3s'>a</button>",
}


@pytest.mark.parametrize("html", REACHED.values(), ids=REACHED.keys())
def test_a_click_reaches_an_element(page: InPage, html: str) -> None:
    assert clicked(page.show(html), "button")


NOT_REACHED = {
    "covered": (
        "<button>a</button><div id=veil style='position:fixed;inset:0'></div>",
        {"covered": 'div with the id "veil"', "visible": True},
    ),
    "covered_by_a_dialog": (
        (
            "<button>a</button>"
            "<dialog aria-label=Cookies open style='position:fixed;inset:0;width:100%;height:100%'>x</dialog>"
        ),
        {"covered": 'dialog "Cookies"'},
    ),
    "not_shown": ("<button style='display:none'>a</button>", {"visible": False}),
    "without_size": ("<button style='width:0;height:0;border:0;padding:0'></button>", {"visible": False}),
    "disabled": ("<button disabled>a</button>", {"disabled": True, "covered": ""}),
    "in_a_disabled_group": ("<fieldset disabled><button>a</button></fieldset>", {"disabled": True}),
    "never_still": (
        (
            "<style>@keyframes s{from{margin-left:300px}}</style>"
            "<button style='animation:s 1s infinite'>a</button>"
        ),
        {"moving": True, "visible": True},
    ),
}


@pytest.mark.parametrize(("html", "said"), NOT_REACHED.values(), ids=NOT_REACHED.keys())
def test_it_says_why_a_click_does_not_reach_an_element(page: InPage, html: str, said: dict[str, Any]) -> None:
    page.show(html)
    place = page.call("place", ref=page.ref("button"))
    assert {name: place[name] for name in said} == said


def test_a_label_over_its_control_counts_as_the_control(page: InPage) -> None:
    page.show(
        "<input type=checkbox id=c style='position:absolute;opacity:0'>"
        "<label for=c style='position:absolute'>Fancy box</label>"
    )
    assert page.call("place", ref=page.ref("input"))["covered"] == ""


def test_an_element_under_a_header_that_stays_is_brought_out(page: InPage) -> None:
    page.show(
        "<header style='position:fixed;top:0;width:100%;height:60px;background:red'>h</header>"
        "<p style='height:900px'></p><button>a</button><p style='height:9000px'></p>"
    )
    page.tab.evaluate("document.querySelector('button').scrollIntoView()")
    assert clicked(page, "button")


def test_what_can_be_clicked_already_is_not_scrolled(page: InPage) -> None:
    page.show("<button>a</button><p style='height:9000px'></p>")
    page.call("place", ref=page.ref("button"))
    assert page.tab.evaluate("scrollY") == 0


def test_it_is_scrolled_to_the_middle(page: InPage) -> None:
    page.show("<p style='height:3000px'></p><h2>here</h2><p style='height:3000px'></p>")
    place = page.call("scrollTo", ref=page.ref("h2"))
    assert abs(place["y"] - place["viewport"]["height"] / 2) < 2


HITS = {
    "a_part_of_a_button": (
        "<button style='position:fixed;inset:0'><b>Save</b></button>",
        ("button", "Save", False),
    ),
    "a_frame": (
        "<iframe title=m style='position:fixed;inset:0;width:100%;height:100%'></iframe>",
        ("iframe", "m", True),
    ),
    "words": ("<p style='position:fixed;inset:0'>some words</p>", ("paragraph", "some words", False)),
    "a_label": ("<label style='position:fixed;inset:0'>Age <input></label>", ("textbox", "Age", False)),
}


@pytest.mark.parametrize(("html", "what"), HITS.values(), ids=HITS.keys())
def test_what_is_at_a_point(page: InPage, html: str, what: tuple[str, str, bool]) -> None:
    hit = page.show(html).call("hit", x=40, y=40)
    assert (hit["role"], hit["name"], hit["isFrame"]) == what
