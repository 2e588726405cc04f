"""A newcomer finds a file by the term of the field, in the list of files alone."""

from __future__ import annotations

import pytest

from source_trees import PRODUCT, ROOT, find_files

FILES = {
    "rate_limit": "native_host/protocol/rate_limit.py",
    "bearer_token": "bridge/frontends/http/bearer_token.py",
    "authorization": "bridge/frontends/http/authorization.py",
    "elicitation": "bridge/mcp_session/elicitation.py",
    "input_required": "bridge/mcp_session/input_required.py",
    "chunking": "native_host/protocol/chunking.py",
    "coalescing": "native_host/relay/coalescing.py",
    "event_store": "bridge/frontends/http/event_store.py",
    "argument_validation": "bridge/hub/argument_validation.py",
    "public_names": "bridge/hub/public_names.py",
    "permissions": "bridge/browser_tools/session/permissions.py",
    "redaction": "bridge/diagnostics/redaction.py",
}
"""The file of each search term."""


@pytest.mark.parametrize("term", FILES)
def test_a_search_term_matches_one_file(term: str) -> None:
    paths = (str(path.relative_to(ROOT)) for path in find_files(*PRODUCT, "benchmarks", suffix=".py"))
    assert [path for path in paths if term in path] == [FILES[term]]
