"""``seqferry bench transfer`` as a process on real servers: reports, verification, and a bucket left as it was.

Some of the tools are stood in for by scripts on the path, which do harm where the real ones would not.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.buckets import open_uploads
from support.html import parse
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, access_denied
from support.run import SCRIPTS, TOOLS, MissingToolError, find_tool
from support.servers import MOVER, S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]
METHODS = "boto3,boto3-tuned,crt,aws,rclone,seqferry,seqferry-accelerated"
"""All that the packages of the tests bring along; s5cmd comes from elsewhere."""
ONCE = ("--warm-up", "0", "--repetitions", "1")
SMALL = ("--workload", "3x1KiB", *ONCE)


class Bench:
    """The command on a bucket of its own, with a folder of tools that come first on its path."""

    def __init__(self, server: S3Server, bucket: str, folder: Path) -> None:
        self.server = server
        self.bucket = bucket
        self.folder = folder
        self.output = folder / "report"
        self.tools = folder / "tools"
        self.work = folder / "work"
        self.tools.mkdir()

    def environment(self) -> dict[str, str]:
        path = f"{self.tools}:{TOOLS}:{SCRIPTS}:{os.environ['PATH']}"
        return {**self.server.environment(), "PATH": path}

    def start(self, *options: str, environment: dict[str, str] | None = None) -> RunningProcess:
        command = [
            *(seqferry(), "bench", "transfer", f"s3://{self.bucket}/some/where"),
            *("--output", self.output, "--work-folder", self.work, *options),
        ]
        return RunningProcess(command, environment={**self.environment(), **(environment or {})}, cwd=self.folder)

    def run(self, *options: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Exit code, what went to standard output, and what to standard error."""
        with self.start(*options, environment=environment) as running:
            return running.wait(400), running.stdout, running.stderr

    def report(self) -> dict[str, Any]:
        return json.loads((self.output / "report.json").read_text())

    def stand_in(self, name: str, script: str) -> None:
        """A script in place of the real tool, which it finds as ``$REAL``; asked for its version it is the real one."""
        try:
            real = find_tool(name, variable=f"SEQFERRY_{name.upper()}", hint="run `make tools`")
        except MissingToolError as missing:
            if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
                pytest.fail(str(missing), pytrace=False)
            pytest.skip(str(missing))
        path = self.tools / name
        path.write_text(f'#!/bin/sh\nREAL={real}\n[ "$1" = version ] && exec "$REAL" version\n{script}\n')
        path.chmod(0o755)

    def assert_nothing_is_left(self) -> None:
        listed = self.server.client().list_objects_v2(Bucket=self.bucket)
        assert [entry["Key"] for entry in listed.get("Contents", ())] == []
        assert open_uploads(self.server, self.bucket) == []
        assert not self.work.exists() or list(self.work.iterdir()) == []

    def assert_no_secret(self, *said: str) -> None:
        written = [path.read_bytes().decode(errors="replace") for path in self.output.glob("*")]
        assert not [text for text in (*said, *written) if MOVER.secret_key in text]


@pytest.fixture
def make_bench(make_bucket: BucketFactory, tmp_path: Path) -> Callable[[S3Server], Bench]:
    def make(server: S3Server) -> Bench:
        return Bench(server, make_bucket(server), tmp_path)

    return make


