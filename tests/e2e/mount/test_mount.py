"""A bucket as a folder, through the kernel, on real servers."""

from __future__ import annotations

import ctypes
import errno
import filecmp
import json
import os
import random
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from seqferry.engine import mounts
from support import proxy as faults
from support.mounts import Mounter, gone
from support.processes import RunningProcess, run, run_seqferry, seqferry
from support.proxy import Proxy
from support.servers import S3Server
from support.sim import Simulator
from support.waiting import eventually, is_readable

ObjectWriter = Callable[..., None]

MIB = 1024 * 1024


def _tree(rng: random.Random) -> dict[str, bytes]:
    names = [
        "reads.fastq.gz",
        "a",
        "a-b",
        "a.b/c",
        "é/ü ß",
        "空白/ファイル",
        "deep/er/and/er/x",
        "sp ace",
        "qu'ote\"",
        "+%20",
    ]
    sizes = [0, 1, 4095, 128 * 1024, 128 * 1024 + 1, MIB, 3 * MIB + 5]
    found = {name: rng.randbytes(rng.choice(sizes)) for name in names}
    found.update({f"many/{number:03}": rng.randbytes(rng.randrange(2000)) for number in range(60)})
    return found | {"large.bin": rng.randbytes(20 * MIB + 77), "n" * 255: b"long name"}


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def _write(folder: Path, objects: dict[str, bytes]) -> None:
    for key, body in objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


@pytest.mark.every_server
def test_a_tree_reads_as_it_is_in_the_bucket(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket = make_bucket(s3server)
    objects = _tree(rng)
    put(s3server, bucket, objects)
    _write(source := tmp_path / "source", objects)
    mount = mounter(s3server, f"s3://{bucket}")

    run(["diff", "-r", source, mount.directory])
    run(["cp", "-r", mount.directory, tmp_path / "copy"])
    run(["diff", "-r", source, tmp_path / "copy"])
    if shutil.which("rsync"):
        checked = run(["rsync", "-rcni", f"{source}/", f"{mount.directory}/"]).stdout
        assert checked == "", "rsync finds no difference in names, sizes and checksums"
    else:
        print("rsync is not installed: its comparison is left out (Debian: apt-get install rsync)")
    listed = run(["find", ".", "-type", "f"], cwd=mount.directory).stdout.splitlines()
    assert sorted(listed) == sorted(f"./{key}" for key in objects)
    assert (mount.directory / "a.b").is_dir()
    assert not (mount.directory / "missing").exists()

    mount.umount()
    gone(mount)
    assert list(mount.directory.iterdir()) == []


def test_a_prefix_is_a_mount_of_its_own(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"run, 1/a": b"1", "run, 1/sub/b": b"2", "run, 10/c": b"3"})

    mount = mounter(s3server, f"s3://{bucket}/run, 1")

    assert names(mount.directory) == ["a", "sub"]
    assert (mount.directory / "sub" / "b").read_bytes() == b"2"
    assert f"s3://{bucket}/run, 1/" in [each.source for each in mounts.list_mounts()]


def test_every_change_is_refused_as_on_a_read_only_disk(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"x", "dir/file": b"x"})
    folder = mounter(seaweedfs, f"s3://{bucket}").directory
    file, new = folder / "file", folder / "new"
    changes: dict[str, Callable[[], object]] = {
        "create": lambda: new.touch(),
        "write": lambda: file.write_bytes(b""),
        "append": lambda: os.open(file, os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(file, 0),
        "mkdir": lambda: new.mkdir(),
        "rmdir": lambda: (folder / "dir").rmdir(),
        "unlink": lambda: file.unlink(),
        "rename": lambda: file.rename(new),
        "symlink": lambda: new.symlink_to("file"),
        "link": lambda: os.link(file, new),
        "mknod": lambda: os.mkfifo(new),
        "chmod": lambda: file.chmod(0o600),
        "chown": lambda: os.chown(file, os.getuid(), os.getgid()),
        "utime": lambda: os.utime(file),
        "setxattr": lambda: os.setxattr(file, "user.x", b"1"),
        "removexattr": lambda: os.removexattr(file, "user.s3.etag"),
    }
    for name, change in changes.items():
        with pytest.raises(OSError) as refused:
            change()
        assert refused.value.errno == errno.EROFS, f"{name}: {refused.value}"
    assert not os.access(file, os.W_OK)
    assert file.read_bytes() == b"x"


def test_metadata_and_attributes_show(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"12345"}, Metadata={"mtime": "1600000000.5", "mode": "0100640"})
    put(seaweedfs, bucket, {"link.rclonelink": b"file", "plain": b""})
    folder = mounter(seaweedfs, f"s3://{bucket}", "--file-mode", "0444", "--dir-mode", "0550").directory

    head = seaweedfs.client().head_object(Bucket=bucket, Key="file")
    modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("file", "plain")]
    assert modes == [0o640, 0o444]  # stated by the object, and the mount's own
    assert (folder / "file").read_bytes() == b"12345"
    assert os.getxattr(folder / "file", "user.s3.etag").decode() == head["ETag"].strip('"')
    assert os.getxattr(folder / "file", "user.s3.storage-class") == b"STANDARD"
    assert (folder / "link").readlink() == Path("file")
    assert (folder / "link").read_bytes() == b"12345"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o550
    for missing in ("user.other", "security.selinux"):
        with pytest.raises(OSError) as refused:
            os.getxattr(folder / "file", missing)
        assert refused.value.errno == errno.ENODATA


