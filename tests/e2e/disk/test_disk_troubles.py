"""What goes wrong between a disk and S3: spoiled bytes, a full disk, files that change, places that are no places."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.buckets import MIB, keys
from support.file_systems import NoFileSystemError, case_insensitive
from support.mover import SMALL_PARTS, Mover
from support.processes import seqferry
from support.proxy import Proxy, corrupt, hold
from support.servers import S3Server
from support.sim import Simulator
from support.trees import assert_same_tree, fill, settle, tree

MoverFactory = Callable[[S3Server | Simulator], Mover]
BucketFactory = Callable[..., str]


def test_bytes_that_are_spoiled_on_the_way_never_arrive(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket = make_bucket(s3server)
    fill(tmp_path / "run", rng, ["small", "big", "fine"], [1000, 11 * MIB, 10])
    code, _, err = make_mover(s3server).copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS)
    assert code == 0, err
    proxy.rule("GetObject", corrupt(500), key="in/small")
    proxy.rule("GetObject", corrupt(4 * MIB), key="in/big")

    mover = make_mover(proxy.server)
    code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back", *SMALL_PARTS)

    assert code == 3, f"{summary}\n{err}"
    failed = {record.source_key: record.error_class for record in mover.objects(summary["id"], "failed")}
    assert failed == {"in/small": "mismatch", "in/big": "mismatch"}
    assert tree(tmp_path / "back").keys() == {"fine"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a disk that can be filled needs the right to mount one: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_stops_the_transfer_and_says_so(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    small_disk: Path,
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, [f"{n}.bin" for n in range(6)], [8 * MIB])
    code, _, err = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/")
    assert code == 0, err

    planned = mover.start("cp", f"s3://{bucket}/in/", f"{small_disk}/back", "--dry-run")
    assert planned.wait() == 0
    assert "24.0 MiB free" in planned.stderr

    code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{small_disk}/back", *SMALL_PARTS)

    assert (code, summary["state"], summary["error_code"]) == (1, "failed", "DiskFull"), f"{summary}\n{err}"
    # What is there is whole, and nothing else takes room.
    for path in (small_disk / "back").iterdir():
        assert path.read_bytes() == (tmp_path / "run" / path.name).read_bytes()

    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{small_disk}/back", *SMALL_PARTS)
    assert (code, summary["objects"]) == (0, 6), f"{summary}\n{err}"
    assert_same_tree(tmp_path / "run", small_disk / "back")


def test_a_file_that_changes_while_it_is_read_is_noticed(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    fill(tmp_path / "run", rng, ["big"], [16 * MIB])
    held = proxy.rule("UploadPart", hold("reply"))
    running = mover.start("cp", f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS, "--max-requests", "1", "--json")
    proxy.wait_held(held)

    (tmp_path / "run/big").write_bytes(rng.randbytes(16 * MIB))
    proxy.remove_rule(held)

    # Started over with the file as it is now: never a mixture of both.
    assert running.wait() == 0, str(running)
    assert (
        s3server.client().get_object(Bucket=bucket, Key="in/big")["Body"].read() == (tmp_path / "run/big").read_bytes()
    )


def test_keys_that_would_leave_the_folder_are_refused_and_the_rest_arrives(
    make_simulator: Callable[..., Simulator], make_mover: MoverFactory, tmp_path: Path
) -> None:
    server = make_simulator("--instant")
    client = server.client()
    client.create_bucket(Bucket="vendor")
    bad = ["run/../up", "run//abs", "run/a//b", "run/./x", "run/d/", "run/" + "y" * 256, "run/x/.."]
    for key in [*bad, "run/fine", "run/d/fine"]:
        client.put_object(Bucket="vendor", Key=key, Body=b"content")
    mover = make_mover(server)

    code, summary, err = mover.copy("s3://vendor/run/", f"{tmp_path}/in")

    assert code == 1, f"{summary}\n{err}"
    assert tree(tmp_path / "in").keys() == {"fine", "d/fine"}
    failed = {record.source_key: record.error_code for record in mover.objects(summary["id"], "failed")}
    assert failed.keys() == set(bad)
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "state0") == ["in"]


def test_a_name_that_is_both_file_and_folder_fails_by_itself(
    make_simulator: Callable[..., Simulator], make_mover: MoverFactory, tmp_path: Path
) -> None:
    server = make_simulator("--instant")
    client = server.client()
    client.create_bucket(Bucket="vendor")
    for key in ["run/a", "run/a/b", "run/c"]:
        client.put_object(Bucket="vendor", Key=key, Body=b"content")

    mover = make_mover(server)
    code, summary, err = mover.copy("s3://vendor/run/", f"{tmp_path}/in")

    assert code == 1, f"{summary}\n{err}"
    assert (tmp_path / "in/c").read_bytes() == b"content"
    failed = {record.source_key: record.error_code for record in mover.objects(summary["id"], "failed")}
    assert list(failed.values()) in (["FileInTheWay"], ["FolderInTheWay"])


@pytest.fixture
def folding_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that takes names for the same that differ in case only."""
    place = tmp_path / "folding"
    place.mkdir()
    try:
        with case_insensitive(place) as folder:
            yield folder
    except NoFileSystemError as why:
        pytest.skip(f"no case-insensitive file system can be mounted here: {why}")


