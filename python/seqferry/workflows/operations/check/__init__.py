"""The operation ``check``: source and target are compared, and nothing is changed at either.

An identical object ends as skipped, with its verification. All others fail: the object differs, is missing at the
target, or is missing at the source. What must stay true: no request of the operation writes.
"""

from __future__ import annotations

import time
from typing import Final

from seqferry.db import batches, planned_objects, transfers
from seqferry.db.objects import PlannedObject
from seqferry.model import names
from seqferry.model.errors import StorageError
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.planning import decision, listing
from seqferry.planning.listing import KnownObjects
from seqferry.preflight import start
from seqferry.spec import check
from seqferry.spec.check import ONE_WAY
from seqferry.spec.target_keys import source_key
from seqferry.workflows.operations import OperationWork
from seqferry.workflows.operations.transfer import Transfer
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused


class Check(Transfer):
    """See ``workflows.operations.OperationWork``."""

    options = check.OPTIONS

    def prepare(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
        if known is None:
            start.check_buckets(runtime.engine, spec)

    def target_is_empty(self, runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
        del runtime, spec, known
        return False

    def has_end(self, spec: ResolvedSpec) -> bool:
        del spec
        return True

    def finish(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        """Put on record what only the target has."""
        with runtime.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
        if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row) or row.planned_at is None:
            return
        if ONE_WAY in spec.options or spec.single or spec.keys is not None or spec.pattern is not None:
            return
        try:
            self._add_extras(runtime, transfer_id, spec, claimed=claimed)
        except StorageError as why:
            with runtime.database.write() as connection:
                code = why.error_code or why.code
                transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, code, why.message)

    def _add_extras(self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
        def find_unknown(keys: list[str]) -> list[str]:
            runtime.check()
            with runtime.database.read() as connection:
                return sorted(planned_objects.find_missing_keys(connection, transfer_id, keys))

        for page in listing.find_extras(runtime.engine, spec, str(runtime.state_dir), find_unknown):
            if not page:
                continue
            now = time.time()
            with runtime.database.write() as connection:
                if claimed:
                    runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
                raise_if_paused(transfers.row_of(connection, transfer_id, lock=True))
                group = [_extra(spec, key, etag) for key, etag in sorted(page.items())]
                for number in planned_objects.add_batches(connection, transfer_id, [group], now):
                    run = batches.begin_batch(connection, transfer_id, number, now)
                    if run is not None:
                        batches.close(connection, run, now)


OPERATION: Final[OperationWork] = Check()


def _extra(spec: ResolvedSpec, key: str, etag: str) -> PlannedObject:
    wanted = source_key(spec, key)
    return PlannedObject(
        source_key=wanted,
        target_key=key,
        size=0,
        etag="",
        last_modified=0.0,
        version_id=None,
        storage_class=None,
        target_etag=etag,
        refusal=decision.missing_at_source(spec, wanted, key).refusal,
    )
