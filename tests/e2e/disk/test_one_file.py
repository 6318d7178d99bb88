"""Requests of the download of one file, as the service counts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.mover import MIB, Mover
from support.sim import Simulator


@pytest.mark.parametrize(
    ("mebibytes", "reads"), [(5, 1), (16, 4), (20, 3)], ids=["whole", "ranges of one write", "parts"]
)
def test_a_file_from_far_away_costs_one_head_and_concurrent_reads(
    make_simulator: Callable[..., Simulator],
    make_mover: Callable[[Simulator], Mover],
    tmp_path: Path,
    mebibytes: int,
    reads: int,
) -> None:
    distant = ("--instant", "--set", "model.small.base_seconds=0.05")
    simulator = make_simulator(*distant, "--bucket", f"source=keys=run/{{i:01}}.bam;count=1;total={mebibytes}MiB")
    key = simulator.client().list_objects_v2(Bucket="source")["Contents"][0]["Key"]
    content = simulator.client().get_object(Bucket="source", Key=key)["Body"].read()
    simulator.reset()

    status, summary, _ = make_mover(simulator).copy(f"s3://source/{key}", str(tmp_path / "file.bam"))

    assert (status, len(content)) == (0, mebibytes * MIB), summary
    assert (tmp_path / "file.bam").read_bytes() == content
    operations = simulator.stats()["operations"]
    counts = {name: operations[name]["succeeded"] for name in ("HeadObject", "GetObject")}
    assert counts == {"HeadObject": 1, "GetObject": reads}
