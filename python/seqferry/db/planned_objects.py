"""Objects that planning adds to a transfer, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import bulk
from seqferry.db.objects import ExpectedContent, PlannedObject
from seqferry.db.tables import batch
from seqferry.db.tallies import add_to_tallies
from seqferry.spec.target_keys import nul_refusal, without_nul


def add_batches(
    connection: sa.Connection,
    transfer_id: str,
    groups: Iterable[Sequence[PlannedObject]],
    at: float,
    added: Callable[[int, Sequence[PlannedObject]], None] | None = None,
) -> list[int]:
    """Add each group of objects as a new batch, without those objects that the transfer has already.

    ``added`` is called with number and objects of each. The caller holds the lock of the transfer.

    Returns:
        The numbers of the batches. A group of which all were there gives none: an interrupted planning added them.
    """
    last = connection.execute(_last_number(), {"of": transfer_id}).scalar()
    number = 0 if last is None else last + 1
    numbers: list[int] = []
    found = {"objects": 0, "bytes": 0, "failed": 0, "skipped": 0, "bytes_done": 0}
    for group in groups:
        fresh = _insert(connection, transfer_id, number, _storable(connection, group), at)
        if not fresh:
            continue
        ended = [one for one in fresh if one.refusal is not None or one.left_out or one.verified is not None]
        skipped = [one for one in ended if one.left_out or one.verified is not None]
        counters = {
            "objects": len(fresh),
            "bytes": sum([planned.size for planned in fresh]),
            "failed": sum(planned.refusal is not None and not planned.left_out for planned in ended),
            "skipped": len(skipped),
            "bytes_done": sum(planned.size for planned in skipped),
        }
        connection.execute(
            _batch_insert(), {"transfer_id": transfer_id, "number": number, "state": "queued", **counters}
        )
        for name, count in counters.items():
            found[name] += count
        if added is not None:
            added(number, fresh)
        numbers.append(number)
        number += 1
    if numbers:
        add_to_tallies(connection, {transfer_id: found})  # last: recording of results waits for these rows
    return numbers


@cache
def _last_number() -> sa.Select[Any]:
    return sa.select(sa.func.max(batch.c.number)).where(batch.c.transfer_id == sa.bindparam("of"))


@cache
def _batch_insert() -> sa.Insert:
    return batch.insert()


def _storable(connection: sa.Connection, group: Sequence[PlannedObject]) -> Sequence[PlannedObject]:
    """The objects, those refused and escaped whose keys this database cannot hold: PostgreSQL stores no NUL."""
    if connection.dialect.name == "sqlite" or not any(
        "\0" in one.source_key or "\0" in one.target_key for one in group
    ):
        return group
    return [_without_nul(one) if "\0" in one.source_key or "\0" in one.target_key else one for one in group]


def _without_nul(planned: PlannedObject) -> PlannedObject:
    # Planning has refused it already, unless nothing decides on it by its names (rm, named keys that are not there).
    return replace(
        planned,
        source_key=without_nul(planned.source_key),
        target_key=without_nul(planned.target_key),
        refusal=nul_refusal(planned.source_key),
        left_out=False,
    )


def _insert(
    connection: sa.Connection, transfer_id: str, number: int, group: Sequence[PlannedObject], at: float
) -> Sequence[PlannedObject]:
    """Add those objects that are not there; returns them."""
    # Nearly always none is there: to look first would take longer than to add them.
    attempt = connection.begin_nested()
    columns = _columns(group)
    if bulk.insert(connection, transfer_id, number, _rows(group, columns, at), columns):
        attempt.commit()
        return group
    attempt.rollback()
    known = bulk.known_sources(connection, transfer_id, {planned.source_key for planned in group})
    # A listing may name a key twice; the first one stands.
    fresh: dict[bulk.PlannedSource, PlannedObject] = {}
    for planned in group:
        if planned.source not in known:
            fresh.setdefault(planned.source, planned)
    added = list(fresh.values())
    if added and not bulk.insert(connection, transfer_id, number, _rows(added, columns, at), columns):
        raise AssertionError("objects of a transfer were added by two planners concurrently")
    return added


_REFUSAL_CLASSES: Final = {"MissingAtSource": "mismatch"}
"""Classes of what planning refuses, where it is not the object itself that cannot be copied."""


def _columns(group: Sequence[PlannedObject]) -> bulk.Columns:
    """The columns that hold more than their defaults: few, where all objects are simply copied."""
    is_expected = False
    is_pending = True
    has_files = False
    for one in group:
        if one.expected is not None:
            is_expected = True
            break
        if one.refusal is not None or one.verified is not None or one.source_upload_id or one.member_place:
            is_pending = False
        if one.file_changed is not None:
            has_files = True
    if is_expected:
        return bulk.EXPECTED
    if not is_pending:
        return bulk.PLANNED
    return bulk.FILES if has_files else bulk.PENDING


def _rows(group: Sequence[PlannedObject], columns: bulk.Columns, at: float) -> Sequence[bulk.Row]:
    if columns is bulk.PENDING or columns is bulk.FILES:
        rows: list[bulk.Row] = [
            (
                one.source_key,
                one.version_id or "",
                one.target_key,
                one.size,
                one.etag,
                one.last_modified,
                one.storage_class,
            )
            for one in group
        ]
        if columns is bulk.PENDING:
            return rows
        return [(*row, one.file_changed) for row, one in zip(rows, group, strict=True)]
    row_of = _expected_row if columns is bulk.EXPECTED else _object_row
    return [row_of(one, at) for one in group]


def _object_row(planned: PlannedObject, at: float) -> bulk.Row:
    found = (
        planned.source_key,
        planned.version_id or "",
        planned.source_upload_id,
        planned.member_place,
        planned.target_key,
        planned.size,
        planned.etag,
        planned.last_modified,
        planned.storage_class,
    )
    changed = planned.file_changed
    if planned.refusal is not None:
        code, message = planned.refusal
        state = "skipped" if planned.left_out else "failed"
        error_class = _REFUSAL_CLASSES.get(code, planned.error_class)
        target_etag = planned.target_etag
        return (*found, state, at, error_class, code, planned.operation, message, None, None, target_etag, None, None)
    if planned.verified is not None:
        etag = planned.etag if planned.target_etag is None else planned.target_etag
        return (*found, "skipped", at, None, None, None, None, at, "none", etag, planned.verified, changed)
    expected = None if planned.expected is None else planned.expected.target_etag
    return (*found, "pending", None, None, None, None, None, None, None, expected, None, changed)


def _expected_row(planned: PlannedObject, at: float) -> bulk.Row:
    expected = planned.expected or ExpectedContent(None, None, None, None)
    return (*_object_row(planned, at), expected.part_size, expected.checksum_algorithm, expected.checksum)


def find_missing_keys(connection: sa.Connection, transfer_id: str, source_keys: Sequence[str]) -> set[str]:
    """Keys, among the given ones, of which the transfer has no object."""
    return set(source_keys) - bulk.known_keys(connection, transfer_id, source_keys)
