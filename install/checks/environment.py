"""What is wrong with where mcpb itself is installed: which `mcpb` a terminal finds, and whom it lives with.

`this_environment` looks; `examine_environment` judges what it is given.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import site
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from install.findings import Finding, Level
from install.interpreter import clone, how_to_install, installing, is_temporary, vanishing
from install.machine import Machine
from install.wsl import is_wsl

OUR_PACKAGES = ("bridge", "demo", "extension", "http_serving", "install", "manifests", "native_host")
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
    """The folder of its commands."""
    found: Path | None
    """What a terminal starts as `mcpb`."""
    found_second: Path | None
    """What it starts as `mcpb-bridge`."""
    vanishing: str = ""
    """`install.interpreter.vanishing`."""
    is_temporary: bool = False
    is_home_temporary: bool = False
    """The person's home is so as well, below which install.sh puts it."""
    is_shared: bool = False
    """In the system's Python or the person's own site directory, not in an environment of its own."""
    neighbours: Sequence[str] = ()
    """Distributions in the same place that mcpb does not need."""
    rivals: Mapping[str, str] = field(default_factory=dict)
    """Our top-level names that are somebody else's as well, or instead: whose."""
    is_in_wsl: bool = False
    clone: Path | None = None
    """`install.interpreter.clone`."""


def examine_environment(environment: Environment, wrapper_interpreter: Path | None = None) -> list[Finding]:
    """What is wrong with it; the worst first.

    `wrapper_interpreter` is what the registered wrapper starts, None when none of ours is registered.
    """
    return [
        *_whether_it_stays(environment),
        *_who_lives_there(environment),
        *_whose_wrapper(environment, wrapper_interpreter),
        *_which_mcpb(environment),
        *_beside_windows(environment),
    ]


def _whether_it_stays(environment: Environment) -> list[Finding]:
    where = environment.interpreter
    if environment.vanishing:
        text = f"this mcpb will not stay: {where} is {environment.vanishing}"
        return [_mended_by_installing("interpreter-vanishes", text, environment)]
    if environment.is_temporary:
        text = f"this mcpb is in a temporary folder ({where}) and is gone when that is cleaned up"
        if environment.is_home_temporary:
            text += ". So is your home: give install/install.sh another folder, --prefix DIR"
            return [_finding("interpreter-temporary", text, "", "warning", str(where))]
        return [_mended_by_installing("interpreter-temporary", text, environment, "warning")]
    return []


def _who_lives_there(environment: Environment) -> list[Finding]:
    rivals = [
        _mended_by_installing(
            "package-taken",
            f"the package `{name}` of this mcpb is that of {owner} as well: one of the two does not work",
            environment,
        )
        for name, owner in environment.rivals.items()
    ]
    if rivals or not (environment.is_shared or environment.neighbours):
        return rivals
    whose = "no environment of its own" if environment.is_shared else "an environment that it shares"
    text = (
        f"this mcpb has {whose} ({environment.interpreter}): its packages have plain names such as `bridge`, "
        f"and what others need there can change what it needs{_beside(environment.neighbours)}"
    )
    level: Level = "warning" if environment.is_shared else "note"
    return [_mended_by_installing("environment-shared", text, environment, level)]


def _beside(neighbours: Sequence[str]) -> str:
    if not neighbours:
        return ""
    more = len(neighbours) - _SHOWN_NEIGHBOURS
    named = ", ".join(neighbours[:_SHOWN_NEIGHBOURS]) + (f" and {more} more" if more > 0 else "")
    return f". Beside it: {named}"


def _whose_wrapper(environment: Environment, wrapper_interpreter: Path | None) -> list[Finding]:
    if wrapper_interpreter is None or wrapper_interpreter == environment.interpreter:
        return []
    if not os.access(wrapper_interpreter, os.X_OK):
        return []  # that is the wrapper's own finding
    text = (
        f"browsers start another installation of mcpb: {wrapper_interpreter}, and not "
        f"{environment.interpreter}, which is asked now. The command makes them start this one"
    )
    where = str(wrapper_interpreter)
    return [_finding("wrapper-of-another-installation", text, "mcpb install-native-host", "warning", where)]


def _which_mcpb(environment: Environment) -> list[Finding]:
    if _is_ours(environment.found, environment, _DISTRIBUTION):
        return []
    if environment.found is None:
        text = f"a terminal finds no `mcpb`: {environment.commands} is not on PATH, nor is a link to it"
        command = f"export PATH={shlex.quote(str(environment.commands))}:$PATH"
        return [_finding("mcpb-not-on-path", text, command, "warning", str(environment.commands))]
    text = (
        f"`mcpb` in a terminal is {environment.found}, and not {environment.commands / _DISTRIBUTION}, which "
        f"is asked now. In MCP clients and terminals say {called(environment)} instead"
    )
    command = f"claude mcp add browser -- {called(environment)} bridge"
    return [_finding("mcpb-is-another", text, command, "warning", str(environment.found))]


