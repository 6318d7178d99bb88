"""The example pipeline on real Nextflow, each version of it, with each way of giving it its data."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from example_pipeline import EXAMPLE, EXPECTED, REFERENCES, SAMPLES, published, rows, upload
from nextflow_process import VERSIONS, Nextflow

from support.processes import seqferry
from support.proxy import Proxy, access_denied
from support.servers import S3Server


def _environment(server: S3Server, plugins: Path) -> dict[str, str]:
    return {**server.environment(), "NXF_PLUGINS_DIR": str(plugins), "SEQFERRY_COMMAND": str(seqferry())}


def _table(server: S3Server, bucket: str, key: str) -> list[list[str]]:
    text = server.client(server.user).get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    return rows(text)


def test_the_example_runs_unchanged_on_s3_and_resumes(
    nextflow: Nextflow,
    plugins: Path,
    data: Path,
    request: pytest.FixtureRequest,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Pairs by a glob, a folder as an input, and a folder that is published: with one block in the configuration."""
    # Each version on one of the servers: a run takes seconds, and both versions ask the same of the helper.
    s3server: S3Server = request.getfixturevalue("versitygw" if nextflow.version == VERSIONS[0] else "seaweedfs")
    bucket = make_bucket(s3server)
    upload(s3server, data, f"s3://{bucket}/data")
    proxy = make_proxy(s3server)
    arguments = ["-c", EXAMPLE / "seqferry.config", "run", EXAMPLE / "main.nf"]
    arguments += ["--reads", f"s3://{bucket}/data/reads", "--reference", f"s3://{bucket}/data/reference"]
    arguments += ["--results", f"s3://{bucket}/results"]
    environment = _environment(proxy.server, plugins)
    proxy.clear_log()

    began = time.monotonic()
    done = nextflow.run(*arguments, cwd=tmp_path, environment=environment)

    assert done.returncode == 0, done.stdout + done.stderr
    print(f"Nextflow {nextflow.version} with the plugin on {s3server.kind}: {time.monotonic() - began:.1f} s")
    assert _table(s3server, bucket, "results/table/all samples.tsv") == EXPECTED
    client = s3server.client(s3server.user)
    found = {entry["Key"] for entry in client.list_objects_v2(Bucket=bucket, Prefix="results/")["Contents"]}
    samples = {f"results/table/samples/sample{number}.tsv" for number in range(SAMPLES)}
    assert found == {"results/table/all samples.tsv", *samples}
    # One GET for each object that is staged, and no HEAD for each file of a folder.
    assert len(proxy.log("GetObject")) == 2 * SAMPLES + REFERENCES
    assert len(proxy.log("HeadObject")) < REFERENCES

    proxy.clear_log()
    done = nextflow.run(*arguments, "-resume", cwd=tmp_path, environment=environment)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Submitted process" not in done.stdout
    assert done.stdout.count("Cached process") == SAMPLES + 1
    assert proxy.log("GetObject") == []


