"""Shares of a gateway through the NFS client of the Linux kernel, in an emulated machine."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support import guest
from support.control import Word
from support.gateways import ServedShares
from support.servers import S3Server

MIB = 1024 * 1024

_SCRIPT = """
find . -type f | sort > /tmp/names
while read -r name; do sha256sum "$name"; done < /tmp/names | sed 's/^/SUM /'
echo GUEST listed $(ls many | wc -l)
touch new 2>&1 | sed 's/^/TOUCH /'
rm -f large.bin 2>&1 | sed 's/^/REMOVE /'
cat absent 2>&1 | sed 's/^/ABSENT /'
df -k . | tail -n 1 | sed 's/^/DF /'
exec 3< large.bin
dd bs=1000 count=1 <&3 of=/dev/null 2> /dev/null
echo GUEST reads
echo 3 > /proc/sys/vm/drop_caches
while [ "$(wget -q -O - http://10.0.2.2:{control}/ 2>/dev/null)" != restarted ]; do sleep 1; done
cat <&3 | sha256sum | sed 's/^/REST /'
exec 3<&-
"""


@pytest.mark.timeout(300)
def test_the_kernel_lists_reads_and_goes_on_after_the_gateway_was_killed(
    seaweedfs: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    if (missing := guest.missing()) is not None:
        pytest.skip(missing)
    bucket = make_bucket(seaweedfs)
    objects = {
        "one": b"1",
        "sp ace/é": rng.randbytes(4097),
        "deep/er/and/er/x": rng.randbytes(128 * 1024 + 1),
        "large.bin": rng.randbytes(9 * MIB + 77),
    }
    objects |= {f"many/{number:04}": rng.randbytes(number % 50) for number in range(120)}
    for key, body in objects.items():
        seaweedfs.client().put_object(Bucket=bucket, Key=f"runs/{key}", Body=body)
    config = f'[[share]]\nname = "runs"\nsource = "s3://{bucket}/runs/"\n'
    shares = ServedShares(tmp_path, seaweedfs, config)
    try:
        with (
            Word() as control,
            guest.booted(tmp_path, shares.port, "/runs", _SCRIPT.format(control=control.port)) as machine,
        ):
            machine.wait_for_output("GUEST reads", deadline=200)
            shares.restart()
            control.word = "restarted"
            machine.wait_for_output("GUEST done", deadline=100)
            said = machine.stdout
    finally:
        shares.close()
    lines = [line.strip() for line in said.splitlines()]
    found = {line.split("  ", 1)[1].removeprefix("./"): line.split()[1] for line in lines if line.startswith("SUM ")}
    assert found == {key: hashlib.sha256(body).hexdigest() for key, body in objects.items()}
    assert "GUEST listed 120" in lines
    assert any(line.startswith("TOUCH ") and "Read-only file system" in line for line in lines), said
    assert any(line.startswith("REMOVE ") and "Read-only file system" in line for line in lines), said
    assert any(line.startswith("ABSENT ") and "No such file" in line for line in lines), said
    rest = hashlib.sha256(objects["large.bin"][1000:]).hexdigest()
    assert any(line.startswith(f"REST {rest}") for line in lines), said
    assert "GUEST unmounted" in lines
