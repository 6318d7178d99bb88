"""The view of an autoscaler in the initial schema. This file never changes: a later revision makes a view of its own.

It reads ``transfer``, ``tally``, ``batch`` and ``sample``: a revision that takes a column from them makes it again.
"""

from __future__ import annotations


def statement(*, is_sqlite: bool) -> str:
    """The statement that makes it."""
    now = "((julianday('now') - 2440587.5) * 86400.0)" if is_sqlite else "extract(epoch from clock_timestamp())"
    greatest, least = ("max", "min") if is_sqlite else ("greatest", "least")

    def ceil(value: str) -> str:
        # SQLite may be built without ceil; all values here are positive.
        return f"(cast({value} as integer) + ({value} > cast({value} as integer)))" if is_sqlite else f"ceil({value})"

    def floor(value: str) -> str:
        return f"cast({value} as integer)" if is_sqlite else f"cast(floor({value}) as bigint)"

    return f"""
create view seqferry_autoscale as
with limits as (
    select
        coalesce(max(case when name = 'minimum' then value end), 0) as minimum,
        coalesce(max(case when name = 'maximum' then value end), 20) as maximum,
        60.0 * coalesce(max(case when name = 'drain_minutes' then value end), 15) as drain_seconds
    from autoscale_limit
),
open_transfer as (
    select id, planned_at from transfer where ended_at is null and blocked_by is null and state <> 'paused'
),
backlog as (
    select
        count(*) as transfers,
        count(*) - count(open_transfer.planned_at) as unplanned,
        cast(coalesce(sum(bytes - bytes_done), 0) as double precision) as bytes,
        cast(coalesce(sum(objects - done - skipped - failed - cancelled), 0) as double precision) as objects
    from open_transfer left join tally on tally.transfer_id = open_transfer.id
),
open_batch as (
    select count(*) as batches
    from batch join open_transfer on open_transfer.id = batch.transfer_id
    where batch.state in ('queued', 'active')
),
counters as (
    select
        executor_id, transfer_id, {floor("at / 60.0")} as minute,
        max(at) as at, max(bytes) as bytes, max(requests) as requests
    from sample
    where at > {now} - 86400.0
    group by executor_id, transfer_id, {floor("at / 60.0")}
),
growth as (
    select
        executor_id, minute,
        at - lag(at) over earlier as seconds,
        bytes - lag(bytes) over earlier as bytes,
        requests - lag(requests) over earlier as requests,
        minute - lag(minute) over earlier as minutes
    from counters
    window earlier as (partition by executor_id, transfer_id order by minute)
),
worker_minute as (
    select executor_id, minute, sum(bytes / seconds) as bytes, sum(requests / seconds) as requests
    from growth
    where minutes = 1 and seconds between 30.0 and 90.0 and bytes >= 0 and requests >= 0
    group by executor_id, minute
),
fleet_minute as (
    select
        minute, count(*) as workers, sum(bytes) as bytes, sum(requests) as requests,
        max(bytes) as worker_bytes, max(requests) as worker_requests
    from worker_minute
    group by minute
),
alone as (
    select
        case when coalesce(max(worker_bytes), 0) > 0
            then {greatest}(max(worker_bytes), 67108864.0) else 419430400.0 end as bytes,
        case when coalesce(max(worker_requests), 0) > 0
            then {greatest}(max(worker_requests), 200.0) else 1000.0 end as requests
    from fleet_minute
),
fleet as (
    select fleet_minute.workers, fleet_minute.bytes / alone.bytes + fleet_minute.requests / alone.requests as worth
    from fleet_minute cross join alone
    where minute >= {floor("(" + now + " - 3600.0) / 60.0")} and minute < {floor(now + " / 60.0")}
),
ceiling as (
    select count(*) as minutes, max(best) as worth
    from fleet cross join (select max(worth) as best from fleet) as found
    where workers > 1 and workers * 0.8 > best
),
need as (
    select
        backlog.transfers,
        backlog.bytes as backlog_bytes,
        backlog.objects + backlog.bytes / 134217728.0 as backlog_requests,
        open_batch.batches + backlog.unplanned as open_batches,
        alone.bytes as bytes_per_second_alone,
        alone.requests as requests_per_second_alone,
        case when ceiling.minutes >= 3 then {greatest}(1, {ceil("ceiling.worth")}) end as knee,
        limits.minimum, limits.maximum, limits.drain_seconds
    from backlog cross join open_batch cross join alone cross join ceiling cross join limits
),
wish as (
    select
        need.*,
        case when transfers = 0 then 0 else {least}(
            {greatest}(
                1,
                {ceil("(backlog_bytes / (bytes_per_second_alone * drain_seconds))")},
                {ceil("(backlog_requests / (requests_per_second_alone * drain_seconds))")}
            ),
            {greatest}(1, {ceil("(open_batches / 8.0)")}),
            coalesce(knee, maximum)
        ) end as workers
    from need
)
select
    cast({least}({greatest}(workers, minimum), maximum) as integer) as wanted_workers,
    cast(transfers as bigint) as transfers,
    cast(backlog_bytes as bigint) as backlog_bytes,
    cast({ceil("backlog_requests")} as bigint) as backlog_requests,
    cast(open_batches as bigint) as open_batches,
    cast(bytes_per_second_alone as double precision) as bytes_per_second_alone,
    cast(requests_per_second_alone as double precision) as requests_per_second_alone,
    cast(knee as integer) as knee,
    cast(minimum as integer) as minimum,
    cast(maximum as integer) as maximum,
    cast(drain_seconds as double precision) as drain_seconds
from wish
"""  # noqa: S608 - no value comes from outside
