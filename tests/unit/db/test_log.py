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
