"""Mounts under trouble: failing caches, outages, expired credentials, kills, and more open files than memory."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import proxy as faults
from support.mounts import Mounter
from support.processes import RunningProcess, run, run_seqferry
from support.proxy import Proxy, archived, error, expired_token, reset
from support.servers import ADMIN, MOVER, Credentials, S3Server
from support.sim import Simulator
from support.waiting import eventually

ObjectWriter = Callable[..., None]
MIB = 1024 * 1024


def _log(tmp_path: Path) -> str:
    return (tmp_path / "mount-state" / "mount.log").read_text()


def _peak_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_a_cold_read_fills_the_cache_for_the_next_mount(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(s3server)
    objects = {f"d/{number}": rng.randbytes(rng.randrange(1, 3 * MIB)) for number in range(6)}
    put(s3server, bucket, objects)
    options = ("--cache", str(tmp_path / "cache"), "--pin")
    fetched: list[int] = []
    # A disk that is busy for a moment drops a block instead of holding up the read; the next mount fetches that again.
    # A byte of each object shows that this identity may read it.
    asked = len(objects)
    while not fetched or (fetched[-1] > asked and len(fetched) < 5):
        mount = mounter(s3server, f"s3://{bucket}", *options)
        assert {key: (mount.directory / key).read_bytes() for key in objects} == objects
        fetched.append(mount.stats()["bytes_fetched"])
        mount.umount()
        # Blocks are written beside the reads; the process has ended when they are.
        eventually(lambda one=mount: not one.serving, what="the serving process to end")
    whole = sum(map(len, objects.values()))
    assert fetched[0] >= whole
    assert fetched[1] < whole / 2
    assert fetched[-1] == asked
    listed = run_seqferry("cache", "ls", "--cache", tmp_path / "cache", "--json", environment=mount.environment)
    assert all(json.loads(line)["pinned"] for line in listed.stdout.splitlines())


def test_a_flipped_byte_in_the_cache_is_never_served(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(seaweedfs)
    body = rng.randbytes(3 * MIB + 5)
    put(seaweedfs, bucket, {"file": body})
    options = ("--cache", str(tmp_path / "cache"))
    run_seqferry("cache", "warm", f"s3://{bucket}", *options, environment=seaweedfs.environment())
    (data,) = (tmp_path / "cache" / "objects").rglob("*.data")
    places = [rng.randrange(len(body)) for _ in range(5)]
    with data.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(bytes([body[place] ^ (1 << rng.randrange(8))]))

    mount = mounter(seaweedfs, f"s3://{bucket}", *options)
    assert (mount.directory / "file").read_bytes() == body
    assert 0 < mount.stats()["bytes_fetched"] <= len(body)


def test_a_cache_that_fails_under_way_makes_reads_slower_and_never_wrong(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(seaweedfs)
    objects = {f"{number}": rng.randbytes(2 * MIB + number) for number in range(4)}
    put(seaweedfs, bucket, objects)
    cache = tmp_path / "cache"
    mount = mounter(seaweedfs, f"s3://{bucket}", "--cache", str(cache))
    assert (mount.directory / "0").read_bytes() == objects["0"]
    # Nothing can be written there any more.
    (cache / "objects").rename(cache / "elsewhere")
    (cache / "objects").touch()

    assert {key: (mount.directory / key).read_bytes() for key in objects} == objects
    eventually(lambda: "Reading goes on without it" in _log(tmp_path), what="the log to say that the cache fails")
    assert _log(tmp_path).count("Reading goes on without it") <= 2, "once for reading, once for writing"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of 1,100 MiB, a little more than what a cache leaves free."""
    (folder := tmp_path / "disk").mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100m", "tmpfs", folder], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"only root makes file systems: the full disk is not tested ({made.stderr.strip()})")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


def test_a_disk_that_fills_up_makes_reads_slower_and_never_wrong(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    small_disk: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(seaweedfs)
    objects = {f"{number}": rng.randbytes(4 * MIB + number) for number in range(4)}
    put(seaweedfs, bucket, objects)
    mount = mounter(seaweedfs, f"s3://{bucket}", "--cache", str(small_disk / "cache"), "--memory", "16MiB")
    assert (mount.directory / "0").read_bytes() == objects["0"]
    eventually(lambda: mount.stats()["cache_used"] > 4 * MIB, what="the first object to be in the cache")
    # From one moment to the next there is no room at all.
    subprocess.run(["mount", "-o", "remount,size=5m", small_disk], check=True)

    for _ in range(2):
        assert {key: (mount.directory / key).read_bytes() for key in objects} == objects
        subprocess.run(["sh", "-c", "echo 1 > /proc/sys/vm/drop_caches"], check=False, capture_output=True)


def test_a_cache_on_a_network_or_user_space_file_system_is_refused(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"folder/file": b"x"})
    remote = mounter(seaweedfs, f"s3://{bucket}").directory / "folder"
    (target := tmp_path / "target").mkdir()
    command = ["mount", f"s3://{bucket}", target, "--cache", remote]

    refused = run_seqferry(*command, environment=seaweedfs.environment(), expect=1)

    assert "it is on FUSE" in refused.stderr
    assert "local disk" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not os.path.ismount(target)


