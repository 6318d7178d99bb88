"""A mover per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.mover import Mover
from support.run import Run
from support.servers import S3Server
from support.sim import Simulator
from support.state import prepare


@pytest.fixture
def make_mover(run: Run, tmp_path: Path) -> Iterator[Callable[[S3Server | Simulator], Mover]]:
    """``make_mover(server)``: the command with a state folder of its own, talking to a server or a proxy."""
    made: list[Mover] = []

    def make(server: S3Server | Simulator) -> Mover:
        made.append(Mover(server, prepare(run, tmp_path / f"state{len(made)}")))
        return made[-1]

    yield make
    for mover in made:
        mover.__exit__()
