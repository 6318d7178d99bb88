"""A bucket for clients of NFS 4.1: nfs-ganesha over a mount, as docs/use/nfs4.md says, and the client of the kernel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from support import guest
from support.buckets import is_file
from support.control import Word
from support.ganesha import Ganesha
from support.mounts import Mounter, gone
from support.processes import run_seqferry
from support.servers import S3Server
from support.waiting import eventually

_MOUNT = """mount -i -t nfs4 -o hard,vers=4.1,proto=tcp,port={port},addr=10.0.2.2,clientaddr=10.0.2.15,sec=sys \\
10.0.2.2:{export} /mnt"""

_SCRIPT = """
check() {{ if [ "$2" = "$3" ]; then echo OK $1; else echo BAD $1: "$2", not "$3"; fi; }}
word() {{ wget -q -O - http://10.0.2.2:{control}/ 2>/dev/null; }}
check old "$(cat deep/er/old)" old
dd if=/dev/urandom of=/tmp/big bs=64k count=120 2>/dev/null
mkdir run && dd if=/tmp/big of=run/big.tmp bs=64k 2>/dev/null && mv run/big.tmp run/big
printf one > log; printf two >> log; check append "$(cat log)" onetwo
mkdir many; i=0; while [ $i -lt 100 ]; do echo $i > many/$i; i=$((i+1)); done; rm many/7
check many "$(ls many | wc -l)" 99
mv many moved; check rename "$(cat moved/42)" 42
ln -s run/big link; check link "$(readlink link)" run/big
chmod 640 log; chown 7:8 log; check facts "$(stat -c %a:%u:%g log)" 640:7:8
exec 4> open; echo before >&4; rm open; echo after >&4; exec 4>&-; check unlinked "$(ls -a | grep -c open)" 0
echo SUM $(sha256sum < /tmp/big)
echo GUEST writes
exec 5< run/big
while :; do dd if=/tmp/big of=during bs=64k conv=fsync 2>/dev/null; [ "$(word)" = restarted ] && break; done
cmp /tmp/big during && echo OK during
cmp /tmp/big /proc/self/fd/5 && echo OK kept-open
exec 5<&-
echo 3 > /proc/sys/vm/drop_caches
cmp /tmp/big run/big && echo OK again; check again-many "$(cat moved/99)" 99
rm -r moved during
"""
_CHECKS = "old append many rename link facts unlinked during kept-open again again-many"


@pytest.mark.timeout(400)
def test_the_kernels_client_of_nfs_4_writes_a_bucket_through_a_server_that_is_killed(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, tmp_path: Path
) -> None:
    missing = guest.missing() or (None if os.geteuid() == 0 else "files are found by their numbers by root alone")
    if missing is not None:
        pytest.skip(missing)
    bucket = make_bucket(s3server)
    client = s3server.client()
    client.put_object(Bucket=bucket, Key="deep/er/old", Body=b"old")
    cache = tmp_path / "cache"
    mount = mounter(s3server, f"s3://{bucket}", "--read-write", "--cache", str(cache), "--allow-other")
    (machine_folder := tmp_path / "guest").mkdir()
    with closing(Ganesha(mount.directory, tmp_path / "ganesha")) as ganesha, Word() as control:
        script = _SCRIPT.format(control=control.port)
        with guest.booted(machine_folder, ganesha.port, "/runs", script, mount=_MOUNT, nfs4=True) as machine:
            machine.wait_for_output("GUEST writes", deadline=200)
            ganesha.restart()
            control.word = "restarted"
            machine.wait_for_output("GUEST done", deadline=140)
            said = machine.stdout
    lines = [line.strip() for line in said.splitlines()]
    assert not [line for line in lines if line.startswith("BAD ")], said
    assert set(_CHECKS.split()) <= {line.split()[1] for line in lines if line.startswith("OK ")}, said
    (sent,) = (line.split()[1] for line in lines if line.startswith("SUM "))

    mount.umount("--force")
    gone(mount)
    eventually(
        lambda: (
            "No gateway runs"
            in run_seqferry("gateway", "status", "--cache", cache, environment=mount.environment, expect=None).stderr
        ),
        what="everything to be in the bucket",
    )
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"] if is_file(one["Key"])]
    assert set(keys) == {"deep/er/old", "run/big", "log", "link"}
    assert hashlib.sha256(client.get_object(Bucket=bucket, Key="run/big")["Body"].read()).hexdigest() == sent
    assert client.get_object(Bucket=bucket, Key="log")["Body"].read() == b"onetwo"
