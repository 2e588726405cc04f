"""`file_upload` and `upload_image`: what pages get of the user's files, and what they do not."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_types import ListRootsResult, Root
from pydantic import FileUrl

from approval_window import AskedUser
from bridge.browser_tools.files.upload_sources import MAX_BYTES
from tool_browser import Browsing, Tools

POEM = b"The harbour was quiet.\n"


@pytest.fixture(scope="module")
def project(browsing: Browsing) -> Path:
    """Where the client works, with files in it."""
    project = browsing.chain.home / "project"
    project.mkdir()
    (project / "poem.txt").write_bytes(POEM)
    (project / "map.png").write_bytes(b"\x89PNG")
    (project / "large.bin").write_bytes(bytes(range(256)) * 8192)  # 2 MB
    (project / "link.txt").symlink_to("/etc/hostname")
    return project


@pytest.fixture(scope="module")
def tools(browsing: Browsing, project: Path) -> Iterator[Tools]:
    """A client that works in the project."""
    user = AskedUser("for this session")
    with browsing.client(cwd=project, **user.options) as tools:
        yield tools


def sent(tools: Tools, tab_id: int) -> str:
    """What the site has got once the form is sent."""
    tools.done("computer", action="left_click", ref=tools.ref_of('button "Hand in"', tab_id), tabId=tab_id)
    text: str = tools.done("get_page_text", tabId=tab_id).structured["text"]
    return text


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ── file_upload ─────────────────────────────────────────────────────────────────────────────────────────────


def test_files_arrive_at_the_site_as_they_are(tools: Tools, project: Path) -> None:
    tab_id = tools.open_site("upload.html")
    told = tools.done("file_upload", ref=tools.ref_of("Manuscript"), paths=["large.bin"]).structured
    assert told["files"] == ["large.bin"]
    paths = ["poem.txt", str(project / "map.png")]
    told = tools.done("file_upload", ref=tools.ref_of("Drawings"), paths=paths).structured
    assert told["files"] == ["poem.txt", "map.png"]
    assert "has “poem.txt”, “map.png” now" in told["message"]
    said = sent(tools, tab_id)
    for name in ("large.bin", "poem.txt", "map.png"):
        data = (project / name).read_bytes()
        assert re.search(rf"{name}\D+{len(data)}\b.*{sha256(data)}", said)


def test_files_may_come_with_the_call(tools: Tools) -> None:
    tab_id = tools.open_site("upload.html")
    file = {"data": base64.b64encode(POEM).decode(), "name": "../../poem.txt", "mimeType": "text/plain"}
    told = tools.done("file_upload", ref=tools.ref_of("Manuscript"), files=[file]).structured
    assert told["files"] == ["poem.txt"]
    assert sha256(POEM) in sent(tools, tab_id)


def test_files_are_dropped_where_a_page_takes_them(tools: Tools) -> None:
    tools.open_site("drag.html")
    told = tools.done("file_upload", ref=tools.ref_of("Drop zone"), paths=["poem.txt"]).structured
    assert "“poem.txt” was dropped on region “Drop zone”" in told["message"]
    assert f"dropped poem.txt, {len(POEM)} bytes, text/plain, {sha256(POEM)}" in tools.done("read_page").text


def test_the_configuration_allows_more_folders(browsing: Browsing, project: Path) -> None:
    photos = browsing.chain.home / "photos"
    photos.mkdir()
    (photos / "cat.png").write_bytes(b"\x89PNG")
    (browsing.chain.home / "config.toml").write_text(f"[browser]\nupload_dirs = ['{photos}']")
    with browsing.client("photographer", cwd=project) as tools:
        tools.open_site("upload.html")
        told = tools.done("file_upload", ref=tools.ref_of("Portrait"), paths=[str(photos / "cat.png")])
        assert told.structured["files"] == ["cat.png"]
    (browsing.chain.home / "config.toml").unlink()


def test_a_client_that_works_at_home_has_no_folder(browsing: Browsing) -> None:
    with browsing.client("homebody", cwd=browsing.chain.home) as tools:
        tools.open_site("upload.html")
        said = tools.refused("file_upload", ref=tools.ref_of("Manuscript"), paths=["project/poem.txt"])
        assert "no folder is known from which files may be taken" in said


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_s_roots_are_allowed(browsing: Browsing, project: Path, mode: str) -> None:
    async def roots(_context: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl(project.as_uri()), name="project")])

    user = AskedUser("for this session")
    with browsing.client(
        f"roots, {mode}", cwd=browsing.chain.home, mode=mode, list_roots_callback=roots, **user.options
    ) as tools:
        tools.open_site("upload.html")
        ref = tools.ref_of("Manuscript")
        told = tools.done("file_upload", ref=ref, paths=["project/poem.txt"]).structured
        assert told["files"] == ["poem.txt"]
        assert f"from below {project}." in tools.refused("file_upload", ref=ref, paths=["/etc/hostname"])
        assert "it leads to /etc/hostname" in tools.refused(
            "file_upload", ref=ref, paths=["project/link.txt"]
        )


def test_what_may_not_or_cannot_be_given_is_refused_and_why(tools: Tools, project: Path) -> None:
    tools.open_site("upload.html")
    one, portrait, heading = (tools.ref_of(it) for it in ("Manuscript", "Portrait", "Hand in a manuscript"))
    large = {"data": base64.b64encode(bytes(MAX_BYTES + 1)).decode(), "name": "large.bin"}
    for arguments, said in (
        ({"ref": one, "paths": ["/etc/hostname"]}, f"Files may be taken from below {project}"),
        ({"ref": one, "paths": ["link.txt"]}, "it leads to /etc/hostname"),
        ({"ref": one, "paths": ["nothing.txt"]}, "There is no file nothing.txt"),
        ({"ref": one, "paths": ["."]}, "is a folder: name the files in it"),
        ({"ref": one, "paths": ["large.bin"] * 6}, "more than 10 MB together"),
        ({"ref": one, "files": [large]}, "more than 10 MB together"),
        ({"ref": one, "files": [{"data": "?", "name": "a"}]}, "files[0].data: Invalid base64"),
        ({"ref": one, "paths": ["poem.txt"], "files": [large]}, "Give either paths or files"),
        ({"ref": one}, "Give either paths or files"),
        ({"ref": one, "paths": []}, "Give either paths or files"),
        ({"ref": one, "paths": ["poem.txt", "map.png"]}, "takes one file, not 2"),
        ({"ref": portrait, "paths": ["poem.txt"]}, 'takes "image/*", not "poem.txt" (text/plain)'),
        ({"ref": heading, "paths": ["poem.txt"]}, "takes no files"),
        ({"ref": "ref_9999", "paths": ["poem.txt"]}, "not in the page any more"),
        ({"ref": "the input", "paths": ["poem.txt"]}, "No element fits “the input”."),
        ({"paths": ["poem.txt"]}, "ref is missing"),
        ({"ref": one, "paths": ["poem.txt"], "tabId": 9999}, "tabs_context lists your tabs"),
    ):
        assert said in tools.refused("file_upload", **arguments)
    tools.look(tools.done("tabs_create").structured["tabId"]).load("chrome://version/")
    said = tools.refused("file_upload", ref=one, paths=["poem.txt"])
    assert "The browser gives no access to such a page" in said


# ── upload_image ────────────────────────────────────────────────────────────────────────────────────────────


def screenshot(tools: Tools) -> str:
    """The id of one."""
    picture: dict[str, str] = tools.done("computer", action="screenshot").structured["picture"]
    return picture["imageId"]


def test_a_screenshot_is_given_to_a_page(tools: Tools) -> None:
    tab_id = tools.open_site("upload.html")
    image = screenshot(tools)
    data = tools.read_resource(f"mcpb://pictures/{image}")
    told = tools.done(
        "upload_image", imageId=image, ref=tools.ref_of("Portrait"), filename="face.jpg"
    ).structured
    assert told["files"] == ["face.jpg"]
    assert sha256(data) in sent(tools, tab_id)


def test_a_screenshot_is_dropped_at_a_point(tools: Tools) -> None:
    tools.open_site("drag.html")
    zone = tools.ref_of("Drop zone")
    tools.done("computer", action="scroll_to", ref=zone)
    image = screenshot(tools)
    box = tools.look(tools.done("read_page").structured["tabId"]).evaluate(
        "(({x, y, width, height}) => [x + width / 2, y + height / 2])(zone.getBoundingClientRect())"
    )
    told = tools.done("upload_image", imageId=image, coordinate=box).structured
    assert told["role"] == "region"
    assert "dropped image.jpeg" in tools.done("read_page").text


def test_a_picture_that_cannot_be_given_is_refused_and_why(tools: Tools) -> None:
    tools.open_site("drag.html")
    image, zone = screenshot(tools), tools.ref_of("Drop zone")
    for arguments, said in (
        (
            {"imageId": "img_nothing", "ref": zone},
            f"There is no picture img_nothing of this session. The newest are {image}",
        ),
        ({"imageId": image}, "Give either a ref or a coordinate"),
        ({"imageId": image, "ref": zone, "coordinate": [1, 1]}, "Give either a ref or a coordinate"),
        ({"imageId": image, "coordinate": [5000, 1]}, "is outside the screenshot"),
        ({"imageId": image, "coordinate": [5]}, "coordinate has at least 2 items"),
        ({"imageId": image, "ref": "ref_9999"}, "not in the page any more"),
        ({"ref": zone}, "imageId is missing"),
    ):
        assert said in tools.refused("upload_image", **arguments)


def test_a_session_has_no_pictures_of_another(browsing: Browsing, tools: Tools) -> None:
    tools.open_site("drag.html")
    image = screenshot(tools)
    with browsing.client("another") as other:
        other.open_site("drag.html")
        said = other.refused("upload_image", imageId=image, ref=other.ref_of("Drop zone"))
        assert "No picture exists yet" in said
