"""An operation is added by a package and a line: queue, batches, recording and ends are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

import operation_compare
import pytest
from control import ANY_SPEC
from ferry import Ferry, FerryFactory

from seqferry.model import operations
from seqferry.model.errors import UnsupportedError
from seqferry.model.operations import OPERATIONS, Operation
from seqferry.service.service import Service
from seqferry.workflows.operations import work_of
from seqferry.workflows.worker import Worker
from support.servers import S3Server

WorkerStarter = Callable[[Service], Worker]


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, monkeypatch: pytest.MonkeyPatch) -> Ferry:
    monkeypatch.setitem(OPERATIONS, "compare", Operation("compare", "operation_compare"))
    return make_ferry(service)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_of_the_registry_is_there(name: str) -> None:
    module = import_module(operations.find_operation(name).module)

    assert isinstance(module.OPERATION.options, frozenset)


def test_an_operation_that_is_registered_is_carried_to_its_end(ferry: Ferry) -> None:
    ferry.fill({f"run/{number:04d}": number for number in range(40)})
    client = ferry.server.client()
    for number in range(40):
        body = bytes(number if number != 7 else 3)
        client.put_object(Bucket=ferry.target, Key=f"in/{number:04d}", Body=body)
    before = ferry.arrived()
    spec = replace(ferry.spec(), operation="compare")
    transfer_id = ferry.service.submit(spec, actor="ada")

    ferry.work()

    status = ferry.until_ended(transfer_id)
    assert (status.state, status.totals.skipped, status.totals.failed) == ("done_with_failures", 39, 1)
    [failed] = ferry.service.failures(transfer_id)
    assert (failed.error_code, failed.keys) == ("SizeDiffers", ("run/0007",))
    assert "7 were expected" in failed.message
    assert operation_compare.OPERATION.finished[-1] == transfer_id
    assert ferry.arrived() == before
    kinds = [event.kind for event in ferry.service.events(transfer_id)]
    assert kinds == ["submitted", "started", "planned", "done_with_failures"]


def test_options_of_its_own_reach_the_operation(ferry: Ferry) -> None:
    ferry.fill({"run/a": 3})
    spec = replace(ferry.spec(), operation="compare", options={"lenient": True})
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()

    assert ferry.until_ended(transfer_id).totals.done == 1
    with pytest.raises(UnsupportedError, match="the option 'strict' of the operation 'compare'"):
        work_of(replace(spec, options={"strict": True}))


def test_what_is_not_registered_is_not_recorded(service: Service) -> None:
    spec = replace(ANY_SPEC, operation="rewind")
    with pytest.raises(UnsupportedError, match="the operation 'rewind'"):
        service.submit(spec, actor="ada")
    assert service.transfers() == []
