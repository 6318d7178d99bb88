"""What is typed for a comparison: understood, or refused in one line before anything is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqferry.bench import compare, methods
from seqferry.bench.methods import METHODS, InstalledMethod, Job, Variant
from seqferry.bench.storage import Acceleration, BenchPrefix, Storage
from seqferry.bench.transfer import make_plan
from seqferry.bench.workload import Workload, parse
from seqferry.cli.app import run
from seqferry.model.errors import UsageError

KIB, MIB, GIB = 2**10, 2**20, 2**30
NOTHING: dict[str, Any] = {
    "workloads": (),
    "direction": "both",
    "names": (),
    "threads": (),
    "part_sizes": (),
    "warm_up": 1,
    "repetitions": 3,
    "seed": None,
}


@pytest.mark.parametrize(
    ("written", "files", "size", "name"),
    [
        ("2GiB", 1, 2 * GIB, "1x2GiB"),
        ("1x2GiB", 1, 2 * GIB, "1x2GiB"),
        ("20x256MiB", 20, 256 * MIB, "20x256MiB"),
        ("10000 X 100K", 10_000, 100 * KIB, "10000x100KiB"),
        ("3*1000", 3, 1000, "3x1000"),
        ("1536MiB", 1, 1536 * MIB, "1x1536MiB"),
    ],
)
def test_a_workload_is_so_many_files_of_such_a_size(written: str, files: int, size: int, name: str) -> None:
    found = parse(written)

    assert (found.files, found.size, found.name) == (files, size, name)
    assert parse(found.name) == found


@pytest.mark.parametrize(
    "written", ["", "x", "0x1MiB", "5x", "x1MiB", "0", "2x0", "99999999x1", "1x9999TiB", "-1x1MiB"]
)
def test_what_is_no_workload_is_named(written: str) -> None:
    with pytest.raises(UsageError, match="--workload"):
        parse(written)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--workload", "many"), "many"),
        (("--methods", "boto3,scp"), "scp"),
        (("--direction", "sideways"), "sideways"),
        (("--threads", "4,all"), "all"),
        (("--threads", "0"), "--threads 0"),
        (("--part-size", "1MiB"), "1.0 MiB"),
        (("--part-size", "big"), "big"),
        (("--part-size", "5242881"), "whole MiB"),
        (("--repetitions", "0"), "--repetitions"),
        (("--warm-up", "-1"), "--warm-up"),
        (("--endpoint-url", "nowhere"), "nowhere"),
        (("--endpoint-url", "http://me:hidden@127.0.0.1:1"), "credentials"),
        (("--chunk", "1"), "--chunk"),
        (("--copy-from", "s3://other/"), "--direction copy"),
        (("--direction", "copy", "--copy-from", "/tmp/x"), "/tmp/x"),
        (("--direction", "copy", "--copy-from", "s3://other/a*/"), "patterns"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_nothing_is_started(
    options: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["bench", "transfer", "s3://bucket/prefix/", *options])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert names in err
    assert "hidden" not in err


@pytest.mark.parametrize(
    ("target", "names"), [("bucket/prefix", "bucket/prefix"), ("s3://b/run*/", "patterns"), ("./folder", "folder")]
)
def test_only_a_prefix_of_a_bucket_can_be_measured(target: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "transfer", target]) == 2
    assert names in capsys.readouterr().err


def test_lists_may_be_repeated_or_divided_by_commas_and_hold_each_thing_once() -> None:
    asked = compare.ask(
        **{
            **NOTHING,
            "workloads": ("2x1MiB,1KiB", "1x1KiB"),
            "names": ("s5cmd, rclone", "s5cmd"),
            "threads": ("1,8", "8"),
            "part_sizes": ("5MiB,8M",),
            "direction": "upload",
        }
    )

    assert asked.workloads == (Workload(2, MIB), Workload(1, KIB))
    assert asked.methods == ("s5cmd", "rclone")
    assert (asked.threads, asked.part_sizes, asked.directions) == ((1, 8), (5 * MIB, 8 * MIB), ("upload",))


def found(*names: str) -> list[InstalledMethod]:
    return [InstalledMethod(method, [method.name]) for method in METHODS if method.name in names]


def test_every_method_is_measured_with_every_setting_that_it_takes_and_no_other() -> None:
    asked = compare.ask(**{**NOTHING, "threads": ("1,8",), "part_sizes": ("5MiB,8MiB",)})

    plan = make_plan(asked, found("boto3", "crt", "s5cmd"))

    assert [variant.label for _, variant in plan.variants] == [
        "boto3",
        "crt, 5 MiB parts",
        "crt, 8 MiB parts",
        "s5cmd, 1 thread, 5 MiB parts",
        "s5cmd, 1 thread, 8 MiB parts",
        "s5cmd, 8 threads, 5 MiB parts",
        "s5cmd, 8 threads, 8 MiB parts",
    ]


def test_what_tunes_itself_does_so_beside_numbers_of_threads() -> None:
    asked = compare.ask(**{**NOTHING, "threads": ("1,8",)})

    plan = make_plan(asked, found("s5cmd", "seqferry"))

    assert [variant.label for _, variant in plan.variants] == [
        *("s5cmd, 1 thread", "s5cmd, 8 threads"),
        *("seqferry, 1 thread", "seqferry, 8 threads", "seqferry"),
    ]


def test_all_bytes_are_counted_beforehand_those_for_preparing_and_verifying_too() -> None:
    asked = compare.ask(**{**NOTHING, "workloads": ("4x10MiB",), "warm_up": 1, "repetitions": 3})
    plan = make_plan(asked, found("boto3", "s5cmd"))
    total = 40 * MIB

    assert plan.runs == 2 * 2 * 4
    assert plan.traffic.bytes_up == total * (2 * 4 + 1)
    assert plan.traffic.bytes_down == total * (2 * 3 + 2 * 4)
    assert plan.disk_bytes >= 2 * total


@pytest.mark.parametrize(("endpoint", "told"), [(None, True), ("http://127.0.0.1:9000", False)])
def test_dollars_are_told_on_aws_only(endpoint: str | None, told: bool) -> None:
    asked = compare.ask(**{**NOTHING, "workloads": ("1x1GiB",)})
    storage = Storage(BenchPrefix("b", "p/", endpoint, "eu-west-1"), None, None)
    acceleration = Acceleration(available=False, why="Transfer Acceleration is left out.")
    lines = compare.PreparedComparison(
        make_plan(asked, found("boto3")), storage, acceleration, ("rclone is left out",)
    ).lines()

    assert any("$" in line and "eu-west-1" in line for line in lines) == told
    assert lines[-2:] == ["Transfer Acceleration is left out.", "rclone is left out"]


def test_a_copy_is_made_by_methods_that_copy_and_moves_no_byte_through_the_client(tmp_path: Path) -> None:
    asked = compare.ask(**{**NOTHING, "workloads": ("2x32MiB",), "direction": "copy", "repetitions": 3})

    plan = make_plan(asked, found("boto3", "s5cmd", "boto3-copy"))

    assert [variant.label for _, variant in plan.variants] == ["s5cmd", "boto3-copy"]
    assert plan.runs == 2 * 4
    assert (plan.traffic.bytes_up, plan.traffic.bytes_down) == (64 * MIB, 64 * MIB * 2 * 3)
    with pytest.raises(UsageError, match="--direction copy: none of the methods does that"):
        make_plan(asked, found("boto3", "crt"))
    place = BenchPrefix("ours", "p/", None, "us-east-1")
    copy = Job(place, "p/0/", "copy", tmp_path, 2, Variant("x"), tmp_path, ("theirs", "q/"))
    words = {
        each.name: [word for word in each.words(copy) if "theirs" in word]
        for each in METHODS
        if "copy" in each.directions
    }
    assert words == {
        "aws": ["s3://theirs/q/"],
        "s5cmd": ["s3://theirs/q/*"],
        "rclone": ["store:theirs/q/"],
        "seqferry": ["s3://theirs/q/"],
        "boto3-copy": ["theirs"],
    }


def job(name: str, tmp_path: Path, *, threads: int | None, files: int, direction: methods.Direction = "upload") -> Job:
    place = BenchPrefix("bucket", "p/", "http://127.0.0.1:9000", "us-east-1")
    return Job(place, "p/0/", direction, tmp_path, files, Variant(name, threads), tmp_path)


@pytest.mark.parametrize(
    ("files", "threads", "divided"), [(1, 8, (1, 8)), (20, 8, (8, 1)), (3, 8, (3, 2)), (1, 1, (1, 1))]
)
def test_threads_are_divided_between_files_and_their_parts(
    files: int, threads: int, divided: tuple[int, int], tmp_path: Path
) -> None:
    found = job("s5cmd", tmp_path, threads=threads, files=files)
    [method] = [each for each in METHODS if each.name == "s5cmd"]
    words = method.words(found)

    assert found.divide_requests() == divided
    assert words[words.index("--numworkers") + 1] == str(divided[0])
    assert words[words.index("--concurrency") + 1] == str(divided[1])


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.name)
@pytest.mark.parametrize("direction", ["upload", "download", "copy"])
def test_no_method_is_called_with_a_credential(method: methods.Method, direction: Any, tmp_path: Path) -> None:
    called = InstalledMethod(method, ["tool"])
    moved = job(method.name, tmp_path, threads=4, files=3, direction=direction)
    environment = methods.environment(called, moved, {"AWS_ACCESS_KEY_ID": "known", "AWS_SECRET_ACCESS_KEY": "hidden"})

    assert not [word for word in called.call(moved) if "hidden" in word or "known" in word]
    assert environment["AWS_SECRET_ACCESS_KEY"] == "hidden"
    assert all("hidden" not in path.read_text() for path in tmp_path.iterdir())


def test_settings_of_the_user_do_not_reach_the_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEQFERRY_MAX_BANDWIDTH", "RCLONE_TRANSFERS", "AWS_PROFILE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.setenv(name, "7")

    assert "7" not in methods.base_environment().values()


class Bucket:
    """As much of a client as is asked for its acceleration."""

    def __init__(self, answer: dict[str, str]) -> None:
        self._answer = answer

    def get_bucket_accelerate_configuration(self, **_: str) -> dict[str, str]:
        return self._answer


@pytest.mark.parametrize(
    ("bucket", "endpoint", "answer", "available"),
    [
        ("plain", None, {"Status": "Enabled"}, True),
        ("plain", None, {"Status": "Suspended"}, False),
        ("plain", None, {}, False),
        ("with.dots", None, {"Status": "Enabled"}, False),
        ("plain", "http://127.0.0.1:9000", {"Status": "Enabled"}, False),
    ],
)
def test_acceleration_is_used_only_where_the_bucket_has_it(
    bucket: str, endpoint: str | None, answer: dict[str, str], available: bool
) -> None:
    storage = Storage(BenchPrefix(bucket, "p/", endpoint, "us-east-1"), Bucket(answer), None)

    acceleration = storage.acceleration()

    assert acceleration.available == available
    assert "Transfer Acceleration" in acceleration.why


def test_methods_of_acceleration_are_left_out_without_it() -> None:
    with_it, _ = methods.available(("seqferry-accelerated",), accelerated=True, tools={"seqferry": "true"})
    without, missing = methods.available(("seqferry-accelerated",), accelerated=False)

    assert [each.method.name for each in with_it] == ["seqferry-accelerated"]
    assert "https://s3-accelerate.amazonaws.com" in with_it[0].call(
        Job(
            BenchPrefix("b", "p/", None, "us-east-1"),
            "p/",
            "upload",
            Path(),
            1,
            Variant("seqferry-accelerated"),
            Path(),
        )
    )
    assert (without, missing) == ([], [])
