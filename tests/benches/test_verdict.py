"""The rule by which two builds are told apart, against an enumeration of all orders and on known data."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

import verdict as rule
from verdict import verdict


def test_a_build_that_takes_half_the_time_is_better() -> None:
    found = verdict([1.0, 1.1, 1.05, 0.95, 1.02], [2.0, 2.2, 2.1, 1.9, 2.04], "lower")

    assert found is not None
    assert found.word == "better"
    assert found.ratio == pytest.approx(0.5, rel=0.05)
    assert found.low < found.ratio < found.high < 1


@pytest.mark.parametrize(("better", "word"), [("lower", "worse"), ("higher", "better"), ("", "different")])
def test_which_way_is_good_decides_over_the_word(better: rule.PreferredDirection, word: str) -> None:
    found = verdict([20.0, 21.0, 22.0, 23.0], [10.0, 11.0, 12.0, 13.0], better)

    assert found is not None
    assert found.word == word


def test_rounds_that_overlap_are_noise() -> None:
    found = verdict([1.0, 1.4, 1.1, 1.3, 1.2], [1.25, 1.05, 1.35, 1.15, 1.45], "lower")

    assert found is not None
    assert found.word == "within noise"
    assert found.low <= 1 <= found.high


def test_three_rounds_tell_nothing_however_far_apart() -> None:
    found = verdict([1.0, 1.1, 1.2], [10.0, 11.0, 12.0], "lower")

    assert found is not None
    assert (found.word, found.why) == ("within noise", "too few rounds to tell")


def test_a_difference_below_the_smallest_is_noise_however_sure() -> None:
    found = verdict([1.010, 1.011, 1.012, 1.013, 1.014], [1.0, 1.001, 1.002, 1.003, 1.004], "lower")

    assert found is not None
    assert (found.word, found.why) == ("within noise", "too small to matter")
    assert found.low > 1


@pytest.mark.parametrize(("new", "old"), [([], [1.0]), ([1.0], []), ([0.0, 1.0], [1.0]), ([1.0], [0.0])])
def test_there_is_no_ratio_of_nothing_and_of_zeros(new: list[float], old: list[float]) -> None:
    assert verdict(new, old, "lower") is None


@pytest.mark.parametrize(("new", "old"), [(4, 4), (4, 6), (5, 5), (6, 5), (7, 4)])
def test_the_interval_misses_the_truth_no_oftener_than_it_says(new: int, old: int) -> None:
    # All orders of the rounds are alike when nothing has changed. In an order, `below` pairs have the new one below.
    counts: dict[int, int] = {}
    orders = list(combinations(range(new + old), new))
    for places in orders:
        others = [place for place in range(new + old) if place not in places]
        below = sum(place < other for place in places for other in others)
        counts[below] = counts.get(below, 0) + 1
    rank = rule._rank(new, old)

    def missed(outside: int) -> float:
        return 2 * sum(count for below, count in counts.items() if below <= outside) / len(orders)

    assert missed(rank) <= 1 - rule.CONFIDENCE < missed(rank + 1)


def test_two_builds_alike_are_seldom_told_apart(rng: random.Random) -> None:
    def rounds() -> list[float]:
        return [rng.lognormvariate(0, 0.2) for _ in range(5)]

    found = [verdict(rounds(), rounds(), "lower") for _ in range(1000)]

    # 3.2 % of orders lie outside; six standard deviations of a thousand draws are 3.3 %.
    assert sum(one is not None and one.word != "within noise" for one in found) < 65
