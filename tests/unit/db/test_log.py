"""What the queue library's log lets through."""

from __future__ import annotations

import logging

import pytest
from dbos import _error as errors

from seqferry.db.dbos_logging import quieten_dbos


def _said(caplog: pytest.LogCaptureFixture, cause: Exception) -> list[str]:
    quieten_dbos()
    logging.getLogger("dbos").error("Exception encountered in background workflow:", exc_info=cause)
    return [record.getMessage() for record in caplog.records]


def test_batches_of_a_cancelled_transfer_are_not_told_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    assert _said(caplog, errors.DBOSAwaitedWorkflowCancelledError("a-transfer:b000001")) == []


def test_other_failures_are_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    said = _said(caplog, RuntimeError("the disk is gone"))

    assert said == ["Exception encountered in background workflow: the disk is gone"]
    assert caplog.records[0].exc_info is None


_AWAY = """\
Traceback (most recent call last):
  File "sqlalchemy/engine/base.py", line 154, in __init__
    self._dbapi_connection = engine.raw_connection()
                             ^^^^^^^^^^^^^^^^^^^^^^^
psycopg.OperationalError: connection failed: the database system is starting up

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "dbos/_scheduler.py", line 285, in dynamic_scheduler_loop
    schedules = dbos._sys_db.list_schedules(
sqlalchemy.exc.OperationalError: (psycopg.Error) away:
DETAIL:  Not yet.
(Background on this error at: https://sqlalche.me/e/21/e3q8)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"Exception polling schedules: {_AWAY}",
            "Exception polling schedules: sqlalchemy.exc.OperationalError: (psycopg.Error) away: DETAIL: Not yet.",
        ),
        ("Exception: Traceback (most recent call last):\n  File x\nKeyError", "Exception: KeyError"),
        (
            "Exception reloading: the database\nis away\n(Background on this error at: https://sqlalche.me/e/21/e3q8)",
            "Exception reloading: the database is away",
        ),
        ("one line", "one line"),
    ],
)
def test_a_traceback_within_a_message_is_one_line(caplog: pytest.LogCaptureFixture, text: str, said: str) -> None:
    quieten_dbos()
    logging.getLogger("dbos").warning(text)

    assert [record.getMessage() for record in caplog.records] == [said]
