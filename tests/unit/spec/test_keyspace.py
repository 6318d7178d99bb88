"""Whether two transfers can write to the same key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqferry.model.models import TransferSpec
from seqferry.spec import keyspace
from seqferry.spec.build import build_mirror_spec, build_spec


def _all(target: str, **options: Any) -> TransferSpec:
    return build_spec("s3://from/run/", target, **options)


def _one(target: str) -> TransferSpec:
    return build_spec("s3://from/run/a.bam", target)


def _named(prefix: str, *keys: str) -> TransferSpec:
    return build_mirror_spec("from", "run/", list(keys), "to", prefix)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (_all("s3://to/in/"), _all("s3://to/in/"), True),
        (_all("s3://to/in/"), _all("s3://to/in/deep/"), True),
        (_all("s3://to"), _all("s3://to/in/"), True),
        (_all("s3://to/in/"), _all("s3://to/input/"), False),
        (_all("s3://to/in/"), _all("s3://other/in/"), False),
        (_all("s3://to/in/"), _all("s3://to/in/", target_endpoint_url="https://x.example"), False),
        (_all("s3://to/in/"), _all("s3://to/in/", target_endpoint_url="https://s3.eu-west-1.amazonaws.com"), True),
        (_all("s3://to/in/"), _one("s3://to/in/"), True),
        (_all("s3://to/in/"), _one("s3://to/"), False),
        (_one("s3://to/in"), _one("s3://to/in"), True),
        (_one("s3://to/in"), _one("s3://to/in.bai"), False),
        (_named("in/", "a", "b"), _named("in/", "b", "c"), True),
        (_named("in/", "a", "b"), _named("in/", "c"), False),
        (_named("in/", "a", "b"), _all("s3://to/in/"), True),
        (_named("in/", "a", "b"), _one("s3://to/in/b"), True),
        (_named("in", "/a"), _all("s3://to/in/"), True),
    ],
)
def test_overlap(one: TransferSpec, other: TransferSpec, overlap: bool) -> None:
    assert keyspace.may_overlap(one, other) is overlap
    assert keyspace.may_overlap(other, one) is overlap
    if overlap:
        prefixes = keyspace.target_prefix(one), keyspace.target_prefix(other)
        assert prefixes[0].startswith(prefixes[1]) or prefixes[1].startswith(prefixes[0])


def test_local_folders_are_compared_by_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "real/in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    def to(path: str) -> TransferSpec:
        return _all(str(tmp_path / path), allow_local=True)

    assert keyspace.may_overlap(to("real/in"), to("link/in/"))
    assert keyspace.may_overlap(to("real"), to("link/in"))
    assert not keyspace.may_overlap(to("real/in"), to("real/input"))
