"""Gateways with shares that are written, for one test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from support.gateways import WrittenShares, need_libnfs
from support.servers import S3Server


class Serving(Protocol):
    """``serving(server, config, *options)``: a gateway, which is killed at the end of the test where it still runs.

    Those of one ``name`` have one cache and one state folder. ``more`` are variables of the environment.
    """

    def __call__(
        self, server: S3Server, config: str, *options: str, name: str = "", more: Mapping[str, str] | None = None
    ) -> WrittenShares: ...


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    need_libnfs()
    made: list[WrittenShares] = []

    def serve(
        server: S3Server, config: str, *options: str, name: str = "", more: Mapping[str, str] | None = None
    ) -> WrittenShares:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        made.append(WrittenShares(folder, server, config, *options, more=more))
        return made[-1]

    yield serve
    for one in made:
        one.close()
