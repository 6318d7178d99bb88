"""Tickets: addresses that work once, for downloads that a browser streams to a file.

A link of a page carries no header, so it carries a ticket, which was asked for with the token. They are kept in the
memory of this process: one that is lost with it is asked for anew.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import Final

from seqferry.model.errors import NotFoundError, OverloadError
from seqferry.proof.report import Format

SECONDS: Final = 60.0
"""Life of a ticket: a click follows at once."""

MOST: Final = 1000
"""Tickets that wait to be used, of clients with tokens; as many again of holders of share links."""

MOST_OF_LINK: Final = 20
"""Of one share link: its holder takes no room from the others."""

PATH: Final = "/api/v1/tickets/"
"""Start of the paths that need no token: the ticket stands for it."""


@dataclass(frozen=True, slots=True)
class ReportTicket:
    """A report that may be had once: of a transfer, by its whole id."""

    transfer_id: str
    format: Format
    price: str | None
    page: int


class Tickets:
    """The tickets of one process. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, ReportTicket, str | None]] = {}

    def add(self, wanted: ReportTicket, *, link: str | None = None) -> tuple[str, float]:
        """A new ticket, and when it ends, in seconds since the epoch.

        Args:
            link: id of the share link whose holder asks; None for a client with a token.

        Raises:
            OverloadError: too many wait to be used.
        """
        text, now = secrets.token_urlsafe(24), time.monotonic()
        with self._lock:
            # In the order in which they were made, which is that of their ends.
            while self._known and next(iter(self._known.values()))[0] <= now:
                del self._known[next(iter(self._known))]
            alike = [held for _, _, held in self._known.values() if (held is None) == (link is None)]
            if len(alike) >= MOST or (link is not None and alike.count(link) >= MOST_OF_LINK):
                raise OverloadError("Too many downloads wait to begin; try again in a minute.")
            self._known[text] = (now + SECONDS, wanted, link)
        return text, time.time() + SECONDS

    def redeem(self, text: str) -> ReportTicket:
        """Report that a ticket is for; the ticket is used then.

        Raises:
            NotFoundError: there is no such ticket, it was used, or its time is over.
        """
        with self._lock:
            ends, wanted, _ = self._known.pop(text, (0.0, None, None))
        if wanted is None or ends <= time.monotonic():
            raise NotFoundError("This download link was used, or is older than a minute. Go back and click again.")
        return wanted
