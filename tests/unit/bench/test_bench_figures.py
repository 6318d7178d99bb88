"""Statements on figures: medians, spreads, the method that is ahead, and the price of DataSync."""

from __future__ import annotations

import pytest

from seqferry.bench import datasync, prices
from seqferry.bench.recommend import Advice, Series, advise
from seqferry.bench.spread import Spread
from seqferry.bench.workload import Workload

MIB, GIB = 2**20, 2**30
WORK = Workload(2, 512 * MIB)


def series(label: str, speeds: list[float], cpu: list[float] | None = None) -> Series:
    return Series(
        workload=WORK,
        direction="upload",
        label=label,
        method=label,
        threads=None,
        part_size=None,
        failed=0,
        speed=Spread.of([speed * MIB for speed in speeds]),
        wall_s=None,
        cpu_s=None,
        cpu_per_gib=Spread.of(cpu or []),
        peak_bytes=None,
    )


def said(*found: Series) -> Advice:
    [advice] = advise(found)
    return advice


def test_the_middle_and_the_ends() -> None:
    assert Spread.of([3, 1, 10]) == Spread(median=3, low=1, high=10, values=3)
    assert Spread.of([]) is None


@pytest.mark.parametrize(
    ("one", "other", "overlap"), [((1, 3), (2, 4), True), ((1, 2), (2, 3), True), ((1, 2), (3, 4), False)]
)
def test_ranges_overlap_when_they_share_a_value(one: tuple[int, int], other: tuple[int, int], overlap: bool) -> None:
    first, second = Spread.of(one), Spread.of(other)

    assert first
    assert second
    assert first.overlaps(second) == second.overlaps(first) == overlap


def test_a_method_whose_worst_run_beats_all_others_is_fastest() -> None:
    advice = said(series("slow", [90, 100, 110]), series("fast", [190, 200, 210]))

    assert advice.fastest == ("fast",)
    assert advice.speed_text == "fast is fastest: 200.0 MiB/s, 2.00 times as fast as slow (100.0 MiB/s)"


def test_no_difference_is_claimed_within_the_spread() -> None:
    advice = said(series("a", [90, 100, 110]), series("b", [95, 105, 115]), series("c", [10, 11, 12]))

    assert advice.fastest == ("b", "a")
    assert advice.speed_text.startswith("no difference beyond the spread between b (105.0 MiB/s), a (100.0 MiB/s)")
    assert advice.sentence == "2 files of 512.0 MiB up: b or a, no difference beyond the spread."


def test_a_sentence_names_the_method_to_take() -> None:
    def sentence(*found: Series) -> str:
        return said(*found).sentence

    both = series("crt", [100, 105, 110], [4, 4.1, 4.2]), series("seqferry", [102, 107, 112], [2, 2.05, 2.1])
    assert sentence(*both, series("boto3", [9, 9.5, 10], [9, 9, 9])) == (
        "2 files of 512.0 MiB up: Seqferry or AWS CRT, no difference beyond the spread; Seqferry takes the least CPU "
        "time, 50 % of that of AWS CRT."
    )
    assert sentence(series("s5cmd", [200, 205, 210], [1, 1, 1]), series("boto3", [9, 9.5, 10], [9, 9, 9])) == (
        "2 files of 512.0 MiB up: s5cmd, 21.58 times as fast as boto3 as it is, and with the least CPU time."
    )
    many = [series(f"m{number}", [100, 105, 110], [number, number + 0.05, number + 0.1]) for number in range(1, 6)]
    assert sentence(*many) == (
        "2 files of 512.0 MiB up: m1, which 4 others do not differ from beyond the spread; m1 takes the least CPU "
        "time, 51 % of that of m2."
    )
    assert sentence(series("a", [100]), series("b", [50])).startswith(
        "2 files of 512.0 MiB up: 1 run of each tells no difference: a verdict needs 3; a was the fastest."
    )
    assert sentence(series("a", [])) == "2 files of 512.0 MiB up: no run succeeded."
    assert sentence(series("aws", [1, 2])) == "2 files of 512.0 MiB up: the AWS CLI, with nothing to compare it with."


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ([100], [900], "1 run of each tells no difference"),
        ([100, 101], [900, 901], "2 runs of each tell no difference"),
        ([100, 101, 102], [900, 901], "2 runs of each tell no difference"),
        ([100], [900, 901, 902], "1 run of each tells no difference"),
    ],
)
def test_fewer_than_three_runs_of_each_tell_no_difference(a: list[float], b: list[float], why: str) -> None:
    advice = said(series("a", a), series("b", b))

    assert advice.fastest == ("b", "a")
    assert f"{why}: a verdict needs 3" in advice.speed_text


def test_a_cpu_time_within_the_spread_is_no_difference() -> None:
    fast, slow = [200.0, 205.0, 210.0], [9.0, 9.5, 10.0]

    assert said(series("s5cmd", fast, [1, 2, 3]), series("boto3", slow, [2, 3, 4])).sentence == (
        "2 files of 512.0 MiB up: s5cmd, 21.58 times as fast as boto3 as it is."
    )


def test_less_cpu_is_better() -> None:
    advice = said(series("lavish", [100] * 3, [9, 9.5, 10]), series("thrifty", [100] * 3, [1, 1.25, 1.5]))

    assert advice.least_cpu == ("thrifty",)
    assert advice.cpu_text.startswith("thrifty is cheapest in CPU: 1.25 s/GiB; lavish takes 7.60 times")


def test_where_nothing_succeeded_nothing_is_recommended() -> None:
    advice = said(series("a", []))

    assert (advice.fastest, advice.speed_text) == ((), "no run succeeded")


def test_each_workload_and_direction_is_judged_by_itself() -> None:
    other = Series(
        **{**{name: getattr(series("a", [1, 2]), name) for name in Series.__slots__}, "direction": "download"}
    )

    assert [(each.workload, each.direction) for each in advise([series("a", [1, 2]), other])] == [
        ("2x512MiB", "upload"),
        ("2x512MiB", "download"),
    ]


def test_datasync_is_arithmetic_and_says_so() -> None:
    basic, enhanced = datasync.model(Workload(10, 2**30))

    assert basic.dollars == pytest.approx(0.125)
    assert enhanced.dollars == pytest.approx(0.15 + 0.55)
    assert {basic.label, enhanced.label} == {"modelled, not measured"}
    assert all(each.bytes_per_second_at_best > 0 and each.basis for each in (basic, enhanced))


def test_requests_and_traffic_have_their_prices() -> None:
    up, down = prices.upload(Workload(1000, 100)), prices.download(Workload(1, 16 * MIB))

    assert (up.writes, up.request_dollars) == (1000, pytest.approx(0.005))
    assert (down.reads, down.bytes_down) == (2, 16 * MIB)
    assert prices.Traffic(bytes_down=2**30).egress_dollars == pytest.approx(0.09)
    assert up.egress_dollars == 0
