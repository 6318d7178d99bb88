"""One program that reads at random places of a large file."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from support.mounts import Mounter
from support.sim import Simulator

MIB = 1 << 20
BIG = "big=keys=f{i:02};count=1;size=96MiB"


def test_random_reads_behind_a_latency_give_the_bytes_of_the_file(
    make_simulator: Callable[..., Simulator], mounter: Mounter
) -> None:
    # On a fast link most of the file is fetched around the reads, into far less memory: the kernel keeps the rest.
    simulator = make_simulator("--instant", "--set", "model.get.base_seconds=0.02", "--bucket", BIG)
    folder = mounter(simulator, "s3://big", "--memory", "16MiB").directory
    content = simulator.client().get_object(Bucket="big", Key="f00")["Body"].read()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chooser = random.Random(seed)

    with (folder / "f00").open("rb", buffering=0) as file:
        for _ in range(400):
            place = chooser.randrange(len(content) // 4096) * 4096
            assert os.pread(file.fileno(), 4096, place) == content[place : place + 4096], place
        # All of it, out of the kernel, the memory and the bucket.
        for place in range(0, len(content), MIB):
            assert os.pread(file.fileno(), MIB, place) == content[place : place + MIB], place
