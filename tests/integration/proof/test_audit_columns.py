"""Each column of the database is covered by the audit, or documented as not covered with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import sqlalchemy as sa
from ended import AT, add_ended_batch, begin, ended, finish
from sqlalchemy.event import listen

from seqferry.db import schedule_rows
from seqferry.db.record import anchor_rows, ledger
from seqferry.db.tables import metadata
from seqferry.proof import auditing
from seqferry.proof.auditing import AuditCounts
from seqferry.service import control, schedules, share_links, tokens
from seqferry.service.service import Service
from seqferry.spec.build import build_spec
from support.run import ROOT

PAGE: Final = ROOT / "docs" / "guarantees" / "audit-columns.md"
SPEC: Final = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")


def _documented(part: str) -> list[tuple[str, str]]:
    """Tables and columns of a part of the page, in its order."""
    text = PAGE.read_text().partition(f"## {part}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    assert all(reason for _, _, reason in rows)
    word = re.compile("`([a-z0-9_]+)`")
    return [(table.strip("`"), column) for table, columns, _ in rows for column in word.findall(columns)]


def test_each_column_stands_on_the_page_once() -> None:
    documented = Counter([*_documented("Covered"), *_documented("Not covered")])

    assert documented == Counter((table.name, column.name) for table in metadata.sorted_tables for column in table.c)


def _recorded(service: Service) -> str:
    """Something of each kind that is covered; the id of a transfer."""
    ended(service, number=1, batches=2, each=3)
    found = begin(service, number=2)
    add_ended_batch(service, found, ["a", "b"])
    add_ended_batch(service, found, ["c"], state="failed", error_class="object", error_code="AccessDenied")
    finish(service, found)
    control.set_description(service, found, actor="ada", name="Run 42", labels={"run": "42"})
    schedules.add(service, "0 2 * * *", SPEC, actor="ada", name="nightly", labels={"run": "42"})
    schedules.edit(service, "nightly", expression="0 3 * * *", actor="ada")
    schedules.pause(service, "nightly", actor="ada")
    link, _ = share_links.create(service, actor="ada", label="run=42")
    share_links.revoke(service, link.id, actor="ada")
    share_links.create(service, actor="ada", transfer_id=found)
    tokens.add(service, "lab7", "submit")
    with service.database.write() as connection:
        schedule = schedule_rows.read_all(connection)[0].id
        schedule_rows.add_run(
            connection, id="run", schedule_id=schedule, due_at=AT, at=AT, outcome="submitted", transfer_id=found
        )
        anchor_rows.add(connection, "s3://proof/x", ledger.head(connection), AT, None)
    return found


def _other(column: sa.Column[Any], value: Any) -> Any:
    """Another value of the kind of the column."""
    if isinstance(column.type, sa.Boolean):
        return not value
    if isinstance(column.type, (sa.Integer, sa.Double)):
        return (value or 0) + 1000
    if isinstance(column.type, sa.LargeBinary):
        return (value or b"") + b"x"
    return f"{value or ''}x"


def _past_references(raw: Any, _record: object) -> None:
    raw.execute("set session_replication_role = replica")


@pytest.fixture
def forger(service: Service) -> Iterator[sa.Engine]:
    """Writes past the references between tables, as a person with all rights may."""
    made = sa.create_engine(service.database.url)
    if made.dialect.name != "sqlite":  # which looks at references only where it is asked to
        listen(made, "connect", _past_references)
    yield made
    made.dispose()


def _change(forger: sa.Engine, table: sa.Table, row: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    where = sa.and_(*(column == row[column.name] for column in table.primary_key.columns))
    with forger.begin() as connection:
        connection.execute(table.update().where(where).values(values))


def _audit(service: Service) -> list[str]:
    return [one.kind for one in auditing.verify(service.database, AuditCounts())]


def test_a_changed_value_of_a_covered_column_is_found_and_of_another_is_not(
    service: Service, forger: sa.Engine
) -> None:
    of = _recorded(service)
    assert _audit(service) == []
    covered = set(_documented("Covered"))
    wrong: list[str] = []

    for table in metadata.sorted_tables:
        owner = table.c.get("id" if table.name == "transfer" else "transfer_id")
        wanted = sa.select(table).order_by(*table.primary_key.columns).limit(1)
        with service.database.read() as connection:
            found = None if owner is None else connection.execute(wanted.where(owner == of)).one_or_none()
            found = found or connection.execute(wanted).one_or_none()
        if found is not None:
            row: dict[str, Any] = dict(zip(table.c.keys(), found, strict=True))
            others = {column.name: _other(column, row[column.name]) for column in table.c}
            kept = {name: value for name, value in others.items() if (table.name, name) not in covered}
            for changed in [*({name: others[name]} for name in others.keys() - kept.keys()), *([kept] if kept else [])]:
                _change(forger, table, row, changed)
                if bool(told := _audit(service)) is (changed is kept):
                    wrong.append(f"{table.name}: {', '.join(changed)}: {told}")
                _change(forger, table, {**row, **changed}, {name: row[name] for name in changed})

    assert wrong == []
    assert _audit(service) == []
