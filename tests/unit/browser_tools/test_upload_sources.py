"""Which files a client may give to pages: what is really there counts, not what it is called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.browser_tools.files import upload_sources
from bridge.browser_tools.files.upload_sources import (
    MAX_BYTES,
    MAX_FILES,
    Folders,
    LocalFile,
    path_of,
    read_files,
)
from bridge.browser_tools.tool_output import ToolError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's home, with a secret in it and a project below."""
    home = tmp_path / "home"
    (home / "project" / "notes").mkdir(parents=True)
    (home / "secret.txt").write_text("key")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(home: Path) -> Path:
    """Where the client works."""
    return home / "project"


def refusal(path: str | Path, folders: Folders) -> str:
    with pytest.raises(ToolError) as refused:
        read_files([str(path)], folders)
    return str(refused.value)


def test_a_file_below_the_working_folder_is_read(project: Path) -> None:
    (project / "notes" / "list.csv").write_bytes(b"a,b\n")
    wanted = LocalFile("list.csv", b"a,b\n", "text/csv", str(project / "notes" / "list.csv"))
    for path in ("notes/list.csv", str(project / "notes" / "list.csv"), "notes/../notes/list.csv"):
        assert read_files([path], Folders(str(project))) == [wanted]


def test_a_file_below_a_configured_folder_is_read(project: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "cat.png").write_bytes(b"png")
    folders = Folders(str(project), (str(photos),))
    path = str(photos / "cat.png")
    assert read_files([path], folders) == [
        LocalFile("cat.png", b"png", "image/png", path, is_configured=True)
    ]


def test_a_name_that_says_nothing_of_the_content_has_no_type(project: Path) -> None:
    (project / "Makefile").write_bytes(b"all:\n")
    assert read_files(["Makefile"], Folders(str(project)))[0].guess_mime_type == ""


@pytest.mark.parametrize(
    "path", ["../secret.txt", "notes/../../secret.txt", "/etc/passwd", "/nowhere/at/all"]
)
def test_a_file_outside_is_refused_and_the_allowed_folders_are_named(project: Path, path: str) -> None:
    text = refusal(path, Folders(str(project)))
    assert f"Files may be taken from below {project}." in text
    assert "[browser] upload_dirs" in text


def test_whether_a_file_outside_exists_is_not_told(home: Path, project: Path) -> None:
    there, not_there = home / "secret.txt", home / "other.txt"
    said = refusal(there, Folders(str(project)))
    assert said.replace(there.name, not_there.name) == refusal(not_there, Folders(str(project)))


def test_a_folder_whose_name_only_begins_alike_is_another(home: Path, project: Path) -> None:
    (home / "project-two").mkdir()
    (home / "project-two" / "a.txt").write_text("a")
    assert "may not be given" in refusal(home / "project-two" / "a.txt", Folders(str(project)))


def test_a_link_counts_as_what_it_leads_to(home: Path, project: Path) -> None:
    (project / "file").symlink_to(home / "secret.txt")
    (project / "folder").symlink_to(home)
    (project / "inside").symlink_to(project / "notes")
    (project / "notes" / "a.txt").write_text("a")
    folders = Folders(str(project))
    assert f"it leads to {home / 'secret.txt'}" in refusal("file", folders)
    assert f"it leads to {home / 'secret.txt'}" in refusal("folder/secret.txt", folders)
    assert read_files(["inside/a.txt"], folders)[0].data == b"a"


def test_an_allowed_folder_may_be_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(project)
    (project / "a.txt").write_text("a")
    assert read_files(["a.txt"], Folders(str(tmp_path / "short")))[0].data == b"a"


