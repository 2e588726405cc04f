"""Recordings as animated GIFs, and where pictures are saved."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from bridge.browser_tools.files.downloads import download_directory, file_name, save_file
from bridge.browser_tools.tool_output import ToolError
from bridge.browser_tools.tools.gif_creator import MAX_FRAMES, Recording
from bridge.browser_tools.tools.gif_encoder import FRAME_MS, LAST_MS, Frame, Style, encode_gif

PLAIN = Style(clicks=False, drags=False, labels=False, progress=False, watermark=False)
GREY = (120, 120, 120)


def picture(width: int = 400, height: int = 200, colour: tuple[int, int, int] = GREY) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "JPEG")
    return out.getvalue()


def shown(frames: list[Frame], style: Style) -> list[Image.Image]:
    """The frames of the GIF, in full colours."""
    data, _ = encode_gif(frames, style)
    with Image.open(io.BytesIO(data)) as gif:
        found = []
        for number in range(getattr(gif, "n_frames", 1)):
            gif.seek(number)
            found.append(gif.convert("RGB"))
        return found


def changed(frame: Frame, **drawn: bool) -> tuple[int, int, int, int] | None:
    """The box of what is drawn on a grey picture with one thing switched on."""
    switches = {"clicks": False, "drags": False, "labels": False, "progress": False, "watermark": False}
    (image,) = shown([frame], Style(**{**switches, **drawn}))
    ground = Image.new("RGB", image.size, pixel(image, 200, 20))
    differs = ImageChops.difference(image, ground).convert("L")
    return differs.point(lambda value: 255 if value > 24 else 0).getbbox()


def pixel(image: Image.Image, x: int, y: int) -> tuple[int, ...]:
    found = image.getpixel((x, y))
    assert isinstance(found, tuple)
    return found


def test_each_action_is_a_frame_and_the_last_stays_longer() -> None:
    colours = [(200, 0, 0), (0, 200, 0), (0, 0, 200)]
    data, size = encode_gif([Frame(picture(colour=colour)) for colour in colours], PLAIN)
    with Image.open(io.BytesIO(data)) as gif:
        assert (gif.format, gif.size, size) == ("GIF", (400, 200), (400, 200))
        assert gif.info["loop"] == 0
        durations = []
        for number, colour in enumerate(colours):
            gif.seek(number)
            durations.append(gif.info["duration"])
            assert pixel(gif.convert("RGB"), 50, 50) == pytest.approx(colour, abs=8)
    assert durations == [FRAME_MS, FRAME_MS, LAST_MS]


@pytest.mark.parametrize(
    ("switch", "box"),
    [
        ("clicks", (83, 83, 118, 118)),
        ("progress", (0, 195, 400, 200)),
        ("labels", (6, 163, 120, 191)),
        ("watermark", (350, 4, 396, 22)),
    ],
)
def test_what_is_drawn_is_drawn_where_it_belongs_and_only_if_wanted(
    switch: str, box: tuple[int, int, int, int]
) -> None:
    frame = Frame(picture(), "left_click", ((100, 100),))
    drawn = changed(frame, **{switch: True})
    assert drawn is not None
    assert all(inner >= outer for inner, outer in zip(drawn[:2], box[:2], strict=True)), drawn
    assert all(inner <= outer for inner, outer in zip(drawn[2:], box[2:], strict=True)), drawn
    assert changed(frame) is None


def test_a_drag_is_a_line_from_where_to_where() -> None:
    frame = Frame(picture(), "left_click_drag", ((50, 50), (350, 150)))
    left, top, right, bottom = changed(frame, drags=True) or (0, 0, 0, 0)
    assert (left, top) == pytest.approx((50, 50), abs=10)
    assert (right, bottom) == pytest.approx((350, 150), abs=10)
    assert changed(frame, clicks=True) is None


def test_marks_are_where_they_were_seen_however_small_the_gif() -> None:
    (image,) = shown([Frame(picture(1600, 800), "", ((800, 400),))], Style(labels=False, progress=False))
    width, height = image.size
    red, _, blue = pixel(image, width // 2, height // 2)
    assert red - blue > 100


def test_a_longer_label_than_fits_is_cut() -> None:
    left, _, right, _ = changed(Frame(picture(), "word " * 100), labels=True) or (0, 0, 0, 0)
    assert left >= 0
    assert right < 400


def test_quality_sets_size_and_colours() -> None:
    best, middle, worst = Style(quality=1), Style(), Style(quality=30)
    assert (best.edge, best.colours) == (800, 256)
    assert (worst.edge, worst.colours) == (400, 32)
    assert worst.edge < middle.edge < best.edge
    frames = [Frame(picture(1600, 800))]
    assert encode_gif(frames, best)[1] == (800, 400)
    assert encode_gif(frames, worst)[1] == (400, 200)


def test_frames_of_another_size_fit_into_the_first() -> None:
    one, other = shown([Frame(picture(400, 200)), Frame(picture(100, 300, (0, 200, 0)))], PLAIN)
    assert one.size == other.size == (400, 200)
    assert pixel(other, 30, 100) == pytest.approx((0, 200, 0), abs=8)


def test_the_newest_frames_are_kept() -> None:
    film = Recording(is_running=True)
    for number in range(MAX_FRAMES + 3):
        film.add_frame(Frame(b"", str(number)))
    assert [film.frames[0].label, film.frames[-1].label] == ["3", str(MAX_FRAMES + 2)]
    assert film.describe_size() == f"{MAX_FRAMES} frames, the newest (3 older ones were left out)"
    film.clear()
    assert (film.is_running, film.describe_size()) == (False, "0 frames")


# ── Where pictures are saved ────────────────────────────────────────────────────────────────────────────────


def test_pictures_are_saved_where_the_person_has_downloads(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPB_HOME": str(tmp_path / "mcpb")}
    assert download_directory(environ) == tmp_path / "mcpb/pictures", "nothing else is there"

    (tmp_path / "Downloads").mkdir()
    assert download_directory(environ) == tmp_path / "Downloads"

    (tmp_path / "Geladen").mkdir()
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config/user-dirs.dirs").write_text('# a comment\nXDG_DOWNLOAD_DIR="$HOME/Geladen"\n')
    assert download_directory(environ) == tmp_path / "Geladen"

    (tmp_path / "elsewhere").mkdir()
    assert (
        download_directory({**environ, "XDG_DOWNLOAD_DIR": str(tmp_path / "elsewhere")})
        == tmp_path / "elsewhere"
    )


def test_a_desktop_that_names_no_folder_of_downloads_means_none(tmp_path: Path) -> None:
    """xdg-user-dirs writes the home directory itself where a kind of folder is not wanted."""
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config/user-dirs.dirs").write_text('XDG_DOWNLOAD_DIR="$HOME"\n')
    environ = {"HOME": str(tmp_path), "MCPB_HOME": str(tmp_path / "mcpb")}
    assert download_directory(environ) == tmp_path / "mcpb/pictures"


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    paths = [save_file(data, "shot.jpg", folder) for data in (b"1", b"2", b"3")]
    assert [path.name for path in paths] == ["shot.jpg", "shot-2.jpg", "shot-3.jpg"]
    assert [path.read_bytes() for path in paths] == [b"1", b"2", b"3"]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="could not be saved in"):
        save_file(b"1", "shot.jpg", tmp_path / "file/inside")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("run", "run.gif"),
        ("My Run.GIF", "My Run.gif"),
        ("../../etc/passwd", "passwd.gif"),
        ("C:\\temp\\a.gif", "a.gif"),
        ("a\nb?.gif", "a_b_.gif"),
        ("..", "picture.gif"),
        ("", "picture.gif"),
        ("x" * 300, "x" * 100 + ".gif"),
    ],
)
def test_a_file_has_a_plain_name_of_its_kind(wanted: str, name: str) -> None:
    assert file_name(wanted, ".gif") == name
