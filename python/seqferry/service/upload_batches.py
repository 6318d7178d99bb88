"""Recorder of a gateway's upload batches (epochs): each becomes an ended transfer when the database is available.

The gateway keeps an epoch on its disk until it is informed that the record has it. A transfer has the same id each time
its epoch is recorded: one that is there already adds nothing. So a kill between any two steps repeats one of them.

What must stay true: the gateway serves whether or not the database is there, and never waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self, cast

from seqferry.db import ended_transfers, notice_rows
from seqferry.db.database import Database
from seqferry.db.ended_transfers import EndedObject
from seqferry.db.notice_rows import Subject
from seqferry.engine import crash_points
from seqferry.model.errors import ConfigError, SeqferryError
from seqferry.model.labels import Description
from seqferry.model.locations import S3Location
from seqferry.service.base import Base
from seqferry.settings.config import Settings
from seqferry.spec import gateway

log = logging.getLogger("seqferry.epochs")

POLL_SECONDS: Final = 2.0
"""Between two polls of the gateway: it reads a number in memory."""

_LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between two attempts while the database is unavailable."""

_LAST_SECONDS: Final = 10.0
"""Time for what is left at the end; the next start puts the rest on record."""


class UploadBatchRecorder:
    """Records upload batches (epochs) from its own thread until the context ends; then once more what is left.

    Args:
        places: of the shares that are written, by their names.
        ask: a request to the gateway as a line of JSON, and its answer.
    """

    def __init__(self, settings: Settings, places: Mapping[str, S3Location], ask: Callable[[str], str]) -> None:
        self._settings = settings
        self._places = places
        self._ask = ask
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
        pause = POLL_SECONDS
        while not self._left.wait(pause):
            pause = POLL_SECONDS if self._safely(self.record) else min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._safely(self._freeze)
        self._safely(self.record)
        self._safely(self.close)

    def _safely(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as why:  # noqa: BLE001 - whatever the database has, serving goes on
            text = why.message if isinstance(why, SeqferryError) else f"{type(why).__name__}"
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

    def _freeze(self) -> None:
        self._ask_gateway("freeze")

    def record(self) -> int:
        """Record all epochs that the gateway has frozen. Returns their number.

        Raises:
            ConfigError: the gateway does not answer, or the database cannot be used.
        """
        taken = 0
        for one in self._ask_gateway("epochs")["shares"]:
            for epoch in one["epochs"]:
                self._record(one["share"], one["prefix"], one["journal"], epoch)
                taken += 1
        return taken

    def _record(self, share: str, prefix: str, journal: str, epoch: int) -> None:
        outcomes = self._outcomes(share, epoch)
        if outcomes:
            spec = gateway.upload_batch_spec(self._places[share], prefix, share=share, journal=journal, epoch=epoch)
            transfer_id = gateway.upload_batch_id(share, journal, epoch)
            objects = _objects(prefix, outcomes)
            with self._database().write() as connection:
                is_new = ended_transfers.insert(
                    connection,
                    spec,
                    objects,
                    transfer_id=transfer_id,
                    actor=f"gateway on {self._settings.host_name}",
                    description=Description(share),
                )
                if is_new:
                    wanted = self._settings.notices.wanting("finished")
                    subject = Subject("transfer", transfer_id)
                    notice_rows.record(connection, subject, "finished", wanted, time.time())
                crash_points.reach("before-epoch-recorded")
            crash_points.reach("after-epoch-recorded")
        self._ask_gateway("forget", share=share, epoch=epoch)

    def _outcomes(self, share: str, epoch: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None:
            page = self._ask_gateway("epoch", share=share, epoch=epoch, offset=offset)
            found += page["outcomes"]
            offset = page["next"]
        return found

    def _ask_gateway(self, command: str, **facts: Any) -> dict[str, Any]:
        answer = json.loads(self._ask(json.dumps({"command": command, **facts})))
        if "error" in answer:
            raise ConfigError(f"{answer['error']}".rstrip(".") + ".")
        return cast("dict[str, Any]", answer["ok"])

    def _database(self) -> Database:
        if self._service is None:
            self._service = Base.open(self._settings)
        return self._service.database


def _objects(prefix: str, outcomes: Sequence[Mapping[str, Any]]) -> list[EndedObject]:
    uploads = Counter[str]()
    objects: list[EndedObject] = []
    for one in outcomes:
        # A file that is written again before its epoch ends has a row for each upload.
        objects.append(_object(prefix, uploads[one["path"]], one))
        uploads[one["path"]] += 1
    return objects


def _object(prefix: str, upload_number: int, one: Mapping[str, Any]) -> EndedObject:
    version, failure = one["version"], one["failure"]
    found: dict[str, Any] = {}
    if version is not None:
        found = {
            "method": version["method"],
            "target_etag": version["etag"],
            "target_version_id": version["version_id"] or None,
            "checksum_algorithm": version["checksum_algorithm"],
            "checksum": version["checksum"],
            "verified": version["verified"],
        }
    if failure is not None:
        # PostgreSQL stores no NUL.
        message = failure["message"].replace("\0", "")
        found["failed"] = (failure["class"], failure["code"], failure["operation"], message)
    return EndedObject(
        key=prefix + one["path"],
        upload_number=upload_number,
        size=one["size"],
        last_modified=one["modified"],
        written_by=None if one["uid"] is None else f"uid {one['uid']} at {one['address']}",
        attempts=one["attempts"],
        started_at=one["started"],
        ended_at=one["ended"],
        **found,
    )
