"""A transfer's rows under any order of acts, kills and late-comers, against a simple model.

The model knows only what must be true to a user: objects end once and stay as they ended, counters fit, an ended
transfer stays ended, a run that was taken over writes nothing, the record of events is whole.
"""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, add_batch, counters_fit_rows, planned, results, settings_for
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from seqferry.db import batches, objects, transfers
from seqferry.db.batches import BatchRun, ObjectOutcome
from seqferry.db.tables import batch, object_
from seqferry.model.models import ENDED_TRANSFER_STATES
from seqferry.service.service import Service

_ACTS = (
    *("begin_batch", "record", "record", "end_batch") * 3,
    *(
        "begin_plan",
        "add_batch",
        "end_plan",
        "finish",
        "finish",
        "cancel_queued",
        "cancel",
        "fail_as_a_whole",
        "to_the_end",
    ),
)
_ENDS = st.sampled_from(["done", "skipped", "failed", "cancelled"])


@functools.cache
def _migrated() -> bytes:
    """A database file with all tables, to be copied: making them takes longer than an example."""
    with tempfile.TemporaryDirectory() as folder:
        place = settings_for(Path(folder), None)
        Service.open(place).close()
        return place.sqlite_path.read_bytes()


class TransferRows(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        place = settings_for(Path(self.folder.name), None)
        place.prepare_state_dir()
        place.sqlite_path.write_bytes(_migrated())
        self.service = Service.open(place)
        self.keys = 0
        self.ends: dict[int, str] = {}
        self.latest: dict[int, int] = {}
        self.final: str | None = None
        self.cancelled = self.stopped = False
        self.calm = 0
        self.begun: list[BatchRun] = []

    def teardown(self) -> None:
        self.service.close()
        self.folder.cleanup()

    @initialize(batches=st.lists(st.integers(1, 4), max_size=3), calm=st.integers(0, 50))
    def submit(self, batches: list[int], calm: int) -> None:
        """Most of the time something is planned, and goes well for a while."""
        self.id = self.service.submit(ANY_SPEC, actor="ada")
        self.calm = calm
        if batches:
            self.begin_plan()
        for count in batches:
            self.add_batch(count, again=False)

    @rule(data=st.data(), act=st.sampled_from(_ACTS))
    def act(self, data: st.DataObject, act: str) -> None:
        """One rule with weights: chosen evenly, most examples would end before a batch was begun."""
        self.calm -= 1
        if act in ("cancel", "fail_as_a_whole") and self.calm >= 0:
            return
        if act == "add_batch":
            self.add_batch(data.draw(st.integers(0, 4)), again=data.draw(st.booleans()))
        elif act == "cancel_queued":
            self.cancel_queued(data.draw(st.integers(1, 3)))
        elif act == "begin_batch":
            self.begin_batch(data)
        elif act in ("record", "end_batch"):
            if self.begun:
                run = data.draw(st.sampled_from(self.begun))
                if act == "record":
                    self.record(run, data)
                else:
                    self.end_batch(run, give_up=data.draw(st.booleans()))
        else:
            getattr(self, act)()

    def _state(self) -> str:
        return self.service.status(self.id).state

    # --- the workflow of the transfer; each of these may happen again after a kill ---

    def begin_plan(self) -> None:
        with self.service.database.write() as connection:
            row = transfers.begin_plan(connection, self.id, time.time(), "worker", "session")
        if self.cancelled or self.stopped or self.final:
            assert row is None

    def add_batch(self, count: int, again: bool) -> None:
        if self._state() != "planning" or self.stopped or self.service.status(self.id).planned:
            return
        fresh = [planned(f"{self.keys + number}", number) for number in range(count)]
        known = [planned(f"{number}", 7) for number in range(self.keys)] if again else []
        with self.service.database.write() as connection:
            number = add_batch(connection, self.id, known + fresh)
        assert (number is None) == (count == 0)
        self.keys += count

    def end_plan(self) -> None:
        if self._state() == "planning":
            with self.service.database.write() as connection:
                transfers.end_plan(connection, self.id, time.time(), "worker")

    def cancel_queued(self, limit: int) -> None:
        if not (self.cancelled or self.stopped) or self.final:
            return
        with self.service.database.write() as connection:
            numbers = batches.cancel_queued(connection, self.id, time.time(), limit)
            rows = connection.execute(
                sa.select(object_.c.id).where(object_.c.transfer_id == self.id, object_.c.batch_number.in_(numbers))
            )
            for row in rows:
                self.ends.setdefault(row.id, "cancelled")
        assert not any(number in self.latest for number in numbers)

    def finish(self) -> None:
        """The workflow gets here when it sees no open batch, and planning is over or given up."""
        with self.service.database.read() as connection:
            if batches.open_batches(connection, self.id, limit=1):
                return
        status = self.service.status(self.id)
        if not (status.planned or self.cancelled or self.stopped) or self.final:
            return
        with self.service.database.write() as connection:
            transfers.finish(connection, self.id, time.time(), "worker")
        done = "done_with_failures" if "failed" in self.ends.values() else "done"
        self.final = "cancelled" if self.cancelled else "failed" if self.stopped else done
        assert self._state() == self.final

    # --- workflows of batches ---

    def begin_batch(self, data: st.DataObject) -> None:
        """A first run, or another one after a kill or by a worker that takes the first for dead."""
        with self.service.database.read() as connection:
            numbers = list(connection.execute(sa.select(batch.c.number).order_by(batch.c.number)).scalars())
        if not numbers:
            return
        number = data.draw(st.sampled_from(numbers))
        with self.service.database.write() as connection:
            run = batches.begin_batch(connection, self.id, number, time.time())
        if run is None:
            return
        assert run.run == self.latest.get(number, 0) + 1
        assert run.stopping == (self.cancelled or self.stopped)
        self.latest[number] = run.run
        self.begun.append(run)

    def record(self, run: BatchRun, data: st.DataObject) -> None:
        with self.service.database.write() as connection:
            if run.run != self.latest[run.number]:
                late = results({"id": data.draw(st.sampled_from(self._rows(connection, run))), "state": "failed"})
                assert batches.record(connection, [(run, late)]) == set()
            if not self._owned(connection, run):
                return
            left = objects.open_objects(connection, run)
            assert {one.id for one in left}.isdisjoint(self.ends)
            # Also objects that have ended: an outcome may come twice.
            ids = self._rows(connection, run)
            chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
            states = {one: data.draw(_ENDS) for one in chosen}
            columns = results(*({"id": one, "state": state, "attempts": 1} for one, state in states.items()))
            assert batches.record(connection, [(run, columns)]) == {run}
            for one, state in states.items():
                self.ends.setdefault(one, state)

    def end_batch(self, run: BatchRun, give_up: bool) -> None:
        with self.service.database.write() as connection:
            if not self._owned(connection, run):
                return
            left = objects.open_objects(connection, run)
            assert batches.close(connection, run, time.time()) == (not left)
            if not left or (not give_up and not (self.cancelled or self.stopped)):
                return
            state = "failed" if give_up else "cancelled"
            end = ObjectOutcome(state=state, ended_at=1.0, error_class="retry" if give_up else None)
            batches.end_open_objects(connection, run, end)
            batches.end_batch(connection, run, time.time())
            self.ends.update({one.id: state for one in left})

    def to_the_end(self) -> None:
        """A last worker comes, and nothing disturbs it. Runs of before may still come late."""
        self.begin_plan()
        self.end_plan()
        with self.service.database.read() as connection:
            numbers = batches.open_batches(connection, self.id, limit=100)
        for number in numbers:
            with self.service.database.write() as connection:
                run = batches.begin_batch(connection, self.id, number, time.time())
            assert run is not None
            self.latest[number] = run.run
            self.end_batch(run, give_up=True)
        self.finish()

    def _rows(self, connection: sa.Connection, run: BatchRun) -> list[int]:
        of_batch = (object_.c.transfer_id == self.id, object_.c.batch_number == run.number)
        return list(connection.execute(sa.select(object_.c.id).where(*of_batch)).scalars())

    def _owned(self, connection: sa.Connection, run: BatchRun) -> bool:
        owned = batches.is_latest_run(connection, run)
        assert owned == (self.latest[run.number] == run.run)
        ended = connection.execute(
            sa.select(batch.c.state).where(batch.c.transfer_id == self.id, batch.c.number == run.number)
        ).scalar()
        return owned and ended != "ended"

    # --- people and storage ---

    def cancel(self) -> None:
        with self.service.database.write() as connection:
            before = transfers.row_of(connection, self.id)
            assert before is not None
            transfers.request_cancel(connection, self.id, time.time(), "ada")
        if self.final is None and not self.stopped:  # what comes first wins
            self.cancelled = True
            if before.state == "queued":
                self.final = "cancelled"

    def fail_as_a_whole(self) -> None:
        if self._state() == "queued":
            return
        with self.service.database.write() as connection:
            transfers.request_stop(connection, self.id, time.time(), "worker", "ExpiredToken", "expired")
        if self.final is None and not self.cancelled:
            self.stopped = True

    # --- what must hold ---

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "id"):
            return
        status = self.service.status(self.id)
        assert (status.state in ENDED_TRANSFER_STATES) == (self.final is not None)
        assert self.final is None or status.state == self.final
        records = {record.row: record for record in self.service.objects(self.id)}
        assert len(records) == self.keys == status.totals.objects
        for row, state in self.ends.items():
            assert records[row].state == state
        assert status.totals.ended == len(self.ends)
        if self.final is not None:
            assert status.totals.ended == status.totals.objects
        counters_fit_rows(self.service, self.id)
        assert [one for one in self.service.record_findings(self.id) if one.kind.startswith("event")] == []


TransferRows.TestCase.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestTransferRows = pytest.mark.long(TransferRows.TestCase)
