"""Recorder of a gateway's upload batches (epochs): each becomes an ended transfer when the database is available.

The gateway keeps an epoch on its disk until it is informed that the record has it. A transfer has the same id each time
its epoch is recorded: one that is there already adds nothing. So a kill between any two steps repeats one of them.

What must stay true: the gateway serves whether or not the database is there, and never waits for it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from seqferry.db import ended_transfers, notice_rows
from seqferry.db.database import Database
from seqferry.db.ended_transfers import EndedObject
from seqferry.db.notice_rows import Subject
from seqferry.engine import crash_points
from seqferry.model.backoff import Backoff
from seqferry.model.errors import SeqferryError
from seqferry.model.labels import MAX_NAME_LENGTH, Description
from seqferry.model.locations import S3Location
from seqferry.service.base import Base
from seqferry.settings.config import Settings
from seqferry.spec import gateway

if TYPE_CHECKING:
    from seqferry.engine.upload_batches import UploadBatch, UploadBatchSource, UploadOutcome

log = logging.getLogger("seqferry.epochs")

POLL_SECONDS: Final = 2.0
"""Between two polls of the gateway: it reads a number in memory."""

_BACKOFF: Final = Backoff(4.0, 60.0, random=random.random)
"""Between two attempts while the database is unavailable."""

_LAST_SECONDS: Final = 10.0
"""Time for what is left at the end; the next start puts the rest on record."""


class UploadBatchRecorder:
    """Records upload batches (epochs) from its own thread until the context ends; then once more what is left.

    Args:
        places: of the shares that are written, by their names.
        source: the gateway, or the mount that is written.
    """

    def __init__(self, settings: Settings, places: Mapping[str, S3Location], source: UploadBatchSource) -> None:
        self._settings = settings
        self._places = places
        self._source = source
        self._service: Base | None = None
        self._logged: str | None = None
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seqferry-epochs", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        failures = 0
        while not self._left.wait(_BACKOFF.pause(failures) if failures else POLL_SECONDS):
            failures = 0 if self._safely(self.record) else failures + 1
        self._safely(self._source.freeze_upload_batches)
        self._safely(self.record)
        self._safely(self.close)

    def _safely(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as why:  # noqa: BLE001 - whatever the database has, serving goes on
            text = why.message if isinstance(why, SeqferryError) else type(why).__name__
            # The disk of the gateway fails.
            text = f"{why}." if isinstance(why, OSError) else text
            if text != self._logged:
                log.warning("Uploads of the shares are not on record yet: %s The gateway keeps them.", text)
            self._logged = text
            return False
        self._logged = None
        return True

    def close(self) -> None:
        """Leave the database."""
        if self._service is not None:
            self._service.close()
            self._service = None

    def record(self) -> int:
        """Record all epochs that the gateway has frozen. Returns their number.

        Raises:
            ConfigError: the database cannot be used.
            OSError: the disk of the gateway fails, as a sentence.
        """
        batches = self._source.upload_batches()
        for batch in batches:
            self._record(batch)
        return len(batches)

    def _record(self, batch: UploadBatch) -> None:
        share, prefix, journal, epoch = batch.share, batch.prefix, batch.journal, batch.number
        outcomes, renamed = batch.outcomes()
        if outcomes:
            spec = gateway.upload_batch_spec(
                self._places[share], prefix, share=share, journal=journal, epoch=epoch, renamed=renamed
            )
            transfer_id = gateway.upload_batch_id(share, journal, epoch)
            objects = _objects(prefix, outcomes)
            with self._database().write() as connection:
                is_new = ended_transfers.insert(
                    connection,
                    spec,
                    objects,
                    transfer_id=transfer_id,
                    actor=f"gateway on {self._settings.host_name}",
                    description=_description(share, renamed),
                )
                if is_new:
                    wanted = self._settings.notices.wanting("finished")
                    subject = Subject("transfer", transfer_id)
                    notice_rows.record(connection, subject, "finished", wanted, time.time())
                crash_points.reach("before-epoch-recorded")
            crash_points.reach("after-epoch-recorded")
        batch.forget()

    def _database(self) -> Database:
        if self._service is None:
            self._service = Base.open(self._settings)
        return self._service.database


def _description(share: str, renamed: tuple[str, str] | None) -> Description:
    if renamed is None:
        return Description(share)
    before, after = renamed
    # Paths may be too long for a name; the spec has them whole.
    name = f"{share}: {before}/ renamed" + (f" to {after}/" if after else "")
    return Description(name if name.isprintable() and len(name) <= MAX_NAME_LENGTH else share)


def _objects(prefix: str, outcomes: Sequence[UploadOutcome]) -> list[EndedObject]:
    uploads = Counter[str]()
    objects: list[EndedObject] = []
    for one in outcomes:
        # A file that is written again before its epoch ends has a row for each upload.
        objects.append(_object(prefix, uploads[one.path], one))
        uploads[one.path] += 1
    return objects


def _object(prefix: str, upload_number: int, one: UploadOutcome) -> EndedObject:
    failed = one.failure
    if failed is not None:
        # PostgreSQL stores no NUL.
        failed = (*failed[:3], failed[3].replace("\0", ""))
    return EndedObject(
        key=prefix + one.path,
        upload_number=upload_number,
        size=one.size,
        last_modified=one.modified,
        written_by=None if one.uid is None else f"uid {one.uid} at {one.address}",
        attempts=one.attempts,
        started_at=one.started,
        ended_at=one.ended,
        method=one.method,
        target_etag=one.etag,
        target_version_id=one.version_id,
        checksum_algorithm=one.checksum_algorithm,
        checksum=one.checksum,
        verified=one.verified,
        failed=failed,
    )