def test_a_thousand_open_files_read_at_random_within_the_memory(
    make_simulator: Callable[..., Simulator], mounter: Mounter, rng: random.Random
) -> None:
    simulator = make_simulator("--instant", "--bucket", "big=keys=f{i:03};count=100;size=1GiB")
    pool = 32 * MIB
    mount, serving = mounter.foreground(simulator, "s3://big", "--memory", "32MiB", is_preloaded=False)
    client = simulator.client()
    files = [os.open(mount.directory / f"f{number % 100:03}", os.O_RDONLY) for number in range(1000)]
    try:

        def read(number: int) -> tuple[int, int, bytes]:
            offset = rng.randrange(1024 * MIB - 4096)
            return number, offset, os.pread(files[number], 4096, offset)

        with ThreadPoolExecutor(16) as readers:
            found = list(readers.map(read, range(1000)))
        assert mount.stats()["memory_used"] <= pool
        assert mount.stats()["open_files"] == 1000
    finally:
        for file in files:
            os.close(file)
    for number, offset, body in rng.sample(found, 30):
        wanted = f"bytes={offset}-{offset + 4095}"
        assert body == client.get_object(Bucket="big", Key=f"f{number % 100:03}", Range=wanted)["Body"].read()
    peak = _peak_memory(serving.pid)
    assert peak <= pool + 150 * MIB, f"{peak / MIB:.0f} MiB at the most"


def test_a_pool_smaller_than_the_load_makes_readers_wait_and_none_fail(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, rng: random.Random
) -> None:
    bucket = make_bucket(seaweedfs)
    objects = {f"{number}": rng.randbytes(6 * MIB + number) for number in range(12)}
    put(seaweedfs, bucket, objects)
    mount = mounter(seaweedfs, f"s3://{bucket}", "--memory", "16MiB", "--max-requests", "4")
    with ThreadPoolExecutor(12) as readers:
        found = dict(zip(objects, readers.map(lambda key: (mount.directory / key).read_bytes(), objects), strict=True))
    assert found == objects
    assert mount.stats()["memory_used"] <= 16 * MIB


def test_an_outage_delays_reads_and_loses_none(
    proxy: Proxy, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, rng: random.Random
) -> None:
    bucket = make_bucket(proxy.server)
    objects = {"a/1": rng.randbytes(3 * MIB), "b/2": rng.randbytes(100)}
    put(proxy.server, bucket, objects)
    mount = mounter(proxy.server, f"s3://{bucket}", "--metadata-ttl", "minimal")
    first = proxy.rule([], reset(), times=8)
    second = proxy.rule([], error(503, "ServiceUnavailable"), times=4)

    found = {key: (mount.directory / key).read_bytes() for key in objects}

    assert found == objects
    assert (proxy.fired(first), proxy.fired(second)) == (8, 4)


class Issuer:
    """Hands out credentials by a profile, as files or as a process that may fail."""

    def __init__(self, folder: Path, source: str) -> None:
        self._keys, self._asked, config = folder / "keys", folder / "asked", folder / "config"
        command = f"sh -c 'echo >> {self._asked}; cat {self._keys}'"
        is_file = source == "file"
        self._form = "[issued]\naws_access_key_id = {}\naws_secret_access_key = {}\n" if is_file else _PROCESS
        config.write_text(
            f"[profile issued]\nregion = us-east-1\n{'' if is_file else f'credential_process = {command}'}\n"
        )
        self.environment = {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "issued"}
        if is_file:
            self.environment["AWS_SHARED_CREDENTIALS_FILE"] = str(self._keys)

    def issue(self, keys: Credentials) -> None:
        # By renaming: a file that is half written would be another fault.
        new = self._keys.with_suffix(".new")
        new.write_text(self._form.format(keys.access_key, keys.secret_key))
        new.rename(self._keys)

    def fail(self) -> None:
        self._keys.unlink()

    def asked(self) -> int:
        return len(self._asked.read_text().splitlines())


_PROCESS = '{{"Version": 1, "AccessKeyId": "{}", "SecretAccessKey": "{}"}}'


