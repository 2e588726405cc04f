"""Five tasks, and how an agent does each of them with the tools of a product.

A script is what a competent agent calls that knows the tools but not the page: it reads before it acts, takes
references from the answers, does several steps in one call where it can, and stops when an answer shows the
outcome. Each script is a generator: it yields calls, is sent their texts, and returns what the agent would
report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.conversation import EndError
from benchmarks.tokens.task_site import CUSTOMER, ORDER, PAGES, PASSWORD, REPORT, USER, Log, Site, amounts


class Call(NamedTuple):
    """One call of a tool; of a command line, `tool` is the whole of it."""

    tool: str
    arguments: Mapping[str, Any] = {}


Script = Generator[Call, str, str]


@dataclass(frozen=True)
class Task:
    """A task, the judge of its outcome, and its scripts by product."""

    name: str
    is_done: Callable[[Log, str], bool]
    """Of the site's log and the reported outcome."""
    scripts: Mapping[str, Callable[[Site, Path], Script]]


OURS, PLAYWRIGHT, DEVTOOLS, AGENT_BROWSER = "mcpb", "@playwright/mcp", "chrome-devtools-mcp", "agent-browser"
_KINDS = {"country": "combobox", "terms": "checkbox", "delivery": "radio"}
_LABELS = {
    "name": "Full name",
    "email": "Email",
    "street": "Street",
    "code": "Postal code",
    "city": "City",
    "country": "Country",
    "delivery": "Express",
    "terms": "I accept the terms",
    "note": "Note",
}
_PATTERNS = {
    OURS: r'{role} "{name}".*?\[([\w.]+)\]',
    PLAYWRIGHT: r'{role} "{name}".*?\[ref=(\w+)\]',
    DEVTOOLS: r'uid=(\S+) {role} " *{name} *"',
    AGENT_BROWSER: r'{role} " *{name} *".*?ref=(\w+)',
}
REPORT_NAME = "report.csv"


def _find(product: str, text: str, name: str, role: str = r"\w+") -> str:
    """Return the reference of an element in an answer.

    Raises:
        EndError: it is not there.
    """
    found = re.search(_PATTERNS[product].format(role=role, name=re.escape(name)), text)
    if not found:
        raise EndError(f"{product} shows no {role} {name!r}: {text[:600]}")
    return found[1]