def test_of_names_that_the_disk_takes_for_one_the_first_stays_and_the_others_fail(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, folding_disk: Path
) -> None:
    bucket, client = make_bucket(versitygw), versitygw.client()
    alike = [("run/Read.fq", "run/read.fq", "run/READ.FQ"), ("run/Lane/a", "run/lane/b")]
    big = ("run/Big.fq", "run/big.fq")
    for key in [*(key for each in alike for key in each), "run/fine"]:
        client.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in big:
        client.put_object(Bucket=bucket, Key=key, Body=key[4].encode() * (11 * MIB))
    mover, ends = make_mover(versitygw), (f"s3://{bucket}/run/", f"{folding_disk}/in", *SMALL_PARTS)

    code, summary, err = mover.copy(*ends)

    assert code == 1, f"{summary}\n{err}"
    records = {record.source_key: record for record in mover.objects(summary["id"])}
    for each in (*alike, big):
        states = sorted(records[key].state for key in each)
        assert states == ["done"] + ["failed"] * (len(each) - 1), each
    assert {record.error_code for record in records.values() if record.state == "failed"} == {"CaseCollision"}
    arrived = {key for key, record in records.items() if record.state == "done"}
    assert {f"run/{path}" for path in tree(folding_disk / "in")} == arrived
    for key in arrived:
        content = key[4].encode() * (11 * MIB) if key in big else key.encode()
        assert (folding_disk / "in" / key.removeprefix("run/")).read_bytes() == content

    # What has arrived is itself, and may be written again.
    code, summary, err = mover.copy(*ends, "--if-exists", "overwrite")
    again = {record.source_key for record in mover.objects(summary["id"]) if record.state == "done"}
    assert again == arrived, f"{summary}\n{err}"


def test_nothing_is_written_through_a_link_below_the_target(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, ["d/f", "g"])
    code, _, err = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/")
    assert code == 0, err
    (tmp_path / "outside").mkdir()
    (tmp_path / "back").mkdir()
    (tmp_path / "back/d").symlink_to(tmp_path / "outside")

    code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")

    assert code == 1, f"{summary}\n{err}"
    assert list((tmp_path / "outside").iterdir()) == []
    assert (tmp_path / "back/g").read_bytes() == (tmp_path / "run/g").read_bytes()
    assert [record.error_code for record in mover.objects(summary["id"], "failed")] == ["SymlinkInTheWay"]


