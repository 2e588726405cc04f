"""Structured findings about an installation: code, message template, classified values, command.

Text, JSON and redacted output are renderings of one finding: they differ in the function that shows a value.
docs/TROUBLESHOOTING.md lists the codes; a test compares.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Literal

import msgspec

from install.browsers import Target
from install.targets import target_options
from native_host.system.program_name import find_program

Level = Literal["fault", "warning", "note"]
"""A fault breaks the connection; a warning may break it; a note is information."""
Hop = Literal[
    "environment",
    "wrapper",
    "manifest",
    "browser",
    "host",
    "socket",
    "proxy",
    "extension",
    "worker",
    "page",
    "remote",
]
"""Part of the connection, in the order in which a browser uses them.

`proxy`: a WebSocket proxy; `remote`: a remote server.
"""


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class Privacy(Enum):
    """Class of a value; redaction decides by it alone."""

    PUBLIC = auto()
    PATH = auto()
    ORIGIN = auto()
    TITLE = auto()
    PROFILE = auto()
    REMOTE = auto()
    """Name of a remote server, which the user chose."""
    PROGRAM = auto()
    """Name of a program or package that does not belong to mcpb or a browser."""
    USER = auto()
    HOST_NAME = auto()
    FOREIGN_TEXT = auto()
    """Text of other programs and of files that a user edits."""


class Value(msgspec.Struct, frozen=True):
    """Text with its privacy class."""

    text: str
    privacy: Privacy

    def render(self, show: Show) -> str:
        """Return the text that `show` allows."""
        return show(self)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Template with named values."""

    template: str
    values: Mapping[str, Part] = {}

    @property
    def text(self) -> str:
        """All values, unredacted."""
        return self.render(show_all)

    def render(self, show: Show) -> str:
        """Insert the values as `show` allows."""
        return self.template.format_map({name: value.render(show) for name, value in self.values.items()})


Show = Callable[[Value], str]


def show_all(value: Value) -> str:
    """Return the unredacted text."""
    return value.text


def public_value(text: object) -> Value:
    """Classify text of mcpb, of a browser, or a number."""
    return Value(str(text), Privacy.PUBLIC)


def path_value(path: Path | str) -> Value:
    """Classify a path."""
    return Value(str(path), Privacy.PATH)


def foreign_value(text: str) -> Value:
    """Classify text of another program or of a file that a user edits."""
    return Value(text, Privacy.FOREIGN_TEXT)


NOTHING = public_value("")
MCPB = public_value("mcpb")


# ── Commands ────────────────────────────────────────────────────────────────────────────────────────────────


class Mcpb(Enum):
    """Argument that stands for the name that starts this mcpb."""

    NAME = "{mcpb}"
    WITH_SUDO = 'sudo "$(command -v {mcpb})"'
    """sudo has a `PATH` of its own."""


class Command(msgspec.Struct, frozen=True):
    """Shell command that fixes a finding. Rendering quotes its arguments."""

    arguments: tuple[str | Value | Mcpb, ...]
    template: str = "{}"

    @property
    def text(self) -> str:
        """All values, unredacted, as this user's shell finds mcpb."""
        return self.render(show_all, path_value(find_program()))

    def render(self, show: Show, mcpb: Value = MCPB) -> str:
        """Return a line for a shell; `mcpb` is the name that starts this mcpb."""
        name = _quote_argument(show(mcpb))
        return self.template.format(" ".join(_render_argument(each, show, name) for each in self.arguments))


Part = Value | Message | Command


def _render_argument(argument: str | Value | Mcpb, show: Show, mcpb: str) -> str:
    match argument:
        case Mcpb():
            return argument.value.format(mcpb=mcpb)
        case Value():
            return _quote_argument(show(argument))
        case _:
            return shlex.quote(argument)


def _quote_argument(text: str) -> str:
    """Quote for a shell, which expands `~` only outside of quotes."""
    home, tilde, rest = text.partition("~/")
    return f"~/{shlex.quote(rest)}" if tilde and rest and not home else shlex.quote(text)


def mcpb_command(*arguments: str | Value, as_root: bool = False) -> Command:
    """Make a command of this mcpb."""
    return Command((Mcpb.WITH_SUDO if as_root else Mcpb.NAME, *arguments))


INSTALL_COMMAND = mcpb_command("install-native-host")


