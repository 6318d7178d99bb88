"""The bound on requests of one share link."""

from __future__ import annotations

from seqferry.api.link_rate import _LINKS, MAX_REQUESTS, WINDOW_SECONDS, LinkRate  # pyright: ignore[reportPrivateUsage]


def test_a_link_waits_for_its_own_window_alone() -> None:
    now = [100.0]
    rate = LinkRate(lambda: now[0])
    assert [rate.admit("a") for _ in range(MAX_REQUESTS)] == [0.0] * MAX_REQUESTS
    now[0] += 10
    assert (rate.admit("a"), rate.admit("b")) == (WINDOW_SECONDS - 10, 0.0)
    now[0] += WINDOW_SECONDS - 10
    assert rate.admit("a") == 0.0


def test_few_links_are_remembered() -> None:
    rate = LinkRate(lambda: 0.0)
    for number in range(2 * _LINKS):
        rate.admit(str(number))
    assert len(rate._windows) == _LINKS  # pyright: ignore[reportPrivateUsage]
