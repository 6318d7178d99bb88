"""DBOS, which runs the durable work: the only package that knows its tables and private attributes.

Each workaround names the public verb that would replace it ("Would be replaced by"). What it relies on is tested on
the pinned version by ``tests/integration/dbos/test_contract.py``. The package lies below the service, which enqueues
work in its own transactions, so it knows no step: ``workflows.durable`` registers these.

Transfers of all sizes take one path: the same steps on the same rows (``workflows.transfer_steps``, ``batch_steps``).
The exception saves the start of DBOS, which costs more than a small transfer. On SQLite a worker that was started for a
transfer of at most ``inline.MAX_BATCHES`` batches calls the steps itself: it does not import DBOS, and records no
workflow. With more batches, and after a failure or a kill, ``recovery.enqueue_missing`` puts the transfer on the queue.
"""
