"""Requests that moving an object asks of S3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.cost import requests
from seqferry.cost.requests import COPY_PART, COPY_THRESHOLD, MOST_PARTS, STREAM_PART, STREAM_THRESHOLD

_MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "inside", "parts"),
    [
        (0, True, 1),
        (0, False, 1),
        (STREAM_THRESHOLD, False, 1),
        (STREAM_THRESHOLD + 1, False, 3),
        (STREAM_THRESHOLD + 1, True, 1),
        (COPY_THRESHOLD, True, 1),
        (COPY_THRESHOLD + 1, True, 2),
        (10 * COPY_PART, True, 10),
        (10 * STREAM_PART, False, 10),
        (5 * 1024**4, False, MOST_PARTS),
        (50 * 1024**4, True, MOST_PARTS),
    ],
)
def test_an_object_above_the_threshold_goes_in_parts(size: int, inside: bool, parts: int) -> None:
    assert requests.count_parts(size, inside=inside) == parts


@given(
    st.integers(min_value=0, max_value=50 * 1024**4),
    st.booleans(),
    st.none() | st.integers(5 * _MIB, 5 * 1024**3),
    st.none() | st.integers(0, 5 * 1024**3),
)
def test_parts_hold_all_bytes_and_are_never_too_many(
    size: int, inside: bool, part_size: int | None, threshold: int | None
) -> None:
    parts = requests.count_parts(size, inside=inside, part_size=part_size, threshold=threshold)

    assert 1 <= parts <= MOST_PARTS
    if parts > 1:
        largest = max(part_size or (COPY_PART if inside else STREAM_PART), -(-size // MOST_PARTS))
        assert (parts - 1) * largest < size <= parts * largest


@pytest.mark.parametrize(
    ("parts", "inside", "asked"),
    [
        (1, True, {"CopyObject": 1}),
        (1, False, {"PutObject": 1}),
        (3, False, {"CreateMultipartUpload": 1, "UploadPart": 3, "CompleteMultipartUpload": 1, "HeadObject": 1}),
        (3, True, {"CreateMultipartUpload": 1, "UploadPartCopy": 3, "CompleteMultipartUpload": 1, "HeadObject": 2}),
    ],
)
def test_an_upload_asks_for_its_parts_and_what_is_around_them(parts: int, inside: bool, asked: dict[str, int]) -> None:
    assert requests.upload_requests(parts, inside=inside) == asked


@pytest.mark.parametrize(
    ("operation", "price"),
    [
        ("GetObject", "s3-read"),
        ("HeadObject", "s3-read"),
        ("ListObjectsV2", "s3-write"),
        ("PutObject", "s3-write"),
        ("UploadPartCopy", "s3-write"),
        ("CompleteMultipartUpload", "s3-write"),
        ("DeleteObject", None),
        ("AbortMultipartUpload", None),
        ("SomethingNew", "s3-read"),
    ],
)
def test_a_request_is_billed_as_a_write_a_read_or_not(operation: str, price: str | None) -> None:
    assert requests.price_name(operation) == price
