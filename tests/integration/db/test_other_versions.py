"""Rows of newer versions: what can be done is done, the rest stays and says what it needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from ferry import Ferry

from seqferry.cli.app import run
from seqferry.db.tables import transfer
from seqferry.model.errors import UnsupportedError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec import identity, stored
from seqferry.spec.run import PARTS, ListedCommand, build_run_spec
from support.servers import S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


def _rewrite(service: Service, transfer_id: str, spec: str, **values: Any) -> None:
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(spec=spec, **values))


UNKNOWN = [
    pytest.param({"version": 3}, "version 3 of the spec", id="version"),
    pytest.param({"encrypt": "age"}, "the field 'encrypt' in its spec", id="field"),
    pytest.param({"operation": "rewind"}, "the operation 'rewind'", id="operation"),
    pytest.param({"source": {"type": "gcs", "bucket": "b"}}, "a source of the type 'gcs'", id="place"),
    pytest.param({"if_exists": "newer"}, "'newer' as 'if_exists' of its spec", id="value"),
]


@pytest.mark.parametrize(("changes", "named"), UNKNOWN)
def test_what_a_worker_cannot_read_stays_and_says_what_it_needs(
    ferry: Ferry, changes: dict[str, Any], named: str
) -> None:
    ferry.fill({"run/a": 10})
    service = ferry.service
    transfer_id, later, other = (ferry.submit(target=target) for target in ("in/", "in/later/", "else/"))
    with service.database.read() as connection:
        specs = connection.execute(sa.select(transfer.c.spec).where(transfer.c.id == transfer_id)).scalar_one()
    _rewrite(service, transfer_id, json.dumps({**json.loads(specs), **changes}))

    ferry.work()

    assert ferry.until_ended(other).totals.done == 1
    status = service.status(transfer_id)
    assert (status.state, status.unsupported) == ("queued", named)
    assert status.waits_for == f"a worker with a version of Seqferry that knows {named}"
    # Where it writes to is not known, so that what may write there waits as well.
    assert service.status(later).blocked_by == transfer_id
    assert [each.id for each in service.transfers() if each.unsupported] == [transfer_id]
    with pytest.raises(UnsupportedError, match="Upgrade Seqferry"):
        service.check_access(status)

    cancelled = service.cancel(transfer_id, actor="ada")

    assert cancelled.state == "cancelled"
    assert ferry.until_ended(later).totals.done == 1


def test_a_transfer_that_names_its_features_is_left_to_a_worker_that_knows_them(ferry: Ferry) -> None:
    service = ferry.service
    ferry.fill({"run/a": 10})
    transfer_id = service.submit(ferry.spec(), actor="ada")
    with service.database.write() as connection:
        row = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one()
        needs = json.loads(row.needs or "[]")
        nobody = {"source": "a newer version (operation rewind)", "proof": ""}
        needs.append({"features": ["operation rewind"], "identity": nobody, "ca_bundle": None})
        lane = identity.lane(json.dumps(needs))
        service.queue.move(connection, transfer_id, row.lane, lane)
        spec = json.dumps({**json.loads(row.spec), "operation": "rewind"})
        values = {"spec": spec, "needs": json.dumps(needs), "lane": lane}
        connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(values))

    ferry.work()

    words = "a worker with a version of Seqferry that knows the operation rewind"
    eventually(lambda: service.status(transfer_id).waits_for == words, what="the worker to leave it alone")
    other = ferry.submit(target="else/")
    assert ferry.until_ended(other).totals.done == 1
    assert service.status(transfer_id).state == "queued"
    with service.database.read() as connection:
        assert connection.execute(sa.select(transfer.c.started_at).where(transfer.c.id == transfer_id)).scalar() is None


def test_a_run_with_a_part_that_a_worker_does_not_know_is_left_as_it_is(ferry: Ferry) -> None:
    ferry.fill({"run/a": 10, "run/b": 10})
    service = ferry.service
    lines = [ferry.spec(f"run/{key}", f"in/{key}", if_exists=how) for key, how in (("a", "same"), ("b", "skip"))]
    spec = build_run_spec([ListedCommand(number, line) for number, line in enumerate(lines, 1)], "list")
    transfer_id = service.submit(spec, actor="ada")
    parts = [dict(part) for part in spec.options[PARTS]]
    parts[1]["spec"] = json.dumps({**json.loads(parts[1]["spec"]), "operation": "rewind"})
    newer = replace(identity.resolve(spec), options={PARTS: parts})
    _rewrite(service, transfer_id, stored.write(newer))

    ferry.work()

    eventually(lambda: service.status(transfer_id).state == "planning", what="the worker to look at the run")
    # A run stands for all of its target bucket, so that another bucket is written to here.
    elsewhere = ferry.spec()
    elsewhere = replace(elsewhere, target=replace(elsewhere.target, bucket=ferry.source, key="else/"))
    assert ferry.until_ended(service.submit(elsewhere, actor="ada")).totals.done == 2
    status = service.status(transfer_id)
    assert (status.state, status.totals.objects) == ("planning", 0)
    # What a newer version submits says so itself, and is left to a worker that knows it.
    assert identity.find_unmet_need(identity.needs(newer)) == "a version of Seqferry that knows the operation rewind"
    assert identity.lane(identity.needs(newer)) != identity.lane(identity.needs(spec))


def test_the_status_command_shows_what_a_transfer_needs(
    sqlite_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with Service.open(sqlite_settings) as service:
        spec = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")
        transfer_id = service.submit(spec, actor="ada")
        _rewrite(service, transfer_id, stored.write(replace(spec, operation="rewind")))
    state = ("--state-dir", str(sqlite_settings.state_dir))

    assert run(["status", transfer_id, *state]) == 0
    assert run(["status", *state]) == 0
    out = capsys.readouterr().out
    assert "waits for a worker with a version of Seqferry that knows the operation 'rewind'" in out
    assert run(["resume", transfer_id, *state]) == 1
    assert "Upgrade Seqferry" in capsys.readouterr().err
