"""Fair turns: where several people have work on a queue, each gets an equal part of the workers.

The queue library takes what has the lowest place first, and of one place what waits longest: a person with a thousand
batches would be served before all who come later. So the batches of those who have less under way than the others move
to the first places of their priority, which nothing has otherwise, as many as workers can take until the next look.
Priorities come first, and the order of one person's batches stays. Runs of schedules wait on a queue of their own,
where all have one place.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, try_take
from seqferry.db.queue import PRIORITY_STEP
from seqferry.model import names
from seqferry.model.models import MAX_PRIORITY

_TRANSFER_ID: Final = 36
"""Ids of workflows begin with the id of their transfer, a UUID of so many letters."""

_IN_ORDER: Final = 12
"""Places before the first one of a priority that no size has (``batching.priority``): so many go in their order."""


def is_contended(connection: sa.Connection) -> bool:
    """True when several people have work of one priority waiting on a queue."""
    return any(
        connection.execute(_statement(connection, _SEVERAL, work), _parameters()).first() for work in (_WORK, _RUNS)
    )


def share(connection: sa.Connection, slots: int) -> None:
    """Let those go first who have less under way than the others.

    Args:
        slots: workflows that workers may take before this is called again.
    """
    if try_take(connection, AdvisoryLock.FAIR_TURNS):
        connection.execute(_statement(connection, _SHARE, _WORK), _parameters(slots, in_order=_IN_ORDER))
        connection.execute(_statement(connection, _SHARE, _RUNS), _parameters(slots, in_order=slots))


def _statement(connection: sa.Connection, text: str, work: str) -> sa.TextClause:
    if connection.dialect.name == "sqlite":
        before = "substr(t.created_by, 1, instr(t.created_by || '{0}', '{0}') - 1)"
        table, collation = "workflow_status", ""
    else:
        before = "split_part(t.created_by, '{0}', 1)"
        table, collation = "dbos.workflow_status", 'collate "C"'
    # One person on several hosts is one, and so is a token that several addresses use (``actors.client_of``).
    client, user = before.format(" from "), before.format("@")
    person = f"case when t.created_by like 'http %' then {client} else {user} end"
    work = work.format(table=table, collation=collation, person=person)
    return sa.text(text.format(table=table, work=work))


def _parameters(slots: int | None = None, *, in_order: int = 0) -> dict[str, str | int]:
    given: dict[str, str | int] = {
        "app": names.APPLICATION,
        "transfers": names.QUEUE_TRANSFERS,
        "batches": names.QUEUE_BATCHES,
        "runs": names.QUEUE_SCHEDULES,
        "paused": f"%.{names.PAUSED_LANE}",
        "most": MAX_PRIORITY,
    }
    return given if slots is None else {**given, "step": PRIORITY_STEP, "slots": slots, "in_order": in_order}


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
"""Ids of the workflows of runs begin with ``sched-``, and go on with the id of the schedule."""

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

# Those under way of a person count in its queue, whatever their priority: they hold places of workers. What was to go
# first before, and is not any more, stays before all that never was: its place by size is not known any more.
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
