"""Results of remote MCP servers as text, with the examples that the page module is tested with too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.links.remote_content import to_text

EXAMPLES = json.loads((Path(__file__).parents[2] / "data/content_to_text.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["name"] for example in EXAMPLES])
def test_a_result_becomes_the_text_of_its_example(example: dict[str, Any]) -> None:
    assert to_text(example["result"]) == example["text"]
