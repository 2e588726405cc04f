"""SKILL.md in a directory of skills: `mcpb skill --install` writes it, and an uninstallation removes it.

The paths of an installation are in `state/skills.json` of its home: the skill of another one stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from native_host.system import private_files, untrusted_files
from native_host.system.home_layout import HomeLayout, user_home
from native_host.system.private_files import PrivateFileError

_FILE = Path("mcpb", "SKILL.md")
_BEGIN = b"---\nname: mcpb\n"
"""Beginning of every SKILL.md of mcpb, and of no other."""
_MAX_RECORD_BYTES = 64 * 1024


class SkillError(Exception):
    """The skill cannot be written; the text says what to do."""


def skills_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory in which Claude Code finds the user's skills.

    Source: https://code.claude.com/docs/en/skills
    """
    return Path(environ.get("CLAUDE_CONFIG_DIR") or user_home(environ) / ".claude") / "skills"


def write_skill(skills: Path, text: str, home: Path) -> Path:
    """Write `mcpb/SKILL.md` below a directory of skills, also in place of an earlier one; return its path.

    The path is recorded in mcpb's home first.

    Raises:
        SkillError: it cannot be written, or another file has its name.
    """
    path = (skills / _FILE).absolute()
    if os.path.lexists(path) and not _is_ours(path):
        raise SkillError(f"{path} is not a skill of mcpb. Move it away, then run the command again.")
    try:
        _write_record(home, [*find_skills(home), path])
        path.parent.mkdir(parents=True, exist_ok=True)
        private_files.replace(path, text.encode())
    except OSError as error:
        raise SkillError(f"{path.parent} cannot be created: {error.strerror}") from error
    except PrivateFileError as error:
        raise SkillError(str(error)) from error
    return path


def find_skills(home: Path) -> list[Path]:
    """Return the skills that the installation with this home has written and that are still there."""
    record = untrusted_files.head(HomeLayout(home).state.skills, _MAX_RECORD_BYTES) or b""
    with suppress(msgspec.DecodeError):  # then mcpb has not written it
        return [path for path in map(Path, msgspec.json.decode(record, type=list[str])) if _is_ours(path)]
    return []


def _write_record(home: Path, paths: list[Path]) -> None:
    record = HomeLayout(home).state.skills
    private_files.prepare_directory(home)
    private_files.prepare_directory(record.parent)
    private_files.replace(record, msgspec.json.encode([str(path) for path in dict.fromkeys(paths)]))


def _is_ours(path: Path) -> bool:
    return untrusted_files.head(path, len(_BEGIN)) == _BEGIN
