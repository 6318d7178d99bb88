"""Endpoint and identity of requests: what a submission records, and which identities are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqferry.model.errors import AccessError, UsageError
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.places import endpoints
from seqferry.spec import identity, properties, stored
from seqferry.spec.build import build_spec
from seqferry.spec.validation import validate_spec

_CONFIG = """
[profile lab]
region = eu-central-1
endpoint_url = https://lab.example
ca_bundle = {ca}

[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = lab

[profile other-role]
role_arn = arn:aws:iam::123456789012:role/admin
source_profile = lab

[profile sso]
sso_session = site
sso_account_id = 123456789012
sso_role_name = Reader

[sso-session site]
sso_start_url = https://site.example/start
"""

_CREDENTIALS = """
[lab]
aws_access_key_id = AKIALAB
aws_secret_access_key = hidden

[twin]
aws_access_key_id = AKIALAB
aws_secret_access_key = hidden

[rotated]
aws_access_key_id = {key}
aws_secret_access_key = hidden
aws_session_token = token
"""

_VARIABLES = (
    "ACCESS_KEY_ID",
    "SECRET_ACCESS_KEY",
    "SESSION_TOKEN",
    "PROFILE",
    "REGION",
    "DEFAULT_REGION",
    "ENDPOINT_URL",
    "ENDPOINT_URL_S3",
    "CA_BUNDLE",
)


class Environment:
    """The variables and files of the AWS tools."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.ca = folder / "ca.pem"
        self.ca.touch()
        self.config, self.credentials = folder / "config", folder / "credentials"
        self.config.write_text(_CONFIG.format(ca=self.ca))
        self.credentials.write_text(_CREDENTIALS.format(key="ASIAFIRST"))
        patch.setenv("AWS_CONFIG_FILE", str(self.config))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(self.credentials))
        self.be()

    def be(self, **variables: str) -> None:
        for name in _VARIABLES:
            self._patch.delenv(f"AWS_{name}", raising=False)
        for name, value in variables.items():
            self._patch.setenv(f"AWS_{name}", value)

    def with_key(self, key: str = "AKIAENV", **variables: str) -> None:
        self.be(ACCESS_KEY_ID=key, SECRET_ACCESS_KEY="hidden", **variables)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    return Environment(tmp_path, monkeypatch)


def _spec(**options: str) -> TransferSpec:
    return identity.resolve(build_spec("s3://from/run/", "s3://to/run/", **options))


def _missing(spec: TransferSpec) -> str | None:
    return identity.find_unmet_need(identity.needs(spec))


def test_all_that_decides_where_is_taken_from_profile_and_environment(environment: Environment) -> None:
    environment.be(PROFILE="lab")
    place = _spec().source

    assert (place.endpoint_url, place.region, place.profile) == ("https://lab.example", "eu-central-1", "lab")
    assert place.access is not None
    assert place.access.ca_bundle == str(environment.ca)

    environment.with_key(PROFILE="lab", ENDPOINT_URL="https://env.example", DEFAULT_REGION="eu-west-1")
    place = _spec(target_region="us-east-2").source
    assert (place.endpoint_url, place.region, place.profile) == ("https://env.example", "eu-west-1", None)


def test_what_is_recorded_stays_though_the_environment_changes(environment: Environment) -> None:
    environment.with_key()
    spec = stored.read(stored.write(_spec()))
    assert spec.source.endpoint_url is None

    environment.with_key(ENDPOINT_URL="https://elsewhere.example", REGION="eu-west-1")

    assert identity.resolve(spec) == spec
    assert endpoints.resolve(spec.source) is None
    assert identity.with_own_profile(spec.source) == spec.source


def test_no_secret_is_recorded(environment: Environment) -> None:
    environment.with_key("AKIASECRET", SESSION_TOKEN="hidden-token")
    text = stored.write(_spec(target_profile="lab"))

    for secret in ("AKIASECRET", "AKIALAB", "hidden"):
        assert secret not in text
    environment.with_key(ENDPOINT_URL="https://user:word@host.example")
    with pytest.raises(UsageError, match="must not hold credentials"):
        validate_spec(_spec())


def test_a_profile_is_used_wherever_it_is_whatever_else_the_worker_is(environment: Environment) -> None:
    spec = _spec(profile="lab")
    for others in ({}, {"PROFILE": "role"}, {"ACCESS_KEY_ID": "AKIAENV", "SECRET_ACCESS_KEY": "hidden"}):
        environment.be(**others)
        assert _missing(spec) is None
        assert identity.with_own_profile(spec.source).profile == "lab"


def test_a_key_is_the_same_wherever_it_is_found(environment: Environment) -> None:
    spec = _spec(profile="lab")
    environment.credentials.write_text("[other]\naws_access_key_id = AKIAOTHER\n")
    assert _missing(spec) == "profile lab"

    environment.with_key("AKIALAB")

    assert _missing(spec) is None
    assert identity.with_own_profile(spec.source).profile is None


def test_who_is_not_the_same_is_named(environment: Environment) -> None:
    environment.with_key("AKIAENV")
    of_key = _spec()
    of_role = _spec(profile="role")
    environment.with_key("AKIAOTHER")
    assert "the access key" in (_missing(of_key) or "")
    with pytest.raises(AccessError, match="s3://from/run/ needs the access key"):
        identity.with_own_profile(of_key.source)
    assert _missing(of_role) is None

    environment.config.write_text(_CONFIG.format(ca="").replace("role/reader", "role/admin"))
    assert _missing(of_role) == "profile role"


