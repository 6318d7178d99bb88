"""The simulated day of an autoscaler: the formula is not misled by a ceiling that workers share."""

from __future__ import annotations

import statistics

import pytest

import simulate_autoscaling as simulation


@pytest.mark.parametrize("policy", ["open batches / 10", "bytes / (mean rate * T)"])
def test_behind_a_shared_ceiling_the_formula_wastes_a_third_of_others_at_most(policy: str) -> None:
    def days(name: str) -> list[simulation.Outcome]:
        return [simulation.simulate(simulation.POLICIES[name], 2 * simulation.GIB, seed) for seed in range(4)]

    formula, other = days("the formula"), days(policy)

    assert statistics.mean(one.useless for one in formula) < statistics.mean(one.useless for one in other) / 3
    assert max(max(one.waits) for one in formula) <= 1.1 * max(max(one.waits) for one in other)
