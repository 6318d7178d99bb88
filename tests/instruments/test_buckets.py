"""Filling and comparing buckets: what ``assert_same`` would have to notice, it notices."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from support.buckets import (
    KIB,
    Shape,
    StoredObject,
    assert_same,
    differences,
    fill,
    keys,
    odd_keys,
    open_uploads,
    snapshot,
)
from support.servers import S3Server

pytestmark = pytest.mark.every_server


def test_a_filled_bucket_holds_what_was_made(
    s3server: S3Server, make_bucket: Callable[[S3Server], str], rng: random.Random
) -> None:
    bucket = make_bucket(s3server)

    made = fill(s3server, bucket, rng, Shape(objects=90, sizes=(0, 1, 300 * KIB)))

    stored = snapshot(s3server, bucket)
    assert {object_.key: object_.size for object_ in made} == {key: each.size for key, each in stored.items()}
    assert sorted(keys(s3server, bucket)) == sorted(object_.key for object_ in made)
    assert any(each.tags and each.metadata and each.headers for each in stored.values())
    assert open_uploads(s3server, bucket) == []


def test_the_same_seed_fills_two_buckets_alike(
    s3server: S3Server, make_bucket: Callable[[S3Server], str], seed: int
) -> None:
    one, two = make_bucket(s3server), make_bucket(s3server)

    fill(s3server, one, random.Random(seed), Shape(objects=12, odd=False))
    fill(s3server, two, random.Random(seed), Shape(objects=12, odd=False, prefix="p/"))

    assert_same(s3server, one, two, target_prefix="p/")


def test_every_kind_of_difference_is_told() -> None:
    base = StoredObject(1, "aa", {"ContentType": "x"}, {"m": "1"}, {"t": "1"}, "STANDARD")
    changed = {
        "size": 2,
        "sha256": "bb",
        "headers": {},
        "metadata": {"m": "2"},
        "tags": {"t": "1", "u": "2"},
        "storage_class": "GLACIER",
    }

    assert differences({"k": base}, {"k": base}) == []
    assert differences({"k": base}, {}) == ["'k' is missing"]
    assert differences({}, {"k": base}) == ["'k' should not be there"]
    for name, value in changed.items():
        assert len(differences({"k": base}, {"k": replace(base, **{name: value})})) == 1, name


@pytest.mark.parametrize("kind", ["versitygw", "seaweedfs", None])
def test_odd_keys_are_distinct_and_within_limits(kind: str | None) -> None:
    found = odd_keys(kind)  # type: ignore[arg-type]

    assert len(found) == len(set(found)) > 30
    assert max(len(key.encode()) for key in found) <= 1024
