"""Recipes of docs/use/nextflow.md on real Nextflow: its pipeline sees plain files that come from a bucket."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from example_pipeline import EXAMPLE, EXPECTED, REFERENCES, SAMPLES, published, rows, upload
from nextflow_process import Nextflow

from support.mounts import Mounter
from support.processes import run, seqferry
from support.proxy import Proxy
from support.servers import S3Server


def test_a_mounted_reference_is_read_as_plain_files_and_resumes_after_a_remount(
    newest: Nextflow,
    data: Path,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    tmp_path: Path,
) -> None:
    """The first task of a node mounts, several tasks at once find it mounted, and nothing is staged."""
    bucket = make_bucket(versitygw)
    upload(versitygw, data / "reference", f"s3://{bucket}/reference")
    folder = mounter.adopt(versitygw, tmp_path / "ref")
    places = ["--reads", data / "reads", "--reference", folder.directory, "--results", tmp_path / "results"]
    where = ["--mount_source", f"s3://{bucket}/reference", "--mount_folder", folder.directory]
    arguments = ["-c", EXAMPLE / "mount.config", "run", EXAMPLE / "main.nf", *places, *where]
    arguments += ["--mount_cache", tmp_path / "cache", "--seqferry", seqferry()]

    done = newest.run(*arguments, cwd=tmp_path, environment=folder.environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert published(tmp_path / "results") == EXPECTED
    assert folder.is_mounted
    assert list(tmp_path.glob("work/stage-*")) == []

    folder.umount()
    done = newest.run(*arguments, "-resume", cwd=tmp_path, environment=folder.environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Cached process") == SAMPLES + 1


def test_each_task_unpacks_its_members_of_one_tar_and_results_become_another(
    newest: Nextflow, data: Path, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    with tarfile.open(tmp_path / "reads.tar", "w") as archive:
        archive.add(data / "reads", arcname="reads")
    client = versitygw.client(versitygw.user)
    client.upload_file(str(tmp_path / "reads.tar"), bucket, "reads.tar")
    names = [f"sample{number}" for number in range(SAMPLES)]
    arguments = ["--reads", f"s3://{bucket}/reads.tar", "--samples", ",".join(names), "--seqferry", seqferry()]
    arguments += ["--results", tmp_path / "results", "--packed", f"s3://{bucket}/results.tar"]

    began = time.monotonic()
    done = newest.run("run", EXAMPLE / "tar.nf", *arguments, cwd=tmp_path, environment=versitygw.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    print(f"from a tar to a tar: {time.monotonic() - began:.1f} s")
    assert published(tmp_path / "results") == [row[:3] for row in EXPECTED]
    unpacked = sorted(path.name for path in tmp_path.glob("work/*/*/reads/*"))
    assert unpacked == [row[0] for row in EXPECTED], "each task has unpacked its own members"
    client.download_file(bucket, "results.tar", str(tmp_path / "results.tar"))
    run(["tar", "-xf", tmp_path / "results.tar", "-C", tmp_path])
    packed = {
        path.relative_to(tmp_path / "results" / "table") for path in (tmp_path / "results" / "table").rglob("*.tsv")
    }
    assert all(
        (tmp_path / name).read_bytes() == (tmp_path / "results" / "table" / name).read_bytes() for name in packed
    )


def test_results_that_cannot_be_packed_fail_the_task(
    newest: Nextflow, data: Path, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    with tarfile.open(tmp_path / "reads.tar", "w") as archive:
        archive.add(data / "reads", arcname="reads")
    versitygw.client(versitygw.user).upload_file(str(tmp_path / "reads.tar"), bucket, "reads.tar")
    arguments = ["--reads", f"s3://{bucket}/reads.tar", "--samples", "sample0", "--seqferry", seqferry()]
    arguments += ["--packed", f"s3://{bucket}-none/results.tar", "--results", tmp_path / "results"]

    done = newest.run("run", EXAMPLE / "tar.nf", *arguments, cwd=tmp_path, environment=versitygw.environment())

    assert done.returncode != 0
    assert "Error executing process > 'TABLE'" in done.stdout
    assert f"{bucket}-none" in done.stdout


@pytest.mark.long
def test_tasks_of_a_node_share_a_cache_of_the_reference(
    newest: Nextflow,
    data: Path,
    versitygw: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    tmp_path: Path,
) -> None:
    bucket = make_bucket(versitygw)
    upload(versitygw, data / "reference", f"s3://{bucket}/reference")
    proxy = make_proxy(versitygw)
    arguments = ["run", EXAMPLE / "node_cache.nf", "--reads", data / "reads", "--seqferry", seqferry()]
    arguments += ["--reference", f"s3://{bucket}/reference", "--cache", tmp_path / "cache"]
    arguments += ["--results", tmp_path / "results"]
    proxy.clear_log()

    began = time.monotonic()
    done = newest.run(*arguments, cwd=tmp_path, environment=proxy.server.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    print(f"through the cache of the node: {time.monotonic() - began:.1f} s")
    assert rows((tmp_path / "results" / "all samples.tsv").read_text()) == EXPECTED
    fetched = len(proxy.log("GetObject"))
    assert REFERENCES <= fetched <= SAMPLES * REFERENCES

    proxy.clear_log()
    done = newest.run(*arguments, cwd=tmp_path, environment=proxy.server.environment())

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Submitted process") == SAMPLES + 1
    assert rows((tmp_path / "results" / "all samples.tsv").read_text()) == EXPECTED
    assert proxy.log("GetObject") == []
