"""Ways to stage: what is asked, the part that is read, requests, and the verdict with its savings."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from seqferry.bench.measure import Cost
from seqferry.bench.stage import comparison, data, page, report
from seqferry.bench.stage.comparison import StageOutcome, StageParameters, StagePlan, StageRun
from seqferry.bench.stage.data import Dataset
from seqferry.bench.stage.staging import Staging
from seqferry.bench.stage.staging_methods import STAGING_METHODS, InstalledStagingMethods
from seqferry.bench.storage import BenchPrefix, Storage
from seqferry.cli.app import run
from seqferry.model.errors import ConfigError, UsageError

KIB, MIB = 2**10, 2**20


class Listed(Storage):
    """A bucket as it is listed."""

    def __init__(self, keys: dict[str, int]) -> None:
        super().__init__(BenchPrefix("b", "in/", None, "us-east-1"), None, None)
        self._keys = keys

    def listing(self, below: str, most: int | None = None) -> dict[str, int]:
        listed = ((key, size) for key, size in self._keys.items() if key.startswith(below))
        return dict(islice(listed, most))

    def remove(self, below: str) -> None:
        raise AssertionError("nothing was written")


def plan(files: dict[str, int], **more: Any) -> StagePlan:
    parameters = StageParameters(**more)
    storage, found = Listed({}), Dataset("s3://b/in/", files)
    installed = InstalledStagingMethods(STAGING_METHODS, {}, {"tar": "tar 1"}, ())
    return StagePlan(parameters, storage, "in/", storage, found, installed, tuple(found.share(parameters.read)))


def runs(**seconds: list[float]) -> list[StageRun]:
    return [
        StageRun(way.replace("_", "-"), number, Cost(took, took / 2, MIB, 0, False, ""))
        for way, values in seconds.items()
        for number, took in enumerate(values)
    ]


def test_the_part_that_is_read_is_spread_over_all_files() -> None:
    found = Dataset("s3://b/in/", {f"{number:04d}": 100 * KIB for number in range(10_000)})

    share = found.share(5)

    assert (len(share), share[:3], share[-1]) == (500, ["0000", "0020", "0040"], "9980")
    assert (len(found.share(100)), len(found.share(1e-9))) == (10_000, 1)
    assert found.requests_of_files() == 10_000 + 10
    assert found.requests_of_mount(share) == 500 + 10
    assert str(found) == "10,000 files of 100.0 KiB"


def test_the_verdict_names_the_way_for_each_use_with_its_savings() -> None:
    found = plan({f"{number:05d}": 100 * KIB for number in range(10_000)}, tasks=100, read=5.0)
    measured = runs(
        aws_recursive=[110.6, 109.6, 110.6],
        aws_pipe=[33.4, 31.8, 33.2],
        mount_tar=[19.7, 21.9, 20.3],
        mount_read=[2, 3, 2],
    )
    outcome = StageOutcome(measured, archive_bytes=10_000 * 100 * KIB)

    result = report.document(found, outcome)

    all_read, some_read = result["verdict"]
    assert all_read == (
        "10,000 files of 100.0 KiB, all read: take seqferry mount, tar -x, 20.3 s; aws s3 cp TAR - | tar -x follows "
        "with 33.2 s. For 100 tasks, against aws s3 cp --recursive, it saves 2 h 30 min and 988,600 requests."
    )
    assert some_read == (
        "10,000 files of 100.0 KiB, 500 of them read (5 %): take seqferry mount, some files read in place, 2.0 s; "
        "seqferry mount, tar -x follows with 20.3 s. For 100 tasks, against aws s3 cp --recursive, it saves "
        "3 h 01 min, 950,000 requests and 95.4 GiB of local disk."
    )
    assert [title for title, _, _ in report.tables(result)] == ["all files in a folder", "500 files read in place"]
    assert "take seqferry mount, tar -x" in page.page(result, [])


def test_the_ways_of_a_pipeline_are_compared_among_themselves() -> None:
    found = plan({f"{number:05d}": 100 * KIB for number in range(10_000)}, tasks=100)
    measured = runs(
        aws_recursive=[50, 50, 51], nextflow=[63, 63.5, 64], nextflow_tar=[22, 22.5, 23], nextflow_unpack=[12, 12.5, 13]
    )
    outcome = StageOutcome(measured, archive_bytes=10_000 * 100 * KIB)

    result = report.document(found, outcome)

    assert result["verdict"][-1] == (
        "10,000 files of 100.0 KiB, all read by a task of Nextflow: take Nextflow, beforeScript seqferry unpack TAR, "
        "12.5 s; Nextflow with nf-amazon, one tar, tar -x in the script follows with 22.5 s. For 100 tasks, against "
        "Nextflow with nf-amazon, a folder, it saves 1 h 25 min and 988,600 requests."
    )
    kept = {each["way"]: each["local_bytes"] for each in result["results"]}
    assert kept["nextflow-tar"] == 2 * kept["nextflow-unpack"], "the tar stays beside its files"


@pytest.mark.parametrize("name", [way.name for way in STAGING_METHODS if way.delivers == "task"])
def test_no_name_leaves_the_texts_of_a_pipeline(name: str, tmp_path: Path) -> None:
    way = next(way for way in STAGING_METHODS if way.name == name)
    odd = "s3://b/it's \\ $HOME/"
    commands = {"aws": "aws", "seqferry": "python -m seqferry"}
    staging = Staging(odd, odd, tmp_path / "it's", tmp_path, tmp_path, "https://s3", "eu-central-1", commands, tmp_path)

    pipeline = way.files(staging)["main.nf"]

    literals = re.findall(r"'(?:[^'\\\n]|\\.)*'", pipeline)
    assert "$HOME" not in re.sub(r"'(?:[^'\\\n]|\\.)*'", "", pipeline), "outside of a literal Groovy would read it"
    assert any("$HOME" in each for each in literals)


def test_the_usual_way_and_ways_that_do_not_differ_are_told_as_such() -> None:
    found = plan({"a": 1, "b": 2})

    def said(**seconds: list[float]) -> str:
        return report.document(found, StageOutcome(runs(**seconds)))["verdict"][0]

    usual, slower, near = [1, 1, 1.1], [2, 2, 2.1], [1.5, 2, 2.5]
    assert said(aws_recursive=usual, unpack=slower).endswith("It is aws s3 cp --recursive, the usual way.")
    assert "; seqferry cp does not differ beyond the spread. For" in said(
        unpack=[1, 1, 2], seqferry=near, s5cmd=[9] * 3
    )
    for runs_of_each in (1, 2):
        few = said(unpack=[1] * runs_of_each, seqferry=[9] * runs_of_each)
        assert ": no verdict: " in few
        assert "a verdict needs 3 (--repetitions 3)." in few
        assert "take" not in few
        assert "saves" not in few
    alike = said(unpack=[1, 1, 2], aws_recursive=near)
    assert "aws s3 cp --recursive does not differ from it beyond the spread. More --repetitions may tell." in alike
    assert "take" not in alike
    # A way that failed in some rounds takes no part.
    assert "; seqferry cp follows with 2.0 s." in said(unpack=[1] * 3, seqferry=slower, s5cmd=[1.5, 1.6])
    assert said(unpack=[1, 2]).endswith("there is nothing to compare it with.")
    assert said() == "No run succeeded: there is no verdict."
    # Nothing is saved where the way against which it is told is missing: the slowest stands in for it.
    assert "against s5cmd cp, it saves 13 min 20 s." in said(seqferry=[1] * 3, s5cmd=[9] * 3)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"in/": 0, "in/folder/": 0},
        {"in/a": 1, "in/a/b": 1},
        {"in//a": 1},
        {"in/../a": 1},
        {"in/./a": 1},
        {f"in/{'ü' * 128}": 1},
        {"in/a\nb": 1},
    ],
)
def test_names_that_no_folder_can_hold_are_refused(keys: dict[str, int]) -> None:
    with pytest.raises(UsageError) as refused:
        data.look(Listed(keys), "in/")

    assert "\n" not in refused.value.message


def test_more_objects_than_a_bench_takes_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 100,000 objects"):
        data.look(Listed({f"in/{number}": 1 for number in range(100_001)}), "in/")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--ways", "teleport"), "teleport"),
        (("--read", "0"), "--read 0"),
        (("--read", "-5"), "--read -5"),
        (("--read", "nan"), "--read nan"),
        (("--read", "inf"), "--read inf"),
        (("--read", "100.1"), "--read 100.1"),
        (("--tasks", "0"), "--tasks 0"),
        (("--tasks", "1000000001"), "--tasks"),
        (("--repetitions", "0"), "--repetitions"),
        (("--warm-up", "101"), "--warm-up"),
        (("--endpoint-url", "http://me:hidden@127.0.0.1:1"), "credentials"),
        (("--scratch", "s3://bucket/in/tar/"), "--scratch"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    options: tuple[str, ...], names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["bench", "stage", "s3://bucket/in/", *options])

    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert names in err
    assert "hidden" not in err


def test_a_disk_without_room_is_told_before_anything_is_done(tmp_path: Path) -> None:
    class Silent:
        def say(self, line: str) -> None: ...
        def ran(self, run: StageRun) -> None: ...

    with pytest.raises(ConfigError, match="free and the bench needs"):
        comparison.run(plan({"a": 2**50}), work_folder=tmp_path, tell=Silent())
    assert list(tmp_path.iterdir()) == []
