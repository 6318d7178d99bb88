"""Answers of a gateway to questions about folders of its shares, which clients of a server have put into the database.

The server may run on another machine, and reaches the gateway by the database alone. What must stay true: the gateway
serves whether or not the database is there, and never waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from seqferry.db import gateway_question_rows
from seqferry.db.database import Database
from seqferry.engine import gateway_control
from seqferry.model.errors import ConfigError
from seqferry.service.presence import Presence

log = logging.getLogger("seqferry.presence")

POLL_SECONDS: Final = 1.0
"""Between two looks for questions: one query of a table that is empty most of the time."""

ANSWER_SECONDS: Final = 20.0
"""Longest wait of a client: the gateway needs 15 s at most for what it counts, and 2 for the names."""

MAX_NAMES: Final = 200
"""Names of a folder in an answer."""

_SHOWN: Final = 20
"""Failing files, waiting markers and renamed folders that an answer names."""

_NAMES_SECONDS: Final = 2.0
_LEAVE_SECONDS: Final = 2.0
"""Time for the answer that is under way at the end."""


class ShareAnswers:
    """Answers from its own thread, one question at a time, until the context ends.

    Args:
        presence: of this process, whose row the clients name.
        cache: of the gateway, or of the mount that is written.
    """

    def __init__(self, presence: Presence, cache: Path) -> None:
        self._presence = presence
        self._cache = cache
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seqferry-answers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        while not self._left.wait(POLL_SECONDS):
            try:
                while (database := self._presence.database) is not None and self._answer_next(database):
                    pass
            except Exception as why:  # noqa: BLE001 - whatever the database has, serving goes on
                log.debug("questions about shares are not answered: %s", why)

    def _answer_next(self, database: Database) -> bool:
        with database.read() as connection:
            asked = gateway_question_rows.find_open(connection, self._presence.process_id)
        if asked is None or self._left.is_set():
            return False
        question_id, path, counts = asked
        text = json.dumps(find_files(self._cache, path, counts=counts), ensure_ascii=False)
        with database.write(durable=False) as connection:
            gateway_question_rows.answer(connection, question_id, text)
        return True


def find_files(cache: Path, path: str, *, counts: bool) -> dict[str, Any]:
    """State of the files at a path of a share and below it, with the names of a folder; or ``error``, as a sentence."""
    try:
        found = gateway_control.ask(cache, "files", seconds=ANSWER_SECONDS, path=path, count=counts)
    except ConfigError as why:
        return {"error": why.message}
    found.pop("uploading", None)
    for name in ("failing", "held", "renames"):
        found[name] = found.get(name, [])[:_SHOWN]
    listed: dict[str, Any] = {"names": None, "is_cut": False}
    if found["kind"] == "folder":
        # While the bucket does not answer, the waiting files are known all the same.
        with suppress(ConfigError):
            listed = gateway_control.ask(cache, "ls", seconds=_NAMES_SECONDS, path=path, limit=MAX_NAMES)
    return {**found, "names": listed["names"], "names_are_cut": listed["is_cut"]}
