"""Amounts in words, beside those that the tests of the command line's texts hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.model import formatting

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4, "PiB": 1024**5, "EiB": 1024**6}


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 objects"), (1, "1 object"), (2, "2 objects"), (999, "999 objects"), (1_234_567, "1,234,567 objects")],
)
def test_a_number_of_things_is_singular_for_one_alone(number: int, shown: str) -> None:
    assert formatting.count(number, "object") == shown


@pytest.mark.parametrize(
    ("bytes_per_second", "shown"), [(0, "0 B/s"), (0.9, "0 B/s"), (1536, "1.5 KiB/s"), (3 * 1024**3, "3.0 GiB/s")]
)
def test_a_rate_is_a_size_per_second(bytes_per_second: float, shown: str) -> None:
    assert formatting.rate(bytes_per_second) == shown


@given(st.integers(min_value=0, max_value=1024**7))
def test_a_shown_size_is_the_true_one_but_for_its_last_digit(count: int) -> None:
    figure, unit = formatting.size(count).split(" ")

    assert abs(float(figure) * _UNITS[unit] - count) <= 0.0501 * _UNITS[unit]
    assert float(figure) < 1024 or unit == "EiB"


def _seconds(shown: str) -> float:
    per = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    words = shown.split(" ")
    return sum(float(figure) * per[unit] for figure, unit in zip(words[::2], words[1::2], strict=True))


@given(st.floats(min_value=0, max_value=1e8))
def test_a_shown_duration_is_the_true_one_but_for_its_last_unit(seconds: float) -> None:
    shown = formatting.duration(seconds)
    last = {"s": 1, "min": 60, "h": 3600}[shown.rpartition(" ")[2]]

    assert abs(_seconds(shown) - seconds) <= last + 0.5
    assert not any(f" {full}" in f" {shown}" for full in ("60 s", "60.0 s", "60 min", "48 h "))


def test_a_duration_that_a_clock_set_back_gives_is_none() -> None:
    assert formatting.duration(-3.0) == "0.0 s"