@pytest.mark.parametrize(
    ("source", "operation"),
    [("process", "GetObject"), ("file", "GetObject"), ("failing process", "GetObject"), ("file", "HeadObject")],
)
def test_credentials_that_expire_are_renewed_under_way_though_they_come_late(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    operation: str,
) -> None:
    bucket = make_bucket(proxy.server)
    body = rng.randbytes(3 * MIB)
    put(proxy.server, bucket, {"file": body})
    issuer = Issuer(tmp_path, source)
    issuer.issue(MOVER)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    environment = {"AWS_ENDPOINT_URL": proxy.endpoint_url, **issuer.environment}
    consistency = ("--consistency", "open") if operation == "HeadObject" else ()
    mount = mounter(proxy.server, f"s3://{bucket}", *consistency, environment=environment)
    assert (mount.directory / "file").stat().st_size == len(body)
    expired = proxy.rule(operation, expired_token(), access_key=MOVER.access_key)
    if source == "failing process":
        issuer.fail()

    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit((mount.directory / "file").read_bytes)
        if source == "failing process":
            asked = issuer.asked()
            eventually(lambda: issuer.asked() > asked + 3, what="the process to be asked again and again")
        else:
            proxy.wait_fired(expired, 4)
        issuer.issue(ADMIN)
        assert reading.result(90) == body


def test_a_mount_killed_at_any_moment_is_mounted_again_with_its_cache(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    objects = {f"d{number % 3}/{number}": rng.randbytes(rng.randrange(MIB)) for number in range(30)}
    put(proxy.server, bucket, objects)
    options = ("--cache", str(tmp_path / "cache"))
    (folder := tmp_path / "mounted").mkdir()
    for _ in range(4):
        mount, serving = mounter.foreground(proxy.server, f"s3://{bucket}", *options, directory=folder)
        with RunningProcess(["cp", "-r", folder, tmp_path / "partial"]) as reading:
            proxy.clear_log()
            if proxy.stats():
                wanted = rng.randrange(1, 12)
                try:
                    proxy.wait_requested("GetObject", wanted, deadline=2)
                except TimeoutError:
                    print(f"fewer than {wanted} requests: the cache has the rest")
            serving.kill()
            reading.wait()
        mount.umount()
        run(["rm", "-rf", tmp_path / "partial"])
    mount = mounter(proxy.server, f"s3://{bucket}", *options, directory=folder)
    assert {key: (folder / key).read_bytes() for key in objects} == objects
    verified = run_seqferry("cache", "verify", *options, "--json", environment=mount.environment)
    assert all(json.loads(line)["damaged"] == 0 for line in verified.stdout.splitlines())


def test_unmounting_by_force_while_a_program_reads_serves_it_to_the_end(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    body = rng.randbytes(8 * MIB)
    put(proxy.server, bucket, {"file": body})
    mount = mounter(proxy.server, f"s3://{bucket}")
    with (
        (mount.directory / "file").open("rb") as file,
        faults.held(proxy, "GetObject"),
        ThreadPoolExecutor(1) as beside,
    ):
        reading = beside.submit(file.read)
        proxy.wait_requested("GetObject")
        mount.umount("--force")
        assert not mount.is_mounted
        proxy.clear_rules()
        assert reading.result(60) == body


def test_two_mounts_share_one_cache_at_once(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(proxy.server)
    objects = {f"d/{number}": rng.randbytes(2 * MIB + number) for number in range(8)}
    put(proxy.server, bucket, objects)
    options = ("--cache", str(tmp_path / "cache"))
    both = [mounter(proxy.server, f"s3://{bucket}", *options) for _ in range(2)]
    with ThreadPoolExecutor(16) as readers:
        wanted = [(mount, key) for mount in both for key in objects]
        rng.shuffle(wanted)
        found = readers.map(lambda each: (each[1], (each[0].directory / each[1]).read_bytes()), wanted)
        assert all(objects[key] == body for key, body in found)
    both[0].umount()
    third = mounter(proxy.server, f"s3://{bucket}", *options)
    assert {key: (third.directory / key).read_bytes() for key in objects} == objects
    assert third.stats()["bytes_fetched"] <= sum(map(len, objects.values())) // 2


def test_an_archived_object_gives_an_error_and_one_line_in_the_log(
    proxy: Proxy,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
) -> None:
    bucket = make_bucket(proxy.server)
    put(proxy.server, bucket, {"cold": b"x" * 100, "warm": b"y"})
    proxy.rule("GetObject", archived(), key="cold")
    mount = mounter(proxy.server, f"s3://{bucket}")

    with pytest.raises(OSError) as refused:
        (mount.directory / "cold").read_bytes()
    assert refused.value.errno == errno.EIO
    assert (mount.directory / "warm").read_bytes() == b"y"
    lines = [line for line in _log(tmp_path).splitlines() if "cold" in line]
    assert len(lines) == 1, lines
    assert "archived" in lines[0]
