"""``bench gateway``: real runs of dd and fio on two folders, the rule of its advice, and one line for bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqferry.bench.gateway import advice, charts, disks, experiments, page, report, tools
from seqferry.bench.gateway.experiments import GIB, MIB, GatewayParameters
from seqferry.cli.app import run
from seqferry.model.errors import ConfigError, UsageError
from support.processes import RunningProcess
from support.waiting import eventually


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A folder on the disk, and one in memory."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only: mount a tmpfs at /dev/shm")
    (tmp_path / "folder").mkdir()
    other = Path(tempfile.mkdtemp(dir=memory))
    yield tmp_path / "folder", other
    shutil.rmtree(other)


def test_the_sizes_are_those_of_the_post_and_scale() -> None:
    whole = {each.name: each for each in experiments.experiments(GatewayParameters(), fio=True)}
    part = {each.name: each for each in experiments.experiments(GatewayParameters(size=64 * MIB), fio=True)}

    assert (whole["small-dsync"].block, whole["small-dsync"].blocks, whole["small-dsync"].rounds) == (MIB, 1000, 12)
    assert [whole[f"large-{times}"].bytes for times in (1, 3, 5)] == [GIB, 3 * GIB, 5 * GIB]
    assert [whole[f"large-{times}"].rounds for times in (1, 3, 5)] == [3, 3, 3]
    assert whole["fio-randrw"].bytes == 4 * 8 * GIB
    assert (part["small-dsync"].blocks, part["large-5"].bytes) == (62, 320 * MIB)
    assert not any(each.pattern for each in experiments.experiments(GatewayParameters(), fio=False))


def test_fio_is_called_as_in_the_post() -> None:
    programs = tools.Programs("dd", "fio", {})
    [mixed] = [each for each in experiments.experiments(GatewayParameters(), fio=True) if each.name == "fio-randrw"]

    line = tools.command(
        programs, mixed, Path("/a:b"), job_bytes=8 * GIB, seconds=0, direct=False, report=Path("/tmp/x")
    )

    post = {"--ioengine=libaio", "--bs=4k", "--iodepth=4", "--numjobs=4", "--nrfiles=2", "--rwmixread=25"}
    assert {*post, f"--size={8 * GIB}", "--readwrite=randrw", "--directory=/a\\:b"} <= set(line)
    assert not any(word.startswith("--runtime") for word in line)


def test_two_folders_are_measured_and_left_as_they_were(
    two_disks: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk, memory = two_disks
    output = tmp_path / "report"

    line = ["bench", "gateway", f"disk={disk}", f"memory={memory}", "--size", "1MiB", "--rounds", "4"]
    code = run([*line, "--seconds", "1", "--output", str(output)])

    out, err = capsys.readouterr()
    assert code == 0, err
    assert list(disk.iterdir()) == list(memory.iterdir()) == []
    result = json.loads((output / "report.json").read_text())
    assert (result["kind"], result["interrupted"], result["left"]) == ("gateway", False, [])
    small = [each for each in result["runs"] if each["experiment"] == "small-dsync"]
    assert [(each["folder"], each["place"]) for each in small] == [
        ("disk", 0), ("memory", 1), ("memory", 0), ("disk", 1), ("disk", 0), ("memory", 1), ("memory", 0), ("disk", 1),
    ]  # fmt: skip
    assert all(each["bytes"] == 10 * MIB and each["bytes_per_second"] > 0 for each in small)
    for each in result["results"]:
        assert each["failed"] == 0, each
        assert each["unsupported"] or each["bytes_per_second"]["low"] <= each["bytes_per_second"]["median"]
    assert result["recommendation"] in out
    has_fio = shutil.which("fio") is not None
    assert any(each["kind"] == "async" for each in result["results"]) == has_fio
    assert ("apt-get install fio" in err) != has_fio
    html = (output / "report.html").read_text()
    assert result["recommendation"] in html
    assert "<script" not in html
    drawn, missing = charts.draw(result)
    if missing is None:
        expected = list(charts.NAMES)[: 3 if has_fio else 2]
        assert [each.name for each in drawn] == expected
        assert html.count("<svg") == len(expected)
        assert all((output / f"{name}.png").stat().st_size > 1000 for name in expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_tidied_up_with_a_report(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    line = [sys.executable, "-m", "seqferry", "bench", "gateway", tmp_path / "folder", "--size", "16MiB"]
    with RunningProcess([*line, "--rounds", "100", "--output", tmp_path / "out"]) as running:
        eventually(lambda: [*(tmp_path / "folder").glob("seqferry-bench-*/test")], what="a run")

        running.signal(number)

        assert running.wait(60) == 130, str(running)
    assert list((tmp_path / "folder").iterdir()) == []
    assert json.loads((tmp_path / "out/report.json").read_text())["interrupted"]


def test_without_fio_the_rest_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "fio" else which(name))

    code = run(["bench", "gateway", str(tmp_path), "--size", "1MiB", "--rounds", "1", "--output", str(tmp_path / "x")])

    out, err = capsys.readouterr()
    assert code == 0, err
    assert "apt-get install fio" in err
    assert "nothing to compare" in out
    assert json.loads((tmp_path / "x/report.json").read_text())["left_out"] == [tools.FIO_MISSING]


def test_without_dd_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(ConfigError, match="coreutils"):
        tools.find()


def test_a_run_that_fails_is_said_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/dd"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ncase \"$*\" in *--version*) echo 'dd (coreutils) 9';; *direct*) echo 'no space' >&2; exit 1;; "
        "*) echo '10 bytes (10 B) copied, 0,5 s, 20 B/s' >&2;; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin")
    (tmp_path / "folder").mkdir()
    line = ["bench", "gateway", str(tmp_path / "folder"), "--size", "1MiB", "--rounds", "2"]

    code = run([*line, "--output", str(tmp_path / "x"), "--quiet"])

    err = capsys.readouterr().err
    result = json.loads((tmp_path / "x/report.json").read_text())
    assert code == 1
    assert "FAILED 10 blocks of 1 MiB, direct,dsync, round 1" in err
    assert "no space" in err
    by_name = {each["experiment"]: each for each in result["results"]}
    assert by_name["small-direct"]["failed"] == 2
    assert by_name["large-5"]["bytes_per_second"]["median"] == 20


@pytest.mark.parametrize("name", ["d$x_{$", "_hidden", "\udcff", "new\nline", "日本", "<b>\x1b[31m"])
def test_a_folder_of_any_name_has_its_page_and_its_charts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "fio" else which(name))
    monkeypatch.chdir(tmp_path)

    code = run(["bench", "gateway", name, "--size", "1MiB", "--rounds", "1", "--output", "report"])

    err = capsys.readouterr().err
    assert code == 0, err
    assert "unexpected" not in err
    assert "Warning" not in err
    page = (tmp_path / "report" / "report.html").read_text()
    assert "\x1b" not in page
    assert "<b>\\x1b" not in page
    assert list((tmp_path / "report").glob("*.png"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{tmp}", "{tmp}/below"], "same disk"),
        (["{tmp}", "again={tmp}"], "same disk"),
        (["{tmp}", "{link}"], "same disk"),
        (["{tmp}/nowhere"], "No such file"),
        (["{tmp}/file"], "no folder"),
        (["{tmp}", "--size", "64GiB", "--rounds", "1"], "Give a smaller --size"),
        (["{tmp}", "--size", "1MB"], "whole MiB"),
        (["{tmp}", "--size", "0"], "--size"),
        (["{tmp}", "--size", "much"], "much"),
        (["{tmp}", "--size", "-1MiB"], "-1MiB"),
        (["{tmp}", "--size", "65GiB"], "64 GiB"),
        (["{tmp}", "--rounds", "0"], "--rounds"),
        (["{tmp}", "--rounds", "-1"], "--rounds"),
        (["{tmp}", "--seconds", "-1"], "--seconds"),
        (["/proc"], "/proc"),
        (["{tmp}"] * 9, "too many"),
        ([], "DIR"),
        (["merge", "{tmp}/file"], "2 to 50 reports"),
        (["merge", "{tmp}/file", "{tmp}/file"], "not JSON"),
        (["merge", "{tmp}/nowhere", "{tmp}/file"], "No such file"),
        (["merge", "{tmp}/empty.json", "{tmp}/empty.json"], "is no report"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "below")
    monkeypatch.chdir(tmp_path)
    # So that a disk of any size is too small for the largest size.
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(2**40, 0, 2**40))
    before = sorted(tmp_path.rglob("*"))

    given = [each.replace("{tmp}", str(tmp_path)).replace("{link}", f"{tmp_path}/link") for each in arguments]
    code = run(["bench", *given] if given[:1] == ["merge"] else ["bench", "gateway", *given])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert said in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(UsageError, match="cannot be written"):
        disks.folders([str(tmp_path)], 0)


def _devices(folder: Path, tree: dict[str, tuple[bool, tuple[str, ...]]]) -> Path:
    """A folder like /sys/dev/block: for each number whether it is a partition of 8:0, and its parts."""
    for number, (is_partition, parts) in tree.items():
        device = folder / "devices" / ("sda" if number.startswith("8:") else f"dm-{number[4:]}")
        device = device / number.replace(":", "-") if is_partition else device
        device.mkdir(parents=True, exist_ok=True)
        (device / "dev").write_text(f"{number}\n")
        if is_partition:
            (device / "partition").write_text("1\n")
        for part in parts:
            (device / "slaves" / part.replace(":", "-")).mkdir(parents=True)
            (device / "slaves" / part.replace(":", "-") / "dev").write_text(f"{part}\n")
        (folder / number).symlink_to(device)
    return folder


def test_partitions_and_volumes_are_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = {
        "8:0": (False, ()),
        "8:1": (True, ()),
        "8:2": (True, ()),
        "253:0": (False, ("8:1",)),
        "253:1": (False, ("253:0",)),
    }
    sys = _devices(tmp_path, tree)
    monkeypatch.setattr(disks, "_BLOCK_DEVICES", sys)

    found = {number: disks.whole_disks(number) for number in (*tree, "0:99")}

    assert found == {**{number: {"sda"} for number in tree}, "0:99": set()}


def _rows(**speeds: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "experiment": "large-1",
            "folder": name,
            "bytes": GIB,
            "runs": len(values),
            "bytes_per_second": {"median": sorted(values)[len(values) // 2], "low": min(values), "high": max(values)},
        }
        for name, values in speeds.items()
    ]


@pytest.mark.parametrize(
    ("speeds", "take", "said"),
    [
        ({"io1": [135.0, 136.0, 137.0], "gp2": [99.0, 100.0, 101.0]}, "io1", "take io1, 36 % faster"),
        ({"io1": [95.0, 136.0, 137.0], "gp2": [99.0, 100.0, 101.0]}, None, "no difference beyond the spread"),
        (
            {"gp3": [212.0], "gp2": [47.0]},
            None,
            "no verdict: 1 run of each tells no difference: a verdict needs 3 (--ro",
        ),
        ({"io1": [136.0, 137.0], "gp2": [99.0, 100.0]}, None, "no verdict: 2 runs of each tell no difference"),
        ({"io1": [136.0, 137.0, 138.0], "gp2": [99.0]}, None, "1 run of each tells no difference"),
        ({"io1": [136.0, 137.0, 138.0]}, None, "nothing to compare io1 with"),
    ],
)
def test_advice_follows_from_the_ranges(speeds: dict[str, list[float]], take: str | None, said: str) -> None:
    found = advice.advise(_rows(**speeds))

    assert [each.take for each in found] == [take]
    assert said in advice.sentence(found)
    assert "files of 1 GiB" in advice.sentence(found)


@pytest.mark.parametrize("runs", [1, 2, 3, 5])
def test_the_rounds_that_advice_asks_for_make_so_many_runs(runs: int) -> None:
    for small in (True, False):
        rounds = experiments.rounds_for(runs, small=small)
        made = {each.kind: each.rounds for each in experiments.experiments(GatewayParameters(rounds=rounds), fio=False)}
        assert made["small" if small else "large"] == runs
        fewer = GatewayParameters(rounds=rounds - 1) if rounds > 1 else None
        if fewer is not None:
            made = {each.kind: each.rounds for each in experiments.experiments(fewer, fio=False)}
            assert made["small" if small else "large"] == runs - 1


def test_outliers_are_named_and_stay() -> None:
    assert report.outliers([10.0, 11.0, 10.5, 10.2, 40.0]) == [40.0]
    assert report.outliers([10.0, 11.0, 40.0]) == []


def test_the_report_of_fio_is_read_over_warnings(tmp_path: Path) -> None:
    file = tmp_path / "fio.json"
    job = {
        "read": {"io_bytes": 25, "runtime": 1000, "total_ios": 1},
        "write": {"io_bytes": 75, "runtime": 2000, "total_ios": 3},
    }
    file.write_text(f"fio: a warning\n{json.dumps({'jobs': [job]})}")

    found = tools.of_fio(file)

    assert (found.bytes, found.seconds, found.operations_per_second) == (100, 2.0, 2.0)
    for broken in ("", "no json", '{"jobs": []}', '{"jobs": [{"read": {}}]}'):
        file.write_text(broken)
        with pytest.raises(tools.RunError):
            tools.of_fio(file)


def _report(folder: str, speed: float, **changed: Any) -> dict[str, Any]:
    row = {"title": "a file of 1 GiB, dsync", "folder": folder, "runs": 3}
    spread = {"median": speed, "low": speed, "high": speed}
    return {
        "kind": "gateway",
        "at": "2026-11-26T20:00:00+00:00",
        "machine": {"cores": 2, "cpu": "x"},
        "folders": [{"path": "/a"}],
        "results": [{**row, "bytes_per_second": spread}],
        **changed,
    }


def test_reports_are_merged_by_what_they_have_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day, speed in (("monday", 100 * MIB), ("tuesday", 50 * MIB)):
        (tmp_path / day).mkdir()
        (tmp_path / day / "report.json").write_text(json.dumps(_report("share", speed)))
    files = [str(tmp_path / day / "report.json") for day in ("monday", "tuesday")]

    assert run(["bench", "merge", *files, "--output", str(tmp_path / "out")]) == 0

    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["monday", "share", "100.0", "100", "%", "3"],
        ["tuesday", "share", "50.0", "50", "%", "3"],
    ]
    merged = json.loads((tmp_path / "out/report.json").read_text())
    assert (merged["kind"], merged["of"]) == ("merged", "gateway")
    assert "tuesday" in (tmp_path / "out/report.html").read_text()
    assert run(["bench", "merge", *files, "--output", str(tmp_path / "out"), "--quiet"]) == 0
    (tmp_path / "other.json").write_text(json.dumps(_report("share", 1.0, results=[])))
    assert run(["bench", "merge", files[0], str(tmp_path / "other.json")]) == 2
    assert "in common" in capsys.readouterr().err


def test_reports_of_transfers_are_merged_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"workload": "1x1GiB", "direction": "upload", "label": "seqferry", "runs": 3}
    place = {"bucket": "b", "endpoint_url": None, "region": "us-east-1"}
    for name, speed in (("near", 200.0), ("far", 20.0)):
        spread = {"median": speed * MIB, "low": speed * MIB, "high": speed * MIB}
        found = _report("x", 1.0, place=place, results=[{**row, "bytes_per_second": spread}])
        del found["kind"]
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    files = [str(tmp_path / f"{name}.json") for name in ("far", "near")]

    assert run(["bench", "merge", *files, "--output", str(tmp_path / "out")]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "upload, 1x1GiB"
    assert [line.split()[:2] for line in lines[2:4]] == [["near", "seqferry"], ["far", "seqferry"]]
    (tmp_path / "gateway.json").write_text(json.dumps(_report("x", 1.0)))
    assert run(["bench", "merge", files[0], str(tmp_path / "gateway.json")]) == 2
    assert "different kinds" in capsys.readouterr().err


def test_a_page_escapes_what_it_shows() -> None:
    result: dict[str, Any] = {
        **_report("<b>", 1.0, folders=[]),
        "recommendation": "<i>",
        "interrupted": False,
        "rule": "",
        "programs": {},
        "left_out": [],
        "runs": [],
        "load": {"before": 0, "after": 0},
        "machine": {"cores": 1, "cpu": "<c>", "memory_gib": 1, "system": "s"},
        "fio": {"direct": True, "depth": 4, "jobs": 4, "files": 2},
        "results": [],
    }

    shown = page.page(result, [])

    assert "&lt;i&gt;" in shown
    assert "<i>" not in shown
