"""What programs do with a mounted bucket in ``bench_mount.py``: the data, and each piece of work with its check."""

from __future__ import annotations

import filecmp
import json
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mount_reads
from support.processes import seqferry
from support.servers import S3Server

READS = Path(mount_reads.__file__)
SMALL = 50 * 1024
REGION = 20_000
CHROMOSOME = 150_000_000
_BASES = bytes.maketrans(bytes(range(256)), b"ACGT" * 64)
_QUALITIES = bytes.maketrans(bytes(range(256)), bytes(33 + number % 40 for number in range(256)))


@dataclass(frozen=True)
class Sizes:
    """How much of each kind there is."""

    big: int
    reads: int
    """Reads in the BAM, some 168 bytes each."""
    regions: int
    random: int
    small: int
    folders: int
    """Folders of a hundred keys each."""
    members: int
    chosen: int


@dataclass(frozen=True)
class Data:
    folder: Path
    """The same files as in the bucket."""
    sizes: Sizes
    seed: int
    samtools: str | None

    def regions(self) -> list[str]:
        chooser = random.Random(self.seed)
        starts = [chooser.randrange(CHROMOSOME - REGION) for _ in range(self.sizes.regions)]
        return [f"chr1:{start + 1}-{start + REGION}" for start in starts]


@dataclass(frozen=True)
class MountTask:
    """One piece of work on a folder."""

    name: str
    command: Callable[[Path, bool, Path], list[str]]
    """Command line for the mounted folder; the arguments say whether archives are folders, and where to write."""
    check: Callable[[str, Path], str | None]
    """The error found in its output and its files; None if all is as in the bucket."""
    wanted: int | None
    """Bytes that the work reads, if that does not depend on the program; otherwise None."""


def make(folder: Path, sizes: Sizes, seed: int) -> Data:
    """Writes all files; the BAM only where samtools is installed."""
    chooser = random.Random(seed)
    samtools = shutil.which("samtools")
    (folder / "big").mkdir(parents=True)
    with (folder / "big" / "file").open("wb") as file:
        for _ in range(0, sizes.big, 1 << 20):
            file.write(chooser.randbytes(min(1 << 20, sizes.big)))
    (folder / "small").mkdir()
    for number in range(sizes.small):
        (folder / "small" / f"f{number:05d}").write_bytes(chooser.randbytes(SMALL))
    for number in range(sizes.folders):
        below = folder / "keys" / f"d{number:04d}"
        below.mkdir(parents=True)
        for name in range(100):
            (below / f"f{name:03d}.txt").write_bytes(b"x")
    _make_tar(folder, sizes, chooser)
    if samtools:
        _make_bam(folder, sizes, chooser, samtools)
    return Data(folder, sizes, seed, samtools)


