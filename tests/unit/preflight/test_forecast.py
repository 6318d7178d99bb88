"""What a transfer would come to: totals, requests, time and money, by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import PlannedCopy, Status, Totals, TransferSpec
from seqferry.preflight.forecast import Estimate, Forecast

MIB = 1024 * 1024
GIB = 1024 * MIB
URL = "http://127.0.0.1:9"
SPEC = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/")


@pytest.fixture(autouse=True)
def _on_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


def _forecast(spec: TransferSpec, *sizes: int, action: str = "copy", because: str = "absent") -> Forecast:
    found = Forecast(spec)
    for number, size in enumerate(sizes):
        found.add(PlannedCopy(f"run/{number}", f"in/{number}", size, action=action, because=because))  # type: ignore[arg-type]
    return found


def test_reasons_are_counted_without_what_they_say_of_one_object_alone() -> None:
    found = Forecast(SPEC)
    for number in range(3):
        found.add(PlannedCopy(f"run/{number}", "in/x.tar", 1, because="packed", detail=f"as {number}"))

    assert found.totals()["by_reason"] == {"packed": 3}


def test_copies_inside_s3_are_counted_by_request() -> None:
    found = _forecast(SPEC, 1, 10, 300 * MIB)

    estimate = found.estimate()

    assert found.totals()["by_reason"] == {"absent": 3}
    assert estimate.requests == {
        "CompleteMultipartUpload": 1,
        "CopyObject": 2,
        "CreateMultipartUpload": 1,
        "HeadBucket": 2,
        "HeadObject": 2,
        "ListObjectsV2": 2,
        "UploadPartCopy": 3,
    }
    writes, reads = 9, 4
    assert estimate.request_dollars == pytest.approx(writes * 0.005 / 1000 + reads * 0.0004 / 1000)
    assert estimate.egress_dollars is None


@pytest.mark.parametrize(
    ("source", "target", "requests"),
    [
        (LocalFolder("/data"), SPEC.target, {"CreateMultipartUpload": 1, "UploadPart": 3, "PutObject": 1}),
        (SPEC.source, LocalFolder("/data"), {"GetObject": 4}),
        (
            SPEC.source,
            S3Location("to", "in/", endpoint_url=URL),
            {"GetObject": 4, "CreateMultipartUpload": 1, "UploadPart": 3, "PutObject": 1},
        ),
    ],
)
def test_what_passes_through_this_machine_goes_in_parts_of_8_mib(
    source: S3Location | LocalFolder, target: S3Location | LocalFolder, requests: dict[str, int]
) -> None:
    estimate = _forecast(replace(SPEC, source=source, target=target), 100, 20 * MIB).estimate()

    assert {name: estimate.requests.get(name) for name in requests} == requests


def test_other_services_have_no_list_price() -> None:
    place = S3Location("to", "in/", endpoint_url=URL)

    assert _forecast(replace(SPEC, target=place), 1).estimate().request_dollars is None


def test_other_services_are_priced_as_a_region_of_aws_on_request() -> None:
    place = S3Location("to", "in/", endpoint_url=URL)
    spec = replace(SPEC, source=replace(place, bucket="from"), target=place).with_options(storage_class="GLACIER_IR")

    estimate = _forecast(spec, *[GIB] * 3).estimate(price="us-east-1")

    # Three uploads of eight parts with begin and end, and two listings; heads of uploads, and of both buckets.
    assert estimate.request_dollars == pytest.approx((30 * 0.02 + 2 * 0.005 + 8 * 0.0004) / 1000)
    assert estimate.price_region == "us-east-1"
    assert estimate.month_dollars == pytest.approx(3 * 0.004)
    assert estimate.datasync_enhanced_dollars == pytest.approx(3 * 0.015 + 0.55)
    assert estimate.datasync_basic_dollars == pytest.approx(3 * 0.0125)
    with pytest.raises(UsageError, match="mars-1"):
        _forecast(spec, 1).estimate(price="mars-1")


@pytest.mark.parametrize(
    ("region", "known", "dollars"),
    [("eu-central-1", "eu-central-1", 0.0245), ("eu-west-1", "eu-west-1", 0.023), ("ap-south-1", "us-east-1", 0.023)],
)
def test_prices_are_those_of_the_region_of_the_target(region: str, known: str, dollars: float) -> None:
    spec = replace(SPEC, target=replace(SPEC.target, region=region))

    estimate = _forecast(spec, GIB).estimate()

    assert (estimate.price_region, estimate.month_dollars) == (known, pytest.approx(dollars))


def test_a_class_without_a_price_has_none() -> None:
    assert _forecast(SPEC.with_options(storage_class="OUTPOSTS"), GIB).estimate().request_dollars is None


def _members(operation: str, target: S3Location | LocalFolder, *sizes: int) -> Estimate:
    spec = replace(SPEC, target=target, operation=operation)
    found = Forecast(spec)
    for number, size in enumerate(sizes):
        found.add(PlannedCopy(f"run/{number}", "in/x.tar" if spec.kind.packs else f"in/{number}", size))
    return found.estimate()


def test_an_archive_is_one_upload_of_all_members_and_an_index() -> None:
    estimate = _members("pack", S3Location("to", "x.tar", endpoint_url=URL), *[MIB] * 100)

    assert estimate.requests == {
        "CompleteMultipartUpload": 1,
        "CreateMultipartUpload": 1,
        "GetObject": 100,
        "HeadBucket": 2,
        "HeadObject": 1,
        "ListObjectsV2": 2,
        "PutObject": 1,
        "UploadPart": 7,  # of 16 MiB
    }
    assert estimate.egress_dollars == pytest.approx(100 * MIB / GIB * 0.09)


def test_large_members_are_copied_into_an_archive_but_for_the_begin_of_a_part() -> None:
    estimate = _members("pack", SPEC.target, GIB, 2 * GIB, MIB)

    names = ("GetObject", "HeadObject", "UploadPartCopy", "UploadPart", "PutObject")
    counts = {name: estimate.requests.get(name) for name in names}
    assert counts == {"GetObject": 3, "HeadObject": 1 + 2, "UploadPartCopy": 2 + 4, "UploadPart": 1, "PutObject": 1}
    assert estimate.egress_dollars == pytest.approx((5 + 5 + 1) * MIB / GIB * 0.09)


def test_small_members_of_an_archive_pass_through_a_machine_and_share_reads() -> None:
    estimate = _members("unpack", SPEC.target, *[MIB] * 100)

    # Neighbours share reads of 8 MiB, after looks at the archive.
    assert estimate.requests == {"GetObject": 20 + 13, "HeadBucket": 2, "ListObjectsV2": 2, "PutObject": 100}
    assert estimate.egress_dollars == pytest.approx(100 * MIB / GIB * 0.09)
    assert "through this machine" in estimate.based_on


def test_large_members_are_copied_out_of_an_archive_by_parts() -> None:
    estimate = _members("unpack", SPEC.target, 20 * MIB, 300 * MIB)

    counts = {name: estimate.requests.get(name) for name in ("CreateMultipartUpload", "UploadPartCopy", "PutObject")}
    assert counts == {"CreateMultipartUpload": 2, "UploadPartCopy": 1 + 3, "PutObject": None}
    assert estimate.egress_dollars is None


def test_members_that_become_files_are_read_alone() -> None:
    estimate = _members("unpack", LocalFolder("/data"), MIB, 20 * MIB)

    assert estimate.requests == {"GetObject": 20 + 1 + 3, "HeadBucket": 1, "ListObjectsV2": 1}


def test_traffic_that_leaves_aws_is_named_at_most() -> None:
    estimate = _forecast(replace(SPEC, target=LocalFolder("/data")), 2**30).estimate()

    assert estimate.egress_dollars == pytest.approx(0.09)


def test_objects_that_are_there_cost_their_listing() -> None:
    estimate = _forecast(SPEC, *([5] * 2500), action="skip", because="equal ETags").estimate()

    assert estimate.requests == {"HeadBucket": 2, "ListObjectsV2": 3 + 1 + 3}
    assert estimate.seconds < 1


def test_parts_stay_within_ten_thousand() -> None:
    estimate = _forecast(SPEC.with_options(part_size=5 * MIB), 1000 * GIB).estimate()

    assert estimate.requests["UploadPartCopy"] == 10_000


def test_time_rests_on_earlier_transfers_between_the_same_places() -> None:
    totals = Totals(objects=1, bytes=GIB, done=1, bytes_done=GIB)
    earlier = Status("id", "done", SPEC, totals, True, 0.0, "ada", started_at=0.0, ended_at=1024.0)
    elsewhere = replace(earlier, spec=replace(SPEC, target=S3Location("other")), ended_at=1.0)

    found = _forecast(SPEC, 100 * MIB)

    assert found.estimate([elsewhere, earlier]).seconds == pytest.approx(100)
    assert "1 earlier" in found.estimate([elsewhere, earlier]).based_on
    assert "75 MiB/s" in found.estimate([elsewhere]).based_on


def test_a_limit_of_bandwidth_holds_for_what_passes_through() -> None:
    upload = replace(SPEC, source=LocalFolder("/data"))

    assert _forecast(upload, 100 * MIB).estimate(max_bandwidth=MIB).seconds == pytest.approx(100)
    assert _forecast(SPEC, 100 * MIB).estimate(max_bandwidth=1).seconds < 10