def make_register_command(target: Target | None, *, replace: bool = False, for_all: bool = False) -> Command:
    """Make the command that registers a browser, or writes only the shared files if `target` is None.

    Args:
        target: directory of manifests.
        replace: replace a file that mcpb did not write.
        for_all: register for all users, as root.
    """
    selected = (
        [path_value(each) if isinstance(each, Path) else each for each in target_options(target)]
        if target
        else []
    )
    system, replacing = ["--system"] * for_all, ["--replace"] * replace
    return mcpb_command("install-native-host", *system, *selected, *replacing, as_root=for_all)


# ── Findings ────────────────────────────────────────────────────────────────────────────────────────────────


class FindingCode(StrEnum):
    """Cause of a finding; stable. docs/TROUBLESHOOTING.md explains each code."""

    APPROVALS_INVALID = "approvals-invalid"
    BROWSER_CONFINED = "browser-confined"
    BROWSER_REMOVED = "browser-removed"
    BROWSERS_OF_WINDOWS = "browsers-of-windows"
    BROWSERS_TABLE = "browsers-table"
    CHANNEL_DEAD = "channel-dead"
    CHANNEL_MISSING = "channel-missing"
    CHANNEL_OLD = "channel-old"
    CHANNEL_UNUSABLE = "channel-unusable"
    CHANNEL_WRAPPER_GONE = "channel-wrapper-gone"
    CONFIG_INVALID = "config-invalid"
    CONNECTED_ELSEWHERE = "connected-elsewhere"
    ENVIRONMENT_SHARED = "environment-shared"
    EXTENSION_DISABLED = "extension-disabled"
    EXTENSION_FOLDER_GONE = "extension-folder-gone"
    EXTENSION_MISSING = "extension-missing"
    EXTENSION_NO_ANSWER = "extension-no-answer"
    EXTENSION_OLD = "extension-old"
    EXTENSION_OTHER_ID = "extension-other-id"
    EXTENSION_REPORTED = "extension-reported"
    EXTENSION_SILENT = "extension-silent"
    HOME_OF_ANOTHER_USER = "home-of-another-user"
    HOST_EXITS = "host-exits"
    HOST_LINGERS = "host-lingers"
    HOST_NOT_LINKED = "host-not-linked"
    HOST_NOT_OURS = "host-not-ours"
    HOST_NOT_STARTED = "host-not-started"
    HOST_OTHER_WIRE = "host-other-wire"
    HOST_OUTDATED = "host-outdated"
    HOST_PRINTS = "host-prints"
    HOST_REFUSES = "host-refuses"
    HOST_SILENT = "host-silent"
    HOST_VERSION = "host-version"
    INTERPRETER_GONE = "interpreter-gone"
    INTERPRETER_TEMPORARY = "interpreter-temporary"
    INTERPRETER_VANISHES = "interpreter-vanishes"
    LEDGER_UNREADABLE = "ledger-unreadable"
    MANIFEST_CALLERS = "manifest-callers"
    MANIFEST_DESCRIPTION = "manifest-description"
    MANIFEST_FOREIGN_PROGRAM = "manifest-foreign-program"
    MANIFEST_MISSING = "manifest-missing"
    MANIFEST_NAME = "manifest-name"
    MANIFEST_NOT_JSON = "manifest-not-json"
    MANIFEST_OF_ANOTHER_MCPB = "manifest-of-another-mcpb"
    MANIFEST_PATH = "manifest-path"
    MANIFEST_RELATIVE_PATH = "manifest-relative-path"
    MANIFEST_SHADOWS = "manifest-shadows"
    MANIFEST_TYPE = "manifest-type"
    MANIFEST_UNKNOWN_KEY = "manifest-unknown-key"
    MANIFEST_UNREADABLE = "manifest-unreadable"
    MCPB_IS_ANOTHER = "mcpb-is-another"
    MCPB_NOT_ON_PATH = "mcpb-not-on-path"
    NEIGHBOUR_ORDER = "neighbour-order"
    NO_BROWSER = "no-browser"
    NOT_CONNECTED = "not-connected"
    NOT_RUNNING = "not-running"
    ORIGIN_MALFORMED = "origin-malformed"
    ORIGIN_MISSING = "origin-missing"
    PACKAGE_TAKEN = "package-taken"
    PAGE_OFFERS_NOTHING = "page-offers-nothing"
    PAUSED = "paused"
    PAUSES_INVALID = "pauses-invalid"
    POLICY_EXTENSION_BLOCKED = "policy-extension-blocked"
    POLICY_HOST_BLOCKED = "policy-host-blocked"
    POLICY_USER_HOSTS = "policy-user-hosts"
    PROGRAM_MISSING = "program-missing"
    PROGRAM_NOT_A_FILE = "program-not-a-file"
    PROGRAM_NOT_EXECUTABLE = "program-not-executable"
    PROGRAM_SHEBANG = "program-shebang"
    PROXY_ADDRESS = "proxy-address"
    PROXY_BUSY = "proxy-busy"
    PROXY_CLOCK = "proxy-clock"
    PROXY_EXTENSION_OLD = "proxy-extension-old"
    PROXY_LOGIN_FILE = "proxy-login-file"
    PROXY_LOST = "proxy-lost"
    PROXY_NOT_SIGNED_IN = "proxy-not-signed-in"
    PROXY_NO_BROWSER = "proxy-no-browser"
    PROXY_TLS = "proxy-tls"
    PROXY_TOKEN_ALGORITHM = "proxy-token-algorithm"  # noqa: S105
    PROXY_TOKEN_ANOTHER_USER = "proxy-token-another-user"  # noqa: S105
    PROXY_TOKEN_AUDIENCE = "proxy-token-audience"  # noqa: S105
    PROXY_TOKEN_CONNECTION_URL = "proxy-token-connection-url"  # noqa: S105
    PROXY_TOKEN_EXPIRED = "proxy-token-expired"  # noqa: S105
    PROXY_TOKEN_ISSUER = "proxy-token-issuer"  # noqa: S105
    PROXY_TOKEN_MALFORMED = "proxy-token-malformed"  # noqa: S105
    PROXY_TOKEN_MISSING = "proxy-token-missing"  # noqa: S105
    PROXY_TOKEN_NOT_YET_VALID = "proxy-token-not-yet-valid"  # noqa: S105
    PROXY_TOKEN_REVOKED = "proxy-token-revoked"  # noqa: S105
    PROXY_TOKEN_SCOPE = "proxy-token-scope"  # noqa: S105
    PROXY_TOKEN_SIGNATURE = "proxy-token-signature"  # noqa: S105
    PROXY_TOKEN_UNKNOWN_KEY = "proxy-token-unknown-key"  # noqa: S105
    PROXY_TOKEN_USER = "proxy-token-user"  # noqa: S105
    PROXY_VERSION = "proxy-version"
    REMOTE_LEFT_OUT = "remote-left-out"
    REMOTE_UNREACHABLE = "remote-unreachable"
    SETTINGS_FOLDER = "settings-folder"
    SHORTCUTS_INVALID = "shortcuts-invalid"
    SITES_NOT_ALLOWED = "sites-not-allowed"
    SOCKET_DIRECTORY = "socket-directory"
    SOCKET_PATH_LONG = "socket-path-long"
    SOCKET_STALE = "socket-stale"
    TAB_NEEDS_RELOAD = "tab-needs-reload"
    TOOLS_FORBIDDEN = "tools-forbidden"
    USER_DATA_DIR = "user-data-dir"
    WIRE_VERSION = "wire-version"
    WRAPPER_CHANGED = "wrapper-changed"
    WRAPPER_EXPOSED = "wrapper-exposed"
    WRAPPER_FOREIGN = "wrapper-foreign"
    WRAPPER_HOME = "wrapper-home"
    WRAPPER_LINK = "wrapper-link"
    WRAPPER_OF_ANOTHER_INSTALLATION = "wrapper-of-another-installation"
    WRAPPER_VERSION = "wrapper-version"


class Finding(Message, frozen=True, kw_only=True):
    """One cause, in one place."""

    code: FindingCode
    hop: Hop
    command: Command | None = None
    """Fixes the cause; None if no command does."""
    level: Level = "fault"
    where: Part = NOTHING
    """Browser, profile or file, as the report calls it elsewhere."""
    is_safe: bool = False
    """True if `mcpb doctor --fix` may run the command: it changes only files of mcpb."""

    @property
    def command_line(self) -> str:
        """Unredacted command; empty without one."""
        return self.command.text if self.command else ""


def name_target(target: Target) -> Part:
    """Return the title of a target with its directory as a value."""
    if target.location is None:
        return public_value(target.browsers)
    if not target.browsers:
        return path_value(target.location)
    return Message(
        template="{browser} in {directory}",
        values={"browser": public_value(target.browsers), "directory": path_value(target.location)},
    )
