"""Scripts that run in a document, in an isolated world that the page cannot see.

The files are plain scripts that share one scope: `script()` joins them into one expression, which is
evaluated once in each document, in an isolated world (`Page.createIsolatedWorld`). From then on
`mcpb.<name>(<one JSON value>)` is called there, with `awaitPromise` and `returnByValue`. An element is a
number, its ref. Lengths are CSS pixels in the frame's own viewport. Words of the page are cut, printable
and in one line, but for what `text` answers.

What cannot be done is thrown: `Error: <kind>: <sentence>`, kind being `stale` (the element is gone),
`unfit` (it takes no such value; the sentence says which), `hidden` or `disabled`. An answer with `next` may
have made refs: those of the next document begin there (`begin`).

* `begin({next})` → next. Called first; at once, as the next three are.
* `element({ref})` → the element itself or null, for DevTools (`DOM.describeNode` tells a frame's id).
* `hostsWithoutRoot()` → hosts (at most 50 refs of elements that may have a closed shadow root, each reported
  once in ten seconds), next.
* `adopt(host, root)`: from now on the root that DevTools gave is looked into, as open ones are.
* `read({filter: "all" | "interactive", depth, maxChars, ref, links, query})` → lines, truncated (false,
  "depth" or "size"), pdf, title, url, viewport (width, height, scrollX, scrollY, pageWidth, pageHeight),
  next. A line
  is [indent, head, ref or 0, tail, isFrame] and is shown as head, the ref in brackets, tail: so nothing
  that a page writes can be taken for a ref, all of it is between quotes. Below the line of a frame belongs
  what that frame answers itself. The interactive ones have controls, named groups, messages and headings
  above controls; of controls with the same role and name it is said what they are in.
* `find({queries, limit})` → results, one for each query: matches (ref, role, name, text, context, score,
  visible; best first), found (how many there were), complete (the first has all words itself); truncated
  (the page is too large to look at all of it), next.
* `locate({role, name, word, within, css})` → rank (0: controls, 1: texts; null: none), found (how many are
  shown), matches (as those of `find`, at most ten; hidden ones that the selector selects come last), next.
* `text({maxChars})` → text, title, url, source ("article", "main", "block" or "body"), truncated, chars,
  pdf.
* `place({ref, scroll})` → role, name, x, y (where a click reaches it), width, height, viewport (width,
  height), visible, covered ("", or what is hit instead), disabled, moving (it did not stand still within 2
  s). It is scrolled to the middle unless a click reaches it where it is.
* `scrollTo({ref})` → as `place`, from the middle of the viewport.
* `hit({x, y, ref})` → ref, role, name, isFrame, next: the control at a point, or what else is there; ref 0:
  nothing. opens: what a click there opens outside of the page ("list", "files", "colours" or ""). reached:
  a click there is one on the element that is given as ref.
* `scrollers({x, y | refs})` → scrollers (ref, isPage, role, name, left, top, maxLeft, maxTop), next: what
  scrolls around a point, the innermost first; or those refs, once they stand still.
* `fill({ref, value})` → ok (the page has kept it), was, now, role, name, kind.
* `fieldsLabelled({label, value})` → rank (0 is the best; null: none fits), fields (ref, role, name, isChoice:
  the choice of a group that the value names), next: the controls that fit a label best, at most ten.
* `submitter({ref})` → ref, next: the button that sends the form of an element; ref 0: no such button.
* `sees({texts})` → a list of booleans: which texts are shown, in upper or lower case.
* `quietness()` → quietMs: since the last change of the tree, or the last end of a request.
* `untilChanged({since, ms})` → the number of changes of the document, once it is not `since`, or after `ms`.
* `focusInfo()` → ref, role, name, editable, takesKeys (editors and dates want text key by key), isFrame,
  selection, next; ref 0: nothing has the focus.
* `select({ref})` → as `focusInfo`, all text of the element being selected.
* `copySelection({maxChars})` → chars, text: what is selected where the focus is; longer text is left out.
* `describe({ref})` → ref, role, name, tag, line.
* `receive({transfer, chunk, last})` → size, in bytes until now. Chunks are base64, each of whole groups of
  four.
* `giveFiles({ref | x, y, files: [{transfer, name, mimeType}]})` → how ("input" or "drop"), accepted
  (names), role, name, shows (the element's text then).
* `download({transfer, name, mimeType})` → size: the browser saves it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

_FILES = (
    "dom",
    "refs",
    "roles",
    "accessible_name",
    "describe",
    "context",
    "outline",
    "find_words",
    "find",
    "article_text",
    "geometry",
    "scroll",
    "dates",
    "form_controls",
    "form_fields",
    "locate",
    "page_state",
    "focus",
    "files",
    "exports",
)


@cache
def joined_script() -> str:
    """One expression that puts `mcpb` into the world that it is evaluated in."""
    folder = resources.files(__name__)
    parts = (folder.joinpath(f"{name}.js").read_text("utf-8") for name in _FILES)
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "\n})()"
