"""What a network and a service can do to a mirror: every run ends verified, or failed with the right class."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import Shape, assert_same, fill, open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.proxy import (
    Proxy,
    error_in_200,
    expired_token,
    hold,
    internal_error,
    lose_reply,
    reset,
    slow_down,
    truncate,
)
from support.servers import S3Server

SHAPE = Shape(objects=40, sizes=[0, 1, 17 * MIB, 11 * MIB], odd=False)
COPIES = ("CopyObject", "UploadPartCopy", "CompleteMultipartUpload")


class Stage:
    """A filled source, an empty target, a proxy to make trouble, and a mover behind it."""

    def __init__(self, server: S3Server, source: str, target: str, proxy: Proxy, mover: Mover) -> None:
        self.server, self.source, self.target, self.proxy, self.mover = server, source, target, proxy, mover
        self.arguments = (f"s3://{source}/", f"s3://{target}/copy/", *SMALL_PARTS)

    def assert_whole(self) -> None:
        assert_same(self.server, self.source, self.target, target_prefix="copy/")
        assert open_uploads(self.server, self.target) == []


@pytest.fixture
def stage(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
) -> Stage:
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, rng, SHAPE)
    return Stage(s3server, source, target, proxy, make_mover(proxy.server))


def test_a_storm_of_passing_failures_is_ridden_out(stage: Stage, seed: int) -> None:
    proxy = stage.proxy
    for number, action in enumerate([internal_error(), slow_down(), reset(), lose_reply()]):
        proxy.rule(("HeadObject", "CreateMultipartUpload", *COPIES), action, probability=0.07, seed=seed + number)
    proxy.rule(COPIES, error_in_200(white_space=3), probability=0.07, seed=seed + 9)
    proxy.rule(COPIES, truncate(40), probability=0.05, seed=seed + 10)
    proxy.rule("ListObjectsV2", internal_error(), times=2)

    code, summary, said = stage.mover.copy(*stage.arguments)

    assert code == 0, said
    assert sum(record.retries for record in stage.mover.objects(summary["id"])) > 0
    # A Create whose reply was lost leaves an upload whose id no client knows: it is empty, and nothing else is left.
    lost = [r for r in proxy.log("CreateMultipartUpload") if r.took_effect and not r.succeeded]
    assert_same(stage.server, stage.source, stage.target, target_prefix="copy/")
    assert len(open_uploads(stage.server, stage.target)) <= len(lost)


@pytest.mark.every_server
def test_a_lost_reply_costs_nothing_but_a_question(stage: Stage) -> None:
    rules = {operation: stage.proxy.rule(operation, lose_reply(), times=1) for operation in COPIES}

    code, _, said = stage.mover.copy(*stage.arguments)

    assert code == 0, said
    assert {operation: stage.proxy.fired(rule) for operation, rule in rules.items()} == dict.fromkeys(COPIES, 1)
    stage.assert_whole()


@pytest.mark.every_server  # with all tries on one of them
def test_a_service_that_is_down_for_good_fails_the_objects_as_retryable(stage: Stage) -> None:
    big = "*sized*17825792*"
    stage.proxy.rule("UploadPartCopy", internal_error(), key=big)

    # All the tries that there are without an option take half a minute.
    code, summary, said = stage.mover.copy(*stage.arguments, "--attempts", "4")

    assert code == 1, said
    failed = stage.mover.objects(summary["id"], "failed")
    assert [(record.error_class, record.error_code) for record in failed] == [("retry", "InternalError")]
    assert len(stage.mover.objects(summary["id"], "done")) == SHAPE.objects - 1
    assert open_uploads(stage.server, stage.target) == []
    stage.proxy.clear_rules()
    assert stage.mover.copy(*stage.arguments)[0] == 0
    stage.assert_whole()


@pytest.mark.every_server
def test_a_source_that_is_overwritten_meanwhile_is_copied_whole_in_one_version(
    stage: Stage, rng: random.Random
) -> None:
    key = "sized/000017825792.bin"
    rule = stage.proxy.rule("UploadPartCopy", hold(), key_is=f"copy/{key}", after=1)
    running = stage.mover.start("cp", *stage.arguments, "--json")
    stage.proxy.wait_held(rule)
    newer = rng.randbytes(18 * MIB)
    stage.server.client(stage.server.user).put_object(Bucket=stage.source, Key=key, Body=newer)
    stage.proxy.remove_rule(rule)

    assert running.wait() == 0, str(running)
    stage.assert_whole()
    transfer_id = json.loads(running.stdout.splitlines()[-1])["id"]
    changed = next(r for r in stage.mover.objects(transfer_id) if r.source_key == key)
    assert (changed.state, changed.attempts) == ("done", 2)


def test_a_source_that_is_deleted_meanwhile_is_told_as_such(stage: Stage) -> None:
    key = "sized/000017825792.bin"
    rule = stage.proxy.rule("UploadPartCopy", hold(), key_is=f"copy/{key}")
    running = stage.mover.start("cp", *stage.arguments, "--json")
    stage.proxy.wait_held(rule)
    stage.server.client(stage.server.user).delete_object(Bucket=stage.source, Key=key)
    stage.proxy.remove_rule(rule)

    assert running.wait() == 1, str(running)
    transfer_id = json.loads(running.stdout.splitlines()[-1])["id"]
    failed = stage.mover.objects(transfer_id, "failed")
    assert [(record.source_key, record.error_class) for record in failed] == [(key, "source_changed")]
    assert open_uploads(stage.server, stage.target) == []


def test_a_target_that_is_deleted_meanwhile_is_written_again(stage: Stage) -> None:
    key = "copy/sized/000017825792.bin"
    # Between the end of the copy and the look at it, which --verify content makes for every object.
    rule = stage.proxy.rule("GetObject", hold(), bucket=stage.target, key_is=key)
    running = stage.mover.start("cp", *stage.arguments, "--verify", "content", "--json")
    stage.proxy.wait_held(rule)
    stage.server.client(stage.server.user).delete_object(Bucket=stage.target, Key=key)
    stage.proxy.remove_rule(rule)

    code = running.wait()

    transfer_id = json.loads(running.stdout.splitlines()[-1])["id"]
    record = next(r for r in stage.mover.objects(transfer_id) if r.target_key == key)
    if code == 0:
        stage.assert_whole()
    else:
        assert (code, record.error_class) == (3, "mismatch"), str(running)


def test_listing_survives_trouble(stage: Stage) -> None:
    rules = [stage.proxy.rule("ListObjectsV2", fault, times=2) for fault in (reset(), internal_error())]

    code, _, said = stage.mover.copy(*stage.arguments)

    assert code == 0, said
    assert [stage.proxy.fired(rule) for rule in rules] == [2, 2]
    stage.assert_whole()


def test_credentials_that_expire_are_renewed(stage: Stage, tmp_path: Path) -> None:
    """A credential process gives the mover's keys under two ids, one of which the service stops to take."""
    keys = stage.server.user
    script = tmp_path / "credentials.sh"
    count = tmp_path / "count"
    answer = json.dumps({"Version": 1, "AccessKeyId": keys.access_key, "SecretAccessKey": keys.secret_key})
    script.write_text(f"#!/bin/sh\necho x >> {count}\ncat <<'EOF'\n{answer}\nEOF\n")
    script.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f"[profile lab]\ncredential_process = {script}\nregion = us-east-1\n")
    stage.mover.env = {
        "AWS_CONFIG_FILE": str(config),
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
        "AWS_PROFILE": "",
    }
    rule = stage.proxy.rule("UploadPartCopy", expired_token(), times=2)

    code, _, said = stage.mover.copy(*stage.arguments, "--profile", "lab")

    assert code == 0, said
    assert stage.proxy.fired(rule) == 2
    assert len(count.read_text().split()) >= 2, "the credentials were not asked for anew"
    stage.assert_whole()


def test_credentials_that_cannot_be_renewed_stop_the_job_with_one_message(stage: Stage) -> None:
    stage.proxy.rule(COPIES, expired_token(), after=5)

    code, summary, said = stage.mover.copy(*stage.arguments)

    assert code == 1
    told = said + json.dumps(summary)
    assert "ExpiredToken" in told
    assert "Traceback" not in told
    status = stage.mover.status(summary["id"])
    assert (status.state, status.error_code) == ("failed", "ExpiredToken")
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in told
