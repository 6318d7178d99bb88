"""The instruments themselves: a test that rests on them is worth no more than they are."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.processes import RunningProcess
from support.run import ROOT
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.every_server


def test_admin_and_mover_share_a_bucket(s3server: S3Server, make_bucket: Callable[..., str]) -> None:
    bucket = make_bucket(s3server)

    s3server.client(s3server.user).put_object(Bucket=bucket, Key="a b", Body=b"one")
    s3server.client(s3server.admin).put_object(Bucket=bucket, Key="ü", Body=b"two")

    for who in (s3server.admin, s3server.user):
        client = s3server.client(who)
        assert client.get_object(Bucket=bucket, Key="a b")["Body"].read() == b"one"
        assert client.get_object(Bucket=bucket, Key="ü")["Body"].read() == b"two"


def test_a_wrong_secret_is_refused(s3server: S3Server, make_bucket: Callable[..., str]) -> None:
    bucket = make_bucket(s3server)
    stranger = type(s3server.user)(s3server.user.access_key, "wrong")

    with pytest.raises(ClientError) as raised:
        s3server.client(stranger).put_object(Bucket=bucket, Key="k", Body=b"")

    assert raised.value.response["Error"]["Code"] == "SignatureDoesNotMatch"


def test_a_policy_denies_the_mover_a_prefix(s3server: S3Server, make_bucket: Callable[..., str]) -> None:
    bucket = make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="secret/x", Body=b"")
    s3server.client().put_object(Bucket=bucket, Key="open/x", Body=b"")

    s3server.deny(bucket, "secret/*", actions=["s3:GetObject"])

    mover = s3server.client(s3server.user)
    assert mover.get_object(Bucket=bucket, Key="open/x")["Body"].read() == b""
    with pytest.raises(ClientError) as raised:
        mover.get_object(Bucket=bucket, Key="secret/x")
    assert raised.value.response["Error"]["Code"] == "AccessDenied"


def test_a_deleted_bucket_takes_versions_and_uploads_with_it(s3server: S3Server) -> None:
    bucket = s3server.create_bucket(versioned=True)
    client = s3server.client()
    client.put_object(Bucket=bucket, Key="k", Body=b"one")
    client.put_object(Bucket=bucket, Key="k", Body=b"two")
    client.delete_object(Bucket=bucket, Key="k")
    client.create_multipart_upload(Bucket=bucket, Key="k")

    s3server.delete_bucket(bucket)

    assert bucket not in {entry["Name"] for entry in client.list_buckets()["Buckets"]}


@pytest.mark.postgres
def test_each_database_is_fresh(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE t (x integer)")

        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


SERVER_OWNER = """
import signal, sys
sys.path.insert(0, sys.argv[1])
from support import servers
from support.run import Run
run = Run.create()
print(run.folder, servers.start(run, sys.argv[2]).endpoint_url, flush=True)
signal.pause()
"""


def test_servers_end_with_the_process_that_started_them_however_it_dies(s3server: S3Server) -> None:
    owner = [sys.executable, "-c", SERVER_OWNER, ROOT / "tests", s3server.kind]
    with RunningProcess(owner) as process:
        folder, endpoint = process.wait_for_line("http://").split()

        process.kill()

        eventually(lambda: not any((Path(folder) / "servers").glob("*/")), what="the server's data to be removed")
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", int(endpoint.rsplit(":", 1)[1]))) != 0
    shutil.rmtree(folder)


def test_the_environment_holds_nothing_of_the_developers() -> None:
    assert os.environ["AWS_CONFIG_FILE"] == os.devnull
    assert "AWS_PROFILE" not in os.environ
    assert "AWS_ENDPOINT_URL" not in os.environ
