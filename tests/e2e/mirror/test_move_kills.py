"""A move whose worker is killed again and again: each object is at one of both places, always, and in the end moved."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from support.mover import Mover
from support.proxy import Proxy, hold
from support.servers import S3Server

KILLS = 6
OBJECTS = 30
WRITES = ("CopyObject", "DeleteObject")


def _contents(server: S3Server, bucket: str, prefix: str) -> dict[str, bytes]:
    client = server.client()
    listed = client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return {
        one["Key"].removeprefix(prefix): client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        for one in listed
    }


@pytest.mark.timeout(300)
def test_a_move_that_is_killed_loses_and_doubles_nothing(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    sent = {f"{number:03d}": rng.randbytes(200 + number) for number in range(OBJECTS)}
    for name, body in sent.items():
        s3server.client().put_object(Bucket=source, Key=f"run/{name}", Body=body)
    proxy = make_proxy(s3server)
    mover = make_mover(proxy.server)
    submitted = mover.start("mv", f"s3://{source}/run/", f"s3://{target}/in/", "--detach")
    assert submitted.wait() == 0, str(submitted)
    transfer_id = submitted.stdout.strip()

    for kill in range(KILLS):
        operation = "CopyObject" if kill < 2 else "DeleteObject"
        rule = proxy.rule(operation, hold(rng.choice(["request", "reply"])), after=rng.randrange(1, 6))
        with mover.start("worker", "--max-requests", str(rng.choice([1, 2, 4]))) as worker:
            proxy.wait_held(rule, deadline=60)
            worker.kill()
        proxy.remove_rule(rule)
        proxy.wait_idle()

        left, arrived = _contents(s3server, source, "run/"), _contents(s3server, target, "in/")
        assert arrived | left == sent, f"kill {kill}: an object is at neither place"
        assert all(body == sent[name] for name, body in arrived.items())
        if kill < 2:
            assert left == sent, "removed before all was on record"

    with mover.start("resume", transfer_id) as last:
        assert last.wait(120) == 0, str(last)

    assert _contents(s3server, source, "run/") == {}
    assert _contents(s3server, target, "in/") == sent
    status = mover.status(transfer_id)
    assert (status.state, status.totals.done + status.totals.skipped, status.totals.failed) == ("done", OBJECTS, 0)
    removed = [one.key for one in proxy.log("DeleteObject") if one.took_effect]
    assert sorted(set(removed)) == sorted(f"run/{name}" for name in sent)
