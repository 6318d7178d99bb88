"""Patterns that are on record from versions that took them: their transfer fails with words, and others go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from ferry import Ferry

from seqferry.db.tables import transfer
from seqferry.model.option_groups import Names
from seqferry.service.service import Service
from seqferry.spec import stored
from support.servers import S3Server

HARD = "s/a*a*a*a*a*a*a*a*a*b/x/"


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


def _record(service: Service, transfer_id: str, **changes: Any) -> None:
    """Change a submitted spec to one that this version refuses."""
    with service.database.write() as connection:
        [text] = connection.execute(sa.select(transfer.c.spec).where(transfer.c.id == transfer_id)).one()
        spec = replace(stored.read(text), **changes)
        connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(spec=stored.write(spec)))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"names": Names(rename=(r"s/(a)\1/x/",))}, "what a group has matched"),
        ({"names": Names(rename=("s/(a{1000}){1000}/x/",))}, "more than 1024 KiB"),
        ({"names": Names(rename=("s/a/" + "a" * 900 + "/g",) * 3)}, "more than 4,096 bytes"),
        ({"names": Names(rules=("- b",) * 1001)}, "at most 1,000 rules"),
        ({"names": Names(rules=("- " + "*" * 5000,))}, "more than 4,096 characters"),
        ({"pattern": "run/" + "*" * 5000}, "more than 4,096 characters"),
    ],
)
def test_a_recorded_pattern_fails_its_transfer_and_no_other(ferry: Ferry, changes: dict[str, Any], named: str) -> None:
    ferry.fill({"run/aaa": 100, "run/b": 100})
    bad = ferry.submit(target="bad/")
    _record(ferry.service, bad, **changes)
    listed = ferry.submit(target="bad/other/", keys=["b"])

    ferry.work()

    ended = ferry.until_ended(bad)
    assert (ended.state, ended.error_code) == ("failed", "usage")
    assert named in (ended.error_message or "")
    assert ferry.until_ended(listed).totals.done == 1
    assert ferry.carry(target="next/")[1].totals.done == 2
    assert ferry.service.status(bad).state == "failed"


def test_lists_of_keys_are_compared_with_a_recorded_pattern(ferry: Ferry) -> None:
    ferry.fill({"run/aaa": 100, "run/b": 100})
    bad = ferry.submit(target="bad/", keys=["aaa"])
    _record(ferry.service, bad, names=Names(rename=(r"s/(a)\1/x/",)))

    other = ferry.submit(target="bad/", keys=["b"])

    ferry.work()
    assert ferry.until_ended(bad).error_code == "usage"
    assert ferry.until_ended(other).totals.done == 1


def test_a_recorded_rule_that_took_exponential_time_is_applied(ferry: Ferry) -> None:
    key = "a" * 200
    ferry.fill({f"run/{key}": 100, f"run/{key}b": 100})
    recorded = ferry.submit(target="in/")
    _record(ferry.service, recorded, names=Names(rename=(HARD,)))

    ferry.work()

    assert ferry.until_ended(recorded).totals.done == 2
    assert set(ferry.arrived()) == {key, "x"}
