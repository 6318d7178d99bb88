"""One program that reads a large file from its start to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.sim import Simulator

MIB = 1 << 20
BIG = "big=keys=f{i:02};count=1;size=192MiB"


def _peak_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_several_requests_are_under_way_from_the_first_reads_on(
    make_simulator: Callable[..., Simulator], mounter: Mounter
) -> None:
    # With the latencies and rates of S3.
    simulator = make_simulator("--bucket", BIG)
    folder = mounter(simulator, "s3://big").directory
    simulator.reset()

    with (folder / "f00").open("rb") as file:
        assert len(file.read(2 * MIB)) == 2 * MIB

    # A block, a probe in two requests, a window in four.
    assert simulator.stats()["peak_in_flight"] >= 4


@pytest.mark.parametrize("memory", [16, 64])
def test_a_mount_has_little_more_memory_than_its_file_contents(
    make_simulator: Callable[..., Simulator], mounter: Mounter, memory: int
) -> None:
    # Latency keeps all requests of a window under way.
    simulator = make_simulator("--instant", "--set", "model.get.base_seconds=0.005", "--bucket", BIG)
    mount, serving = mounter.foreground(simulator, "s3://big", "--memory", f"{memory}MiB", is_preloaded=False)

    read = 0
    with (mount.directory / "f00").open("rb", buffering=0) as file:
        while piece := file.read(MIB):
            read += len(piece)

    assert read == 192 * MIB
    peak = _peak_memory(serving.pid)
    assert peak <= (memory + 100) * MIB, f"{peak / MIB:.0f} MiB at the most"
