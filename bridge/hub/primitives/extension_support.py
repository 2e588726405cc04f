"""Support of a browser's extension for resources of pages: an older extension has only tools."""

from __future__ import annotations

from bridge.errors import CallError
from bridge.hub.registry import Browser, Registry
from native_host.protocol.wire import Code

MCP_REQUEST = "browser/mcp"
WATCH = "browser/watchResource"


def has_command(browser: Browser, command: str) -> bool:
    """Return whether the extension of a browser has a command, as far as that is known."""
    return browser.hello is None or command in browser.hello.capabilities.commands


def check_extension(browser: Browser, command: str) -> None:
    """Check that the extension of a browser has a command.

    Raises:
        CallError: it is older than this bridge; the text says how to update it.
    """
    if not has_command(browser, command):
        raise _too_old(browser)


def check_extensions(registry: Registry) -> None:
    """Check that the extension of some connected browser knows resources.

    Raises:
        CallError: all are too old.
    """
    browsers = [browser for browser in registry.browsers() if not browser.is_channel]
    if browsers and not any(has_command(browser, MCP_REQUEST) for browser in browsers):
        raise _too_old(browsers[0])


def _too_old(browser: Browser) -> CallError:
    hello = browser.hello
    version, brand = (hello.extension.version, hello.browser.brand) if hello else ("", "")
    detail = f"the extension in {brand} ({version}) has tools of pages, but neither resources nor prompts"
    then = "Ask the user to run `mcpb extension` and to reload it on the browser's page of extensions."
    return CallError(Code.WIRE_VERSION, detail, handed=False, then=then)
