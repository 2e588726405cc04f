"""approvals.json: approvals of sites, shared by all bridges and open to an editor."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridge.state.site_approvals import Approvals, ApprovalsError

SHOP = "https://shop.example"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory


def write(state: Path, text: str) -> None:
    (state / "approvals.json").write_text(text)


def test_without_a_file_nothing_is_allowed_and_none_is_made(tmp_path: Path) -> None:
    assert not Approvals(tmp_path / "state").has(SHOP, "act", "Agent")
    assert list(tmp_path.iterdir()) == []


def test_grants_reach_other_processes_in_a_file_for_this_user_alone(tmp_path: Path) -> None:
    ours, others = Approvals(tmp_path / "state"), Approvals(tmp_path / "state")
    assert not others.has(SHOP, "act", "Agent")
    ours.grant([SHOP, "http://localhost:3000"], ["act"])
    assert others.has(SHOP, "act", "Agent")
    assert others.has("http://localhost:3000", "act", "Agent")
    assert not others.has("http://shop.example", "act", "Agent")
    path = tmp_path / "state" / "approvals.json"
    assert json.loads(path.read_text())[SHOP].keys() == {"since", "for"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["approvals.json"]


def test_act_includes_read_and_no_word_includes_another(state: Path) -> None:
    approvals = Approvals(state)
    approvals.grant([SHOP], ["act"])
    assert approvals.has(SHOP, "read", "Agent")
    assert not approvals.has(SHOP, "page-tools", "Agent")
    approvals.grant(["https://tea.example"], ["read"])
    assert not approvals.has("https://tea.example", "act", "Agent")


def test_grants_for_one_client_hold_for_no_other(state: Path) -> None:
    approvals = Approvals(state)
    approvals.grant([SHOP], ["act"], client="Agent")
    assert approvals.has(SHOP, "act", "Agent")
    assert not approvals.has(SHOP, "act", "Other")
    approvals.grant([SHOP], ["read"])
    assert approvals.has(SHOP, "read", "Other")
    assert not approvals.has(SHOP, "act", "Other")


def test_grants_end_and_leave_the_file_with_the_next_change(state: Path) -> None:
    approvals = Approvals(state)
    approvals.grant([SHOP], ["act"], lasts_s=3600)
    assert approvals.has(SHOP, "act", "Agent")
    write(state, json.dumps({SHOP: {"for": ["act"], "until": "2026-01-01T00:00:00+00:00"}}))
    assert not approvals.has(SHOP, "act", "Agent")
    assert approvals.read_all() == []
    approvals.grant(["https://tea.example"], ["act"])
    assert list(json.loads((state / "approvals.json").read_text())) == ["https://tea.example"]


def test_entries_of_earlier_versions_are_for_act_and_every_client(state: Path) -> None:
    write(state, json.dumps({SHOP: {"since": "2026-11-01", "client": "Agent in app"}}))
    approvals = Approvals(state)
    assert approvals.has(SHOP, "act", "Other")
    assert not approvals.has(SHOP, "page-tools", "Other")


def test_unknown_members_and_words_have_no_effect_and_are_kept(state: Path) -> None:
    entry = {"for": ["read", "sampling"], "tokensPerHour": 20}
    write(state, json.dumps({SHOP: entry}))
    approvals = Approvals(state)
    assert approvals.has(SHOP, "read", "Agent")
    approvals.grant([SHOP], ["act"])
    found = json.loads((state / "approvals.json").read_text())[SHOP]
    assert found[0] == entry
    assert found[1]["for"] == ["act"]


def test_the_same_grant_again_renews_the_stored_one(state: Path) -> None:
    approvals = Approvals(state)
    for _ in range(3):
        approvals.grant([SHOP], ["act"], client="Agent", lasts_s=60)
    assert len(approvals.read_all()) == 1
    approvals.grant([SHOP], ["act"], client="Agent")
    assert [each.approval.until for each in approvals.read_all()] == [""]
    approvals.grant([SHOP], ["act"], client="Agent", lasts_s=60)
    assert approvals.read_all()[0].approval.until == ""


@pytest.mark.parametrize(
    ("word", "client", "left"),
    [
        ("", None, set()),
        ("act", None, {("read", "Agent")}),
        ("read", None, set()),
        ("act", "", {("read", "Agent")}),
        ("", "Agent", {("act", "")}),
        ("page-tools", None, {("read", "Agent"), ("act", "")}),
    ],
)
def test_revoking_removes_what_is_named_and_what_includes_it(
    state: Path, word: str, client: str | None, left: set[tuple[str, str]]
) -> None:
    approvals = Approvals(state)
    approvals.grant([SHOP], ["read"], client="Agent")
    approvals.grant([SHOP], ["act"])
    approvals.grant(["https://tea.example"], ["act"])
    revoked = approvals.revoke(f"{SHOP}.", word, client)
    found = {
        (each.granted_actions[0], each.only_client) for origin, each in approvals.read_all() if origin == SHOP
    }
    assert found == left
    assert revoked == 2 - len(left)
    assert approvals.has("https://tea.example", "act", "Other")


@pytest.mark.parametrize(
    "written", [SHOP, f"{SHOP}/", "https://Shop.example:443/cart?x=1", "https://shop.example."]
)
def test_a_site_may_be_written_by_hand_in_any_way_that_means_it(state: Path, written: str) -> None:
    write(state, json.dumps({written: {}}))
    assert Approvals(state).has(SHOP, "act", "Agent")
    assert Approvals(state).has("https://shop.example.", "act", "Agent")
    assert not Approvals(state).has("https://www.shop.example", "act", "Agent")


def test_a_change_by_hand_is_seen_at_once_and_survives_what_is_added_after_it(state: Path) -> None:
    approvals = Approvals(state)
    approvals.grant([SHOP], ["act"])
    write(state, '{"https://tea.example": {"client": "me"}}')
    assert approvals.has("https://tea.example", "act", "Agent")
    assert not approvals.has(SHOP, "act", "Agent")
    approvals.grant([SHOP], ["act"])
    found = json.loads((state / "approvals.json").read_text())
    assert found["https://tea.example"] == {"client": "me"}
    assert found[SHOP]["for"] == ["act"]
    (state / "approvals.json").unlink()
    assert not approvals.has(SHOP, "act", "Agent")


def test_bridges_that_write_at_once_lose_nothing(state: Path) -> None:
    sites = [f"https://shop{number}.example" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda site: Approvals(state).grant([site], ["act"]), sites))
    assert sorted(json.loads((state / "approvals.json").read_text())) == sorted(sites)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n  "https://shop.example": {},\n}', "it is not JSON: "),
        ("", "it is not JSON: Expecting value in line 1"),
        ('["https://shop.example"]', "it is not an object: write"),
        ('{"shop.example": {}}', '"shop.example" is not a site: web pages are at http:// and https:// only'),
        ('{"https://*.shop.example": {}}', '"https://*.shop.example" is not a site'),
        ('{"https://shop.example": true}', 'the value of "https://shop.example" cannot be read'),
        ('{"https://shop.example": {"until": "soon"}}', 'the value of "https://shop.example" cannot be read'),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_a_broken_file_allows_nothing_says_where_and_is_not_written_over(
    state: Path, text: str, says: str
) -> None:
    write(state, text)
    approvals = Approvals(state)
    for use in (lambda: approvals.has(SHOP, "act", "Agent"), lambda: approvals.grant([SHOP], ["act"])):
        with pytest.raises(ApprovalsError) as refused:
            use()
        assert refused.value.path == state / "approvals.json"
        assert refused.value.reason.startswith(says)
        assert refused.value.reason.endswith("Correct it, or remove it to be asked again")
    assert (state / "approvals.json").read_text() == text
    write(state, "{}")
    assert not approvals.has(SHOP, "act", "Agent")


def test_a_file_that_others_could_have_written_is_not_read(state: Path) -> None:
    write(state, '{"https://shop.example": {}}')
    (state / "approvals.json").chmod(0o666)
    with pytest.raises(ApprovalsError, match=r"can be written by others.*chmod go-w"):
        Approvals(state).has(SHOP, "act", "Agent")


def test_a_directory_that_is_open_to_others_keeps_nothing(state: Path) -> None:
    state.chmod(0o755)
    with pytest.raises(ApprovalsError, match="is open to other users"):
        Approvals(state).grant([SHOP], ["act"])


def test_a_link_stays_one(state: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    (state / "approvals.json").symlink_to(target)
    Approvals(state).grant([SHOP], ["act"])
    assert (state / "approvals.json").is_symlink()
    assert SHOP in json.loads(target.read_text())