def test_a_profile_that_gives_no_credentials_is_no_identity(environment: Environment) -> None:
    environment.config.write_text("[profile odd]\nunknown_kind = x\n[profile mail]\nlogin_session = ada\n")
    odd, login = _spec(profile="odd"), _spec(profile="mail")

    assert _missing(odd) == "profile odd"
    assert _missing(_spec(profile="nowhere")) == "profile nowhere"
    assert _missing(login) is None
    environment.config.write_text("[profile mail]\nlogin_session = bob\n")
    assert _missing(login) == "profile mail"


def test_the_s3_section_of_the_profile_is_recorded(environment: Environment) -> None:
    section = "addressing_style = {}\n  use_accelerate_endpoint = true\n  payload_signing_enabled = True\n"
    for style, is_path in (("path", True), ("virtual", False), ("auto", None)):
        environment.config.write_text(f"[profile lab]\ns3 =\n  {section.format(style)}")
        found = _spec(profile="lab").target.access
        assert found is not None
        assert (found.path_style, found.accelerate, found.sign_bodies, found.dual_stack) == (is_path, True, True, False)

    environment.config.write_text("[profile lab]\nuse_dualstack_endpoint = true\n")
    found = _spec(profile="lab").target.access
    assert found is not None
    assert (found.dual_stack, found.accelerate, found.path_style) == (True, False, None)


def test_certificates_that_are_not_there_are_missed(environment: Environment) -> None:
    spec = _spec(profile="lab")

    environment.ca.unlink()

    assert _missing(spec) == f"the certificates {environment.ca}"


def test_keys_of_a_role_may_rotate(environment: Environment) -> None:
    specs_of = {name: _spec(profile=name) for name in ("role", "sso", "rotated")}
    environment.credentials.write_text(_CREDENTIALS.format(key="ASIASECOND"))

    assert {_missing(spec) for spec in specs_of.values()} == {None}


def test_a_temporary_key_in_the_environment_is_only_itself_until_it_is_submitted_again(
    environment: Environment,
) -> None:
    environment.with_key("ASIAIOSFODNN7EXAMPLE", SESSION_TOKEN="one")
    first = _spec()
    environment.with_key("ASIAIOSFODNN7NEWKEYS", SESSION_TOKEN="two")
    second = _spec()

    assert "the temporary access key" in (_missing(first) or "")
    assert identity.submission_digest(first) == identity.submission_digest(second)
    assert identity.identity_proofs(first) != identity.identity_proofs(second)
    environment.with_key("LABFIRST", SESSION_TOKEN="one")
    of_no_account = _spec()
    environment.with_key("LABSECOND", SESSION_TOKEN="two")
    assert identity.submission_digest(of_no_account) != identity.submission_digest(_spec())
    environment.with_key("AKIAFIRST")
    third = _spec()
    environment.with_key("AKIASECOND")
    assert len({identity.submission_digest(one) for one in (first, third, _spec())}) == 3


def test_a_profile_of_the_same_name_with_another_key_submits_something_else(environment: Environment) -> None:
    specs_of = {name: _spec(profile=name) for name in ("lab", "role", "rotated")}
    before = {name: identity.submission_digest(spec) for name, spec in specs_of.items()}

    environment.credentials.write_text(_CREDENTIALS.format(key="ASIASECOND").replace("AKIALAB", "AKIAOTHER"))

    after = {name: identity.submission_digest(_spec(profile=name)) for name in specs_of}
    assert {name for name in specs_of if before[name] != after[name]} == {"lab", "role"}


def test_identities_that_differ_have_lanes_that_differ(environment: Environment) -> None:
    found = [_spec(profile=name) for name in ("lab", "role", "other-role", "sso", "rotated")]
    lanes = {identity.lane(identity.needs(spec)) for spec in found}

    assert len(lanes) == len(found)
    assert None not in lanes
    nobody = build_spec("s3://from/run/", "s3://to/run/")
    assert identity.lane(identity.needs(nobody)) is None


def test_requests_without_a_signature_are_for_any_worker(environment: Environment) -> None:
    spec = identity.resolve(build_spec("s3://from/run/", "s3://to/run/", no_sign_request=True, profile="lab"))
    public = replace(spec, target=spec.source)
    environment.with_key("AKIAOTHER")
    environment.credentials.unlink()

    assert identity.with_own_profile(public.source).profile is None
    assert _missing(spec) == "profile lab"


def test_a_resolved_spec_is_neither_resolved_nor_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    look, check = identity.resolve_place, properties.check
    monkeypatch.setattr(identity, "resolve_place", lambda place: done.append("place") or look(place))
    monkeypatch.setattr(properties, "check", lambda spec: done.append("check") or check(spec))

    spec = build_spec("s3://from/run/", "s3://to/run/")
    resolved = identity.resolve(spec)

    assert done == ["check", "place", "place"]
    assert validate_spec(spec) is spec
    assert identity.resolve(resolved) is validate_spec(resolved) is resolved
    assert type(stored.read(stored.write(resolved))) is ResolvedSpec
    assert done == ["check", "place", "place"]


def test_a_spec_with_another_value_is_checked_again() -> None:
    for spec in (build_spec("s3://from/run/", "s3://to/run/"), identity.resolve(_spec())):
        changed = replace(spec, source=replace(spec.target, key="run/"), strip="run/")
        assert type(changed) is TransferSpec
        assert replace(spec) == spec
        with pytest.raises(UsageError, match="Source and target are the same"):
            validate_spec(changed)
        with pytest.raises(UsageError, match="--tpslimit 0"):
            identity.resolve(spec.with_options(tpslimit=0))


def test_places_that_become_one_by_their_endpoints_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://one.example")
    spec = build_spec("s3://b/run/", "s3://b/run/sub/", target_endpoint_url="https://two.example")
    same = validate_spec(replace(spec, target=replace(spec.target, endpoint_url="https://other.example")))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://other.example")

    with pytest.raises(UsageError, match="lies inside the source"):
        identity.resolve(same)
