"""Settings of the AWS tools hold for the command as well, or it says that they do not."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from support.mover import Mover
from support.processes import run, seqferry
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
    files = tmp_path / "run"
    files.mkdir()
    for number in range(20):
        (files / str(number)).write_bytes(b"content")
    config = tmp_path / "aws-config"
    config.write_text("[default]\ns3 =\n  max_bandwidth = 1MB/s\n")
    # An address that is not known to be this machine's.
    with Proxy(s3server, address="0.0.0.0") as proxy:
        mover = make_mover(proxy.server)
        mover.env["AWS_CONFIG_FILE"] = str(config)

        code, summary, err = mover.copy(f"{files}", f"s3://{bucket}/in/")

    assert (code, summary["objects_done"]) == (0, 20), f"{summary}\n{err}"
    assert err.count("--max-bandwidth") == 1, err
    assert err.count("payload_signing_enabled") == 1, err


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without any AWS setting."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("SEQFERRY_STATE_DIR", str(tmp_path / "state"))
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def bucket(versitygw: S3Server, make_bucket: BucketFactory) -> str:
    made = make_bucket(versitygw)
    versitygw.client(versitygw.user).put_object(Bucket=made, Key="run/key", Body=b"content")
    return made


VERBS = ("ls s3://BUCKET/run/", "cp s3://BUCKET/run/ FOLDER", "aws s3 cp s3://BUCKET/run/key FOLDER")
"""Of each way to the storage one."""


def _run(line: str, bucket: str, folder: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    words = line.replace("BUCKET", bucket).replace("FOLDER", str(folder / "in")).split()
    return run([seqferry(), *words, *options], environment=more, expect=None, is_preloaded=True)


def _keys(server: S3Server) -> str:
    known = server.environment()
    return (
        f"aws_access_key_id = {known['AWS_ACCESS_KEY_ID']}\naws_secret_access_key = {known['AWS_SECRET_ACCESS_KEY']}\n"
    )


def test_files_in_other_encodings_than_utf_8_hold(
    versitygw: S3Server, bucket: str, home: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The first section of the file is the one that would be passed over.

    Encodings: ``crates/store/src/s3/profile_files.rs`` and ``tests/unit/model/test_encoding.py``.
    """
    config, named = home / ".aws" / "config", tmp_path / "settings"
    endpoint = f"endpoint_url = {versitygw.endpoint_url}\n"
    for name, encoding in (
        ("AWS_CONFIG_FILE", "utf-8-sig"),
        ("AWS_SHARED_CREDENTIALS_FILE", "utf-16"),
        ("", "latin-1"),
    ):
        with subtests.test(name or str(config)):
            lines = f"[default]\n# é\n{_keys(versitygw)}"
            if name == "AWS_SHARED_CREDENTIALS_FILE":
                config.write_text(f"[default]\n{endpoint}")
            else:
                config.unlink(missing_ok=True)
                lines += endpoint
            (named if name else config).write_text(lines.replace("\n", "\r\n"), encoding=encoding, newline="")

            for line in VERBS[:2]:
                ran = _run(line, bucket, tmp_path, **({name: str(named)} if name else {}))
                assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("region", ["", "region = eu-central-1\n"], ids=["nowhere", "of the source profile"])
