"""What several threads write is committed together, and what is wrong with one part is no matter of the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

import pytest
import sqlalchemy as sa
from control import spec_number

from seqferry.db.group_commit import GroupCommit
from seqferry.model.errors import ConfigError, ConflictError
from seqferry.service.service import Service
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # each has its own locks

Part = TypeVar("Part")
Result = TypeVar("Result")


def _together(group: GroupCommit[Part, Result], *calls: Callable[[], Result]) -> list[Future[Result]]:
    """The ends of calls that come while another thread writes, in a pool that waits for them."""
    with ThreadPoolExecutor(len(calls)) as pool, ExitStack() as held:
        while group._writing.acquire(blocking=False):  # pyright: ignore[reportPrivateUsage]
            held.callback(group._writing.release)  # pyright: ignore[reportPrivateUsage]
        futures = [pool.submit(call) for call in calls]
        eventually(lambda: len(group._waiting) == len(calls), what="all to wait")  # pyright: ignore[reportPrivateUsage]
    return futures


def test_submissions_that_come_together_share_a_commit(service: Service) -> None:
    commits = list[None]()
    sa.event.listen(service.database.engine, "commit", lambda _: commits.append(None))

    ended = _together(
        service._submissions,  # pyright: ignore[reportPrivateUsage]
        *(lambda number=number: service.submit_or_resume(spec_number(number // 2), actor="ada") for number in range(8)),
    )

    assert len(commits) == 1
    found = [one.result() for one in ended]
    assert len({one.id for one in found}) == 4
    assert sorted(one.goes_on for one in found) == [False] * 4 + [True] * 4  # the same ones are one
    audit = service.audit()
    assert list(audit.findings) == []
    assert (audit.counts.transfers, audit.counts.entries) == (4, 4)


def test_a_submission_that_is_refused_fails_alone(service: Service) -> None:
    service.submit(spec_number(0), actor="ada", idempotency_key="k")

    def submit(number: int) -> str:
        return service.submit(spec_number(number), actor="ada", idempotency_key="k" if number == 2 else None)

    ended = _together(
        service._submissions,  # pyright: ignore[reportPrivateUsage]
        *(lambda number=number: submit(number) for number in range(1, 4)),
    )

    assert [type(one.exception()) for one in ended] == [type(None), ConflictError, type(None)]
    assert [service.status(ended[at].result()).state for at in (0, 2)] == ["queued", "queued"]


def test_an_outage_of_the_database_is_reported_to_all_after_one_attempt(service: Service) -> None:
    attempts = list[int]()

    def write(connection: sa.Connection, parts: Sequence[int]) -> list[int]:
        attempts.append(len(parts))
        raise ConfigError(f"The database {connection.engine.name} cannot be used.")

    group = GroupCommit(service.database, write)

    ended = _together(group, *(lambda number=number: group.commit(number) for number in range(5)))

    assert [type(one.exception()) for one in ended] == [ConfigError] * 5
    assert attempts == [5]


@pytest.mark.parametrize("writers", [1, 3])
def test_each_thread_gets_the_result_of_its_own_part(service: Service, writers: int) -> None:
    def write_parts(_: sa.Connection, parts: Sequence[int]) -> list[int]:
        if len(parts) > 1 and any(one % 10 == 7 for one in parts):
            raise ValueError(parts)
        return [-one for one in parts]

    group = GroupCommit(service.database, write_parts, writers=writers)
    results = dict[int, int]()

    def write(first: int) -> None:
        for number in range(first, first + 50):
            results[number] = group.commit(number)

    threads = [threading.Thread(target=write, args=(100 * thread,)) for thread in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {number: -number for number in results}
    assert len(results) == 400
