"""Records of running servers: which of them a URL leads to."""

import os
from pathlib import Path

import pytest

from bridge.state.server_record import ServeRecord, find_own_server, publish_record


@pytest.mark.parametrize(
    ("own", "url", "is_own"),
    [
        ("http://127.0.0.1:3456/", "http://127.0.0.1:3456/mcp", True),
        ("http://127.0.0.1:3456/", "http://localhost:3456/mcp", True),
        ("http://127.0.0.1:3456/", "http://LOCALHOST:3456", True),
        ("http://192.0.2.7:3456/", "http://[::1]:3456/mcp", True),
        ("http://192.0.2.7:3456/", "http://192.0.2.7:3456/mcp", True),
        ("https://localhost/", "https://localhost:443/mcp", True),
        ("http://127.0.0.1:3456/", "http://127.0.0.1:3457/mcp", False),
        ("http://127.0.0.1:3456/", "https://orders.example:3456/mcp", False),
        ("http://127.0.0.1:3456/", "", False),
    ],
)
def test_the_server_that_a_url_leads_to_is_found(tmp_path: Path, own: str, url: str, is_own: bool) -> None:
    tmp_path.chmod(0o700)
    record = ServeRecord(pid=os.getpid(), url=own, started_at=1.0)
    assert find_own_server(tmp_path, url) is None
    with publish_record(tmp_path, record):
        assert (find_own_server(tmp_path, url) == record) is is_own
