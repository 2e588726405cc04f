"""Files of the home issuer: private, held by one process, complete after a crash."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from native_host.system.home_layout import StateLayout
from native_host.system.private_files import PrivateFileError, draft_of
from proxy_tokens import NOW
from websocket_proxy.issuer import TokenFamily
from websocket_proxy.protocol import Role
from websocket_proxy.token_store import open_store, read_home_key

FAMILY = TokenFamily(
    id="f1",
    role=Role.CLIENT,
    client_id="cli",
    client_name="laptop",
    address="127.0.0.1",
    created_at=NOW,
    refreshed_at=NOW,
    sha256="00",
)


def test_the_key_and_its_user_are_created_once(tmp_path: Path) -> None:
    assert read_home_key(tmp_path) is None
    with open_store(tmp_path) as store:
        key = store.key
    with open_store(tmp_path) as store:
        assert store.key.user_id == key.user_id
        assert store.key.signing.key_id == key.signing.key_id
        assert store.key.refresh_secret == key.refresh_secret
        found = read_home_key(tmp_path)
        assert found is not None
        assert found.signing.jwk == key.signing.jwk


def test_only_the_user_can_read_the_files(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
    directory = StateLayout(tmp_path).proxy
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {
        "issuer.json": 0o600,
        "families.json": 0o600,
    }


def test_families_are_there_after_a_restart(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        assert store.families == []
        store.save([FAMILY])
    with open_store(tmp_path) as store:
        assert store.families == [FAMILY]


def test_families_of_an_earlier_key_are_ignored(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
    (StateLayout(tmp_path).proxy / "issuer.json").unlink()
    with open_store(tmp_path) as store:
        assert store.families == []


def test_one_process_at_a_time_holds_the_files(tmp_path: Path) -> None:
    expected = pytest.raises(PrivateFileError, match="another `mcpb proxy serve`")
    with open_store(tmp_path), expected, open_store(tmp_path):
        pass
    with open_store(tmp_path):
        pass


@pytest.mark.parametrize("name", ["issuer.json", "families.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"\xff", b'{"user_id": 7}'])
def test_a_damaged_file_is_reported_with_its_path_and_stays(
    tmp_path: Path, name: str, content: bytes
) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
    path = StateLayout(tmp_path).proxy / name
    path.write_bytes(content)
    with pytest.raises(PrivateFileError) as caught, open_store(tmp_path):
        pass
    assert caught.value.path == path
    assert caught.value.command
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["issuer.json", "families.json"])
def test_a_file_that_others_can_read_is_rejected(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
    (StateLayout(tmp_path).proxy / name).chmod(0o644)
    with pytest.raises(PrivateFileError), open_store(tmp_path):
        pass


def test_a_crash_while_writing_leaves_the_earlier_families(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
    draft_of(StateLayout(tmp_path).proxy / "families.json").write_bytes(b'{"user_id": "8')
    with open_store(tmp_path) as store:
        assert store.families == [FAMILY]
        store.save([])
    with open_store(tmp_path) as store:
        assert store.families == []


def test_families_that_cannot_be_written_leave_the_earlier_ones(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save([FAMILY])
        draft = draft_of(StateLayout(tmp_path).proxy / "families.json")
        draft.mkdir()
        with pytest.raises(PrivateFileError):
            store.save([])
        draft.rmdir()
    with open_store(tmp_path) as store:
        assert store.families == [FAMILY]
