"""The rules by which workers own batches, in every order of events (``tests/support/ownership.py``)."""

from __future__ import annotations

import pytest

from support.ownership import Rules, State, explore


def test_no_order_of_events_lets_two_workers_write_or_record() -> None:
    ended = 0

    def visit(state: State) -> None:
        nonlocal ended
        ended += state.ended

    states, violation = explore(2, Rules(claims=3), visit)

    assert violation == []
    assert states > 10_000
    assert ended > 100, "the model never comes to an end"


@pytest.mark.parametrize("rules", [Rules(lease=False), Rules(admission=False), Rules(fence=False), Rules(reread=False)])
def test_the_model_finds_what_goes_wrong_without_each_rule(rules: Rules) -> None:
    _states, violation = explore(2, rules)

    assert violation, "a rule that is not needed"
    assert len(violation) < 20
