"""Airflow 2.9 or newer: mirror the delivery of each night. A retried task goes on with the same transfer.

SEQFERRY_URL and SEQFERRY_TOKEN are in the environment of the workers.
"""

from __future__ import annotations

import pendulum
from airflow.decorators import dag, task
from airflow.operators.python import get_current_context


@dag(schedule="0 2 * * *", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False)
def mirror_delivery() -> None:
    @task(retries=3)
    def mirror(source: str, target: str) -> str:
        from seqferry import Client

        run = get_current_context()["run_id"]
        with Client() as client:
            transfer_id = client.submit(source, target, idempotency_key=f"airflow {run} {target}")
            client.wait(transfer_id, timeout=6 * 3600)  # raises when objects failed
        return transfer_id

    mirror("s3://vendor/{{ ds }}/", "s3://ours/{{ ds }}/")


mirror_delivery()
