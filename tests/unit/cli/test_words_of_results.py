"""Words of results: estimates, rows of dry runs, places of policies, and changes of schedules."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.cli.commands import iam_policy, schedule
from seqferry.cli.output import preview
from seqferry.cli.transfer_options import TransferFilters
from seqferry.db.paging import ALL_TRANSFERS
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.model.models import PlannedCopy, TransferSpec
from seqferry.preflight.forecast import Estimate

_SPEC: Any = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")


def _estimate(**more: Any) -> Estimate:
    usual: dict[str, Any] = {"seconds": 65.0, "based_on": "a guess", "request_dollars": None, "egress_dollars": None}
    return Estimate(**{"requests": {"PutObject": 1}} | usual | more)


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (_estimate(), "Estimate: 1 requests (1 PutObject); about 1 min 05 s, by a guess."),
        (_estimate(seconds=0.0, requests={}), "Estimate: 0 requests (); about 1.0 s, by a guess."),
        (
            _estimate(requests={"B": 1000, "C": 0, "A": 1000, "Z": 2000}),
            "Estimate: 4,000 requests (2,000 Z, 1,000 A, 1,000 B); about 1 min 05 s, by a guess.",
        ),
        (
            _estimate(request_dollars=0.00504, price_region="eu-west-1", egress_dollars=0.0),
            (
                "Estimate: 1 requests (1 PutObject); about 1 min 05 s, by a guess; $0.0050 for requests at list prices "
                "of eu-west-1."
            ),
        ),
        (
            _estimate(
                request_dollars=1.0,
                price_region="r",
                egress_dollars=1234.5,
                month_dollars=0.0,
                datasync_basic_dollars=1.0,
                datasync_enhanced_dollars=2.0,
            ),
            (
                "Estimate: 1 requests (1 PutObject); about 1 min 05 s, by a guess; $1.0000 for requests at list prices "
                "of r, and up to $1,234.50 for traffic if this machine is outside of the region, and $0.00 for each "
                "month of storage (DataSync asks $2.00 in Enhanced mode, $1.00 in Basic mode)."
            ),
        ),
    ],
)
def test_an_estimate_is_a_sentence_with_the_prices_that_there_are(estimate: Estimate, said: str) -> None:
    assert preview.describe_estimate(estimate) == said


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (PlannedCopy("run/a", "in/a", 1), "copy s3://from/run/a to s3://to/in/a"),
        (
            PlannedCopy("run/a", "in/a", 1, because="it is overwritten"),
            "copy s3://from/run/a to s3://to/in/a (it is overwritten)",
        ),
        (PlannedCopy("run/a", "in/a", 1, action="skip", because="it exists"), "skip s3://from/run/a: it exists"),
        (
            PlannedCopy("run/a", "in/a", 1, action="compare", because="same size"),
            "compare s3://from/run/a to s3://to/in/a (same size)",
        ),
        (PlannedCopy("run/a\n\x1b", "in/ü", 1), "copy s3://from/run/a\\n\\x1b to s3://to/in/ü"),
    ],
)
def test_an_object_of_a_dry_run_is_one_line(planned: PlannedCopy, said: str) -> None:
    assert preview._describe_action(_SPEC, planned) == said


@pytest.mark.parametrize(
    ("nearest", "said"), [([], ""), (["run/a", "run/b"], "; nearest: s3://from/run/a, s3://from/run/b")]
)
def test_the_nearest_keys_end_the_sentence(nearest: list[str], said: str) -> None:
    assert preview.describe_nearest(_SPEC, nearest) == said


@pytest.mark.parametrize(
    ("source", "of_many"),
    [("s3://b/k", False), ("s3://b/k/", True), ("s3://b/*.bam", True), ("s3://b/k?", True), ("/data", True)],
)
def test_a_source_is_of_many_objects_unless_it_is_one_key(source: str, of_many: bool) -> None:
    assert iam_policy._is_of_many(source) is of_many


@pytest.mark.parametrize(
    ("uri", "operation", "is_target", "of_many", "place"),
    [
        ("/data/x", "copy", False, True, None),
        ("s3://b", "copy", False, True, ("", False)),
        ("s3://b/k", "copy", False, False, ("k", True)),
        ("s3://b/run/", "copy", False, True, ("run/", False)),
        # A wildcard reads what begins with what comes before it.
        ("s3://b/run/a*.bam", "copy", False, True, ("run/a", False)),
        ("s3://b/run/?", "copy", False, True, ("run/", False)),
        # A target of many is a prefix; a star in it is a character.
        ("s3://b/run", "copy", True, True, ("run/", False)),
        ("s3://b/run", "copy", True, False, ("run", True)),
        ("s3://b/a*b", "copy", True, False, ("a*b", True)),
        ("s3://b/", "copy", True, True, ("", False)),
        # Shards are named after their archive; a share is written below its prefix.
        ("s3://b/a.tar", "pack", True, True, ("a.tar", False)),
        ("s3://b/run", "mount", False, True, ("run/", False)),
    ],
)
def test_a_policy_names_what_is_read_and_written(
    uri: str, operation: str, is_target: bool, of_many: bool, place: tuple[str, bool] | None
) -> None:
    found = iam_policy._place(uri, operation, is_target=is_target, of_many=of_many)

    assert (None if found is None else (found.key, found.is_one)) == place
    assert found is None or found.bucket == "b"


_NEW = {"cron": "0 1 * * *", "timezone": "UTC"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, ""),
        (_NEW, ": 0 1 * * * (UTC)"),
        (
            _NEW | {"before": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}},
            ": 0 2 * * * (Europe/Berlin) becomes 0 1 * * * (UTC)",
        ),
    ],
)
def test_a_change_of_a_schedule_is_told_with_what_was_before(data: dict[str, Any], said: str) -> None:
    assert schedule._change(data) == said


@pytest.mark.parametrize(
    ("given", "selects"),
    [
        ({}, False),
        ({"state": []}, False),
        ({"state": ["failed"]}, True),
        ({"label": ["project"]}, True),
        ({"label": ["project=x"]}, True),
        ({"created_after": 0.0}, True),
        ({"prefix": "s3://b/"}, True),
    ],
)
def test_any_option_of_a_filter_selects(given: dict[str, Any], selects: bool) -> None:
    filters = TransferFilters(**given)

    assert filters.selects is selects
    assert (filters.filter == ALL_TRANSFERS) is not selects


def test_a_label_that_no_transfer_can_have_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be the key of a label"):
        _ = TransferFilters(label=["Project=x"]).filter
