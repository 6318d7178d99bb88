"""Files of S3 Inventory in Parquet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from seqferry._native import InventoryRow, InventoryRows


def inventory_rows(path: Path, page_size: int, needed: Collection[str]) -> Iterator[InventoryRow]:
    """The rows of a file of S3 Inventory in Parquet, with ``page_size`` in memory; see ``InventoryRows.next_rows``.

    Raises:
        ValueError: the file, or a row of it, cannot be read, or it lacks a needed column; says which and why.
    """
    rows = InventoryRows(str(path))
    if missing := sorted(set(needed) - set(rows.columns)):
        raise ValueError(f"it has no column '{missing[0]}', and the manifest names one")
    while page := rows.next_rows(page_size):
        yield from page
