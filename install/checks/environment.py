"""Checks of mcpb's own environment: the `mcpb` of a terminal, and packages beside it.

`this_environment` reads; `examine_environment` evaluates.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from install.findings import (
    INSTALL_COMMAND,
    NOTHING,
    Command,
    Finding,
    FindingCode,
    Level,
    Mcpb,
    Message,
    Part,
    Privacy,
    Value,
    path_value,
    public_value,
)
from install.interpreter import find_clone, find_install_script, find_temporary, is_temporary
from install.machine import Machine
from install.wsl import is_wsl

OUR_PACKAGES = (
    "bridge",
    "demo",
    "extension",
    "http_serving",
    "install",
    "manifests",
    "native_host",
    "websocket_proxy",
)
"""Top-level names, plain words all: other distributions may have them too."""
_DISTRIBUTION = "mcpb"
_SECOND_NAME = "mcpb-bridge"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_SHOWN_NEIGHBOURS = 5


@dataclass(frozen=True, kw_only=True)
class Environment:
    """An installed mcpb, and what a terminal finds of it."""

    interpreter: Path
    commands: Path
    found: Path | None
    """Program that a terminal starts as `mcpb`."""
    found_second: Path | None
    """Program that a terminal starts as `mcpb-bridge`."""
    vanishing: str = ""
    """`install.interpreter.find_temporary`."""
    is_temporary: bool = False
    is_home_temporary: bool = False
    """True if the user's home, below which install.sh installs, is temporary as well."""
    is_shared: bool = False
    """True in the system's Python or the user's site directory, outside of a virtual environment."""
    neighbours: Sequence[str] = ()
    """Distributions in the same place that mcpb does not need."""
    rivals: Mapping[str, str] = field(default_factory=dict)
    """Other owners of mcpb's top-level package names."""
    is_in_wsl: bool = False
    clone: Path | None = None
    """`install.interpreter.find_clone`."""


def examine_environment(environment: Environment, wrapper_interpreter: Path | None = None) -> list[Finding]:
    """Return the findings, the worst first.

    `wrapper_interpreter` is the one of the registered wrapper, None without a registration.
    """
    return [
        *_whether_it_stays(environment),
        *_who_lives_there(environment),
        *_whose_wrapper(environment, wrapper_interpreter),
        *_which_mcpb(environment),
        *_beside_windows(environment),
    ]


def _whether_it_stays(environment: Environment) -> list[Finding]:
    interpreter = path_value(environment.interpreter)
    if environment.vanishing:
        template = "this mcpb will not stay: {interpreter} is {reason}"
        values = {"interpreter": interpreter, "reason": public_value(environment.vanishing)}
        return [_fixed_by_installing(FindingCode.INTERPRETER_VANISHES, template, values, environment)]
    if not environment.is_temporary:
        return []
    template = "this mcpb is in a temporary directory ({interpreter}) that the system deletes"
    code, values = FindingCode.INTERPRETER_TEMPORARY, {"interpreter": interpreter}
    if environment.is_home_temporary:
        template += ". Your home is temporary too: pass another directory to install/install.sh, --prefix DIR"
        return [_make_finding(code, template, values, level="warning", where=interpreter)]
    return [_fixed_by_installing(code, template, values, environment, "warning")]


def _who_lives_there(environment: Environment) -> list[Finding]:
    rivals = [
        _fixed_by_installing(
            FindingCode.PACKAGE_TAKEN,
            "{owner} has a package `{name}` too: one of the two does not work",
            {"name": public_value(name), "owner": Value(owner, Privacy.PROGRAM)},
            environment,
        )
        for name, owner in environment.rivals.items()
    ]
    if rivals or not (environment.is_shared or environment.neighbours):
        return rivals
    template = (
        f"this mcpb {'has no environment of its own' if environment.is_shared else 'shares its environment'} "
        "({interpreter}): its packages have plain names such as `bridge`, and other packages can change the "
        "versions of its dependencies"
    )
    values: dict[str, Part] = {"interpreter": path_value(environment.interpreter)}
    if environment.neighbours:
        template += ". Other packages: {packages}"
        values["packages"] = _list_neighbours(environment.neighbours)
    level: Level = "warning" if environment.is_shared else "note"
    return [_fixed_by_installing(FindingCode.ENVIRONMENT_SHARED, template, values, environment, level)]


