"""What Nextflow's task wrappers call, on real servers: staging in and out, and what they see of failures."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import wrappers

from support.buckets import MIB, open_uploads
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, access_denied, held, internal_error
from support.servers import S3Server

_FILES = 40


def _make_folder(folder: Path, rng: random.Random) -> dict[str, bytes]:
    """Files as a task has them: nested, empty, with a space and letters of other scripts, one of several parts."""
    content = {f"lane{n % 3}/sample_{n:03d}.fastq.gz": rng.randbytes(rng.randrange(4000)) for n in range(_FILES)}
    content |= {"empty": b"", "with space.txt": b"x", "über/Größe.txt": b"y", "big.bam": rng.randbytes(20 * MIB)}
    for name, body in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return content


def _stored(server: S3Server, bucket: str, prefix: str = "") -> dict[str, bytes]:
    client = server.client(server.user)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    return {key.removeprefix(prefix): client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("dialect", wrappers.DIALECTS)
def test_nextflows_functions_stage_out_and_in(
    dialect: str, functions: str, prefix: Path, s3server: S3Server, bucket: str, tmp_path: Path, rng: random.Random
) -> None:
    task = tmp_path / "task"
    content = _make_folder(task / "results", rng)
    (task / "reads_1.fq").write_bytes(b"@r1\n")
    base = f"s3://{bucket}/work/ab/cdef"
    stage_out = f"""
        uploads=()
        uploads+=("nxf_cp_retry nxf_s3_upload 'results' {base}")
        uploads+=("nxf_cp_retry nxf_s3_upload 'reads_1.fq' {base}")
        nxf_parallel "${{uploads[@]}}"
        echo -n 0 | nxf_s3_upload - {base}/.exitcode
    """
    region = s3server.region if dialect == "aws" else ""
    done = wrappers.run(
        wrappers.script(functions, prefix, dialect, stage_out, region=region),
        cwd=task,
        environment=s3server.environment(),
    )

    assert (done.returncode, done.stderr) == (0, "")
    expected = {f"results/{name}": body for name, body in content.items()}
    assert _stored(s3server, bucket, "work/ab/cdef/") == {**expected, "reads_1.fq": b"@r1\n", ".exitcode": b"0"}

    # Neighbours whose names begin alike are not taken for the folder or the file.
    s3server.client(s3server.user).put_object(Bucket=bucket, Key="work/ab/cdef/results2/x", Body=b"no")
    s3server.client(s3server.user).put_object(Bucket=bucket, Key="work/ab/cdef/reads_1.fq.gz", Body=b"no")
    next_task = tmp_path / "next"
    next_task.mkdir()
    stage_in = f"""
        downloads=(true)
        downloads+=("nxf_cp_retry nxf_s3_download {base}/results staged")
        downloads+=("nxf_cp_retry nxf_s3_download {base}/reads_1.fq in/reads.fq")
        nxf_parallel "${{downloads[@]}}"
    """
    done = wrappers.run(
        wrappers.script(functions, prefix, dialect, stage_in), cwd=next_task, environment=s3server.environment()
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert _files(next_task / "staged") == content
    assert _files(next_task / "in") == {"reads.fq": b"@r1\n"}


def test_a_missing_input_fails_the_parallel_stage_and_leaves_nothing(
    functions: str, prefix: Path, s3server: S3Server, bucket: str, tmp_path: Path
) -> None:
    body = f"""
        downloads=("nxf_s3_download s3://{bucket}/work/nothing x")
        nxf_parallel "${{downloads[@]}}"
    """

    done = wrappers.run(
        wrappers.script(functions, prefix, "aws", body), cwd=tmp_path, environment=s3server.environment()
    )

    assert done.returncode == 1
    assert (
        'An error occurred (404) when calling the HeadObject operation: Key "work/nothing" does not exist'
        in done.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_the_script_of_a_task_is_piped_from_the_bucket(
    prefix: Path, s3server: S3Server, bucket: str, tmp_path: Path
) -> None:
    """As the command of a job in AWS Batch begins."""
    s3server.client(s3server.user).put_object(Bucket=bucket, Key="w/.command.run", Body=b"echo staged by $0")
    body = f"{prefix}/bin/aws s3 cp --only-show-errors s3://{bucket}/w/.command.run - | bash"

    done = wrappers.run(f"set -o pipefail\n{body}", cwd=tmp_path, environment=s3server.environment())

    assert (done.returncode, done.stdout, done.stderr) == (0, "staged by bash\n", "")


def test_what_comes_from_a_pipe_is_named_as_the_aws_cli_does(
    prefix: Path, seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    body = f"echo content | {prefix}/bin/aws s3 cp - s3://{bucket}/piped"

    done = wrappers.run(body, cwd=tmp_path, environment=seaweedfs.environment())

    assert (done.returncode, done.stdout, done.stderr) == (0, f"upload: - to s3://{bucket}/piped\n", "")
    assert seaweedfs.client().get_object(Bucket=bucket, Key="piped")["Body"].read() == b"content\n"


def test_the_commands_need_nothing_of_the_container_but_a_shell(
    prefix: Path, seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    """In a root of its own, with the folder as it is mounted there and no Python, no certificates and no libraries."""
    bucket = make_bucket(seaweedfs)
    root = tmp_path / "root"
    shutil.copytree(prefix, root / "opt" / "seqferry", symlinks=True)
    (root / "tmp").mkdir()
    (root / "bin").mkdir()
    shell = shutil.which("busybox") or shutil.which("dash") or "/bin/sh"
    _copy_with_libraries(Path(shell), root)
    (root / "bin" / "sh").symlink_to(shell)
    seaweedfs.client(seaweedfs.user).put_object(Bucket=bucket, Key="in/x", Body=b"content")
    command = (
        f"/opt/seqferry/bin/aws s3 ls s3://{bucket}/in && /opt/seqferry/bin/aws s3 cp --quiet s3://{bucket}/in/x /tmp/x"
    )

    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--root", root, "/bin/sh", "-c", command],
        env=seaweedfs.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    if "unshare failed" in done.stderr or "write failed" in done.stderr:
        pytest.skip(f"this machine lets no process have a root of its own: {done.stderr.strip()}")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "PRE in/", "")
    assert (root / "tmp" / "x").read_bytes() == b"content"


def _copy_with_libraries(binary: Path, root: Path) -> None:
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
    libraries = [Path(word) for word in listed.split() if word.startswith("/")]
    for path in (binary, *libraries):
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def test_the_shim_imports_neither_a_database_nor_a_framework() -> None:
    heavy = ("sqlalchemy", "dbos", "alembic", "typer", "rich", "pydantic", "fastapi", "asyncio", "click")
    program = (
        "import sys; from seqferry.nextflow import shim; import seqferry.nextflow.aws, seqferry.nextflow.s5cmd; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    python = seqferry().parent / "python"

    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["s3", "mv", "a", "b"], "mv"),
        (["ec2", "describe-instances"], "ec2"),
        (["s3", "cp", "--website-redirect", "x", "a", "s3://b/c"], "--website-redirect"),
        (["s3", "ls", "s3://b/c", "--human-readable"], "--human-readable"),
        (["s3", "cp", "s3://b/c/", "a"], "--recursive"),
    ],
)
def test_what_is_not_known_or_cannot_be_carried_is_refused_by_name(words: list[str], named: str) -> None:
    done = subprocess.run([seqferry(), "aws", *words], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 252
    assert named in done.stderr
    assert done.stdout == ""


def test_uploads_of_a_task_are_encrypted_as_its_wrapper_asks(
    prefix: Path, seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    """As with aws.client.storageEncryption and s3Acl."""
    bucket = make_bucket(seaweedfs)
    (tmp_path / "x").write_bytes(b"secret")
    body = f"nxf_s3_upload x s3://{bucket}/out"
    upload = "--acl bucket-owner-full-control --sse AES256 "
    text = wrappers.script("", prefix, "aws", body, upload=upload)

    done = wrappers.run(text, cwd=tmp_path, environment=seaweedfs.environment())

    assert (done.returncode, done.stderr) == (0, "")
    assert seaweedfs.client().head_object(Bucket=bucket, Key="out/x")["ServerSideEncryption"] == "AES256"


def test_a_failed_upload_leaves_no_object_and_no_parts(
    prefix: Path, proxy: Proxy, bucket: str, tmp_path: Path, rng: random.Random
) -> None:
    (tmp_path / "big").write_bytes(rng.randbytes(20 * MIB))
    proxy.rule("UploadPart", access_denied(), part=2)

    done = _aws(prefix, proxy.server, tmp_path, "s3", "cp", "--only-show-errors", "big", f"s3://{bucket}/out/big")

    assert done.returncode == 1
    assert "upload failed:" in done.stderr
    assert "AccessDenied" in done.stderr
    assert _stored(proxy.server, bucket) == {}
    assert open_uploads(proxy.server, bucket) == []


def test_a_failed_download_names_the_object_and_leaves_whole_files_only(
    prefix: Path, proxy: Proxy, bucket: str, tmp_path: Path
) -> None:
    client = proxy.server.client(proxy.server.user)
    for name in ("a", "b", "c"):
        client.put_object(Bucket=bucket, Key=f"in/{name}", Body=name.encode() * 1000)
    proxy.rule("GetObject", access_denied(), key="in/b")

    done = _aws(
        prefix, proxy.server, tmp_path, "s3", "cp", "--only-show-errors", "--recursive", f"s3://{bucket}/in", "in"
    )

    assert done.returncode == 1
    assert f"download failed: s3://{bucket}/in/b to {tmp_path}/in/b An error occurred (AccessDenied)" in done.stderr
    assert _files(tmp_path / "in") == {"a": b"a" * 1000, "c": b"c" * 1000}


def test_a_stopped_upload_leaves_no_parts(
    prefix: Path, proxy: Proxy, bucket: str, tmp_path: Path, rng: random.Random
) -> None:
    (tmp_path / "big").write_bytes(rng.randbytes(20 * MIB))
    command = [prefix / "bin" / "aws", "s3", "cp", tmp_path / "big", f"s3://{bucket}/big"]
    with RunningProcess(command, environment=proxy.server.environment()) as running:
        with held(proxy, "UploadPart", part=2) as rule:
            proxy.wait_held(rule)
            running.signal(signal.SIGTERM)
            proxy.wait_succeeded("AbortMultipartUpload")
        code = running.wait()
        said = running.stderr

    assert code == 143
    assert "stopped by SIGTERM" in said
    assert _stored(proxy.server, bucket) == {}
    assert open_uploads(proxy.server, bucket) == []


def test_requests_are_tried_as_often_as_the_variable_says(
    prefix: Path, proxy: Proxy, bucket: str, tmp_path: Path
) -> None:
    proxy.server.client(proxy.server.user).put_object(Bucket=bucket, Key="x", Body=b"content")
    proxy.clear_log()
    proxy.rule("HeadObject", internal_error())
    more = {"AWS_RETRY_MODE": "adaptive", "AWS_MAX_ATTEMPTS": "3"}

    done = _aws(prefix, proxy.server, tmp_path, "s3", "cp", f"s3://{bucket}/x", "x", environment=more)

    assert done.returncode == 1
    assert len(proxy.log("HeadObject")) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_retry_mode_is_named(prefix: Path, seaweedfs: S3Server, tmp_path: Path) -> None:
    done = _aws(prefix, seaweedfs, tmp_path, "s3", "ls", "s3://b/x", environment={"AWS_RETRY_MODE": "often"})

    assert done.returncode == 253
    assert "AWS_RETRY_MODE 'often' is not known" in done.stderr


def test_a_listing_shows_each_folder_once_with_those_whose_names_begin_alike(
    prefix: Path, s3server: S3Server, bucket: str, tmp_path: Path
) -> None:
    client = s3server.client(s3server.user)
    for key in ("p/dir/a", "p/dir/b/c", "p/dir2/a", "p/dir.txt"):
        client.put_object(Bucket=bucket, Key=key, Body=b"12345")

    done = _aws(prefix, s3server, tmp_path, "s3", "ls", f"s3://{bucket}/p/dir")

    assert done.returncode == 0
    assert sorted(line.split()[-2:] for line in done.stdout.splitlines()) == [
        ["5", "dir.txt"],
        ["PRE", "dir/"],
        ["PRE", "dir2/"],
    ]


def test_another_programs_command_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aws").write_text("#!/bin/sh\n")

    done = subprocess.run(
        [seqferry(), "nextflow", "install-cli", tmp_path], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 1
    assert f"{tmp_path}/bin/aws is another program, which is not replaced" in done.stderr
    assert (tmp_path / "bin" / "aws").read_text() == "#!/bin/sh\n"


def _aws(
    prefix: Path, server: S3Server, cwd: Path, *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", **server.environment(), **(environment or {})}
    command = [prefix / "bin" / "aws", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
