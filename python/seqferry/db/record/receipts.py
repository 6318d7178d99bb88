"""Receipts: one digest of everything that is on record of a transfer.

Each batch that ends gets the root of a Merkle tree over its objects (a *seal*). When the transfer ends, the root over
its seals and the facts of the transfer give the digest of the receipt. ``docs/guarantees/audit.md`` describes all forms
so that others can compute them; ``examples/verify_receipt.py`` does.

What must stay true: rows of a batch that has ended do not change. Pruning moves them into the seal as they were.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db.database import Database, fetch
from seqferry.db.record import events, signing
from seqferry.db.tables import batch, event, object_, seal, tally, transfer

if TYPE_CHECKING:
    from seqferry.engine.merkle import MerkleTree

FORMAT: Final = 1

COLUMNS: Final = (
    "source_key",
    "version_id",
    "source_upload_id",
    "member_place",
    "upload_number",
    "target_key",
    "size",
    "etag",
    "last_modified",
    "storage_class",
    "written_by",
    "state",
    "attempts",
    "retries",
    "method",
    "started_at",
    "ended_at",
    "part_size",
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
"""Columns of an object, in the order in which they are hashed. Times are whole microseconds since the epoch."""

TIMES: Final = ("last_modified", "started_at", "ended_at")
TOTALS: Final = ("objects", "bytes", "done", "skipped", "failed", "cancelled", "bytes_done")
NO_TOTALS: Final[dict[str, int]] = dict.fromkeys(TOTALS, 0)


class ArchiveError(Exception):
    """An archive that cannot be read."""


Row = Sequence[Any]
"""The values of ``COLUMNS``."""

LEAF_BYTES: Final = 8
"""Bytes of each leaf that a seal keeps."""

SEALED_WITH_BATCH: Final = 10_000
"""Objects of a batch that are sealed in the transaction that ends it: 0.1 s on SQLite, where all others wait."""

_SEALS_PER_TRANSACTION: Final = 20
_PAGE: Final = 2000
_FACTS_PREFIX: Final = b"\x02"
_COLUMNS: Final = tuple(object_.c[name] for name in COLUMNS)
_TIME_AT: Final = tuple(COLUMNS.index(name) for name in TIMES)
_TIME_AFTER_ID: Final = tuple(at + 1 for at in _TIME_AT)
_encode: Final[Callable[[Any], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def microseconds(seconds: float | None) -> int | None:
    """A time as it is hashed: the texts of floats differ between languages."""
    return None if seconds is None else round(seconds * 1_000_000)


def new_tree() -> MerkleTree:
    """A tree over rows, which returns the part of each leaf that a seal keeps."""
    from seqferry.engine.merkle import MerkleTree  # most commands seal nothing

    return MerkleTree(LEAF_BYTES)


# --- sealing ----------------------------------------------------------------------------------------------------------


def seal_batch(connection: sa.Connection, transfer_id: str, number: int) -> None:
    """Record the root of a batch whose objects have all ended; a second call does nothing."""
    tree = new_tree()
    # As they come from the database: their times are rounded where they are hashed.
    pages = _stored_pages(connection, transfer_id, number)
    leaves = b"".join([tree.add(page, first=1, times=_TIME_AFTER_ID) for page in pages])
    key, root = signing.current_key(connection), tree.root().hex()
    values = {
        "transfer_id": transfer_id,
        "number": number,
        "objects": tree.size,
        "root": root,
        "key_id": None if key is None else key.id,
        "mac": signing.sign(key, "seal", transfer_id, number, tree.size, root),
        "leaves": leaves,
    }
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    connection.execute(insert(seal).values(values).on_conflict_do_nothing())


def seal_missing(database: Database, transfer_id: str) -> None:
    """Seal batches that ended without: those that were cancelled before they began, and large ones."""
    while True:
        with database.write(durable=False) as connection:
            if not _seal_some(connection, transfer_id, _SEALS_PER_TRANSACTION):
                return


def find_unsealed(connection: sa.Connection, transfer_id: str, limit: int = 1) -> list[int]:
    """Numbers of batches of a transfer that have ended and have no seal."""
    return [row.number for row in connection.execute(_UNSEALED, {"of": transfer_id, "limit": limit})]


def count_unsealed(transfer_id: sa.BindParameter[str], limit: int) -> sa.ScalarSelect[int]:
    """Number of these batches, up to ``limit``, as an SQL expression."""
    found = _select_unsealed(transfer_id).limit(limit).subquery()
    return sa.select(sa.func.count()).select_from(found).scalar_subquery()


def _select_unsealed(transfer_id: sa.BindParameter[str]) -> sa.Select[tuple[int]]:
    sealed = sa.and_(seal.c.transfer_id == batch.c.transfer_id, seal.c.number == batch.c.number)
    query = sa.select(batch.c.number).outerjoin(seal, sealed).order_by(batch.c.number)
    return query.where(batch.c.transfer_id == transfer_id, batch.c.state == "ended", seal.c.number.is_(None))


_UNSEALED: Final = _select_unsealed(sa.bindparam("of")).limit(sa.bindparam("limit"))


def _seal_some(connection: sa.Connection, transfer_id: str, limit: int) -> bool:
    found = find_unsealed(connection, transfer_id, limit)
    for number in found:
        seal_batch(connection, transfer_id, number)
    return bool(found)


def make_digest(
    connection: sa.Connection,
    row: sa.Row[Any],
    *,
    state: str,
    totals: dict[str, int],
    ended_at: float,
    is_sealed: bool = False,
) -> dict[str, Any]:
    """The digest of a transfer that ends, as the event of its end holds it.

    Args:
        row: of the transfer.
        is_sealed: no batch lacks its seal; others get theirs.
    """
    while not is_sealed and _seal_some(connection, row.id, _SEALS_PER_TRANSACTION):
        pass
    about = software()
    known = receipt_data(connection, row, state=state, totals=totals, ended_at=ended_at, software=about)
    return {"software": about, "receipt_digest": digest(known)}


def receipt_data(
    connection: sa.Connection,
    row: sa.Row[Any],
    *,
    state: str,
    totals: dict[str, int],
    ended_at: float | None,
    software: dict[str, str],
) -> dict[str, Any]:
    """All that the digest covers: the objects by their root. ``row`` is that of the transfer."""
    count, root = batches_root(connection, row.id)
    return {
        "format": FORMAT,
        "id": row.id,
        "state": state,
        "spec": read_submitted_spec(connection, row.id),
        "created_at": microseconds(row.created_at),
        "created_by": row.created_by,
        "started_at": microseconds(row.started_at),
        "ended_at": microseconds(ended_at),
        "error_code": row.error_code,
        "error_message": row.error_message,
        "totals": totals,
        "columns": list(COLUMNS),
        "batches": count,
        "root": root,
        "software": software,
    }


def digest(facts: dict[str, Any]) -> str:
    """SHA-256 of a receipt, in hexadecimal."""
    return signing.digest(_FACTS_PREFIX, facts)


def read_digest(connection: sa.Connection, transfer_id: str) -> str | None:
    """Digest of the receipt of a transfer; None while it has not ended, or when it ended before there were receipts."""
    return connection.execute(sa.select(transfer.c.receipt_digest).where(transfer.c.id == transfer_id)).scalar()


def batches_root(connection: sa.Connection, transfer_id: str) -> tuple[int, str]:
    """Number of seals of a transfer, and the root over them."""
    tree = new_tree()
    tree.add([(each.number, each.objects, each.root) for each in read_seals(connection, transfer_id)])
    return tree.size, tree.root().hex()


def read_submitted_spec(connection: sa.Connection, transfer_id: str) -> Any:
    """Spec of a transfer as the record of events has it: a later migration may store it in another form."""
    rows = connection.execute(_SUBMITTED, {"of": transfer_id}).scalars()
    return next((data["spec"] for data in map(events.read_data, rows) if "spec" in data), None)


_SUBMITTED: Final = (
    sa.select(event.c.data)
    .where(event.c.transfer_id == sa.bindparam("of"), event.c.kind.in_(("submitted", "key_renewed")))
    .order_by(event.c.number.desc())
)


def read_totals(connection: sa.Connection, transfer_id: str) -> dict[str, int]:
    """Totals of a transfer from the table ``tally``; zeros where it has no row."""
    row = connection.execute(sa.select(tally).where(tally.c.transfer_id == transfer_id)).one_or_none()
    return {name: 0 if row is None else int(getattr(row, name)) for name in TOTALS}


@cache
def software() -> dict[str, str]:
    """Version and build of this installation. The build is the digest of the wheel's list of files and their hashes."""
    import hashlib
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution("seqferry")
    except PackageNotFoundError:
        return {"version": "unknown", "build": "unknown"}
    record = found.read_text("RECORD") or ""
    is_wheel = "seqferry/__init__.py,sha256=" in record
    return {
        "version": found.version,
        "build": hashlib.sha256(record.encode()).hexdigest()[:16] if is_wheel else "editable",
    }