def test_a_role_profile_needs_no_region(
    versitygw: S3Server, bucket: str, home: Path, tmp_path: Path, region: str, subtests: pytest.Subtests
) -> None:
    known = versitygw.environment()
    (tmp_path / "token").write_text("token")
    (home / ".aws" / "config").write_text(f"""
[profile base]
aws_access_key_id = AKIABASE
aws_secret_access_key = secret
{region}
[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = base
[profile chained]
role_arn = arn:aws:iam::123456789012:role/second
source_profile = role
[profile web]
role_arn = arn:aws:iam::123456789012:role/web
web_identity_token_file = {tmp_path}/token
[profile environment]
role_arn = arn:aws:iam::123456789012:role/environment
credential_source = Environment
""")
    with _sts(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"]) as (url, regions):
        more = {"AWS_ENDPOINT_URL": versitygw.endpoint_url, "AWS_ENDPOINT_URL_STS": url}
        more |= {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "secret"}
        for profile in ("role", "chained", "web", "environment"):
            with subtests.test(profile):
                regions.clear()

                for line in VERBS[:2]:
                    ran = _run(line, bucket, tmp_path, "--profile", profile, **more)
                    assert ran.returncode == 0, ran.stderr

                is_of_source = region and profile in ("role", "chained")
                expected = "" if profile == "web" else "eu-central-1" if is_of_source else "us-east-1"
                assert set(regions) == {expected}


@pytest.mark.parametrize("is_of_profile", [False, True], ids=["variable", "profile"])
def test_endpoints_of_the_settings_are_ignored_where_the_settings_say_so(
    versitygw: S3Server, bucket: str, home: Path, tmp_path: Path, is_of_profile: bool
) -> None:
    """Only --endpoint-url counts then, as for all AWS tools; without it the request is one to AWS."""
    known = versitygw.environment()
    ignored = "ignore_configured_endpoint_urls = true\n" if is_of_profile else ""
    (home / ".aws" / "config").write_text(f"[default]\nendpoint_url = http://127.0.0.1:1\n{ignored}")
    more = {name: known[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    # No request leaves this machine: the address of AWS is not reached through this proxy.
    more |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:2", "HTTPS_PROXY": "http://127.0.0.1:3"}
    if not is_of_profile:
        more["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"

    for line in VERBS[:2]:
        named = _run(line, bucket, tmp_path, "--endpoint-url", versitygw.endpoint_url, **more)
        without = _run(line, bucket, tmp_path, **more)

        assert named.returncode == 0, named.stderr
        assert without.returncode != 0
        assert "AWS, region" in without.stderr, without.stderr


def test_a_profile_of_the_environment_that_gives_no_credentials_is_named(
    versitygw: S3Server, bucket: str, home: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (home / ".aws" / "config").write_text("[profile without]\nregion = us-east-1\n[default]\n")
    more = {"AWS_ENDPOINT_URL": versitygw.endpoint_url, "AWS_REGION": "us-east-1"}
    for line, profile in itertools.product(VERBS, ("absent", "without")):
        with subtests.test(f"{line} as {profile}"):
            ran = _run(line, bucket, tmp_path, AWS_PROFILE=profile, **more)

            assert ran.returncode == 1
            assert f'profile "{profile}", which AWS_PROFILE names, gives no credentials' in ran.stderr
            assert "provider was not enabled" not in ran.stderr


EMPTY = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"),
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_MAX_ATTEMPTS", "AWS_ROLE_ARN", "AWS_USE_FIPS_ENDPOINT"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_RETRY_MODE"),
    *("AWS_ENDPOINT_URL", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
)


def test_a_variable_that_is_set_to_nothing_is_not_set(
    versitygw: S3Server, bucket: str, home: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """As a container gets it from a template whose value is not there."""
    known = versitygw.environment()
    (home / ".aws" / "config").write_text(f"""
[default]
endpoint_url = {versitygw.endpoint_url}
{_keys(versitygw)}
[profile role]
endpoint_url = {versitygw.endpoint_url}
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = default
""")
    with _sts(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"]) as (url, regions):
        more = {**dict.fromkeys(EMPTY, ""), "AWS_ENDPOINT_URL_STS": url}
        for line, options in itertools.product(VERBS, ((), ("--profile", "role"))):
            with subtests.test(" ".join((line, *options))):
                regions.clear()

                ran = _run(line, bucket, tmp_path, *options, **more)

                assert ran.returncode == 0, ran.stderr
                assert set(regions) == ({"us-east-1"} if options else set())


@contextmanager
def _sts(key: str, secret: str) -> Generator[tuple[str, list[str]]]:
    """A service that gives each role these keys: its address, and the regions that requests were signed for."""
    regions: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
            action = dict(parse_qsl(asked))["Action"]
            scope = self.headers.get("Authorization", "").partition("Credential=")[2].partition(",")[0].split("/")
            regions.append(scope[2] if len(scope) > 2 else "")
            body = (
                f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
                f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken/>"
                f"<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials><AssumedRoleUser><AssumedRoleId>A:s"
                f"</AssumedRoleId><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn></AssumedRoleUser>"
                f"</{action}Result></{action}Response>"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", regions
        finally:
            server.shutdown()
            thread.join()
