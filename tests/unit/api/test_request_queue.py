"""Requests wait for their turn: within the limits, each holder's in their order, and none for one other alone."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from seqferry.api.request_queue import Limit, RequestQueue

FOREVER = 3600.0

# An entry of a holder, or the end of one of the requests under way.
_ACTS = st.lists(st.one_of(st.sampled_from("abc"), st.integers(0, 20)), max_size=60)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@given(_ACTS, st.integers(1, 6), st.integers(0, 8))
def test_requests_begin_within_the_limits_and_in_the_order_of_each_holder(
    acts: list[str | int], most: int, waiting: int
) -> None:
    asyncio.run(_play(acts, most, waiting))


async def _play(acts: list[str | int], most: int, waiting: int) -> None:
    queue = RequestQueue(Limit(most, waiting, FOREVER))
    of_one = max(most // 2, 1)
    under_way, refused = list[tuple[str, int]](), list[tuple[str, int]]()
    entered, begun = Counter[str](), dict[str, int]()
    tasks = list[asyncio.Task[None]]()

    async def enter(holder: str, number: int) -> None:
        if not await queue.enter(holder):
            refused.append((holder, number))
            return
        assert begun.get(holder, -1) < number
        begun[holder] = number
        under_way.append((holder, number))

    for act in acts:
        if isinstance(act, str):
            tasks.append(asyncio.create_task(enter(act, entered[act])))
            entered[act] += 1
        elif under_way:
            queue.leave(under_way.pop(act % len(under_way))[0])
        await _settle()
        of_each = Counter(holder for holder, _ in under_way)
        assert len(under_way) <= most
        assert max(of_each.values(), default=0) <= of_one
        left = sum(not task.done() for task in tasks)
        assert left <= waiting
        # No request waits while its holder has room.
        assert left == 0 or len(under_way) == most or max(of_each.values()) == of_one
    while under_way:
        queue.leave(under_way.pop()[0])
        await _settle()
    assert all(task.done() for task in tasks)


def test_the_holder_with_the_fewest_requests_under_way_is_next() -> None:
    async def play() -> list[str]:
        queue = RequestQueue(Limit(4, 8, FOREVER))
        order = list[str]()

        async def enter(holder: str) -> None:
            assert await queue.enter(holder)
            order.append(holder)

        async with asyncio.TaskGroup() as group:
            for holder in ("busy", "busy", "other", "other", "busy", "busy", "late"):
                group.create_task(enter(holder))
            await _settle()
            assert order == ["busy", "busy", "other", "other"]
            for holder in ("other", "busy", "busy"):
                queue.leave(holder)
            await _settle()
        return order

    assert asyncio.run(play()) == ["busy", "busy", "other", "other", "late", "busy", "busy"]


def test_a_request_that_waits_too_long_is_refused_and_takes_no_place() -> None:
    async def play() -> list[bool]:
        queue = RequestQueue(Limit(2, 2, 0.01))
        found = [await queue.enter("a"), await queue.enter("a")]
        queue.leave("a")
        return [*found, await queue.enter("a")]

    assert asyncio.run(play()) == [True, False, True]


def test_a_request_whose_client_leaves_takes_no_place() -> None:
    async def play() -> bool:
        queue = RequestQueue(Limit(2, 2, FOREVER))
        assert await queue.enter("a")
        gone = asyncio.create_task(queue.enter("a"))
        await _settle()
        gone.cancel()
        await _settle()
        queue.leave("a")
        return await queue.enter("a")

    assert asyncio.run(play())
