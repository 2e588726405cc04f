"""The page module stands alone, is small, and its declarations are those that TypeScript generates."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from bridge import __version__
from source_trees import ROOT, find_files

MODULE = ROOT / "webmcp"
MAX_LINES = 700
IMPORT = re.compile(r"""\b(?:from|import)\b\s*\(?\s*["']([^"']+)["']""")


def test_it_has_no_more_lines_than_a_reader_can_survey() -> None:
    assert sum(len(path.read_text().splitlines()) for path in MODULE.glob("*.js")) <= MAX_LINES


def test_it_imports_its_own_files_only_and_the_extension_does_not_import_it() -> None:
    own = {f"./{path.name}" for path in MODULE.glob("*.js")}
    imported = {name for path in MODULE.glob("*.js") for name in IMPORT.findall(path.read_text())}
    assert imported <= own
    extension = (path.read_text() for path in find_files("extension", suffix=".js"))
    assert [name for text in extension for name in IMPORT.findall(text) if "webmcp/" in name] == []


def test_the_declarations_are_those_that_typescript_generates(tmp_path: Path) -> None:
    """If this fails: copy the generated file to webmcp/register.d.ts."""
    options = [
        "--ignoreConfig",
        "--allowJs",
        "--strict",
        "--declaration",
        "--emitDeclarationOnly",
        "--removeComments",
    ]
    target = [
        "--target",
        "esnext",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
        "--outDir",
        str(tmp_path),
    ]
    compiler = ROOT / "node_modules/.bin/tsc"
    subprocess.run([compiler, *options, *target, MODULE / "register.js"], check=True)
    assert (MODULE / "register.d.ts").read_text() == (tmp_path / "register.d.ts").read_text()


def test_its_versions_are_those_of_the_package() -> None:
    assert json.loads((MODULE / "package.json").read_text())["version"] == __version__
    (version,) = re.findall(r'CLIENT_INFO = {.*version: "([^"]+)"', (MODULE / "http_client.js").read_text())
    assert version == __version__