@pytest.mark.every_server
def test_a_replaced_object_is_opened_anew_and_open_files_keep_theirs(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"file": b"old", "large": b"o" * (3 * MIB)})
    folder = mounter(s3server, f"s3://{bucket}", "--metadata-ttl", "indefinite").directory
    with (folder / "file").open("rb") as old, (folder / "large").open("rb", buffering=0) as large:
        assert large.read(10) == b"o" * 10
        put(s3server, bucket, {"file": b"new bytes", "large": b"n" * (3 * MIB)})

        # Found out when the new version is asked for: the kernel looks the name up again by itself.
        assert os.open(folder / "large", os.O_RDONLY) > 0
        assert old.read() == b"old"
        with pytest.raises(OSError) as stale:
            os.pread(large.fileno(), 10, 2 * MIB)
        assert stale.value.errno in {errno.ESTALE, errno.EIO}
        eventually(lambda: (folder / "large").read_bytes()[:1] == b"n", what="the new version", quiet=(OSError,))


def test_open_consistency_sees_each_change_at_once(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"file": b"first"})
    folder = mounter(s3server, f"s3://{bucket}", "--consistency", "open", "--metadata-ttl", "indefinite").directory
    for body in (b"first", b"second one", b"3"):
        put(s3server, bucket, {"file": body})
        assert (folder / "file").read_bytes() == body


def test_a_killed_mount_can_be_unmounted_and_mounted_again(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"x" * MIB})
    mount, serving = mounter.foreground(seaweedfs, f"s3://{bucket}")
    assert (mount.directory / "file").stat().st_size == MIB
    serving.kill()

    with pytest.raises(OSError) as dead:
        names(mount.directory)
    assert dead.value.errno == errno.ENOTCONN
    refused = run_seqferry("mount", f"s3://{bucket}", mount.directory, environment=mount.environment, expect=1)
    assert "seqferry umount" in refused.stderr
    assert "does not answer" in run_seqferry("mounts", environment=mount.environment).stdout
    mount.umount()
    again = mounter(seaweedfs, f"s3://{bucket}", directory=mount.directory)
    assert (again.directory / "file").read_bytes() == b"x" * MIB


def test_a_mount_in_the_background_keeps_nothing_open_of_the_shell_that_made_it(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    mount = mounter.adopt(seaweedfs, tmp_path / "mnt")
    reading, writing = os.pipe()

    subprocess.run(
        [seqferry(), "mount", f"s3://{bucket}", mount.directory],
        env={**os.environ, **mount.environment},
        pass_fds=[writing],
        check=True,
    )
    os.close(writing)

    assert mount.is_mounted
    # The pipe ends when no process holds its other side any more; a lock of flock(1) likewise.
    assert is_readable(reading, 30)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_signals_unmount_and_files_in_use_are_not_lost(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"y" * (4 * MIB)})
    for number in (signal.SIGINT, signal.SIGTERM):
        mount, serving = mounter.foreground(seaweedfs, f"s3://{bucket}")
        with (mount.directory / "file").open("rb") as file:
            assert file.read(10) == b"y" * 10
            refused = run_seqferry("umount", mount.directory, environment=mount.environment, expect=1)
            assert "is in use" in refused.stderr
            serving.signal(number)
            gone(mount)
            assert file.read() == b"y" * (4 * MIB - 10), "an open file is served to its end"
        assert serving.wait() == 0


