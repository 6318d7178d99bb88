"""The shortest interval of a cron expression, held against the times at which it fires."""

from __future__ import annotations

from itertools import pairwise

import pytest

from seqferry.service.cron import parse, shortest_interval

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
NEW_YEAR = 1_704_067_200.0
"""The first second of 2024, a leap year."""


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("* * * * * *", 1.0),
        ("*/7 * * * * *", 4.0),
        ("0,59 * * * * *", 1.0),
        ("30 * * * * *", MINUTE),
        ("30 0 2 * * *", DAY),
        ("59 59 23 * * *", DAY),
        ("0,1 0 1 1 *", MINUTE),
        ("* * * * *", MINUTE),
        ("*/5 * * * *", 5 * MINUTE),
        ("*/45 * * * *", 15 * MINUTE),
        ("0 */7 * * *", 3 * HOUR),
        ("0 2 * * *", DAY),
        ("0 0,23 * * *", HOUR),
        ("0 0,23 * * mon", 23 * HOUR),
        ("59 23,0 * * mon,tue", HOUR),
        ("0 2 * * mon,thu", 3 * DAY),
        ("0 2 * * mon,sun", DAY),
        ("0 2 1,15 * *", 14 * DAY),
        ("0 2 l * *", 28 * DAY),
        ("0 2 31 * *", 31 * DAY),
        ("0 2 29 2 *", 1461 * DAY),
        ("0 2 13 * fri", DAY),
        ("@hourly", HOUR),
        ("@Weekly", 7 * DAY),
        ("@monthly", 28 * DAY),
        ("@yearly", 365 * DAY),
    ],
)
def test_it_is_that_of_the_two_times_that_are_closest(expression: str, seconds: float) -> None:
    fires = parse(expression, "UTC", NEW_YEAR)
    times = [fires.next_time(NEW_YEAR - 1)]
    while len(times) < 400 and times[-1] < NEW_YEAR + 5 * 366 * DAY:
        times.append(fires.next_time(times[-1]))

    assert shortest_interval(fires.expression) == seconds
    assert min(later - earlier for earlier, later in pairwise(times)) == seconds
