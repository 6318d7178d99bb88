"""Disks as people write them."""

from __future__ import annotations

import pytest

from seqferry.cost import disks
from seqferry.cost.disks import Disk
from seqferry.model.errors import UsageError


@pytest.mark.parametrize(
    ("written", "sizes", "found"),
    [
        ("gp3", (20,), [Disk("root", "gp3", 20)]),
        ("gp3", (20, 500), [Disk("root", "gp3", 20), Disk("cache", "gp3", 500)]),
        ("gp2, io1:4000", (20, 500), [Disk("root", "gp2", 20), Disk("cache", "io1", 500, 4000)]),
        ("gp3:6000:250", (200,), [Disk("root", "gp3", 200, 6000, 250)]),
        ("gp3:6000:250@300", (20,), [Disk("root", "gp3", 300, 6000, 250)]),
        ("gp2@65536", (), [Disk("root", "gp2", 65_536)]),
        ("gp2,gp2,st1@125", (1, 2), [Disk("root", "gp2", 1), Disk("cache", "gp2", 2), Disk("disk 3:", "st1", 125)]),
        # Small disks of gp3 have 3,000 IOPS, whatever 500 a GB would give.
        ("gp3:3000", (1,), [Disk("root", "gp3", 1, 3000)]),
        ("io1:1000", (20,), [Disk("root", "io1", 20, 1000)]),
    ],
)
def test_a_disk_is_read(written: str, sizes: tuple[int, ...], found: list[Disk]) -> None:
    assert disks.parse(written, "--disk", sizes) == found


@pytest.mark.parametrize(
    ("written", "sizes", "said"),
    [
        ("", (20,), "'' is no disk"),
        pytest.param(f"io1:{'9' * 5000}", (20,), "is no disk", id="digits"),
        ("GP3", (20,), "is no disk"),
        ("gp3:", (20,), "is no disk"),
        ("gp3:1:2:3", (20,), "is no disk"),
        ("gp3,", (20, 20), "'' is no disk"),
        ("gp9", (20,), "choose one of gp2, gp3"),
        ("gp3,gp3", (20,), "Write its size, as gp3@200"),
        ("gp2@0", (), "has 1 to 65,536 GB, not 0"),
        ("gp2@65537", (), "not 65,537"),
        ("st1@124", (), "has 125 to 65,536 GB"),
        ("io1:100@3", (), "has 4 to"),
        ("gp2:4000", (20,), "no IOPS to buy"),
        ("io1", (20,), "needs its IOPS"),
        ("io1:0", (20,), "needs its IOPS"),
        ("io1:1001", (20,), "gives 20 GB at most 1,000 IOPS (50 a GB), not 1,001"),
        ("gp3:3001", (1,), "at most 3,000 IOPS"),
        ("io2:4000:250", (20,), "no throughput to buy"),
    ],
)
def test_a_disk_that_cannot_be_bought_is_refused(written: str, sizes: tuple[int, ...], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        disks.parse(written, "--disk", sizes)

    assert refused.value.message.startswith("--disk: ")
    assert said in refused.value.message
