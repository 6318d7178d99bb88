"""What the bench leaves of a bucket that is not its own: everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seqferry.bench.storage import BenchPrefix, Storage

OURS = "data/seqferry-bench-1/"


class PrefixBlindStorage:
    """A storage that lists the whole bucket whatever was asked for."""

    def __init__(self, *keys: str) -> None:
        self.keys = list(keys)

    def get_paginator(self, operation: str) -> Pages:
        return Pages(self, operation)

    def delete_objects(self, *, Delete: dict[str, Any], **_: object) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        for entry in Delete["Objects"]:
            self.keys.remove(entry["Key"])
        return {}

    def abort_multipart_upload(self, *, Key: str, **_: object) -> None:  # noqa: N803 - as boto3 has it
        self.keys.remove(Key)


class Pages:
    def __init__(self, storage: PrefixBlindStorage, operation: str) -> None:
        self.storage, self.operation = storage, operation

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        uploads = self.operation == "list_multipart_uploads"
        there = [
            {"Key": key, "Size": 1, "ETag": "e", "VersionId": "null", "UploadId": "u"}
            for key in self.storage.keys
            if key.endswith("unfinished") == uploads
        ]
        yield {
            {"list_multipart_uploads": "Uploads", "list_object_versions": "Versions"}.get(
                self.operation, "Contents"
            ): there
        }


def test_only_what_is_below_the_prefix_is_removed() -> None:
    theirs = ["data/reads.fastq.gz", "data/seqferry-bench-2/a", "other/unfinished"]
    client = PrefixBlindStorage(*theirs, OURS + "a", OURS + "b/c", OURS + "unfinished")
    place = BenchPrefix(bucket="b", prefix=OURS, endpoint_url="http://127.0.0.1:1", region="us-east-1")
    storage = Storage(place, client, None)

    assert storage.listing(OURS) == {OURS + "a": 1, OURS + "b/c": 1}
    storage.remove(OURS)

    assert client.keys == theirs
