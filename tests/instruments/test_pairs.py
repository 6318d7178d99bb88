"""Tests of a database and a server run on each of both, and all pairs are run."""

from __future__ import annotations

import itertools

from support.pairs import is_kept
from support.servers import KINDS

_PAIRS = set(itertools.product(("sqlite", "postgres"), KINDS))


def test_each_test_runs_on_each_database_and_on_each_server_and_some_test_on_each_pair() -> None:
    kept = [{pair for pair in _PAIRS if is_kept(f"test_{number}", *pair)} for number in range(50)]

    for pairs in kept:
        assert len(pairs) == 2
        assert {database for database, _ in pairs} == {"sqlite", "postgres"}
        assert {server for _, server in pairs} == set(KINDS)
    assert set().union(*kept) == _PAIRS
