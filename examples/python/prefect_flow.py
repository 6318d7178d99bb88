"""Prefect 3: mirror a delivery as a task. A retried task goes on with the same transfer.

SEQFERRY_URL and SEQFERRY_TOKEN are in the environment of the worker.
"""

from __future__ import annotations

from prefect import flow, task
from prefect.runtime import flow_run

from seqferry import Client


@task(retries=3, retry_delay_seconds=60)
def mirror(source: str, target: str) -> str:
    with Client() as client:
        transfer_id = client.submit(source, target, idempotency_key=f"prefect {flow_run.id} {target}")
        client.wait(transfer_id, timeout=6 * 3600)  # raises when objects failed
    return transfer_id


@flow
def deliveries(sources: list[str], target: str) -> list[str]:
    return [mirror(source, f"{target}{source.rstrip('/').rpartition('/')[2]}/") for source in sources]


if __name__ == "__main__":
    deliveries(["s3://vendor/run42/"], "s3://ours/")