def test_ctrl_c_ends_a_program_that_waits_for_a_dead_network(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_proxy: Callable[[S3Server], Proxy],
    mounter: Mounter,
    put: ObjectWriter,
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"small": b"x", "dir/large": b"z" * (4 * MIB)})
    proxy = make_proxy(seaweedfs)
    folder = mounter(proxy.server, f"s3://{bucket}").directory
    (folder / "dir" / "large").stat()
    with faults.held(proxy, ["GetObject", "ListObjectsV2"]):
        waits = {
            "open": ["cat", folder / "small"],
            "read": ["tail", "-c", "10", folder / "dir" / "large"],
        }
        for number, (name, command) in enumerate(waits.items(), 1):
            with RunningProcess(command) as waiting:
                proxy.wait_requested("GetObject", number)
                waiting.signal(signal.SIGINT)
                assert waiting.wait(30) == -signal.SIGINT, name
    assert (folder / "small").read_bytes() == b"x"


def test_what_cannot_be_mounted_says_why_in_one_line(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket, other = make_bucket(seaweedfs), make_bucket(seaweedfs)
    put(seaweedfs, other, {"run/file": b"x"})
    file = tmp_path / "file"
    file.touch()
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    empty = tmp_path / "empty"
    empty.mkdir()
    used = mounter(seaweedfs, f"s3://{bucket}")
    cases = [
        (f"s3://{bucket}", file, "is not a folder"),
        (f"s3://{bucket}", tmp_path / "absent", "does not exist"),
        (f"s3://{bucket}", full, "--allow-non-empty"),
        (f"s3://{bucket}", used.directory, "is a mount already"),
        ("s3://no-such-bucket-of-ours", empty, "NoSuchBucket"),
        (
            f"s3://{other}/run/file",
            empty,
            f"is an object, and a folder shows what is below a prefix: mount s3://{other}/run/",
        ),
    ]
    for uri, directory, said in cases:
        for options in ([], ["--foreground"]):
            command = ["mount", uri, directory, *options]
            refused = run_seqferry(*command, environment=used.environment, expect=1)
            assert said in refused.stderr, refused.stderr
            assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
            assert not mounts.is_mounted(directory) or directory == used.directory
    refused = run_seqferry("umount", empty, environment=used.environment, expect=1)
    assert "is not mounted by seqferry" in refused.stderr
    run_seqferry("mount", f"s3://{bucket}", full, "--allow-non-empty", environment=used.environment)
    assert names(full) == []
    run_seqferry("umount", full, environment=used.environment)
    assert names(full) == ["x"]


def test_mounts_are_listed_with_what_they_did(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"x" * 1000})
    mount = mounter(seaweedfs, f"s3://{bucket}/")
    cached = mounter(seaweedfs, f"s3://{bucket}/", "--cache", str(tmp_path / "cache"))
    limited = mounter(seaweedfs, f"s3://{bucket}/", "--cache", str(tmp_path / "limited"), "--max-cache-size", "64MiB")
    assert (mount.directory / "file").read_bytes() == b"x" * 1000

    stats = mount.stats()
    assert stats["requests"] == 1
    assert stats["bytes_fetched"] == 1000
    listed = run_seqferry("mounts", "--json", environment=mount.environment).stdout
    facts = {told["directory"]: told for told in map(json.loads, listed.splitlines())}
    told = facts[str(mount.directory)]
    assert (told["source"], told["alive"], told["cache"]) == (f"s3://{bucket}/", True, 0)
    kept = facts[str(cached.directory)]
    assert (kept["cache"], kept["cache_used"]) == (None, 0), "a cache without a limit"
    assert facts[str(limited.directory)]["cache"] == 64 * MIB


def test_an_fstab_line_mounts(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"x"})
    used = mounter(seaweedfs, f"s3://{bucket}")
    directory = tmp_path / "fstab"
    directory.mkdir()
    helper = seqferry().with_name("mount.seqferry")
    option = f"ro,_netdev,nofail,metadata_ttl=indefinite,file_mode=0400,endpoint_url={seaweedfs.endpoint_url}"
    run([helper, f"s3://{bucket}", directory, "-o", option], environment=used.environment)
    try:
        assert stat.S_IMODE((directory / "file").stat().st_mode) == 0o400
    finally:
        run_seqferry("umount", directory, environment=used.environment)
    refused = run([helper, f"s3://{bucket}", directory, "-o", "colour=red"], environment=used.environment, expect=2)
    assert "colour=red" in refused.stderr


