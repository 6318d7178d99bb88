"""Files of keys as s3fs has them: ``KEY:SECRET``, or ``BUCKET:KEY:SECRET`` for one bucket, one in each line."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from seqferry.model.errors import ConfigError

_MOST_BYTES: Final = 1024 * 1024


class KeyPair(NamedTuple):
    """An access key and its secret."""

    access_key: str
    secret_key: str

    def environment(self) -> dict[str, str]:
        """Variables that make the key that of a process; empty ones replace what the process had."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": "",
            "AWS_PROFILE": "",
        }


def key_of(path: Path, bucket: str) -> KeyPair:
    """The key for a bucket: its own, else the one for all.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it holds no key for the bucket. The error shows
            nothing of its contents.
    """
    found: dict[str, KeyPair] = {}
    for number, written in enumerate(_text(path).splitlines(), 1):
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        first, *rest = line.split(":", 2)
        fields = ["", first, *rest] if len(rest) == 1 else [first, *rest]
        if len(fields) != 3 or not all(fields[1:]) or any(character.isspace() for character in line):
            raise ConfigError(
                f"The file of keys {path}, line {number}: it is not KEY:SECRET or BUCKET:KEY:SECRET. Correct it, or "
                "use a profile (--profile)."
            )
        found.setdefault(fields[0], KeyPair(fields[1], fields[2]))
    chosen = found.get(bucket) or found.get("")
    if chosen is None:
        raise ConfigError(f"The file of keys {path} holds no key for the bucket {bucket}: add BUCKET:KEY:SECRET.")
    return chosen


def _text(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                raise ConfigError(f"The file of keys {path} is no plain file, or larger than 1 MiB.")
            if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
                raise ConfigError(f"The file of keys {path} belongs to another user. Name a file of your own.")
            if found.st_mode & (0o037 if found.st_uid == 0 and os.geteuid() != 0 else 0o077):
                raise ConfigError(f"Other users may read or write the file of keys {path}. Run: chmod 600 {path}")
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"The file of keys {path} is no text.") from None
    except OSError as why:
        cause = "it is a folder" if why.errno == errno.EISDIR else why.strerror or why
        raise ConfigError(f"Cannot read the file of keys {path}: {cause}.") from None
