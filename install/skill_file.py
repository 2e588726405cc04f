"""SKILL.md in a directory of skills: `mcpb skill --install` writes it, and an uninstallation removes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from native_host.system import private_files, untrusted_files
from native_host.system.home_layout import user_home
from native_host.system.private_files import PrivateFileError

_FILE = Path("mcpb", "SKILL.md")
_BEGIN = b"---\nname: mcpb\n"
"""Beginning of every SKILL.md of mcpb: that of others has another one."""


class SkillError(Exception):
    """There is no place for the skill; the text says what to do."""


def skills_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory in which Claude Code finds the user's skills.

    Source: https://code.claude.com/docs/en/skills
    """
    return Path(environ.get("CLAUDE_CONFIG_DIR") or user_home(environ) / ".claude") / "skills"


def write_skill(skills: Path, text: str) -> Path:
    """Write `mcpb/SKILL.md` below a directory of skills, also in place of an earlier one; return its path.

    Raises:
        SkillError: it cannot be written, or another file has its name.
    """
    path = skills / _FILE
    if os.path.lexists(path) and not _is_ours(path):
        raise SkillError(f"{path} is not a skill of mcpb. Move it away, then run the command again.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        private_files.replace(path, text.encode())
    except OSError as error:
        raise SkillError(f"{path.parent} cannot be created: {error.strerror}") from error
    except PrivateFileError as error:
        raise SkillError(str(error)) from error
    return path


def find_skill(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the installed skill in the directory of Claude Code."""
    path = skills_directory(environ) / _FILE
    return path if _is_ours(path) else None


def _is_ours(path: Path) -> bool:
    return untrusted_files.head(path, len(_BEGIN)) == _BEGIN
