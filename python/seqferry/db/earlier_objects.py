"""Objects as earlier transfers with the same request have recorded them, for ``planning.unchanged``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.tables import object_, transfer

_LATEST: Final = 3
"""Earlier transfers that are searched. The latest one has nearly all objects, unless it was stopped, or began so soon
after the one before that times within it prove nothing.
"""


class EarlierTransfer(NamedTuple):
    """A transfer that has ended. ``created_at`` is before it listed or read anything, but for checks at its start."""

    id: str
    created_at: float


class EarlierObject(NamedTuple):
    """An object that a transfer has copied, or found at its target.

    Attributes:
        size, etag, last_modified: of the source, as listed; size and ETag as copied, if it had changed since.
        file_changed: last change of the file of either side, before it was read or compared; None: it was too recent.
        verified: verification that the target holds the bytes of the source.
        since: time before the transfer listed anything.
    """

    source_key: str
    target_key: str
    size: int
    etag: str
    last_modified: float
    file_changed: float | None
    state: str
    verified: str | None
    target_etag: str | None
    started_at: float | None
    ended_at: float | None
    since: float


_COLUMNS: Final = tuple(object_.c[name] for name in EarlierObject._fields[:-1])


def _select(keys: str) -> sa.Select[Any]:
    return sa.select(*_COLUMNS).where(
        object_.c.transfer_id == sa.bindparam("of"),
        object_.c.source_key.in_(sa.text(keys)),
        object_.c.version_id == "",
        object_.c.state.in_(("done", "skipped")),
    )


# Keys as one parameter, however many they are.
_OF_SQLITE: Final = _select("select value from json_each(:keys)")
_OF_POSTGRES: Final = _select("select json_array_elements_text(cast(:keys as json))")


def find_transfers(connection: sa.Connection, transfer_id: str) -> list[EarlierTransfer]:
    """The latest transfers that were requested as this one, with the same identities, the latest first.

    Those that have not ended, or are pruned, are not among them.
    """
    own = sa.select(transfer.c.submission).where(transfer.c.id == transfer_id).scalar_subquery()
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.created_at)
        .where(
            transfer.c.submission == own,
            transfer.c.id != transfer_id,
            transfer.c.ended_at.is_not(None),
            transfer.c.pruned_at.is_(None),
        )
        .order_by(transfer.c.created_at.desc())
        .limit(_LATEST)
    )
    return [EarlierTransfer(*row) for row in rows]


def read_objects(
    connection: sa.Connection, earlier: EarlierTransfer, source_keys: Sequence[str]
) -> dict[str, EarlierObject]:
    """Objects with these source keys, by key, as this transfer has recorded them. One statement."""
    query = _OF_SQLITE
    if connection.dialect.name != "sqlite":
        # The server takes no NUL, and has no such keys.
        query, source_keys = _OF_POSTGRES, [key for key in source_keys if "\0" not in key]
    text = json.dumps(list(source_keys), ensure_ascii=False, separators=(",", ":"))
    rows = connection.execute(query, {"of": earlier.id, "keys": text})
    return {row.source_key: EarlierObject._make((*row, earlier.created_at)) for row in rows}
