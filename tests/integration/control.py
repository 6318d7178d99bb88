"""Instruments of the tests of the control plane."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from seqferry.db import planned_objects, transfers
from seqferry.db.objects import PlannedObject
from seqferry.db.tables import batch, object_, tally
from seqferry.model.models import ENDED_TRANSFER_STATES, RESULT_COLUMNS, Status, TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec.build import build_spec
from support.processes import run, seqferry
from support.servers import S3Server
from support.waiting import eventually

MIB: Final = 1024 * 1024

PLACES: Final = ("sqlite", pytest.param("postgres", marks=pytest.mark.postgres))

ANY_SPEC: Final = build_spec("s3://vendor/run/", "s3://ours/run/", endpoint_url="http://127.0.0.1:9")
"""For tests that never reach the storage."""


def spec_number(number: int) -> TransferSpec:
    """As ``ANY_SPEC``, with a target of its own."""
    return build_spec("s3://vendor/run/", f"s3://ours/number{number}/", endpoint_url="http://127.0.0.1:9")


def settings_for(folder: Path, database_url: str | None) -> Settings:
    home = os.environ["XDG_CONFIG_HOME"]  # that of commands too: all write the record with one audit key
    return Settings.load({"XDG_CONFIG_HOME": home}, state_dir=folder / "state", database_url=database_url)


def command(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    """What `seqferry` does with these words in the state folder and the database of a service."""
    line = [seqferry(), *words, "--state-dir", str(service.settings.state_dir)]
    url = service.settings.database_url
    return run(line, environment={} if url is None else {"SEQFERRY_DATABASE_URL": url}, expect=None, is_preloaded=True)


def spec_on(server: S3Server, source: str, target: str, **options: Any) -> TransferSpec:
    """A spec with parts as small as S3 allows, so that 6 MiB are multipart."""
    defaults: dict[str, Any] = {"part_size": 5 * MIB, "copy_threshold": 5 * MIB}
    return build_spec(source, target, endpoint_url=server.endpoint_url, **(defaults | options))


def planned(key: str, size: int = 1) -> PlannedObject:
    return PlannedObject(
        source_key=f"run/{key}",
        target_key=f"run/{key}",
        size=size,
        etag="etag",
        last_modified=1.0,
        version_id=None,
        storage_class=None,
    )


def add_batch(
    connection: sa.Connection, transfer_id: str, found: Sequence[PlannedObject], at: float = 1.0
) -> int | None:
    """Its number, None when all objects were there."""
    numbers = planned_objects.add_batches(connection, transfer_id, [found], at)
    return numbers[0] if numbers else None


def results(*ends: dict[str, Any]) -> list[str]:
    """Ends of objects as the engine tells them: ``id``, ``state`` and more; what is left out is nothing or nought."""
    plain = {"size": 0, "etag": "", "attempts": 0, "retries": 0, "keeps_upload": False}
    whole = [plain | ({"error_class": "object"} if end["state"] == "failed" else {}) | end for end in ends]
    return [",".join(json.dumps(end.get(name), ensure_ascii=False) for end in whole) for name in RESULT_COLUMNS]


def until_ended(service: Service, transfer_id: str, deadline: float = 120.0) -> Status:
    """The status of the transfer once it has ended."""

    def ended() -> Status | None:
        # The status as a whole takes some ten queries: asked while the transfer runs, they would take its CPU time.
        with service.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
        return None if row is not None and row.state not in ENDED_TRANSFER_STATES else service.status(transfer_id)

    return eventually(ended, what=f"the end of transfer {transfer_id}", deadline=deadline, every=0.05)


def counters_fit_rows(service: Service, transfer_id: str) -> None:
    """The counters of each batch are those of its rows, and the tally of the transfer is the sum of its batches."""
    with service.database.read() as connection:
        names = ("objects", "bytes", "done", "skipped", "failed", "cancelled", "bytes_done")
        sums = connection.execute(
            sa.select(*(sa.func.coalesce(sa.func.sum(batch.c[name]), 0) for name in names)).where(
                batch.c.transfer_id == transfer_id
            )
        ).one()
        kept = connection.execute(
            sa.select(*(tally.c[name] for name in names)).where(tally.c.transfer_id == transfer_id)
        )
        assert tuple(kept.one()) == tuple(map(int, sums))
        for row in connection.execute(sa.select(batch).where(batch.c.transfer_id == transfer_id)):
            of_batch = (object_.c.transfer_id == transfer_id, object_.c.batch_number == row.number)
            by_state = {
                state: (count, int(size))
                for state, count, size in connection.execute(
                    sa.select(object_.c.state, sa.func.count(), sa.func.sum(object_.c.size))
                    .where(*of_batch)
                    .group_by(object_.c.state)
                )
            }
            counted = {state: getattr(row, state) for state in ("done", "skipped", "failed", "cancelled")}
            assert counted == {state: by_state.get(state, (0, 0))[0] for state in counted}
            assert row.bytes == sum(size for _, size in by_state.values())
            assert row.objects == sum(count for count, _ in by_state.values())
            assert row.bytes_done == sum(by_state.get(state, (0, 0))[1] for state in ("done", "skipped"))