def _found(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


# ── Calls of each product ───────────────────────────────────────────────────────────────────────────────────


def _batch(*steps: tuple[str, Mapping[str, Any]]) -> Call:
    return Call("browser_batch", {"actions": [{"name": name, "input": given} for name, given in steps]})


def _read(url: str, **given: Any) -> Call:
    return _batch(("navigate", {"url": url}), ("read_page", given))


def _press(text: str, name: str, role: str = "button") -> tuple[str, Mapping[str, Any]]:
    return "computer", {"action": "left_click", "ref": _find(OURS, text, name, role)}


_SNAPSHOT = Call("browser_snapshot")
"""Answers of other tools have only the path of a file with the snapshot."""


def _play_click(text: str, name: str, role: str = "button") -> Call:
    return Call("browser_click", {"element": name, "target": _find(PLAYWRIGHT, text, name, role)})


def _play_fill(text: str, values: Mapping[str, str], kinds: Mapping[str, str]) -> Call:
    fields = [
        {
            "target": _find(PLAYWRIGHT, text, name, kinds.get(name, "textbox")),
            "name": name,
            "type": kinds.get(name, "textbox"),
            "value": "true" if kinds.get(name) in {"checkbox", "radio"} else value,
        }
        for name, value in values.items()
    ]
    return Call("browser_fill_form", {"fields": fields})


def _dev(tool: str, **given: Any) -> Call:
    return Call(tool, {"pageId": 1, **given})


def _dev_open(url: str) -> Call:
    return _dev("navigate_page", type="url", url=url)


def _dev_fill(text: str, values: Mapping[str, str], kinds: Mapping[str, str]) -> Call:
    elements = [
        {
            "uid": _find(DEVTOOLS, text, name, kinds.get(name, "textbox")),
            "value": "true" if kinds.get(name) in {"checkbox", "radio"} else value,
        }
        for name, value in values.items()
    ]
    return _dev("fill_form", elements=elements)


def _dev_click(text: str, name: str, role: str = "button") -> Call:
    return _dev("click", uid=_find(DEVTOOLS, text, name, role), includeSnapshot=True)


def _shell(*commands: str) -> Call:
    return Call(" && ".join(f"agent-browser {command}" for command in commands))


def _agent_fill(text: str, values: Mapping[str, str], kinds: Mapping[str, str]) -> list[str]:
    verbs = {"combobox": "select", "checkbox": "check", "radio": "check"}
    commands = []
    for name, value in values.items():
        kind = kinds.get(name, "textbox")
        given = "" if kind in {"checkbox", "radio"} else f' "{value}"'
        commands.append(f"{verbs.get(kind, 'fill')} @{_find(AGENT_BROWSER, text, name, kind)}{given}")
    return commands


def _agent_click(text: str, name: str, role: str = "button") -> str:
    return f"click @{_find(AGENT_BROWSER, text, name, role)}"


# ── A form ──────────────────────────────────────────────────────────────────────────────────────────────────

_ORDER = {_LABELS[name]: value for name, value in ORDER.items()}
_ORDER_KINDS = {_LABELS[name]: kind for name, kind in _KINDS.items()}
_NUMBER = r"has the number (\d+)"


def _form_ours(site: Site, _files: Path) -> Script:
    text = yield _read(f"{site.url}/checkout", filter="interactive")
    fields = [
        {
            "ref": _find(OURS, text, name, _ORDER_KINDS.get(name, "textbox")),
            "value": True if _ORDER_KINDS.get(name) in {"checkbox", "radio"} else value,
        }
        for name, value in _ORDER.items()
    ]
    return _found((yield Call("fill_form", {"fields": fields, "submit": True})), _NUMBER)


def _form_playwright(site: Site, _files: Path) -> Script:
    yield Call("browser_navigate", {"url": f"{site.url}/checkout"})
    text = yield _SNAPSHOT
    yield _play_fill(text, _ORDER, _ORDER_KINDS)
    yield _play_click(text, "Place the order")
    return _found((yield _SNAPSHOT), _NUMBER)


def _form_devtools(site: Site, _files: Path) -> Script:
    yield _dev_open(f"{site.url}/checkout")
    text = yield _dev("take_snapshot")
    yield _dev_fill(text, _ORDER, _ORDER_KINDS)
    return _found((yield _dev_click(text, "Place the order")), _NUMBER)


def _form_agent_browser(site: Site, _files: Path) -> Script:
    text = yield _shell(f"open {site.url}/checkout", "snapshot -i")
    fill = _agent_fill(text, _ORDER, _ORDER_KINDS)
    return _found((yield _shell(*fill, _agent_click(text, "Place the order"), "snapshot")), _NUMBER)


def _is_ordered(log: Log, outcome: str) -> bool:
    return log.sent_to("/ordered") == [ORDER] and outcome == "4711"


# ── A table over several pages ──────────────────────────────────────────────────────────────────────────────


def _sum(texts: list[str]) -> str:
    """Return the sum of the customer's amounts, as read in outlines of all products."""
    found = re.compile(rf'"{CUSTOMER}".{{0,160}}?["\s](\d{{3}})["\s]', re.DOTALL)
    return str(sum(int(amount) for text in texts for amount in found.findall(text)))


def _table_ours(site: Site, _files: Path) -> Script:
    texts = [(yield _read(f"{site.url}/table", query=CUSTOMER))]
    steps = []
    for page in range(2, PAGES + 1):
        steps += [("navigate", {"url": f"{site.url}/table?page={page}"}), ("read_page", {"query": CUSTOMER})]
    texts.append((yield _batch(*steps)))
    return _sum(texts)


def _table_playwright(site: Site, _files: Path) -> Script:
    yield Call("browser_navigate", {"url": f"{site.url}/table"})
    texts = [(yield _SNAPSHOT)]
    for _ in range(PAGES - 1):
        yield _play_click(texts[-1], "Next page", "link")
        texts.append((yield _SNAPSHOT))
    return _sum(texts)


def _table_devtools(site: Site, _files: Path) -> Script:
    yield _dev_open(f"{site.url}/table")
    texts = [(yield _dev("take_snapshot"))]
    for _ in range(PAGES - 1):
        texts.append((yield _dev_click(texts[-1], "Next page", "link")))
    return _sum(texts)


def _table_agent_browser(site: Site, _files: Path) -> Script:
    texts = [(yield _shell(f"open {site.url}/table", "snapshot"))]
    commands = []
    for page in range(2, PAGES + 1):
        commands += [f"open {site.url}/table?page={page}", "snapshot"]
    texts.append((yield _shell(*commands)))
    return _sum(texts)


def _is_summed(log: Log, outcome: str) -> bool:
    rows = [row for page in range(1, PAGES + 1) for row in amounts(page)]
    return log.asked_for("/table") and outcome == str(
        sum(amount for name, amount in rows if name == CUSTOMER)
    )


# ── A file up, a file down ──────────────────────────────────────────────────────────────────────────────────

_FILE_LABEL = "Your report"
_DOWNLOAD = "Download the summary"


def _files_ours(site: Site, files: Path) -> Script:
    text = yield _read(f"{site.url}/files", filter="interactive")
    upload = {"paths": [str(files / REPORT_NAME)], "ref": _find(OURS, text, _FILE_LABEL)}
    text = yield _batch(("file_upload", upload), _press(text, _DOWNLOAD, "link"), _press(text, "Send"))
    return _found(text, "(report has arrived)")


def _files_playwright(site: Site, files: Path) -> Script:
    yield Call("browser_navigate", {"url": f"{site.url}/files"})
    text = yield _SNAPSHOT
    yield _play_click(text, _DOWNLOAD, "link")
    yield _play_click(text, _FILE_LABEL)
    yield Call("browser_file_upload", {"paths": [str(files / REPORT_NAME)]})
    yield _play_click(text, "Send")
    return _found((yield _SNAPSHOT), "(report has arrived)")


def _files_devtools(site: Site, files: Path) -> Script:
    yield _dev_open(f"{site.url}/files")
    text = yield _dev("take_snapshot")
    yield _dev("click", uid=_find(DEVTOOLS, text, _DOWNLOAD, "link"))
    yield _dev("upload_file", uid=_find(DEVTOOLS, text, _FILE_LABEL), filePaths=[str(files / REPORT_NAME)])
    return _found((yield _dev_click(text, "Send")), "(report has arrived)")


def _files_agent_browser(site: Site, files: Path) -> Script:
    text = yield _shell(f"open {site.url}/files", "snapshot -i")
    download = f"download @{_find(AGENT_BROWSER, text, _DOWNLOAD, 'link')} {files / 'summary.csv'}"
    upload = f"upload @{_find(AGENT_BROWSER, text, _FILE_LABEL)} {files / REPORT_NAME}"
    text = yield _shell(download, upload, _agent_click(text, "Send"), "snapshot")
    return _found(text, "(report has arrived)")


def _is_transferred(log: Log, outcome: str) -> bool:
    sent = [form.get("report") for form in log.sent_to("/uploaded")]
    return sent == [REPORT.decode()] and log.asked_for("/summary.csv") and bool(outcome)


# ── A frame of another site, and a shadow root ──────────────────────────────────────────────────────────────

_CARD = {"Card number": "4000 0012", "Holder": "Ada Albrecht"}
_RECEIPT = r"receipt has the number (\d+)"


def _booking_ours(site: Site, _files: Path) -> Script:
    text = yield _read(f"{site.url}/booking", filter="interactive")
    card = [{"ref": _find(OURS, text, name, "textbox"), "value": value} for name, value in _CARD.items()]
    seat = [{"ref": _find(OURS, text, "Seat", "combobox"), "value": "Window"}]
    steps = [("fill_form", {"fields": seat}), _press(text, "Reserve")]
    text = yield _batch(*steps, ("fill_form", {"fields": card, "submit": True}))
    return _found(text, _RECEIPT)


def _booking_playwright(site: Site, _files: Path) -> Script:
    yield Call("browser_navigate", {"url": f"{site.url}/booking"})
    text = yield _SNAPSHOT
    yield _play_fill(text, {"Seat": "Window", **_CARD}, {"Seat": "combobox"})
    yield _play_click(text, "Reserve")
    yield _play_click(text, "Pay")
    return _found((yield _SNAPSHOT), _RECEIPT)


def _booking_devtools(site: Site, _files: Path) -> Script:
    yield _dev_open(f"{site.url}/booking")
    text = yield _dev("take_snapshot")
    yield _dev_fill(text, {"Seat": "Window", **_CARD}, {"Seat": "combobox"})
    yield _dev("click", uid=_find(DEVTOOLS, text, "Reserve", "button"))
    return _found((yield _dev_click(text, "Pay")), _RECEIPT)


def _booking_agent_browser(site: Site, _files: Path) -> Script:
    text = yield _shell(f"open {site.url}/booking", "snapshot -i")
    fill = _agent_fill(text, {"Seat": "Window", **_CARD}, {"Seat": "combobox"})
    clicks = [_agent_click(text, "Reserve"), _agent_click(text, "Pay")]
    return _found((yield _shell(*fill, *clicks, "snapshot")), _RECEIPT)


def _is_booked(log: Log, outcome: str) -> bool:
    paid = [{"card": _CARD["Card number"], "holder": _CARD["Holder"]}]
    return (
        log.sent_to("/reserved") == [{"seat": "Window"}] and log.sent_to("/paid") == paid and outcome == "93"
    )


# ── Sign in ─────────────────────────────────────────────────────────────────────────────────────────────────

_LOGIN = {"User": USER, "Password": PASSWORD}
_BALANCE = r"balance is (\d+) EUR"


def _login_ours(site: Site, _files: Path) -> Script:
    text = yield _read(f"{site.url}/login", filter="interactive")
    fields = [{"ref": _find(OURS, text, name, "textbox"), "value": value} for name, value in _LOGIN.items()]
    return _found((yield Call("fill_form", {"fields": fields, "submit": True})), _BALANCE)


def _login_playwright(site: Site, _files: Path) -> Script:
    yield Call("browser_navigate", {"url": f"{site.url}/login"})
    text = yield _SNAPSHOT
    yield _play_fill(text, _LOGIN, {})
    yield _play_click(text, "Sign in")
    return _found((yield _SNAPSHOT), _BALANCE)


def _login_devtools(site: Site, _files: Path) -> Script:
    yield _dev_open(f"{site.url}/login")
    text = yield _dev("take_snapshot")
    yield _dev_fill(text, _LOGIN, {})
    return _found((yield _dev_click(text, "Sign in")), _BALANCE)


def _login_agent_browser(site: Site, _files: Path) -> Script:
    text = yield _shell(f"open {site.url}/login", "snapshot -i")
    fill = _agent_fill(text, _LOGIN, {})
    return _found((yield _shell(*fill, _agent_click(text, "Sign in"), "snapshot")), _BALANCE)


def _is_signed_in(log: Log, outcome: str) -> bool:
    return log.sent_to("/account") == [{"user": USER, "password": PASSWORD}] and outcome == "128"


PRODUCTS = (OURS, PLAYWRIGHT, DEVTOOLS, AGENT_BROWSER)


def _by_product(*scripts: Callable[[Site, Path], Script]) -> dict[str, Callable[[Site, Path], Script]]:
    return dict(zip(PRODUCTS, scripts, strict=True))


TASKS = (
    Task("form", _is_ordered, _by_product(_form_ours, _form_playwright, _form_devtools, _form_agent_browser)),
    Task(
        "table over 4 pages",
        _is_summed,
        _by_product(_table_ours, _table_playwright, _table_devtools, _table_agent_browser),
    ),
    Task(
        "upload and download",
        _is_transferred,
        _by_product(_files_ours, _files_playwright, _files_devtools, _files_agent_browser),
    ),
    Task(
        "frame and shadow root",
        _is_booked,
        _by_product(_booking_ours, _booking_playwright, _booking_devtools, _booking_agent_browser),
    ),
    Task(
        "sign in",
        _is_signed_in,
        _by_product(_login_ours, _login_playwright, _login_devtools, _login_agent_browser),
    ),
)
