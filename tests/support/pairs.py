"""Which pairs of a database and a server of storage a test runs on: two of the four, each of both once.

Nothing knows both: the engine asks the storage and knows no database, and rows are the same for each storage.
"""

from __future__ import annotations

import os
import zlib

import pytest

from support.servers import KINDS


def is_kept(name: str, database: str, server: str) -> bool:
    """True when the test runs on this pair. Drawn from its name, so that all four pairs are run by some tests."""
    straight = (database == "sqlite") == (server == KINDS[0])
    return straight == (zlib.crc32(name.encode()) % 2 == 0)


def is_left_out(item: pytest.Item) -> bool:
    """True when ``item`` is a test on a pair that it does not need."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("every_pair"):
        return False
    params = item.callspec.params if hasattr(item, "callspec") else {}
    database, server = params.get("settings", params.get("empty_settings")), params.get("s3server")
    if database is None or server is None or os.environ.get("SEQFERRY_TEST_PAIRS") == "all":
        return False
    return not is_kept(f"{item.path.name}::{item.originalname}", database, server)
