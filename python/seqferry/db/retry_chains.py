"""Chains of transfers: retries and verifications of others, from the first one on."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import transfer
from seqferry.db.transfers import row_of
from seqferry.model.models import OPERATION_VERIFY
from seqferry.spec import stored, verification

MAX_RETRIES: Final = 1000
"""Transfers of a chain of retries that are followed: scripts may retry for years."""


def find_first_actor(connection: sa.Connection, transfer_id: str) -> str:
    """The actor of a transfer, or of the first one that it retries or verifies; empty if none is on record."""
    found, wanted, seen = "", transfer_id, set[str]()
    while wanted and wanted not in seen:
        seen.add(wanted)
        query = sa.select(transfer.c.created_by, transfer.c.retry_of, transfer.c.spec).where(transfer.c.id == wanted)
        row = connection.execute(query).one_or_none()
        if row is None:
            break
        found, wanted = row.created_by, row.retry_of or _find_verified(row.spec)
    return found


def follows_another(row: sa.Row[Any]) -> bool:
    """True when the transfer of this row retries or verifies another one."""
    return bool(row.retry_of or _find_verified(row.spec))


def find_root(connection: sa.Connection, transfer_id: str) -> str:
    """The first transfer of the chain of retries of this one; itself if it retries none on record."""
    found, seen = transfer_id, {transfer_id}
    while True:
        query = sa.select(transfer.c.retry_of).where(transfer.c.id == found)
        before = connection.execute(query).scalar_one_or_none()
        if before is None or before in seen or row_of(connection, before) is None:
            return found
        found = before
        seen.add(before)


def read_chain(connection: sa.Connection, root: str) -> list[str]:
    """The transfers of a chain of retries from its first one on, the latest last."""
    found = [root]
    while len(found) < MAX_RETRIES:
        query = sa.select(transfer.c.id).where(transfer.c.retry_of == found[-1], transfer.c.id.not_in(found))
        after = connection.execute(query.order_by(transfer.c.created_at.desc()).limit(1)).scalar_one_or_none()
        if after is None:
            break
        found.append(after)
    return found


def find_other_retry(connection: sa.Connection, retry_of: str, transfer_id: str, since: float) -> str | None:
    """Another transfer that retries the same one as ``transfer_id`` does, created after ``since``."""
    of_same = (transfer.c.retry_of == retry_of, transfer.c.id != transfer_id, transfer.c.created_at > since)
    return connection.execute(sa.select(transfer.c.id).where(*of_same).limit(1)).scalar_one_or_none()


def _find_verified(written: str) -> str | None:
    """The transfer that one with this spec verifies, if any."""
    if f'"{OPERATION_VERIFY}"' not in written:  # most are not, and reading one may take long
        return None
    spec, _ = stored.read_legible(written)
    return (
        str(spec.options[verification.VERIFIED_TRANSFER])
        if spec.kind.verifies_record and verification.VERIFIED_TRANSFER in spec.options
        else None
    )
