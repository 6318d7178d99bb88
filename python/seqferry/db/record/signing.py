"""The audit key of a connection, which signs the records that are written through it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import ledger
from seqferry.model.errors import ConfigError
from seqferry.settings.audit_key import AuditKey, KeyRing

OPTION: Final = "seqferry_audit_keys"
"""Execution option of the engine that holds the keys."""


def key_ring(connection: sa.Connection) -> KeyRing:
    return connection.get_execution_options().get(OPTION) or KeyRing(None)


def current_key(connection: sa.Connection) -> AuditKey | None:
    """The key for new records, created on first use. None: this process keeps the record without a key.

    Raises:
        ConfigError: the record in this database is kept with a key that this process has not.
    """
    keys = key_ring(connection)
    if keys.checked:
        return keys.signing()
    used = connection.execute(sa.select(ledger.c.key_id).order_by(ledger.c.number.desc()).limit(1)).scalar()
    if used is not None and used not in keys.all():
        where = "with [audit] key" if keys.path is None else f"to {keys.path}, or name it with [audit] key"
        raise ConfigError(
            f"The audit record of this database is kept with the key {used}, which this process has not. Copy the "
            f"file of that key {where} (docs/guarantees/audit.md)."
        )
    found = keys.signing() or keys.make()
    # Without a key this is checked again: another process may begin to sign.
    keys.checked = found is not None
    return found


def key_of(ring: KeyRing, row: sa.Row[Any]) -> AuditKey | None:
    """The key that a row names; None when it names none.

    Raises:
        ConfigError: this process has not that key.
    """
    if row.key_id is None:
        return None
    if (found := ring.all().get(row.key_id)) is None:
        raise ConfigError(
            f"The audit record holds entries of the key {row.key_id}, which this process has not. Add that key to the "
            "file of keys (docs/guarantees/audit.md)."
        )
    return found


def sign(key: AuditKey | None, about: str, *values: Any) -> str:
    """Signature of these values: HMAC-SHA256 (hex) with the key, or plain SHA-256 without one."""
    if key is None:
        return digest(b"", [about, *values])
    return key.sign(encode([about, key.id, *values]))


def encode(value: Any) -> bytes:
    """JSON in the one form that is hashed: no spaces, keys sorted, UTF-8 with lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode("utf-8", "surrogatepass")


def digest(prefix: bytes, value: Any) -> str:
    return hashlib.sha256(prefix + encode(value)).hexdigest()
