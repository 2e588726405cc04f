"""Downloads of a tab, from events of DevTools and of the extension, as notes for a client. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bridge import origins
from bridge.browser_tools.page.event_notes import EventNotes
from native_host.protocol.untrusted_text import quote, quote_exactly

WAIT_S = 10.0
"""Seconds that an action waits for the end of a download that it has started."""
MAX_NAME = 80
MAX_PATH = 1000
MAX_DOWNLOADS = 100
_HARMLESS = frozenset(
    (
        *("safe", "accepted", "allowlistedByPolicy", "deepScannedSafe", "deepScannedOpenedDangerous"),
        *("asyncScanning", "asyncLocalPasswordScanning"),
    )
)
"""Words of `chrome.downloads` for a file that the browser keeps without the user, or still looks at."""
_OF_USER = "USER_CANCELED"


@dataclass
class Download:
    """A download that has not ended."""

    name: str
    origin: str
    began_at: float
    path: str = ""
    """Of its file; empty until the browser has chosen it."""
    received: int = 0
    total: int = -1
    is_paused: bool = False
    is_reported: bool = False
    """A result has reported that it goes on."""


@dataclass
class TabDownloads:
    """The downloads of a tab."""

    reports_ends: bool = False
    """The extension reports more than the beginning; older ones do not."""
    count: int = 0
    """Number of downloads that have begun."""
    notes: EventNotes = field(default_factory=EventNotes)
    """Notes on downloads that have ended or go on; the tabs of a session share them."""
    _running: dict[str, Download] = field(default_factory=dict)

    @property
    def has_running(self) -> bool:
        """True while a download goes on."""
        return bool(self._running)

    def deadline(self) -> float | None:
        """Return the time until which an action waits for downloads that it may have started, or None."""
        return max(
            (each.began_at + WAIT_S for each in self._running.values() if not each.is_reported), default=None
        )

    def handle_begin(self, params: dict[str, Any], now: float) -> None:
        """Handle `Page.downloadWillBegin`."""
        self.count += 1
        name, origin = str(params.get("suggestedFilename", "")), origins.get_origin(params.get("url", ""))
        if not self.reports_ends:
            self.notes.add_note(f"A download began: {_format_name(name)}.", origin, "A download began.")
        elif len(self._running) < MAX_DOWNLOADS:
            self._running.setdefault(params["guid"], Download(name, origin, now))

    def handle_state(self, params: dict[str, Any], now: float) -> None:
        """Handle the extension's `mcpb.download`."""
        download = self._running.get(params["guid"])
        if download is None:  # it began in a tab of its own
            self.count += 1
            download = Download(params["name"], origins.get_origin(params["url"]), now)
            self._running[params["guid"]] = download
        download.name = params["name"] or download.name
        download.path, download.is_paused = params["path"], params["isPaused"]
        download.received, download.total = params["receivedBytes"], params["totalBytes"]
        if end := _describe_end(download, params):
            del self._running[params["guid"]]
            self._add_note(download, end, "A download has ended.")

    def report_running(self) -> None:
        """Add a note on each download that goes on, unless a result has reported it."""
        for download in self._running.values():
            if not download.is_reported:
                download.is_reported = True
                self._add_note(download, _describe_running(download), "A download goes on.")

    def lose(self) -> None:
        """Give up the downloads that go on: the tab is closed or released, so no event reports their ends."""
        ended = "when its tab was closed or released."
        for download in self._running.values():
            to = f" to {_format_path(download.path)}" if download.path else ""
            said = f"{_format_name(download.name)} was still downloading{to} {ended}"
            self._add_note(download, said, f"A download went on {ended}")
        self._running.clear()

    def _add_note(self, download: Download, said: str, without: str) -> None:
        self.notes.add_note(said, download.origin, without)


def _describe_end(download: Download, params: dict[str, Any]) -> str:
    """Return how a download has ended; empty if it goes on."""
    name = _format_name(download.name)
    match params["state"]:
        case "complete":
            return f"Downloaded {name} ({format_size(download.received)}) to {_format_path(download.path)}."
        case "interrupted" if params["error"] == _OF_USER:
            return f"The download of {name} was cancelled in the browser."
        case "interrupted":
            return f"The download of {name} failed: {params['error'] or 'the browser gives no reason'}."
        case _ if params["danger"] not in _HARMLESS:
            return (
                f"The browser holds {name} back as dangerous ({params['danger']}): it is kept only if "
                "the user confirms that in the browser's list of downloads."
            )
    return ""


def _describe_running(download: Download) -> str:
    of = f" of {format_size(download.total)}" if download.total >= 0 else ""
    paused = "; the user has paused it" if download.is_paused else ""
    to = (
        f" to {_format_path(download.path)}"
        if download.path
        else ", and the user may be asked where to save it"
    )
    so_far = f"{format_size(download.received)}{of}"
    return (
        f"{_format_name(download.name)} is still downloading ({so_far}){to}{paused}. "
        "A later answer says when it has ended."
    )


def _format_name(name: str) -> str:
    return quote(name, MAX_NAME)


def _format_path(path: str) -> str:
    return quote_exactly(path, MAX_PATH)


def format_size(count: int) -> str:
    """Format a number of bytes as browsers do: `1.2 kB`."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.1f} {unit}"
