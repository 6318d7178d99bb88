"""Programs of the field on a mount: fio with checksums, samtools and tabix by index."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.processes import run
from support.servers import S3Server

ObjectWriter = Callable[..., None]
MIB = 1024 * 1024
CHROMOSOME = 1_000_000


def _needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: not tested on a mount (Debian: fio, samtools, tabix)")


def test_fio_finds_every_byte_as_it_was_written(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, tmp_path: Path
) -> None:
    _needs("fio")
    bucket = make_bucket(s3server)
    source = tmp_path / "source"
    common = ["--name=check", "--bs=4k", "--size=16m", "--verify=crc32c", "--ioengine=psync"]
    run(["fio", *common, f"--filename={source}", "--rw=write", "--do_verify=0"], cwd=tmp_path)
    whole = source.read_bytes()
    client = s3server.client()
    client.put_object(Bucket=bucket, Key="sound", Body=whole)
    damaged = bytearray(whole)
    damaged[9 * MIB + 1234] ^= 1
    client.put_object(Bucket=bucket, Key="damaged", Body=bytes(damaged))
    folder = mounter(s3server, f"s3://{bucket}", "--memory", "16MiB").directory

    reading = ["fio", *common, "--readonly", "--verify_state_load=0"]
    for how in ("--rw=read", "--rw=randread", "--rw=randread --ioengine=mmap"):
        run([*reading, *how.split(), f"--filename={folder / 'sound'}"], cwd=tmp_path)
    found = subprocess.run([*reading, "--rw=randread", f"--filename={folder / 'damaged'}"], cwd=tmp_path)
    assert found.returncode != 0, "fio sees a flipped byte"


def _sam(rng: random.Random) -> str:
    header = f"@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr1\tLN:{CHROMOSOME}\n@SQ\tSN:chr2\tLN:{CHROMOSOME}\n"
    reads: list[str] = []
    for chromosome in ("chr1", "chr2"):
        for number, place in enumerate(sorted(rng.randrange(1, CHROMOSOME - 200) for _ in range(15_000))):
            bases = "".join(rng.choices("ACGT", k=100))
            quality = "".join(rng.choices("FGHI,", k=100))
            reads.append(f"{chromosome}r{number}\t0\t{chromosome}\t{place}\t60\t100M\t*\t0\t0\t{bases}\t{quality}\n")
    return header + "".join(reads)


def test_samtools_reads_regions_as_from_a_local_file(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    _needs("samtools")
    (tmp_path / "reads.sam").write_text(_sam(rng))
    bam = tmp_path / "reads.bam"
    run(["samtools", "view", "-b", "-o", bam, tmp_path / "reads.sam"])
    run(["samtools", "index", bam])
    bucket = make_bucket(s3server)
    put(s3server, bucket, {path.name: path.read_bytes() for path in (bam, tmp_path / "reads.bam.bai")})
    mount = mounter(s3server, f"s3://{bucket}")

    for _ in range(15):
        first = rng.randrange(1, CHROMOSOME - 20_000)
        region = f"chr{rng.choice('12')}:{first}-{first + 20_000}"
        local = run(["samtools", "view", bam, region]).stdout
        assert run(["samtools", "view", mount.directory / "reads.bam", region]).stdout == local, region
    run(["samtools", "quickcheck", mount.directory / "reads.bam"])


def test_tabix_reads_regions_as_from_a_local_file(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    put: ObjectWriter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    _needs("tabix", "bgzip")
    lines = ["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO"]
    places = sorted(rng.sample(range(1, CHROMOSOME), 30_000))
    lines += [f"chr1\t{place}\t.\tA\tG\t{rng.randrange(100)}\tPASS\tDP={rng.randrange(99)}" for place in places]
    vcf = tmp_path / "calls.vcf"
    vcf.write_text("\n".join(lines) + "\n")
    run(["bgzip", vcf])
    packed = tmp_path / "calls.vcf.gz"
    run(["tabix", "-p", "vcf", packed])
    bucket = make_bucket(s3server)
    put(s3server, bucket, {path.name: path.read_bytes() for path in (packed, tmp_path / "calls.vcf.gz.tbi")})
    mount = mounter(s3server, f"s3://{bucket}")

    for _ in range(15):
        first = rng.randrange(1, CHROMOSOME - 5_000)
        region = f"chr1:{first}-{first + 5_000}"
        local = run(["tabix", packed, region]).stdout
        assert run(["tabix", mount.directory / "calls.vcf.gz", region]).stdout == local, region
