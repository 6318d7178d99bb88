"""Schedules that a writer of the database has changed: they are held against their record."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from ended import ended

from seqferry.db.tables import schedule, schedule_event
from seqferry.proof import auditing
from seqferry.proof.auditing import AuditCounts, Finding
from seqferry.service import schedules
from seqferry.service.service import Service
from seqferry.spec.build import build_spec

SPEC = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")

Forgery = Callable[[sa.Connection], object]


def _audit(service: Service) -> list[Finding]:
    return list(auditing.verify(service.database, AuditCounts()))


def _set(**values: object) -> Forgery:
    return lambda connection: connection.execute(schedule.update().values(**values))


def _other_target(connection: sa.Connection) -> None:
    row = connection.execute(sa.select(schedule)).one()
    spec = json.loads(row.spec)
    spec["target"]["bucket"] = "elsewhere"
    connection.execute(schedule.update().values(spec=json.dumps(spec)))


def _without_record(connection: sa.Connection) -> None:
    connection.execute(schedule_event.delete())


def _second(connection: sa.Connection) -> None:
    row = connection.execute(sa.select(schedule)).mappings().one()
    connection.execute(schedule.insert().values({**row, "id": "forged", "name": "second"}))


def _without_pause(connection: sa.Connection) -> None:
    """The last event, which has paused it, is cut off."""
    last = sa.select(sa.func.max(schedule_event.c.number)).scalar_subquery()
    connection.execute(schedule_event.delete().where(schedule_event.c.number == last))


def _under_another_name(connection: sa.Connection) -> None:
    connection.execute(schedule_event.update().values(name="other"))


FORGERIES: dict[str, tuple[Forgery, str, str]] = {
    "another target": (_other_target, "schedule_changed", "spec"),
    "no spec": (_set(spec="x"), "schedule_changed", "spec"),
    "another time": (_set(cron="* * * * *"), "schedule_changed", "cron"),
    "another zone": (_set(timezone="Asia/Tokyo"), "schedule_changed", "timezone"),
    "another person": (_set(created_by="http root"), "schedule_changed", "created_by"),
    "another day": (_set(created_at=1.0), "schedule_changed", "created_at"),
    "another name": (_set(name="other"), "schedule_changed", "name"),
    "another priority": (_set(priority=7), "schedule_changed", "priority"),
    "not paused": (_set(state="active"), "schedule_changed", "state"),
    "an end cut off": (_without_pause, "schedule_changed", "state"),
    "no record": (_without_record, "schedule_added", ""),
    "a second one": (_second, "schedule_added", ""),
    "none": (lambda connection: connection.execute(schedule.delete()), "schedule_removed", ""),
    "events of another name": (_under_another_name, "schedule_changed", "event 1"),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_schedule_that_is_not_as_its_events_tell_is_found(service: Service, what: str) -> None:
    forge, kind, column = FORGERIES[what]
    ended(service)  # makes the key
    schedules.add(service, "0 2 * * *", SPEC, actor="ada", name="nightly")
    schedules.edit(service, "nightly", expression="0 3 * * *", actor="ada")
    schedules.pause(service, "nightly", actor="ada")
    assert _audit(service) == []

    with service.database.write() as connection:
        forge(connection)

    assert [(one.kind, one.row) for one in _audit(service)] == [(kind, column)]


def test_a_schedule_is_as_its_events_tell_after_each_act(service: Service) -> None:
    ended(service)
    schedules.add(service, "0 2 * * *", SPEC, actor="ada", name="nightly", priority=3)
    schedules.edit(service, "nightly", expression="0 3 * * *", timezone="Europe/Berlin", actor="ben")
    assert _audit(service) == []
    schedules.pause(service, "nightly", actor="ben")
    schedules.resume(service, "nightly", actor="ada")
    assert _audit(service) == []

    schedules.remove(service, "nightly", actor="ada")
    schedules.add(service, "0 2 * * *", SPEC, actor="ada", name="nightly")

    assert _audit(service) == []
