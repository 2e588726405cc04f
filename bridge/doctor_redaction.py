"""What of a report may be shown in public: no site, no title, no person. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bridge.doctor import SeenBrowser
from bridge.doctor_report import Diagnosis
from install.examination.findings import Finding
from install.examination.neighbours import Neighbour

_URL = re.compile(r"\b(?:https?|wss?|file)://[^\s\"'“”<>)]+")
_OF_PROFILE = ": the extension "
_MIN_NAME = 2
"""Characters of a name that is looked for: a shorter one is part of everything."""


def without_sites(browsers: Sequence[SeenBrowser]) -> list[SeenBrowser]:
    """The same browsers; profiles, tabs and rules are told apart by a number only."""
    return [_anonymous(browser, number) for number, browser in enumerate(browsers, 1)]


def _anonymous(browser: SeenBrowser, number: int) -> SeenBrowser:
    sites = list(dict.fromkeys(tab.origin for tab in browser.tabs))
    return msgspec.structs.replace(
        browser,
        label=f"<profile {number}>" if browser.label else "",
        tabs=tuple(
            msgspec.structs.replace(tab, origin=f"<site {sites.index(tab.origin) + 1}>", title=f"<title {n}>")
            for n, tab in enumerate(browser.tabs, 1)
        ),
        forbidden="<rule>" if browser.forbidden else "",
    )


def redacted(diagnosis: Diagnosis, private: Mapping[str, str]) -> Diagnosis:
    """All texts without URLs and without what is `private`: paths and names, with what stands in their place.

    A path is replaced wherever it begins a longer one, a name where it is a word of its own.
    """
    known = msgspec.structs.replace(
        diagnosis,
        findings=tuple(_without_profile(finding) for finding in diagnosis.findings),
        neighbours=tuple(
            _unnamed(neighbour, number) for number, neighbour in enumerate(diagnosis.neighbours, 1)
        ),
    )
    return msgspec.convert(_replaced(msgspec.to_builtins(known), list(_rules(private))), Diagnosis)


def _without_profile(finding: Finding) -> Finding:
    """What the examination says of an extension begins with the person's name for its profile."""
    begin = f"{finding.where}, profile "
    if not finding.text.startswith(begin):
        return finding
    _, extension, rest = finding.text.partition(_OF_PROFILE)
    return msgspec.structs.replace(finding, text=f"{begin}<profile>{extension}{rest}")


def _unnamed(neighbour: Neighbour, number: int) -> Neighbour:
    """Which other products somebody has is told nobody."""
    return msgspec.structs.replace(neighbour, name=f"<host {number}>", manifest="", program="", callers=())


_Rule = tuple[re.Pattern[str], str]


def _rules(private: Mapping[str, str]) -> Iterator[_Rule]:
    yield _URL, "<address>"
    for text in sorted(private, key=len, reverse=True):
        if text.startswith("/") and text != "/":
            yield re.compile(re.escape(text) + r"(?![\w.-])"), private[text]
        elif len(text) >= _MIN_NAME and not text.startswith("/"):
            yield re.compile(rf"(?<![\w]){re.escape(text)}(?![\w])", re.IGNORECASE), private[text]


def _replaced(value: Any, rules: Sequence[_Rule]) -> Any:
    match value:
        case str():
            return _without(value, rules)
        case dict():
            return {key: _replaced(item, rules) for key, item in value.items()}
        case list() | tuple():
            return [_replaced(item, rules) for item in value]
        case _:
            return value


def _without(text: str, rules: Sequence[_Rule]) -> str:
    for pattern, stand_in in rules:
        text = pattern.sub(stand_in, text)
    return text
