"""Fair queue: where several people have work on a queue, each gets an equal part of the workers.

DBOS runs workflows in the order of their priority column, and within one value in the order of their creation: a person
with a thousand batches would be served before all later submissions. So batches of people with less running work than
others move to the first values of their priority, which are reserved for this: as many as workers can begin until the
next check. Priorities of transfers come first, and the order of one person's batches stays. Runs of schedules have a
queue of their own and one value.

Would be replaced by queues of DBOS that are fair between keys: partitions have limits, and no order among each other.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import worker_rows
from seqferry.db.advisory import AdvisoryLock, try_acquire
from seqferry.db.database import Database
from seqferry.dbos.queue import PRIORITY_STEP, table_of
from seqferry.model import names
from seqferry.model.models import MAX_PRIORITY

_TRANSFER_ID: Final = 36
"""Ids of workflows begin with the id of their transfer, a UUID of so many characters."""

_IN_ORDER: Final = 12
"""Reserved values before those by size (``batching.priority``): so many batches are put in order."""

_BATCHES_PER_CHECK: Final = 32
"""Batches that a worker begins at most between two checks, a second apart (``runner``)."""


def check(database: Database) -> None:
    """Rebalance the queue where several people have work on it."""
    with database.read() as connection:
        if not is_contended(connection):
            return
        slots = _BATCHES_PER_CHECK * max(worker_rows.count_alive(connection), 1)
    with database.write(durable=False) as connection:
        rebalance(connection, slots)


def is_contended(connection: sa.Connection) -> bool:
    """True when several people have work of one priority waiting on a queue."""
    return any(_execute(connection, _SEVERAL, work).first() for work in (_WORK, _RUNS))


def rebalance(connection: sa.Connection, slots: int) -> None:
    """Move the work of people with less running work than others to the front.

    Args:
        slots: workflows that workers may begin before the next call.
    """
    if try_acquire(connection, AdvisoryLock.FAIR_TURNS):
        _execute(connection, _SHARE, _WORK, slots=slots, in_order=_IN_ORDER)
        _execute(connection, _SHARE, _RUNS, slots=slots, in_order=slots)


def _execute(connection: sa.Connection, text: str, work: str, **more: int) -> sa.CursorResult[Any]:
    if connection.dialect.name == "sqlite":
        before = "substr(t.created_by, 1, instr(t.created_by || '{0}', '{0}') - 1)"
        collation = ""
    else:
        before = "split_part(t.created_by, '{0}', 1)"
        collation = 'collate "C"'
    # One person on several hosts is one, and so is a token that several addresses use (``actors.client_of``).
    client, user = before.format(" from "), before.format("@")
    person = f"case when t.created_by like 'http %' then {client} else {user} end"
    table = table_of(connection)
    work = work.format(table=table, collation=collation, person=person)
    return connection.execute(sa.text(text.format(table=table, work=work)), {**_PARAMETERS, **more})


_PARAMETERS: Final = {
    "app": names.APPLICATION,
    "transfers": names.QUEUE_TRANSFERS,
    "batches": names.QUEUE_BATCHES,
    "runs": names.QUEUE_SCHEDULES,
    "paused": f"%.{names.PAUSED_LANE}",
    "most": MAX_PRIORITY,
    "step": PRIORITY_STEP,
}

_WORK: Final = f"""
    select w.workflow_uuid as id, w.queue_name as queue, w.status, w.priority as place, w.created_at,
        {{person}} as person, t.priority
    from {{table}} w join transfer t on t.id = substr(w.workflow_uuid, 1, {_TRANSFER_ID}) {{collation}}
    where w.status in ('ENQUEUED', 'PENDING') and w.application_name = :app
        and (w.queue_name in (:transfers, :batches) or w.queue_name like :transfers || '.%'
            or w.queue_name like :batches || '.%')
        and w.queue_name not like :paused
"""  # noqa: S608 - constants

_RUN_PREFIX: Final = 6
"""Ids of the workflows of runs are ``sched-`` and the id of the schedule."""

_RUNS: Final = f"""
    select w.workflow_uuid as id, w.queue_name as queue, w.status, w.priority as place, w.created_at,
        {{person}} as person, :most as priority
    from {{table}} w join schedule t on t.id = substr(w.workflow_uuid, {_RUN_PREFIX + 1}, {_TRANSFER_ID}) {{collation}}
    where w.status in ('ENQUEUED', 'PENDING') and w.application_name = :app and w.queue_name = :runs
"""  # noqa: S608 - constants

_SEVERAL: Final = """
    select queue from ({work}) work where status = 'ENQUEUED'
    group by queue, priority having count(distinct person) > 1 limit 1
"""

# Running workflows of a person count in their queue with any priority: they occupy workers. A batch that was moved to
# the front before, and is not any more, stays before the others: its value by size is not known any more.
_SHARE: Final = """
    with work as ({work}),
    waiting as (
        select work.*, :step * (:most - priority) as first,
            row_number() over (partition by queue, priority, person order by place, created_at) as number
        from work where status = 'ENQUEUED'
    ),
    running as (select queue, person, count(*) as running from work where status = 'PENDING' group by queue, person),
    contended as (select queue, priority from waiting group by queue, priority having count(distinct person) > 1),
    ranked as (
        select waiting.id, waiting.place, waiting.first, row_number() over (
            partition by queue, priority order by coalesce(running, 0) + number, waiting.place, waiting.created_at
        ) as rank
        from waiting join contended using (queue, priority) left join running using (queue, person)
    ),
    due as (
        select id, place, case when rank <= :in_order then first - :in_order - 1 + rank else first end as due
        from ranked where rank <= :slots or place <= first
    )
    update {table} set priority = (select due from due where due.id = workflow_uuid)
    where workflow_uuid in (select id from due where place <> due) and status = 'ENQUEUED'
"""
