"""What is registered now, browser by browser: for `mcpb status`, which names the missing link."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from install.browsers import Target, known_browsers, user_targets
from install.disk import look
from install.host import Home
from install.machine import this_machine
from install.ownership import Look, installed_wrapper, manifest_fault, wrapper_path
from install.plan import ledger_of, registered_targets
from native_host.home import mcpb_home

COMMAND = "mcpb install-native-host"


@dataclass(frozen=True)
class Registration:
    """One user data directory. `fault` is empty when a browser with this directory can start our host."""

    target: Target
    fault: str = ""
    command: str = ""
    """Mends the fault."""


def registrations(environ: Mapping[str, str] = os.environ, look: Look = look) -> list[Registration]:
    """Of every browser that is there, and of every other directory that we were registered in.

    An empty list: no browser that we know has ever run here.
    """
    home = mcpb_home(environ).absolute()
    return [_registration(target, home, look) for target in present_targets(environ, look)]


def present_targets(environ: Mapping[str, str], look: Look = look) -> list[Target]:
    """The user data directories that exist, and those of manifests that point at our wrapper."""
    known_rows = known_browsers()
    usual = [target for row in known_rows for target in user_targets(row, this_machine(environ), known_rows)]
    present = [target for target in usual if target.data and look(target.data).mode]
    known = {target.manifest for target in present}
    ledger = ledger_of(Home(mcpb_home(environ).absolute(), this_machine(environ).user_home), look)
    return present + [target for target in registered_targets(ledger, look) if target.manifest not in known]


def _registration(target: Target, home: Path, look: Look) -> Registration:
    fault = _fault(target, home, look)
    return Registration(target, fault, COMMAND if fault else "")


def _fault(target: Target, home: Path, look: Look) -> str:
    content = look(target.manifest).content
    if content is None:
        return f"no host manifest at {target.manifest}"
    if fault := manifest_fault(content, wrapper_path(home)):
        return f"{target.manifest} {fault}"
    wrapper = installed_wrapper(home, look)
    if wrapper is None:
        return f"the manifest points at {wrapper_path(home)}, which is missing or not ours"
    if not os.access(wrapper.interpreter, os.X_OK):
        return f"{wrapper_path(home)} starts {wrapper.interpreter}, which is gone"
    return ""