def test_a_folder_that_was_staged_before_gives_the_same(
    newest: Nextflow, data: Path, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    upload(versitygw, data, f"s3://{bucket}/data")
    staged = tmp_path / "staged"
    environment = {**os.environ, **versitygw.environment(), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    began = time.monotonic()
    command = [seqferry(), "cp", "--quiet", f"s3://{bucket}/data/", staged]
    subprocess.run(command, check=True, env=environment, timeout=120)
    places = ["--reads", staged / "reads", "--reference", staged / "reference", "--results", tmp_path / "results"]

    done = newest.run("run", EXAMPLE / "main.nf", *places, cwd=tmp_path, environment={})

    assert done.returncode == 0, done.stdout + done.stderr
    print(f"staged before the run: {time.monotonic() - began:.1f} s")
    assert published(tmp_path / "results") == EXPECTED


def test_each_task_fetches_its_own_inputs_before_it_begins(
    newest: Nextflow, prefix: Path, data: Path, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    for sample in range(SAMPLES):
        for mate in (1, 2):
            name = f"sample{sample}_R{mate}.fastq.gz"
            body = (data / "reads" / name).read_bytes()
            versitygw.client(versitygw.user).put_object(Bucket=bucket, Key=f"reads/sample{sample}/{name}", Body=body)
    arguments = ["--reads", f"s3://{bucket}/reads", "--samples", ",".join(f"sample{n}" for n in range(SAMPLES))]
    arguments += ["--aws", str(prefix / "bin" / "aws"), "--results", str(tmp_path / "results")]

    began = time.monotonic()
    done = newest.run(
        "run", EXAMPLE / "before_script.nf", *arguments, cwd=tmp_path, environment=versitygw.environment()
    )

    assert done.returncode == 0, done.stdout + done.stderr
    print(f"with beforeScript: {time.monotonic() - began:.1f} s")
    text = (tmp_path / "results" / "all samples.tsv").read_text()
    assert rows(text) == [row[:3] for row in EXPECTED]


def test_a_denied_input_ends_the_run_with_its_cause(
    newest: Nextflow,
    plugins: Path,
    data: Path,
    versitygw: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    tmp_path: Path,
) -> None:
    bucket = make_bucket(versitygw)
    upload(versitygw, data, f"s3://{bucket}/data")
    proxy = make_proxy(versitygw)
    proxy.rule("GetObject", access_denied(), key="data/reference/chr1/*")
    arguments = ["-c", EXAMPLE / "seqferry.config", "run", EXAMPLE / "main.nf"]
    arguments += ["--reads", f"s3://{bucket}/data/reads", "--reference", f"s3://{bucket}/data/reference"]

    done = newest.run(*arguments, cwd=tmp_path, environment=_environment(proxy.server, plugins))

    assert done.returncode != 0
    log = (tmp_path / ".nextflow.log").read_text()
    assert f"Can't stage file s3://{bucket}/data/reference" in done.stdout
    failed = REFERENCES // 5
    assert f"{failed} of {REFERENCES} objects failed: s3://{bucket}/data/reference/chr1/part0001.fa" in log
    assert "AccessDenied" in log
    assert list(tmp_path.glob("work/stage-*/**/reference*")) == []


def test_what_the_plugin_lacks_is_said_in_one_line(
    newest: Nextflow, plugins: Path, versitygw: S3Server, tmp_path: Path
) -> None:
    (tmp_path / "main.nf").write_text("println file('s3://some-bucket/key').text\n")
    environment = {**_environment(versitygw, plugins), "SEQFERRY_COMMAND": str(tmp_path / "nothing")}

    done = newest.run("-c", EXAMPLE / "seqferry.config", "run", "main.nf", cwd=tmp_path, environment=environment)

    assert done.returncode != 0
    assert f"nf-seqferry cannot start '{tmp_path}/nothing'" in done.stdout
    assert "name its command in nextflow.config" in done.stdout


def test_a_nextflow_that_is_too_old_for_the_plugin_is_named(
    newest: Nextflow, plugins: Path, versitygw: S3Server, tmp_path: Path
) -> None:
    own = tmp_path / "plugins"
    shutil.copytree(plugins, own)
    [manifest] = own.glob("nf-seqferry-*/classes/META-INF/MANIFEST.MF")
    text = manifest.read_text()
    assert f"Plugin-Requires: >={VERSIONS[0]}" in text
    manifest.write_text(text.replace(f">={VERSIONS[0]}", ">=99.10.0"))
    (tmp_path / "main.nf").write_text("println file('s3://some-bucket/key').text\n")

    done = newest.run(
        "-c", EXAMPLE / "seqferry.config", "run", "main.nf", cwd=tmp_path, environment=_environment(versitygw, own)
    )

    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert "nf-seqferry" in told, told
    assert ">=99.10.0" in told, told
    assert newest.version in told, told


def test_files_are_read_written_and_removed_from_a_script(
    nextflow: Nextflow, plugins: Path, seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    (tmp_path / "main.nf").write_text(f"""
        here = file('s3://{bucket}/a b/x.txt')
        here.text = 'one\\ntwo\\n'
        println 'lines ' + here.readLines().size()
        println 'size ' + here.size()
        here.copyTo('s3://{bucket}/a b/y.txt')
        println 'names ' + files('s3://{bucket}/a b/*').collect {{ it.name }}.sort()
        here.delete()
        println 'there ' + here.exists() + ' ' + file('s3://{bucket}/a b/y.txt').exists()
        println 'uri ' + file('s3://{bucket}/a b/y.txt').toUriString()
    """)

    done = nextflow.run(
        *("-c", EXAMPLE / "seqferry.config", "run", "main.nf"),
        cwd=tmp_path,
        environment=_environment(seaweedfs, plugins),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert [
        line for line in done.stdout.splitlines() if line.split(" ")[0] in ("lines", "size", "names", "there", "uri")
    ] == [
        "lines 2",
        "size 8",
        "names [x.txt, y.txt]",
        "there false true",
        f"uri s3://{bucket}/a b/y.txt",
    ]
