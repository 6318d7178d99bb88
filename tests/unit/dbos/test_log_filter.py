"""What the queue library's log lets through."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from dbos import _error as errors

from seqferry.dbos.log_filter import quieten_dbos


@pytest.fixture(autouse=True)
def _without_a_memory() -> Iterator[None]:
    """What an earlier test logged is not taken for a repetition."""
    logger = logging.getLogger("dbos")
    kept, logger.filters = logger.filters, []
    yield
    logger.filters = kept


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


_AWAY_LINE = "Exception encountered in queue thread for transfers.1: the database is away"


def _log(at: float, text: str) -> None:
    logger = logging.getLogger("dbos")
    record = logger.makeRecord("dbos", logging.WARNING, "dbos/_queue.py", 848, text, (), None)
    record.created = at
    logger.handle(record)


def test_an_outage_is_one_line_a_minute_for_all_queues(caplog: pytest.LogCaptureFixture) -> None:
    quieten_dbos()
    for moment in range(1200):  # tenths of a second
        for queue in ("transfers.1", "batches.2"):
            _log(moment / 10, f"Exception encountered in queue thread for {queue}: the database is away")

    assert [record.getMessage() for record in caplog.records] == [
        _AWAY_LINE,
        f"{_AWAY_LINE} (1199 more of this cause since the last such line)",
    ]


def test_another_cause_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    quieten_dbos()
    for cause in ("away", "away", "full", "away"):
        _log(0.0, f"Exception encountered in queue thread for transfers.1: the database is {cause}")

    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records] == ["away", "full"]


def test_causes_that_are_remembered_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    quieten_dbos()
    for number in [*range(1000), 0, 999]:
        _log(0.0, f"Exception: cause {number}")

    assert len(caplog.records) == 1001  # the first one was forgotten, the last one was not


def test_a_line_holds_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    quieten_dbos()
    _log(0.0, "Exception in queue: (psycopg.Error) away [SQL: SELECT secret FROM t] (Background on this error at: x)")

    assert [record.getMessage() for record in caplog.records] == ["Exception in queue: (psycopg.Error) away"]


_LIBRARY = """\
import json
import logging
import subprocess
import sys
from dbos._logger import init_logger
from seqferry.dbos.log_filter import quieten_dbos
from seqferry.settings.logs import to_stderr
to_stderr("json")
init_logger()
quieten_dbos()
logging.getLogger("dbos").warning("Exception in queue thread: away")
"""


def test_lines_of_the_library_have_the_form_of_the_log() -> None:
    said = subprocess.run([sys.executable, "-c", _LIBRARY], check=True, capture_output=True, text=True).stderr

    facts = json.loads(said)  # one line of JSON and nothing else
    assert (facts["logger"], facts["level"], facts["message"]) == ("dbos", "warning", "Exception in queue thread: away")