def _list_neighbours(neighbours: Sequence[str]) -> Part:
    more = len(neighbours) - _SHOWN_NEIGHBOURS
    shown = neighbours[:_SHOWN_NEIGHBOURS]
    template = ", ".join(f"{{part_{number}}}" for number in range(len(shown)))
    values = {f"part_{number}": Value(name, Privacy.PROGRAM) for number, name in enumerate(shown)}
    return Message(template=template + (f" and {more} more" if more > 0 else ""), values=values)


def _whose_wrapper(environment: Environment, wrapper_interpreter: Path | None) -> list[Finding]:
    if wrapper_interpreter is None or wrapper_interpreter == environment.interpreter:
        return []
    if not os.access(wrapper_interpreter, os.X_OK):
        return []  # The checks of the wrapper report it.
    other = path_value(wrapper_interpreter)
    template = (
        "browsers start another installation of mcpb: {other}, not {interpreter}. The command makes them "
        "start this one"
    )
    values = {"other": other, "interpreter": path_value(environment.interpreter)}
    code = FindingCode.WRAPPER_OF_ANOTHER_INSTALLATION
    return [_make_finding(code, template, values, INSTALL_COMMAND, "warning", other)]


def _which_mcpb(environment: Environment) -> list[Finding]:
    if _is_ours(environment.found, environment, _DISTRIBUTION):
        return []
    directory = path_value(environment.commands)
    if environment.found is None:
        template = "a terminal finds no `mcpb`: neither {directory} nor a link to it is on PATH"
        command = Command((directory,), "export PATH={}:$PATH")
        values: dict[str, Part] = {"directory": directory}
        return [_make_finding(FindingCode.MCPB_NOT_ON_PATH, template, values, command, "warning", directory)]
    found = path_value(environment.found)
    template = "`mcpb` in a terminal is {found}, not {own}. In MCP clients and terminals use {called} instead"
    values = {
        "found": found,
        "own": path_value(environment.commands / _DISTRIBUTION),
        "called": Command((command_name(environment),)),
    }
    words = ("claude", "mcp", "add", "--scope", "user", "browser", "--", Mcpb.NAME, "bridge")
    command = Command((*words, "--name", "browser"))
    return [_make_finding(FindingCode.MCPB_IS_ANOTHER, template, values, command, "warning", found)]


def command_name(environment: Environment) -> Value:
    """Return the name that starts this mcpb in a terminal: `mcpb`, its second name, or its path."""
    if _is_ours(environment.found, environment, _DISTRIBUTION):
        return public_value(_DISTRIBUTION)
    if _is_ours(environment.found_second, environment, _SECOND_NAME):
        return public_value(_SECOND_NAME)
    return path_value(environment.commands / _SECOND_NAME)


def _beside_windows(environment: Environment) -> list[Finding]:
    if not environment.is_in_wsl:
        return []
    template = (
        "this is WSL: a browser on Windows looks for native hosts in Windows, where mcpb writes nothing. The "
        "command prints what to do there"
    )
    return [_make_finding(FindingCode.BROWSERS_OF_WINDOWS, template, {}, INSTALL_COMMAND, "note")]


def _is_ours(found: Path | None, environment: Environment, name: str) -> bool:
    return found is not None and found.resolve() == (environment.commands / name).resolve()


def _fixed_by_installing(
    code: FindingCode,
    template: str,
    values: Mapping[str, Part],
    environment: Environment,
    level: Level = "fault",
) -> Finding:
    where, clone_directory = path_value(environment.interpreter), environment.clone
    if clone_directory is None:
        template += (
            ". Install it from its clone into an environment of its own: install/install.sh "
            "(or: pipx install DIR, uv tool install DIR)"
        )
        return _make_finding(code, template, values, level=level, where=where)
    command = Command(("sh", path_value(find_install_script(clone_directory))))
    template += ". Install it into an environment of its own: {script} (or: {pipx}, {uv})"
    ways = {
        "script": command,
        "pipx": Command(("pipx", "install", path_value(clone_directory))),
        "uv": Command(("uv", "tool", "install", path_value(clone_directory))),
    }
    return _make_finding(code, template, {**values, **ways}, command, level, where)


