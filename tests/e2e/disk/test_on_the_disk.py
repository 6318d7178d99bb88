"""What is acknowledged is on the disk: the order of writes, syncs and effects, as strace sees it."""

from __future__ import annotations

import io
import random
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.service.service import Service
from support.mover import SMALL_PARTS, Mover
from support.sim import Simulator
from support.syscalls import Syscalls, assert_file_synced, assert_synced_before, first

WAL = r"/seqferry\.sqlite-wal"
SENDS = "write writev sendto sendmsg"

MoverFactory = Callable[[Simulator], Mover]


@pytest.fixture
def simulator(make_simulator: Callable[..., Simulator]) -> Simulator:
    objects = "keys=run/{i:01}.bam;count=3;size=12MiB"
    return make_simulator("--instant", "--bucket", f"source={objects}", "--bucket", "target")


@pytest.fixture
def mover(simulator: Simulator, make_mover: MoverFactory) -> Mover:
    return make_mover(simulator)


def test_an_id_is_printed_and_a_cancel_confirmed_when_they_are_on_the_disk(
    mover: Mover, syscalls: Callable[[], Syscalls], tmp_path: Path
) -> None:
    shutil.rmtree(mover.state)
    trace = syscalls()
    mover.within = trace.within
    transfer = mover.submit("s3://source/run/", "s3://target/in/")

    calls = trace.calls()
    printed = first(calls, "write", rf'^1<.*"{transfer}')
    assert_synced_before(calls, printed, path=WAL, content=transfer)
    # Nor is the state folder, which is new, lost with its name.
    made = first(calls, "mkdir", re.escape(f'"{mover.state}"'))
    assert_file_synced(calls, after=made, before=printed, path=re.escape(str(mover.state.parent)))

    trace = syscalls()
    mover.within = trace.within
    cancelled = mover.start("cancel", transfer)
    assert cancelled.wait() == 0, cancelled

    calls = trace.calls()
    said = first(calls, "write", r"^2<.*[Cc]ancelled")
    assert_synced_before(calls, said, path=WAL, content="cancel_requested")


def test_uploads_and_removals_are_on_the_disk_before_the_storage_is_asked(
    simulator: Simulator, mover: Mover, syscalls: Callable[[], Syscalls]
) -> None:
    simulator.client().put_object(Bucket="target", Key="in/extra", Body=b"to be removed")
    trace = syscalls()
    mover.within = trace.within
    running = mover.start("sync", "s3://source/run/", "s3://target/in/", "--delete", *SMALL_PARTS)
    assert running.wait() == 0, running

    calls = trace.calls()
    for number in range(3):
        part = first(calls, SENDS, rf'"PUT /target/in/{number}\.bam\?[^ ]*uploadId=')
        upload = re.search(r"uploadId=([^& ]+)", part.text)
        assert upload is not None
        assert_synced_before(calls, part, path=WAL, content=upload[1])
    removal = first(calls, SENDS, r'"(DELETE|POST) /target[^ ]*(in/extra|\?delete)')
    assert_synced_before(calls, removal, path=WAL, content="removing")
    said = first(calls, "write", r"^2<.*Done: 3 objects")
    assert_synced_before(calls, said, path=WAL, content=r"\"bytes_done\"")
    assert simulator.client().list_objects_v2(Bucket="target")["KeyCount"] == 3


def test_results_of_objects_share_the_syncs_of_others(
    make_simulator: Callable[..., Simulator], make_mover: MoverFactory, syscalls: Callable[[], Syscalls]
) -> None:
    simulator = make_simulator(
        "--instant", "--bucket", "source=keys=run/{i:04};count=2000;size=1KiB", "--bucket", "target"
    )
    mover = make_mover(simulator)
    with Service.open(mover.settings()):
        pass  # so that the tables are there
    trace = syscalls()
    mover.within = trace.within
    running = mover.start("cp", "s3://source/run/", "s3://target/in/")
    assert running.wait() == 0, running

    syncs = [call for call in trace.calls() if call.name in ("fsync", "fdatasync")]
    assert len(syncs) < 25, "a few for each batch, none for each object"


