"""Opening of an address in the user's browser."""

from __future__ import annotations

import webbrowser


def open_address(address: str) -> bool:
    """Open an address; return whether a browser could be started."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