# --- reading ----------------------------------------------------------------------------------------------------------


def read_seals(connection: sa.Connection, transfer_id: str) -> Iterator[Any]:
    """Seals of a transfer in the order of their batches, without leaves and archives."""
    after = -1
    while True:
        found = connection.execute(_SEALS, {"of": transfer_id, "after": after}).all()
        yield from found
        if len(found) < _PAGE:
            return
        after = found[-1].number


# In pages, since a cursor of the server takes several round trips for a single seal.
_SEALS: Final = (
    sa.select(seal.c.number, seal.c.objects, seal.c.root, seal.c.key_id, seal.c.mac)
    .where(seal.c.transfer_id == sa.bindparam("of"), seal.c.number > sa.bindparam("after"))
    .order_by(seal.c.number)
    .limit(_PAGE)
)


def read_rows(connection: sa.Connection, transfer_id: str, number: int) -> Iterator[Row]:
    """The objects of a batch in their order, also when the transfer is pruned. Bounded memory."""
    archived = _archive(connection, transfer_id, number)
    return read_stored_rows(connection, transfer_id, number) if archived is None else unpack(archived)


def _archive(connection: sa.Connection, transfer_id: str, number: int) -> bytes | None:
    return connection.execute(
        sa.select(seal.c.archive).where(seal.c.transfer_id == transfer_id, seal.c.number == number)
    ).scalar()


