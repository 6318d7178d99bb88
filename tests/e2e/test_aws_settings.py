"""Settings of the AWS tools hold for the command as well, or it says that they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.mover import Mover
from support.proxy import Proxy, internal_error
from support.servers import S3Server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


def test_no_request_is_tried_more_often_than_the_settings_say(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    s3server.client().put_object(Bucket=bucket, Key="run/key", Body=b"content")
    proxy.rule("GetObject", internal_error())
    config = tmp_path / "aws-config"
    config.write_text("[default]\nmax_attempts = 2\nretry_mode = legacy\n")
    mover.env["AWS_CONFIG_FILE"] = str(config)

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"{tmp_path}/in")

    assert (code, summary["objects_failed"]) == (1, 1), f"{summary}\n{err}"
    assert len(proxy.log("GetObject")) == 2
    proxy.clear_log()
    mover.env["SEQFERRY_ATTEMPTS"] = "3"
    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"{tmp_path}/other")
    assert (code, summary["objects_failed"]) == (1, 1), f"{summary}\n{err}"
    assert len(proxy.log("GetObject")) == 3


def test_the_number_of_tries_is_recorded_and_heeded_by_whoever_does_the_work(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    source, target, mover = make_bucket(s3server), make_bucket(s3server), make_mover(proxy.server)
    s3server.client().put_object(Bucket=source, Key="run/key", Body=b"content")
    proxy.rule("CopyObject", internal_error())
    places = (f"s3://{source}/run/", f"s3://{target}/in/")

    transfer = mover.submit(*places, "--attempts", "3")
    mover.start("resume", transfer).wait()

    assert [one.error_code for one in mover.objects(transfer, "failed")] == ["InternalError"]
    assert len(proxy.log("CopyObject")) == 3
    proxy.clear_log()
    transfer = mover.submit(*places, "--attempts", "3")
    mover.env["SEQFERRY_ATTEMPTS"] = "2"
    assert mover.submit(*places, "--attempts", "5") == transfer
    mover.start("resume", transfer).wait()
    assert len(proxy.log("CopyObject")) == 2


def test_settings_without_effect_and_open_bodies_are_told_once(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    run = tmp_path / "run"
    run.mkdir()
    for number in range(20):
        (run / str(number)).write_bytes(b"content")
    config = tmp_path / "aws-config"
    config.write_text("[default]\ns3 =\n  max_bandwidth = 1MB/s\n")
    # An address that is not known to be this machine's.
    with Proxy(s3server, address="0.0.0.0") as proxy:
        mover = make_mover(proxy.server)
        mover.env["AWS_CONFIG_FILE"] = str(config)

        code, summary, err = mover.copy(f"{run}", f"s3://{bucket}/in/")

    assert (code, summary["objects_done"]) == (0, 20), f"{summary}\n{err}"
    assert err.count("--max-bandwidth") == 1, err
    assert err.count("payload_signing_enabled") == 1, err
