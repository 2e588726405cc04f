"""What an installation gets: the wheel has everything that is needed, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "native_host",
    "http_serving",
    "websocket_proxy",
    "bridge",
    "install",
    "manifests",
    "extension",
    "webmcp",
    "demo",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(directory / "unpacked")
    return directory / "unpacked"


def files_below(root: Path, package: str) -> set[str]:
    found = (path for path in (root / package).rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)) for path in found}


def test_its_top_level_names_are_the_folders_of_the_architecture(wheel: Path) -> None:
    """Plain words are taken in a shared environment: no further one may slip in."""
    names = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert names == PACKAGES


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_it_has_every_file_of_a_package_but_shell_scripts(wheel: Path, package: str) -> None:
    wanted = {path for path in files_below(ROOT, package) if not path.endswith(".sh")}
    assert files_below(wheel, package) == wanted


def test_the_command_runs_from_it_and_copies_the_extension(wheel: Path, mcpb_home: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(wheel)}
    command = [
        sys.executable,
        "-c",
        "import bridge.cli.group; print(bridge.cli.group.__file__); bridge.cli.group.main()",
    ]
    run = subprocess.run(
        [*command, "extension"], env=env, cwd=mcpb_home, check=True, capture_output=True, text=True
    )
    assert run.stdout.startswith(str(wheel))
    copied = {path.name for path in (mcpb_home / "extension").iterdir()}
    assert {"manifest.json", "worker", "content", "popup", "icons"} <= copied
    assert (mcpb_home / "extension/icons/connected-128.png").stat().st_size > 1000
    assert not [name for name in copied if name.startswith("_")]
    for _ in range(2):  # into an earlier copy, too
        subprocess.run(
            [*command, "webmcp", "webmcp"], env=env, cwd=mcpb_home, check=True, capture_output=True
        )
    assert files_below(mcpb_home, "webmcp") == files_below(ROOT, "webmcp")


def test_a_plain_installation_contains_no_nats_client(wheel: Path) -> None:
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    installed = find_installed(re.findall(r"^Requires-Dist: (.+)", metadata.read_text(), re.MULTILINE))
    assert {"trio", "wsproto", "cryptography"} <= installed
    assert [name for name in installed if "nats" in name] == []


def find_installed(requirements: Iterable[str], extras: Iterable[str] = ()) -> set[str]:
    """Names of the distributions that these requirements bring, here and in turn."""
    found: set[str] = set()
    for text in requirements:
        each = Requirement(text)
        if not each.marker or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            own = requires(each.name) or []
            found |= {each.name.lower(), *find_installed(own, each.extras)}
    return found
