"""Archived objects: asked for, waited for across a kill, then copied."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from compat.fleet import Endpoint
from seqferry.service.service import Service
from support.mover import Mover

EndpointBucketFactory = Callable[[Endpoint], str]
EndpointMoverFactory = Callable[[Any], Mover]


def _delay_restores(moto: Endpoint, seconds: int) -> None:
    """How long moto takes for a restore: by its state manager."""
    connection = HTTPConnection(urlsplit(moto.url).netloc, timeout=30)
    transition = {"progression": "manual", "times": seconds} if seconds else {"progression": "immediate"}
    body = str({"model_name": "s3::keyrestore", "transition": transition}).replace("'", '"')
    connection.request("POST", "/moto-api/state-manager/set-transition", body, {"content-type": "application/json"})
    assert connection.getresponse().status in (200, 201)
    connection.close()


@pytest.fixture
def archive(moto: Endpoint, new_bucket: EndpointBucketFactory) -> str:
    bucket, client = new_bucket(moto), moto.client()
    client.put_object(Bucket=bucket, Key="run/plain", Body=b"plain")
    for number in range(3):
        client.put_object(Bucket=bucket, Key=f"run/cold{number}", Body=b"cold", StorageClass="GLACIER")
    return bucket


def test_an_archived_object_fails_with_the_way_out_unless_it_is_restored(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory, archive: str
) -> None:
    target, mover = new_bucket(moto), mover_at(moto)

    code, summary, err = mover.copy(f"s3://{archive}/run/", f"s3://{target}/in/")

    assert (code, summary["objects_failed"], summary["objects_done"]) == (1, 3, 1), err
    assert all("--restore" in str(one.error_message) for one in mover.objects(summary["id"], "failed"))


def test_archived_objects_are_restored_and_copied(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory, archive: str
) -> None:
    target, client, mover = new_bucket(moto), moto.client(), mover_at(moto)
    _delay_restores(moto, 0)

    code, summary, err = mover.copy(
        f"s3://{archive}/run/", f"s3://{target}/in/", "--restore", "--days", "3", "--tier", "Bulk"
    )

    assert (code, summary["objects_done"]) == (0, 4), err
    assert client.get_object(Bucket=target, Key="in/cold0")["Body"].read() == b"cold"
    with Service.open(mover.settings()) as service:
        (restoring,) = [event for event in service.events(summary["id"]) if event.kind == "restoring"]
    assert restoring.data == {"objects": 3, "days": 3, "tier": "Bulk"}


def test_the_wait_outlives_a_kill(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory, archive: str
) -> None:
    target, client, mover = new_bucket(moto), moto.client(), mover_at(moto)
    # Each HEAD of an object is one step towards its end.
    _delay_restores(moto, 1000)
    running = mover.start("cp", f"s3://{archive}/run/", f"s3://{target}/in/", "--restore")
    running.wait_for_output("was requested")
    (transfer_id,) = set(re.findall(r"[0-9a-f-]{36}", running.stderr))
    running.kill()
    assert mover.status(transfer_id).state == "planning"
    assert "Contents" not in client.list_objects_v2(Bucket=target)

    _delay_restores(moto, 0)
    again = mover.start("resume", transfer_id)
    assert again.wait(120) == 0, again.stderr
    assert client.get_object(Bucket=target, Key="in/cold2")["Body"].read() == b"cold"


def test_a_transfer_says_before_it_moves_anything_what_has_to_be_restored(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory
) -> None:
    bucket, target, client, mover = new_bucket(moto), new_bucket(moto), moto.client(), mover_at(moto)
    cold = [f"run/cold{number:02d}" for number in range(12)]
    for key in cold:
        client.put_object(Bucket=bucket, Key=key, Body=b"cold", StorageClass="GLACIER")
        client.put_object(Bucket=bucket, Key=key.replace("cold", "plain"), Body=b"plain")
    places = f"s3://{bucket}/run/", f"s3://{target}/in/"

    _, summary, err = mover.copy(*places)

    assert summary["objects_done"] == 12, err
    with Service.open(mover.settings()) as service:
        told = service.preflight(summary["id"])
        assert told is not None
        assert [(one["error_code"], one["count"]) for one in told["causes"]] == [("Archived", 12)]
        assert "--restore" in told["causes"][0]["advice"]
    # Listings show the class of what was restored as well.
    _delay_restores(moto, 0)
    for key in cold:
        client.restore_object(Bucket=bucket, Key=key, RestoreRequest={"Days": 1})
        client.head_object(Bucket=bucket, Key=key)
    code, again, err = mover.copy(*places)
    assert (code, again["objects_done"]) == (0, 12), err
    with Service.open(mover.settings()) as service:
        assert service.preflight(again["id"]) is None


def test_archived_objects_alone_end_the_transfer_before_it_begins(
    moto: Endpoint, new_bucket: EndpointBucketFactory, mover_at: EndpointMoverFactory
) -> None:
    bucket, target, client, mover = new_bucket(moto), new_bucket(moto), moto.client(), mover_at(moto)
    for number in range(12):
        client.put_object(Bucket=bucket, Key=f"run/cold{number:02d}", Body=b"cold", StorageClass="GLACIER")

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"s3://{target}/in/")

    assert (code, summary["objects"], summary["error_code"]) == (1, 0, "Archived"), err
