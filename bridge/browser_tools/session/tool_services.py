"""Services that every call of a browser tool uses: registry, transport, policy, settings, approvals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.browser_tools.tool import Tool
from bridge.config.settings import BrowserSettings
from bridge.hub.change_signal import ChangeSignal
from bridge.hub.client_session import Session
from bridge.hub.consent.approval_prompts import ApprovalPrompts
from bridge.hub.policy import Policy
from bridge.hub.registry import Registry
from bridge.hub.transport import TabTransport
from bridge.state.site_approvals import Approvals
from native_host.protocol import wire


@dataclass
class ToolServices:
    """The services of all calls. Only `settings` is replaced, when config.toml changes."""

    registry: Registry
    transport: TabTransport
    news: ChangeSignal
    policy: Policy
    settings: BrowserSettings
    home: Path
    approvals: Approvals
    prompts: ApprovalPrompts
    settle: Callable[[], Awaitable[None]]
    """Wait until the connected browsers have announced their tabs."""
    whats_missing: Callable[[], str]
    """Return why no browser is connected, and the command that repairs it."""
    tools: Mapping[str, Tool[Any, Any]]
    new_tab_request: Callable[[Session, str], wire.CreateTab]
    """Return the request for a tab of a session at an address."""
    sites_changed: Callable[[], None] = lambda: None
    """Notify the browsers: a session may use other sites, and its next command needs the new rules."""
