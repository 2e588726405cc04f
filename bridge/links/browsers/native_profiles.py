"""Profiles of the browsers that are connected to native hosts: a WebSocket proxy is not used for these."""

from __future__ import annotations

from bridge.hub.change_signal import ChangeSignal
from bridge.hub.transport import Event, HostAnnouncement, HostDiscovered, HostLost, TabTransport
from native_host.protocol import wire


class NativeProfiles:
    """Profiles of the browsers that are connected to native hosts of this machine."""

    def __init__(self, native: TabTransport) -> None:
        """Listen to a transport that does not run yet."""
        self.changes = ChangeSignal()
        self._profiles: dict[str, str | None] = {}
        """By host; None: not known yet."""
        native.set_listener(self._on_event)

    def has(self, profile: str) -> bool:
        """Return whether the browser with this profile is connected; empty: it is not known."""
        return bool(profile) and profile in self._profiles.values()

    @property
    def are_known(self) -> bool:
        """Return whether each host has named its profile."""
        return None not in self._profiles.values()

    def _on_event(self, event: Event) -> None:
        match event:
            case HostDiscovered():
                self._profiles[event.host] = None
            case HostAnnouncement(message=wire.BrowserHello() as hello):
                # The extension of Claude in Chrome has no page tools: it replaces no browser.
                is_channel = bool(hello.capabilities.tools)
                self._profiles[event.host] = "" if is_channel else hello.profile.id
            case HostLost():
                self._profiles.pop(event.host, None)
            case _:
                return
        self.changes.notify()
