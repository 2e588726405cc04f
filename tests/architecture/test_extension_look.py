"""Icons of the extension are those of their script, and the popup has the colors of the status page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from extension_icons import FOLDER, SIZES, draw_all
from source_trees import ROOT

MAX_BYTES = 20_000
"""All icons together: each copy of the extension has them."""
MAX_DIFFERENCE = 2
"""Per channel, of 255: versions of Pillow round differently."""
STATUS_PAGE = ROOT / "bridge/frontends/http/status_page/page.css"


@pytest.mark.parametrize(("file", "drawn"), list(draw_all()), ids=lambda value: getattr(value, "name", ""))
def test_an_icon_is_up_to_date(file: Path, drawn: Image.Image) -> None:
    with Image.open(file) as stored:
        difference = ImageChops.difference(stored.convert("RGBA"), drawn)
    assert max(difference.tobytes()) <= MAX_DIFFERENCE, "run: make icons"


def test_the_icons_are_small_and_the_manifest_names_them() -> None:
    files = {f"icons/{path.name}" for path in FOLDER.iterdir()}
    assert files == {f"icons/{state}-{size}.png" for state, sizes in SIZES.items() for size in sizes}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MAX_BYTES
    manifest = json.loads((ROOT / "extension/manifest.json").read_bytes())
    assert {*manifest["icons"].values(), *manifest["action"]["default_icon"].values()} <= files


def test_the_popup_has_the_colors_of_the_status_page() -> None:
    def colors(path: Path) -> list[str]:
        return re.findall(r"--[\w-]+: #[0-9a-f]{6}", path.read_text())

    assert colors(ROOT / "extension/popup/popup.css") == colors(STATUS_PAGE)
    assert len(colors(STATUS_PAGE)) == 24