def _make_tar(folder: Path, sizes: Sizes, chooser: random.Random) -> None:
    below = folder / "unpacked" / "members"
    below.mkdir(parents=True)
    (folder / "tars").mkdir()
    for number in range(sizes.members):
        (below / f"m{number:05d}").write_bytes(chooser.randbytes(SMALL))
    with tarfile.open(folder / "tars" / "members.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(below.iterdir()):
            archive.add(path, arcname=f"members/{path.name}")


def _make_bam(folder: Path, sizes: Sizes, chooser: random.Random, samtools: str) -> None:
    (folder / "bam").mkdir()
    bam = folder / "bam" / "reads.bam"
    command = [samtools, "view", "--no-PG", "-b", "-o", str(bam), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(f"@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr1\tLN:{CHROMOSOME}\n".encode())
        step = (CHROMOSOME - 200) / sizes.reads
        for number in range(sizes.reads):
            bases, qualities = chooser.randbytes(150).translate(_BASES), chooser.randbytes(150).translate(_QUALITIES)
            place = int(number * step) + 1
            process.stdin.write(b"r%d\t0\tchr1\t%d\t60\t150M\t*\t0\t0\t%s\t%s\n" % (number, place, bases, qualities))
    if process.returncode:
        raise RuntimeError(f"samtools view ended with {process.returncode}")
    subprocess.run([samtools, "index", bam], check=True)


def upload(data: Data, server: S3Server, bucket: str) -> None:
    """All but what is there only to compare with."""
    for path in sorted(data.folder.iterdir()):
        if path.name != "unpacked":
            command = [
                seqferry(),
                "aws",
                "s3",
                "cp",
                "--only-show-errors",
                "--recursive",
                path,
                f"s3://{bucket}/{path.name}",
            ]
            environment = {"PATH": "/usr/bin:/bin", **server.environment(server.admin)}
            subprocess.run(command, check=True, env=environment, timeout=900)


def works(data: Data) -> list[MountTask]:
    """Each piece of work, in the order in which they are measured."""
    sizes = data.sizes
    found = [_sequential(data), _random(data)]
    if data.samtools:
        found.append(_samtools(data, data.samtools))
    found += [_copy(data), _find(sizes), _list(sizes), _members(data)]
    return found


def _said_digest(expected: str) -> Callable[[str, Path], str | None]:
    def check(output: str, _: Path) -> str | None:
        return None if json.loads(output)["digest"] == expected else "the bytes read are not those that were stored"

    return check


def _sequential(data: Data) -> MountTask:
    source = data.folder / "big" / "file"

    def check(_output: str, target: Path) -> str | None:
        # Of the mounted file, read once more after the measured time.
        found = mount_reads.digest_of(Path((target / "source").read_text()))
        return None if found == mount_reads.digest_of(source) else "the bytes read are not those that were stored"

    def command(folder: Path, _archives: bool, target: Path) -> list[str]:
        (target / "source").write_text(str(folder / "big" / "file"))
        return ["dd", f"if={folder}/big/file", "of=/dev/null", "bs=1M", "status=none"]

    return MountTask("sequential read", command, check, data.sizes.big)


def _random(data: Data) -> MountTask:
    sizes = data.sizes
    expected = mount_reads.read_random(data.folder / "big" / "file", data.seed, sizes.random, 4096)["digest"]
    numbers = [str(data.seed), str(sizes.random), "4096"]
    return MountTask(
        "random reads of 4 KiB",
        lambda folder, _archives, _target: [
            *(sys.executable, str(READS), "random", str(folder / "big" / "file"), *numbers)
        ],
        _said_digest(str(expected)),
        len(set(mount_reads.places(data.seed, sizes.random, 4096, sizes.big))) * 4096,
    )


def _samtools(data: Data, samtools: str) -> MountTask:
    def script(folder: Path) -> str:
        bam = folder / "bam" / "reads.bam"
        return "set -e\n" + "\n".join(f"{samtools} view -c {bam} {region}" for region in data.regions())

    expected = subprocess.run(["sh", "-c", script(data.folder)], capture_output=True, text=True, check=True).stdout
    return MountTask(
        f"{data.sizes.regions} samtools regions",
        lambda folder, _archives, _target: ["sh", "-c", script(folder)],
        lambda output, _: None if output == expected else "samtools counts other reads than on the disk",
        None,
    )


def _copy(data: Data) -> MountTask:
    source = data.folder / "small"

    def check(_: str, target: Path) -> str | None:
        names = [path.name for path in source.iterdir()]
        _, mismatch, errors = filecmp.cmpfiles(source, target / "small", names, shallow=False)
        return f"{len(mismatch) + len(errors)} copied files differ" if mismatch or errors else None

    return MountTask(
        f"cp -r of {data.sizes.small} x 50 KiB",
        lambda folder, _archives, target: ["cp", "-r", str(folder / "small"), str(target)],
        check,
        data.sizes.small * SMALL,
    )


def _find(sizes: Sizes) -> MountTask:
    lines = 1 + sizes.folders * 101
    return MountTask(
        f"find of {sizes.folders * 100:,} keys",
        lambda folder, _archives, _target: ["find", str(folder / "keys")],
        lambda output, _: None if output.count("\n") == lines else f"find names {output.count(chr(10))} of {lines}",
        None,
    )


def _list(sizes: Sizes) -> MountTask:
    keys = sizes.folders * 100
    return MountTask(
        f"ls -lR of {keys:,} keys",
        lambda folder, _archives, _target: ["ls", "-lR", str(folder / "keys")],
        lambda output, _: None if output.count(".txt\n") == keys else f"ls shows {output.count('.txt')} of {keys} keys",
        None,
    )


def _members(data: Data) -> MountTask:
    sizes = data.sizes
    unpacked = data.folder / "unpacked"
    expected = mount_reads.read_members(unpacked, data.seed, sizes.chosen)["digest"]
    numbers = [str(data.seed), str(sizes.chosen)]

    def command(folder: Path, archives: bool, _target: Path) -> list[str]:
        read = [sys.executable, str(READS)]
        tar = folder / "tars" / "members.tar"
        return [*read, "members", f"{tar}.d", *numbers] if archives else [*read, "tar", str(tar), *numbers]

    name = f"{sizes.chosen} random members of a tar of {sizes.members:,}"
    return MountTask(name, command, _said_digest(expected), sizes.chosen * SMALL)
