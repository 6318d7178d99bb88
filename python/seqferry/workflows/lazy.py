"""Modules that a worker imports when it needs them: most commands run a small transfer, which needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqferry.model.lazy_modules import lazy_modules

if TYPE_CHECKING:
    from seqferry.dbos import fair_queue as fair_queue
    from seqferry.workflows import anchorer as anchorer
    from seqferry.workflows import durable as durable
    from seqferry.workflows import notifier as notifier
    from seqferry.workflows import schedule_ticks as schedule_ticks
else:
    __getattr__ = lazy_modules(
        __name__,
        fair_queue="seqferry.dbos.fair_queue",
        anchorer="seqferry.workflows.anchorer",
        durable="seqferry.workflows.durable",
        notifier="seqferry.workflows.notifier",
        schedule_ticks="seqferry.workflows.schedule_ticks",
    )