BenchFactory = Callable[[S3Server], Bench]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("versitygw", METHODS), ("seaweedfs", "boto3-tuned,rclone,seqferry,seqferry-accelerated")],
    ids=["versitygw", "seaweedfs"],
)
def test_methods_are_measured_and_verified_and_told_in_every_form(
    kind: str, wanted: str, request: pytest.FixtureRequest, make_bench: BenchFactory
) -> None:
    bench = make_bench(request.getfixturevalue(kind))

    code, out, err = bench.run("--workload", "1x9MiB", *ONCE, "--seed", "7", "--methods", wanted)

    assert code == 0, err
    report = bench.report()
    assert report["schema"] == 1
    assert report["seed"] == 7
    assert report["left"] is report["stopped_by"] is None
    methods = {method["name"] for method in report["methods"]}
    assert methods == {name for name in wanted.split(",") if not name.endswith("accelerated")}
    assert "Transfer Acceleration is left out: it is a feature of AWS alone." in err
    runs = report["runs"]
    assert {(run["method"], run["direction"]) for run in runs} == {
        (method, direction) for method in methods for direction in ("upload", "download")
    }
    for run in runs:
        assert run["verified"], run
        assert run["bytes"] == 9 * 2**20
        assert min(run["bytes_per_second"], run["wall_s"], run["cpu_s"], run["peak_bytes"]) > 0
        if run["direction"] == "download":
            assert run["on_disk_s"] > run["wall_s"]
            assert run["bytes_per_second"] == pytest.approx(run["bytes"] / run["on_disk_s"])
        else:
            assert run["on_disk_s"] is None
    assert [each["label"] for each in report["modelled"]] == ["modelled, not measured"] * 2
    for direction in ("upload", "download"):
        assert f"\n{direction}, 1x9MiB" in "\n" + out
    assert "modelled, not measured" in out
    assert "tells no difference" in out
    standard = [each for each in report["results"] if each["label"] == "boto3"]
    assert [each["against_standard_percent"] for each in standard] == [0.0] * len(standard)
    assert {each["use"] for each in report["by_use"]} == {"download-heavy", "upload-heavy", "balanced", "all"}
    assert out.count("AWS DataSync, Basic mode") == 1, "in a table of its own"
    assert "\x1b" not in out
    pictures = {path.name for path in bench.output.glob("*.png")}
    assert pictures == {"speed-upload.png", "speed-download.png", "cpu-upload.png", "cpu-download.png"}
    assert all((bench.output / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    text = (bench.output / "report.html").read_text()
    page = parse(text)
    assert len(page.all("svg")) == 4
    assert [one.attributes["id"] for one in page.all("section")] == [
        "recommendations",
        "measured",
        "plots",
        "results",
        "modelled",
        "methods",
    ]
    assert not re.search(r"(?:\bsrc|href)\s*=\s*[\"'](?!#)|url\((?!#)|@import|<script|<link", text)
    bench.assert_nothing_is_left()
    bench.assert_no_secret(out, err)


def test_threads_and_part_sizes_make_variants_and_a_plot(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)

    code, out, err = bench.run(
        *(
            "--workload",
            "1x11MiB,2x1KiB",
            *ONCE,
            "--methods",
            "rclone,seqferry",
            "--threads",
            "2,3",
            "--threads-up",
            "1,4",
            "--part-size",
            "5MiB",
        ),
        *("--direction", "upload", "--json"),
    )

    assert code == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events] == ["plan", *["run"] * 10, "report"]
    assert {(run["method"], run["threads"], run["part_size"]) for run in events[1:-1]} == {
        *((method, threads, 5 * 2**20) for method in ("rclone", "seqferry") for threads in (1, 4)),
        ("seqferry", None, 5 * 2**20),
    }
    assert events[-1]["report"] == bench.report()
    assert {Path(name).name for name in events[-1]["files"]} == {path.name for path in bench.output.iterdir()}
    assert (bench.output / "threads-upload.png").exists()
    assert (bench.output / "streams-upload.png").exists()
    increase = {(each["method"], each["threads"]): each["increase_percent"] for each in bench.report()["streams"]}
    assert {key: value for key, value in increase.items() if key[1] == 1} == {("rclone", 1): 0.0, ("seqferry", 1): 0.0}

    earlier = bench.output / "report.json"
    code, out, err = bench.run(*SMALL, "--methods", "rclone", "--direction", "upload", "--baseline", str(earlier))
    assert (code, len(err.splitlines())) == (2, 1), "it has no such workload"
    assert "none of these workloads" in err
    code, out, err = bench.run(
        *("--workload", "2x1KiB", *ONCE, "--methods", "rclone", "--direction", "upload"),
        *("--baseline", str(earlier), "--acceleration", "off"),
    )
    assert code == 0, err
    assert "previous best: " in out
    assert bench.report()["results"][0]["against_baseline_percent"] is not None
    bench.assert_nothing_is_left()
    code, out, err = bench.run(*SMALL, "--acceleration", "on")
    assert code == 1
    assert err.endswith("--acceleration on: Transfer Acceleration is left out: it is a feature of AWS alone.\n")
    bench.assert_nothing_is_left()


@pytest.mark.parametrize("kind", ["versitygw", "seaweedfs"])
def test_copies_from_bucket_to_bucket_are_measured_and_verified(
    kind: str, request: pytest.FixtureRequest, make_bench: BenchFactory, make_bucket: BucketFactory
) -> None:
    bench = make_bench(request.getfixturevalue(kind))
    theirs = make_bucket(bench.server)

    code, out, err = bench.run(
        *("--workload", "2x17MiB", *ONCE, "--direction", "copy", "--copy-from", f"s3://{theirs}/their/data"),
        *("--methods", "boto3-copy,aws,rclone,seqferry,crt"),
    )

    assert code == 0, err
    assert f"below s3://{bench.bucket}/some/where/seqferry-bench-" in err
    assert f"s3://{theirs}/their/data/seqferry-bench-" in err
    assert "crt is left out: it does no copy" in err
    runs = bench.report()["runs"]
    assert [(run["method"], run["direction"], run["verified"]) for run in runs] == [
        (name, "copy", True) for name in ("aws", "rclone", "seqferry", "boto3-copy")
    ]
    assert "against boto3-copy" in out
    assert "2 files of 17.0 MiB from bucket to bucket: 1 run of each tells no difference" in out
    assert {path.name for path in bench.output.glob("*.png")} == {"speed-copy.png", "cpu-copy.png"}
    bench.assert_nothing_is_left()
    bench.bucket = theirs
    bench.assert_nothing_is_left()
    bench.assert_no_secret(out, err)


def test_a_copy_that_spoils_or_is_stopped_leaves_nothing_in_either_bucket(
    versitygw: S3Server, make_bench: BenchFactory, make_bucket: BucketFactory
) -> None:
    bench, theirs = make_bench(versitygw), make_bucket(versitygw)
    bench.stand_in("s5cmd", f'"$REAL" "$@"\necho >"{bench.folder}/here"\nexec sleep 600')
    options = (*SMALL, "--direction", "copy", "--copy-from", f"s3://{theirs}/", "--methods", "s5cmd")

    with bench.start(*options) as running:
        eventually(lambda: (bench.folder / "here").exists() or not running.running, what="the copy", deadline=300)
        assert versitygw.client().list_objects_v2(Bucket=theirs)["KeyCount"] == 3
        running.signal(signal.SIGINT)
        code, err = running.wait(400), running.stderr
    assert (code, "Traceback" in err) == (130, False), err

    bench.stand_in("s5cmd", 'for last; do :; done\n"$REAL" "$@" && "$REAL" $1 $2 rm "${last}000001.bin"')
    spoilt, _, err = bench.run(*options)

    assert spoilt == 3, err
    assert "1 missing, first 000001.bin" in bench.report()["runs"][0]["error"]
    for bucket in (theirs, bench.bucket):
        bench.bucket = bucket
        bench.assert_nothing_is_left()


SPOIL = """
for last; do :; done
case "$last" in
  s3://*) for word; do case "$word" in */) [ -d "$word" ] && folder=$word ;; esac; done
    printf spoiled | dd of="${folder}000001.bin" bs=1 seek=100 conv=notrunc 2>/dev/null
    exec "$REAL" "$@" ;;
  *) "$REAL" "$@" && printf spoiled | dd of="${last}000001.bin" bs=1 seek=100 conv=notrunc 2>/dev/null ;;
esac
"""


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_a_method_that_spoils_bytes_has_failed_and_has_no_speed(
    direction: str, versitygw: S3Server, make_bench: BenchFactory
) -> None:
    bench = make_bench(versitygw)
    bench.stand_in("s5cmd", SPOIL)

    code, out, err = bench.run(*SMALL, "--methods", "s5cmd", "--direction", direction)

    assert code == 3, err
    [run] = bench.report()["runs"]
    assert (run["mismatch"], run["verified"], run["bytes_per_second"]) == (True, False, None)
    assert "000001.bin differs" in run["error"]
    assert f"FAILED 3x1KiB {direction}" in err
    assert "no run succeeded" in out
    bench.assert_nothing_is_left()


def test_a_method_that_ends_with_an_error_is_told_without_its_secrets(
    versitygw: S3Server, make_bench: BenchFactory
) -> None:
    bench = make_bench(versitygw)
    bench.stand_in("s5cmd", 'echo "cannot sign with $AWS_SECRET_ACCESS_KEY" >&2; exit 9')

    code, out, err = bench.run("--workload", "3x1KiB", "--repetitions", "2", "--methods", "s5cmd,rclone")

    assert code == 1, err
    failed = [run for run in bench.report()["runs"] if run["error"]]
    # Once in each direction, while warming up: it is not tried again.
    assert [(run["method"], run["round"]) for run in failed] == [("s5cmd", -1)] * 2
    assert failed[0]["error"] == "it ended with status 9: cannot sign with [redacted]"
    assert sum(run["verified"] for run in bench.report()["runs"]) == 4
    bench.assert_nothing_is_left()
    bench.assert_no_secret(out, err)


def test_a_method_that_is_not_installed_is_named_and_left_out(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)
    nowhere = {"PATH": str(bench.tools)}

    code, _, err = bench.run(*SMALL, "--methods", "s5cmd,boto3-tuned", "--direction", "upload", environment=nowhere)
    alone, _, why = bench.run(*SMALL, "--methods", "s5cmd", environment=nowhere)

    assert code == 0, err
    assert "s5cmd is left out, since it is not installed: see https://" in err
    assert [method["name"] for method in bench.report()["methods"]] == ["boto3-tuned"]
    assert "s5cmd" in bench.report()["left_out"][0]
    assert alone == 1
    assert len(why.splitlines()) == 1
    bench.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("kind", "number"), [("versitygw", signal.SIGINT), ("seaweedfs", signal.SIGTERM)], ids=["interrupt", "terminate"]
)
def test_a_bench_that_is_stopped_leaves_neither_objects_nor_uploads_nor_processes(
    kind: str, number: signal.Signals, request: pytest.FixtureRequest, make_bench: BenchFactory
) -> None:
    bench = make_bench(request.getfixturevalue(kind))
    tell = f'echo $$ >"{bench.folder}/pid.new" && mv "{bench.folder}/pid.new" "{bench.folder}/pid"'
    bench.stand_in("s5cmd", f'"$REAL" "$@"\n{tell}\nexec sleep 600')

    with bench.start(*SMALL, "--methods", "s5cmd", "--json") as running:

        def uploaded() -> int:
            assert running.running, str(running)
            path = bench.folder / "pid"
            return int(path.read_text()) if path.exists() else 0

        pid = eventually(uploaded, what="the upload", deadline=300)
        prefix = json.loads(running.stdout.splitlines()[0])["prefix"].removeprefix(f"s3://{bench.bucket}/")
        assert prefix.startswith("some/where/seqferry-bench-")
        client = bench.server.client(MOVER)
        client.create_multipart_upload(Bucket=bench.bucket, Key=f"{prefix}unfinished")
        assert client.list_objects_v2(Bucket=bench.bucket, Prefix=prefix)["KeyCount"] == 3
        running.signal(number)
        code, err = running.wait(400), running.stderr

    assert code == 130, err
    assert "Traceback" not in err
    assert not Path(f"/proc/{pid}").exists()
    bench.assert_nothing_is_left()