def test_unpacked_files_share_a_sync_of_the_file_system_that_comes_before_their_end(
    simulator: Simulator,
    mover: Mover,
    syscalls: Callable[[], Syscalls],
    tmp_path: Path,
    rng: random.Random,
) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True).stdout
    if kind.strip() not in ("ext2/ext3", "xfs", "btrfs"):
        pytest.skip(f"a sync of {kind.strip()} need not reach the disk")
    archive, target = tmp_path / "x.tar", tmp_path / "to"
    _archive(archive, 200, rng)
    target.mkdir()
    (target / "150").write_bytes(b"the old one")
    trace = syscalls()
    mover.within = trace.within
    running = mover.start("unpack", str(archive), str(target))
    assert running.wait() == 0, running

    calls = trace.calls()
    said = first(calls, "write", r"^2<.*Done: 200 objects")
    inside = re.escape(str(target))
    named = [call for call in calls if call.name.startswith("rename") and re.search(rf"<{inside}[/>]", call.text)]
    assert len(named) == 200
    whole = [call for call in calls if call.name == "syncfs" and call.worked]
    assert any(named[-1].ended < sync.begun and sync.ended < said.begun for sync in whole)
    alone = [call for call in calls if call.name in ("fsync", "fdatasync") and re.match(rf"\d+<{inside}/", call.text)]
    # A file that is there is never replaced by one that is not on the disk.
    assert len(alone) == 1, alone
    assert len(whole) < 20
    # The ends go on record behind the sync of the files.
    ends = [
        call
        for call in calls
        if call.name in ("write", "pwrite64") and re.match(rf"\d+<[^>]*{WAL}>", call.text) and "checksum" in call.text
    ]
    assert not ends or whole[0].ended < ends[-1].begun


def test_files_unpacked_without_sync_are_waited_for_on_no_disk(
    simulator: Simulator,
    mover: Mover,
    syscalls: Callable[[], Syscalls],
    tmp_path: Path,
    rng: random.Random,
) -> None:
    archive, target = tmp_path / "x.tar", tmp_path / "to"
    members = _archive(archive, 200, rng)
    target.mkdir()
    (target / "150").write_bytes(b"the old one")
    trace = syscalls()
    mover.within = trace.within
    running = mover.start("unpack", "--no-sync", str(archive), str(target))
    assert running.wait() == 0, running

    assert {path.name: path.read_bytes() for path in target.iterdir()} == members
    calls = trace.calls()
    assert not [call for call in calls if call.name == "syncfs"]
    inside = re.escape(str(target))
    alone = [call for call in calls if call.name in ("fsync", "fdatasync") and re.match(rf"\d+<{inside}/", call.text)]
    # Also here no file that is there is replaced by one that is not on the disk.
    assert len(alone) == 1, alone


def _archive(archive: Path, count: int, rng: random.Random) -> dict[str, bytes]:
    """Write an archive of small members; returns their contents by name."""
    members = {f"{number:03}": rng.randbytes(1000 + number) for number in range(count)}
    with tarfile.open(archive, "w") as made:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 1_700_000_000
            made.addfile(info, io.BytesIO(content))
    return members


def test_new_folders_are_synced_in_those_above_them_before_the_end(
    make_simulator: Callable[..., Simulator],
    make_mover: MoverFactory,
    syscalls: Callable[[], Syscalls],
    tmp_path: Path,
) -> None:
    simulator = make_simulator("--instant", "--bucket", "source=keys=run/{a,b}/{c,d}/{i:01};count=8;size=1KiB")
    mover = make_mover(simulator)
    target = tmp_path / "above/target"
    (target / "a").mkdir(parents=True)  # as a process that was killed has left it
    trace = syscalls()
    mover.within = trace.within
    running = mover.start("cp", "s3://source/run/", f"{target}/new")
    assert running.wait() == 0, running

    calls = trace.calls()
    said = first(calls, "write", r"^2<.*Done: 8 objects")
    made = [call for call in calls if call.name.startswith("mkdir") and call.worked and str(target) in call.text]
    assert len(made) == 7, "new, a, b and both of c, d"
    for call in made:
        below, name = re.match(r'(?:\d+<(.*)>, )?"(.*?)"', call.text).groups()  # type: ignore[union-attr]
        above = below if below is not None else str(Path(name).parent)
        assert_file_synced(calls, after=call, before=said, path=f"^{re.escape(above)}"[1:])
    # Also the folder that was there, in the one above it.
    assert_file_synced(calls, after=calls[0], before=made[0], path=re.escape(str(target.parent)))