def called(environment: Environment) -> str:
    """What a terminal starts this mcpb with: `mcpb`, its second name, or the path of its command, quoted."""
    if _is_ours(environment.found, environment, _DISTRIBUTION):
        return _DISTRIBUTION
    if _is_ours(environment.found_second, environment, _SECOND_NAME):
        return _SECOND_NAME
    return shlex.quote(str(environment.commands / _SECOND_NAME))


def _beside_windows(environment: Environment) -> list[Finding]:
    if not environment.is_in_wsl:
        return []
    text = (
        "this is WSL: a browser of Windows looks for native hosts in Windows, where mcpb writes nothing. The "
        "command prints what to do there"
    )
    return [_finding("browsers-of-windows", text, "mcpb install-native-host", "note")]


def _is_ours(found: Path | None, environment: Environment, name: str) -> bool:
    return found is not None and found.resolve() == (environment.commands / name).resolve()


def _mended_by_installing(code: str, text: str, environment: Environment, level: Level = "fault") -> Finding:
    how, command = how_to_install(environment.clone), installing(environment.clone)
    return _finding(code, f"{text}. {how}", command, level, str(environment.interpreter))


def _finding(code: str, text: str, command: str, level: Level = "fault", where: str = "") -> Finding:
    return Finding(code=code, hop="environment", text=text, command=command, level=level, where=where)


# ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────


def this_environment(machine: Machine) -> Environment:
    """The one that runs this process. It reads the records of all distributions beside us."""
    prefix, path = Path(sys.prefix), machine.environ.get("PATH", os.defpath)
    ours = _our_distribution()
    is_in_user_site = ours is not None and _is_below(ours.locate_file(""), site.getusersitepackages())
    return Environment(
        interpreter=Path(sys.executable),
        commands=_commands(ours),
        found=_which(_DISTRIBUTION, path),
        found_second=_which(_SECOND_NAME, path),
        vanishing=vanishing(prefix, machine.user_home, machine.environ),
        is_temporary=is_temporary(prefix),
        is_home_temporary=is_temporary(machine.user_home),
        is_shared=is_in_user_site or not _has_environment(prefix),
        neighbours=[] if _is_editable(ours) else _neighbours(),
        rivals=_rivals(),
        is_in_wsl=is_wsl(machine),
        clone=clone(),
    )


def _has_environment(prefix: Path) -> bool:
    """Whether it is a virtual environment, or one of conda's, which are whole installations."""
    return sys.prefix != sys.base_prefix or (prefix / "conda-meta").is_dir()


def _our_distribution() -> metadata.Distribution | None:
    """None where mcpb runs from a folder and is not installed."""
    try:
        return metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def _commands(ours: metadata.Distribution | None) -> Path:
    """The record says where the commands went; beside the interpreter in every virtual environment."""
    for file in (ours.files or []) if ours else []:
        if file.name == _DISTRIBUTION and file.parent.name == "bin":
            return Path(os.path.normpath(str(file.locate()))).parent
    return Path(sys.executable).parent


def _which(name: str, path: str) -> Path | None:
    found = shutil.which(name, path=path)
    return Path(found).absolute() if found else None


def _is_below(path: object, folder: str) -> bool:
    return Path(str(path)).resolve().is_relative_to(Path(folder).resolve())


def _is_editable(ours: metadata.Distribution | None) -> bool:
    """A developer's clone: what else is in that environment is the developer's own affair."""
    return ours is None or '"editable": true' in (ours.read_text("direct_url.json") or "")


def _neighbours() -> list[str]:
    """All distributions but mcpb and what it needs; markers are not judged: rather one too few."""
    requires = {
        _normal(distribution.name): [
            found[0] for line in distribution.requires or () if (found := _NAME.match(line))
        ]
        for distribution in metadata.distributions()
    }
    needed, waiting = {"pip", "setuptools", "wheel"}, [_DISTRIBUTION]
    while waiting:
        name = _normal(waiting.pop())
        if name not in needed:
            needed.add(name)
            waiting += requires.get(name, [])
    return sorted(set(requires) - needed)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _rivals() -> dict[str, str]:
    """Who else owns our names by its record, or from where Python takes them if not from beside us."""
    owners = metadata.packages_distributions()
    home = _folder_of("native_host")
    found = {}
    for name in OUR_PACKAGES:
        others = sorted({owner for owner in owners.get(name, ()) if _normal(owner) != _DISTRIBUTION})
        if others:
            found[name] = " and ".join(others)
        elif (folder := _folder_of(name)) != home:
            found[name] = str(folder)
    return found


def _folder_of(package: str) -> Path | None:
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).resolve().parent if places else None
