"""The short run of ``make chaos``: real workers, database and storage under a seeded schedule of faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaos import levers, schedule, sometimes
from chaos.clocks import Clock, build
from chaos.trial import Options, run
from support.processes import run as run_command
from support.run import MissingToolError, Run, find_tool

# All is begun in so many minutes; servers, calm phases and a busy machine take the rest of three.
_MINUTES = 1.2
_FAULTS = 60


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_whatever_is_struck_nothing_is_lost_or_done_twice(run_servers: Run, seed: int, tmp_path: Path) -> None:
    options = Options(seed, _FAULTS, gap=1.1, minutes=_MINUTES, first=sometimes.SHORT, demanded=sometimes.OF_SHORT_RUNS)
    report = run(options, run_servers, tmp_path)

    print(report.as_text())
    assert not report.violations, report.as_text()
    assert not report.failed_levers, report.failed_levers
    assert sum(report.faults.values()) >= _FAULTS // 4
    assert report.counted["objects done"] > 0
    assert not report.missed, report.as_text()


@pytest.fixture
def run_servers(run: Run, seaweedfs: object, postgres: object) -> Run:
    """Where these can be started; the run starts a database of its own."""
    try:
        find_tool("s3sim", variable="SEQFERRY_S3SIM", hint="run `make tools`")
    except MissingToolError as missing:
        pytest.skip(str(missing))
    return run


def test_a_schedule_follows_from_its_seed_alone() -> None:
    drawn = schedule.draw(7, 200, workers=3, gap=1.5, calm_every=60)

    assert drawn == schedule.draw(7, 200, workers=3, gap=1.5, calm_every=60)
    assert drawn != schedule.draw(8, 200, workers=3, gap=1.5, calm_every=60)
    assert drawn == schedule.from_lines(schedule.to_lines(drawn))
    assert sum(one.kind != schedule.CALM for one in drawn) == 200
    assert [one.t for one in drawn] == sorted(one.t for one in drawn)
    assert drawn[-1].kind == schedule.CALM


def test_a_schedule_begins_with_the_kinds_that_are_named() -> None:
    for seed in range(50):
        drawn = schedule.draw(seed, 60, workers=3, gap=1.1, first=sometimes.SHORT)

        # Early enough for a run that ends after a minute.
        assert set(sometimes.SHORT) <= {one.kind for one in drawn if one.t < 50}


def test_what_a_run_has_to_meet_is_known_and_can_be_met() -> None:
    assert set(sometimes.SHORT) <= sometimes.OF_SHORT_RUNS <= sometimes.ALL
    assert set(sometimes.STATES) > sometimes.RARE
    assert sometimes.missed(Counter({"worker.kill": 1}), frozenset({"worker.kill", "reaped"})) == ["reaped"]


def test_no_victim_is_struck_twice_at_once() -> None:
    free: dict[str, float] = {}
    for one in schedule.draw(3, 500, workers=3, gap=0.5):
        assert one.t >= free.get(one.who, 0.0)
        free[one.who] = one.t + one.lasts if one.who else 0.0


def test_each_kind_of_fault_has_a_lever() -> None:
    assert levers.kinds() == {*schedule.KINDS, *schedule.OF_SHARES}
    assert {when for kind in schedule.KINDS.values() for when in kind.whens} == set(levers.IN_FLIGHT)


def test_a_clock_that_is_moved_jumps_at_once_and_sleeps_go_on(tmp_path: Path) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler (Debian: apt-get install gcc)")
    clock = Clock(library, tmp_path / "clock")
    clock.move(3600.0)
    script = "import time; at = time.monotonic(); time.sleep(0.05); print(time.time(), time.monotonic() - at < 30)"

    shifted = run_command(["python3", "-c", script], environment=clock.environment).stdout.split()
    plain = run_command(["python3", "-c", script]).stdout.split()

    assert 3590 < float(shifted[0]) - float(plain[0]) < 3660
    assert shifted[1] == "True"
