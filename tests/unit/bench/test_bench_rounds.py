"""The order of runs, and what is noted of a comparison that ends early."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from seqferry.bench.rounds import Outcome, make_work_folder, rotated, run_in_rounds
from seqferry.model.errors import ConfigError, UsageError


@dataclass(frozen=True)
class Ran:
    item: str
    round: int
    place: int
    error: str | None = None


def test_each_round_begins_with_another_item() -> None:
    runs: list[Ran] = []

    run_in_rounds("abc", Ran, runs.append, warm_up=1, rounds=range(1, 4))

    assert ["".join(run.item for run in runs if run.round == number) for number in (1, 2, 3)] == ["bca", "cab", "abc"]
    assert [run.place for run in runs] == [0, 1, 2] * 3
    assert rotated([], 5) == []


def test_an_item_that_fails_when_it_warms_up_is_recorded_once_and_left_out() -> None:
    runs: list[Ran] = []

    def once(item: str, round_: int, place: int) -> Ran:
        return Ran(item, round_, place, "it broke" if item == "b" else None)

    run_in_rounds("abc", once, runs.append, warm_up=2, rounds=range(2))

    assert [(run.item, run.round) for run in runs] == [("b", -1), ("a", 0), ("c", 0), ("c", 1), ("a", 1)]


@pytest.mark.parametrize(
    ("raised", "interrupted", "said"),
    [
        (KeyboardInterrupt(), True, None),
        (BrokenPipeError(), True, None),
        (UsageError("no."), False, "no."),
        (OSError(28, "No space left on device"), False, "/work: No space left on device. Give another folder with"),
    ],
)
def test_what_ends_a_comparison_early_is_noted(raised: BaseException, interrupted: bool, said: str | None) -> None:
    outcome = Outcome[Ran](runs=[Ran("a", 0, 0), Ran("b", 0, 1, "it broke")])

    with outcome.noted(Path("/work")):
        raise raised

    assert outcome.interrupted is interrupted
    assert (outcome.error is None) == (said is None)
    assert said is None or str(outcome.error).startswith(said)
    assert [run.item for run in outcome.failed] == ["b"]


def test_a_work_folder_needs_room_and_a_place(tmp_path: Path) -> None:
    assert make_work_folder(tmp_path / "new", 1, "less").parent == tmp_path / "new"
    with pytest.raises(ConfigError, match=r"the bench needs 1.0 EiB there. .* --work-folder, or less."):
        make_work_folder(tmp_path, 2**60, "less")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--work-folder .*/file"):
        make_work_folder(tmp_path / "file", 1, "less")