def read_pages(database: Database, transfer_id: str, number: int) -> Iterator[list[Row]]:
    """Rows of a batch as ``rows_of`` gives them, in pages; no transaction is open while the caller is at a page."""
    after = 0
    while True:
        with database.read() as connection:
            archived = _archive(connection, transfer_id, number) if after == 0 else None
            found = [] if archived is not None else _page(connection, transfer_id, number, after)
        if archived is not None:
            rows = unpack(archived)
            while page := list(islice(rows, _PAGE)):
                yield page
            return
        if not found:
            return
        yield [row for _, row in found]
        after = found[-1][0]


def _page(connection: sa.Connection, transfer_id: str, number: int, after: int) -> list[tuple[int, Row]]:
    return [(found[0], _canonical(found[1:])) for found in _stored_page(connection, transfer_id, number, after)]


def _stored_page(connection: sa.Connection, transfer_id: str, number: int, after: int) -> list[tuple[Any, ...]]:
    """Ids and values of objects."""
    return fetch(connection.execute(_ROWS, {"of": transfer_id, "number": number, "after": after}))


def _stored_pages(connection: sa.Connection, transfer_id: str, number: int) -> Iterator[list[tuple[Any, ...]]]:
    """Pages of the objects of a batch that are rows, in their order."""
    after = 0
    while page := _stored_page(connection, transfer_id, number, after):
        yield page
        if len(page) < _PAGE:
            return
        after = page[-1][0]


_ROWS: Final = (
    sa.select(object_.c.id, *_COLUMNS)
    .where(
        object_.c.transfer_id == sa.bindparam("of"),
        object_.c.batch_number == sa.bindparam("number"),
        object_.c.id > sa.bindparam("after"),
    )
    .order_by(object_.c.id)
    .limit(_PAGE)
)


def _canonical(found: Sequence[Any]) -> Row:
    row = list(found)
    for at in _TIME_AT:
        if row[at] is not None:
            row[at] = round(row[at] * 1_000_000)
    return row


def read_stored_rows(connection: sa.Connection, transfer_id: str, number: int) -> Iterator[Row]:
    """The objects of a batch that are rows, in their order. Bounded memory."""
    for page in _stored_pages(connection, transfer_id, number):
        yield from (_canonical(found[1:]) for found in page)


def batch_numbers(connection: sa.Connection, transfer_id: str) -> list[int]:
    return list(
        connection.execute(
            sa.select(batch.c.number).where(batch.c.transfer_id == transfer_id).order_by(batch.c.number)
        ).scalars()
    )


def pack(rows: Iterator[Row]) -> bytes:
    """Rows as an archive holds them: lines of JSON, deflated."""
    deflate = zlib.compressobj(9)
    parts = [deflate.compress(_encode(row).encode("utf-8", "surrogatepass") + b"\n") for row in rows]
    return b"".join([*parts, deflate.flush()])


def unpack(archived: bytes) -> Iterator[Row]:
    """The rows of an archive.

    Raises:
        ArchiveError: the archive is damaged.
    """
    inflate, rest, given = zlib.decompressobj(), b"", bytes(archived)
    while not inflate.eof:
        try:
            piece = inflate.decompress(given, 1 << 20)
            given = inflate.unconsumed_tail
            *lines, rest = (rest + piece).split(b"\n")
            rows = [json.loads(line.decode("utf-8", "surrogatepass")) for line in lines]
        except (zlib.error, ValueError) as why:
            raise ArchiveError(str(why)) from why
        if not piece and not inflate.eof:
            raise ArchiveError("it was cut off")
        yield from rows
