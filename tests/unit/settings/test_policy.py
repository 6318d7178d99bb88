"""The policy of a server: the endpoints and the identities that its clients may name."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from seqferry.model.errors import PolicyError
from seqferry.settings.policy import Policy, check_addresses
from seqferry.spec.build import build_mirror_spec, build_spec

HERE = "https://s3.example.org"


def _asked(**options: Any) -> Any:
    return build_spec(options.pop("source", "s3://vendor/run/"), options.pop("target", "s3://ours/run/"), **options)


@pytest.fixture(autouse=True)
def _no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a name was resolved")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_by_default_the_endpoint_and_the_identity_of_the_process_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", HERE)
    monkeypatch.setenv("AWS_PROFILE", "lab")

    Policy().check(_asked())
    Policy().check(_asked(endpoint_url=f"{HERE}:443/", profile="lab", no_sign_request=True))


@pytest.mark.parametrize(
    "asked",
    [
        {"endpoint_url": "http://127.0.0.1:9"},
        {"source_endpoint_url": "https://s3.example.com"},
        {"target_endpoint_url": "http://s3.example.org"},
        {"endpoint_url": "https://s3.example.org.evil.example"},
        {"endpoint_url": "https://s3.example.org:8443"},
        {"profile": "other"},
        {"source_profile": "default"},
        {"target_profile": "other"},
    ],
)
def test_by_default_nothing_else_is(monkeypatch: pytest.MonkeyPatch, asked: dict[str, str]) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", HERE)

    with pytest.raises(PolicyError, match="in its configuration file"):
        Policy().check(_asked(**asked))


@pytest.mark.parametrize(
    "url",
    [
        "https://x1.execute-api.us-east-1.amazonaws.com",
        "https://ec2-203-0-113-7.compute-1.amazonaws.com",
        "https://s3.us-east-1.amazonaws.com",
        "https://mine.elb.cn-north-1.amazonaws.com.cn",
    ],
)
@pytest.mark.parametrize("own", ["", "https://s3.eu-west-1.amazonaws.com", "https://s3.cn-north-1.amazonaws.com.cn"])
def test_not_every_host_of_aws_is_s3(monkeypatch: pytest.MonkeyPatch, url: str, own: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", own)

    with pytest.raises(PolicyError, match="does not contact the endpoint"):
        Policy().check(_asked(endpoint_url=url))
    Policy(endpoints=(url,)).check(_asked(endpoint_url=url))


def test_listed_endpoints_and_profiles_are_allowed() -> None:
    policy = Policy(endpoints=(HERE, "http://localhost:9000"), profiles=("lab",))

    policy.check(_asked(source_endpoint_url=f"{HERE}/", target_endpoint_url="http://127.0.0.1:9000", profile="lab"))
    with pytest.raises(PolicyError, match="profile 'boss'"):
        policy.check(_asked(target_profile="boss"))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.170.2",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fd00:ec2::23]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "100.100.100.200",
    ],
)
def test_metadata_addresses_are_refused_though_they_are_listed(host: str) -> None:
    url = f"http://{host}"

    with pytest.raises(PolicyError, match="never contacts"):
        Policy(endpoints=(url,)).check(_asked(endpoint_url=url))


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1%eth0", "fd00:ec2::254"])
@pytest.mark.parametrize("name", ["metadata.example.org", "2852039166", "0xa9fea9fe"])
def test_names_that_lead_to_metadata_addresses_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str
) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 0)), (family, 1, 6, "", (address, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    with pytest.raises(PolicyError, match="never contacts"):
        check_addresses(_asked(endpoint_url=f"http://{name}:9000"))


def test_the_configured_endpoint_is_looked_at_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("169.254.169.254", 0))])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.example.org")

    with pytest.raises(PolicyError, match="never contacts"):
        check_addresses(_asked())


@pytest.mark.parametrize(
    ("read", "source", "allowed"),
    [
        ("s3://vendor/", "s3://vendor/", True),
        ("s3://vendor/", "s3://vendor/run/", True),
        ("s3://vendor/", "s3://vendor2/run/", False),
        ("s3://vendor/run/", "s3://vendor/", False),
        ("s3://vendor/run/", "s3://vendor/run", False),
        ("s3://vendor/run/", "s3://vendor/run/", True),
        ("s3://vendor/run/", "s3://vendor/run/a", True),
        ("s3://vendor/run/", "s3://vendor/run/../secret/", False),
        ("s3://vendor/run/", "s3://vendor/run/a/./b", False),
        ("s3://vendor/run", "s3://vendor/run42/", True),
        ("s3://lab-", "s3://lab-7/", True),
        ("s3://lab-", "s3://other/", False),
        ("s3://lab-", "s3://lab-7/../x", False),
        ("s3://vendor/", "s3://vendor/../secret/", False),
        ("s3://", "s3://vendor/../secret/", True),
    ],
)
def test_sources_and_targets_lie_below_what_is_allowed(read: str, source: str, allowed: bool) -> None:
    for policy, asked in (
        (Policy(read=(read,)), _asked(source=source)),
        (Policy(write=("s3://nowhere/", read)), _asked(source="s3://a/", target=source)),
    ):
        if policy.write != Policy().write and not source.endswith("/"):
            continue  # a target gets its slash
        if allowed:
            policy.check(asked)
        else:
            with pytest.raises(PolicyError):
                policy.check(asked)


def test_each_named_key_lies_below_what_is_allowed() -> None:
    policy = Policy(read=("s3://vendor/run/",))

    policy.check(build_mirror_spec("vendor", "run/", ["a", "b"], "ours", ""))
    with pytest.raises(PolicyError):
        policy.check(build_mirror_spec("vendor", "run/", ["a", "../b"], "ours", ""))
    with pytest.raises(PolicyError):
        policy.check(build_mirror_spec("vendor", "", ["run/a"], "ours", ""))


def test_named_keys_do_not_lead_out_of_what_may_be_written() -> None:
    policy = Policy(write=("s3://ours/run/",))

    policy.check(build_mirror_spec("vendor", "", ["a/..b"], "ours", "run/"))
    with pytest.raises(PolicyError, match="does not write keys"):
        policy.check(build_mirror_spec("vendor", "", ["a", "../../secret/b"], "ours", "run/"))
