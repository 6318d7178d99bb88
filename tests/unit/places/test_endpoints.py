"""Which places are in one storage, however their endpoint was named."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.places import endpoints
from seqferry.spec.build import build_spec
from seqferry.spec.validation import data_path, streaming_reason

_CONFIG = """
[default]
endpoint_url = https://default.example

[profile plain]
endpoint_url = https://plain.example  # of the laboratory

[profile nested]
services = lab
endpoint_url = https://not-this-one.example

[services lab]
s3 =
  addressing_style = path
  endpoint_url = https://nested.example
dynamodb =
  endpoint_url = https://other.example

[profile none]
region = eu-west-1
"""


@pytest.fixture(autouse=True)
def aws_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return config


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:8333", "http://localhost:8333/"),
        ("http://[::1]:8333", "HTTP://LocalHost:8333"),
        ("https://s3.example", "https://S3.example:443/"),
        ("http://s3.example/base/", "http://s3.example:80/base"),
        ("https://s3.us-east-1.amazonaws.com", None),
        ("https://s3.amazonaws.com", "https://s3.eu-west-1.amazonaws.com/"),
    ],
)
def test_spellings_of_one_endpoint(one: str, other: str | None) -> None:
    assert endpoints.resolve(S3Location("b", endpoint_url=one)) == endpoints.resolve(
        S3Location("b", endpoint_url=other)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://127.0.0.1:8333", "http://127.0.0.1:8334"),
        ("http://localhost:8333", "https://localhost:8333"),
        ("https://a.example", None),
        ("https://a.example", "https://localhost.example"),
        ("https://localhost", "https://localhost.example"),
        ("https://fake-amazonaws.com", None),
        ("https://s3.cn-north-1.amazonaws.com.cn", None),
        ("https://s3.us-gov-west-1.amazonaws.com", "https://s3.us-west-1.amazonaws.com"),
    ],
)
def test_different_endpoints(one: str, other: str | None) -> None:
    assert endpoints.resolve(S3Location("b", endpoint_url=one)) != endpoints.resolve(
        S3Location("b", endpoint_url=other)
    )


def test_an_option_comes_before_the_environment_and_that_before_the_profile(
    aws_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws_files.write_text(_CONFIG)
    assert endpoints.resolve(S3Location("b")) == "https://default.example"
    assert endpoints.resolve(S3Location("b", profile="plain")) == "https://plain.example"
    assert endpoints.resolve(S3Location("b", profile="nested")) == "https://nested.example"
    assert endpoints.resolve(S3Location("b", profile="none")) is None
    assert endpoints.resolve(S3Location("b", profile="absent")) is None
    monkeypatch.setenv("AWS_PROFILE", "plain")
    assert endpoints.resolve(S3Location("b")) == "https://plain.example"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://environment.example")
    assert endpoints.resolve(S3Location("b", profile="nested")) == "https://environment.example"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    assert endpoints.resolve(S3Location("b")) == "https://s3.example"
    assert endpoints.resolve(S3Location("b", endpoint_url="https://option.example")) == "https://option.example"


def test_files_that_cannot_be_read_name_no_endpoint(aws_files: Path) -> None:
    aws_files.write_bytes(b"\xff\xfe no section\n[[[")

    assert endpoints.resolve(S3Location("b")) is None


def test_a_source_inside_its_target_is_not_removed_by_another_spelling_of_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for spelling in ("http://127.0.0.1:9", "http://localhost:9/"):
        with pytest.raises(UsageError, match="lies inside the target"):
            build_spec("s3://b/run/sub/", "s3://b/run/", delete=True, source_endpoint_url=spelling)
        assert streaming_reason(build_spec("s3://b/a/", "s3://b/c/", target_endpoint_url=spelling)) is None


def test_one_bucket_name_at_two_storages_is_two_buckets(aws_files: Path) -> None:
    aws_files.write_text(_CONFIG)

    spec = build_spec("s3://b/run/", "s3://b/run/", source_profile="plain", target_profile="nested")

    assert data_path(spec) == "stream"