def test_an_fstab_line_means_its_names_in_any_locale(
    versitygw: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket, name = make_bucket(versitygw), "Größe_日本"
    put(versitygw, bucket, {f"{name}/file": b"x"})
    used = mounter(versitygw, f"s3://{bucket}")
    (directory := tmp_path / name).mkdir()
    helper = seqferry().with_name("mount.seqferry")
    # A locale with another encoding, that each machine has: ASCII, without what Python does for it.
    locale = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run([helper, f"s3://{bucket}/{name}/", directory, "-o", "ro"], environment={**used.environment, **locale})
    try:
        assert (directory / "file").read_bytes() == b"x"
    finally:
        run_seqferry("umount", directory, environment=used.environment)


_AS_NOBODY = """
set -eu
[ -z "$DEVICE" ] || mount --bind "$DEVICE" /dev/fuse
trap 'fusermount3 -uz "$MNT" 2>/dev/null || true' EXIT
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups $MORE "$@"; }
as_nobody "$SEQFERRY" mount "s3://$BUCKET" "$MNT"
echo "read: $(as_nobody cat "$MNT/file")"
! cat "$MNT/file" || echo "root reads it"
as_nobody "$SEQFERRY" mounts | grep -F "$MNT"
as_nobody "$SEQFERRY" umount "$MNT"
! as_nobody "$SEQFERRY" mount "s3://$BUCKET" "$MNT" --allow-other
! mountpoint -q "$MNT"
"""
"""Each line has its turn in a table of mounts of its own, in which /dev/fuse may be opened by all."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_an_ordinary_user_mounts_through_fusermount(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": b"x"})
    used = mounter(seaweedfs, f"s3://{bucket}")
    folder = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    (mnt := folder / "mnt").mkdir()
    for each in (folder, mnt):
        os.chown(each, 65534, 65534)
    nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    # Where this checkout lies in a closed folder, the user may read all there is; mounting takes other rights.
    closed = subprocess.run(["setpriv", *nobody, seqferry(), "--version"], capture_output=True).returncode != 0
    environment = {
        **used.environment,
        "SEQFERRY_STATE_DIR": str(folder / "state"),
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "SEQFERRY": str(seqferry()),
        "BUCKET": bucket,
        "MNT": str(mnt),
        "MORE": "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search" if closed else "",
        "DEVICE": str(_device_for_all(tmp_path)),
    }
    done = run(["unshare", "--mount", "bash", "-c", _AS_NOBODY], environment=environment)
    assert "read: x\n" in done.stdout
    assert f"{mnt}  s3://{bucket}/" in done.stdout
    assert "root reads it" not in done.stdout, "the folder is that of its user alone"
    assert "user_allow_other" in done.stderr


def _device_for_all(folder: Path) -> Path | str:
    """A device that takes the place of a /dev/fuse that ordinary users cannot open."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this machine permits no tables of mounts of one's own")
    facts = Path("/dev/fuse").stat()
    if facts.st_mode & 0o006 == 0o006:
        return ""
    device = folder / "fuse"
    os.mknod(device, stat.S_IFCHR | 0o600, facts.st_rdev)
    device.chmod(0o666)
    return device


