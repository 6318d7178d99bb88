"""Rows of older and newer versions: what can be done is done, the rest stays and says what it needs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from ferry import Ferry

from seqferry.cli.app import run
from seqferry.db.database import Database
from seqferry.db.migrate import HEAD, VERSION_TABLE, migrate, upgrade_to
from seqferry.db.tables import transfer
from seqferry.model.errors import UnsupportedError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.spec import identity, stored
from seqferry.spec.run import PARTS, Command, build_run_spec
from seqferry.workflows.worker import Worker
from support.servers import S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

FIRST_PLACE: dict[str, Any] = {
    "access": None, "anonymous": False, "bucket": "from", "disk": False, "empty_directories": False,
    "endpoint_url": None, "key": "run/", "page_cache": False, "preserve_permissions": False, "profile": None,
    "region": None, "symlinks": "follow",
}  # fmt: skip


def _first(source: dict[str, Any], target: dict[str, Any], **more: Any) -> str:
    """A spec as versions without tags wrote it."""
    spec = {
        "copy_threshold": None, "delete": False, "if_exists": "same", "keys": None, "max_delete": None, "md5": False,
        "part_size": None, "single": False, "storage_class": None, "strip": source["key"], "verify": "auto",
        "source": {**FIRST_PLACE, **source}, "target": {**FIRST_PLACE, **target}, **more,
    }  # fmt: skip
    return json.dumps(spec, ensure_ascii=False, sort_keys=True)


def _untagged(spec: TransferSpec) -> str:
    """A spec of S3 places as versions without tags wrote it."""
    data: dict[str, Any] = json.loads(stored.write(spec))
    places = {side: {**FIRST_PLACE, **data.pop(side)} for side in ("source", "target")}
    for place in places.values():
        del place["type"]
    del data["version"], data["operation"]
    return _first(places["source"], places["target"], **data)


@pytest.mark.every_database
def test_specs_that_were_stored_get_tags(empty_settings: Settings) -> None:
    empty_settings.prepare_state_dir()
    database = Database(empty_settings)
    s3 = _first({"key": "run/ü%"}, {"bucket": "to", "key": ""}, keys=["a"])
    disk = _first({"bucket": "/data/run", "key": "", "disk": True, "symlinks": "skip"}, {"bucket": "to"}, md5=True)
    newer = '{"version": 9, "operation": "rewind"}'
    specs = {"s3": s3, "disk": disk, "odd": "{}", "torn": "{", "newer": newer}
    specs |= {f"many{number:04d}": s3 for number in range(1200)}
    with database.write() as connection:
        upgrade_to(connection, "0005")
        connection.execute(
            sa.text(
                "insert into transfer (id, state, spec, created_at, created_by, ended_at) "
                "values (:id, 'done', :spec, 1, 'ada', 2)"
            ),
            [{"id": transfer_id, "spec": spec} for transfer_id, spec in specs.items()],
        )
        connection.execute(
            sa.text(
                "insert into transfer (id, state, spec, created_at, created_by) values ('begun', 'running', :s, 1, 'a')"
            ),
            {"s": s3},
        )
        connection.execute(sa.text("insert into tally select id, 0, 0, 0, 0, 0, 0, 0 from transfer"))

    migrate(empty_settings, database)

    with database.read() as connection:
        kept = {row.id: row.spec for row in connection.execute(sa.select(transfer.c.id, transfer.c.spec))}
        version = connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar()
    assert version == HEAD
    tagged = json.loads(kept["s3"])
    assert (tagged["version"], tagged["operation"], tagged["source"]["type"]) == (2, "transfer", "s3")
    source = S3Location("from", "run/ü%")
    assert stored.read(kept["s3"]) == TransferSpec(source, S3Location("to"), strip="run/ü%", keys=("a",))
    assert json.loads(kept["disk"])["source"]["type"] == "folder"
    assert stored.read(kept["disk"]).source == LocalFolder("/data/run", symlinks="skip")
    left = {"odd": "{}", "torn": "{", "newer": newer, "begun": s3}
    assert {name: kept[name] for name in left} == left
    assert {kept[name] for name in kept if name.startswith("many")} == {kept["s3"]}
    database.close()
    with Service.open(empty_settings) as service:
        assert len(service.transfers(10_000)) == len(specs) + 1


@pytest.fixture
def ferry(
    service: Service,
    versitygw: S3Server,
    make_bucket: BucketFactory,
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
) -> Ferry:
    made = (make_bucket(versitygw), make_bucket(versitygw))
    return Ferry(service, versitygw, versitygw, *made, rng, start_worker)


def _rewrite(service: Service, transfer_id: str, spec: str, **values: Any) -> None:
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(spec=spec, **values))


def test_a_transfer_of_an_older_version_is_done_and_taken_up_by_its_submission(ferry: Ferry) -> None:
    ferry.fill({"run/a": 10, "run/b": 20})
    service, spec = ferry.service, ferry.spec()
    transfer_id = service.submit(spec, actor="ada")
    _rewrite(service, transfer_id, _untagged(identity.resolve(spec)))

    again = service.submission(spec, actor="bob")
    ferry.work()

    assert (again.id, again.goes_on) == (transfer_id, True)
    assert ferry.until_ended(transfer_id).totals.done == 2
    assert ferry.arrived() == ferry.sent()


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
    spec = build_run_spec([Command(number, line) for number, line in enumerate(lines, 1)], "list")
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
    assert identity.missing(identity.needs(newer)) == "a version of Seqferry that knows the operation rewind"
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
