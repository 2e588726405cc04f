"""What tests of the site boundary share: config.toml, rules in force, tabs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from demo.devtools import DevToolsError
from tool_browser import Browsing

POLL_S = 0.02


@contextmanager
def config_file(browsing: Browsing, text: str) -> Iterator[None]:
    """Write config.toml and remove it when the block ends."""
    path = browsing.chain.home / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def wait_true(condition: Callable[[], object], within_s: float = 30) -> None:
    """Ask again and again until a condition holds that no event reports."""
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(POLL_S)  # other tests run beside this one


def rule_count(browsing: Browsing) -> int:
    """Return how many rules of the network stack are in force for tabs: those without a tab stay longer."""
    rules = browsing.ask_extension("chrome.declarativeNetRequest.getSessionRules()")
    return sum(rule["condition"].get("tabIds") != [-1] for rule in rules)


def close_tabs(browsing: Browsing) -> None:
    """Close all tabs but one, and wait until no site rule is in force.

    Any tab may stay (the browser lists them in no order): call it when the clients have left.
    """
    for target in browsing.browser.targets()[1:]:
        with suppress(DevToolsError):  # a picture-in-picture window goes with its page
            browsing.browser.send("Target.closeTarget", targetId=target["targetId"])
    wait_true(lambda: rule_count(browsing) == 0)
