"""Writing to a share through the NFS client of the Linux kernel, in an emulated machine.

The share is served by the instrument ``writable_gateway``, which settles within milliseconds, or never.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support import guest
from support.buckets import is_file, open_parts
from support.control import Word
from support.gateways import ServedInstrument, WrittenShares, written_share
from support.run import MissingToolError
from support.servers import S3Server
from support.suites import fsx_program, fsx_settings
from support.waiting import eventually

MIB = 1024 * 1024

_SCRIPT = """
check() {{ if [ "$2" = "$3" ]; then echo OK $1; else echo BAD $1: "$2", not "$3"; fi; }}
fails() {{ name=$1; shift; if "$@" 2>/tmp/said; then echo BAD $name passed; else echo OK $name $(cat /tmp/said); fi; }}
dd if=/dev/urandom of=/tmp/big bs=64k count=120 2>/dev/null
cp /tmp/big big && cmp /tmp/big big && echo OK cp
dd if=/tmp/big of=synced bs=64k conv=fsync 2>/dev/null; cmp /tmp/big synced && echo OK sync
dd if=/tmp/big of=big bs=1000 count=7 seek=3 conv=notrunc 2>/dev/null
cp /tmp/big /tmp/big2; dd if=/tmp/big of=/tmp/big2 bs=1000 count=7 seek=3 conv=notrunc 2>/dev/null
echo 3 > /proc/sys/vm/drop_caches; cmp /tmp/big2 big && echo OK overwrite
printf hello | dd of=object bs=1 seek=70000 conv=notrunc 2>/dev/null; echo OVERWRITTEN $(sha256sum < object)
printf one > log; printf two >> log; check append "$(cat log)" onetwo
truncate -s 4 log; check truncate "$(cat log)" onet
truncate -s 6 log; check extend "$(cat log | wc -c)" 6
mkdir -p folder/deep && echo x > folder/deep/x && mv folder moved; check rename "$(cat moved/deep/x)" x
mv deep renamed; check tree "$(cat renamed/er/x)" deep
mv -f log moved/log; check replace "$(ls moved | tr '\\n' ' ')" "deep log "
fails notempty rmdir moved
ln -s big link; check symlink "$(readlink link)" big
fails hardlink ln big hard
fails device mknod pipe p
chmod 640 big; check chmod "$(stat -c %a big)" 640
chown 7:8 big; check chown "$(stat -c %u:%g big)" 7:8
touch -d '2001-02-03 04:05:06' big; check touch "$(stat -c %Y big)" $(date -d '2001-02-03 04:05:06' +%s)
fails exclusive sh -C -c 'echo x > big'
exec 4> open; echo before >&4; rm open; echo after >&4; check unlinked "$(cat /proc/self/fd/4 2>/dev/null | wc -l)" 2
exec 4>&-; check silly "$(ls -a | grep -c nfs0)" 0
mkdir many; i=0; while [ $i -lt 300 ]; do echo $i > many/$i; i=$((i+1)); done; check many "$(ls many | wc -l)" 300
rm -r many; check removed "$(ls | grep -c many)" 0
rm -r renamed; check gone "$(find . | grep -c renamed)" 0
tar c -C /bin busybox | tar x -C moved; cmp /bin/busybox moved/busybox && echo OK tar
dd if=/tmp/big of=killed bs=64k 2>/dev/null
echo GUEST writes
word() {{ wget -q -O - http://10.0.2.2:{control}/ 2>/dev/null; }}
while [ "$(word)" != restarted ]; do dd if=/tmp/big of=during bs=64k 2>/dev/null; done
sync
echo 3 > /proc/sys/vm/drop_caches
for name in killed synced during; do cmp /tmp/big $name && echo OK again $name; done
cmp /tmp/big2 big && echo OK again big; check again-append "$(cat moved/log | wc -c)" 6
echo AGAIN $(sha256sum < object)
"""

_CHECKS = """
cp sync overwrite append truncate extend rename tree replace notempty symlink hardlink device chmod chown touch
exclusive silly many removed gone tar again-append
"""


@pytest.mark.timeout(400)
def test_the_kernel_writes_and_keeps_all_that_was_acknowledged_when_the_gateway_is_killed(
    seaweedfs: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    if (missing := guest.missing()) is not None:
        pytest.skip(missing)
    bucket = make_bucket(seaweedfs)
    objects = {"object": rng.randbytes(MIB + 5), "deep/er/x": b"deep"}
    for key, body in objects.items():
        seaweedfs.client().put_object(Bucket=bucket, Key=f"runs/{key}", Body=body)
    shares = ServedInstrument(tmp_path, seaweedfs, bucket, "runs/")
    try:
        with (
            Word() as control,
            guest.booted(tmp_path, shares.port, "/runs", _SCRIPT.format(control=control.port)) as machine,
        ):
            machine.wait_for_output("GUEST writes", deadline=250)
            shares.restart()
            control.word = "restarted"
            machine.wait_for_output("GUEST done", deadline=140)
            said = machine.stdout
    finally:
        shares.close()
    lines = [line.strip() for line in said.splitlines()]
    assert not [line for line in lines if line.startswith("BAD ")], said
    done = {line.split()[1] for line in lines if line.startswith("OK ")}
    assert set(_CHECKS.split()) <= done, said
    assert {f"OK again {name}" for name in ("killed", "synced", "during", "big")} <= set(lines), said
    body = bytearray(objects["object"])
    body[70000:70005] = b"hello"
    expected = hashlib.sha256(body).hexdigest()
    assert f"OVERWRITTEN {expected} -" in lines, said
    assert f"AGAIN {expected} -" in lines, said
    # What was written settles for a day, and is not in the bucket; what was removed is gone there.
    listed = seaweedfs.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert {entry["Key"]: entry["Size"] for entry in listed if is_file(entry["Key"])} == {
        "runs/object": len(objects["object"])
    }


_RANDOM = """
number=0
while [ "$(wget -q -O - http://10.0.2.2:{control}/ 2>/dev/null)" != restarted ]; do
    number=$((number + 1))
    echo GUEST run $number
    fsx -f /fsx.toml -N 400 -S $(({seed} + number)) -P /tmp file$number > /tmp/said 2>&1 && continue
    echo BAD fsx
    cat /tmp/said
done
for name in file*; do echo FILE $name $(sha256sum < $name); done
"""


@pytest.mark.timeout(400)
def test_random_operations_of_the_kernel_are_whole_while_the_file_is_uploaded_and_the_gateway_killed(
    seaweedfs: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    try:
        program, missing = fsx_program(), guest.missing()
    except MissingToolError as error:
        program, missing = None, str(error)
    if program is None or missing is not None:
        if program is None and os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    seed = rng.randrange(2**31)
    print(f"seed of fsx: {seed}")
    (tmp_path / "fsx.toml").write_text(fsx_settings(length=MIB))
    bucket = make_bucket(seaweedfs)
    shares = ServedInstrument(tmp_path, seaweedfs, bucket, "runs/", quiet=0.02)
    try:
        with (
            Word() as control,
            guest.booted(
                tmp_path,
                shares.port,
                "/runs",
                _RANDOM.format(seed=seed, control=control.port),
                programs=[program],
                files=[tmp_path / "fsx.toml"],
            ) as machine,
        ):
            machine.wait_for_output("GUEST run 1", deadline=200)
            eventually(lambda: bool(_objects(seaweedfs, bucket)), what="a file to be in the bucket", deadline=60)
            shares.restart()
            control.word = "restarted"
            machine.wait_for_output("GUEST done", deadline=140)
            said = machine.stdout
        assert "BAD " not in said, said
        found = [line.split() for line in said.splitlines() if line.startswith("FILE ")]
        files = {f"runs/{name}": digest for _, name, digest, *_ in found}
        assert files, said
        eventually(lambda: _objects(seaweedfs, bucket) == files, what="the bucket to have the files as they are")
    finally:
        shares.close()


_RUN_FOLDER = """
dd if=/dev/urandom of=/tmp/block bs=64k count=128 2>/dev/null
mkdir run.tmp
echo first > run.tmp/first
echo GUEST writes
while [ "$(wget -q -O - http://10.0.2.2:{control}/ 2>/dev/null)" != end ]; do cat /tmp/block >> run.tmp/long; done
mv run.tmp run && echo after > run/after
echo 3 > /proc/sys/vm/drop_caches
for name in first after long; do echo FILE run/$name $(sha256sum < run/$name); done
"""


@pytest.mark.timeout(400)
def test_a_run_folder_of_the_kernel_is_uploaded_while_it_grows_and_renamed(
    seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    if (missing := guest.missing()) is not None:
        pytest.skip(missing)
    bucket = make_bucket(seaweedfs)
    config = written_share("runs", f"s3://{bucket}/runs/", "settle = 2")
    shares = WrittenShares(tmp_path, seaweedfs, config)

    def parts() -> int:
        return open_parts(seaweedfs, bucket, "runs/.seqferry-parts/")

    try:
        with (
            Word() as control,
            guest.booted(tmp_path, shares.port, "/runs", _RUN_FOLDER.format(control=control.port)) as machine,
        ):
            machine.wait_for_output("GUEST writes", deadline=200)
            sent = eventually(parts, what="parts of the file that grows", deadline=120)
            shares.restart()
            eventually(lambda: parts() > sent, what="more parts after the gateway was killed", deadline=60)
            assert "runs/run.tmp/first" in _objects(seaweedfs, bucket)
            control.word = "end"
            machine.wait_for_output("GUEST done", deadline=100)
            said = machine.stdout
        found = [line.split() for line in said.splitlines() if line.startswith("FILE ")]
        files = {f"runs/{name}": digest for _, name, digest, *_ in found}
        assert len(files) == 3, said
        eventually(lambda: _objects(seaweedfs, bucket) == files, what="the bucket to have the folder", deadline=60)
        assert parts() == 0
        assert shares.writing()["renames"] == []
    finally:
        shares.close()


def _objects(server: S3Server, bucket: str) -> dict[str, str]:
    """Keys of files, and the SHA-256 of each."""
    client = server.client()
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    found: dict[str, str] = {}
    for key in filter(is_file, keys):
        # A file may be renamed or removed between the listing and this.
        with contextlib.suppress(client.exceptions.NoSuchKey):
            found[key] = hashlib.sha256(client.get_object(Bucket=bucket, Key=key)["Body"].read()).hexdigest()
    return found