def test_what_cannot_be_removed_is_told(
    versitygw: S3Server, make_bench: BenchFactory, make_proxy: Callable[[S3Server], Proxy]
) -> None:
    bench = make_bench(versitygw)
    proxy = make_proxy(versitygw)
    proxy.rule("DeleteObjects", access_denied())
    bench.server = proxy.server

    code, _, err = bench.run(*SMALL, "--methods", "rclone", "--direction", "upload")

    assert code == 1
    assert f"Could not be removed: s3://{bench.bucket}/some/where/seqferry-bench-" in err
    assert "Traceback" not in err


def test_what_is_kept_is_told(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)

    code, _, err = bench.run(*SMALL, "--methods", "rclone", "--direction", "download", "--keep")

    assert code == 0, err
    assert f"kept, as requested: s3://{bench.bucket}/some/where/seqferry-bench-" in err
    assert versitygw.client().list_objects_v2(Bucket=bench.bucket)["KeyCount"] == 3


def test_a_dry_run_touches_nothing(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)

    code, out, err = bench.run("--methods", "rclone", "--dry-run", "--json")

    assert code == 0, err
    [plan] = [json.loads(line) for line in out.splitlines()]
    assert (plan["event"], plan["runs"]) == ("plan", 16)
    assert not bench.output.exists()
    bench.assert_nothing_is_left()


def test_too_little_room_is_told_before_anything_is_done(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)

    code, _, err = bench.run("--workload", "1x4TiB", "--methods", "rclone")

    assert code == 1
    last = err.splitlines()[-1]
    assert re.search(r"has .* free and the bench needs .* there", last)
    assert "--work-folder" in last
    assert not bench.output.exists(), "nothing was measured"
    bench.assert_nothing_is_left()


def test_a_bucket_that_is_not_there_is_one_line(versitygw: S3Server, make_bench: BenchFactory) -> None:
    bench = make_bench(versitygw)
    bench.bucket, own = "no-such-bucket", bench.bucket

    code, out, err = bench.run("--methods", "rclone")

    bench.bucket = own
    assert (code, out) == (1, "")
    assert err.startswith("seqferry: HeadBucket s3://no-such-bucket: there is no such bucket. ")
    assert len(err.splitlines()) == 1
