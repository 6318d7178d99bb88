"""Bodies of ``/api/v1/delivery`` and of its stream: all that the holder of a share link sees."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from seqferry.engine.engine import version
from seqferry.model.messages.recipients import Needs
from seqferry.service.deliveries import DeliveryPage, State


class WaitOut(BaseModel):
    kind: Literal["delivery", "worker", "turn"]
    """For another ``delivery`` to the same place, for a ``worker`` that may do it, or for its ``turn``."""
    name: str | None
    """Of the other delivery, where the link shows it as well."""
    ahead: int | None
    """Deliveries that come first, of one that waits for its turn."""


class MissingCauseOut(BaseModel):
    needs: Needs
    """By whom something is to be done."""
    words: str
    """End of the sentence "3 files are missing: ..."."""
    text: str
    """The same for `count` files."""
    count: int
    bytes: int


class MissingFileOut(BaseModel):
    name: str
    """Below the place that it comes from."""
    size: int
    words: str
    text: str
    """The cause for this one file."""


class ReceiptOut(BaseModel):
    key: str
    """For `POST /api/v1/delivery/report-ticket`."""
    ended_at: datetime
    objects: int


class DeliveryOut(BaseModel):
    key: str
    """Opaque; stays the same for this link."""
    name: str | None
    state: State
    """``complete``: all has arrived. ``incomplete``: it has ended, and files are missing."""
    text: str
    """The state as a text: what has arrived, and what happens next."""
    planned: bool
    """False while files are still being found: the counts grow."""
    objects: int
    bytes: int
    arrived: int
    """With those that were there before, over all retries."""
    bytes_arrived: int
    verified: int
    """Of those that have arrived."""
    left_out: int
    """Left out by request: they count neither as arrived nor as missing."""
    missing: int
    """Have failed up to now."""
    share: float | None
    """Part that has arrived, rounded down: 1 only when it is complete. Null while that is not known."""
    at_work: bool
    """A worker is at it."""
    bytes_per_second: float
    eta_seconds: float | None
    whole_by: datetime | None
    created_at: datetime
    started_by: str
    """Name of a person or of a program; may be empty."""
    started_at: datetime | None
    ended_at: datetime | None
    waits_for: WaitOut | None
    causes: list[MissingCauseOut]
    """Of what is missing, the most frequent first."""
    files: list[MissingFileOut]
    """Missing ones, at most 100."""
    files_more: int
    """Missing ones that are not named."""
    retries: int
    retrying: bool
    error: str | None
    """Reason why all of it ended, of one that failed as a whole."""
    receipts: list[ReceiptOut]
    """Of the first transfer, then of those that have retried it."""


class DeliveryPageOut(BaseModel):
    version: str
    """Of the server."""
    now: datetime
    expires_at: datetime
    """Of the link."""
    title: str | None
    label: str | None
    """``key=value`` or ``key``, of a link for a label."""
    deliveries: list[DeliveryOut]
    """One, or of a label the newest 50: those that have not ended first."""
    more: bool
    """The label has more of them."""
    mail: bool
    """`POST /api/v1/delivery/mail` takes an address, for those that have not ended."""


def page_out(page: DeliveryPage) -> DeliveryPageOut:
    return DeliveryPageOut.model_validate({"version": version(), **asdict(page)})