def test_a_bucket_that_may_not_be_listed_is_named_and_nothing_is_mounted(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket, used = make_bucket(s3server), mounter(s3server, f"s3://{make_bucket(s3server)}")
    put(s3server, bucket, {"file": b"x"})
    s3server.allow_only(bucket, "s3:GetObject")
    empty = mounter.adopt(s3server, tmp_path / "empty").directory

    refused = run_seqferry("mount", f"s3://{bucket}", empty, environment=used.environment, expect=1)

    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert f"s3://{bucket}" in refused.stderr
    assert "AccessDenied" in refused.stderr
    assert not mounts.is_mounted(empty)


class _Directory:
    """opendir, readdir, telldir and seekdir of the C library, which Python does not have."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.opendir.restype = ctypes.c_void_p
        self._library.readdir.restype = ctypes.c_void_p
        self._library.telldir.restype = ctypes.c_long
        self._stream = ctypes.c_void_p(self._library.opendir(os.fsencode(folder)))
        assert self._stream

    def next(self) -> str | None:
        entry = self._library.readdir(self._stream)
        # The name follows inode, offset, length and kind.
        return None if not entry else os.fsdecode(ctypes.string_at(entry + 19))

    def tell(self) -> int:
        return self._library.telldir(self._stream)

    def seek(self, place: int) -> None:
        self._library.seekdir(self._stream, ctypes.c_long(place))

    def close(self) -> None:
        self._library.closedir(self._stream)


def test_a_folder_that_changes_while_it_is_read_gives_each_name_once(
    make_simulator: Callable[..., Simulator], mounter: Mounter, put: ObjectWriter
) -> None:
    simulator = make_simulator("--instant", "--bucket", "b=keys=d/kept-{i:04};count=1500;size=0")
    put(simulator, "b", {f"d/gone-{number:02}": b"" for number in range(20)})
    folder = mounter(simulator, "s3://b", "--metadata-ttl", "0").directory / "d"
    directory = _Directory(folder)
    places: list[tuple[int, str]] = []

    def read_on() -> list[str]:
        found: list[str] = []
        while True:
            place = directory.tell()
            if (name := directory.next()) is None:
                return found
            places.append((place, name))
            found.append(name)

    found = [str(directory.next()) for _ in range(700)]
    middle = directory.tell()
    client = simulator.client()
    for number in range(20):
        client.delete_object(Bucket="b", Key=f"d/gone-{number:02}")
    put(simulator, "b", {f"d/{letter}-new": b"" for letter in "akz"})
    assert (folder / "a-new").exists(), "the change is seen meanwhile"
    rest = read_on()

    assert len(found + rest) == len(set(found + rest)), "no name comes twice"
    assert {f"kept-{number:04}" for number in range(1500)} <= {*found, *rest}, "and none that stays is left out"
    directory.seek(middle)
    assert [name for name in read_on() if name.startswith("kept-")] == [
        name for name in rest if name.startswith("kept-")
    ]
    place, name = next(each for each in places if each[1] == "kept-1200")
    directory.seek(place)
    assert directory.next() == name
    directory.close()


def test_offsets_in_an_object_of_terabytes_are_right(
    make_simulator: Callable[..., Simulator], mounter: Mounter
) -> None:
    size = 5 * 1000**4
    simulator = make_simulator("--instant", "--bucket", "big=keys=huge;count=1;total=5TB")
    path = mounter(simulator, "s3://big").directory / "huge"

    assert path.stat().st_size == size
    client = simulator.client()
    with path.open("rb", buffering=0) as file:
        for offset in (0, 2**31 - 5, 2**32 - 5, 2**40 + 3, size - 10):
            expected = client.get_object(Bucket="big", Key="huge", Range=f"bytes={offset}-{offset + 9}")["Body"].read()
            assert os.pread(file.fileno(), 10, offset) == expected, offset
        assert os.pread(file.fileno(), 10, size) == b""


def test_keys_that_cannot_be_files_are_counted_and_named(
    make_simulator: Callable[..., Simulator], mounter: Mounter, put: ObjectWriter
) -> None:
    simulator = make_simulator("--instant", "--bucket", "odd")
    put(simulator, "odd", {"x//y": b"1", "../z": b"2", "shown": b"3", "n" * 256: b"4", "x/shown": b"5"})
    folder = mounter(simulator, "s3://odd").directory

    assert sorted(run(["find", ".", "-type", "f"], cwd=folder).stdout.split()) == ["./shown", "./x/shown"]
    hidden = (mounts.describe_hidden(folder) or "").splitlines()
    assert hidden[0] == "3"
    assert "x//: empty segment in the key" in hidden


def test_two_mounts_of_one_bucket_do_not_disturb_each_other(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, rng: random.Random
) -> None:
    bucket = make_bucket(seaweedfs)
    put(seaweedfs, bucket, {"file": rng.randbytes(2 * MIB)})
    first, second = mounter(seaweedfs, f"s3://{bucket}"), mounter(seaweedfs, f"s3://{bucket}")
    assert filecmp.cmp(first.directory / "file", second.directory / "file", shallow=False)
    inode = (first.directory / "file").stat().st_ino
    assert inode == (second.directory / "file").stat().st_ino, "inodes are the same in every mount"
    first.umount()
    assert (second.directory / "file").stat().st_size == 2 * MIB
