"""Many rows of objects in one statement, as planning adds them and runs of batches record them.

A million objects are a million rows, written once each way: what a row costs decides how fast small objects go. One
statement with a parameter for each value spends most of its time in the driver. So planned rows go to PostgreSQL by
COPY, as one text where no value needs an escape, and results as one text per column, which PostgreSQL reads as arrays.
SQLite, where no network lies in between, gets tuples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from seqferry.db import tallies
from seqferry.db.tables import object_
from seqferry.db.tallies import BatchKey
from seqferry.model.models import OPEN_OBJECT_STATES, RESULT_COLUMNS

if TYPE_CHECKING:
    import psycopg

_KEYS_PER_QUERY: Final = 500
"""Parameters of one query."""

Row = tuple[Any, ...]
"""Values in the order of some columns."""


class PlannedSource(NamedTuple):
    """The source of a planned object: columns of ``tables.SOURCE``, empty where they do not apply."""

    source_key: str
    version_id: str
    source_upload_id: str
    member_place: str


ENDED: Final = (
    "source_key",
    "upload_number",
    "target_key",
    "size",
    "etag",
    "last_modified",
    "written_by",
    "state",
    "attempts",
    "method",
    "started_at",
    "ended_at",
    "target_etag",
    "target_version_id",
    "checksum_algorithm",
    "checksum",
    "verified",
    "error_class",
    "error_code",
    "error_operation",
    "error_message",
)
"""Columns of objects that had ended before they were put on record."""

Results = Sequence[str]
"""Ends of objects, a text for each of ``RESULT_COLUMNS``: the inside of a list, as jobs tell them."""


class Columns(NamedTuple):
    """Columns of rows, and the statements that insert them."""

    sqlite: str
    postgres: bytes
    constants: Row
    """Values of columns that are the same in each row, before all others."""


_FOUND: Final = ("source_key", "version_id", "target_key", "size", "etag", "last_modified", "storage_class")
"""Columns of rows of objects that are to be copied; the others are constant, or empty."""

_FILES: Final = (*_FOUND, "file_changed")
"""The same, of files or of copies of them."""

_PLANNED: Final = (
    "source_key",
    "version_id",
    "source_upload_id",
    "member_place",
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
    "started_at",
    "method",
    "target_etag",
    "verified",
    "file_changed",
)

_EXPECTED: Final = ("part_size", "checksum_algorithm", "checksum")
"""Columns with the expected content of planned rows, after those of ``_PLANNED``."""

# Literals: the database would evaluate parameters for each row. The states are our own words and need no escaping.
_OPEN: Final = "state in (" + ", ".join(f"'{state}'" for state in sorted(OPEN_OBJECT_STATES)) + ")"


_KNOWN_SQLITE: Final = sa.text(
    "select source_key from object where transfer_id = :id and source_key in (select value from json_each(:keys))"
)
_KNOWN_POSTGRES: Final = sa.text(
    "select source_key from object where transfer_id = :id and source_key in "
    "(select json_array_elements_text(cast(:keys as json)))"
)


def known_keys(connection: sa.Connection, transfer_id: str, keys: Iterable[str]) -> set[str]:
    """Source keys, among the given ones, that the transfer has already."""
    query, found = _KNOWN_SQLITE, list(keys)
    if not _is_sqlite(connection):
        # Keys with a NUL are recorded in another form, and the server takes none.
        query, found = _KNOWN_POSTGRES, [key for key in found if "\0" not in key]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return set(connection.execute(query, {"id": transfer_id, "keys": text}).scalars())


def known_sources(connection: sa.Connection, transfer_id: str, keys: Iterable[str]) -> set[PlannedSource]:
    """Sources with the given keys that the transfer has already."""
    found = list(known_keys(connection, transfer_id, keys))
    columns = (object_.c[name] for name in PlannedSource._fields)
    query = sa.select(*columns).where(
        object_.c.transfer_id == transfer_id, object_.c.source_key.in_(sa.bindparam("keys", expanding=True))
    )
    sources: set[PlannedSource] = set()
    for start in range(0, len(found), _KEYS_PER_QUERY):
        rows = connection.execute(query, {"keys": found[start : start + _KEYS_PER_QUERY]})
        sources.update(PlannedSource(*row) for row in rows)
    return sources


def insert(connection: sa.Connection, transfer_id: str, number: int, rows: Sequence[Row], columns: Columns) -> bool:
    """Add objects to a batch. False when one of them is there already, in the database or among ``rows``.

    The caller's transaction has failed then: call it within a savepoint.

    Args:
        columns: of the values of each row: ``PENDING``, ``FILES``, ``PLANNED`` or ``EXPECTED``.
    """
    if _is_sqlite(connection):
        values = [(transfer_id, number, *row) for row in rows]
        if not values:  # many times nothing is once with nothing, to the driver
            return True
        try:
            connection.exec_driver_sql(columns.sqlite, values)
        except IntegrityError as why:
            if "UNIQUE" in str(why.orig):
                return False
            raise
        return True
    from psycopg.errors import UniqueViolation

    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(columns.postgres) as copy:
            text = _copy_text(transfer_id, number, rows) if columns is PENDING else None
            if text is not None:
                copy.write(text)
            else:
                _write(copy, transfer_id, number, rows, columns)
    except UniqueViolation:
        return False
    return True


def _write(copy: psycopg.Copy, transfer_id: str, number: int, rows: Iterable[Row], columns: Columns) -> None:
    for row in rows:
        copy.write_row((*columns.constants, transfer_id, number, *row))


_NULL: Final = "\\N"


def _copy_text(transfer_id: str, number: int, rows: Sequence[Row]) -> str | None:
    """The rows of ``PENDING`` as COPY reads them; None when a value would have to be escaped."""
    start = "".join(f"{value}\t" for value in (*PENDING.constants, transfer_id, number))
    nulls = 0
    lines: list[str] = []
    for source_key, version_id, target_key, size, etag, last_modified, storage_class in rows:
        if storage_class is None:
            nulls += 1
            storage_class = _NULL
        lines.append(
            f"{start}{source_key}\t{version_id}\t{target_key}\t{size}\t{etag}\t{last_modified!r}\t{storage_class}\n"
        )
    text = "".join(lines)
    # What separates or escapes is there as often as it was written here, so that no value holds it.
    fits = text.count("\\") == nulls and text.count("\n") == len(rows) and "\r" not in text
    return text if fits and text.count("\t") == len(rows) * (len(PENDING.constants) + 1 + len(_FOUND)) else None


def insert_ended(connection: sa.Connection, transfer_id: str, number: int, rows: Iterable[Row]) -> None:
    """Add objects that have ended to a batch; rows hold the values of ``ENDED``."""
    if _is_sqlite(connection):
        connection.exec_driver_sql(_ENDED.sqlite, [(transfer_id, number, *row) for row in rows])
        return
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    with driver.cursor() as cursor, cursor.copy(_ENDED.postgres) as copy:
        _write(copy, transfer_id, number, rows, _ENDED)


def end_objects(connection: sa.Connection, results: Results) -> dict[BatchKey, dict[str, int]]:
    """Write results into open objects; those that have ended stay as they are.

    Returns:
        What that adds to the counters of their batches. The caller holds the locks of these.
    """
    if not _is_sqlite(connection):
        connection.execute(_BY_INDEX)
        arrays = {name: f"{{{text}}}" for name, text in zip(RESULT_COLUMNS, results, strict=True)}
        rows = connection.execute(_UPDATE_POSTGRES, arrays)
        # Sums of big integers come as Decimal.
        return {(row[0], row[1]): dict(zip(tallies.COUNTERS, map(int, row[2:]), strict=True)) for row in rows}
    columns: dict[str, list[Any]] = {
        # Not strict: a control character stands for itself.
        name: json.loads(f"[{text}]", strict=False)
        for name, text in zip(RESULT_COLUMNS, results, strict=True)
    }
    ids = results[RESULT_COLUMNS.index("id")]
    found = {row[0]: row[1:] for row in connection.execute(_OPEN_SQLITE, {"ids": f"[{ids}]"})}
    connection.exec_driver_sql(_UPDATE_SQLITE, list(zip(*map(columns.__getitem__, _ORDER_SQLITE), strict=True)))
    differences: dict[BatchKey, dict[str, int]] = {}
    for row_id, state, size in zip(columns["id"], columns["state"], columns["size"], strict=True):
        # Once for each object, as it is written: one that is reported again has ended by then.
        was = found.pop(row_id, None)
        if was is None:
            continue
        transfer_id, number, size_before = was
        difference = differences.get((transfer_id, number))
        if difference is None:
            difference = differences[transfer_id, number] = dict.fromkeys(tallies.COUNTERS, 0)
        difference[state] += 1
        difference["bytes"] += size - size_before
        if state in tallies.ARRIVED:
            difference["bytes_done"] += size
    return differences


def _is_sqlite(connection: sa.Connection) -> bool:
    return connection.dialect.name == "sqlite"


# While the database has no statistics of a table, as at the start, or the table is small, it would rather read all of
# it than look a thousand rows up: dear when that happens twice a second, and dearer as the table grows.
_BY_INDEX: Final = sa.text(
    "select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)"
)

_SET: Final = tuple(name for name in RESULT_COLUMNS if name not in ("id", "attempts", "retries", "keeps_upload"))
_ORDER_SQLITE: Final = (*_SET, "attempts", "retries", "keeps_upload", "id")
_TYPES: Final = (
    dict.fromkeys(("id", "size"), "bigint")
    | dict.fromkeys(("attempts", "retries"), "integer")
    | dict.fromkeys(("started_at", "ended_at"), "double precision")
    | {"keeps_upload": "boolean"}
)


def _insertions(names: Sequence[str], constants: Mapping[str, Any]) -> Columns:
    columns = ", ".join((*constants, "transfer_id", "batch_number", *names))
    values = ", ".join((*map(repr, constants.values()), "?", "?", *("?" for _ in names)))
    insert_sqlite = f"insert into object ({columns}) values ({values})"  # noqa: S608 - constants
    return Columns(insert_sqlite, f"copy object ({columns}) from stdin".encode(), tuple(constants.values()))


_ARRIVED: Final = "state in (" + ", ".join(f"'{state}'" for state in tallies.ARRIVED) + ")"
_SUMS: Final = {name: f"count(*) filter (where state = '{name}')" for name in tallies.COUNTERS} | {
    "bytes": "sum(size - size_before)",
    "bytes_done": f"coalesce(sum(size) filter (where {_ARRIVED}), 0)",
}
"""Counters of objects that were open before."""

_OPEN_SQLITE: Final = sa.text(
    "select id, transfer_id, batch_number, size from object "  # noqa: S608 - constants
    f"where id in (select value from json_each(:ids)) and {_OPEN}"
)


def _updates() -> tuple[str, sa.TextClause]:
    update_sqlite = f"""
        update object set {", ".join(f"{name} = ?" for name in _SET)}, attempts = attempts + ?, retries = retries + ?,
            upload_id = case when ? then upload_id end
        where id = ? and {_OPEN}
    """  # noqa: S608 - constants
    arrays = ", ".join(f"cast(:{name} as {_TYPES.get(name, 'text')}[])" for name in RESULT_COLUMNS)
    # ``was`` are the rows as they were before.
    update_postgres = f"""
        with ended as (
            update object set {", ".join(f"{name} = new.{name}" for name in _SET)},
                attempts = was.attempts + new.attempts, retries = was.retries + new.retries,
                upload_id = case when new.keeps_upload then was.upload_id end
            from unnest({arrays}) as new({", ".join(RESULT_COLUMNS)}) join object as was on was.id = new.id
            where object.id = new.id and object.{_OPEN}
            returning object.transfer_id, object.batch_number, object.state, object.size, was.size as size_before
        )
        select transfer_id, batch_number, {", ".join(f"{_SUMS[name]}" for name in tallies.COUNTERS)}
        from ended group by transfer_id, batch_number
    """  # noqa: S608 - constants
    return update_sqlite, sa.text(update_postgres)


_NO_ATTEMPTS: Final[Mapping[str, Any]] = {"attempts": 0, "retries": 0}

PENDING: Final = _insertions(_FOUND, {**_NO_ATTEMPTS, "state": "pending"})
"""Of objects that are to be copied."""

FILES: Final = _insertions(_FILES, {**_NO_ATTEMPTS, "state": "pending"})
"""Of objects that are to be copied from or to a disk."""

PLANNED: Final = _insertions(_PLANNED, _NO_ATTEMPTS)
"""Of objects of which some have ended already, or are no plain objects."""

EXPECTED: Final = _insertions((*_PLANNED, *_EXPECTED), _NO_ATTEMPTS)
"""Of objects that are compared with expected content."""

_ENDED: Final = _insertions(ENDED, {"retries": 0})
_UPDATE_SQLITE, _UPDATE_POSTGRES = _updates()
