"""``seqferry bench stage`` as a process on real servers: each way on data with odd names, and nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.buckets import open_uploads
from support.html import parse
from support.mounts import missing_fuse
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, access_denied
from support.run import ROOT, SCRIPTS, TOOLS
from support.servers import MOVER, S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]
ONCE = ("--warm-up", "0", "--repetitions", "1")
ODD = ("plain", "sub/größe 1.gz", 'sub/deep/it\'s "quoted" $HOME', "-rf", "sub/empty", "~tilde", "a+b=c&d")


class Bench:
    """The command on a prefix of a bucket of its own, which it may not change."""

    def __init__(self, server: S3Server, bucket: str, folder: Path) -> None:
        self.server = server
        self.bucket = bucket
        self.folder = folder
        self.output = folder / "report"
        self.tools = folder / "tools"
        self.work = folder / "work and such"
        self.tools.mkdir()
        self.content = {name: b"" if "empty" in name else name.encode() * 300 for name in ODD}
        client = server.client()
        for name, body in self.content.items():
            client.put_object(Bucket=bucket, Key=f"in put/{name}", Body=body)
        client.put_object(Bucket=bucket, Key="in put/", Body=b"")
        client.put_object(Bucket=bucket, Key="beside", Body=b"not staged")

    def start(self, *options: str, source: str | None = None) -> RunningProcess:
        path = f"{self.tools}:{TOOLS}:{SCRIPTS}:{os.environ['PATH']}"
        command = [
            *(seqferry(), "bench", "stage", source or f"s3://{self.bucket}/in put"),
            *("--output", self.output, "--work-folder", self.work, *options),
        ]
        return RunningProcess(command, environment={**self.server.environment(), "PATH": path}, cwd=self.folder)

    def run(self, *options: str, source: str | None = None) -> tuple[int, str, str]:
        """Exit code, what went to standard output, and what to standard error."""
        with self.start(*options, source=source) as running:
            return running.wait(400), running.stdout, running.stderr

    def report(self) -> dict[str, Any]:
        return json.loads((self.output / "report.json").read_text())

    def stand_in(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "a stand-in" && exit\n{script}\n')
        path.chmod(0o755)

    def assert_all_is_as_it_was(self) -> None:
        client = self.server.client()
        listed = client.list_objects_v2(Bucket=self.bucket)["Contents"]
        assert {entry["Key"] for entry in listed} == {*(f"in put/{name}" for name in ODD), "in put/", "beside"}
        assert open_uploads(self.server, self.bucket) == []
        assert not self.work.exists() or list(self.work.iterdir()) == []
        assert str(self.work) not in Path("/proc/mounts").read_text().replace("\\040", " ")


@pytest.fixture
def make_bench(make_bucket: BucketFactory, tmp_path: Path) -> Callable[[S3Server], Bench]:
    return lambda server: Bench(server, make_bucket(server), tmp_path)


BenchFactory = Callable[[S3Server], Bench]


@pytest.mark.parametrize("kind", ["versitygw", "seaweedfs"])
def test_every_way_brings_the_same_bytes_and_one_run_of_each_gives_no_verdict(
    kind: str, request: pytest.FixtureRequest, make_bench: BenchFactory
) -> None:
    bench = make_bench(request.getfixturevalue(kind))
    # s5cmd comes from elsewhere.
    ways = "aws-recursive,seqferry,aws-tar,seqferry-tar,aws-pipe,seqferry-pipe,unpack,mount-cp,mount-tar,mount-read"

    code, out, err = bench.run(*ONCE, "--ways", ways, "--read", "30", "--tasks", "1000")

    assert code == 0, err
    report = bench.report()
    results = {each["way"]: each for each in report["results"]}
    mounts = {"mount-cp", "mount-tar", "mount-read"}
    assert set(results) == set(ways.split(",")) - (mounts if missing_fuse() else set())
    assert [(each["runs"], each["failed"]) for each in results.values()] == [(1, 0)] * len(results), report["runs"]
    assert (report["data"]["files"], report["data"]["files_read"]) == (7, 2)
    total = sum(map(len, bench.content.values()))
    assert report["data"]["bytes"] == total
    assert {results[way]["requests"] for way in ("aws-recursive", "seqferry")} == {7 + 1}
    assert {results[way]["requests"] for way in ("aws-pipe", "unpack")} == {2}
    assert results["seqferry"]["local_bytes"] == total
    assert results["aws-tar"]["local_bytes"] == report["data"]["archive_bytes"] > total
    if not missing_fuse():
        assert (results["mount-read"]["requests"], results["mount-read"]["local_bytes"]) == (3, 0)
        assert "2 of them read (30 %): " in report["verdict"][1]
    assert report["verdict"][0].startswith("7 files of 2.7 KiB on average, all read: no verdict: ")
    assert report["verdict"][0].endswith("a verdict needs 3 (--repetitions 3).")
    for line in report["verdict"]:
        assert line in out
    page = parse((bench.output / "report.html").read_text())
    assert [one.attributes["id"] for one in page.all("section")] == ["plots", "results", "measured"]
    assert {path.name for path in bench.output.iterdir()} == {"report.json", "report.html", "stage-time.png"}
    written = [path.read_bytes().decode(errors="replace") for path in bench.output.iterdir()]
    assert not [text for text in (out, err, *written) if MOVER.secret_key in text]
    bench.assert_all_is_as_it_was()


def test_a_task_of_nextflow_gets_the_same_bytes_in_each_of_its_ways(
    versitygw: S3Server, make_bench: BenchFactory
) -> None:
    jars = ROOT / ".tools" / "nextflow" / "25.04.4"
    if not jars.is_dir() or shutil.which("java") is None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail("Nextflow is not there: run `make nextflow-tools`", pytrace=False)
        pytest.skip("Nextflow is not there: run `make nextflow-tools`")
    bench = make_bench(versitygw)
    launcher = shlex.quote(str(ROOT / "integrations" / "nextflow" / "nxf"))
    bench.stand_in("nextflow", f'NXF_LIB={shlex.quote(str(jars))} NXF_HOME="$PWD/.nxf" exec {launcher} "$@"')
    own = ["nextflow-pipe", "nextflow-seqferry", "nextflow-unpack"]

    # nf-amazon cannot be fetched here: this way is told as one that failed, and the others go on.
    code, out, err = bench.run(*ONCE, "--ways", ",".join(["nextflow", *own]), "--tasks", "10")

    assert code == 1, err
    report = bench.report()
    results = {each["way"]: each for each in report["results"]}
    assert {way: (each["runs"], each["failed"]) for way, each in results.items()} == {
        "nextflow": (0, 1),
        **dict.fromkeys(own, (1, 0)),
    }, report["runs"]
    assert "nf-amazon" in next(each["error"] for each in report["runs"] if each["way"] == "nextflow")
    assert [each["requests"] for way, each in results.items() if way in own] == [2, 8, 2]
    [verdict] = report["verdict"]
    assert verdict.startswith("7 files of 2.7 KiB on average, all read by a task of Nextflow: no verdict: Nextflow")
    assert verdict in out
    page = parse((bench.output / "report.html").read_text())
    assert any("all files to a task of Nextflow" in each.text for each in page.all("h3"))
    bench.assert_all_is_as_it_was()


def test_a_way_that_fails_or_spoils_is_told_and_the_others_go_on(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)
    bench.stand_in("aws", 'echo "no: $AWS_SECRET_ACCESS_KEY" >&2; exit 3')

    code, out, err = bench.run("--repetitions", "1", "--ways", "aws-recursive,aws-pipe,seqferry")

    assert code == 1, err
    failed = {each["way"]: each["error"] for each in bench.report()["runs"] if each["error"]}
    assert failed["aws-recursive"] == "it ended with status 3: no: [redacted]"
    # A pipe ends as tar does: GNU tar refuses an empty stream, others show it by what is missing.
    assert "aws-pipe" in failed
    assert "all read: seqferry cp, " in out
    assert [each["runs"] for each in bench.report()["results"] if each["way"] == "seqferry"] == [1]
    bench.stand_in("aws", 'for last; do [ -d "$last" ] && echo spoilt >"$last/plain"; done; exit 0')
    code, _, err = bench.run(*ONCE, "--ways", "aws-recursive")
    assert code == 3, err
    assert "6 missing" in bench.report()["runs"][0]["error"]
    bench.assert_all_is_as_it_was()


def test_where_the_tar_cannot_be_written_its_ways_are_left_out(
    versitygw: S3Server, make_bench: BenchFactory, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    bench = make_bench(versitygw)
    proxy = make_proxy(versitygw)
    proxy.rule("PutObject", access_denied())
    bench.server = proxy.server

    code, _, err = bench.run(*ONCE, "--ways", "seqferry,unpack")

    assert code == 0, err
    assert [each["way"] for each in bench.report()["results"]] == ["seqferry"]
    assert "--scratch" in bench.report()["left_out"][0]
    bench.assert_all_is_as_it_was()


@pytest.mark.parametrize("way", ["unpack", "mount-cp"])
def test_a_bench_that_is_stopped_leaves_neither_the_tar_nor_a_mount_nor_files(
    way: str, versitygw: S3Server, make_bench: BenchFactory
) -> None:
    if way == "mount-cp" and (missing := missing_fuse()):
        pytest.skip(missing)
    bench = make_bench(versitygw)
    stay = f'echo >"{bench.folder}/here"; exec sleep 600'
    bench.stand_in("cp", stay)
    bench.stand_in("tar", stay)
    ways = "seqferry-pipe" if way == "unpack" else way

    with bench.start(*ONCE, "--ways", ways) as running:
        eventually(lambda: (bench.folder / "here").exists() or not running.running, what="the run", deadline=300)
        running.signal(signal.SIGTERM)
        code, err = running.wait(400), running.stderr

    assert (code, "Traceback" in err) == (130, False), err
    bench.assert_all_is_as_it_was()


def test_data_that_cannot_be_staged_is_one_line_and_nothing_is_written(
    versitygw: S3Server, make_bench: BenchFactory
) -> None:
    bench = make_bench(versitygw)
    client = versitygw.client()
    for key in ("lines/a\nb",):
        client.put_object(Bucket=bench.bucket, Key=key, Body=b"x")
    cases = {
        f"s3://{bench.bucket}/nothing/": "Nothing is below",
        f"s3://{bench.bucket}/": "--scratch",
        f"s3://{bench.bucket}/in*/": "patterns",
        f"s3://{bench.bucket}/lines/": "line break",
        "s3://no-such-bucket-here/x/": "no-such-bucket-here",
        "/tmp/x": "/tmp/x",
    }
    for source, why in cases.items():
        code, out, err = bench.run(*ONCE, source=source)
        assert (code in (1, 2), out, len(err.splitlines())) == (True, "", 1), err
        assert why in err
        assert not bench.output.exists()
    code, out, err = bench.run(*ONCE, "--work-folder", "/proc")
    assert (code, out) == (1, ""), err
    assert "/proc has 0 B free" in err.splitlines()[-1]
    assert not bench.output.exists(), "nothing was measured"
    code, out, err = bench.run("--dry-run", "--json")
    assert (code, json.loads(out)["files"]) == (0, 7), err
    assert not bench.output.exists()
    for key in ("lines/a\nb",):
        client.delete_object(Bucket=bench.bucket, Key=key)
    bench.assert_all_is_as_it_was()
