"""The bound on requests of one share link."""

from __future__ import annotations

from seqferry.api.link_rate import _LINKS, MOST, WINDOW_SECONDS, LinkRate  # pyright: ignore[reportPrivateUsage]


def test_a_link_waits_for_its_own_window_alone() -> None:
    now = [100.0]
    rate = LinkRate(lambda: now[0])
    assert [rate.wait("a") for _ in range(MOST)] == [0.0] * MOST
    now[0] += 10
    assert (rate.wait("a"), rate.wait("b")) == (WINDOW_SECONDS - 10, 0.0)
    now[0] += WINDOW_SECONDS - 10
    assert rate.wait("a") == 0.0


def test_few_links_are_remembered() -> None:
    rate = LinkRate(lambda: 0.0)
    for number in range(2 * _LINKS):
        rate.wait(str(number))
    assert len(rate._windows) == _LINKS  # pyright: ignore[reportPrivateUsage]
