"""approvals.json: what the person has allowed always, shared by all bridges and open to an editor."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.browser_tools.approvals import Approvals, ApprovalsError

SHOP = "https://shop.example"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory


def write(state: Path, text: str) -> None:
    (state / "approvals.json").write_text(text)


def test_without_a_file_nothing_is_allowed_and_none_is_made(tmp_path: Path) -> None:
    assert not Approvals(tmp_path / "state").has(SHOP)
    assert list(tmp_path.iterdir()) == []


def test_what_is_allowed_is_kept_for_others_with_the_day_and_the_client_for_this_user_alone(
    tmp_path: Path,
) -> None:
    ours, others = Approvals(tmp_path / "state"), Approvals(tmp_path / "state")
    assert not others.has(SHOP)
    ours.add([SHOP, "http://localhost:3000"], "Agent in app")
    assert others.has(SHOP)
    assert others.has("http://localhost:3000")
    assert not others.has("http://shop.example")
    path = tmp_path / "state" / "approvals.json"
    assert json.loads(path.read_text())[SHOP].keys() == {"since", "client"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["approvals.json"]


@pytest.mark.parametrize(
    "written", [SHOP, f"{SHOP}/", "https://Shop.example:443/cart?x=1", "https://shop.example."]
)
def test_a_site_may_be_written_by_hand_in_any_way_that_means_it(state: Path, written: str) -> None:
    write(state, json.dumps({written: {}}))
    assert Approvals(state).has(SHOP)
    assert Approvals(state).has("https://shop.example.")
    assert not Approvals(state).has("https://www.shop.example")


def test_a_change_by_hand_is_seen_at_once_and_survives_what_is_added_after_it(state: Path) -> None:
    approvals = Approvals(state)
    approvals.add([SHOP], "Agent")
    write(state, '{"https://tea.example": {"client": "me"}}')
    assert approvals.has("https://tea.example")
    assert not approvals.has(SHOP)
    approvals.add([SHOP], "Agent")
    found = json.loads((state / "approvals.json").read_text())
    assert found["https://tea.example"] == {"client": "me"}
    assert found[SHOP]["client"] == "Agent"
    (state / "approvals.json").unlink()
    assert not approvals.has(SHOP)


def test_bridges_that_write_at_once_lose_nothing(state: Path) -> None:
    sites = [f"https://shop{number}.example" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda site: Approvals(state).add([site], "Agent"), sites))
    assert sorted(json.loads((state / "approvals.json").read_text())) == sorted(sites)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n  "https://shop.example": {},\n}', "it is no JSON: "),
        ("", "it is no JSON: Expecting value in line 1"),
        ('["https://shop.example"]', "it is no object: write"),
        ('{"shop.example": {}}', '"shop.example" is no site: web pages are at http:// and https:// only'),
        ('{"https://*.shop.example": {}}', '"https://*.shop.example" is no site'),
        ('{"https://shop.example": true}', 'what stands behind "https://shop.example" cannot be'),
        ('{"https://shop.example": {"allow": false}}', 'what stands behind "https://shop.example" cannot be'),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_a_broken_file_allows_nothing_says_where_and_is_not_written_over(
    state: Path, text: str, says: str
) -> None:
    write(state, text)
    approvals = Approvals(state)
    for use in (lambda: approvals.has(SHOP), lambda: approvals.add([SHOP], "Agent")):
        with pytest.raises(ApprovalsError) as refused:
            use()
        assert str(refused.value).startswith(f"{state / 'approvals.json'}: {says}")
        assert str(refused.value).endswith("Mend it, or remove it to be asked again")
    assert (state / "approvals.json").read_text() == text
    write(state, "{}")
    assert not approvals.has(SHOP)


def test_a_file_that_others_could_have_written_is_not_read(state: Path) -> None:
    write(state, '{"https://shop.example": {}}')
    (state / "approvals.json").chmod(0o666)
    with pytest.raises(ApprovalsError, match=r"can be written by others.*chmod go-w"):
        Approvals(state).has(SHOP)


def test_a_directory_that_is_open_to_others_keeps_nothing(state: Path) -> None:
    state.chmod(0o755)
    with pytest.raises(ApprovalsError, match="is not a private directory of yours"):
        Approvals(state).add([SHOP], "Agent")


def test_a_link_stays_one(state: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    (state / "approvals.json").symlink_to(target)
    Approvals(state).add([SHOP], "Agent")
    assert (state / "approvals.json").is_symlink()
    assert SHOP in json.loads(target.read_text())
