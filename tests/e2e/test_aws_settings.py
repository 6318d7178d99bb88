"""Settings of the AWS tools hold for the command as well, or it says that they do not."""

from __future__ import annotations

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
from support.processes import seqferry
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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1"])
@pytest.mark.parametrize("name", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", None])
def test_files_in_other_encodings_than_utf_8_hold(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, encoding: str, name: str | None
) -> None:
    """The first section of the file is the one that would be passed over. None: the usual file of a home."""
    bucket, known = make_bucket(versitygw), versitygw.environment()
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="run/key", Body=b"content")
    file = tmp_path / "settings" if name else tmp_path / ".aws" / "config"
    file.parent.mkdir(exist_ok=True)
    lines = [
        "[default]",
        "# é",
        f"aws_access_key_id = {known['AWS_ACCESS_KEY_ID']}",
        f"aws_secret_access_key = {known['AWS_SECRET_ACCESS_KEY']}",
        f"endpoint_url = {versitygw.endpoint_url}",
    ]
    if name == "AWS_SHARED_CREDENTIALS_FILE":
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "config").write_text(f"[default]\n{lines.pop()}\n")
    file.write_text("\r\n".join(lines), encoding=encoding)

    for words in (["ls", f"s3://{bucket}/run/"], ["cp", f"s3://{bucket}/run/", f"{tmp_path}/in"]):
        ran = _run(tmp_path, *words, **({name: str(file)} if name else {}))
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("profile", ["role", "chained", "web", "environment"])
@pytest.mark.parametrize("region", ["", "region = eu-central-1\n"], ids=["nowhere", "of the source profile"])
def test_a_role_profile_needs_no_region(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, profile: str, region: str
) -> None:
    bucket, known = make_bucket(versitygw), versitygw.environment()
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="run/key", Body=b"content")
    (tmp_path / "token").write_text("token")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(f"""
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

        for words in (["ls", f"s3://{bucket}/run/"], ["cp", f"s3://{bucket}/run/", f"{tmp_path}/in"]):
            ran = _run(tmp_path, *words, "--profile", profile, **more)
            assert ran.returncode == 0, ran.stderr

    is_of_source = region and profile in ("role", "chained")
    expected = "" if profile == "web" else "eu-central-1" if is_of_source else "us-east-1"
    assert set(regions) == {expected}


@pytest.mark.parametrize("words", ["ls s3://BUCKET/run/", "cp s3://BUCKET/run/ in", "aws s3 cp s3://BUCKET/run/key in"])
@pytest.mark.parametrize(
    "variable",
    [
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    ],
)
def test_a_variable_that_is_set_to_nothing_says_nothing(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, words: str, variable: str
) -> None:
    """As a container gets it from a template whose value is not there."""
    bucket, known = make_bucket(versitygw), versitygw.environment()
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="run/key", Body=b"content")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(f"[default]\nendpoint_url = {versitygw.endpoint_url}\n")
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\n"
        f"aws_access_key_id = {known['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {known['AWS_SECRET_ACCESS_KEY']}\n"
    )

    ran = _run(tmp_path, *words.replace("BUCKET", bucket).replace(" in", f" {tmp_path}/in").split(), **{variable: ""})

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("verb", ["ls", "cp"])
@pytest.mark.parametrize("is_of_profile", [False, True], ids=["variable", "profile"])
def test_endpoints_of_the_settings_are_ignored_where_the_settings_say_so(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, verb: str, is_of_profile: bool
) -> None:
    """Only --endpoint-url counts then, as for all AWS tools; without it the request is one to AWS."""
    bucket, known = make_bucket(versitygw), versitygw.environment()
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="run/key", Body=b"content")
    (tmp_path / ".aws").mkdir()
    ignored = "ignore_configured_endpoint_urls = true\n" if is_of_profile else ""
    (tmp_path / ".aws" / "config").write_text(f"[default]\nendpoint_url = http://127.0.0.1:1\n{ignored}")
    more = {name: known[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    # No request leaves this machine: the address of AWS is not reached through this proxy.
    more |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:2", "HTTPS_PROXY": "http://127.0.0.1:3"}
    if not is_of_profile:
        more["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
    words = [verb, f"s3://{bucket}/run/", *([f"{tmp_path}/in"] if verb == "cp" else [])]

    named = _run(tmp_path, *words, "--endpoint-url", versitygw.endpoint_url, **more)
    without = _run(tmp_path, *words, **more)

    assert named.returncode == 0, named.stderr
    assert without.returncode != 0
    assert "AWS, region" in without.stderr, without.stderr


@pytest.mark.parametrize("words", ["ls s3://BUCKET/run/", "cp s3://BUCKET/run/ in", "aws s3 cp s3://BUCKET/run/key in"])
@pytest.mark.parametrize("profile", ["absent", "without"])
def test_a_profile_of_the_environment_that_gives_no_credentials_is_named(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, words: str, profile: str
) -> None:
    bucket = make_bucket(versitygw)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile without]\nregion = us-east-1\n[default]\n")
    more = {"AWS_ENDPOINT_URL": versitygw.endpoint_url, "AWS_REGION": "us-east-1", "AWS_PROFILE": profile}

    ran = _run(tmp_path, *words.replace("BUCKET", bucket).split(), **more)

    assert ran.returncode == 1
    assert f'profile "{profile}", which AWS_PROFILE names, gives no credentials' in ran.stderr
    assert "provider was not enabled" not in ran.stderr


_NAMES = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"),
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_MAX_ATTEMPTS", "AWS_ROLE_ARN", "AWS_USE_FIPS_ENDPOINT"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_RETRY_MODE"),
)


@pytest.mark.parametrize("words", [["ls", "SRC"], ["cp", "SRC", "DST"], ["aws", "s3", "ls", "SRC"]], ids="-".join)
@pytest.mark.parametrize("profile", ["role", "default"])
def test_a_variable_that_is_set_to_nothing_is_not_set(
    versitygw: S3Server, make_bucket: BucketFactory, tmp_path: Path, words: list[str], profile: str
) -> None:
    bucket, known = make_bucket(versitygw), versitygw.environment()
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="run/key", Body=b"content")
    places = {"SRC": f"s3://{bucket}/run/", "DST": f"{tmp_path}/in"}
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(f"""
[default]
aws_access_key_id = {known["AWS_ACCESS_KEY_ID"]}
aws_secret_access_key = {known["AWS_SECRET_ACCESS_KEY"]}
[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = default
""")
    with _sts(known["AWS_ACCESS_KEY_ID"], known["AWS_SECRET_ACCESS_KEY"]) as (url, regions):
        more = {**dict.fromkeys(_NAMES, ""), "AWS_ENDPOINT_URL": versitygw.endpoint_url, "AWS_ENDPOINT_URL_STS": url}
        option = ["--profile", profile] if profile != "default" else []

        ran = _run(tmp_path, *[places.get(word, word) for word in words], *option, **more)

    assert ran.returncode == 0, ran.stderr
    assert set(regions) == ({"us-east-1"} if option else set())


def _run(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The command with no AWS settings but these."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "SEQFERRY_STATE_DIR": str(home / "state")}
    own |= {"AWS_MAX_ATTEMPTS": "1", "AWS_EC2_METADATA_DISABLED": "true"}
    return subprocess.run(
        [seqferry(), *words], env=own | more, capture_output=True, text=True, timeout=120, check=False
    )


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
