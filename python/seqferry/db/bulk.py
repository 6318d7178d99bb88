"""Many rows of objects in one statement: what planning adds and what runs record is written here.

A million objects are a million rows, written once each way: what a row costs decides how fast small objects go. One
statement with a parameter for each value spends most of its time in the driver. So PostgreSQL gets the rows as one JSON
text, which it turns into a table itself, and SQLite, where no network lies in between, gets them as tuples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seqferry.models import OPEN_OBJECT_STATES

Row = dict[str, Any]
"""Values by column; what is not there is NULL."""

PLANNED: Final = (
    "source_key",
    "version_id",
    "target_key",
    "size",
    "etag",
    "last_modified",
    "storage_class",
    "state",
    "ended_at",
    "error_class",
    "error_code",
    "error_operation",
    "error_message",
)

RESULT: Final = (
    "state",
    # Of the source as it was copied, which may be another than was listed.
    "size",
    "etag",
    "method",
    "started_at",
    "ended_at",
    "target_etag",
    "target_version_id",
    "checksum_algorithm",
    "checksum",
    "verified",
    "not_carried",
    "error_class",
    "error_code",
    "error_operation",
    "error_message",
)

# By name: as values they would be looked at for each row. The states are words of ours, without quotes.
_OPEN: Final = "state in (" + ", ".join(f"'{state}'" for state in sorted(OPEN_OBJECT_STATES)) + ")"


_KNOWN_SQLITE: Final = sa.text(
    "select source_key from object where transfer_id = :id and source_key in (select value from json_each(:keys))"
)
_KNOWN_POSTGRES: Final = sa.text(
    "select source_key from object where transfer_id = :id and source_key in "
    "(select json_array_elements_text(cast(:keys as json)))"
)


def known_keys(connection: sa.Connection, transfer_id: str, keys: Iterable[str]) -> set[str]:
    """Those of the source keys that the transfer has already."""
    query = _KNOWN_SQLITE if _is_sqlite(connection) else _KNOWN_POSTGRES
    return set(connection.execute(query, {"id": transfer_id, "keys": _json(list(keys))}).scalars())


def insert(connection: sa.Connection, transfer_id: str, number: int, rows: Sequence[Row]) -> None:
    """Add objects to a batch; rows hold columns of ``PLANNED``."""
    if _is_sqlite(connection):
        values = [(transfer_id, number, *map(row.get, PLANNED)) for row in rows]
        connection.exec_driver_sql(_INSERT_SQLITE, values)
    else:
        connection.execute(_INSERT_POSTGRES, {"id": transfer_id, "number": number, "rows": _json(rows)})


def update_ended(connection: sa.Connection, rows: Sequence[Row]) -> None:
    """Write results into open objects, those that have ended stay as they are.

    Rows hold ``id``, columns of ``RESULT``, the ``attempts`` and ``retries`` to be added, and ``keeps_upload``: whether
    the id of the upload stays.
    """
    if _is_sqlite(connection):
        order = (*RESULT, "attempts", "retries", "keeps_upload", "id")
        connection.exec_driver_sql(_UPDATE_SQLITE, [tuple(map(row.get, order)) for row in rows])
    else:
        connection.execute(_UPDATE_POSTGRES, {"rows": _json(rows)})


def _is_sqlite(connection: sa.Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fields(columns: Iterable[str]) -> str:
    """Names and types of columns of objects, as PostgreSQL wants them told for rows out of JSON."""
    numbers = {"size": "bigint", "attempts": "integer", "retries": "integer", "id": "bigint", "keeps_upload": "boolean"}
    times = dict.fromkeys(("last_modified", "started_at", "ended_at"), "double precision")
    types = numbers | times
    return ", ".join(f"{column} {types.get(column, 'text')}" for column in columns)


def _statements() -> tuple[str, sa.TextClause, str, sa.TextClause]:
    planned, marks = ", ".join(PLANNED), ", ".join("?" for _ in PLANNED)
    columns = f"transfer_id, batch_number, {planned}, attempts, retries"
    insert_sqlite = f"insert into object ({columns}) values (?, ?, {marks}, 0, 0)"  # noqa: S608 - constants
    insert_postgres = f"""
        insert into object ({columns}) select :id, :number, {planned}, 0, 0
        from json_to_recordset(cast(:rows as json)) as new({_fields(PLANNED)})
    """  # noqa: S608 - constants
    update_sqlite = f"""
        update object set {", ".join(f"{name} = ?" for name in RESULT)}, attempts = attempts + ?, retries = retries + ?,
            upload_id = case when ? then upload_id end
        where id = ? and {_OPEN}
    """  # noqa: S608 - constants
    update_postgres = f"""
        update object set {", ".join(f"{name} = new.{name}" for name in RESULT)},
            attempts = object.attempts + new.attempts, retries = object.retries + new.retries,
            upload_id = case when new.keeps_upload then object.upload_id end
        from json_to_recordset(cast(:rows as json))
            as new({_fields(("id", *RESULT, "attempts", "retries", "keeps_upload"))})
        where object.id = new.id and object.{_OPEN}
    """  # noqa: S608 - constants
    return insert_sqlite, sa.text(insert_postgres), update_sqlite, sa.text(update_postgres)


_INSERT_SQLITE, _INSERT_POSTGRES, _UPDATE_SQLITE, _UPDATE_POSTGRES = _statements()
