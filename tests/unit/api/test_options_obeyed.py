"""An option that a route takes is recorded with the transfer, or refused: none is taken and not obeyed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from seqferry.api import verb_bodies
from seqferry.api.schemas import DESCRIPTION, TransferRequest, spec_of_request
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.model.models import Status, Totals, TransferSpec
from seqferry.spec import verification

URL: Final = "http://127.0.0.1:9"

VALUES: Final[dict[str, Any]] = {
    "if_exists": "overwrite",
    "restore": True,
    "restore_days": 3,
    "restore_tier": "Bulk",
    "settle": "1h",
    "min_size": 1000,
    "max_size": 1000,
    "newer_than": "7d",
    "older_than": "7d",
    "all_versions": True,
    "version_id": "v1",
    "rules": ["- *.tmp"],
    "rename": ["s/a/b/"],
    "max_depth": 2,
    "recursive": True,
    "tpslimit": 5,
    "attempts": 5,
    "part_size": 8 * 1024 * 1024,
    "copy_threshold": 9 * 1024 * 1024,
    "verify": "checksum",
    "storage_class": "STANDARD_IA",
    "endpoint_url": URL,
    "source_endpoint_url": URL,
    "target_endpoint_url": URL,
    "profile": "lab",
    "source_profile": "lab",
    "target_profile": "lab",
    "region": "eu-west-1",
    "source_region": "eu-west-1",
    "target_region": "eu-west-1",
    "no_sign_request": True,
    "request_payer": "requester",
    "sse": "AES256",
    "sse_kms_key_id": "key",
    "bucket_key_enabled": True,
    "acl": "private",
    "grants": ["read=uri=http://acs.amazonaws.com/groups/global/AllUsers"],
    "object_lock_mode": "GOVERNANCE",
    "object_lock_until": "30d",
    "object_lock_legal_hold": True,
    "object_lock": "copy",
    "sse_c_key": "name",
    "sse_c_copy_source_key": "name",
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "content_language": "de",
    "content_disposition": "inline",
    "cache_control": "no-cache",
    "expires": "2030-01-01T00:00:00Z",
    "metadata": {"a": "b"},
    "metadata_directive": "REPLACE",
    "tags": {"a": "b"},
    "copy_props": "none",
    "checksum_algorithm": "SHA256",
    "keys": ["a"],
    "objects": [{"key": "a"}],
    "inventory": "s3://inventories/vendor/daily/2026-11-23T01-00Z/manifest.json",
    "preflight": False,
}
"""A value other than the default of each option."""

BY_ROUTE: Final = {"raw": {"transfer", "move"}, "recursive": {"transfer", "move", "pack", "unpack"}}
"""Options that say how the source is read, and change nothing where it is read alike. Packs and unpacks read all that
is below a name in any case."""

PLACES: Final[dict[str, dict[str, str]]] = {
    "transfer": {"source": "s3://vendor/run/", "target": "s3://ours/in/"},
    "move": {"source": "s3://vendor/run/", "target": "s3://ours/in/"},
    "pack": {"source": "s3://vendor/run/", "target": "s3://ours/run.tar", "operation": "pack"},
    "unpack": {"source": "s3://vendor/run.tar", "target": "s3://ours/in/", "operation": "unpack"},
}
NOT_OPTIONS: Final = {"source", "target", "operation", "options", "new", "priority", *DESCRIPTION}


def spec_of(operation: str, **options: Any) -> TransferSpec:
    body = PLACES[operation] | options
    if operation == "move":
        return verb_bodies.spec_of_move(verb_bodies.MoveRequest.model_validate(body))
    return spec_of_request(TransferRequest.model_validate(body))


def test_each_option_has_a_value_here() -> None:
    assert set(VALUES) | {"raw"} == set(TransferRequest.model_fields) - NOT_OPTIONS


@pytest.mark.parametrize("operation", PLACES)
@pytest.mark.parametrize("option", VALUES)
def test_an_option_is_recorded_or_refused(operation: str, option: str) -> None:
    try:
        found = spec_of(operation, **{option: VALUES[option]})
    except UsageError:
        return
    if operation in BY_ROUTE.get(option, set()):
        return
    assert found != spec_of(operation), f"{operation} takes {option} and does not obey it"


_BROUGHT: Final = Status(
    "t",
    "done",
    TransferSpec(S3Location("vendor", "run/"), S3Location("ours", "in/"), strip="run/"),  # type: ignore[arg-type]
    Totals(),
    True,
    0.0,
    "ada",
)


def _comparison(**options: Any) -> TransferSpec:
    return verb_bodies.spec_of_check(verb_bodies.CheckRequest.model_validate({**PLACES["transfer"], **options}))


def _verification(**options: Any) -> TransferSpec:
    given = verb_bodies.VerificationRequest.model_validate(options).arguments()
    return verification.build_verification_spec(_BROUGHT, **given)


@pytest.mark.parametrize(
    ("body", "make"),
    [(verb_bodies.CheckRequest, _comparison), (verb_bodies.VerificationRequest, _verification)],
)
def test_an_option_of_a_comparison_is_recorded_or_refused(body: Any, make: Callable[..., TransferSpec]) -> None:
    values = {**VALUES, "verify": "content", "endpoint_url": "https://s3.example.org"}
    # "if_exists" is a rule for copies, perhaps of the environment: a comparison skips nothing.
    for option in sorted(values.keys() & body.model_fields.keys() - {"raw", "recursive", "if_exists"}):
        try:
            found = make(**{option: values[option]})
        except UsageError:
            continue
        assert found != make(), f"{body.__name__} takes {option} and does not obey it"


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("move", {"all_versions": True}),
        ("pack", {"all_versions": True}),
        ("unpack", {"all_versions": True}),
    ],
)
def test_what_only_copies_obey_is_refused_of_others(operation: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"cp|copies"):
        spec_of(operation, **options)
