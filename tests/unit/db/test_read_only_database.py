"""A database of SQLite in a folder that is not written: what is in it is read, or refused, and nothing is made."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from seqferry.db import read_only
from seqferry.model.errors import ConfigError


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A database whose last row is in its log, as a killed process leaves it: the file, and both beside it."""
    made, copied = tmp_path / "made", tmp_path / "with # and ?"
    made.mkdir()
    copied.mkdir()
    writer = sqlite3.connect(made / "seqferry.db", isolation_level=None)
    try:
        for statement in ("pragma journal_mode=wal", "create table t(x)", "insert into t values (1)"):
            writer.execute(statement)
        writer.execute("pragma wal_checkpoint(truncate)")
        writer.execute("insert into t values (2)")
        for file in made.iterdir():
            shutil.copy(file, copied)
    finally:
        writer.close()
    return copied / "seqferry.db"


def _rows(path: Path) -> list[int]:
    connection = read_only.connect(path)
    try:
        return [row[0] for row in connection.execute("select x from t order by x")]
    finally:
        connection.close()


def test_the_last_changes_are_read_where_both_files_are_there(copied: Path) -> None:
    assert _rows(copied) == [1, 2]


@pytest.mark.parametrize("removed", ["log", "both"])
def test_a_file_without_a_log_is_read_as_it_is_and_nothing_is_made_beside_it(copied: Path, removed: str) -> None:
    copied.with_name("seqferry.db-wal").unlink()
    if removed == "both":
        copied.with_name("seqferry.db-shm").unlink()
    before = sorted(copied.parent.iterdir())

    assert _rows(copied) == [1]
    assert sorted(copied.parent.iterdir()) == before


def test_an_empty_log_without_its_index_is_no_loss(copied: Path) -> None:
    copied.with_name("seqferry.db-shm").unlink()
    copied.with_name("seqferry.db-wal").write_bytes(b"")
    before = sorted(copied.parent.iterdir())

    assert _rows(copied) == [1]
    assert sorted(copied.parent.iterdir()) == before


def test_last_changes_that_cannot_be_read_are_not_passed_over(copied: Path) -> None:
    copied.with_name("seqferry.db-shm").unlink()

    with pytest.raises(ConfigError, match=r"seqferry\.db-shm is missing"):
        read_only.connect(copied)


def test_what_is_opened_to_be_read_cannot_be_written(copied: Path) -> None:
    connection = read_only.connect(copied)
    try:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("insert into t values (3)")
    finally:
        connection.close()
