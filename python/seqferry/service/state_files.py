"""Files of the state folder whose contents are in the database by now: named tokens, and facts about endpoints.

The files stay as they are, for a return to an earlier version. What they hold is taken over once: what was taken is
noted by its digest, so that any number of processes may begin to, and a changed file is looked at again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from seqferry.db import endpoint_facts, token_rows
from seqferry.db.database import Database
from seqferry.db.tables import schema_note
from seqferry.model.errors import ConfigError
from seqferry.places import private_files
from seqferry.settings import tokens
from seqferry.settings.config import Settings

log: Final = logging.getLogger("seqferry.tokens")


def take_over(settings: Settings, database: Database) -> None:
    """Bring what earlier versions kept in files into the database.

    A damaged file is left alone and told in the log: what does not need it goes on.

    Raises:
        ConfigError: the database cannot be used.
    """
    for path, most, take in (
        (tokens.names_file(settings.state_dir), tokens.MAX_FILE, _take_tokens),
        (endpoint_facts.file_of(settings.state_dir), endpoint_facts.MAX_FILE, _take_facts),
    ):
        if not path.exists():
            continue
        try:
            text = private_files.read(path, most)
            _once(database, path, text, take)
        except (OSError, UnicodeError) as why:
            cause = why.strerror if isinstance(why, OSError) else "it is no text"
            log.error("%s is not taken over into the database: %s", path, cause)
        except _DamagedError as why:
            log.error("%s", why)


class _DamagedError(Exception):
    """The file cannot be read."""


def _once(database: Database, path: Path, text: str, take: Callable[[sa.Connection, Path, str], int]) -> None:
    about = f"{path.name} {hashlib.sha256(text.encode()).hexdigest()}"
    noted = sa.select(schema_note.c.about).where(schema_note.c.about == about)
    with database.read() as connection:
        if connection.execute(noted).first() is not None:
            return
    with database.write() as connection:
        token_rows.begin_changing(connection)
        if connection.execute(noted).first() is not None:
            return
        count = take(connection, path, text)
        connection.execute(schema_note.insert().values(about=about, comment=str(time.time())))
    if count:
        log.info("%d entries of %s are in the database now; the file is not used any more", count, path)


def _take_tokens(connection: sa.Connection, path: Path, text: str) -> int:
    try:
        named, removed = tokens.of_file(text, path)
    except ConfigError as why:
        raise _DamagedError(why.message) from None
    return token_rows.take_over(connection, named, removed, time.time())


def _take_facts(connection: sa.Connection, _path: Path, text: str) -> int:
    return endpoint_facts.take_over(connection, text)
