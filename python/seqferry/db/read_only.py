"""A database of SQLite in a folder that cannot be written, as on a read-only mount or in a folder of another user."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from seqferry.model.errors import ConfigError


def connect(path: Path) -> sqlite3.Connection:
    """Open a read-only connection. The mode is chosen for each one: a writer elsewhere may start and stop.

    While a process has the database open, and after one that was killed, its last changes are in two files beside it.
    Without these files it holds all, and is read as a file that does not change.

    Raises:
        ConfigError: the last changes are there and cannot be read without writing.
    """
    log, index = (path.with_name(f"{path.name}-{what}") for what in ("wal", "shm"))
    has_log, has_index = _size(log) > 0, index.exists()
    if has_log and not has_index:
        raise ConfigError(
            f"The database {path} cannot be read: its last changes are in {log.name}, for which {index.name} is "
            "missing, and the folder cannot be written. Copy the folder to where you may write, and name the copy "
            "with --state-dir."
        )
    mode = "mode=ro" if log.exists() and has_index else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, check_same_thread=False)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
