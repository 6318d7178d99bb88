"""Results of several batches are written together, and none spoils the others."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, add_batch, counters_fit_rows, planned, results, settings_for, spec_number
from sqlalchemy.exc import DBAPIError

from seqferry.db import batches, objects
from seqferry.db.batches import BatchRun
from seqferry.db.group_commit import GroupCommit
from seqferry.model.models import RESULT_COLUMNS
from seqferry.service.service import Service

pytestmark = pytest.mark.every_database  # results are written in bulk by each in its own way


def _begun(service: Service, transfer_id: str, count: int, each: int) -> list[tuple[BatchRun, list[int]]]:
    """First runs of so many new batches, with the ids of their objects."""
    begun: list[tuple[BatchRun, list[int]]] = []
    with service.database.write() as connection:
        for batch in range(count):
            number = add_batch(connection, transfer_id, [planned(f"{batch}-{one}", 10) for one in range(each)])
            assert number is not None
            run = batches.begin_batch(connection, transfer_id, number, 1.0)
            assert run is not None
            begun.append((run, [one.id for one in objects.open_objects(connection, run)]))
    return begun


def _done(ids: list[int]) -> list[str]:
    return results(*({"id": one, "state": "done", "size": 10, "attempts": 1} for one in ids))


def test_what_waits_while_another_writes_is_written_in_one_transaction(service: Service) -> None:
    first, second = service.submit(ANY_SPEC, actor="ada"), service.submit(spec_number(2), actor="ada")
    begun = _begun(service, first, 3, 2) + _begun(service, second, 2, 2)
    recorder = GroupCommit(service.database, batches.record_each, durable=False)
    commits: list[None] = []
    sa.event.listen(service.database.engine, "commit", lambda _: commits.append(None))
    owned: list[bool] = []

    # While this holds the turn, all others come to wait.
    recorder._writing.acquire()  # pyright: ignore[reportPrivateUsage]
    threads = [
        threading.Thread(target=lambda run=run, ids=ids: owned.append(recorder.commit((run, _done(ids)))))
        for run, ids in begun
    ]
    for thread in threads:
        thread.start()
    while len(recorder._waiting) < len(begun):  # pyright: ignore[reportPrivateUsage]
        threading.Event().wait(0.01)
    recorder._writing.release()  # pyright: ignore[reportPrivateUsage]
    for thread in threads:
        thread.join(30)

    assert owned == [True] * 5
    assert len(commits) == 1
    assert (service.status(first).totals.done, service.status(second).totals.done) == (6, 4)
    assert (service.status(first).totals.bytes_done, service.status(second).totals.bytes_done) == (60, 40)
    counters_fit_rows(service, first)
    counters_fit_rows(service, second)


def test_a_run_that_was_taken_over_writes_nothing_beside_others_that_do(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    (lost, lost_ids), (mine, my_ids) = _begun(service, transfer_id, 2, 2)
    with service.database.write() as connection:
        assert batches.begin_batch(connection, transfer_id, lost.number, 2.0) is not None

        assert batches.record(connection, [(lost, _done(lost_ids)), (mine, _done(my_ids))]) == {mine}

    states = {record.row: record.state for record in service.objects(transfer_id)}
    assert states == dict.fromkeys(lost_ids, "active") | dict.fromkeys(my_ids, "done")
    counters_fit_rows(service, transfer_id)


def test_results_that_cannot_be_written_fail_their_own_batch_only(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    (good, good_ids), (bad, bad_ids) = _begun(service, transfer_id, 2, 2)
    spoilt = _done(bad_ids)
    spoilt[RESULT_COLUMNS.index("state")] = "null,null"  # the column may not be empty
    recorder = GroupCommit(service.database, batches.record_each, durable=False)
    failures: list[BatchRun] = []

    def record(run: BatchRun, columns: list[str]) -> None:
        try:
            assert recorder.commit((run, columns))
        except DBAPIError:
            failures.append(run)

    recorder._writing.acquire()  # pyright: ignore[reportPrivateUsage]
    threads = [
        threading.Thread(target=record, args=(run, columns))
        for run, columns in [(good, _done(good_ids)), (bad, spoilt)]
    ]
    for thread in threads:
        thread.start()
    while len(recorder._waiting) < 2:  # pyright: ignore[reportPrivateUsage]
        threading.Event().wait(0.01)
    recorder._writing.release()  # pyright: ignore[reportPrivateUsage]
    for thread in threads:
        thread.join(30)

    assert failures == [bad]
    assert service.status(transfer_id).totals.done == 2
    counters_fit_rows(service, transfer_id)


def test_results_that_are_told_again_are_counted_once(service: Service) -> None:
    """As after a commit whose answer was lost: the same results come again, some of them beside new ones."""
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    [(run, ids)] = _begun(service, transfer_id, 1, 4)
    ends = {
        "done": {"size": 11, "attempts": 1, "retries": 2},
        "skipped": {"size": 10},
        "failed": {"size": 10, "attempts": 3},
    }
    first = results(*({"id": one, "state": state, **end} for one, (state, end) in zip(ids, ends.items(), strict=False)))
    again = results(
        {"id": ids[0], "state": "failed", "size": 99},
        {"id": ids[3], "state": "done", "size": 10},
        {"id": ids[3], "state": "done", "size": 10},
        {"id": 1 << 40, "state": "done", "size": 10},
    )
    with service.database.write() as connection:
        assert batches.record(connection, [(run, first)]) == {run}
    with service.database.write() as connection:
        assert batches.record(connection, [(run, first)]) == {run}
    with service.database.write() as connection:
        assert batches.record(connection, [(run, again)]) == {run}

    totals = service.status(transfer_id).totals
    assert (totals.done, totals.skipped, totals.failed) == (2, 1, 1)
    assert (totals.bytes, totals.bytes_done) == (41, 31)
    records = {record.row: record for record in service.objects(transfer_id)}
    assert [records[one].state for one in ids] == ["done", "skipped", "failed", "done"]
    assert (records[ids[0]].attempts, records[ids[0]].retries) == (1, 2)
    counters_fit_rows(service, transfer_id)


def test_texts_with_every_kind_of_character_come_back_unchanged(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    texts = ['"', "\\", "{a,b}", "null", "NULL", "", " ", "tab\there", "line\nfeed", "\x01", "ä\U0001f9ec", "'", "\\N"]
    [(run, ids)] = _begun(service, transfer_id, 1, len(texts))
    columns = results(*({"id": one, "state": "failed"} for one in ids))
    # As the engine writes it: only quotes and backslashes are escaped, all else stands for itself.
    quoted = ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    columns[RESULT_COLUMNS.index("error_message")] = ",".join(quoted)

    with service.database.write() as connection:
        assert batches.record(connection, [(run, columns)]) == {run}

    assert [record.error_message for record in service.objects(transfer_id)] == texts


@pytest.mark.postgres
def test_a_result_writes_no_index_on_postgres(migrated_url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Service.open(settings_for(tmp_path_factory.mktemp("state"), migrated_url)) as service:
        transfer_id = service.submit(ANY_SPEC, actor="ada")
        [(run, ids)] = _begun(service, transfer_id, 1, 200)

        with service.database.write() as connection:
            batches.record(connection, [(run, _done(ids))])
            written = connection.execute(
                sa.text("select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'object'")
            ).one()

    assert tuple(written) == (200, 200)
