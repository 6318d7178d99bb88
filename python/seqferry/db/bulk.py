"""Many rows of objects in one statement, as planning adds them and runs of batches record them.

A million objects are a million rows, written once each way: what a row costs decides how fast small objects go. One
statement with a parameter for each value spends most of its time in the driver. So planned rows go to PostgreSQL by
COPY, and results as one text per column, which PostgreSQL reads as arrays. SQLite, where no network
lies in between, gets tuples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from seqferry.db.tables import object_
from seqferry.model.models import OPEN_OBJECT_STATES, RESULT_COLUMNS

if TYPE_CHECKING:
    import psycopg

_KEYS_PER_QUERY: Final = 500
"""Parameters of one query."""

Row = tuple[Any, ...]
"""Values in the order of ``PLANNED``."""


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

PLANNED: Final = (
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
)

EXPECTED: Final = ("part_size", "checksum_algorithm", "checksum")
"""Columns with the expected content of planned rows, after those of ``PLANNED``."""

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


def insert(
    connection: sa.Connection, transfer_id: str, number: int, rows: Iterable[Row], *, is_expected: bool = False
) -> bool:
    """Add objects to a batch. False when one of them is there already, in the database or among ``rows``.

    The caller's transaction has failed then: call it within a savepoint.

    Args:
        is_expected: the rows hold the values of ``EXPECTED`` as well, behind the others.
    """
    insert_sqlite, copy_postgres = _INSERT_EXPECTED if is_expected else _INSERT
    if _is_sqlite(connection):
        values = [(transfer_id, number, *row) for row in rows]
        if not values:  # many times nothing is once with nothing, to the driver
            return True
        try:
            connection.exec_driver_sql(insert_sqlite, values)
        except IntegrityError as why:
            if "UNIQUE" in str(why.orig):
                return False
            raise
        return True
    from psycopg.errors import UniqueViolation

    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    try:
        with driver.cursor() as cursor, cursor.copy(copy_postgres) as copy:
            for row in rows:
                copy.write_row((0, 0, transfer_id, number, *row))
    except UniqueViolation:
        return False
    return True


def insert_ended(connection: sa.Connection, transfer_id: str, number: int, rows: Iterable[Row]) -> None:
    """Add objects that have ended to a batch; rows hold the values of ``ENDED``."""
    insert_sqlite, copy_postgres = _INSERT_ENDED
    if _is_sqlite(connection):
        connection.exec_driver_sql(insert_sqlite, [(transfer_id, number, *row) for row in rows])
        return
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    with driver.cursor() as cursor, cursor.copy(copy_postgres) as copy:
        for row in rows:
            copy.write_row((0, transfer_id, number, *row))


def matches_results(connection: sa.Connection, results: Results) -> sa.ColumnElement[bool]:
    """True of the objects that results are about."""
    ids = results[RESULT_COLUMNS.index("id")]
    if _is_sqlite(connection):
        return object_.c.id.in_(sa.select(sa.func.json_each(f"[{ids}]").table_valued("value").c.value))
    return object_.c.id == sa.func.any(sa.cast(sa.literal(f"{{{ids}}}"), sa.ARRAY(sa.BigInteger)))


def update_ended(connection: sa.Connection, results: Results) -> None:
    """Write results into open objects; those that have ended stay as they are."""
    if _is_sqlite(connection):
        columns: dict[str, list[Any]] = {
            # Not strict: a control character stands for itself.
            name: json.loads(f"[{text}]", strict=False)
            for name, text in zip(RESULT_COLUMNS, results, strict=True)
        }
        connection.exec_driver_sql(_UPDATE_SQLITE, list(zip(*map(columns.__getitem__, _ORDER_SQLITE), strict=True)))
    else:
        connection.execute(_BY_INDEX)
        arrays = {name: f"{{{text}}}" for name, text in zip(RESULT_COLUMNS, results, strict=True)}
        connection.execute(_UPDATE_POSTGRES, arrays)


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


def _insertions(names: Sequence[str], zeros: Sequence[str] = ("attempts", "retries")) -> tuple[str, bytes]:
    columns = ", ".join((*zeros, "transfer_id", "batch_number", *names))
    values = ", ".join((*("0" for _ in zeros), "?", "?", *("?" for _ in names)))
    insert_sqlite = f"insert into object ({columns}) values ({values})"  # noqa: S608 - constants
    return insert_sqlite, f"copy object ({columns}) from stdin".encode()


def _updates() -> tuple[str, sa.TextClause]:
    update_sqlite = f"""
        update object set {", ".join(f"{name} = ?" for name in _SET)}, attempts = attempts + ?, retries = retries + ?,
            upload_id = case when ? then upload_id end
        where id = ? and {_OPEN}
    """  # noqa: S608 - constants
    arrays = ", ".join(f"cast(:{name} as {_TYPES.get(name, 'text')}[])" for name in RESULT_COLUMNS)
    update_postgres = f"""
        update object set {", ".join(f"{name} = new.{name}" for name in _SET)},
            attempts = object.attempts + new.attempts, retries = object.retries + new.retries,
            upload_id = case when new.keeps_upload then object.upload_id end
        from unnest({arrays}) as new({", ".join(RESULT_COLUMNS)})
        where object.id = new.id and object.{_OPEN}
    """  # noqa: S608 - constants
    return update_sqlite, sa.text(update_postgres)


_INSERT: Final = _insertions(PLANNED)
_INSERT_EXPECTED: Final = _insertions((*PLANNED, *EXPECTED))
_INSERT_ENDED: Final = _insertions(ENDED, zeros=("retries",))
_UPDATE_SQLITE, _UPDATE_POSTGRES = _updates()