def _make_finding(
    code: FindingCode,
    template: str,
    values: Mapping[str, Part],
    command: Command | None = None,
    level: Level = "fault",
    where: Part = NOTHING,
) -> Finding:
    return Finding(
        code=code,
        hop="environment",
        template=template,
        values=values,
        command=command,
        level=level,
        where=where,
    )


# ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────


def this_environment(machine: Machine) -> Environment:
    """Return the environment of this process. It reads the records of all distributions beside mcpb."""
    prefix, path = Path(sys.prefix), machine.environ.get("PATH", os.defpath)
    ours = _our_distribution()
    is_in_user_site = ours is not None and _is_below(ours.locate_file(""), site.getusersitepackages())
    return Environment(
        interpreter=Path(sys.executable),
        commands=_command_directory(ours),
        found=_find_command(_DISTRIBUTION, path),
        found_second=_find_command(_SECOND_NAME, path),
        vanishing=find_temporary(prefix, machine.user_home, machine.environ),
        is_temporary=is_temporary(prefix),
        is_home_temporary=is_temporary(machine.user_home),
        is_shared=is_in_user_site or not _has_environment(prefix),
        neighbours=[] if _is_editable(ours) else _find_neighbours(),
        rivals=_find_rivals(),
        is_in_wsl=is_wsl(machine),
        clone=find_clone(),
    )


def _has_environment(prefix: Path) -> bool:
    """Return whether it is a virtual environment, or one of conda's, which are whole installations."""
    return sys.prefix != sys.base_prefix or (prefix / "conda-meta").is_dir()


def _our_distribution() -> metadata.Distribution | None:
    """None where mcpb runs from a folder and is not installed."""
    try:
        return metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def _command_directory(ours: metadata.Distribution | None) -> Path:
    """Return the directory of commands: by the record, else beside the interpreter."""
    for file in (ours.files or []) if ours else []:
        if file.name == _DISTRIBUTION and file.parent.name == "bin":
            return Path(os.path.normpath(str(file.locate()))).parent
    return Path(sys.executable).parent


def _find_command(name: str, path: str) -> Path | None:
    found = shutil.which(name, path=path)
    return Path(found).absolute() if found else None


def _is_below(path: object, folder: str) -> bool:
    return Path(str(path)).resolve().is_relative_to(Path(folder).resolve())


def _is_editable(ours: metadata.Distribution | None) -> bool:
    """Return whether it is a developer's clone, whose environment is the developer's own."""
    return ours is None or '"editable": true' in (ours.read_text("direct_url.json") or "")


def _find_neighbours() -> list[str]:
    """All distributions but mcpb and what it needs; markers are not judged: rather one too few."""
    requires = {
        _normalize_name(distribution.name): [
            found[0] for line in distribution.requires or () if (found := _NAME.match(line))
        ]
        for distribution in metadata.distributions()
    }
    needed, waiting = {"pip", "setuptools", "wheel"}, [_DISTRIBUTION]
    while waiting:
        name = _normalize_name(waiting.pop())
        if name not in needed:
            needed.add(name)
            waiting += requires.get(name, [])
    return sorted(set(requires) - needed)


def _normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _find_rivals() -> dict[str, str]:
    """Return other owners of the package names, by record or by import path."""
    owners = metadata.packages_distributions()
    home = _folder_of("native_host")
    found = {}
    for name in OUR_PACKAGES:
        others = sorted({owner for owner in owners.get(name, ()) if _normalize_name(owner) != _DISTRIBUTION})
        if others:
            found[name] = " and ".join(others)
        elif (folder := _folder_of(name)) != home:
            found[name] = str(folder)
    return found


def _folder_of(package: str) -> Path | None:
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).resolve().parent if places else None
