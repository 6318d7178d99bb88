"""Classification of database errors: passing outages, and errors that waiting does not cure."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import Final

from seqferry.db.database import Database
from seqferry.model.backoff import Backoff
from seqferry.model.errors import ConfigError
from seqferry.settings.config import Settings

_AWAY: Final = (
    # No answer, as the driver says it.
    r"connection refused|timed? ?out|timeout|no route to host|network is unreachable|host is unreachable"
    r"|connection reset|closed the connection unexpectedly|is the server running|temporary failure in name resolution"
    # An answer: not now.
    r"|is starting up|is shutting down|in recovery mode|not yet accepting connections|terminating connection"
    r"|too many (clients|connections)|remaining connection slots"
)
"""Error texts of a passing outage: the driver has no code for a connection that was not made. Other texts are final."""

_BACKOFF: Final = Backoff(0.5, 15.0, random=random.random)

log: Final = logging.getLogger("seqferry.worker")


def is_unavailable(why: ConfigError) -> bool:
    """True when the database can be expected to answer later, without a change of the settings."""
    return why.__cause__ is not None and re.search(_AWAY, why.message, flags=re.IGNORECASE) is not None


def wait_until_available(settings: Settings, pause: Callable[[float], object] = time.sleep) -> None:
    """Wait until the database answers; return immediately for a file. Log the cause of the wait once.

    ``pause`` waits so many seconds; a true result ends the wait.

    Raises:
        ConfigError: the database refuses for a reason that does not pass by itself: a wrong password, no such database.
    """
    if settings.uses_sqlite:
        return
    database = Database(settings)
    said = False
    try:
        for seconds in _BACKOFF.pauses():
            try:
                with database.read():
                    break
            except ConfigError as why:
                if not is_unavailable(why):
                    raise
                if not said:
                    log.warning("%s Waiting until it is there.", why.message)
                    said = True
            if pause(seconds):
                return
        if said:
            log.info("the database %s is there", database.label)
    finally:
        database.close()
