"""The home folder of this user, which a container may lack or share with another user."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def folder(env: Mapping[str, str]) -> str | None:
    """The home folder of this user: HOME, else the entry in the user database; None in a container that has neither."""
    if (named := env.get("HOME", "")).startswith("/"):
        return named
    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return found if found.startswith("/") else None


def expand(text: str, env: Mapping[str, str]) -> Path:
    """The absolute path of a setting, in which ``~`` is the home folder.

    Raises:
        ValueError: there is no such home folder.
    """
    first, slash, rest = text.partition("/")
    if first == "~":
        if (found := folder(env)) is None:
            raise ValueError(f"'{text}': user {os.getuid()} has no home folder here; write a whole path, or set HOME")
        return Path(found) / rest
    if first.startswith("~") and not os.path.lexists(first):
        try:
            return Path(pwd.getpwnam(first[1:]).pw_dir + slash + rest).absolute()
        except KeyError:
            raise ValueError(f"'{text}': there is no user {first[1:]} here; write a whole path") from None
    return Path(text).absolute()


def is_denied_by_other_user(path: Path) -> bool:
    """True when the first folder on the way to this one that may not be entered belongs to another user."""
    for above in reversed((path, *path.parents)):
        with contextlib.suppress(OSError):
            if not os.access(above, os.X_OK):
                return above.stat().st_uid != os.geteuid()
    return False
