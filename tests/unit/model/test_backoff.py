from itertools import islice

import pytest

from seqferry.model.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff(1.0, 30.0), [1, 2, 4, 8, 16, 30, 30]),
        (Backoff(0.2, 0.5, factor=1.5), [0.2, 0.3, 0.45, 0.5]),
        (Backoff(5.0, 3600.0, factor=5.0), [5, 25, 125, 625, 3125, 3600]),
        (Backoff(1.0, 8.0, random=lambda: 0.0), [1, 2, 4, 8, 8]),
        (Backoff(1.0, 8.0, random=lambda: 1.0), [0.5, 1, 2, 4, 4]),
        (Backoff(1.0, 8.0, random=iter([0.0, 0.5, 1.0]).__next__), [1, 1.5, 2]),
    ],
)
def test_pauses_grow_up_to_the_longest(backoff: Backoff, expected: list[float]) -> None:
    assert list(islice(backoff.pauses(), len(expected))) == pytest.approx(expected)


def test_a_pause_is_that_after_so_many_failures() -> None:
    assert [Backoff(1.0, 30.0).pause(failures) for failures in (1, 3, 100_000)] == [1.0, 4.0, 30.0]
