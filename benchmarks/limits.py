"""What has to hold. Ratios are of medians within the same rounds: they say the same on any machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """A range, its ends included."""

    most: float | None = None
    least: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether the value is within."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    def __str__(self) -> str:
        if self.most is not None:
            return f"≤ {in_words(self.most)}"
        return f"≥ {in_words(self.least)}" if self.least is not None else ""


def in_words(value: float) -> str:
    """Three digits that count, or all of a larger number's."""
    return f"{value:,.0f}".replace(",", " ") if abs(value) >= 100 else f"{value:.3g}"


NONE = Limit()

# A call from the client's stdio to the extension and back.
PATH_TO_FLOOR = Limit(most=7)
PATH_TO_BEST_PEER = Limit(most=0.5)
PATH_P99_MS = Limit(most=1)
PATH_CALLS_PER_SECOND = Limit(least=10_000)
PATH_1MB_TO_PYTHON_COPIER = Limit(most=2)

# A call from the client's HTTP connection to the extension and back.
STREAMABLE_MS = Limit(most=1)
SSE_MS = Limit(most=1.2)
"""From the request's first byte to the event's last."""

# A call from the host's socket to the extension and back.
HOST_TO_FLOOR = Limit(most=5)
HOST_TO_OTHER_HOST = Limit(most=1)

# Starts.
HELP_MS = Limit(most=150)
FIRST_ANSWER_MS = Limit(most=250)
HOST_READY_MS = Limit(most=120)

# Remote servers.
REMOTE_TO_PACKAGE_MS = Limit(most=2)
"""Of a call through the bridge: ms more than with the mcp package's own client."""
FIRST_REMOTE_LIST_MS = Limit(most=1_200)
"""From the start of a bridge one of whose servers does not answer."""

# The WebSocket proxy.
RELAY_TO_COPIER = Limit(most=3)
"""Processor time of a small message, one call at a time."""
RELAY_TO_NODE = Limit(most=4 / 3)
RELAY_16MB_TO_COPIER = Limit(most=2)
RELAYED_PER_SECOND = Limit(least=20_000)
"""Small messages through one process, 64 calls at once."""
RELAYED_PER_SECOND_TLS = Limit(least=10_000)
IDLE_SOCKET_KB = Limit(most=60)
"""Resident memory of a signed-in client with TLS that sends nothing."""

# Resident memory.
HOST_IDLE_MB = Limit(most=30)
BRIDGE_IDLE_MB = Limit(most=50)
BRIDGE_WITH_PACKAGE_MB = Limit(most=100)

# Many tools, tabs and clients.
LIST_10_000_TOOLS_MS = Limit(most=50)
CALL_AMONG_MANY = Limit(most=1.1)
"""Among 10 000 tools and 100 tabs, to the same among 10 and 1."""
CROWD_P99_MS = Limit(most=5)
"""64 clients that make 1 000 calls a second between them."""

# Resources of pages, and what Claude Code requests at its start.
LIST_10_000_RESOURCES_MS = Limit(most=50)
"""All pages of the list together."""
UPDATE_MS = Limit(most=5)
SAMPLING_MS = Limit(most=1)
READ_1MB_TO_CALL = Limit(most=1)
"""To a call with a text of the same length."""
OPENING_MS = Limit(most=250)
OPENING_MB = Limit(most=50)

# The MCP-B specification, §7.
REGISTRATION_MS = Limit(most=100)
ROUND_TRIP_MS = Limit(most=500)

# What a model pays. Tokens are o200k.
CONNECTED_CORE = Limit(most=1_800)
CONNECTED_ALL = Limit(most=3_700)
PAGES_TOKENS = Limit(most=31_000)
INTERACTIVE_TOKENS = Limit(most=15_000)
PAGES_TO_BEST_PEER = Limit(most=0.75)
FORM_CALLS = Limit(most=3)
FORM_TOKENS = Limit(most=700)
TASK_CALLS_TO_BEST_PEER = Limit(most=1)
TASK_TOKENS_TO_BEST_PEER = Limit(most=0.999)

# Descriptions, of 100, whose first result is the element that is meant.
FOUND_FIRST = Limit(least=95)

# From the parsed document to the answer of `navigate`, for a page with a script that takes 8 s.
HANGING_S = Limit(most=1.5)
WAITING_FOR_LOAD_S = Limit(least=6)

# A call through a real browser, with page tools of either kind.
CHROMIUM_SMALL_TO_FLOOR = Limit(most=1.3)
CHROMIUM_1MB_TO_FLOOR = Limit(most=1.5)

# `--compare`.
TO_OTHER_CHECKOUT = Limit(most=1.05)
