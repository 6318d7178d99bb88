"""DBOS, which runs the durable work: the only package that knows its tables and private attributes.

Each workaround names the public verb that would replace it ("Would be replaced by"). What it relies on is tested on
the pinned version by ``tests/integration/dbos/test_contract.py``. The package lies below the service, which enqueues
work in its own transactions, so it knows no step: ``workflows.durable`` registers these.

One path for transfers of all sizes: the same steps on the same rows (``workflows.transfer_steps``, ``batch_steps``).
It differs where the start of DBOS would cost more than the transfer, on SQLite only:

- A worker that was started for a transfer of at most ``inline.MAX_BATCHES`` batches calls these steps itself. It
  neither imports nor launches DBOS (``library`` is imported on first use), and no workflow is recorded.
- With more batches, a failure that needs a retry, or a kill, ``recovery.enqueue_missing`` puts the transfer on the
  queue, and the steps run again on the same rows.
"""