def test_who_swaps_a_file_for_a_link_meanwhile_gains_nothing(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path is good when it is looked at, and leads elsewhere when it is opened."""
    (project / "a.txt").write_text("a")
    plain_open = os.open

    def swapped_open(path: Path, flags: int) -> int:
        (project / "a.txt").unlink()
        (project / "a.txt").symlink_to(home / "secret.txt")
        return plain_open(path, flags)

    monkeypatch.setattr(os, "open", swapped_open)
    assert "may not be given to pages" in refusal("a.txt", Folders(str(project)))


@pytest.mark.parametrize("where", ["home", "above"])
def test_a_client_that_works_at_home_or_above_may_not_take_everything(home: Path, where: str) -> None:
    folder = home if where == "home" else home.parent
    assert "no folder is known" in refusal(home / "secret.txt", Folders(str(folder)))


def test_a_file_below_a_root_of_the_client_is_read(project: Path, tmp_path: Path) -> None:
    (project / "a.txt").write_text("a")
    (tmp_path / "short").symlink_to(project)
    for root in (project, project / "a.txt", tmp_path / "short"):
        assert read_files([str(project / "a.txt")], Folders(roots=(str(root),)))[0].data == b"a"


@pytest.mark.parametrize("where", ["home", "above", "a link to it"])
def test_a_root_that_is_home_or_above_does_not_count(home: Path, where: str) -> None:
    (home.parent / "link").symlink_to(home)
    root = {"home": home, "above": home.parent, "a link to it": home.parent / "link"}[where]
    assert "no folder is known" in refusal(home / "secret.txt", Folders(roots=(str(root),)))


def test_a_refusal_names_each_folder_once(project: Path) -> None:
    folders = Folders(str(project), roots=(f"{project}/", "/srv/shop"))
    assert f"from below {project}, /srv/shop. Put" in refusal("/etc/passwd", folders)


def test_roots_are_nothing_that_paths_are_relative_to(project: Path) -> None:
    assert "give an absolute path" in refusal("a.txt", Folders(roots=(str(project),)))


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///srv/shop", "/srv/shop"),
        ("file:///srv/a%20b%23%C3%A9", "/srv/a b#é"),
        ("file:///srv/a b", "/srv/a b"),
        ("file:///srv/%FF", "/srv/\udcff"),
        ("file:/srv", "/srv"),
        ("FILE://LOCALHOST/srv", "/srv"),
        ("file://other.example/srv", ""),
        ("file:srv", ""),
        ("file://", ""),
        ("file:///srv/a%00", ""),
        ("file:///srv/C#", "/srv/C"),
        ("file:///srv/C#/a", ""),
        ("file:///srv?x", ""),
        ("file:///srv/\ud800", ""),
        ("file://[/srv", ""),
        ("https://shop.example/srv", ""),
        ("/srv", ""),
        ("", ""),
    ],
)
def test_a_root_is_a_file_uri_of_this_machine(uri: str, path: str) -> None:
    assert path_of(uri) == path


def test_home_is_allowed_where_the_person_says_so(home: Path) -> None:
    assert read_files([str(home / "secret.txt")], Folders("", (str(home),)))[0].data == b"key"


def test_without_a_working_folder_paths_are_whole(project: Path) -> None:
    (project / "a.txt").write_text("a")
    assert "give an absolute path" in refusal("a.txt", Folders("", (str(project),)))
    assert "no folder is known" in refusal(project / "a.txt", Folders())


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(project: Path) -> None:
    os.mkfifo(project / "pipe")
    assert "is no regular file" in refusal("pipe", Folders(str(project)))
    assert "name the files in it" in refusal("notes", Folders(str(project)))
    assert "There is no file none.txt" in refusal("none.txt", Folders(str(project)))
    assert "There is no file" in refusal("notes/none/none.txt", Folders(str(project)))
    assert "is no path of a file" in refusal("", Folders(str(project)))
    assert "is no path of a file" in refusal("a\0b", Folders(str(project)))


def test_all_files_of_a_call_share_one_bound(project: Path) -> None:
    (project / "half").write_bytes(bytes(MAX_BYTES // 2))
    (project / "rest").write_bytes(bytes(MAX_BYTES // 2 + 1))
    folders = Folders(str(project))
    assert len(read_files(["half", "half"], folders)) == 2
    with pytest.raises(ToolError, match="more than 10 MB together"):
        read_files(["half", "rest"], folders)


def test_a_file_that_says_it_is_empty_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of /proc does; and what grows may have been so when it was looked at."""
    monkeypatch.setattr(upload_sources, "MAX_BYTES", 50)
    assert "The files have more than" in refusal("status", Folders(f"/proc/{os.getpid()}"))


def test_too_many_files_are_refused(project: Path) -> None:
    with pytest.raises(ToolError, match="give at most 50"):
        read_files(["a"] * (MAX_FILES + 1), Folders(str(project)))


# ── Secrets ─────────────────────────────────────────────────────────────────────────────────────────────────

KEY = b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END OPENSSH PRIVATE KEY-----\n"


def made(folder: Path, name: str, data: bytes = b"words") -> Path:
    """A file with this name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        ".git/config",
        ".github/workflows/release.yml",
        "notes/.hidden",
        "a/.b/c.txt",
        "id_rsa",
        "deploy_rsa",
        "id_ed25519",
        "server.pem",
        "Server.KEY",
        "store.p12",
        "passwords.kdbx",
        "credentials",
        "credentials.json",
        "client_secret_7.json",
        "prod.env",
    ],
)
def test_hidden_files_and_keys_are_given_only_where_the_user_names_them(project: Path, name: str) -> None:
    path = made(project, name)
    text = refusal(name, Folders(str(project)))
    assert "[browser] upload_dirs" in text
    assert str(path) in text
    assert refusal(path, Folders(roots=(str(project),))) == text
    for configured in (path, path.parent, project):
        (file,) = read_files([name], Folders(str(project), (str(configured),)))
        assert (file.data, file.is_configured) == (b"words", True)


@pytest.mark.parametrize(
    "name", ["id_rsa.pub", "keyboard.md", "environment.txt", "notes/credentials-page.html"]
)
def test_files_with_similar_names_are_given(project: Path, name: str) -> None:
    made(project, name)
    assert read_files([name], Folders(str(project)))[0].data == b"words"


@pytest.mark.parametrize(
    "data",
    [
        KEY,
        b"words\n" * 100_000 + KEY,
        b"-----BEGIN PRIVATE KEY-----",
        b"-----BEGIN RSA PRIVATE KEY-----",
        b"-----BEGIN PGP PRIVATE KEY BLOCK-----",
        b'{"private_key": "-----BEGIN PRIVATE KEY-----\\nMII"}',
        b"PuTTY-User-Key-File-3: ssh-ed25519",
        b"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5",
    ],
)
def test_a_file_with_a_private_key_in_it_is_given_only_where_the_user_names_it(
    project: Path, data: bytes
) -> None:
    path = made(project, "notes.txt", data)
    assert "contains a private key or passwords" in refusal("notes.txt", Folders(str(project)))
    assert read_files(["notes.txt"], Folders(str(project), (str(path),)))[0].data == data


def test_links_to_secrets_count_as_the_secrets(home: Path, project: Path) -> None:
    (project / "hard.txt").hardlink_to(made(home, ".ssh/id_rsa", KEY))
    (project / "soft.txt").symlink_to(made(project, ".env"))
    assert "contains a private key" in refusal("hard.txt", Folders(str(project)))
    assert "is hidden" in refusal("soft.txt", Folders(str(project)))


@pytest.mark.parametrize("folder", [".ssh", ".aws", ".gnupg/private-keys-v1.d", "project/.git"])
def test_a_client_that_works_in_a_directory_of_secrets_gives_none(home: Path, folder: str) -> None:
    made(home, f"{folder}/config")
    assert "directory for keys" in refusal("config", Folders(str(home / folder)))


def test_a_client_may_work_below_another_hidden_directory(home: Path) -> None:
    made(home, ".cache/worktrees/shop/a.txt")
    assert read_files(["a.txt"], Folders(str(home / ".cache/worktrees/shop")))[0].data == b"words"


def test_a_root_inside_a_hidden_directory_of_the_working_folder_shows_nothing(project: Path) -> None:
    path = made(project, ".config/a.txt")
    folders = Folders(str(project), roots=(str(path.parent),))
    assert "is hidden" in refusal(path, folders)