def test_a_target_that_cannot_be_written_stops_before_anything_is_recorded(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    s3server.client().put_object(Bucket=bucket, Key="f", Body=b"x")

    (tmp_path / "file").touch()
    running = mover.start("cp", f"s3://{bucket}/", f"{tmp_path}/file/new")

    assert running.wait() == 1
    assert running.stderr == (
        f"seqferry: Cannot use {tmp_path}/file/new: {tmp_path}/file is no folder. Choose another target.\n"
    )


@pytest.fixture
def ordinary() -> tuple[str, ...]:
    """What runs a command without what the superuser may do beyond others."""
    if os.geteuid() != 0:
        return ()
    lost = "-dac_override,-dac_read_search,-fowner,-chown"
    return ("setpriv", f"--inh-caps={lost}", f"--bounding-set={lost}")


def test_a_file_without_permission_fails_by_itself(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    ordinary: tuple[str, ...],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    mover.within = ordinary
    names = ["closed", "open", "may-be-listed/a", "may-be-listed/below/b", "may-be-entered/c", "neither/d"]
    fill(tmp_path / "run", rng, names)
    modes = {"closed": 0, "may-be-listed": 0o444, "may-be-entered": 0o111, "neither": 0}
    for name, mode in modes.items():
        (tmp_path / "run" / name).chmod(mode)
    try:
        code, summary, err = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/")
    finally:
        for name in modes:
            (tmp_path / "run" / name).chmod(0o755)

    assert code == 1, f"{summary}\n{err}"
    assert keys(s3server, bucket) == ["in/open"]
    failed = {each.source_key: each.error_code for each in mover.objects(summary["id"], "failed")}
    assert failed == dict.fromkeys(("closed", "may-be-listed/", "may-be-entered/", "neither/"), "PermissionDenied"), err


def test_a_folder_that_may_not_be_written_to_fails_its_files_only(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, ordinary: tuple[str, ...], tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    mover.within = ordinary
    for key in ("in/fine/a", "in/closed/b", "in/closed/new/c"):
        s3server.client().put_object(Bucket=bucket, Key=key, Body=b"x")
    closed = tmp_path / "target/closed"
    closed.mkdir(parents=True)
    closed.chmod(0o555)
    try:
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/target")
    finally:
        closed.chmod(0o755)

    assert (code, summary["objects_done"], summary["objects_failed"]) == (1, 1, 2), err
    assert (tmp_path / "target/fine/a").read_bytes() == b"x"
    assert list(closed.iterdir()) == []


def test_a_folder_that_cannot_be_looked_into_is_told_when_others_are_removed(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, ordinary: tuple[str, ...], tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    mover.within = ordinary
    s3server.client().put_object(Bucket=bucket, Key="in/a", Body=b"x")
    closed = tmp_path / "target/closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (tmp_path / "target/old").touch()
    closed.chmod(0)
    try:
        planned = mover.start("sync", f"s3://{bucket}/in/", f"{tmp_path}/target", "--delete", "--dry-run")
        assert planned.wait() == 1, planned.stderr
        assert "remove " in planned.stdout
        assert "could not be listed" in planned.stdout + planned.stderr
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/target", "--delete", verb="sync")
    finally:
        closed.chmod(0o755)

    assert (code, summary["error_code"], summary["removed"]) == (1, "NotLookedAt", 1), err
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == ["a", "closed"]


def test_a_folder_that_is_gone_for_a_while_ends_no_transfer(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    body = rng.randbytes(12 * MIB)
    s3server.client().put_object(Bucket=bucket, Key="in/file", Body=body)
    with Proxy(s3server) as proxy:
        mover = make_mover(proxy.server)
        held = proxy.rule("GetObject", hold("request"), after=1)
        running = mover.start("cp", f"s3://{bucket}/in/", f"{tmp_path}/disk/target", *SMALL_PARTS)
        running.wait_for_output("transfer ")
        transfer_id = running.stderr.split()[1]
        proxy.wait_held(held)
        running.kill()
        proxy.remove_rule(held)
        (tmp_path / "disk").rename(tmp_path / "unmounted")

        away = mover.start("resume", transfer_id)
        assert away.wait() == 1
        assert "not there any more" in away.stderr
        (tmp_path / "unmounted").rename(tmp_path / "disk")
        back = mover.start("resume", transfer_id)

        assert back.wait() == 0, str(back)
    assert (tmp_path / "disk/target/file").read_bytes() == body


def test_an_empty_folder_stays_one_that_files_can_come_to(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, ordinary: tuple[str, ...], tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    mover.within = ordinary
    s3server.client().put_object(Bucket=bucket, Key="in/d/", Metadata={"mode": "40555"})
    code, _, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/target")
    assert code == 0, err
    assert (tmp_path / "target/d").stat().st_mode & 0o777 == 0o755

    s3server.client().put_object(Bucket=bucket, Key="in/d/file", Body=b"x")
    code, _, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/target")

    assert code == 0, err
    assert (tmp_path / "target/d/file").read_bytes() == b"x"


def test_a_link_that_becomes_a_file_is_not_for_everybody_to_write_to(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/link").symlink_to("elsewhere")
    assert mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/", "--symlinks", "keep")[0] == 0

    assert mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/target")[0] == 0

    assert (tmp_path / "target/link").stat().st_mode & 0o022 == 0


def test_what_is_no_file_is_not_replaced_and_links_count_as_being_there(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    for name in ("pipe", "dangling", "fine"):
        s3server.client().put_object(Bucket=bucket, Key=f"in/{name}", Body=b"new")
    target = tmp_path / "target"
    target.mkdir()
    os.mkfifo(target / "pipe")
    (target / "dangling").symlink_to("nowhere")

    code, summary, err = mover.copy(f"s3://{bucket}/in/", str(target), "--if-exists", "skip")
    assert (code, summary["objects_skipped"]) == (0, 2), err
    (target / "fine").unlink()
    code, summary, err = mover.copy(f"s3://{bucket}/in/", str(target), "--if-exists", "fail")
    assert (code, summary["objects_failed"], summary["objects_done"]) == (1, 2, 1), err
    assert (target / "pipe").is_fifo()
    assert (target / "dangling").is_symlink()

    code, summary, err = mover.copy(f"s3://{bucket}/in/", str(target), "--if-exists", "overwrite")

    assert code == 1, err
    assert [each.error_code for each in mover.objects(summary["id"], "failed")] == ["SpecialFileInTheWay"]
    assert (target / "pipe").is_fifo()
    assert (target / "dangling").read_bytes() == b"new"
    single = mover.start("cp", f"s3://{bucket}/in/fine", str(target / "pipe"))
    assert single.wait() == 2
    assert "is not replaced" in single.stderr


def test_records_of_transfers_are_neither_copied_nor_overwritten_nor_removed(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    home = tmp_path / "home"
    mover.state = home / ".local" / "state" / "seqferry"
    mover.state.mkdir(parents=True)
    (home / "file").write_bytes(b"mine")
    (home / ".local" / "state" / "other").write_bytes(b"mine too")
    settle(home / "file", home / ".local" / "state" / "other")

    code, summary, err = mover.copy(str(home), f"s3://{bucket}/home/", "--delete", verb="sync")

    assert (code, summary["objects_done"]) == (0, 2), err
    assert sorted(keys(s3server, bucket)) == ["home/.local/state/other", "home/file"]
    assert {each.error_code for each in mover.objects(summary["id"], "skipped")} == {"StateFolder"}

    s3server.client().put_object(Bucket=bucket, Key="home/.local/state/seqferry/seqferry.sqlite", Body=b"spoilt")
    first = summary["id"]
    code, summary, err = mover.copy(f"s3://{bucket}/home/", str(home), "--delete", verb="sync")

    assert (code, summary["removed"]) == (0, 0), err
    assert mover.status(first).state == "done", "the records are what they were"


def test_a_standard_output_that_is_full_or_closed_is_said_and_is_no_fault_of_ours(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    (tmp_path / "file").write_bytes(b"x")
    settle(tmp_path / "file")
    environment = {**os.environ, **s3server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", f'"$0" {command}', str(seqferry())],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert run(f"cp file s3://{bucket}/a 2>&-").returncode == 0
    for command, told in [
        (f"cp file s3://{bucket}/b --json >/dev/full", "No space left"),
        (f"cp s3://{bucket}/a - --quiet >/dev/full", "No space left"),
        (f"ls s3://{bucket}/ >/dev/full", "No space left"),
    ]:
        ran = run(command)
        assert ran.returncode == 1, ran.stderr
        assert told in ran.stderr, command
        assert "Traceback" not in ran.stderr
        assert "unexpected" not in ran.stderr
    for command in (f"cp s3://{bucket}/a - >&-", f"cp - s3://{bucket}/c <&-"):
        ran = run(command)
        assert (ran.returncode, "is closed" in ran.stderr) == (2, True), ran.stderr
